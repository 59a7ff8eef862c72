"""`jax.experimental.hijax`: beside the reference, and what we do besides."""

from dataclasses import dataclass
from typing import Any

import hijax_scenarios as h
import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src import config, xla_bridge
from jax._src.hijax import Box, Log
from jax._src.interpreters import partial_eval as pe
from jax.experimental import hijax
from jax.experimental.hijax import HiPrimitive, VJPHiPrimitive, aval_method, aval_property
from jax.sharding import PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 4)

reference, test_reference, _ = case_tests(__file__)


def test_compiled_results():
    compiled = jax.jit(h.to_q).lower(h.matrix()).compile()
    arr, scale = h.parts(compiled(h.matrix()))
    assert arr.dtype == jnp.int8 and scale.shape == (2,)
    assert str(compiled.out_info) == "QTy(shape=(2, 3))"
    assert len(compiled.output_shardings) == 2  # one for each array
    box = h.new_box(1.0)
    compiled = h.add_to.lower(box, 2.0).compile()
    compiled(box, 2.0)
    assert box.get() == 3


def test_derivatives_are_not_exported():
    e = export.export(jax.jit(h.from_q))(h.QTy((2, 3)))
    assert not e.has_vjp()
    with pytest.raises(ValueError, match="takes or returns values of high types"):
        e.vjp()
    with pytest.raises(ValueError, match="does not have vjps"):
        e.serialize(vjp_order=1)
    inside = export.export(jax.jit(lambda x: h.from_q(h.to_q(x))))(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(inside.vjp().call(x := np.ones((2, 3), np.float32), x), [x])


def test_types_stand_for_arguments():
    q = h.quantized()
    assert "tensor<2x3xi8>" in jax.jit(h.from_q).lower(jax.typeof(q)).as_text()
    assert jax.eval_shape(h.from_q, jax.typeof(q)).shape == (2, 3)


def test_lojax_has_arrays_only():
    traced = jax.jit(h.from_q).trace(h.quantized())
    assert traced.jaxpr.is_high and not traced.lojax.is_high
    assert [str(a) for a in traced.lojax.in_avals] == ["int8[2,3]", "float32[2]"]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_cotangents_of_high_types(wrap):
    """The reference cannot add them."""
    f = lambda x: h.item(h.tup(x, x * 2), 1) * x + h.item(h.tup(x, x), 0)
    assert jax.grad(wrap(f))(jnp.float32(3.0)) == 13
    assert wrap(jax.grad(f))(jnp.float32(3.0)) == 13
    product = lambda t: h.item(t, 1) * h.item(t, 0)
    t = h.tup(jnp.float32(3.0), jnp.float32(4.0))
    assert jax.grad(wrap(product))(t).vals == (4, 3)
    assert wrap(jax.grad(product))(t).vals == (4, 3)
    assert jax.vjp(wrap(lambda t: t), t)[1](t)[0].vals == t.vals
    with pytest.raises(TypeError, match="must have type Tup"):
        jax.jvp(product, (t,), (1.0,))
    with pytest.raises(ValueError, match="expected Tup"):
        jax.vjp(lambda t: t, t)[1](1.0)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_scan_over_high_types(wrap):
    xs = h.a_tup()

    def run(t):
        step = lambda c, x: (c + h.item(x, 0) * h.item(x, 1), h.tup(c, h.item(x, 0)))
        return lax.scan(step, jnp.zeros(()), t, length=3)

    total, ys = wrap(run)(xs)
    assert total == 6
    np.testing.assert_array_equal(ys.vals, [[0, 0, 2], [0, 1, 2]])
    grad = wrap(jax.grad(lambda t: run(t)[0]))(xs)
    np.testing.assert_array_equal(grad.vals, [[2, 2, 2], [0, 1, 2]])
    _, tangents = wrap(lambda t: jax.jvp(run, (t,), (t,)))(xs)
    assert tangents[0] == 12


def test_vmap_of_loops_and_calls():
    spec = h.TupSpec((0, 0))
    steps = lambda t: lax.fori_loop(0, 2, lambda i, t: h.tup(h.item(t, 1), h.item(t, 0) + 1), t)
    for f in (steps, jax.jit(steps)):
        mapped = jax.vmap(f, in_axes=(spec,), out_axes=spec, axis_size=3)
        np.testing.assert_array_equal(mapped(h.a_tup()).vals, [[1, 2, 3], [3, 3, 3]])
    branches = lambda p, t: lax.cond(p, lambda t: h.tup(h.item(t, 1), h.item(t, 0)), lambda t: t, t)
    mapped = jax.vmap(branches, in_axes=(None, spec), out_axes=spec, axis_size=3)
    np.testing.assert_array_equal(mapped(True, h.a_tup()).vals, [[2, 2, 2], [0, 1, 2]])


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
@pytest.mark.parametrize("max_steps", [8, 30])  # with one level of segments, and with two
def test_bounded_loops(wrap, max_steps):
    def run(x, **bound):
        step = lambda t: h.tup(h.item(t, 1) * x, h.item(t, 0) * h.item(t, 1))
        t = lax.while_loop(lambda t: h.item(t, 0) < 50, step, h.tup(x, x + 1), **bound)
        return h.item(t, 0) * h.item(t, 1)

    def unrolled(x):
        a, b = x, x + 1
        for _ in range(4):
            a, b = b * x, a * b
        return a * b

    x = jnp.float32(1.5)
    bounded = wrap(lambda x: run(x, max_steps=max_steps))
    np.testing.assert_allclose(bounded(x), run(x), rtol=1e-6)
    for order in (jax.grad, lambda f: jax.jvp(f, (x,), (x,))[1], lambda f: jax.grad(jax.grad(f))):
        got, want = order(bounded), order(unrolled)
        pair = (got(x), want(x)) if callable(got) else (got, want)
        np.testing.assert_allclose(*pair, rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_bounded_loops_over_mutable_values(wrap):
    def run(x):
        box = h.new_box(1.0)

        def step(c):
            box.set(box.get() * 2.0)
            return c[0] + 1, c[1] * 3.0

        return lax.while_loop(lambda c: c[0] < 3, step, (0, x), max_steps=20)[1], box.get()

    assert wrap(run)(1.0) == (27, 8)
    with pytest.raises(TypeError, match="max_steps: the body uses a mutable value"):
        jax.grad(wrap(lambda x: run(x)[0]))(1.0)


def test_what_a_type_must_define():
    class Incomplete(h.HiType):
        pass

    for name in ("lo_ty", "vspace_zero", "leading_axis_spec", "to_tangent_aval"):
        with pytest.raises(NotImplementedError, match=f"Incomplete must define `{name}`"):
            getattr(Incomplete(), name)()
    with pytest.raises(NotImplementedError, match="must define `to_lojax`"):
        HiPrimitive("p").bind(1.0)
    with pytest.raises(NotImplementedError, match="'sin'.*no rule `to_lojax`"):
        lax.sin_p.to_lojax(1.0)
    with pytest.raises(TypeError):
        jnp.sin(h.quantized())


def test_operations_check_what_they_are_given():
    square = h.Square(jax.typeof(1.0))
    with pytest.raises(TypeError, match="takes arguments of types"):
        square(jnp.ones(3))
    with pytest.raises(TypeError, match="structure"):
        square(1.0, 2.0)

    class Wrong(VJPHiPrimitive):
        def __init__(self):
            self.in_avals, self.out_aval, self.params = (jax.typeof(1.0),), jax.typeof(1.0), {}
            super().__init__()

        def expand(self, x):
            return x, x

        def vjp_fwd(self, nzs_in, x):
            return x

    class WrongCotangents(Wrong):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, g):
            return ((g,),)

    with pytest.raises(TypeError, match="a cotangent for each argument"):
        jax.vjp(WrongCotangents(), 1.0)[1](1.0)
    with pytest.raises(TypeError, match="`expand` must return a result of the structure"):
        Wrong()(1.0)
    with pytest.raises(TypeError, match="must return a pair"):
        jax.grad(Wrong())(1.0)
    with pytest.raises(NotImplementedError, match="must implement `jvp`"):
        jax.jvp(Wrong(), (1.0,), (1.0,))
    with pytest.raises(NotImplementedError, match="`batch` or `batch_dim_rule`"):
        jax.vmap(Wrong())(jnp.ones(3))
    with pytest.raises(AttributeError, match="should set `self.in_avals`"):
        VJPHiPrimitive()


def test_remat_of_an_operation():
    assert jax.grad(jax.remat(h.square))(2.0) == 4


def test_batches_and_derivatives():
    x = np.arange(3, dtype=np.float32)
    f = lambda a, b: h.two(a, b)[0] + h.two(a, b)[1]["o"]
    grads = jax.jit(jax.vmap(jax.grad(f, (0, 1)), (0, None)))(x, 2.0)
    np.testing.assert_array_equal(grads, [[2, 2, 2], [1, 2, 3]])
    total = lambda a, b: jax.vmap(f, (0, None))(a, b).sum()
    grad = jax.grad(total, (0, 1))(x, 2.0)
    np.testing.assert_array_equal(grad[0], [2, 2, 2])
    assert grad[1] == 6
    nested = jax.vmap(jax.vmap(f, (None, 0)), (0, None))(x, x)
    np.testing.assert_array_equal(nested, x[:, None] * x + x + 1)


def test_boxes_in_checkpoint_and_calls():
    box = h.new_box(1.0)
    jax.jit(jax.remat(lambda b: b.set(b.get() * 2)))(box)
    jax.jit(jax.jit(lambda b: jax.jit(h.add_to)(b, 1.0)))(box)
    assert box.get() == 3
    assert isinstance(jax.typeof(box), type(box.ty))
    jax.jit(lambda b: isinstance(b, Box) or 1 / 0)(box)


def test_a_box_has_another_type_next_time():
    box = Box(jnp.ones(1))
    double = jax.jit(lambda: box.set(jnp.concatenate([box.get(), box.get()])))
    double()
    double()
    assert box.get().shape == (4,)


def test_condition_sees_what_the_body_changes():
    box = h.new_box(1.0)
    lax.while_loop(lambda c: box.get() < 20, lambda c: (box.set(box.get() * 2), c + 1)[1], 0)
    assert box.get() == 32
    with pytest.raises(TypeError, match="condition .* must not change"):
        lax.while_loop(lambda c: (box.set(1.0), c < 1)[1], lambda c: c + 1, 0)


def test_what_boxes_do_not_do():
    box = h.new_box(1.0)
    with pytest.raises(TypeError, match="stop_gradient"):
        jax.grad(lambda x: (box.set(x), x)[1])(1.0)
    with pytest.raises(TypeError, match="returned a mutable value"):
        jax.jit(lambda b: b)(box)
    with pytest.raises(TypeError, match="returned a mutable value"):
        lax.scan(lambda c, _: (c, box), 0, None, length=2)
    with pytest.raises(TypeError, match="has no slices: close over it"):
        lax.scan(lambda c, b: (c, None), 0, box, length=2)
    grow = lambda: box.set(jnp.append(box.get(), 1.0))
    with pytest.raises(TypeError, match="lax.scan must leave arrays of the same types"):
        lax.scan(lambda c, _: (grow(), (c, None))[1], 0, None, length=2)
    with pytest.raises(TypeError, match="branches .* must leave arrays of the same types"):
        jax.jit(lambda p: lax.cond(p, grow, lambda: None))(True)
    with pytest.raises(TypeError, match="read it outside"):
        jax.jit(lambda log: log.read())(Log())
    assert box.get() == 1


def test_not_differentiated_boxes_change():
    box = h.new_box(1.0)

    def f(x):
        box.set(2.0)
        return x * box.get()

    assert jax.grad(f)(3.0) == 2 and jax.grad(jax.jit(f))(3.0) == 2
    assert jax.jvp(f, (3.0,), (1.0,))[1] == 2


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_shard_map(wrap, check_vma):
    mesh = jax.make_mesh((2, 2), ("x", "y"), (jax.sharding.AxisType.Auto,) * 2)
    t = h.tup(jnp.arange(4.0), jnp.ones((4, 2)) * 2)
    spec = h.TupP((P("x"), P("y", "x")))
    body = lambda t: h.tup(h.item(t, 0) * 2, h.item(t, 1) + 1)
    sharded = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
    whole = wrap(sharded)(t)
    np.testing.assert_array_equal(whole.vals[0], [0, 2, 4, 6])
    np.testing.assert_array_equal(whole.vals[1], np.full((4, 2), 3))
    loss = lambda t: (h.item(sharded(t), 0) ** 2).sum() + h.item(sharded(t), 1).sum()
    grad = wrap(jax.grad(loss))(t)
    np.testing.assert_array_equal(grad.vals[0], [0, 8, 16, 24])
    np.testing.assert_array_equal(grad.vals[1], np.ones((4, 2)))
    _, tangent = wrap(lambda t: jax.jvp(sharded, (t,), (t,)))(t)
    np.testing.assert_array_equal(tangent.vals[1], np.full((4, 2), 2))
    x = jnp.arange(8.0).reshape(4, 2)
    over_x = dict(mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    rounded = jax.shard_map(h.rounded, **over_x)  # whose types do not say that values vary
    np.testing.assert_allclose(wrap(rounded)(x), x, rtol=1e-2)
    if not check_vma:  # tangents of this type do not say over which axes they vary
        np.testing.assert_array_equal(
            wrap(jax.grad(lambda x: rounded(x).sum()))(x), np.ones((4, 2))
        )
    squared = jax.shard_map(h.square, **over_x)
    np.testing.assert_array_equal(wrap(squared)(x), x * x)
    np.testing.assert_array_equal(wrap(jax.grad(lambda x: squared(x).sum()))(x), 2 * x)


def test_shard_map_checks_specs():
    mesh = jax.make_mesh((2, 2), ("x", "y"), (jax.sharding.AxisType.Auto,) * 2)
    t = h.tup(jnp.arange(4.0), jnp.ones((3, 2)))
    run = lambda *specs: jax.shard_map(
        lambda t: t, mesh=mesh, in_specs=specs[0], out_specs=specs[1]
    )(t)
    spec = h.TupP((P("x"), P()))
    with pytest.raises(TypeError, match="needs a `HiPspec`"):
        run(P("x"), spec)
    with pytest.raises(ValueError, match="refers to 'z'"):
        run(h.TupP((P("z"), P())), spec)
    with pytest.raises(ValueError, match="not evenly divisible"):
        run(h.TupP((P("x"), P("y"))), spec)
    with pytest.raises(ValueError, match="require replication"):
        run(spec, h.TupP((P(), P())))
    with pytest.raises(TypeError, match="mutable values"):
        box = h.new_box(1.0)
        jax.shard_map(lambda x: (box.set(2.0), x)[1], mesh=mesh, in_specs=P("x"), out_specs=P("x"))(
            jnp.arange(4.0)
        )
    with pytest.raises(TypeError, match="mutable values"):
        jax.shard_map(lambda b: b.get(), mesh=mesh, in_specs=P(), out_specs=P())(box)


@dataclass(frozen=True)
class Length:
    meters: Any


@dataclass(frozen=True)
class LengthTy(h.HiType):
    unit: str
    note = None

    def lo_ty(self):
        return [jax.typeof(jnp.float32(0))]

    def lower_val(self, length):
        return [length.meters]

    def raise_val(self, meters):
        return Length(meters)

    def _add(self, tracer, other):
        return make_length(meters_of(tracer) + meters_of(other))

    def _getitem(self, tracer, i):
        return (meters_of(tracer), i)

    def _len(self, tracer):
        return 7

    doubled = aval_method(lambda length, n=2: make_length(n * meters_of(length)))
    T = aval_property(lambda length: ("transposed", length))
    sum = aval_property(lambda length: "sum")


h.register_hitype(Length, lambda _: LengthTy("m"))


class MakeLength(HiPrimitive):
    def abstract_eval(self, x):
        return LengthTy("m"), set()

    def to_lojax(self, x):
        return Length(x)


class MetersOf(HiPrimitive):
    def abstract_eval(self, length):
        return jax.typeof(jnp.float32(0)), set()

    def to_lojax(self, length):
        return length.meters


make_length, meters_of = MakeLength("make_length").bind, MetersOf("meters_of").bind


def test_operators_and_attributes_of_tracers():
    length = Length(jnp.float32(3.0))

    @jax.jit
    def run(x):
        assert (
            x.unit == "m"
            and x.note is None
            and x.sum == "sum"
            and x.T[0] == "transposed"
            and len(x) == 7
        )
        assert x[5][1] == 5 and not isinstance(x, jax.Array)
        for wrong in (lambda: x * 2, lambda: x == x, lambda: -x, lambda: 2 - x, lambda: x in [1]):
            with pytest.raises(TypeError, match="have no operator"):
                wrong()
        for name in ("real", "shape", "something", "mean"):
            with pytest.raises(AttributeError, match=f"no attribute {name}"):
                getattr(x, name)
        return (x + x).doubled(n=3)

    assert run(length).meters == 18
    of_arrays = jax.jit(lambda x: -x[0].T.real.sum() + x.shape[0] + len(x) + x.max())
    assert of_arrays(jnp.ones((2, 2))) == 3


def test_state_of_mutable_values():
    box = h.new_box(1.0)
    seen = []

    @jax.jit
    def run(b, x):
        seen.append(jax.experimental.cur_qdd(b))
        b.set((x, x))
        seen.append(jax.experimental.cur_qdd(b))
        jax.jit(lambda: seen.append(jax.experimental.cur_qdd(b)))()

    run(box, jnp.ones(2))
    first, second, inside = [len(state.leaf_avals) for state in seen]
    assert (first, second, inside) == (1, 2, 2)
    assert len(jax.experimental.cur_qdd(box).leaf_avals) == 2
    with pytest.raises(AttributeError):
        jax.experimental.cur_qdd(1.0)


def test_vmap_beside_containers():
    """Where a library has registered containers with vmap, it takes another path."""
    import jax.experimental.sparse  # noqa: F401

    test_vmap_of_loops_and_calls()


def test_references_in_loops():
    ref = jax.new_ref(h.quantized())
    loop = lambda: lax.fori_loop(0, 3, lambda i, c: (h.set_doubled(ref), c)[1], 0)
    loop()
    jax.jit(loop)()
    np.testing.assert_allclose(h.from_q(ref[...]), h.matrix() * 64, rtol=1e-2, atol=1e-2)
    jax.lax.cond(True, lambda: h.set_doubled(ref), lambda: None)
    np.testing.assert_allclose(h.from_q(jax.freeze(ref)), h.matrix() * 128, rtol=1e-2, atol=1e-2)


def test_what_references_do_not_hold():
    ref = jax.new_ref(h.quantized())
    with pytest.raises(TypeError, match="holds no array"):
        ref[0]
    with pytest.raises(ValueError, match="swap"):
        jax.jit(lambda r: r.set(1.0))(ref)
    jax.free_ref(ref)
    with pytest.raises(RuntimeError, match="ended"):
        ref[...]


@pytest.mark.parametrize("kind", ["while_loop", "cond"])
def test_mapped_predicate(kind):
    def loop(n, x):
        step = lambda c: (c[0] + 1, h.tup(h.item(c[1], 0) * 2, x))
        return h.item(lax.while_loop(lambda c: c[0] < n, step, (0, h.tup(x, x)))[1], 0)

    def branches(n, x):
        return h.item(lax.cond(n > 1, lambda: h.tup(x, x), lambda: h.tup(2 * x, x)), 0)

    f = loop if kind == "while_loop" else branches
    xs = jnp.ones(2)
    assert jax.vmap(f, (None, 0))(2, xs).shape == (2,)
    message = f"vmap of {kind} with a mapped predicate chooses between arrays only.*type Tup"
    with pytest.raises(NotImplementedError, match=message):
        jax.vmap(f)(jnp.arange(2), xs)
    assert lax.map(lambda args: f(*args), (jnp.arange(2), xs)).shape == (2,)


class SinCos(VJPHiPrimitive):
    """Sine times `y`, and cosine. `keeps` says what the backward pass under `checkpoint` gets."""

    keeps: str

    def __init__(self, aval, keeps="nothing"):
        self.in_avals, self.out_aval, self.params = (aval, aval), (aval, aval), dict(keeps=keeps)
        super().__init__()

    def expand(self, x, y):
        return jnp.sin(x) * y, jnp.cos(x)

    def vjp_fwd(self, nzs_in, x, y):
        return (jnp.sin(x) * y, jnp.cos(x)), (x, y)

    def vjp_bwd_retval(self, res, g):
        (x, y), (g0, g1) = res, [hijax.instantiate_zeros(ct) for ct in g]
        return g0 * jnp.cos(x) * y - g1 * jnp.sin(x), g0 * jnp.sin(x)

    def dce(self, used_outs):
        if used_outs == (False, True):
            return (True, False), (False, True), Cos(self.in_avals[0])
        return super().dce(used_outs)

    def remat(self, policy, *args):
        out = self(*args)
        return out, (lambda *args: out) if self.keeps == "results" else self


class Cos(VJPHiPrimitive):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), (aval,), {}
        super().__init__()

    def expand(self, x):
        return (jnp.cos(x),)


def test_dead_results():
    f = lambda i: lambda x, y: SinCos(jax.typeof(x))(x, y)[i]
    jaxpr = jax.make_jaxpr(f(1))(1.0, 2.0).jaxpr
    smaller, used = pe.dce_jaxpr(jaxpr, [True])
    assert used == [True, False] and "Cos[{}]" in str(smaller) and "SinCos" not in str(smaller)
    assert pe.dce_jaxpr(jaxpr, [False])[0].eqns == []
    same, used = pe.dce_jaxpr(jax.make_jaxpr(f(0))(1.0, 2.0).jaxpr, [True])
    assert used == [True, True] and "SinCos" in str(same)
    assert jax.jit(f(1))(1.0, 2.0) == np.cos(np.float32(1))

    class Bad(SinCos):
        def dce(self, used_outs):
            return (True, False), True, Cos(self.in_avals[0])

    bad = jax.make_jaxpr(lambda x, y: Bad(jax.typeof(x))(x, y)[1])(1.0, 2.0).jaxpr
    with pytest.raises(TypeError, match="must return a primitive from the used arguments"):
        pe.dce_jaxpr(bad, [True])


@pytest.mark.parametrize("keeps", ["nothing", "results"])
def test_what_checkpoint_keeps(keeps):
    @jax.checkpoint
    def f(x):
        a, b = SinCos(jax.typeof(x), keeps)(x, 2 * x)
        return jnp.exp(a) * b

    x = jnp.float32(0.7)
    plain = lambda x: jnp.exp(jnp.sin(x) * 2 * x) * jnp.cos(x)
    wanted = jax.value_and_grad(plain)(x)
    for wrap in (lambda f: f, jax.jit):
        np.testing.assert_allclose(wrap(jax.value_and_grad(f))(x), wanted, rtol=1e-5)
    (again,) = [e for e in jax.make_jaxpr(jax.grad(f))(x).eqns if e.primitive.name == "remat2"]
    sines = [e for e in again.params["jaxpr"].eqns if e.primitive.name == "sin"]
    assert len(sines) == 2 + (keeps == "nothing")  # the backward rule has two
