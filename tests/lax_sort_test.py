"""The cases in lax_sort_cases.py against the reference build and NumPy."""

import numpy as np
from op_testing import case_tests

import jax

reference, test_reference, test_numpy = case_tests(__file__)


def test_large_unsigned_keys():
    x = np.random.RandomState(0).randint(0, 2**32, 1500, np.uint32)
    keys, order = jax.lax.sort_key_val(x, np.arange(1500))
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(keys, np.sort(x))
