"""The cases in random_cases.py against the reference build, and what we do otherwise."""

import numpy as np
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__, rounded_otherwise=True)


def test_choice_of_none_keeps_the_other_dimensions():
    # The reference gives arrays of shape (0, 2) here.
    x = np.zeros((4, 3), np.float32)
    key = jax.random.key(0)
    assert jax.random.choice(key, x, (0, 2)).shape == (0, 2, 3)
    assert jax.random.choice(key, x, (0, 2), axis=1, replace=False).shape == (4, 0, 2)


def test_f_of_parameters_of_several_ranks():
    # The reference raises an error unless the ranks are the same.
    num, den = np.float32([0.5, 1.0, 2.5]), np.float32([[0.3], [1.7]])
    out = jax.eval_shape(jax.random.f, jax.random.key(0), num, den)
    assert out.shape == (2, 3) and out.dtype == np.float32


def test_arrays_where_numbers_are_common():
    key, logits = jax.random.key(0), np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = jax.random.categorical(key, logits, 0)
    for axis in (np.array(0), jnp.array(-2), np.int8(0)):
        np.testing.assert_array_equal(jax.random.categorical(key, logits, axis), expected)
    expected = jax.random.normal(key, (2, 3))
    for shape in (iter((2, 3)), np.array([2, 3]), [jnp.array(2), 3]):
        np.testing.assert_array_equal(jax.random.normal(key, shape), expected)


def test_draws_without_replacement_are_32_bit_indices():
    with jax.enable_x64(True):
        draw = lambda key: jax.random.categorical(key, jnp.ones(4), shape=(2,), replace=False)
        assert jax.eval_shape(draw, jax.random.key(0)).dtype == np.int32


def test_binomial_computes_in_the_dtype_of_the_probability():
    # The expected values are the reference build's.
    key = jax.random.wrap_key_data(np.array([0x1234567, 0x89ABCDEF], np.uint32))
    with jax.enable_x64(True):
        single = jax.random.binomial(key, np.float64(200), np.float32(0.3), (5,))
        double = jax.random.binomial(key, np.float32(200), 0.3, (5,))
    np.testing.assert_array_equal(single, [54, 72, 56, 51, 60])
    np.testing.assert_array_equal(double, [55, 49, 58, 61, 61])
