"""The cases in lax_shape_cases.py against the reference build and NumPy."""

import numpy as np
from op_testing import case_tests

from jax import lax

reference, test_reference, test_numpy = case_tests(__file__)


def test_reshape_to_a_size():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lax.reshape(x, 6, (1, 0)), [0, 3, 1, 4, 2, 5])
    np.testing.assert_array_equal(lax.reshape(x, np.int32(6)), np.arange(6))
