"""BCOO arrays: every function against NumPy on random arrays of all layouts, with transformations."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import sparse

RNG = np.random.RandomState(0)
LAYOUTS = [(b, d) for b in range(3) for d in range(3) if b + d <= 3]


def dense(shape, dtype=np.float32):
    return (RNG.randint(1, 9, shape) * (RNG.rand(*shape) < 0.5)).astype(dtype)


def close(ours, want):
    ours = ours.todense() if isinstance(ours, sparse.JAXSparse) else ours
    assert ours.shape == want.shape
    np.testing.assert_allclose(ours, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_batch, n_dense", LAYOUTS)
def test_layouts(n_batch, n_dense):
    x = dense((2, 3, 4))
    nse = 13
    M = sparse.BCOO.fromdense(x, nse=nse, n_batch=n_batch, n_dense=n_dense)
    assert (M.nse, M.n_batch, M.n_dense, M.n_sparse) == (
        nse,
        n_batch,
        n_dense,
        3 - n_batch - n_dense,
    )
    assert M.indices_sorted and M.unique_indices

    @jax.jit
    def program(M):
        return [
            M,
            sparse.bcoo_sort_indices(M),
            sparse.bcoo_sum_duplicates(M, nse=nse),
            sparse.bcoo_update_layout(M, n_batch=0, n_dense=0),
            sparse.bcoo_slice(
                M, start_indices=(0, 1, 1), limit_indices=(2, 3, 4), strides=(1, 1, 2)
            ),
            sparse.bcoo_dynamic_slice(M, (1, 5, 1), (1, 2, 3)),
            sparse.bcoo_rev(M, (0, 2)),
            sparse.bcoo_reduce_sum(M, axes=(0, 2)),
            -M + M + M,
            M * jnp.arange(4.0),
            M.sum(),
            M.sum(1),
        ]

    parts = [x, x, x, x, x[:, 1:, 1::2], x[1:, 1:, 1:], x[::-1, :, ::-1], x.sum((0, 2)), x]
    for ours, want in zip(program(M), [*parts, x * np.arange(4), x.sum(), x.sum(1)], strict=True):
        close(ours, want)


@pytest.mark.parametrize("n_batch", [0, 1])
def test_products_and_derivatives(n_batch):
    x, y = dense((3, 4)), RNG.randn(4, 2).astype(np.float32)
    M = sparse.BCOO.fromdense(x, nse=8, n_batch=n_batch)
    rebuild = lambda data: sparse.BCOO((data, M.indices), shape=M.shape)

    @jax.jit
    def program(data, y):
        ours = lambda data, y: jnp.sin(rebuild(data) @ y).sum()
        wanted = lambda data, y: jnp.sin(rebuild(data).todense() @ y).sum()
        found, want = (jax.value_and_grad(f, (0, 1))(data, y) for f in (ours, wanted))
        batched = jax.vmap(lambda c: rebuild(c * data) @ y)(jnp.arange(3.0))
        return found, want, batched, y.T @ rebuild(data).T if not n_batch else (rebuild(data) @ y).T

    found, want, batched, right = program(M.data, y)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want)):
        close(a, b)
    close(batched, np.arange(3)[:, None, None] * (x @ y))
    close(right, (x @ y).T)


def test_sparse_products():
    x, y = dense((3, 4)), dense((4, 2))
    A, B = map(sparse.BCOO.fromdense, (x, y))
    close(A @ B, x @ y)
    close(A * A, x * x)
    grad = jax.grad(lambda d: (sparse.BCOO((d, A.indices), shape=A.shape) @ B).data.sum())(A.data)
    want = (np.ones((3, 2)) @ y.T)[tuple(A.indices.T)]
    close(grad, want.astype(np.float32))


def test_vmap_and_indexing():
    x = dense((2, 3, 4))
    M = sparse.BCOO.fromdense(x, n_batch=1)
    close(jax.vmap(lambda m: m @ jnp.ones(4))(M), x.sum(2))
    close(jax.vmap(lambda m: m)(M), x)
    with pytest.raises(ValueError, match="n_batch=0"):
        jax.vmap(lambda m: m)(sparse.BCOO.fromdense(x))
    N = sparse.BCOO.fromdense(x[0])
    for index in [0, -1, (1, 2), np.s_[:, 1], np.s_[1:], np.s_[::-1], np.s_[None], np.s_[..., None],
                  np.array([0, 2]), (slice(None), np.array([1, 1])), (np.array([0, 1]), np.array([1, 0]))]:  # fmt: skip
        close(N[index], x[0][index])


@pytest.mark.parametrize("indices", [[[0, 0], [1, 1]], [[0, 1], [0, 2]]])
def test_squeezing_keeps_padding(indices):
    """Also where only the removed column is out of bounds, or none is left."""
    M = sparse.BCOO((jnp.array([2.0, 5.0]), jnp.array(indices)), shape=(1, 2))
    squeeze = lambda m, dims: sparse.bcoo_squeeze(m, dimensions=dims)
    close(squeeze(M, [0]).todense(), M.todense()[0])
    close(squeeze(M.T, [1]).todense(), M.todense()[0])
    scalar = sparse.BCOO((M.data, M.indices[:, :1]), shape=(1,))
    close(squeeze(scalar, [0]).todense(), scalar.todense()[0])
    slope = sparse.grad(lambda m: squeeze(m, [0]).todense().sum())(scalar)
    close(slope.data, jnp.where(M.indices[:, 0] == 0, 1.0, 0.0))


def test_errors():
    with pytest.raises(ValueError, match="Invalid data.shape"):
        sparse.BCOO((jnp.ones(3), jnp.zeros((4, 2), int)), shape=(4, 5))
    with pytest.raises(sparse.SparseEfficiencyError, match="n_batch from 0 to 1"):
        sparse.BCOO.fromdense(jnp.eye(3)).update_layout(n_batch=1)
    with pytest.raises(NotImplementedError, match="dense output"):
        _ = sparse.BCOO.fromdense(jnp.eye(3)) == 1


def test_gradients_of_sparse_arguments():
    X = sparse.BCOO.fromdense(dense((3, 3)))
    y = jnp.arange(3.0)
    found = sparse.grad(lambda X: (X @ y).sum())(X)
    assert isinstance(found, sparse.BCOO)
    close(found.data, np.asarray(y)[np.asarray(X.indices)[:, 1]])
    for jacobian in (sparse.jacfwd, sparse.jacrev):
        J = jacobian(lambda X: X @ y)(X)
        close(J.todense().sum(0), found.todense())


@pytest.mark.parametrize("k", [-3, -1, 0, 2, 5])
def test_diagonals(k):
    for layout in [
        {},
        {"n_batch": 1},
        {"n_dense": 1},
        {"n_batch": 2},
        {"n_batch": 1, "n_dense": 1},
    ]:
        close(sparse.eye(3, 4, k, **layout), np.eye(3, 4, k, dtype=np.float32))
    close(sparse.todense(sparse.empty((2, 3), nse=4, n_batch=1)), np.zeros((2, 3)))


def test_slices_store_no_more_elements_than_they_have():
    M = sparse.BCOO(
        (jnp.arange(15.0).reshape(5, 3), np.int32([[0], [1], [0], [2], [1]])), shape=(2, 3)
    )
    for part in (
        sparse.bcoo_slice(M, start_indices=(0, 1), limit_indices=(2, 3)),
        sparse.bcoo_dynamic_slice(M, (0, 1), (2, 2)),
    ):
        assert part.data.shape == (2, 2) and part.indices.shape == (2, 1)
        np.testing.assert_array_equal(part.todense(), M.todense()[:, 1:])


def test_elements_stay_sorted_where_sparse_dimensions_keep_their_order():
    M = sparse.BCOO.fromdense(np.ones((2, 3, 4, 5, 2)), n_batch=2, n_dense=1)
    assert M.transpose((1, 0, 2, 3, 4)).indices_sorted
    assert not M.transpose((0, 1, 3, 2, 4)).indices_sorted
    assert sparse.eye(3)[0].T.indices_sorted == sparse.eye(3)[0].indices_sorted
