"""Cases of `jax.lax.linalg`: decompositions, systems and their derivatives."""

import itertools

import numpy as np
from formula_cases import definite, gauge_free_schur, general
from op_cases import Case, values

import jax
from jax.lax import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")


def gauge_free(u, s, vh):
    """What of singular vectors does not depend on their phases."""
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    outer = u[..., :, None, :] * u.conj()[..., None, :, :]
    outer_v = vh[..., :, :, None] * vh.conj()[..., :, None, :]
    return s, outer, outer_v, u @ vh


def projectors(w, v):
    return w, v[..., :, None, :] * v.conj()[..., None, :, :]


def cases():
    for dtype in DTYPES:
        yield from decompositions(dtype)
        yield from systems(dtype)


def make(dtype, name, fun, args, kernels=False, **kw):
    """Derivatives of two dtypes, batches of one.

    `kernels` says that the case is also for the other two dtypes, since each has kernels of its own: a case for each kernel.
    """
    if dtype not in ("float32", "complex128") and not kernels:
        return
    x64 = dtype in ("float64", "complex128")
    if dtype not in ("float32", "complex128"):
        kw["diff"] = ""
    if dtype != "float32":
        kw["vmap"] = False
    yield Case(f"{name}_{dtype}", fun, args, x64=x64, tol=1e-9 if x64 else 5e-4, **kw)


def decompositions(dtype):
    a = general((2, 3, 3), dtype, "a")
    tall, wide = general((4, 3), dtype, "tall"), general((3, 4), dtype, "wide")
    yield from make(
        dtype, "cholesky", linalg.cholesky, [definite((2, 3, 3), dtype, "pd")], kernels=True
    )
    for name, x in (("square", a), ("tall", tall), ("wide", wide)):
        kw = {} if name == "square" else {"vmap": False}
        yield from make(dtype, f"lu_{name}", linalg.lu, [x], **kw, kernels=name == "tall")
        for pivoting, whole in itertools.product((False, True), repeat=2):
            if pivoting and dtype != "float32":
                continue
            # The reference's derivative of R is wrong where columns are exchanged and left over.
            wrong = {"diff": ""} if pivoting and name == "wide" else {}
            yield from make(
                dtype,
                f"qr_{name}_{pivoting}_{whole}",
                lambda x, p=pivoting, w=whole: linalg.qr(x, pivoting=p, full_matrices=w),
                [x[0] if pivoting and name == "square" else x],
                **kw,
                **wrong,
                kernels=name == "wide" and not pivoting and not whole,
            )
        yield from make(
            dtype,
            f"svd_{name}",
            lambda x: gauge_free(*linalg.svd(x, full_matrices=False)),
            [x],
            **kw,
            kernels=name == "square",
        )
        yield from make(
            dtype,
            f"svd_full_{name}",
            lambda x: gauge_free(*linalg.svd(x, full_matrices=True)),
            [x],
            diff="",
            vmap=False,
        )
    yield from make(dtype, "svdvals", lambda x: linalg.svd(x, compute_uv=False), [tall])
    by_qr = linalg.SvdAlgorithm.QR
    yield from make(
        dtype,
        "svd_qr",
        lambda x: gauge_free(*linalg.svd(x, full_matrices=False, algorithm=by_qr)),
        [tall],
        diff="",
        vmap=False,
        kernels=True,
    )
    herm = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)
    for lower, sym in ((True, True), (False, False)):
        yield from make(
            dtype,
            f"eigh_{lower}",
            lambda x, lower=lower, sym=sym: projectors(
                *linalg.eigh(x, lower=lower, symmetrize_input=sym)[::-1]
            ),
            [herm],
            kernels=lower,
        )
    yield from make(
        dtype,
        "eig_values",
        lambda x: linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
        [a],
    )
    yield from make(
        dtype, "eig", lambda x: linalg.eig(x, enable_eigvec_derivs=True), [a], kernels=True
    )
    rotation = np.array([[1, -2, 0.3], [2, 1, 0.5], [0.2, 0.1, 3]]).astype(dtype)
    yield from make(
        dtype,
        "eig_rotation",
        lambda x: linalg.eig(x, enable_eigvec_derivs=True, compute_left_eigenvectors=False),
        [rotation],
        vmap=False,
    )
    yield from make(dtype, "hessenberg", linalg.hessenberg, [a], diff="", kernels=True)
    schur = lambda x: gauge_free_schur(*linalg.schur(x))
    yield from make(dtype, "schur", schur, [a], diff="", kernels=True)
    yield from make(
        dtype,
        "schur_form",
        lambda x: linalg.schur(x, compute_schur_vectors=False),
        [rotation],
        diff="",
        vmap=False,
    )
    for lower in (True, False):
        yield from make(
            dtype,
            f"tridiagonal_{lower}",
            lambda x, lower=lower: linalg.tridiagonal(x, lower=lower),
            [herm],
            diff="",
            kernels=lower,
        )
    yield from make(dtype, "qdwh", lambda x: linalg.qdwh(x)[:2], [tall], diff="", vmap=False)


