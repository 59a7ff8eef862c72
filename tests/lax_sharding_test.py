"""Types of results in explicit-sharding mode, for operations that move, join, split or reduce dimensions."""

import numpy as np
import pytest

import jax
from jax import lax
from jax._src import config, xla_bridge as xb
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)


@pytest.fixture
def mesh():
    devices = xb.devices("cpu")
    if len(devices) < 8:
        pytest.skip("needs 8 CPU devices")
    mesh = Mesh(np.array(devices[:8]).reshape(2, 4), ("x", "y"), (AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        yield mesh


XY, X_ = ((4, 8), P("x", "y")), ((4, 8), P("x", None))
RULES = {
    "broadcast": (lambda x: lax.broadcast(x, (3,)), XY, P(None, "x", "y")),
    "broadcast_dims": (lambda x: lax.broadcast_in_dim(x, (4, 3, 8), (0, 2)), XY, P("x", None, "y")),
    "broadcast_one": (lambda x: lax.broadcast_in_dim(x, (4, 8), (0, 1)), ((1, 8), P(None, "y")), P(None, "y")),
    "broadcast_out": (
        lambda x: lax.broadcast_in_dim(x, (4, 8), (), out_sharding=P("x", "y")), ((), P()), P("x", "y")
    ),
    "expand_dims": (lambda x: lax.expand_dims(x, (0, 2)), XY, P(None, "x", None, "y")),
    "squeeze": (lambda x: lax.squeeze(x, (1,)), ((4, 1, 8), P("x", None, "y")), P("x", "y")),
    "reshape_merge": (lambda x: lax.reshape(x, (32,)), XY, P(("x", "y"))),
    "reshape_merge_first": (lambda x: lax.reshape(x, (32,)), X_, P("x")),
    "reshape_split": (lambda x: lax.reshape(x, (4, 8)), ((32,), P("x")), P("x", None)),
    "reshape_split_last": (lambda x: lax.reshape(x, (4, 4, 2)), XY, P("x", "y", None)),
    "reshape_ones": (lambda x: lax.reshape(x, (4, 1, 8, 1)), XY, P("x", None, "y", None)),
    "reshape_out": (lambda x: lax.reshape(x, (32,), out_sharding=P("x")), XY, P("x")),
    "reshape_unsharded": (lambda x: lax.reshape(x, (8, 3)), ((4, 6), P()), P(None, None)),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), XY, P("y", "x")),
    "rev": (lambda x: lax.rev(x, (1,)), XY, P("x", "y")),
    "concatenate": (lambda x: lax.concatenate([x, x], 1), XY, P("x", "y")),
    "split": (lambda x: lax.split(x, (4, 4), 1)[0], XY, P("x", "y")),
    "stack": (lambda x: lax.stack([x, x], 1), XY, P("x", None, "y")),
    "unstack": (lambda x: lax.unstack(x, 1)[0], X_, P("x")),
    "pad": (lambda x: lax.pad(x, 0.0, [(0, 0, 0), (4, 4, 0)]), XY, P("x", "y")),
    "tile": (lambda x: lax.tile(x, (1, 2)), X_, P("x", None)),
    "copy": (lambda x: lax.copy_p.bind(x), XY, P("x", "y")),
    "optimization_barrier": (lax.optimization_barrier, XY, P("x", "y")),
    "full_like": (lambda x: lax.full_like(x, 1), XY, P("x", "y")),
    "iota": (
        lambda x: lax.broadcasted_iota("int32", (4, 8), 1, out_sharding=P("x", "y")), ((), P()), P("x", "y")
    ),
    "empty": (lambda x: lax.empty((4, 8), "int8", out_sharding=P("x", "y")), ((), P()), P("x", "y")),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (0,)), XY, P("y")),
    "reduce_sum_out": (lambda x: lax.reduce_sum(x, (0,), out_sharding=P("x")), XY, P("x")),
    "reduce_sum_unreduced": (
        lambda x: lax.reduce_sum(x, (0,), out_sharding=P("y", unreduced={"x"})),
        XY,
        P("y", unreduced={"x"}),
    ),
    "reduce_max": (lambda x: lax.reduce_max(x, (1,)), XY, P("x")),
    "argmax": (lambda x: lax.argmax(x, 1, "int32"), XY, P("x")),
    "cumsum": (lambda x: lax.cumsum(x, 1), X_, P("x", None)),
    "sort": (lambda x: lax.sort(x, dimension=1), X_, P("x", None)),
    "top_k": (lambda x: lax.top_k(x, 1)[1], X_, P("x", None)),
    "approx_max_k": (lambda x: lax.approx_max_k(x, 1)[0], X_, P("x", None)),
    "reduce_window": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2)), X_, P("x", None)),
    "reduce_window_strided": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2), "SAME"), XY, P("x", "y")
    ),
    "grad_max": (jax.grad(lambda x: lax.reduce_sum(lax.reduce_max(x, (0,)), (0,))), XY, P("x", "y")),
    "vmap_broadcast": (
        jax.vmap(lambda x: lax.broadcast_in_dim(x, (3, 8), (1,), out_sharding=P(None, "y"))),
        X_,
        P("x", None, "y"),
    ),
}  # fmt: skip

