"""Solvers and eigenvalues of sparse matrices, compared with NumPy and SciPy."""

import numpy as np
import pytest
import scipy.sparse

import jax
import jax.numpy as jnp
from jax.errors import JaxRuntimeError
from jax.experimental import sparse
from jax.experimental.sparse.linalg import lobpcg_standard, spsolve
from jax.sharding import PartitionSpec as P

N = 9


def system(dtype="float32", seed=0, n=N):
    """A matrix with a heavy diagonal, its buffers, and a right-hand side."""
    random = np.random.default_rng(seed)

    def draw(*shape):
        x = random.integers(-3, 4, shape)
        x = x + 1j * random.integers(-3, 4, shape) if dtype.startswith("complex") else x
        return x.astype(jnp.dtype(dtype))

    A = draw(n, n) * (random.random((n, n)) < 0.4) + 16 * np.eye(n, dtype=jnp.dtype(dtype))
    csr = scipy.sparse.csr_matrix(A.astype("complex128"))
    data = csr.data if A.dtype.kind == "c" else csr.data.real
    return A, (data.astype(A.dtype), csr.indices, csr.indptr), draw(n)


def exact(A, b):
    kind = "complex128" if A.dtype.kind == "c" else "float64"
    return np.linalg.solve(A.astype(kind), b.astype(kind))


# ---------------------------------------------------------------------------------------------------
# spsolve


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float16", 4e-3), ("bfloat16", 3e-2), ("float32", 1e-5),
                        ("complex64", 1e-5)],
)  # fmt: skip
def test_solution(dtype, rtol):
    A, buffers, b = system(dtype)
    x = spsolve(*buffers, b, reorder=0)
    assert x.dtype == b.dtype
    np.testing.assert_allclose(x.astype("complex64"), exact(A, b), rtol=rtol, atol=rtol)


def test_solution_of_integers_is_rounded_towards_zero():
    indices, indptr = np.arange(3, dtype="uint8"), np.arange(4, dtype="int16")
    x = spsolve(np.array([2, 2, 4]), indices, indptr, np.array([3, -3, 8]))
    np.testing.assert_array_equal(x, [1, -1, 2])


def test_solution_in_double_precision():
    with jax.enable_x64(True):
        A, buffers, b = system("float64")
        np.testing.assert_allclose(spsolve(*buffers, b), exact(A, b), rtol=1e-13)


