"""The cases in numpy_setops_cases.py against the reference build and NumPy."""

import numpy as np
from op_testing import case_tests

import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)


def test_complex_nans_are_one():
    nan = np.nan
    x = np.array([1 + 1j, complex(nan, 1), complex(1, nan), complex(nan, 2)], np.complex64)
    one = np.array([1 + 1j, nan], np.complex64)
    values, index, inverse, counts = jnp.unique(x, True, True, True)
    np.testing.assert_array_equal(values.view(np.float32), one.view(np.float32))
    assert (index.tolist(), inverse.tolist(), counts.tolist()) == ([0, 1], [0, 1, 1, 1], [1, 3])
    _, index = jnp.unique(x, return_index=True, equal_nan=False)
    assert index.tolist() == [0, 1, 2, 3]
    rows = np.stack([x, x[[0, 2, 3, 1]], x[::-1]])
    assert jnp.unique(rows, axis=0, return_counts=True)[1].tolist() == [2, 1]
    for result in (jnp.union1d(x, x), jnp.unique(x, size=2)):
        np.testing.assert_array_equal(result.view(np.float32), one.view(np.float32))
    for result in (jnp.setdiff1d(x, x[:1]), jnp.setxor1d(x, x[:1])):
        np.testing.assert_array_equal(result.view(np.float32), one[1:].view(np.float32))
