"""`jax.lax.linalg`, compared with the reference build; and what it does not have or does otherwise."""

import re
import subprocess
import sys

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src import core
from jax._src.lax.linalg import svd_by_polar
from jax._src.lax.linalg.tridiagonal import eliminate
from jax.lax import linalg

reference, test_reference, test_numpy = case_tests(__file__)

RNG = np.random.RandomState(0)
MATRIX = RNG.randn(4, 4).astype(np.float32)
HERMITIAN = MATRIX + MATRIX.T


def targets(fun, shape, platform):
    lowered = jax.jit(fun).trace(jax.ShapeDtypeStruct(shape, jnp.float32))
    text = lowered.lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r"custom_call @(\w+)", text)


GPU_TARGETS = {
    "cholesky": ["cusolver_potrf_ffi"],
    "lu": ["cusolver_getrf_ffi", "cu_lu_pivots_to_permutation"],
    "qr": ["cusolver_geqrf_ffi", "cusolver_orgqr_ffi"],
    "eigh": ["cusolver_syevd_ffi"],
    "svd": ["cusolver_gesvdj_ffi"],
    "eig": ["cuhybrid_eig_real"],
    "tridiagonal": ["cusolver_sytrd_ffi"],
}
TPU_TARGETS = {
    "cholesky": [],
    "lu": ["LuDecomposition"],
    "qr": ["Qr", "ProductOfElementaryHouseholderReflectors"],
    "eigh": ["Eigh"],
}


@pytest.mark.parametrize("name", list(GPU_TARGETS))
def test_gpu_kernels(name):
    fun = getattr(linalg, name)
    assert targets(fun, (4, 4), "cuda") == GPU_TARGETS[name]
    hip = [t.replace("cuhybrid", "hiphybrid").replace("cu_", "hip_") for t in GPU_TARGETS[name]]
    hip = [t.replace("cusolver", "hipsolver") for t in hip]
    assert targets(fun, (4, 4), "rocm") == hip


@pytest.mark.parametrize("name", list(TPU_TARGETS))
def test_tpu_kernels(name):
    assert targets(getattr(linalg, name), (4, 4), "tpu") == TPU_TARGETS[name]


@pytest.mark.parametrize(
    "platform, algorithm, shape, target",
    [
        ("cuda", "QR", (3, 5), "cusolver_gesvd_ffi"),
        ("cuda", None, (2000, 3), "cusolver_gesvd_ffi"),
        ("cuda", "polar", (5, 3), "cusolver_gesvdp_ffi"),
        ("rocm", "divide_and_conquer", (5, 3), "hipsolver_gesdd_ffi"),
        ("cpu", "QR", (5, 3), "lapack_sgesvd_ffi"),
    ],
)
def test_svd_kernels(platform, algorithm, shape, target):
    algorithm = None if algorithm is None else linalg.SvdAlgorithm(algorithm)
    for compute_uv in (True, False):
        found = targets(
            lambda x: linalg.svd(x, algorithm=algorithm, compute_uv=compute_uv), shape, platform
        )
        assert found == [target]


def test_svd_without_vectors_makes_no_square_matrix_of_the_longer_side():
    polar = linalg.SvdAlgorithm.POLAR
    for shape in ((500, 3), (3, 500)):
        x = jax.ShapeDtypeStruct(shape, np.float32)
        values = jax.jit(lambda x: linalg.svd(x, algorithm=polar, compute_uv=False))
        assert "500x500" not in values.trace(x).lower(lowering_platforms=("cuda",)).as_text()
        by_polar = jax.jit(lambda x: svd_by_polar(x, full_matrices=True, compute_uv=False))
        assert "500x500" not in by_polar.lower(x).as_text()


@pytest.mark.parametrize("name", ["hessenberg", "schur"])
def test_missing_kernels(name):
    with pytest.raises(NotImplementedError, match=f"{name}.*cuda"):
        targets(getattr(linalg, name), (4, 4), "cuda")


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_svd_by_polar_decomposition(shape, full):
    # What TPUs compute, with a matrix that lacks full rank among others.
    x = RNG.randn(*shape).astype(np.float32)
    x[..., 1, :] = 0
    s, u, vh = jax.jit(lambda x: svd_by_polar(x, full_matrices=full, compute_uv=True))(x)
    k = min(shape[-2:])
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, atol=1e-5)
    eye = np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], u.shape[-1], u.shape[-1]))
    np.testing.assert_allclose(u.mT @ u, eye, atol=1e-5)
    want = np.linalg.svd(x, compute_uv=False)
    np.testing.assert_allclose(s, want, atol=1e-5)
    (only,) = svd_by_polar(jnp.asarray(x), full_matrices=full, compute_uv=False)
    np.testing.assert_allclose(only, want, atol=1e-5)