def systems(dtype):
    a = general((2, 3, 3), dtype, "a")
    b = values((2, 3, 2), dtype, "b")
    c = np.swapaxes(b, -1, -2)
    for left, lower, t, conj, unit in (
        (True, True, False, False, False),
        (True, False, True, True, False),
        (False, True, False, True, True),
        (False, False, True, False, False),
    ):

        def solve(a, b, left=left, lower=lower, t=t, conj=conj, unit=unit):
            return linalg.triangular_solve(
                a,
                b,
                left_side=left,
                lower=lower,
                transpose_a=t,
                conjugate_a=conj,
                unit_diagonal=unit,
            )

        rhs = b if left else c
        yield from make(
            dtype,
            f"triangular_solve_{left}{lower}{t}{conj}",
            solve,
            [a, rhs],
            kernels=left and lower,
        )
        if dtype == "float32":
            yield from make(
                dtype,
                f"triangular_solve_2d_{left}{lower}{t}{conj}",
                solve,
                [a[0], rhs[0]],
                diff="",
            )
    yield from make(
        dtype,
        "triangular_solve_vector",
        lambda a, b: linalg.triangular_solve(a, b, left_side=True, lower=True),
        [a[0], b[0, :, 0]],
        diff="",
        vmap=False,
    )
    dl, d, du = (values((2, 3), dtype, k) for k in "ldu")
    d = (d + 6).astype(dtype)
    yield from make(
        dtype, "tridiagonal_solve", linalg.tridiagonal_solve, [dl, d, du, b], kernels=True
    )
    yield from make(
        dtype,
        "tridiagonal_solve_perturbed",
        lambda *args: linalg.tridiagonal_solve(*args, perturb_singular=True),
        [dl[0], d[0], du[0], b[0]],
        vmap=False,
    )
    taus = values((2, 3), dtype, "taus")
    yield from make(dtype, "householder_product", linalg.householder_product, [a, taus], diff="")
    for left, transpose in ((True, False), (False, True)):
        yield from make(
            dtype,
            f"ormqr_{left}",
            lambda a, t, c, left=left, tr=transpose: linalg.ormqr(a, t, c, left=left, transpose=tr),
            [a, taus, b if left else c],
            diff="",
            kernels=left,
        )
    if dtype.startswith("float"):
        r = np.triu(a[0]).astype(dtype)
        w = b[0, :, 0]
        yield from make(
            dtype,
            "cholesky_update",
            linalg.cholesky_update,
            [r, w],
            diff="",
            vmap=False,
            kernels=True,
        )
        yield from make(
            dtype,
            "symmetric_product",
            lambda a, c: linalg.symmetric_product(
                a, c, alpha=2.0, beta=3.0, symmetrize_output=True
            ),
            [b, (a + np.swapaxes(a, -1, -2)).astype(dtype)],
            diff="",
        )


