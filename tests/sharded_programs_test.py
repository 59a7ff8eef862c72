"""Programs on several devices, meshes of one device and in host memory, beside the reference."""

import numpy as np
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax.experimental.layout import Format, Layout

reference, test_reference, _ = case_tests(__file__)


def test_gradients_of_functions_with_results_in_host_memory():
    host = jax.device_put(jnp.arange(4.0), jax.memory.Space.Host)
    for transform in (lambda f: f, jax.jit):
        grad = transform(jax.grad(lambda h: jnp.sum(h**2)))(host)
        assert str(jax.typeof(grad)) == "float32<host>[4]"
        np.testing.assert_array_equal(grad, 2 * np.arange(4.0))
    grad = jax.grad(lambda x: jax.device_put(x, jax.memory.Space.Host).sum())(jnp.ones(3))
    assert str(jax.typeof(grad)) == "float32[3]"


def test_layouts_of_batched_jit():
    """A layout of one element is that of the elements of a batch; the reference rejects these."""
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    transposed = Format(Layout((1, 0)), one)
    double = jax.jit(lambda x: x * 2, in_shardings=transposed, out_shardings=transposed)
    x = jnp.arange(24.0).reshape(2, 3, 4)
    for dim, order in ((0, (0, 2, 1)), (1, (1, 2, 0))):
        y = jax.vmap(double, dim, dim)(x)
        assert y.format.layout.major_to_minor == order
        np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(jax.jit(jax.vmap(double))(x), x * 2)
    scale = jax.jit(lambda x, w: x * w, in_shardings=(None, transposed))
    np.testing.assert_array_equal(jax.vmap(scale, (0, None))(x, x[0]), x * x[0])
