"""jax.experimental.sparse against the reference build."""

import numpy as np
import pytest
from op_testing import case_tests

import jax
from jax.experimental import sparse

reference, test_reference, _ = case_tests(__file__)


@pytest.mark.parametrize("shape, nse", [((4, 5), 20), ((0, 3), 0), ((), 1)])
def test_random_array_with_all_elements(shape, nse):
    M = sparse.random_bcoo(jax.random.key(0), shape, nse=nse, dtype=np.float32, minval=1, maxval=2)
    assert M.nse == nse and np.asarray(M.todense() != 0).all()


@pytest.mark.parametrize("nse", [1.0, 0.0, 2.5])
def test_random_array_takes_integers_and_fractions(nse):
    with pytest.raises(TypeError, match="nse must be an integer, or a fraction"):
        sparse.random_bcoo(jax.random.key(0), (4, 5), nse=nse)


@pytest.mark.parametrize("left, right", [((1, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 5, 4, 2))])
def test_product_of_bcsr_array_with_single_batch(left, right):
    x, y = (np.arange(np.prod(s), dtype=np.float32).reshape(s) % 7 for s in (left, right))
    M = sparse.BCSR.fromdense(x, n_batch=len(left) - 2)
    np.testing.assert_array_equal(M @ y, x @ y)


def test_too_many_indices_of_bcsr_array():
    with pytest.raises(IndexError, match="array is 2-dimensional, but 3 were indexed"):
        sparse.BCSR.fromdense(np.eye(2, dtype=np.float32))[0, 0, 0]