def test_rows_may_be_unsorted_padded_and_have_duplicates():
    # [[1, 4], [0, 2]], where 2 is 0.5 + 1.5; then padding.
    data = jnp.array([4.0, 1.0, 0.5, 1.5, 9.0, 9.0])
    indices, indptr = jnp.array([1, 0, 1, 1, 0, 7]), jnp.array([0, 2, 4])
    b = jnp.array([1.0, 2.0])
    solve = lambda data, b: spsolve(data, indices, indptr, b)
    np.testing.assert_allclose(solve(data, b), [-3, 1])
    x, vjp = jax.vjp(solve, data, b)
    d_data, d_b = vjp(jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(d_b, [1, -2])
    np.testing.assert_allclose(d_data, [-1, 3, 2, 2, 0, 0])


def test_empty_and_singular_systems():
    empty = spsolve(jnp.zeros(0), jnp.zeros(0, int), jnp.zeros(1, int), jnp.zeros(0))
    assert empty.shape == (0,)
    with pytest.warns(scipy.sparse.linalg.MatrixRankWarning):
        x = spsolve(jnp.ones(2), jnp.zeros(2, int), jnp.arange(3), jnp.ones(2))
        x.block_until_ready()
    assert np.isnan(x).all()


def test_derivatives():
    dtype = "complex64"
    _, (data, indices, indptr), b = system(dtype)
    rows = np.repeat(np.arange(N), np.diff(indptr))
    full = lambda data: jnp.zeros((N, N), dtype).at[rows, indices].set(data)
    mine = lambda data, b: spsolve(data, indices, indptr, b)
    dense = lambda data, b: jnp.linalg.solve(full(data), b)
    step = (data * (0.5 - 0.1 * np.arange(data.size)).astype(dtype), b[::-1])

    def everything(f):
        loss = lambda *args: jnp.vdot(f(*args), f(*args) * np.arange(N)).real
        grad = jax.grad(loss, (0, 1))
        return jax.jit(
            lambda args, step: (
                jax.jvp(f, args, step), jax.vjp(f, *args)[1](b), jax.jvp(grad, args, step)[1],
                jax.linear_transpose(lambda b: f(data, b), b)(step[1]),
            )
        )  # fmt: skip

    args = (jnp.array(data), jnp.array(b))
    step = tuple(map(jnp.array, step))
    check = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    jax.tree.map(check, everything(mine)(args, step), everything(dense)(args, step))


def test_a_gradient_takes_one_further_solve():
    _, (data, indices, indptr), b = system()
    f = lambda data, b: spsolve(data, indices, indptr, b).sum()
    assert str(jax.make_jaxpr(jax.grad(f, (0, 1)))(data, b)).count("= spsolve[") == 2
    assert str(jax.make_jaxpr(lambda *x: jax.jvp(f, x, x))(data, b)).count("= spsolve[") == 2


def test_in_programs_for_several_devices():
    A, buffers, b = system(n=16)
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.device_put(b, jax.NamedSharding(mesh, P("x")))
    np.testing.assert_allclose(jax.jit(spsolve)(*buffers, split), exact(A, b), rtol=1e-5)
    many = jnp.stack([b * i for i in range(8)])
    each = jax.shard_map(
        lambda b: spsolve(*buffers, b[0])[None], mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    wanted = [exact(A, x) for x in np.asarray(many)]
    np.testing.assert_allclose(jax.jit(each)(many), wanted, rtol=1e-5)


def test_call_of_cusolver():
    _, buffers, b = system()
    traced = jax.jit(lambda *args: spsolve(*args, tol=1e-3, reorder=2)).trace(*buffers, b)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "@cusolver_csrlsvqr_ffi" in text
    assert "{reorder = 2 : i32, tol = 1.000000e-03 : f64}" in text
    with pytest.raises(NotImplementedError, match="'spsolve' not found for platform tpu"):
        traced.lower(lowering_platforms=("tpu",))


DATA, INDICES, INDPTR, RIGHT = jnp.ones(3), jnp.arange(3), jnp.arange(4), jnp.ones(3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((DATA, INDICES, INDPTR, RIGHT[None]), "must be one-dimensional.*b.shape=.1, 3."),
        ((DATA[None], INDICES, INDPTR, RIGHT), "must be one-dimensional.*data.shape=.1, 3."),
        ((DATA[1:], INDICES, INDPTR, RIGHT), "Invalid CSR buffer sizes: data.shape=.2,."),
        ((DATA, INDICES, INDPTR[1:], RIGHT), "Invalid CSR buffer sizes"),
        ((DATA, INDICES, INDPTR, RIGHT[1:]), "Invalid CSR buffer sizes"),
        ((DATA, INDICES * 1.0, INDPTR, RIGHT), "index arrays must be integer typed"),
        ((DATA, INDICES, INDPTR, INDICES), "data types do not match"),
        ((DATA, INDICES, INDPTR, RIGHT, 1e-6, 4), "reorder=4 not valid"),
        ((DATA, INDICES, INDPTR, RIGHT, "small"), "could not convert"),
    ],
)
def test_errors(args, message):
    with pytest.raises(ValueError, match=message):
        spsolve(*args)


@pytest.mark.parametrize("axes", [(None, 1), (0, None), (0, 0)])
def test_batches(axes):
    data = DATA if axes[0] is None else np.stack([DATA, 2 * DATA, -DATA])
    right = RIGHT if axes[1] is None else np.stack([RIGHT, 3 * RIGHT, RIGHT**2], axes[1])

    def loss(data, right):
        return (spsolve(data, INDICES, INDPTR, right) ** 2).sum()

    value, grads = jax.jit(jax.vmap(jax.value_and_grad(loss, (0, 1)), axes))(data, right)
    for i in range(3):
        one = [x if d is None else np.take(x, i, d) for x, d in zip((data, right), axes)]
        wanted = jax.value_and_grad(loss, (0, 1))(*one)
        for x, y in zip((value, *grads), (wanted[0], *wanted[1])):
            np.testing.assert_allclose(x[i], y, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_done():
    with pytest.raises(NotImplementedError, match="with respect to data"):
        jax.linear_transpose(lambda d: spsolve(d, INDICES, INDPTR, RIGHT), DATA)(RIGHT)
    for wrong in ((INDICES + 1, INDPTR), (-INDICES, INDPTR), (INDICES, INDPTR + 1)):
        # a ValueError if the program ends before the call returns
        with pytest.raises((JaxRuntimeError, ValueError), match="callback"):
            spsolve(DATA, *wrong, RIGHT).block_until_ready()


# ---------------------------------------------------------------------------------------------------
# lobpcg_standard

SIZE = 60
SPECTRA = {
    "equidistant": np.arange(1.0, SIZE + 1),
    "geometric": 1.2 ** np.arange(SIZE),
    "equal": np.ones(SIZE),
    "zero": np.zeros(SIZE),
    "indefinite": np.linspace(-SIZE, SIZE, SIZE),
    "negative": -np.arange(1.0, SIZE + 1),
    "of rank 1": np.eye(SIZE)[0] * 5,
    "clustered": np.r_[np.ones(SIZE - 4), [10, 10, 10, 10.001]],
    "small": 1e-6 * np.arange(1.0, SIZE + 1) ** 2,
}


def hermitian(eigenvalues, dtype="float32"):
    random = np.random.default_rng(1)
    shape = (len(eigenvalues),) * 2
    M = random.standard_normal(shape)
    if dtype.startswith("complex"):
        M = M + 1j * random.standard_normal(shape)
    Q, _ = np.linalg.qr(M)
    return ((Q * eigenvalues) @ Q.conj().T).astype(dtype)


def start(k, dtype="float32", n=SIZE):
    return np.random.default_rng(2).standard_normal((n, k)).astype(dtype)


def check_pairs(A, theta, U, tol=3e-6):
    """They are the largest eigenvalues, in order, and orthonormal eigenvectors."""
    k = len(theta)
    scale = np.abs(A).max() * len(A) or 1
    wanted = np.linalg.eigvalsh(A)[::-1][:k]
    np.testing.assert_allclose(theta, wanted, atol=tol * scale)
    np.testing.assert_allclose(U.conj().T @ U, np.eye(k), atol=tol)
    np.testing.assert_allclose(A @ U, U * theta, atol=10 * tol * scale)


@pytest.mark.parametrize("k", [1, 5])
def test_spectra(k):
    matrices = np.stack([hermitian(s) for s in SPECTRA.values()])
    run = jax.vmap(lobpcg_standard, (0, None))
    for A, theta, U, i in zip(matrices, *map(np.asarray, run(matrices, start(k)))):
        check_pairs(A, theta, U)
        assert 1 <= i <= 100
    # Only of positive eigenvalues the criterion is met.
    iterations = dict(zip(SPECTRA, run(matrices, start(k))[2].tolist()))
    assert iterations["equal"] <= 2 and iterations["geometric"] < 20
    assert iterations["negative"] == iterations["zero"] == 100


def test_complex_and_double_precision():
    A = hermitian(SPECTRA["equidistant"], "complex64")
    theta, U, _ = lobpcg_standard(A, start(3, "complex64"))
    assert theta.dtype == "float32" and U.dtype == "complex64"
    check_pairs(A, theta, U)
    with jax.enable_x64(True):
        A = hermitian(SPECTRA["equidistant"], "float64")
        theta, U, i = lobpcg_standard(A, start(3, "float64"))
        check_pairs(A, theta, U, 1e-14)
        assert i.dtype == "int64"


def test_kinds_of_matrices():
    A = hermitian(SPECTRA["geometric"])
    calls = []

    def times(x):
        calls.append(x.shape)
        return A @ x

    operators = (sparse.BCOO.fromdense(A), times, jax.tree_util.Partial(jnp.matmul, A))
    for operator in operators:
        theta, U, _ = lobpcg_standard(operator, start(2))
        check_pairs(A, theta, U)
    traced = len(calls)
    lobpcg_standard(times, start(2), m=7, tol=1e-4)
    assert len(calls) == traced


def test_matrices_of_integers():
    """Their products with floating-point numbers are such numbers, as of PyPI's."""
    A = np.diag(np.arange(1, 61))
    for matrix in (A, sparse.BCOO.fromdense(A)):
        theta, _, _ = lobpcg_standard(matrix, start(2))
        np.testing.assert_allclose(theta, [60, 59], rtol=1e-4)


def test_iterations_and_tolerance():
    A = hermitian(SPECTRA["equidistant"])
    run = jax.jit(lambda m, tol: lobpcg_standard(A, start(2), m, tol))
    assert [int(run(m, 0.0)[2]) for m in (-2, 0, 1, 5)] == [0, 0, 1, 5]
    # Without iterations: the best in the space of the given directions.
    Q, _ = np.linalg.qr(start(2))
    np.testing.assert_allclose(run(0, 0.0)[0], np.linalg.eigvalsh(Q.T @ A @ Q)[::-1], rtol=1e-5)
    counts = [int(run(100, tol)[2]) for tol in (1e-3, 1e-5, 1e-7)]
    assert 1 <= counts[0] < counts[1] < counts[2] < 60
    theta, U, i = map(np.asarray, run(100, 1e-5))
    norms = np.linalg.norm(A @ U - U * theta, axis=0)
    assert (norms < 1e-5 * 10 * SIZE * (theta + np.linalg.norm(A @ U, axis=0))).all()


def test_dependent_directions():
    A = hermitian(SPECTRA["equidistant"])
    for X in (np.ones((SIZE, 3), "float32"), np.zeros((SIZE, 3), "float32")):
        theta, U, _ = lobpcg_standard(A, X)
        check_pairs(A, theta, U, 1e-5)
    # Exact eigenvectors have no residual.
    D = np.diag(np.arange(1.0, SIZE + 1)).astype("float32")
    theta, _, i = lobpcg_standard(D, np.eye(SIZE, dtype="float32")[:, -3:])
    assert theta.tolist() == [60, 59, 58] and i == 1


def test_derivative():
    A, k = hermitian(SPECTRA["geometric"]), 2
    _, rate = jax.jvp(lambda A: lobpcg_standard(A, start(k))[0], (A,), (A,))
    np.testing.assert_allclose(rate, np.linalg.eigvalsh(A)[::-1][:k], rtol=1e-4)


def test_errors_of_lobpcg():
    A = hermitian(SPECTRA["equal"])
    for args, message in (
        ((A, start(12)), r"search dim \* 5 < matrix dim \(got 60, 60\)"),
        ((A, start(0)), "must have search dim > 0, got 0"),
        ((A, start(1)[:, 0]), "must be a matrix"),
        ((A, start(1).astype("float16")), r"same dtypes \(were float32, float16\)"),
        ((A, start(1).astype(int)), "data type int32 not inexact"),
        ((A, start(1)[1:]), r"A must be \(59, 59\) matrix A, got shape \(60, 60\)"),
        ((A[1:], start(1)), r"A must be \(60, 60\) matrix A"),
        ((lambda x: (A @ x)[1:], start(1)), r"A must be \(60, 60\) matrix A, got output"),
        ((lambda x: (x, x), start(1)), "A must return an array"),
    ):
        with pytest.raises(ValueError, match=message):
            lobpcg_standard(*args)