def test_subsets():
    v, w = linalg.eigh(HERMITIAN)
    some_v, some_w = linalg.eigh(HERMITIAN, subset_by_index=(1, 3))
    np.testing.assert_allclose(some_w, w[1:3], rtol=1e-5)
    np.testing.assert_allclose(abs(some_v), abs(v[:, 1:3]), atol=1e-5)
    u, s, vh = linalg.svd(MATRIX, full_matrices=False)
    parts = linalg.svd(MATRIX, full_matrices=False, subset_by_index=(0, 2))
    for part, whole in zip(parts, (u[:, :2], s[:2], vh[:2])):
        np.testing.assert_allclose(part, whole, atol=1e-5)

    def low_rank(x):
        u, s, vh = linalg.svd(x, full_matrices=False, subset_by_index=(0, 2))
        return (u * s) @ vh

    full = jax.jvp(
        lambda x: (lambda u, s, vh: (u * s)[:, :2] @ vh[:2])(*linalg.svd(x)),
        (MATRIX,),
        (HERMITIAN,),
    )
    np.testing.assert_allclose(jax.jvp(low_rank, (MATRIX,), (HERMITIAN,))[1], full[1], atol=1e-4)
    for fun in (linalg.eigh, lambda x, **kw: linalg.svd(x, full_matrices=False, **kw)):
        for bad in ((2, 1), (0, 5), (-1, 2)):
            with pytest.raises(ValueError, match="subset_by_index"):
                fun(HERMITIAN, subset_by_index=bad)


@pytest.mark.parametrize("shape", [(3, 4), (4, 2)])
def test_derivative_of_pivoted_qr(shape):
    with jax.enable_x64(True):
        x, direction = RNG.randn(*shape), RNG.randn(*shape)

        def fun(x):
            return linalg.qr(x, pivoting=True)[:2]

        h = 1e-6
        slopes = [(a - b) / (2 * h) for a, b in zip(fun(x + h * direction), fun(x - h * direction))]
        for got, want in zip(jax.jvp(fun, (x,), (direction,))[1], slopes):
            np.testing.assert_allclose(got, want, atol=1e-7)


def test_derivative_of_full_qr_without_reflections():
    tangent = jax.jvp(lambda x: linalg.qr(x)[0], (jnp.eye(4, 2),), (jnp.ones((4, 2)),))[1]
    np.testing.assert_allclose(tangent + tangent.T, 0, atol=1e-6)


def test_batches_of_updates():
    r = np.triu(MATRIX) + 4 * np.eye(4, dtype=np.float32)
    ws = RNG.randn(3, 4).astype(np.float32)
    for one, w in zip(jax.vmap(linalg.cholesky_update, (None, 0))(r, ws), ws):
        np.testing.assert_allclose(one.T @ one, r.T @ r + np.outer(w, w), rtol=1e-4, atol=1e-4)


def test_derivative_of_symmetric_product():
    def fun(a, c):
        return linalg.symmetric_product(a, c, alpha=2.0, beta=3.0)

    da, dc = jax.grad(lambda *x: fun(*x).sum(), (0, 1))(MATRIX, HERMITIAN)
    np.testing.assert_allclose(da, np.broadcast_to(4 * MATRIX.sum(0), (4, 4)), rtol=1e-4)
    np.testing.assert_allclose(dc, np.full((4, 4), 3.0))


def test_polar_decomposition_of_parts_and_batches():
    stack = np.stack([MATRIX, HERMITIAN])
    u, h, _, ok = linalg.qdwh(stack)
    assert ok
    np.testing.assert_allclose(u @ h, stack, atol=1e-5)
    padded = np.pad(MATRIX[:3, :2], [(0, 2), (0, 1)], constant_values=7)
    u, h, *_ = jax.jit(lambda m, n: linalg.qdwh(padded, dynamic_shape=(m, n)))(3, 2)
    np.testing.assert_allclose(u[:3, :2] @ h[:2, :2], MATRIX[:3, :2], atol=1e-5)
    assert not np.any(u[3:]) and not np.any(h[2:])
    u, *_ = linalg.qdwh(HERMITIAN, is_hermitian=True)
    np.testing.assert_array_equal(u, u.T)


def test_elimination_without_kernels():
    dl, d, du = RNG.randn(3, 2, 5).astype(np.float32)
    b = RNG.randn(2, 5, 1).astype(np.float32)
    want = linalg.tridiagonal_solve(dl, d + 6, du, b)
    got = eliminate(*map(jnp.asarray, (dl, d + 6, du, b)), perturb_singular=False)
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["cholesky", "lu", "qr", "eigh", "svd", "eig", "fft", "det", "inv"]
)
def test_sharded_batches(name):
    fun = next(getattr(m, name) for m in (linalg, jnp.linalg, jnp.fft) if hasattr(m, name))
    mesh = jax.make_mesh((1, 1), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        batch = np.stack([np.eye(4, dtype=np.float32)] * 2)
        x = jax.device_put(batch, jax.NamedSharding(mesh, jax.P("x", None, None)))
        for out in jax.tree.leaves(fun(x)):
            assert jax.typeof(out).sharding.spec[0] == "x"
        if name == "fft":
            return
        whole = jax.device_put(batch, jax.NamedSharding(mesh, jax.P(None, "x", None)))
        with pytest.raises(core.ShardingTypeError):
            fun(whole)


def test_nothing_is_loaded_early():
    code = "import jax, sys; jax.numpy.ones(2); print([m for m in sys.modules if 'linalg' in m or m == 'scipy'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = eval(out.stdout)
    assert not [m for m in loaded if m.startswith(("jax", "scipy"))], loaded
