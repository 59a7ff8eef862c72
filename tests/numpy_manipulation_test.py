"""The cases in numpy_manipulation_cases.py against the reference build and NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("reps", [2.0, (1, 2.0), np.array([2.0]), 1j, np.float32(1)], ids=repr)
def test_numbers_of_copies_are_integers(reps):
    with pytest.raises(TypeError, match=r"jnp.tile: reps must be integers, got"):
        jnp.tile(jnp.ones(2), reps)
    assert jnp.tile(jnp.ones(2), (True, np.int8(2))).shape == (1, 4)
