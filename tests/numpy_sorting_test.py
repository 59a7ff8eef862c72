"""The cases in numpy_sorting_cases.py against the reference build and NumPy."""

import numpy as np
import pytest
from op_testing import case_tests

from jax import numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 8, 9, 15, 16, 21, 33])
def test_searches_in_vectors_of_all_sizes(size):
    """Equal elements, infinities and NaNs, in vectors whose size is halved to odd and even ones."""
    random = np.random.default_rng(size)
    a = np.round(random.standard_normal(size) * 4).astype(np.float32)
    a[size // 2 :: 5] = np.inf
    a[: size // 5] = np.nan
    a.sort()
    v = np.concatenate([a, np.round(random.standard_normal(20) * 5), [-np.inf, np.inf, np.nan]])
    v = v.astype(np.float32)
    for side in ("left", "right"):
        found = jnp.searchsorted(a, v, side=side)
        np.testing.assert_array_equal(found, np.searchsorted(a, v, side=side))
    edges = np.sort(np.nan_to_num(a))
    for bins in (edges, edges[::-1]):
        found = jnp.digitize(v[:-1], bins)
        np.testing.assert_array_equal(found, np.digitize(v[:-1], bins))
