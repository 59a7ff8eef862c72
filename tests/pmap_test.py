"""pmap beside the reference, and what it accepts, tells or caches otherwise."""

import gc
import sys
import weakref

import numpy as np
import process_testing
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax, pmap
from jax._src import config, xla_bridge as xb
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

# Later jaxlibs divide shards without elements, on which that of the results raises an error.
EMPTY = (
    "float32[2,0,3] committed Mesh('_internal_pmap_axis_name': 2, axis_types=(Auto,)) "
    "['_internal_pmap_axis_name'] device [0, 1] [[], []]"
)
reference, test_reference, _ = case_tests(
    __file__,
    later={"types_empty_shards": lambda _: {"call": ([EMPTY], [False], "PyTreeDef(*)")}},
)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

V2 = np.arange(2, dtype=np.float32) + 0.5
V8 = np.arange(8, dtype=np.float32)
M22 = np.arange(4, dtype=np.float32).reshape(2, 2)
X = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


def python_calls(f, *args, **kwargs):
    """The names of the Python functions that a call runs."""
    called = []
    sys.setprofile(
        lambda frame, event, arg: called.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        f(*args, **kwargs)
    finally:
        sys.setprofile(None)
    return called


# Calls


def test_second_call_is_native():
    f = pmap(lambda x, n, *, y: (lax.psum(x, "i") * n, {"y": y}), "i", static_broadcasted_argnums=1)
    x = pmap(lambda x: x)(V8)
    f(x, 3, y=x)
    assert python_calls(f, x, 3, y=x) == []
    assert f._cache_size() == 1
    f(x, 4, y=x)
    assert f._cache_size() == 2


def test_arrays_are_not_copied():
    f = pmap(lambda x: x + 1, donate_argnums=0)
    x = pmap(lambda x: x)(V8)
    pointers = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
    y = f(x)
    assert [s.data.unsafe_buffer_pointer() for s in y.addressable_shards] == pointers
    assert x.is_deleted()


def test_traces_are_shared():
    traced = []

    def g(x):
        traced.append(x)
        return x

    f = pmap(g)
    for x in (V2, V2, jnp.asarray(V2), f(V2), V8):
        f(x)
    pmap(g)(V2)
    jax.grad(lambda x: pmap(g)(x).sum())(V2)
    assert len(traced) == 2
    f.clear_cache()
    f(V2)
    assert len(traced) == 3


def test_options_are_not_confused():
    def g(x, y):
        return x * 2 + y

    outs = [
        pmap(g, in_axes=i, out_axes=o)(M22, np.ones((2, 2), np.float32))
        for i in (0, 1, (0, 1)) for o in (0, 1)
    ]  # fmt: skip
    want = M22 * 2 + 1
    for out, transposed in zip(outs, (False, True, True, False, False, True)):
        np.testing.assert_array_equal(out, want.T if transposed else want)
    a, b = [pmap(lambda x: x, n)(V2) for n in ("a", "b")]
    assert a.sharding.mesh.axis_names == ("a",) and b.sharding.mesh.axis_names == ("b",)


def test_function_is_collected():
    def make():
        def g(x):
            return x + 1

        f = pmap(g)
        f(V2)
        return weakref.ref(g)

    ref = make()
    gc.collect()
    assert ref() is None


def test_failed_call_changes_nothing():
    fail = True

    def g(x):
        if fail:
            raise RuntimeError("not yet")
        return lax.psum(x, "i")

    f = pmap(g, "i")
    with pytest.raises(RuntimeError, match="not yet"):
        f(V2)
    with pytest.raises(NameError):
        lax.axis_index("i")
    assert jax.sharding.get_abstract_mesh().empty
    fail = False
    np.testing.assert_array_equal(f(V2), [2, 2])


# Arguments that the reference does not take


def test_negative_axes():
    out = pmap(lambda x: x * 2, in_axes=-1, out_axes=-1)(X)
    np.testing.assert_array_equal(out, X * 2)
    assert out.sharding.spec == P(None, None, "_internal_pmap_axis_name")
    np.testing.assert_array_equal(pmap(lambda x: x, in_axes=1, out_axes=-2)(X), X)


def test_list_of_axes():
    np.testing.assert_array_equal(pmap(lambda x, y: x + y, in_axes=[0, None])(V2, 1.0), V2 + 1)


def test_negative_static_argument():
    f = pmap(lambda x, n: x * n, static_broadcasted_argnums=-1)
    np.testing.assert_array_equal(f(V2, 3), V2 * 3)


def test_any_hashable_axis_name():
    name = object()
    np.testing.assert_array_equal(pmap(lambda x: lax.psum(x, name), name)(V2), [2, 2])


def sharded(shape, names, *spec):
    mesh = Mesh(
        np.array(jax.devices("cpu")[: np.prod(shape)]).reshape(shape), tuple(names),
        axis_types=(AxisType.Auto,) * len(names),
    )  # fmt: skip
    return NamedSharding(mesh, P(*spec))


@pytest.mark.parametrize(
    "where",
    [
        lambda: jax.devices("cpu")[3],
        lambda: sharded((8,), "z"),
        lambda: sharded((4,), "z", "z"),
        lambda: sharded((4, 2), "zw", "z"),
        lambda: jax.tree.map(lambda s: s, sharded((2, 4), "zw", ("w", "z"))),
    ],
)
def test_arrays_cut_otherwise_are_moved(where):
    f = pmap(lambda x: lax.psum(x, "i"), "i")
    x = jax.device_put(V8, where())
    for _ in range(2):  # the second call is native
        np.testing.assert_array_equal(f(x), np.full(8, 28))
    assert f(x).sharding == pmap(lambda x: x, "i")(V8).sharding


def test_mapped_result_as_shared_argument():
    x = pmap(lambda x: x)(V8)
    f = pmap(lambda x, y: x + y.sum(), in_axes=(0, None))
    for _ in range(2):
        np.testing.assert_array_equal(f(x, x), V8 + 28)


def test_elements_of_larger_array():
    x = pmap(lambda x: x)(V8)
    np.testing.assert_array_equal(pmap(lambda x: x * 2)(x[2:6]), V8[2:6] * 2)


@pytest.mark.parametrize("devices", [slice(None), slice(None, None, -1), slice(2, 6)])
def test_rows_of_results(devices):
    x = np.arange(48, dtype=np.float32).reshape(8, 3, 2)[devices]
    y = pmap(lambda x: x, devices=jax.devices("cpu")[devices])(x)
    halves = jax.device_put(np.repeat(x, 2, 0), y.sharding)  # two rows on each device
    with jax.transfer_guard_device_to_device("disallow_explicit"):
        for i in range(-len(x), len(x)):
            np.testing.assert_array_equal(y[i], x[i])
            np.testing.assert_array_equal(halves[2 * i + 1], x[i])
    want = jax.jit(
        lambda y: lax.index_in_dim(y, 1, keepdims=False),
        out_shardings=NamedSharding(y.sharding.mesh, P()),
    )(y)
    assert y[1].sharding == want.sharding and y[1].aval == want.aval and y[1].committed
    np.testing.assert_array_equal(y.at[0].get(), x[0])
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        y[0]


def test_rows_in_the_context_of_a_mesh():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(V8, NamedSharding(mesh, P("x")))
    want = x[3]
    with jax.set_mesh(mesh):
        row = x[3]
    assert row.sharding == want.sharding == NamedSharding(mesh, P()) and row == V8[3]


def test_rows_of_reduced_array():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    spec = P(None, reduced={"x"})
    x = jax.device_put(np.arange(16.0, dtype=np.float32).reshape(8, 2), NamedSharding(mesh, spec))
    row = x[3]
    assert row.sharding.spec == spec
    np.testing.assert_array_equal(row, [6, 7])


def test_rows_of_many_results():
    """As many programs with collectives, which run at the same time, would end in a deadlock."""
    tree = [pmap(lambda x: x)(V8) + i for i in range(200)]
    assert [float(x) for x in jax.tree.map(lambda x: x[3], tree)] == [3.0 + i for i in range(200)]


# Within other meshes and maps


def test_nested():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(pmap(pmap(lambda x: x * 2))(x), x * 2)
    f = pmap(
        pmap(lambda x: (lax.psum(x, "j"), lax.psum(x, ("i", "j")), lax.axis_index("j")), "j"), "i"
    )
    by_row, total, index = f(x)
    np.testing.assert_array_equal(by_row, np.broadcast_to(x.sum(1, keepdims=True), x.shape))
    np.testing.assert_array_equal(total, np.full(x.shape, x.sum()))
    np.testing.assert_array_equal(index, np.broadcast_to(np.arange(8), x.shape))


def test_nested_axes():
    inner = pmap(
        lambda x, n, y: (x * n + y, lax.psum(x, "j")), "j", in_axes=(1, None, None), out_axes=(1, None),
        static_broadcasted_argnums=1,
    )  # fmt: skip
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    whole, total = pmap(lambda x: inner(x, 3, x[0, 0]))(x)
    np.testing.assert_array_equal(whole, x * 3 + x[:, :1, :1])
    np.testing.assert_array_equal(total, x.sum(2))


def test_nested_gradient():
    f = pmap(pmap(lambda x: jnp.sin(x) * lax.psum(x, "j"), "j"), "i")
    x = M22 + 1
    want = np.cos(x) * x.sum(1, keepdims=True) + np.sin(x).sum(1, keepdims=True)
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(x), want, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(f)(x), np.sin(x) * x.sum(1, keepdims=True), rtol=1e-6)


