"""TPUs' linear algebra (jax._src.tpu.linalg), on whatever device there is."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src.lax.linalg import spectral
from jax._src.lax.linalg.eigh import eigh_by_polar
from jax._src.tpu.linalg import eigh, qdwh, stack, svd

N, SMALL = 40, 12  # matrices, and blocks that are not split


def random_matrix(m, n, dtype=np.float32, seed=0):
    rng = np.random.RandomState(seed)
    x = rng.randn(m, n)
    return (x + 1j * rng.randn(m, n) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def hermitian(n=N, dtype=np.float32):
    x = random_matrix(n, n, dtype)
    return (x + x.conj().T) / 2


def with_eigenvalues(w):
    q, _ = np.linalg.qr(random_matrix(len(w), len(w), np.float64))
    return ((q * w) @ q.T).astype(np.float32)


MATRICES = {
    "random": hermitian(),
    "complex": hermitian(dtype=np.complex64),
    "of rank 1": with_eigenvalues(np.r_[np.zeros(N - 1), 5.0]),
    "identity": 3 * np.eye(N, dtype=np.float32),
    "zero": np.zeros((N, N), np.float32),
    "projector": with_eigenvalues(np.r_[np.zeros(N // 2), np.ones(N // 2)]),
    "cluster": with_eigenvalues(np.r_[1 + 1e-7 * np.arange(N // 2), np.linspace(-1, 1, N // 2)]),
    "graded": with_eigenvalues(np.logspace(-8, 0, N)),
    "reflections": np.kron(np.eye(N // 2), [[0, 1], [1, 0]]).astype(np.float32),
    "ones": np.ones((N, N), np.float32),
    "tiny": hermitian() * np.float32(1e-30),
    "huge": hermitian() * np.float32(1e30),
}


def check_decomposition(h, w, v, expected):
    h, w, v = (np.asarray(x).astype(np.complex128) for x in (h, w, v))
    scale = max(np.abs(expected).max(), np.finfo(np.float32).tiny)
    np.testing.assert_allclose(w.real / scale, expected / scale, atol=4e-6)
    np.testing.assert_allclose(h @ v / scale, v * w / scale, atol=4e-6)
    np.testing.assert_allclose(v.conj().T @ v, np.eye(v.shape[1]), atol=1e-5)


@pytest.mark.parametrize("name", MATRICES)
def test_eigh(name):
    h = MATRICES[name]
    w, v = eigh.eigh(h, termination_size=SMALL)
    assert (w.dtype, v.dtype) == (np.float32, h.dtype)
    assert (np.diff(w) >= 0).all()
    check_decomposition(h, w, v, np.linalg.eigvalsh(h.astype(np.complex128)))


def test_eigh_of_a_part():
    h = hermitian()
    expected = np.linalg.eigvalsh(h.astype(np.float64))
    w, v = eigh.eigh(h, termination_size=SMALL, subset_by_index=(5, 9))
    check_decomposition(h, w, v, expected[5:9])
    for n in (30, 7):
        w, v = eigh.eigh(h, termination_size=SMALL, n=n)
        assert np.isnan(w[n:]).all()
        expected = np.linalg.eigvalsh(h[:n, :n].astype(np.float64))
        check_decomposition(h[:n, :n], w[:n], v[:n, :n], expected)


def test_eigh_of_nan_ends():
    w, _ = eigh.eigh(np.full((N, N), np.nan, np.float32), termination_size=SMALL)
    assert np.isnan(w).all()


@pytest.mark.parametrize("lower", [False, True])
def test_lowering_for_tpus(lower):
    """What `lax.linalg.eigh` is on TPUs reads one triangle, and takes batches."""
    h = np.stack([hermitian(), with_eigenvalues(np.arange(N))])
    triangle = np.tril(h) if lower else np.triu(h)
    run = lambda x: eigh_by_polar(
        x, lower=lower, sort_eigenvalues=True, subset_by_index=(2, 30), termination_size=SMALL
    )
    vs, ws = jax.jit(run)(triangle)
    for one, w, v in zip(h, ws, vs):
        check_decomposition(one, w, v, np.linalg.eigvalsh(one.astype(np.float64))[2:30])


def test_errors():
    with pytest.raises(TypeError, match=r"square matrix, got shape \(2, 3\)"):
        eigh.eigh(np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match="subset_by_index"):
        eigh.eigh(hermitian(), subset_by_index=(0, N + 1))
    with pytest.raises(ValueError, match="empty"):
        eigh.eigh(hermitian(), subset_by_index=(3, 3))
    with pytest.raises(ValueError, match="full_matrices"):
        svd.svd(random_matrix(5, 3), True, subset_by_index=(0, 2))
    with pytest.raises(ValueError, match="must be a matrix"):
        svd.svd(np.ones(3, np.float32), True)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 6)])
@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_svd(shape, full_matrices, dtype):
    x = random_matrix(*shape, dtype)
    u, s, vh = svd.svd(x, full_matrices)
    expected = np.linalg.svd(x, full_matrices)
    assert [a.shape for a in (u, s, vh)] == [a.shape for a in expected]
    np.testing.assert_allclose(s, expected[1], rtol=1e-5)
    k = len(s)
    np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], x, atol=1e-5)
    for q in (u, np.asarray(vh).conj().T):
        np.testing.assert_allclose(np.asarray(q).conj().T @ q, np.eye(q.shape[1]), atol=1e-5)
    np.testing.assert_allclose(svd.svd(x, full_matrices, compute_uv=False), expected[1], rtol=1e-5)


def test_svd_of_a_part():
    x = random_matrix(8, 5)
    u, s, vh = svd.svd(x, False, subset_by_index=(1, 3))
    assert (u.shape, s.shape, vh.shape) == ((8, 2), (2,), (2, 5))
    expected = np.linalg.svd(x, False)
    np.testing.assert_allclose(s, expected[1][1:3], rtol=1e-5)
    part = (expected[0][:, 1:3] * expected[1][1:3]) @ expected[2][1:3]
    np.testing.assert_allclose((u * s) @ vh, part, atol=1e-5)


@pytest.mark.parametrize("x", [np.zeros((3, 3)), np.diag([1.0, 0.0, -2.0]), hermitian(6)])
def test_svd_of_hermitian_matrices(x):
    x = x.astype(np.float32)
    u, s, vh = svd.svd(x, False, hermitian=True)
    np.testing.assert_allclose(s, np.linalg.svd(x)[1], atol=1e-5)
    np.testing.assert_allclose((u * s) @ vh, x, atol=1e-5)
    np.testing.assert_allclose(u.T @ u, np.eye(len(s)), atol=1e-5)


def test_qdwh():
    x = random_matrix(8, 5)
    u, h, iterations, converged = qdwh.qdwh(x)
    assert converged and iterations <= 10
    np.testing.assert_allclose(u @ h, x, atol=1e-5)
    padded = np.full((10, 7), np.nan, np.float32)
    padded[:8, :5] = x
    of_part, *_ = qdwh.qdwh(padded, dynamic_shape=(8, 5))
    np.testing.assert_allclose(of_part[:8, :5], u, atol=1e-5)


def test_bucket_sizes():
    sizes = spectral._bucket_sizes(1000, 256)
    assert sizes[0] == 256 and sizes[-1] == 1000 and sizes == sorted(sizes)
    assert spectral._bucket_sizes(1, 1) == [1]
    assert spectral._bucket_sizes(5, 1)[0] == 1


def test_stack():
    s = stack.Stack.create(3, {"a": jnp.int32(0), "b": jnp.zeros(2)})
    assert s.empty()
    for k in range(3):
        s = s.push({"a": k, "b": jnp.full(2, k / 2)})
    top, s = jax.jit(lambda s: s.pop())(s)
    assert top["a"] == 2 and not s.empty()

    def total(s):
        def step(carry):
            total, s = carry
            element, s = s.pop()
            return total + element["a"] + element["b"].sum(), s

        return jax.lax.while_loop(lambda c: ~c[1].empty(), step, (0.0, s))[0]

    assert jax.jit(total)(s) == 1 + 1.0
    leaves, structure = s.flatten()
    assert [x.shape for x in leaves] == [(), (3,), (3, 2)]
    assert jax.tree.leaves(s) == leaves and structure == jax.tree.structure(top)
    assert stack.Stack.unflatten(structure, leaves).pop()[0]["a"] == 1
    assert repr(stack.Stack(0, None)) == "Stack(0, None)"
