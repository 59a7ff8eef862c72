"""Cases of `jax.numpy.linalg`."""

import numpy as np
from formula_cases import definite, general
from op_cases import Case, values

import jax
import jax.numpy as jnp
from jax.numpy import linalg


def make(dtype, name, fun, args, both=False, **kw):
    """Derivatives of two dtypes, batches of one.

    `both` says that complex numbers take another path: other cases are compared for real ones alone.
    """
    if dtype == "complex128" and not both:
        return
    x64 = dtype in ("float64", "complex128")
    if dtype != "float32":
        kw["vmap"] = False
    yield Case(f"{name}_{dtype}", fun, args, x64=x64, tol=1e-9 if x64 else 1e-3, **kw)


def cases():
    for dtype in ("float32", "complex128"):
        a = general((2, 3, 3), dtype, "a")
        big = general((4, 4), dtype, "big")
        tall, wide = general((4, 3), dtype, "tall"), general((3, 4), dtype, "wide")
        pd = definite((3, 3), dtype, "pd")
        herm = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)
        vector, matrix = values((3,), dtype, "v"), values((3, 2), dtype, "m")
        yield from make(dtype, "cholesky", linalg.cholesky, [pd], both=True)
        yield from make(
            dtype,
            "cholesky_upper",
            lambda x: linalg.cholesky(x, upper=True),
            [pd],
            vmap=False,
            both=True,
        )
        yield from make(
            dtype,
            "cholesky_triangle",
            lambda x: linalg.cholesky(x, upper=True, symmetrize_input=False),
            [np.tril(pd)],
            diff="",
            vmap=False,
        )
        yield from make(dtype, "det", linalg.det, [a])
        for n in (0, 1, 2, 4):
            yield from make(
                dtype,
                f"det_{n}",
                linalg.det,
                [big[:n, :n]],
                vmap=False,
                any_error=n == 0,
                both=n > 1,
            )
        for method in ("lu", "qr") if dtype == "float32" else ("lu",):
            yield from make(
                dtype,
                f"slogdet_{method}",
                lambda x, m=method: linalg.slogdet(x, method=m),
                [a],
                both=True,
            )
        yield from make(dtype, "inv", linalg.inv, [a], both=True)
        yield from make(dtype, "solve", linalg.solve, [a, values((2, 3, 2), dtype, "b")], both=True)
        yield from make(dtype, "solve_vector", linalg.solve, [a[0], vector])
        yield from make(dtype, "solve_vectors", linalg.solve, [a, vector], vmap=False)
        yield from make(
            dtype, "solve_many", linalg.solve, [a[0], values((2, 3, 2), dtype, "b")], diff=""
        )
        yield from make(
            dtype,
            "solve_broadcast",
            linalg.solve,
            [a[:, None], values((4, 3, 2), dtype, "b")],
            diff="",
            vmap=False,
        )
        yield from make(dtype, "pinv", linalg.pinv, [tall], both=True)
        yield from make(dtype, "pinv_wide", linalg.pinv, [wide], vmap=False)
        yield from make(
            dtype,
            "pinv_hermitian",
            lambda x: linalg.pinv(x, hermitian=True),
            [herm[0]],
            diff="",
            vmap=False,
            both=True,
        )
        yield from make(
            dtype, "pinv_rtol", lambda x: linalg.pinv(x, rtol=0.5), [tall], diff="", vmap=False
        )
        yield from make(
            dtype,
            "lstsq",
            linalg.lstsq,
            [tall, values((4, 2), dtype, "b")],
            diff="jvp",
            vmap=False,
            both=True,
        )
        yield from make(
            dtype, "lstsq_zero", linalg.lstsq, [0 * tall, values((4,), dtype, "b")], diff=""
        )
        yield from make(dtype, "lstsq_wide", linalg.lstsq, [wide, vector], diff="", vmap=False)
        deficient = (matrix @ matrix.T).astype(dtype)
        for rcond in (None, 0.3):
            yield from make(
                dtype,
                f"lstsq_deficient_{rcond}",
                lambda a, b, r=rcond: linalg.lstsq(a, b, rcond=r)[:3],
                [deficient, vector],
                diff="",
                vmap=False,
            )
        yield from make(
            dtype,
            "lstsq_numpy",
            lambda a, b: linalg.lstsq(a, b, numpy_resid=True),
            [tall, values((4, 2), dtype, "b")],
            diff="",
            vmap=False,
            ignore=("jit",),
        )
        yield from make(dtype, "eigvals", lambda x: jnp.sort(linalg.eigvals(x)), [a], both=True)
        yield from make(dtype, "eigh", lambda x: linalg.eigh(x).eigenvalues, [herm], both=True)
        yield from make(
            dtype, "eigh_upper", lambda x: linalg.eigvalsh(x, "U"), [herm], vmap=False, both=True
        )
        yield from make(
            dtype,
            "eigh_triangle",
            lambda x: linalg.eigvalsh(x, "U", symmetrize_input=False),
            [a],
            diff="",
            vmap=False,
            both=True,
        )
        yield from make(
            dtype, "svd", lambda x: linalg.svd(x, full_matrices=False).S, [tall], both=True
        )
        yield from make(
            dtype,
            "svd_product",
            lambda x: (lambda u, s, vh: (u * s) @ vh)(*linalg.svd(x, full_matrices=False)),
            [wide],
            both=True,
        )
        yield from make(
            dtype,
            "svd_hermitian",
            lambda x: (lambda u, s, vh: (s, (u * s) @ vh))(*linalg.svd(x, hermitian=True)),
            [(herm[0] - 9 * np.eye(3)).astype(dtype)],
            both=True,
        )
        yield from make(dtype, "svdvals", linalg.svdvals, [wide], vmap=False)
        for mode in ("reduced", "complete", "r"):
            yield from make(
                dtype,
                f"qr_{mode}",
                lambda x, m=mode: linalg.qr(x, m),
                [tall],
                vmap=False,
                both=mode == "complete",
            )
        yield from make(dtype, "qr_raw", lambda x: linalg.qr(x, "raw"), [tall], diff="", vmap=False)
        for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
            light = (
                {} if dtype == "float32" and p in (None, 1, "nuc") else {"diff": "", "vmap": False}
            )
            yield from make(
                dtype, f"cond_{p}", lambda x, p=p: linalg.cond(x, p), [a], diff="", vmap=False
            )
            yield from make(
                dtype,
                f"matrix_norm_{p}",
                lambda x, p=p: linalg.norm(x, p, (0, 2)),
                [a],
                **light,
                both=p in (1, "nuc"),
            )
        for p in (None, 2, 1, 0, np.inf, -np.inf, 3, -1, 0.5):
            light = {} if dtype == "float32" else {"diff": "both" if p == 3 else ""}
            yield from make(
                dtype,
                f"norm_{p}",
                lambda x, p=p: linalg.norm(x, p, 1, keepdims=True),
                [a],
                **{**light, "vmap": False},
                both=p in (None, 3),
            )
        yield from make(
            dtype,
            "norm_all",
            lambda x: (linalg.norm(x), linalg.norm(x, keepdims=True)),
            [a],
            both=True,
        )
        yield from make(
            dtype,
            "vector_norm",
            lambda x: (
                linalg.vector_norm(x, axis=(0, 2)),
                linalg.vector_norm(x, ord=1, keepdims=True),
            ),
            [a],
            vmap=False,
        )
        yield from make(
            dtype, "matrix_norm", lambda x: linalg.matrix_norm(x, keepdims=True), [a], vmap=False
        )
        yield from make(
            dtype, "matrix_rank", linalg.matrix_rank, [np.stack([a[0], deficient])], diff=""
        )
        yield from make(
            dtype,
            "matrix_rank_tol",
            lambda x: (
                linalg.matrix_rank(x, tol=7.0),
                linalg.matrix_rank(x[0]),
                linalg.matrix_rank(x * 0),
            ),
            [a],
            diff="",
            vmap=False,
        )
        for n in (-2, 0, 1, 5):
            yield from make(
                dtype,
                f"matrix_power_{n}",
                lambda x, n=n: linalg.matrix_power(x, n),
                [a],
                vmap=False,
            )
        yield from make(
            dtype,
            "multi_dot",
            lambda *x: linalg.multi_dot(x),
            [vector, matrix, matrix.T.copy(), tall.T.copy()],
            diff="",
            vmap=False,
        )
        yield from make(
            dtype, "tensorinv", linalg.tensorinv, [big.reshape(2, 2, 2, 2)], diff="", vmap=False
        )
        yield from make(
            dtype,
            "tensorsolve",
            linalg.tensorsolve,
            [big.reshape(2, 2, 4), big[:2, :2].copy()],
            vmap=False,
        )
        yield from make(
            dtype, "cross", linalg.cross, [vector, vector[::-1].copy()], diff="", vmap=False
        )
        yield from make(dtype, "outer", linalg.outer, [vector, vector], diff="", vmap=False)
        yield from make(
            dtype,
            "vecdot",
            lambda x, y: linalg.vecdot(x, y, axis=0),
            [matrix, matrix],
            diff="",
            vmap=False,
            both=True,
        )
        yield from make(
            dtype,
            "diagonal",
            lambda x: (linalg.diagonal(x, offset=1), linalg.trace(x)),
            [a],
            diff="",
            vmap=False,
        )

    integers = np.array([[2, 1], [1, 3]])
    for name in (
        "cholesky",
        "det",
        "inv",
        "slogdet",
        "eigvalsh",
        "svdvals",
        "pinv",
        "norm",
        "cond",
    ):
        yield Case(f"{name}_int", getattr(linalg, name), [integers], diff="", vmap=False, tol=1e-4)
    for name in ("det", "norm"):
        yield Case(
            f"{name}_half",
            getattr(linalg, name),
            [np.eye(3).astype(np.float16)],
            diff="",
            vmap=False,
        )
    empty = np.zeros((0, 0), np.float32)
    for name in ("cholesky", "det", "inv", "slogdet", "svd", "eigh", "pinv", "norm"):
        yield Case(f"{name}_empty", getattr(linalg, name), [empty], diff="", vmap=False)
    singular = np.array([[1, 2], [2, 4]], np.float32)
    for name in ("inv", "slogdet"):
        yield Case(f"{name}_singular", getattr(linalg, name), [singular], diff="", vmap=False)
    yield Case("norm_zero", jax.grad(linalg.norm), [np.zeros(3, np.float32)], diff="", vmap=False)

    def error(name, fun, *args):
        return Case(f"error_{name}", fun, args, diff="", vmap=False, ignore=("jit",))

    def ones(*shape):
        return np.ones(shape, np.float32)

    for name in ("det", "inv", "slogdet"):
        yield error(f"{name}_wide", getattr(linalg, name), ones(2, 3))
        yield error(f"{name}_vector", getattr(linalg, name), ones(3))
    yield error("list", lambda x: linalg.inv([[x]]), ones())
    yield error("uplo", lambda x: linalg.eigh(x, "X"), ones(2, 2))
    yield error("qr_mode", lambda x: linalg.qr(x, "x"), ones(2, 2))
    yield error("slogdet_method", lambda x: linalg.slogdet(x, method="x"), ones(2, 2))
    yield error(
        "slogdet_qr", lambda x: linalg.slogdet(x, method="qr"), ones(2, 2).astype(np.complex64)
    )
    yield error("solve", linalg.solve, ones(3, 3), ones(4))
    yield error("solve_batch", linalg.solve, ones(2, 3, 3), ones(2, 3))
    yield error("lstsq", linalg.lstsq, ones(3, 2), ones(4))
    yield error("lstsq_3d", linalg.lstsq, ones(3, 2), ones(3, 2, 1))
    yield error("norm_axes", lambda x: linalg.norm(x, 2), ones(2, 3, 4))
    yield error("norm_order", lambda x: linalg.norm(x, "fro"), ones(3))
    yield error("norm_matrix", lambda x: linalg.norm(x, 3), ones(3, 3))
    yield error("norm_repeated", lambda x: linalg.norm(x, axis=(0, 0)), ones(3, 3))
    yield error("cond_vector", linalg.cond, ones(3))
    yield error("cond_empty", linalg.cond, ones(0, 3))
    yield error("cond_wide", lambda x: linalg.cond(x, 1), ones(2, 3))
    yield error("matrix_power", lambda x: linalg.matrix_power(x, 1.5), ones(2, 2))
    yield error("matrix_power_wide", lambda x: linalg.matrix_power(x, 1), ones(2, 3))
    yield error("multi_dot_sizes", lambda x: linalg.multi_dot([x, x]), ones(2, 3))
    yield error("tensorinv", linalg.tensorinv, ones(2, 3))
    yield error("rank_tol", lambda x: linalg.matrix_rank(x, rtol=1, tol=1), ones(2, 2))
    yield error("pinv_rtol", lambda x: linalg.pinv(x, rtol=1, rcond=1), ones(2, 2))
    yield error("cross", linalg.cross, ones(2), ones(2))
    yield error("outer", linalg.outer, ones(2, 2), ones(2))


CASES = list(cases())
