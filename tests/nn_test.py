"""The cases in nn_cases.py against the reference build and NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

import jax

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("name", ["truncated_normal", "normal", "uniform", "constant"])
def test_shapes_of_initializers_may_be_numbers(name):
    args = [1.0] if name == "constant" else []
    init = getattr(jax.nn.initializers, name)(*args)
    for shape in (3, np.int64(3), [3]):
        np.testing.assert_array_equal(
            init(jax.random.key(0), shape), init(jax.random.key(0), (3,)), strict=True
        )
