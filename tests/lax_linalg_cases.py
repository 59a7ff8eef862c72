"""Cases of `jax.lax.linalg`: decompositions, systems and their derivatives."""

import itertools

import jax
import numpy as np
from jax.lax import linalg
from op_cases import Case, values

DTYPES = ("float32", "float64", "complex64", "complex128")


def definite(shape, dtype, key):
    x = values(shape, dtype, key)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + 4 * np.eye(shape[-1])).astype(x.dtype)


def general(shape, dtype, key):
    """Well-conditioned matrices with separate eigenvalues and singular values."""
    x = values(shape, dtype, key)
    n = min(shape[-2:])
    x[..., :n, :n] += np.diag(3.0 * np.arange(1, n + 1)).astype(x.dtype)
    return x


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
        x64 = dtype in ("float64", "complex128")
        kw = dict(x64=x64, tol=1e-9 if x64 else 5e-4)
        a = general((2, 3, 3), dtype, "a")
        tall, wide = general((4, 3), dtype, "tall"), general((3, 4), dtype, "wide")
        b = values((2, 3, 2), dtype, "b")
        full = dtype in ("float32", "complex128")
        pd = definite((2, 3, 3), dtype, "pd")
        yield Case(f"cholesky_{dtype}", linalg.cholesky, [pd], **kw)
        for left, lower, t, c, unit in (
            (True, True, False, False, False),
            (True, False, True, True, False),
            (False, True, False, True, True),
            (False, False, True, False, False),
        ):
            if not full and left:
                continue

            def solve(a, b, left=left, lower=lower, t=t, c=c, unit=unit):
                return linalg.triangular_solve(
                    a,
                    b,
                    left_side=left,
                    lower=lower,
                    transpose_a=t,
                    conjugate_a=c,
                    unit_diagonal=unit,
                )

            rhs = b if left else np.swapaxes(b, -1, -2)
            yield Case(f"triangular_solve_{dtype}_{left}{lower}{t}{c}", solve, [a, rhs], **kw)
            yield Case(
                f"triangular_solve_{dtype}_{left}{lower}{t}{c}_2d", solve, [a[0], rhs[0]], **kw
            )
        yield Case(
            f"triangular_solve_vector_{dtype}",
            lambda a, b: linalg.triangular_solve(a, b, left_side=True, lower=True),
            [a[0], b[0, :, 0]],
            diff="", vmap=False, **kw,
        )  # fmt: skip
        for name, x in (("square", a), ("tall", tall), ("wide", wide)):
            light = {} if full else {"vmap": False}
            yield Case(f"lu_{name}_{dtype}", linalg.lu, [x], **kw, **light)
            for pivoting, whole in itertools.product((False, True), repeat=2):
                if pivoting and not full:
                    continue
                yield Case(
                    f"qr_{name}_{dtype}_{pivoting}{whole}",
                    lambda x, p=pivoting, w=whole: linalg.qr(x, pivoting=p, full_matrices=w),
                    [x], **kw, **light,
                )  # fmt: skip
            yield Case(
                f"svd_{name}_{dtype}",
                lambda x: gauge_free(*linalg.svd(x, full_matrices=False)),
                [x], **kw, **light,
            )  # fmt: skip
            yield Case(
                f"svd_full_{name}_{dtype}",
                lambda x: gauge_free(*linalg.svd(x, full_matrices=True)),
                [x], diff="" if name != "square" else "both", **kw, **light,
            )  # fmt: skip
            yield Case(
                f"svdvals_{name}_{dtype}",
                lambda x: linalg.svd(x, compute_uv=False),
                [x], **kw, **light,
            )  # fmt: skip
        yield Case(
            f"svd_qr_{dtype}",
            lambda x: gauge_free(
                *linalg.svd(x, full_matrices=False, algorithm=linalg.SvdAlgorithm.QR)
            ),
            [tall], diff="", vmap=False, **kw,
        )  # fmt: skip
        herm = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)
        for lower, sym in ((True, True), (False, False)):
            yield Case(
                f"eigh_{dtype}_{lower}",
                lambda x, lower=lower, sym=sym: projectors(
                    *linalg.eigh(x, lower=lower, symmetrize_input=sym)[::-1]
                ),
                [herm], **kw,
            )  # fmt: skip
        yield Case(
            f"eig_values_{dtype}",
            lambda x: linalg.eig(
                x, compute_left_eigenvectors=False, compute_right_eigenvectors=False
            ),
            [a], **kw,
        )  # fmt: skip
        yield Case(f"eig_{dtype}", lambda x: linalg.eig(x, enable_eigvec_derivs=True), [a], **kw)
        rotation = np.array([[1, -2, 0.3], [2, 1, 0.5], [0.2, 0.1, 3]]).astype(dtype)
        yield Case(
            f"eig_rotation_{dtype}",
            lambda x: linalg.eig(x, enable_eigvec_derivs=True, compute_left_eigenvectors=False),
            [rotation], vmap=False, **kw,
        )  # fmt: skip
        for name in ("hessenberg", "schur"):
            yield Case(f"{name}_{dtype}", getattr(linalg, name), [a], diff="", **kw)
        yield Case(
            f"schur_form_{dtype}",
            lambda x: linalg.schur(x, compute_schur_vectors=False),
            [rotation], diff="", vmap=False, **kw,
        )  # fmt: skip
        for lower in (True, False):
            yield Case(
                f"tridiagonal_{dtype}_{lower}",
                lambda x, lower=lower: linalg.tridiagonal(x, lower=lower),
                [herm], diff="", **kw,
            )  # fmt: skip
        dl, d, du = (values((2, 3), dtype, k) for k in "ldu")
        d = (d + 6).astype(dtype)
        yield Case(f"tridiagonal_solve_{dtype}", linalg.tridiagonal_solve, [dl, d, du, b], **kw)
        yield Case(
            f"tridiagonal_solve_perturbed_{dtype}",
            lambda *a: linalg.tridiagonal_solve(*a, perturb_singular=True),
            [dl[0], d[0], du[0], b[0]], vmap=False, **kw,
        )  # fmt: skip
        taus = values((2, 3), dtype, "taus")
        yield Case(
            f"householder_product_{dtype}", linalg.householder_product, [a, taus], diff="", **kw
        )
        for left, transpose in ((True, False), (False, True)):
            yield Case(
                f"ormqr_{dtype}_{left}",
                lambda a, t, c, left=left, tr=transpose: linalg.ormqr(a, t, c, left=left, transpose=tr),
                [a, taus, b if left else np.swapaxes(b, -1, -2)], diff="", **kw,
            )  # fmt: skip
        yield Case(
            f"qdwh_{dtype}", lambda x: linalg.qdwh(x)[:2], [tall],
            diff="", vmap=False, **{**kw, "tol": 1e-9 if x64 else 1e-4},
        )  # fmt: skip
        if dtype.startswith("float"):
            r = np.triu(a[0]).astype(dtype)
            yield Case(f"cholesky_update_{dtype}", linalg.cholesky_update, [r, b[0, :, 0]],
                       diff="", vmap=False, **kw)  # fmt: skip
            yield Case(
                f"symmetric_product_{dtype}",
                lambda a, c: linalg.symmetric_product(
                    a, c, alpha=2.0, beta=3.0, symmetrize_output=True
                ),
                [b, herm], diff="", **kw,
            )  # fmt: skip

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


CASES = list(cases())
