"""Functions of shards: `jax.shard_map` and `jax.smap`, beside the reference and whole arrays."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, core, shard_map as shard_map_lib, test_util
from jax._src.errors import DuplicateSpecError
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)


@pytest.mark.parametrize("check_vma", [True, False])
def test_gradients_are_those_of_the_whole_function(mesh, check_vma):
    x = np.arange(32.0, dtype=np.float32).reshape(8, 4) / 10

    def shard(x):
        return jnp.sin(x) * jnp.cos(x.max())

    def whole(x):
        shards = x.reshape(4, 2, 4)
        return (jnp.sin(shards) * jnp.cos(shards.max((1, 2), keepdims=True))).reshape(8, 4)

    f = jax.shard_map(shard, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    for g, h in ((f, whole), (jax.jit(f), whole)):
        np.testing.assert_allclose(g(x), h(x), rtol=1e-6)
        got = jax.grad(lambda x: (g(x) ** 2).sum())(x)
        np.testing.assert_allclose(got, jax.grad(lambda x: (h(x) ** 2).sum())(x), rtol=1e-5)


X = np.arange(32.0, dtype=np.float32).reshape(8, 4) / 10


CONVERSIONS = {
    "bool": (lambda x: bool(x[0, 0] > 0), r"Attempted boolean conversion of .* bool\[\]\{V:\(x,y\)\}"),
    "float": (lambda x: float(x[0, 0]), r"float32\[\]\{V:\(x,y\)\}"),
    "index": (lambda x: range(x[0, 0].astype(int)), r"__index__\(\) .* int32\[\]\{V:\(x,y\)\}"),
    "array": (lambda x: np.asarray(lax.psum(x, "y")), r"__array__\(\) .* float32\[2,2\]\{V:x\}"),
    "list": (lambda x: lax.pcast(x, "x", to="unreduced").tolist(), r"float32\[2,2\]\{V:y, U:x\}"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSIONS)
def test_errors_of_conversions_say_over_which_axes_values_vary(mesh, name):
    convert, match = CONVERSIONS[name]
    f = jax.shard_map(convert, mesh=mesh, in_specs=P("x", "y"), out_specs=P())
    for g in (f, jax.jit(f), jax.grad(f), lambda x: jax.vmap(f)(x[None])):
        with pytest.raises((TypeError, jax.errors.ConcretizationTypeError), match=match):
            g(X)


def test_gradient_of_nested_maps(mesh):
    def inner(x):
        return jnp.sin(x) * lax.psum(x.sum(), ("x", "y"))

    def outer(x):
        specs = dict(in_specs=P(None, "y"), out_specs=P(None, "y"))
        return jax.shard_map(inner, axis_names={"y"}, **specs)(x)

    f = jax.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    whole = lambda x: jnp.sin(x) * x.sum()
    both = jnp.stack([X, 2 * X])
    for g, h in ((f, whole), (jax.jit(f), whole), (jax.jit(jax.vmap(f)), jax.vmap(whole))):
        x = both if g is not f and h is not whole else X
        np.testing.assert_allclose(g(x), h(x), rtol=1e-5)
        got = jax.jit(jax.grad(lambda x, g=g: (g(x) ** 2).sum()))(x)
        want = jax.grad(lambda x, h=h: (h(x) ** 2).sum())(x)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_collective_over_the_axis_of_vmap(mesh):
    f = jax.shard_map(
        lambda x: x - lax.pmean(x, ("i", "x")), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    both = jnp.stack([X, 3 * X])
    mean = np.tile(both.reshape(2, 4, 2, 4).mean((0, 1)), (4, 1))
    np.testing.assert_allclose(jax.vmap(f, axis_name="i")(both), both - mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit", [False, True])
def test_references_as_arguments_and_in_closures(mesh, jit):
    maybe_jit = jax.jit if jit else lambda f: f
    ref = jax.new_ref(jnp.asarray(X))

    def write(ref, x):
        ref[...] = ref[...] * 2 + x

    specs = dict(mesh=mesh, in_specs=(P("x"), P("x")), out_specs=())
    maybe_jit(jax.shard_map(lambda r, x: (write(r, x), ())[1], **specs))(ref, X)
    np.testing.assert_allclose(ref[...], 3 * X)

    total = jax.new_ref(jnp.zeros((2, 4), np.float32))

    def add(x):
        total[...] += lax.psum(x, "x")
        return x

    maybe_jit(jax.shard_map(add, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(X)
    np.testing.assert_allclose(total[...], X.reshape(4, 2, 4).sum(0))


def test_eager_calls_run_python_each_time_and_compile_once(mesh):
    calls = []
    factor = [2.0]

    def body(x):
        calls.append(type(x).__name__)
        return x * factor[0] + lax.axis_size("x")

    f = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(f(X), X * 2 + 4)
    with test_util.count_jit_compilation_cache_miss() as compiled:
        np.testing.assert_allclose(f(X), X * 2 + 4)
        g = jax.shard_map(lambda x: body(x), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        np.testing.assert_allclose(g(X), X * 2 + 4)
    assert compiled() == 0
    factor[0] = 3.0
    np.testing.assert_allclose(f(X), X * 3 + 4)
    assert calls == ["ShardMapTracer"] * 4


def test_values_are_available_between_operations(mesh):
    seen = []

    def body(x):
        y = x * 2
        total = lax.psum(y.sum(), "x")
        while total > 80:  # the same on all devices
            total = total / 2
            seen.append(float(total.item()))
        z = jax.jit(lambda y: y + total)(y)
        seen.append(str(z.sum()).count("mesh coordinates"))
        return z

    out = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    total = X.sum() * 2
    np.testing.assert_allclose(seen, [total / 2, 8], rtol=1e-6)
    np.testing.assert_allclose(out, X * 2 + total / 2, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*debug.*")
def test_nans_are_found_in_bodies(mesh):
    f = jax.shard_map(lambda x: jnp.log(x - 1) * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match="log"):
            f(X)
        with pytest.raises(FloatingPointError, match="log"):
            jax.jit(f)(X)


def test_errors_name_the_argument_and_the_remedy(mesh):
    def run(f, ins, outs, *args, **kwargs):
        return jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, **kwargs)(*args)

    same = lambda x, y: x
    with pytest.raises(ValueError, match=r"argument y\['k'\] of type float32\[6,4\].*Pad"):
        run(same, (P("x"), {"k": P("x")}), P("x"), X, {"k": X[:6]})
    with pytest.raises(ValueError, match=r"argument y has type float32\[8,4\], which has rank 2"):
        run(same, (P("x"), P("x", None, "y")), P("x"), X, X)
    with pytest.raises(
        ValueError, match=r"(?s)replicated across mesh axes \{'x'\}.*check_vma=False"
    ):
        run(lambda x: {"a": x}, P("x"), P(), X)
    with pytest.raises(ValueError, match=r"\(\*args\)\['a'\] of type float32\[2,4\]"):
        run(lambda x: {"a": x}, P("x"), P(), X)
    with pytest.raises(ValueError, match=r"dimension of size 1"):
        run(lambda x: x.sum(), P("x"), P("x"), X)
    with pytest.raises(ValueError, match=r"in_specs\[1\] refers to .y."):
        run(same, (P("x"), P("y")), P("x"), X, X, axis_names={"x"})
    with pytest.raises(ValueError, match=r"leave out `mesh`"):
        run(lambda x: run(lambda x: x, P("y"), P("y"), x), P("x"), P("x"), X)
    with pytest.raises(TypeError, match="keyword argument 'y'"):
        jax.shard_map(same, mesh=mesh, in_specs=P(), out_specs=P())(X, y=X)
    nested = lambda x: jax.shard_map(lambda y: y, in_specs=P("x"), out_specs=P("x"))(x)
    with pytest.raises(ValueError, match=r"an enclosing shard_map maps over \{'x'\} already"):
        run(nested, P("x"), P("x"), X, axis_names={"x"})
    reversed_mesh = jax.sharding.Mesh(mesh.devices[::-1], mesh.axis_names)
    with pytest.raises(ValueError, match=r"argument x of .* ids \[6, 7,.*Move it"):
        run(lambda x: x, P("x"), P("x"), jax.device_put(X, NamedSharding(reversed_mesh, P("x"))))
    for f in (run, jax.grad(lambda *args: run(*args).sum(), 3)):
        with pytest.raises(ValueError, match=r"argument (x|args\[0\]).* of (type|shard_map)"):
            f(lambda x: x, P("x"), P("x"), jax.device_put(X, jax.devices()[0]))
    with pytest.raises(ValueError, match="in a program for 1.*jax.set_mesh"):
        abstract = dict(mesh=mesh.abstract_mesh, in_specs=P("x"), out_specs=P("x"))
        jax.jit(jax.shard_map(lambda x: x, **abstract))(X)
    with pytest.raises(ValueError, match="divisible"):
        jax.vmap(
            jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("x"), out_specs=P("x")),
            spmd_axis_name="y",
        )(jnp.ones((3, 8, 4)))


@pytest.mark.parametrize(
    ("f", "ins", "outs", "name", "message"),
    [
        (lambda x: x, 2, 0, "x", r"axis 2 is out of bounds for argument x.*rank 2"),
        (lambda x: x.sum(), 0, 0, "x", r"out of bounds for result .*\(\*args\).*`x\[None\]`"),
        (lambda x: {"a": x}, 0, -3, "x", r"axis -3 is out of bounds for result .*\['a'\]"),
        (lambda x: x, 0, None, "x", r"(?s)out_axes which require replication.*an integer"),
        (lambda x: x, 0, 0, "z", r"smap axis_name 'z' is not an axis of the mesh"),
    ],
)
def test_errors_of_smap_are_about_axes(mesh, f, ins, outs, name, message):
    mapped = jax.smap(f, in_axes=ins, out_axes=outs, axis_name=name)
    with jax.set_mesh(mesh), pytest.raises(ValueError, match=message):
        mapped(X)
    with pytest.raises(ValueError, match="smap takes its mesh from there"):
        mapped(X)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("to", "spec", "message"),
    [
        ("unreduced", P(), r"is unreduced over mesh axes \{'x'\}.*psum"),
        ("unreduced", P("x"), r"is unreduced over mesh axes \{'x'\}"),
        ("reduced", P(), r"is reduced over mesh axes \{'x'\}.*`reduced` of the spec"),
        (None, P(reduced={"x"}), r"is not reduced over mesh axes \{'x'\}.*to='reduced'"),
    ],
)
def test_specs_tell_whether_results_are_reduced(mesh, to, spec, message, jit):
    explicit = mesh.update(axis_types=(AxisType.Explicit,) * 2)
    x = jax.device_put(X, NamedSharding(explicit, P("x")))

    def body(x):
        x = x if to == "unreduced" else jax.lax.psum(x, "x")
        return x if to is None else jax.lax.pcast(x, "x", to=to)

    f = jax.shard_map(body, mesh=explicit, in_specs=P("x"), out_specs=spec)
    with pytest.raises(ValueError, match=message):
        (jax.jit(f) if jit else f)(x)


@pytest.mark.parametrize("jit", [False, True])
def test_references_hold_what_their_type_says(mesh, jit):
    """Values that vary can be written to a reference that does not, but not read from it."""

    def run(body, outs=P("x"), args=(X,)):
        f = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=outs)
        return (jax.jit(f) if jit else f)(*args)

    def stores(make, at, value):
        def body(x):
            ref = jax.new_ref(make(x))
            ref[at()] = value(x)
            return ref[...]

        return body

    ones = lambda x: jnp.ones(4, X.dtype)
    whole = lambda: ...
    first = lambda: 0
    index = lambda: lax.axis_index("x") % 2
    varying = jnp.zeros_like
    same = lambda x: jnp.zeros((2, 4), X.dtype)
    one = np.ones((1, 4))
    full = np.tile([[1.0] * 4, [0.0] * 4, [0.0] * 4, [1.0] * 4], (2, 1))
    np.testing.assert_array_equal(run(stores(varying, index, ones)), full)
    np.testing.assert_array_equal(run(stores(varying, first, ones))[::2], np.tile(one, (4, 1)))
    np.testing.assert_array_equal(run(stores(varying, whole, lambda x: x)), X)

    def drops(x):
        ref = jax.new_ref(same(x))
        return x + jax.ref.swap(ref, ..., x)

    np.testing.assert_array_equal(run(drops), X)

    def in_scan(x):
        ref = jax.new_ref(same(x))
        lax.scan(lambda c, _: (ref.__setitem__(..., ref[...] + x), None), None, length=2)
        return x

    def in_cond(x):
        ref = jax.new_ref(same(x))
        write = lambda: ref.__setitem__(..., x)
        lax.cond(lax.axis_index("x") > 1, write, lambda: None)
        return ref[...]

    outside = jax.new_ref(jnp.zeros((2, 4)))

    def closes(x):
        outside[...] = x
        return x

    over_y = lambda x: lax.axis_index("y") * ones(x)
    reads = lambda x: jax.new_ref(jnp.arange(2.0))[index()][None]
    for body, axis, outs in (
        (stores(same, whole, lambda x: x), "x", P("x")),
        (stores(same, whole, lambda x: x), "x", P()),
        (stores(same, first, lambda x: x[0]), "x", P("x")),
        (stores(same, index, ones), "x", P()),
        (stores(varying, first, over_y), "y", P("x")),
        (in_scan, "x", P("x")),
        (in_cond, "x", P()),
        (closes, "x", P("x")),
        (reads, "x", P()),
    ):
        with pytest.raises(ValueError, match=rf"reference was made .*axes \('{axis}'\).*pcast"):
            run(body, outs)
    np.testing.assert_array_equal(outside[...], 0)
    with pytest.raises(ValueError, match=r"\(\*args\), a result .* mutable array reference"):
        run(jax.new_ref)


@pytest.mark.parametrize("axes", [{"x"}, {"x", "y"}])
def test_shardings_over_manual_axes_are_rejected(mesh, axes):
    sharding = NamedSharding(mesh, P("x"))
    for f in (
        lambda x: lax.with_sharding_constraint(x, sharding),
        lambda x: jax.device_put(x, sharding),
        jax.jit(jnp.sin, in_shardings=sharding),
        jax.jit(jnp.sin, out_shardings=sharding),
    ):
        mapped = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=axes)
        for g in (mapped, jax.jit(mapped)):
            with pytest.raises(ValueError, match=r"a shard_map.*maps over.*(Leave|out of)"):
                g(np.ones((16, 4)))


def test_unreduced_values_beside_manual_axes_are_rejected(mesh):
    explicit = mesh.update(axis_types=(AxisType.Explicit,) * 2)
    dot = lambda x: jax.sharding.reshard(
        jnp.dot(x, x.T, out_sharding=P(None, None, unreduced={"y"})), P(None, None)
    )
    nested = lambda x: jax.sharding.reshard(
        jax.shard_map(lambda x: x, out_specs=P(unreduced={"y"}), axis_names={"y"})(x), P(None, None)
    )
    with jax.set_mesh(explicit):
        x = jax.device_put(X, P("x", "y"))
        for f in (dot, nested):
            mapped = jax.shard_map(f, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
            with pytest.raises(NotImplementedError, match="unreduced over mesh axes 'y' within"):
                jax.jit(mapped)(x)


def test_a_failed_call_leaves_the_context_as_it_was(mesh):
    def body(x):
        raise ZeroDivisionError

    f = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    for g in (f, jax.jit(f), jax.grad(lambda x: f(x).sum())):
        with pytest.raises(ZeroDivisionError):
            g(X)
        assert jax.sharding.get_abstract_mesh().empty
        assert core.trace_ctx.is_top_level()
        assert not config.check_vma.value


def test_a_batch_over_a_mesh_axis_with_control_flow(mesh):
    def body(x, w):
        y = jax.jit(lambda x, w: (x * w, w))(x, w)
        z = lax.scan(lambda c, r: (c + r * w.sum(), c), y[0][0], y[0])[1]
        return lax.cond(x.sum() > 0, jnp.sin, jnp.cos, z), y[1], w

    f = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    both = jnp.stack([X, 2 * X])
    over_mesh = jax.vmap(f, in_axes=(0, None), spmd_axis_name="y")
    plain = jax.vmap(f, in_axes=(0, None))

    def loss(f):
        return lambda *args: sum(jnp.sum(jnp.sin(y)) for y in f(*args))

    for g in (lambda f: f, lambda f: jax.grad(loss(f), (0, 1))):
        for got, want in zip(jax.jit(g(over_mesh))(both, X), jax.jit(g(plain))(both, X)):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_all_gather_at_top_level():
    mesh = jax.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    gather = shard_map_lib.top_level_all_gather
    with jax.set_mesh(mesh):
        x = jax.device_put(X, P(("x", "y")))
        out = gather({"a": x}, P("x", reduced={"y"}))["a"]
        assert str(jax.typeof(out)) == "float32[8@x,4]{R:y}"
        np.testing.assert_array_equal(out, X)
        assert str(jax.typeof(gather(x, P()))) == "float32[8,4]"
        grad = jax.grad(lambda x: gather(x, P("x", reduced={"y"})).sum())(x)
        assert str(jax.typeof(grad)) == "float32[8@(x,y),4]"
        np.testing.assert_array_equal(grad, np.ones_like(X))
        with pytest.raises(ValueError, match="prefix"):
            gather(x, P("y"))
        with pytest.raises(ValueError, match="multi_dim=True"):
            gather(jax.device_put(X, P("x", "y")), P())
        np.testing.assert_array_equal(
            gather(jax.device_put(X, P("x", "y")), P(), multi_dim=True), X
        )
    with pytest.raises(ValueError, match="explicit"):
        gather(X, P())


def test_programs_that_take_partial_sums():
    mesh = jax.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        a, b = jax.device_put(X, P("x", "y")), jax.device_put(X[:4], P("y"))
        product = jax.jit(lambda a, b: jnp.dot(a, b, out_sharding=P("x", unreduced={"y"})))
        parts = product(a, b)
        for add, out in (
            (lambda v: lax.psum(v, "y"), P("x")),
            (lambda v: lax.psum_scatter(v, "y", tiled=True), P(("x", "y"))),
        ):
            f = jax.jit(jax.shard_map(add, in_specs=P("x", unreduced={"y"}), out_specs=out))
            assert "sdy.sharding_constraint %arg0" in f.lower(parts).as_text()
            np.testing.assert_allclose(f(parts), X @ X[:4], rtol=1e-6)
            np.testing.assert_allclose(f(product(a, 2 * b)), 2 * X @ X[:4], rtol=1e-6)


def test_callbacks_over_some_axes_are_called_once_along_the_others(mesh):
    seen = []
    f = jax.shard_map(
        lambda x: (jax.debug.callback(lambda v: seen.append(float(v)), x.sum()), x)[1],
        mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"},
    )  # fmt: skip
    for g in (f, jax.jit(f)):
        seen.clear()
        np.testing.assert_array_equal(g(X), X)
        jax.effects_barrier()
        np.testing.assert_allclose(sorted(seen), X.reshape(4, 8).sum(1), rtol=1e-6)
    f = jax.shard_map(
        lambda x: jax.experimental.io_callback(lambda v: v, jax.typeof(x), x),
        mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"},
    )  # fmt: skip
    with pytest.raises(NotImplementedError, match="axis_names"):
        jax.jit(f)(X)


@pytest.mark.parametrize("jit", [False, True])
def test_ordered_callbacks(mesh, jit):
    seen = {}

    def log(i, v):
        seen.setdefault(int(i), []).append(float(v))

    def body(x):
        i = lax.axis_index(("x", "y"))
        for k in range(3):
            jax.experimental.io_callback(log, None, i, x.sum() + k, ordered=True)
        return x

    f = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal((jax.jit(f) if jit else f)(X), X)
    jax.effects_barrier()
    assert sorted(seen) == list(range(8))
    assert all(values == sorted(values) and len(values) == 3 for values in seen.values())


def test_python_sees_values_that_are_differentiated(mesh):
    branches = []

    def body(x, w):
        total = lax.psum((x * w).sum(), "x")
        branches.append(bool(total > 10))
        return x * x if total > 10 else x * w

    f = jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))
    loss = lambda x, w: jnp.sum(jnp.sin(f(x, w)))
    for scale, branch in ((1.0, True), (0.1, False)):
        x, w = X * scale, jnp.float32(2.0)
        whole = (lambda x, w: x * x) if branch else (lambda x, w: x * w)
        want = jax.grad(lambda x, w: jnp.sum(jnp.sin(whole(x, w))), (0, 1))(x, w)
        branches.clear()
        for got, expected in zip(jax.grad(loss, (0, 1))(x, w), want):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        tangent = jax.jvp(loss, (x, w), (x, w))[1]
        np.testing.assert_allclose(tangent, (want[0] * x).sum() + want[1] * w, rtol=1e-4)
        assert branches == [branch, branch]
    w = jnp.float32(3.0)

    def closes_over(w):  # a tracer
        g = jax.shard_map(lambda x: x * w, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        return g(X).sum()

    np.testing.assert_allclose(jax.grad(closes_over)(w), X.sum(), rtol=1e-6)
    both = jax.grad(lambda x, w: (closes_over(w) * f(x, w)).sum(), (0, 1))(X, w)
    assert np.isfinite(both[0]).all() and np.isfinite(both[1])


_SWAP = [(0, 1), (1, 0)]
_GSPMD = {
    "reductions": lambda x: lax.psum(x, "x") + lax.pmax(lax.stop_gradient(x), "x"),
    "permutation": lambda x: lax.ppermute(x, "x", _SWAP) + lax.axis_index("x"),
    "scatter": lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
    "gather": lambda x: lax.all_gather(x, "x", tiled=True),
    "exchange": lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True),
    "scan": lambda x: lax.scan(lambda c, a: (c + lax.psum(a, "x"), c), x[0] * 0, x)[1],
    "branch": lambda x: lax.cond(lax.axis_index("x") < 2, jnp.sin, jnp.cos, x),
    "keys": lambda x: (
        x * jax.random.uniform(jax.random.fold_in(jax.random.key(0), lax.axis_index("x")), x.shape)
    ),
}


@pytest.mark.parametrize("name", _GSPMD)
@pytest.mark.parametrize("axes", [(), ("x",)])
def test_gspmd_partitioner(mesh, name, axes):
    f = jax.shard_map(
        _GSPMD[name], mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=set(axes),
        check_vma=False,
    )  # fmt: skip
    grad = jax.jit(jax.grad(lambda x: (f(x) ** 2).sum()))
    want, want_grad = jax.jit(f)(X), grad(X)
    with config.use_shardy_partitioner(False):
        if axes and name in ("gather", "exchange"):  # the compiler ends the process
            with pytest.raises(NotImplementedError, match="Map all axes"):
                jax.jit(f)(X)
            return
        got = [f(X), jax.jit(f)(X)] if not axes else [jax.jit(f)(X)]
        assert "sdy" not in jax.jit(f).lower(X).as_text()
        if not axes or name != "scatter":  # whose derivative gathers
            np.testing.assert_allclose(grad(X), want_grad, rtol=1e-5, atol=1e-6)
    for g in got:
        np.testing.assert_allclose(g, want, rtol=1e-5, atol=1e-6)


def test_gspmd_partitioner_in_nested_maps(mesh):
    def outer(x):
        inner = jax.shard_map(
            lambda x: jnp.sin(lax.all_gather(x, "y", axis=1, tiled=True)) + lax.axis_index("y"),
            in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}, check_vma=False,
        )  # fmt: skip
        return inner(lax.psum(x, "x"))

    f = jax.jit(
        jax.shard_map(
            outer, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
        )
    )
    want, pmapped = f(X), jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(X)
    with config.use_shardy_partitioner(False):
        np.testing.assert_allclose(f(X), want, rtol=1e-6)
        got = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(X)
    np.testing.assert_allclose(got, pmapped)


def test_spec_with_an_axis_twice(mesh):
    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("x", "x"), out_specs=P("x"))
    with pytest.raises(DuplicateSpecError, match="names mesh axis 'x' twice") as caught:
        f(X)
    assert caught.value.mesh == mesh and caught.value.pspec == P("x", "x")


@pytest.mark.parametrize("check_vma", [True, False])
def test_ordered_prints_of_an_eager_map(mesh, check_vma, capsys):
    seen = []

    def body(x, w):
        jax.debug.print("a {} {}", x[0, 0], w, ordered=True)
        y = x.sum() * 2
        jax.debug.print("b {y} {k}", y=y, k="text", ordered=True)
        jax.debug.callback(lambda v: seen.append(float(v)), lax.psum(y, "x"), ordered=True)
        return x + y

    f = jax.shard_map(
        body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=check_vma
    )
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    out = f(x, jnp.float32(3))
    jax.effects_barrier()
    np.testing.assert_allclose(out, x + 2 * x.sum(1, keepdims=True))
    first = [f"a {v:.1f} 3.0" for v in x[:, 0] for _ in range(2)]
    second = [f"b {v:.1f} text" for v in 2 * x.sum(1) for _ in range(2)]
    assert capsys.readouterr().out.splitlines() == first + second
    assert seen == [56.0] * 8
    with pytest.raises(ValueError, match=r"not supported.*: OrderedDebug, .*ordered=False"):
        jax.jit(f)(x, jnp.float32(3))


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_prints_in_the_context_of_the_mesh(axis_type, capsys):
    def body(x):
        total = x.sum()  # a scalar that differs between devices
        print(total)
        jax.debug.print("{}", total, ordered=True)
        return x

    mesh = jax.make_mesh((2,), ("x",), (axis_type,))
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(4, dtype=np.float32), P("x"))
        jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)
    jax.effects_barrier()
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line and not line.startswith("On")] == ["1.0", "5.0"] * 2


def test_collectives_over_an_axis_named_twice(mesh):
    twice = ("x", "x")
    for f in (
        lambda x: lax.psum(x, twice),
        lambda x: lax.pmax(x, twice),
        lambda x: lax.all_gather(x, twice),
        lambda x: lax.psum_scatter(x, twice, tiled=True),
        lambda x: lax.all_to_all(x, twice, 0, 0, tiled=True),
        lambda x: lax.ppermute(x, twice, [(0, 1)]),
    ):
        g = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        for call in (g, jax.jit(g), jax.vmap(f, axis_name="x")):
            with pytest.raises(ValueError, match="names axis 'x' twice"):
                call(jnp.ones((64, 16)))


@pytest.mark.parametrize("check_vma", [True, False])
def test_vmap_hides_a_mesh_axis_of_the_same_name(mesh, check_vma):
    x = jnp.arange(32.0).reshape(8, 4)
    for f in (lambda a: lax.psum(a, "x"), lambda a: lax.pmax(a, "x") + lax.axis_index("x")):
        mapped = jax.vmap(f, axis_name="x")
        g = jax.shard_map(mapped, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
        expected = jnp.concatenate([mapped(part) for part in jnp.split(x, 4)])
        np.testing.assert_array_equal(g(x), expected)
        np.testing.assert_array_equal(jax.jit(g)(x), expected)


CREATED = {
    "zeros": lambda s: jnp.zeros(8, device=s),
    "full": lambda s: jnp.full(8, 2.0, device=s),
    "ones_like": lambda s: jnp.ones_like(jnp.zeros(8), device=s),
    "array": lambda s: jnp.array(X[:, 0], device=s),
    "asarray": lambda s: jnp.asarray(X[:, 0], device=s),
    "astype": lambda s: jnp.astype(jnp.zeros(8), int, device=s),
    "arange": lambda s: jnp.arange(8, device=s),
    "linspace": lambda s: jnp.linspace(0, 1, 8, device=s),
    "eye": lambda s: jnp.eye(8, device=s),
    "fft.fftfreq": lambda s: jnp.fft.fftfreq(8, device=s),
}


EQUAL_ELEMENTS = {"zeros": 0.0, "full": 16.0, "ones_like": 8.0}  # and their sums


@pytest.mark.parametrize("name", CREATED)
@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_creating_values_that_are_split_over_a_mapped_axis(name, axis_type):
    mesh = jax.make_mesh((4, 2), ("x", "y"), (axis_type,) * 2)
    create, x = CREATED[name], jax.device_put(X, NamedSharding(mesh, P("x")))
    for axes in ({"x"}, {"x", "y"}):
        f = jax.shard_map(
            lambda x: create(NamedSharding(mesh, P("x"))).sum() + x,
            mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=axes,
        )  # fmt: skip
        if name in EQUAL_ELEMENTS:  # each shard is such an array, wherever it is asked to be
            np.testing.assert_array_equal(jax.jit(f)(x), X + EQUAL_ELEMENTS[name])
            continue
        with pytest.raises(ValueError, match=rf"passed to jnp\.{name} .* axis 'x'.*Leave it out"):
            jax.jit(f)(x)


@pytest.mark.parametrize("types", ["EE", "EA"])
def test_gradient_of_arguments_that_change_their_explicit_sharding(types):
    kinds = {"E": AxisType.Explicit, "A": AxisType.Auto}
    mesh = jax.make_mesh((4, 2), ("x", "y"), tuple([kinds[t] for t in types]))
    with jax.set_mesh(mesh):
        f = jax.shard_map(jnp.sin, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
        for spec in (P(), P(None, "x")):
            x = jax.device_put(X, spec)
            for grad in (jax.grad, lambda f: jax.jit(jax.grad(f))):
                got = grad(lambda x: (f(x) ** 2).sum())(x)
                assert jax.typeof(got) == jax.typeof(x)
                np.testing.assert_allclose(got, np.sin(2 * X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_shardings_of_constants_inside(kind):
    mesh = jax.make_mesh((4, 2), ("x", "y"), (kind,) * 2)
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    for sharding in (NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))):
        for name, constant in {
            "full": lambda: lax.full((2, 4), 3.0, sharding=sharding),
            "full_like": lambda: lax.full_like(X[:2], 3.0, sharding=sharding),
            "zeros": lambda: jnp.zeros((2, 4), device=sharding) + 3,
            "closure": lambda: jnp.zeros_like(x)[:2] + 3,  # no matter where `x` is
        }.items():
            for axes in (("x", "y"), ("x",)):
                f = jax.shard_map(
                    lambda x: x + constant(), mesh=mesh, in_specs=P("x"), out_specs=P("x"),
                    axis_names=set(axes),
                )  # fmt: skip
                np.testing.assert_allclose(f(x), X + 3, err_msg=f"{name} {sharding} {axes}")
                np.testing.assert_allclose(jax.jit(f)(x), X + 3)
