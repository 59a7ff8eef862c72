"""The cases in nn_cases.py against the reference build and NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__, rounded_otherwise=True)


@pytest.mark.parametrize("name", ["truncated_normal", "normal", "uniform", "constant"])
def test_shapes_of_initializers_may_be_numbers(name):
    args = [1.0] if name == "constant" else []
    init = getattr(jax.nn.initializers, name)(*args)
    for shape in (3, np.int64(3), [3]):
        np.testing.assert_array_equal(
            init(jax.random.key(0), shape), init(jax.random.key(0), (3,)), strict=True
        )


def test_booleans_and_wide_integers():
    """Types, weak types and values of arguments that are not numbers of the default widths."""
    booleans = jnp.array([True, False, True])
    # The reference's result has a weak type for booleans, and not for integers.
    assert jax.nn.softplus(booleans).weak_type and jax.nn.softplus(True).weak_type
    assert not jax.nn.softplus(jnp.arange(3)).weak_type
    for name in ("softmax", "log_softmax"):
        fun = getattr(jax.nn, name)
        wide = fun(np.arange(4))  # int64, also where jax has 32 bits
        np.testing.assert_array_equal(wide, fun(jnp.arange(4)), strict=True)
        masked = fun(booleans, where=jnp.array([True, True, False]))
        expected = fun(jnp.float32(booleans), where=jnp.array([True, True, False]))
        np.testing.assert_array_equal(masked, expected, strict=True)
        with pytest.raises(TypeError, match=r"take numbers, got bool\[3\]"):
            fun(booleans)


def test_clipped_functions_reject_complex_numbers():
    for fun in (jax.nn.sparse_sigmoid, jax.nn.standardize):
        with pytest.raises(ValueError, match="complex"):
            fun(jnp.ones(3, jnp.complex64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_squareplus_of_large_numbers(dtype):
    x = jnp.array([-jnp.inf, -1e4, -30, 30, 1e4, jnp.inf], dtype)
    less = 2 / (30 + np.sqrt(30**2 + 4))
    want = np.array([0, 1e-4, less, 30 + less, 1e4, np.inf])
    np.testing.assert_allclose(
        jax.nn.squareplus(x).astype(float), want, rtol=2 * jnp.finfo(dtype).eps + 5e-5
    )
    np.testing.assert_allclose(
        jax.vmap(jax.grad(jax.nn.squareplus))(x[1:5]).astype(float), [1e-8, 1.1e-3, 1, 1], atol=2e-3
    )
    largest = jnp.finfo(dtype).max
    assert jax.nn.squareplus(largest) == largest


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_softmax_of_integers(dtype):
    x = jnp.array([1, 100, 97, 98], dtype)
    where = jnp.array([True, True, False, True])
    for mask in (None, where):
        for fun in (jax.nn.softmax, jax.nn.log_softmax):
            np.testing.assert_array_equal(fun(x, where=mask), fun(x.astype(float), where=mask))
    lowest, highest = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    extremes = jnp.array([lowest, highest], dtype)
    np.testing.assert_allclose(jax.nn.softmax(extremes), [0, 1], atol=1e-30)


def test_squareplus_of_eight_bits_beside_wide_defaults():
    with jax.enable_x64(True):
        for dtype in ("float8_e4m3fn", "float8_e5m2"):
            out = jax.nn.squareplus(jnp.ones(2, dtype))
            assert (out == jnp.asarray(1.618).astype(dtype)).all()
