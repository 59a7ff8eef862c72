"""Programs on several devices, meshes of one device and in host memory, beside the reference."""

import numpy as np
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, _ = case_tests(__file__)


def test_gradients_of_functions_with_results_in_host_memory():
    host = jax.device_put(jnp.arange(4.0), jax.memory.Space.Host)
    for transform in (lambda f: f, jax.jit):
        grad = transform(jax.grad(lambda h: jnp.sum(h**2)))(host)
        assert str(jax.typeof(grad)) == "float32<host>[4]"
        np.testing.assert_array_equal(grad, 2 * np.arange(4.0))
    grad = jax.grad(lambda x: jax.device_put(x, jax.memory.Space.Host).sum())(jnp.ones(3))
    assert str(jax.typeof(grad)) == "float32[3]"
