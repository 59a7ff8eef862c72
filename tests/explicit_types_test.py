"""Types under an explicit mesh beside the reference, and what it does not tell or compute."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, core, xla_bridge as xb
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
)

reference, test_reference, _ = case_tests(__file__)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

ABSTRACT = AbstractMesh((2, 4), ("x", "y"), (AxisType.Explicit,) * 2)


def of(shape, *spec, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(ABSTRACT, P(*spec)))


def devices(n=8):
    found = xb.devices("cpu")
    if len(found) < n:
        pytest.skip(f"needs {n} CPU devices")
    return found[:n]


@pytest.fixture
def mesh():
    mesh = Mesh(np.array(devices()).reshape(2, 4), ("x", "y"), (AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        yield mesh


XY, X0 = of((8, 8), "x", "y"), of((8, 8), "x", None)
# The reference raises errors for these.
TOLD = {
    "gather_indices": (
        lambda x, i: x[i], (of((8, 8)), of((4,), "x", dtype=np.int32)), "float32[4@x,8]"
    ),
    "sort_grad": (
        jax.grad(lambda x: lax.reduce_sum(lax.sort(x, dimension=1), (0, 1))), (X0,), "float32[8@x,8]"
    ),
    "dynamic_slice": (
        jax.vmap(lambda x: lax.dynamic_slice(x, (0,), (4,))), (XY,), "float32[8@x,4@y]"
    ),
    "dynamic_update_slice": (
        jax.vmap(lambda x, u: lax.dynamic_update_slice(x, u, (0,))),
        (XY, of((8, 4), "x", "y")),
        "float32[8@x,8@y]",
    ),
    "clamp": (
        jax.vmap(lax.clamp, (0, None, None)), (XY, of((8,), "y"), of((8,), "y")), "float32[8@x,8@y]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(TOLD))
def test_types_the_reference_does_not_tell(name):
    fun, args, expected = TOLD[name]
    with jax.sharding.use_abstract_mesh(ABSTRACT):
        assert str(jax.make_jaxpr(fun)(*args).out_avals[0]) == expected


def test_mapped_dimensions_are_sharded_alike(mesh):
    x, y = (jax.device_put(np.ones((8, 8), np.float32), s) for s in (P("x"), P("y")))
    with pytest.raises(ValueError, match="should be sharded the same. .* specs: x vs y"):
        jax.vmap(lax.add)(x, y)
    with pytest.raises(ValueError, match="x vs None"):
        jax.vmap(lax.add)(x, np.ones((8, 8), np.float32))


def test_values_of_mapped_control_flow(mesh):
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    x = jax.device_put(values, P("x", None))

    def f(row):
        total = lax.while_loop(
            lambda c: lax.reduce_sum(c, (0,)) < 500, lambda c: c + row, lax.full_like(row, 1)
        )
        last, _ = lax.scan(lambda c, _: (c * 2, None), total, None, length=2)
        return last, jnp.ones(3)

    run = jax.jit(jax.vmap(f))
    out, ones = run(x)
    with jax.set_mesh(Mesh(np.array(devices(1)).reshape(1, 1), ("x", "y"))):
        expected, _ = jax.jit(jax.vmap(f))(values)
    np.testing.assert_allclose(out, expected)
    assert (str(jax.typeof(out)), str(jax.typeof(ones))) == ("float32[8@x,8]", "float32[8@x,3]")


def test_gradients_are_sharded_as_arguments(mesh):
    x = jax.device_put(np.ones((8, 8), np.float32), P("x", "y"))
    w = jnp.ones(8)  # the same on all devices of the mesh
    assert not jax.typeof(w).sharding.mesh.empty
    for grad in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        g = grad(lambda w: jnp.sum(x * w * w))(w)
        assert jax.typeof(g) == jax.typeof(w)
        np.testing.assert_array_equal(g, np.full(8, 16))
    g = jax.grad(lambda x: lax.reduce_sum(lax.floor(x), (0, 1)))(x)
    assert jax.typeof(g) == jax.typeof(x)


def test_unreduced_sums_have_reduced_cotangents(mesh):
    x = jax.device_put(np.ones((8, 8), np.float32), P("x", "y"))

    def f(x):
        partial = lax.reduce_sum(x, (0,), out_sharding=P("y", unreduced={"x"}))
        return jax.sharding.reshard(partial, P("y"))

    g = jax.jit(lambda x: jax.vjp(f, x)[1](f(x))[0])(x)
    assert jax.typeof(g) == jax.typeof(x)
    np.testing.assert_array_equal(g, np.full((8, 8), 8))


def test_the_device_of_an_operation_is_that_of_the_program():
    at = [SingleDeviceSharding(d) for d in devices()]
    x = np.ones(3, np.float32)
    constrain = lambda s: jax.jit(lambda x: lax.with_sharding_constraint(x * 2, s))
    inner = jax.jit(lambda x: jax.jit(lambda y: y * 2, out_shardings=at[3])(x))
    put = jax.jit(lambda x: jax.device_put(x * 2, at[3]))
    for f in (constrain(at[3]), inner, put):
        out = f(x)
        assert out.sharding == at[3] and out.committed
        np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises(
        ValueError, match=r"argument x of .* ids \[1\] .* ids \[3\] on platform CPU at"
    ):
        constrain(at[3])(jax.device_put(x, devices()[1]))


@pytest.mark.parametrize("axis_type", [AxisType.Explicit, AxisType.Auto])
def test_arrays_made_under_a_mesh_are_on_all_its_devices(axis_type):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(axis_type,))
    with jax.set_mesh(mesh):
        for x in (jnp.array([1.0, 2.0]), jnp.asarray(np.ones(3)), jnp.asarray(2)):
            assert x.sharding == NamedSharding(mesh, P()) and x.committed
            assert x.tolist() == jnp.add(x, 0).tolist()
        assert jnp.asarray(2).weak_type


def test_illegally_sharded_results_show_the_types():
    text = r"f32\[8@x,8\], f32\[8,8@x\] produces an illegally sharded result: f32\[8@x,8@x\]"
    with (
        jax.sharding.use_abstract_mesh(ABSTRACT),
        pytest.raises(core.ShardingTypeError, match=text),
    ):
        jax.eval_shape(jnp.add, of((8, 8), "x"), of((8, 8), None, "x"))


def test_sums_over_other_axes(mesh):
    # The reference ends the process.
    summed = jax.jit(lambda x: lax.reduce_sum(x, (0,), out_sharding=P(unreduced={"x"})))
    x = jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), P("x"))
    moved = jax.reshard(summed(x), P(None, unreduced={"y"}))
    assert str(jax.typeof(moved)) == "float32[2]{U:y}"
    np.testing.assert_array_equal(jax.reshard(moved, P(None)), [56, 64])


def test_numbers_multiply_summands(mesh):
    reduced = jax.device_put(np.arange(8, dtype=np.float32), P(reduced={"x"}))
    for s in (2.0, np.float32(2), jnp.float32(2)):
        grad = jax.jit(jax.grad(lambda x: (x * s).sum()))(reduced)
        assert str(jax.typeof(grad)) == "float32[8]{U:x}"
        np.testing.assert_array_equal(jax.reshard(grad, P(None)), np.full(8, 2.0))
    x, s = reduced, jnp.float32(3)
    out = jax.grad(lambda s: (x * s).sum())(s)
    np.testing.assert_allclose(jax.reshard(out, P()), 28)


PRODUCTS = {
    "matmul": jnp.matmul,
    "dot": jnp.dot,
    "einsum": lambda x, y, **kw: jnp.einsum("ij,jk->ik", x, y, **kw),
    "tensordot": lambda x, y, **kw: jnp.tensordot(x, y, 1, **kw),
    "dot_general": lambda x, y, **kw: lax.dot_general(x, y, (((1,), (0,)), ((), ())), **kw),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_out_sharding_of_products_over_dimensions_sharded_differently(mesh, name):
    product = PRODUCTS[name]
    values = np.arange(32, dtype=np.float32).reshape(8, 4)
    x, y = jax.reshard(values, P("x", "y")), jax.reshard(values.T, P("x", "y"))
    with pytest.raises(core.ShardingTypeError, match="consistent sharding, got y and x"):
        product(x, y)
    for spec, text in ((P("x", None), "[8@x,8]"), (P("y", "x"), "[8@y,8@x]"), (P(), "[8,8]")):
        out = product(x, y, out_sharding=spec)
        assert str(jax.typeof(out)) == f"float32{text}"
        np.testing.assert_array_equal(out, values @ values.T)
    summed = jax.grad(lambda x, y: product(x, y, out_sharding=P("x", None)).sum(), (0, 1))
    assert [str(jax.typeof(g)) for g in summed(x, y)] == ["float32[8@x,4@y]", "float32[4@x,8@y]"]
    with pytest.raises(core.ShardingTypeError, match="sharded identically"):
        product(x, y, out_sharding=P("x", unreduced={"y"}))


def test_out_shardings_may_have_nones_for_dimensions_that_are_not_there(mesh):
    x = np.ones((8, 4), np.float32)
    spec = P("x", None, None, None)
    results = [
        jax.reshard(x, spec),
        jax.reshard(x, NamedSharding(mesh, spec)),
        jax.jit(lambda x: jax.reshard(x, spec))(x),
        jnp.zeros((8, 4), out_sharding=spec),
        jnp.array(x, out_sharding=spec),
        lax.reshape(x, (8, 4), out_sharding=spec),
        jnp.matmul(x, np.ones((4, 4), np.float32), out_sharding=spec),
        jax.random.normal(jax.random.key(0), (8, 4), out_sharding=spec),
        jnp.asarray(x).at[np.arange(8)].get(out_sharding=spec),
        jax.sharding.auto_axes(lambda x: x, out_sharding=spec)(x),
    ]
    assert {str(jax.typeof(y)) for y in results} == {"float32[8@x,4]"}
    for f in (jax.reshard, lambda x, s: jnp.zeros(x.shape, out_sharding=s)):
        with pytest.raises(ValueError, match="P\\(None, None, 'x'\\)"):
            f(x, P(None, None, "x"))