def test_nested_disable_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(
            pmap(pmap(lambda x: lax.psum(x, "j"), "j"))(M22), [[1, 1], [5, 5]]
        )


def test_within_shard_map():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    f = jax.shard_map(
        lambda x: pmap(lambda y: lax.psum(y, ("x", "i")), "i")(x), mesh=mesh, in_specs=P("x"), out_specs=P(),
    )  # fmt: skip
    np.testing.assert_array_equal(f(V8), np.full(2, V8.sum()))


@pytest.mark.parametrize("types", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("n", [2, 8])
def test_mesh_in_context_is_left_alone(types, n):
    mesh = jax.make_mesh((8,), ("x",), axis_types=(types,))
    f = pmap(lambda x: lax.psum(x, "i"), "i")
    with jax.set_mesh(mesh):
        np.testing.assert_array_equal(f(V8[:n]), np.full(n, V8[:n].sum()))
        np.testing.assert_array_equal(f(f(V8[:n])), np.full(n, V8[:n].sum() * n))
        assert jax.sharding.get_mesh() == mesh


def test_disable_jit_gives_values():
    seen = []

    def f(x, n):
        y = lax.psum(x, "i")
        seen.append(str(y))
        return y * n

    with jax.disable_jit():
        out = pmap(f, "i", static_broadcasted_argnums=1)(V2, 2)
        assert "2." in seen[0]
        np.testing.assert_array_equal(out, [4, 4])
        np.testing.assert_array_equal(pmap(lambda x: x)(out), out)
        np.testing.assert_array_equal(jax.grad(lambda x: pmap(jnp.square)(x).sum())(V2), V2 * 2)


def test_ahead_of_time():
    f = pmap(lambda x: lax.psum(x, "i") + 1, "i")
    assert not isinstance(f, jax.stages.Wrapped)  # it has no `trace`
    lowered = f.lower(V2)
    assert lowered.out_info.shape == (2,)
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(V2), [3, 3])
    assert "all-reduce" in compiled.as_text()
    assert f.eval_shape(V2) == jax.ShapeDtypeStruct((2,), np.float32)


