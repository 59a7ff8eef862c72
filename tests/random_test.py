"""The cases in random_cases.py against the reference build, and what we do otherwise."""

import numpy as np
from op_testing import case_tests

import jax

reference, test_reference, test_numpy = case_tests(__file__)


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
