"""Memory kinds of arrays, types and programs, beside the reference, and where it asserts."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)
X = np.arange(8, dtype=np.float32)


def test_no_space_to_put_in():
    for put in (jax.device_put, jax.jit(jax.device_put, static_argnums=1)):
        with pytest.raises(ValueError, match="Space.Device or Space.Host"):
            put(X, jax.memory.Space.Any)


def test_copies_of_slices():
    devices = jax.devices()
    mesh = jax.make_mesh((len(devices),), ("x",))
    x = jax.device_put(np.arange(4 * len(devices)), devices[0])
    for spec in (P("x"), P()):
        y = jax.device_put(x, NamedSharding(mesh, spec), may_alias=False)
        np.testing.assert_array_equal(x, y)
        assert y.sharding.spec == spec


def test_structs_tell_the_layout():
    x = jax.device_put(np.ones((2, 3), np.float32), jax.devices()[0])
    struct = jax.ShapeDtypeStruct.like(x)
    assert struct.format == x.format and struct.sharding == x.sharding


@pytest.mark.parametrize("transform", [jax.grad, jax.hessian, jax.jacrev, jax.jacfwd])
@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_are_in_the_memory_of_the_argument(transform, compiled):
    """The reference cannot differentiate backwards there: its cotangents are in the device's memory."""
    fun = lambda x: (jnp.sin(x) * x).sum()
    derivative = transform(fun)
    x = jnp.arange(3.0)
    host = jax.device_put(x, jax.memory.Space.Host)
    found = (jax.jit(derivative) if compiled else derivative)(host)
    assert jax.typeof(found).memory_space is jax.memory.Space.Host
    np.testing.assert_array_equal(found, derivative(x))


def test_tangents_of_another_memory():
    x = jnp.arange(3.0)
    host = jax.device_put(x, jax.memory.Space.Host)
    want = jax.jvp(jnp.sin, (x,), (x,))[1]
    for primal, tangent in ((x, host), (host, x)):
        _, found = jax.jvp(jnp.sin, (primal,), (tangent,))
        assert jax.typeof(found).memory_space is jax.typeof(primal).memory_space
        np.testing.assert_array_equal(found, want)