# Errors


def raises(message, f, *args, error=ValueError, **kwargs):
    with pytest.raises(error, match=message):
        f(*args, **kwargs)


def test_errors_name_the_arguments():
    def norm(x, y, **k):
        return x

    raises(
        r"(?s)most axes \(3 of them\) had size 2.*axis 0 of argument x\['b'\] of type float32\[2\]"
        r".*one axis had size 8: axis 0 of argument x\['a'\]",
        pmap(norm), {"a": V8, "b": V2}, (V2, V2),
    )  # fmt: skip
    raises(
        r"requires 9 replicas, but only 8 XLA devices are available.*pmap of norm",
        pmap(norm),
        np.ones(9),
        0 * V8[:1].repeat(9),
    )
    raises("along axis 3, which implies.*argument x", pmap(norm, in_axes=(3, None)), X, 1.0)
    raises("rank should be at least 1, but is only 0.*argument y", pmap(norm), V2, 1.0)
    raises("at least one argument with a mapped axis", pmap(norm, in_axes=None), V2, V2)
    raises(
        r"axis 4 is out of bounds for the result\['k'\] of <lambda>",
        pmap(lambda x: {"k": x}, out_axes=4),
        V2,
    )
    raises(r"len\(in_axes\)=2, len\(args\)=1.*keyword", pmap(norm, in_axes=(0, None)), V2, y=V2)
    raises("called with only 1 positional argument", pmap(norm, static_broadcasted_argnums=1), V2)
    raises(
        r"at path y.*\n.*static_broadcasted_argnums parameter of jax.pmap",
        pmap(norm),
        V2,
        "text",
        error=TypeError,
    )
    raises("mapped axis has size 0", pmap(norm), V2[:0], V2[:0])
    raises("devices more than once: ids", pmap, norm, devices=jax.devices("cpu")[:1] * 2)
    raises(r"axis_name is \('a', 'b'\): collectives take a tuple", pmap, norm, ("a", "b"))
    raises(
        r"arguments \[1\] cannot be both static and donated",
        pmap,
        norm,
        static_broadcasted_argnums=1,
        donate_argnums=1,
    )
    raises("size 4: the argument axis_size", pmap(norm, axis_size=4), V2, V2)


