"""Callbacks that write into buffers beside the reference, over shards, and errors."""

import numpy as np
import pytest
from buffer_callback_scenarios import VECTOR, F, S, X, double
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src import config, xla_bridge as xb
from jax.experimental.buffer_callback import ExecutionContext, ExecutionStage, buffer_callback
from jax.sharding import AxisType, Mesh, PartitionSpec as P

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

reference, test_reference, _ = case_tests(__file__)


def test_errors_have_the_traceback_of_the_callback():
    def fails_here(ctx, out, x):
        raise KeyError("what went wrong")

    with pytest.raises(jax.errors.JaxRuntimeError, match="(?s)in fails_here.*what went wrong"):
        np.asarray(jax.jit(buffer_callback(fails_here, VECTOR))(X))
    with pytest.raises(jax.errors.JaxRuntimeError, match="must return None .* got .*'int'"):
        np.asarray(buffer_callback(lambda ctx, out, x: 5, VECTOR)(X))


@pytest.mark.parametrize("args, error, match", [
    ((3, VECTOR), TypeError, "callback must be callable"),
    ((double, 3), TypeError, "objects with shape and dtype"),
    ((double, S((3,), jnp.int4)), ValueError, "a result of type int4.* convert it to int8"),
])  # fmt: skip
def test_arguments(args, error, match):
    with pytest.raises(error, match=match):
        buffer_callback(*args)


def test_small_elements_and_methods():
    with pytest.raises(ValueError, match="an argument of type int4"):
        buffer_callback(double, VECTOR)(X.astype(jnp.int4))
    with pytest.raises(ValueError, match="vmap_method must be None or one of"):
        buffer_callback(double, VECTOR, vmap_method="some")


def test_an_input_whose_buffer_is_that_of_the_result():
    def increment(ctx, out, x):
        np.asarray(out)[...] += 1

    f = jax.jit(buffer_callback(increment, VECTOR, input_output_aliases={0: 0}))
    x = jnp.asarray(X)
    np.testing.assert_array_equal(f(x), X + 1)
    np.testing.assert_array_equal(x, X)


def test_shards():
    if len(jax.devices()) < 4:
        pytest.skip("needs 4 devices")
    mesh = Mesh(np.array(jax.devices()[:4]), "x", (AxisType.Auto,))
    f = buffer_callback(double, S((2,), F))
    g = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    np.testing.assert_array_equal(g(np.arange(8, dtype=F)), np.arange(8) * 2)


def test_context():
    kinds = []
    f = buffer_callback(
        lambda ctx, out: kinds.append((type(ctx), ctx.stage)), (), has_side_effect=True
    )
    f()
    jax.effects_barrier()
    jax.jit(buffer_callback(lambda ctx, out: kinds.append(type(ctx)), (), has_side_effect=True))()
    jax.effects_barrier()
    assert (ExecutionContext, ExecutionStage.EXECUTE) in kinds and kinds[-1] is ExecutionContext
