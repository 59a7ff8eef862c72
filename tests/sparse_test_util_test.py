"""Utilities for tests of sparse arrays; expected arrays are those of the reference."""

import numpy as np
import pytest

import jax.numpy as jnp
from jax._src import test_util as jtu
from jax.experimental import sparse
from jax.experimental.sparse import test_util as sptu


def rng():
    return np.random.RandomState(0)


def product(a, b):
    return a @ b


def twice(a, b):
    return a @ b * 2


class Case(sptu.SparseTestCase):
    def runTest(self):
        pass

    def rng(self):
        return rng()


@pytest.fixture
def case():
    return Case()


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (2, 3, 4)])
def test_layouts(shape):
    n = len(shape)
    for least in (0, 1):
        layouts = [
            (b, d, n - b - d) for b in range(least, n + 1) for d in range(n + 1) if b + d <= n
        ]
        assert list(sptu.iter_sparse_layouts(shape, least)) == layouts
        assert list(sptu.iter_bcsr_layouts(shape, least)) == [x for x in layouts if x[2] == 2]
    assert list(sptu.iter_subsets([1, 2])) == [(), (1,), (2,), (1, 2)]


def test_random_bcoo():
    mat = sptu.rand_bcoo(rng())((3, 4), np.float32)
    data = [5.2921572, 1.2004716, 2.9362140, 6.7226796, 5.6026740, -2.9318337]
    np.testing.assert_allclose(mat.data, data, rtol=1e-6)
    assert mat.indices.tolist() == [[0, 3], [2, 0], [0, 0], [2, 1], [2, 3], [2, 0]]
    assert mat.indices.dtype == np.int32 and not mat.indices_sorted and not mat.unique_indices
    assert [
        sptu.rand_bcoo(rng(), nse=nse)((3, 4), np.float32).nse
        for nse in (0, 0.05, 0.3, 0.99, 1.0, 2.5, 13)
    ] == [0, 1, 4, 12, 1, 2, 13]
    mat = sptu.rand_bcoo(rng(), n_batch=1, n_dense=1)((2, 3, 4), np.int32)
    assert (mat.n_batch, mat.n_dense, mat.nse, mat.dtype) == (1, 1, 2, np.int32)
    with pytest.raises(ValueError, match=r"shape=\(3, 4\) n_batch=0 n_sparse=-1"):
        sptu.rand_bcoo(rng(), n_dense=3)((3, 4), np.float32)


def test_random_bcsr():
    mat = sptu.rand_bcsr(rng(), n_batch=1)((2, 3, 2), np.float32)
    assert mat.indices.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert mat.indptr.tolist() == [[0, 2, 2, 3], [0, 1, 2, 3]]
    with pytest.raises(ValueError, match="2 sparse dimensions; 1 is given"):
        sptu.rand_bcsr(rng(), n_batch=1)((3, 4), np.float32)


def test_random_sparse():
    values = sptu.rand_sparse(rng())((3, 4), np.float32)
    assert np.flatnonzero(values).tolist() == [1, 4, 5, 8, 10, 11]
    counts = [
        np.count_nonzero(sptu.rand_sparse(rng(), nse=nse)((3, 4), np.float32))
        for nse in (0, 0.05, 0.3, 0.99, 1.0, 1.5, 20)
    ]
    assert counts == [0, 0, 3, 11, 1, 1, 12]
    assert sptu.rand_sparse(rng(), post=sparse.BCOO.fromdense)((3, 4), np.float32).nse == 6


def test_equivalence(case):
    mat = sparse.BCOO.fromdense(jnp.arange(6.0).reshape(2, 3))
    case.assertSparseArraysEquivalent(mat, mat)
    case.assertSparseArraysEquivalent((mat, 1.0), (mat * 1.1, 1.0), atol=1)
    unsorted = sparse.BCOO((mat.data, mat.indices), shape=mat.shape)
    for other in (mat * 1.1, unsorted, mat.todense(), sparse.BCSR.from_bcoo(mat)):
        with pytest.raises(AssertionError):
            case.assertSparseArraysEquivalent(mat, other)
    with pytest.raises(AssertionError):
        case.assertSparseArraysEquivalent(mat, mat.astype("int32"))
    case.assertSparseArraysEquivalent(mat, mat.astype("int32"), check_dtypes=False)


@pytest.mark.parametrize("make", [sptu.rand_bcoo, sptu.rand_bcsr])
def test_checks(case, make):
    r = rng()
    matrix, vector = make(r), jtu.rand_default(r)

    def arguments():
        return [matrix((2, 3), np.float32), vector((3,), np.float32)]

    case._CheckAgainstDense(product, product, arguments)
    case._CheckGradsSparse(product, product, arguments, atol=1e-5, rtol=1e-5)
    case._CheckGradsSparse(product, product, arguments, argnums=[1], modes=["fwd"], atol=1e-5)
    for bdims in ([0, 1], [None, 0], [0, None]):
        case._CheckBatchingSparse(product, product, arguments, bdims=bdims, tol=1e-5)
    assert case._random_bdims(5, 0) == [4, 0]
    for check in (case._CheckAgainstDense, case._CheckGradsSparse, case._CheckBatchingSparse):
        with pytest.raises(AssertionError):
            check(twice, product, arguments)
    with pytest.raises(AssertionError, match="expected of 'fwd' and 'rev'"):
        case._CheckGradsSparse(product, product, arguments, modes=["backward"])


def test_batch_at_a_sparse_axis():
    matrix = sptu.rand_bcoo(rng())

    def arguments():
        return [matrix((2, 3), np.float32)]

    class Recorder(Case):
        def _CheckAgainstDense(self, dense_op, sparse_op, args_maker, **kwargs):
            (self.stacked,) = args_maker()

    recorder = Recorder()
    recorder._CheckBatchingSparse(product, product, arguments, bdims=[1], batch_size=4)
    assert (recorder.stacked.shape, recorder.stacked.n_batch) == ((2, 4, 3), 0)
    matrix = sptu.rand_bcoo(rng())
    for i in range(4):
        np.testing.assert_array_equal(recorder.stacked.todense()[:, i], arguments()[0].todense())