def edges():
    # Without elements, without convergence, without an inverse
    for shape in ((0, 0), (0, 3, 3)):
        x = np.zeros(shape, np.float32)
        for name in ("cholesky", "lu", "qr", "eigh", "svd", "eig", "schur"):
            yield Case(f"{name}_{shape}", getattr(linalg, name), [x], diff="", vmap=False)
    for shape in ((0, 3), (3, 0)):
        x = np.zeros(shape, np.float32)
        for name in ("lu", "qr", "svd"):
            yield Case(f"{name}_{shape}", getattr(linalg, name), [x], diff="", vmap=False)
    nan = np.full((2, 3, 3), np.nan, np.float32)
    nan[1] = 2 * np.eye(3)
    for name in ("cholesky", "lu", "qr", "eigh", "eig", "svd"):
        yield Case(f"{name}_nan", getattr(linalg, name), [nan], diff="", vmap=False)
    yield Case(
        "cholesky_indefinite", linalg.cholesky, [-np.eye(3, dtype=np.float32)], diff="", vmap=False
    )
    singular = np.ones((3, 3), np.float32)
    yield Case("lu_singular", linalg.lu, [singular], diff="", vmap=False)
    zero = np.zeros(3, np.float32)
    yield Case("tridiagonal_solve_singular", linalg.tridiagonal_solve,
               [zero, zero, zero, singular], diff="", vmap=False)  # fmt: skip
    for pivots, size in (([[2, 2, 2], [0, 2, 2]], 4), ([3, 1, 3], 5), (np.zeros((2, 0)), 2)):
        yield Case(
            f"lu_pivots_{np.shape(pivots)}",
            lambda p, size=size: linalg.lu_pivots_to_permutation(p, size),
            [np.array(pivots, np.int32)], diff="",
        )  # fmt: skip

    # Errors
    def error(name, fun, *args):
        return Case(f"error_{name}", fun, args, diff="", vmap=False, ignore=("jit",))

    def ones(*shape):
        return np.ones(shape, np.float32)

    integers = np.ones((3, 3), np.int32)
    no_sym = dict(symmetrize_input=False)
    yield error("cholesky_wide", lambda x: linalg.cholesky(x, **no_sym), ones(3, 4))
    yield error("cholesky_vector", lambda x: linalg.cholesky(x, **no_sym), ones(3))
    yield error("cholesky_bool", lambda x: linalg.cholesky(x, **no_sym), ones(3, 3) > 0)
    yield error("cholesky_half", linalg.cholesky, np.ones((3, 3), np.float16))
    yield error("cholesky_update", linalg.cholesky_update, ones(3, 3), ones(4))
    yield error("solve_wide", linalg.triangular_solve, ones(3, 4), ones(3, 3))
    yield error("solve_shapes", linalg.triangular_solve, ones(3, 3), ones(4, 5))
    yield error("solve_batch", linalg.triangular_solve, ones(3, 3), ones(2, 3, 3))
    yield error(
        "solve_dtypes", linalg.triangular_solve, ones(3, 3), ones(3, 3).astype(np.complex64)
    )
    for name in ("lu", "qr", "svd", "eig", "schur", "hessenberg", "tridiagonal"):
        yield error(f"{name}_vector", getattr(linalg, name), ones(3))
        yield error(f"{name}_int", getattr(linalg, name), integers)
    for name in ("eig", "schur", "hessenberg", "tridiagonal"):
        yield error(f"{name}_wide", getattr(linalg, name), ones(3, 4))
    yield error("eigh_wide", lambda x: linalg.eigh(x, **no_sym), ones(3, 4))
    jacobi, qdwh = linalg.EighImplementation.JACOBI, linalg.EighImplementation.QDWH
    yield error("eigh_jacobi", lambda x: linalg.eigh(x, implementation=jacobi), ones(3, 3))
    yield error("eigh_qdwh", lambda x: linalg.eigh(x, implementation=qdwh), ones(3, 3))
    yield error(
        "svd_polar", lambda x: linalg.svd(x, algorithm=linalg.SvdAlgorithm.POLAR), ones(3, 3)
    )
    yield error("svd_subset", lambda x: linalg.svd(x, subset_by_index=(0, 2)), ones(3, 3))
    yield error("schur_sort", lambda x: linalg.schur(x, sort_eig_vals=True), ones(3, 3))
    yield error("householder", linalg.householder_product, ones(3, 4), ones(3))
    yield error("householder_taus", linalg.householder_product, ones(4, 3), ones(4))
    yield error("ormqr", linalg.ormqr, ones(4, 3), ones(3), ones(3, 5))
    yield error("pivots", lambda p: linalg.lu_pivots_to_permutation(p, 2), np.zeros(3, np.int32))
    yield error("pivots_dtype", lambda p: linalg.lu_pivots_to_permutation(p, 3), ones(3))
    yield error("tridiagonal_solve_b", linalg.tridiagonal_solve, ones(3), ones(3), ones(3), ones(3))
    yield error(
        "tridiagonal_solve_d", linalg.tridiagonal_solve, ones(2), ones(3), ones(2), ones(3, 1)
    )
    yield error("symmetric_product", linalg.symmetric_product, ones(4, 3), ones(3, 3))
    yield error("qdwh_wide", linalg.qdwh, ones(3, 4))
    yield error("eig_derivative", lambda x: jax.jvp(linalg.eig, (x,), (x,)), ones(3, 3))
    yield error("svd_derivative", lambda x: jax.jvp(linalg.svd, (x,), (x,)), ones(3, 4))
    yield error("svd_derivative_vector", lambda x: jax.jvp(linalg.svd, (x,), (x,)), ones(3))


CASES = [*cases(), *edges()]