@pytest.mark.parametrize("name", ["device_put_sharded", "device_put_replicated"])
def test_removed_functions(name):
    with pytest.raises(AttributeError, match=f"jax.{name} was removed: use jax.device_put"):
        getattr(jax, name)


def test_errors_of_several_processes():
    text = """
import os, sys
import jax, numpy as np
from jax import lax, pmap

me = int(os.environ["JAX_LAUNCH_PROCESS_ID"])
jax.distributed.initialize(os.environ["JAX_LAUNCH_COORDINATOR"], 2, me, initialization_timeout=60)
f = lambda x: lax.psum(x, "i")
for size, options in ((1, {}), (4, {}), (2, dict(axis_size=2)), (2, dict(devices=jax.devices()[1:3]))):
    try:
        pmap(f, "i", **options)(np.ones(size))
    except ValueError as err:
        print("@@" + str(err))
print("@@" + str(jax.eval_shape(pmap(lambda x: lax.all_gather(x, "i"), "i"), np.ones(2)).shape))
with jax.disable_jit():
    print("\\n@@" + str(pmap(f, "i")(np.ones(2))))
"""
    for output in process_testing.run(text, 2, devices=2):
        small, large, total, few, shape, values = [
            line for line in output.splitlines() if line.startswith("@@")
        ]
        assert "over 4 devices of several processes" in small and "has size 1" in small
        assert "must have the size 2" in large and "has size 4" in large
        assert "axis_size=2" in total and "over all of them, which is 4" in total
        assert "over 2 devices" in few and "must have the size 1" in few
        assert "(2, 4)" in shape and "[4. 4.]" in values


# References


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_mapped_references(axis):
    def f(x, ref, shared):
        assert ref.shape == x.shape
        old = ref[...]
        ref[...] = x * 2
        ref[0] += 1
        return old + shared[...]

    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    ref, shared = jax.new_ref(x + 100), jax.new_ref(jnp.float32(0.5))
    mapped = pmap(f, in_axes=(axis, axis, None), out_axes=axis)
    for g in (mapped, jax.jit(mapped)):
        ref[...] = x + 100
        np.testing.assert_array_equal(g(x, ref, shared), x + 100.5)
        first = np.moveaxis(np.zeros_like(x), axis, 0)
        first[:, 0] = 1
        np.testing.assert_array_equal(ref[...], x * 2 + np.moveaxis(first, 0, axis))


def test_escaped_tracer_with_disable_jit():
    leaked = []
    jax.jit(lambda x: leaked.append(x))(1.0)
    with jax.disable_jit(), pytest.raises(jax.errors.UnexpectedTracerError):
        pmap(lambda x: x + leaked[0])(V2)