ERRORS = {
    "reshape_merge_second": (lambda x: lax.reshape(x, (32,)), ((4, 8), P(None, "x"))),
    "reshape_split_small": (lambda x: lax.reshape(x, (2, 4)), ((8,), P("y"))),
    "reshape_mixed": (lambda x: lax.reshape(x, (8, 3)), ((4, 6), P("x", None))),
    "reshape_dimensions": (lambda x: lax.reshape(x, (8, 4), (1, 0)), XY),
    "concatenate": (lambda x: lax.concatenate([x, lax.full_like(x, 0, sharding=unlike(x))], 1), XY),
    "split": (lambda x: lax.split(x, (3, 5), 1), XY),
    "unstack": (lambda x: lax.unstack(x, 1), XY),
    "pad": (lambda x: lax.pad(x, 0.0, [(0, 0, 0), (1, 4, 0)]), XY),
    "tile": (lambda x: lax.tile(x, (1, 2)), XY),
    "cumsum": (lambda x: lax.cumsum(x, 1), XY),
    "sort": (lambda x: lax.sort(x, dimension=1), XY),
    "top_k": (lambda x: lax.top_k(x, 1), XY),
    "reduce_window": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2)), XY),
}


def unlike(x):
    return NamedSharding(jax.typeof(x).sharding.mesh, P("x", None))


def operand(mesh, shape, spec):
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    return values, jax.device_put(values, NamedSharding(mesh, spec))


@pytest.mark.parametrize("name", list(RULES))
def test_rule(mesh, name):
    fun, (shape, spec), expected = RULES[name]
    _, x = operand(mesh, shape, spec)
    for run in (fun, jax.jit(fun)):
        out = run(x)
        assert jax.typeof(out).sharding.spec == expected
        assert "unreduced" in name or out.sharding.spec == expected


@pytest.mark.parametrize("name", list(ERRORS))
def test_error(mesh, name):
    fun, (shape, spec) = ERRORS[name]
    _, x = operand(mesh, shape, spec)
    with pytest.raises(Exception) as err:
        fun(x)
    assert type(err.value).__name__ == "ShardingTypeError", err.value


# an `out_sharding` needs the mesh that the plain call is without; the others give no values to compare
WITHOUT_VALUES = {"iota", "empty", "full_like", "vmap_broadcast", "reduce_sum_unreduced"}


@pytest.mark.parametrize("name", [n for n in RULES if "out" not in n and n not in WITHOUT_VALUES])
def test_values(mesh, name):
    fun, (shape, spec), _ = RULES[name]
    values, x = operand(mesh, shape, spec)
    sharded = np.asarray(fun(x))
    with jax.set_mesh(Mesh(np.array(xb.devices("cpu")[:1]).reshape(1, 1), ("x", "y"))):
        plain = np.asarray(fun(values))
    np.testing.assert_array_equal(sharded, plain)


@pytest.mark.parametrize("given", [P("x"), xb.devices("cpu")[0]])
@pytest.mark.parametrize("jit", [False, True])
def test_full_takes_only_shardings(given, jit):
    fun = lambda: lax.full((4,), 1.0, sharding=given)
    with pytest.raises(TypeError, match="lax.full: sharding must be a .*SingleDeviceSharding"):
        (jax.jit(fun) if jit else fun)()
