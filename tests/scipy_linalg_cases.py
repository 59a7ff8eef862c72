"""Cases of `jax.scipy.linalg`."""

import numpy as np
import scipy.linalg
from formula_cases import definite, gauge_free_schur, general
from op_cases import Case, values

import jax.numpy as jnp
import jax.scipy.linalg as linalg


def make(dtype, name, fun, args, both=False, **kw):
    """Derivatives of two dtypes, batches of one.

    `both` says that complex numbers take another path: other cases are compared for real ones alone.
    """
    if dtype == "complex128" and not both:
        return
    x64 = dtype in ("float64", "complex128")
    if dtype != "float32":
        kw["vmap"] = False
    yield Case(f"{name}_{dtype}", fun, args, x64=x64, tol=1e-8 if x64 else 1e-3, **kw)


def cases():
    for dtype in ("float32", "complex128"):
        a = general((2, 3, 3), dtype, "a")
        b = values((2, 3, 2), dtype, "b")
        v = values((3,), dtype, "v")
        tall, wide = general((4, 3), dtype, "tall"), general((3, 4), dtype, "wide")
        pd = (a @ np.conj(np.swapaxes(a, -1, -2)) + 4 * np.eye(3)).astype(a.dtype)
        herm = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)
        for lower in (False, True):
            yield from make(
                dtype,
                f"cholesky_{lower}",
                lambda x, lo=lower: linalg.cholesky(x, lo),
                [pd[0]],
                vmap=False,
            )
            yield from make(
                dtype,
                f"cho_solve_{lower}",
                lambda x, y, lo=lower: linalg.cho_solve(linalg.cho_factor(x, lo), y),
                [pd, b],
                vmap=not lower,
                both=lower,
            )
        for trans in (0, 1, 2):
            yield from make(
                dtype,
                f"lu_solve_{trans}",
                lambda x, y, t=trans: linalg.lu_solve(linalg.lu_factor(x), y, t),
                [a, b],
                vmap=trans == 0,
                both=trans > 0,
            )
            yield from make(
                dtype,
                f"solve_triangular_{trans}",
                lambda x, y, t=trans: linalg.solve_triangular(x, y, t, lower=t > 0),
                [a[0], v],
                vmap=trans == 0,
                both=trans == 2,
            )
        yield from make(
            dtype,
            "lu_solve_vector",
            lambda x, y: linalg.lu_solve(linalg.lu_factor(x), y),
            [a[0], v],
            diff="",
            vmap=False,
        )
        for kind, x in (
            ("gen", a),
            ("sym", herm if dtype == "float32" else a + np.swapaxes(a, -1, -2)),
            ("her", herm),
            ("pos", pd),
        ):
            yield from make(
                dtype,
                f"solve_{kind}",
                lambda x, y, k=kind: linalg.solve(x, y, assume_a=k),
                [x, b],
                # The reference transposes Hermitian systems as if they were symmetric.
                diff={"gen": "both", "pos": "both" if dtype == "float32" else "jvp"}.get(kind, ""),
                vmap=False,
                both=kind != "gen",
            )
        yield from make(dtype, "lu", linalg.lu, [tall], both=True)
        yield from make(
            dtype, "lu_permuted", lambda x: linalg.lu(x, permute_l=True), [wide], vmap=False
        )
        yield from make(dtype, "svd", lambda x: linalg.svd(x, compute_uv=False), [tall], vmap=False)
        yield from make(
            dtype, "eigh", lambda x: linalg.eigh(x, eigvals_only=True), [herm], vmap=False
        )
        for mode in ("full", "r", "economic"):
            yield from make(
                dtype,
                f"qr_{mode}",
                lambda x, m=mode: linalg.qr(x, mode=m),
                [tall],
                diff="",
                vmap=False,
            )
        yield from make(
            dtype,
            "qr_pivoting",
            lambda x: linalg.qr(x, pivoting=True, mode="r"),
            [tall],
            diff="",
            vmap=False,
        )
        for mode, c in (("left", b[0]), ("right", values((2, 4), dtype, "c"))):
            yield from make(
                dtype,
                f"qr_multiply_{mode}",
                lambda x, c, m=mode: linalg.qr_multiply(x, c, m, conjugate=True),
                [tall, c],
                diff="",
                vmap=False,
                both=mode == "left",
            )
        yield from make(
            dtype,
            "qr_multiply_vector",
            lambda x, c: linalg.qr_multiply(x, c, pivoting=True),
            [a[0], v],
            diff="",
            vmap=False,
        )
        yield from make(
            dtype,
            "hessenberg",
            lambda x: linalg.hessenberg(x, calc_q=True),
            [a],
            diff="",
            both=True,
        )
        schur = lambda x: gauge_free_schur(*linalg.schur(x))
        yield from make(dtype, "schur", schur, [a[0]], diff="", vmap=False, both=True)
        for side, method, x in (
            ("right", "qdwh", tall),
            ("left", "qdwh", wide),
            ("right", "svd", tall),
            ("left", "svd", tall),
            ("right", "svd", wide),
        ):
            yield from make(
                dtype,
                f"polar_{side}_{method}_{len(x)}",
                lambda x, s=side, m=method: linalg.polar(x, s, method=m),
                [x],
                diff="both" if side == "right" and method == "svd" and len(x) == 4 else "",
                vmap=False,
                both=method == "qdwh",
            )
        yield from make(dtype, "expm", linalg.expm, [a[0] / 4], both=True)
        yield from make(
            dtype,
            "expm_batch",
            linalg.expm,
            [np.stack([a[0] / 8, a[1] / 20])],
            diff="jvp",
            vmap=False,
        )
        yield from make(dtype, "expm_large", linalg.expm, [a[0]], diff="", vmap=False)
        yield from make(
            dtype,
            "expm_upper",
            lambda x: linalg.expm(x, upper_triangular=True),
            [np.triu(a[0] / 4)],
            vmap=False,
        )
        yield from make(
            dtype,
            "expm_upper_squared",
            lambda x: [linalg.expm(x, upper_triangular=True, max_squarings=n) for n in (0, 1, 2)],
            [np.stack([np.triu(a[0] / np.abs(a[0]).sum(0).max()) * k for k in (3, 7, 20)])],
            diff="",
            vmap=False,
        )
        yield from make(
            dtype,
            "expm_frechet",
            linalg.expm_frechet,
            [a[0] / 5, a[1]],
            diff="",
            vmap=False,
            both=True,
        )
        yield from make(
            dtype,
            "expm_overflow",
            lambda x: linalg.expm(x, max_squarings=2),
            [a[0] * 100],
            diff="",
            vmap=False,
        )
        yield from make(dtype, "sqrtm", linalg.sqrtm, [a[0]], diff="", vmap=False, both=True)
        yield from make(
            dtype,
            "funm",
            lambda x: linalg.funm(x, jnp.cos),
            [a[0] / 4],
            diff="",
            vmap=False,
            both=True,
        )
        for method in ("schur", "eigen"):
            yield from make(
                dtype,
                f"solve_sylvester_{method}",
                lambda *x, m=method: linalg.solve_sylvester(*x, method=m),
                [a[0], general((2, 2), dtype, "b"), b[0]],
                diff="",
                vmap=method == "schur",
                both=method == "schur",
            )
        yield from make(
            dtype,
            "solve_sylvester_singular",
            linalg.solve_sylvester,
            [np.eye(2, dtype=dtype), -np.eye(2, dtype=dtype), b[0, :2]],
            diff="",
            vmap=False,
        )
        c = values((2, 3), dtype, "c")
        for name in ("toeplitz", "hankel"):
            yield from make(
                dtype,
                name,
                getattr(linalg, name),
                [c, values((2, 4), dtype, "r")],
                vmap=False,
                both=name in ("hankel", "companion"),
            )
            yield from make(
                dtype,
                f"{name}_one",
                getattr(linalg, name),
                [c[0]],
                diff="",
                both=name == "toeplitz",
            )
        for name in ("circulant", "companion", "fiedler", "fiedler_companion"):
            yield from make(
                dtype,
                name,
                getattr(linalg, name),
                [c],
                vmap=False,
                both=name in ("hankel", "companion"),
            )
        for n in (1, 2, 4, 5, 6):
            yield from make(
                dtype,
                f"fiedler_companion_{n}",
                linalg.fiedler_companion,
                [values((n,), dtype, "f")],
                diff="",
                vmap=False,
            )
        yield from make(dtype, "leslie", linalg.leslie, [c, c[:, 1:].copy()], vmap=False)
        for mode in ("full", "same", "valid"):
            for n in (1, 2, 5):
                yield from make(
                    dtype,
                    f"convolution_matrix_{mode}_{n}",
                    lambda x, n=n, m=mode: linalg.convolution_matrix(x, n, m),
                    [c],
                    diff="",
                    vmap=False,
                )
        yield from make(
            dtype, "block_diag", lambda *x: linalg.block_diag(*x, 1), [c, v], vmap=False
        )

    turned = np.array(
        [[1, -2, 0.3, 1], [2, 1, 0.5, 0], [0.2, 0.1, 3, 1], [0.5, -1, -2, 2]], np.float32
    )

    def complex_form(x):
        T, Z = linalg.rsf2csf(*linalg.schur(x))
        return Z @ T @ jnp.conj(Z).T, jnp.abs(jnp.tril(T, -1)), jnp.abs(jnp.diagonal(T))

    yield Case("rsf2csf", complex_form, [turned], diff="", vmap=False, tol=1e-3)
    d, e = values((6,), "float32", "d"), values((5,), "float32", "e")
    for name, kw in (
        ("all", {}),
        ("some", dict(select="i", select_range=(1, 3))),
    ):
        yield Case(
            f"eigh_tridiagonal_{name}",
            lambda d, e, kw=kw: linalg.eigh_tridiagonal(d, e, eigvals_only=True, **kw),
            [d, e],
            diff="",
            vmap=False,
            tol=1e-4,
        )
    yield Case(
        "eigh_tridiagonal_vectors",
        lambda d, e: linalg.eigh_tridiagonal(d, e)[0],
        [d, e],
        diff="",
        vmap=False,
        tol=1e-4,
    )
    split = np.array([1, 2, 3], np.float64), np.array([0, 1e-3], np.float64)
    yield Case(
        "eigh_tridiagonal_split",
        lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True),
        split,
        scipy.linalg.eigvalsh_tridiagonal,
        diff="",
        vmap=False,
        x64=True,
        tol=1e-12,
    )

    def constant(name, *args, exact=True, **kw):
        numpy = getattr(scipy.linalg, name)
        return Case(
            f"{name}_{args}",
            lambda x: getattr(linalg, name)(*args, **kw),
            [np.float32(0)],
            lambda x: numpy(*args, **kw).astype(np.float32) if exact else numpy(*args, **kw),
            diff="",
            vmap=False,
            tol=1e-3,
        )

    for n in (1, 4):
        for name in ("hilbert", "invhilbert", "pascal", "invpascal", "hadamard", "helmert"):
            yield constant(name, n)
        yield constant("dft", n, "sqrtn", exact=False)
    for kind in ("lower", "upper"):
        yield constant("pascal", 4, kind)
        yield constant("invpascal", 4, kind)
    yield constant("helmert", 3, True)
    yield constant("dft", 5, "n", exact=False)
    yield constant("hilbert", 0)

    matrices = definite((3, 3, 3), "float32", "batch")
    for kind in ("gen", "her"):
        # The right-hand side is a matrix, not a batch of vectors.
        yield Case(
            f"solve_{kind}_matrix",
            lambda a, b, kind=kind: linalg.solve(a, b, assume_a=kind),
            [matrices, matrices[0]],
            diff="",
            vmap=False,
            tol=1e-4,
        )
    yield Case("fiedler_uint8", linalg.fiedler, [np.uint8([3, 9, 4])], vmap=False)

    def error(name, fun, *args):
        return Case(f"error_{name}", fun, args, diff="", vmap=False, ignore=("jit",))

    def ones(*shape):
        return np.ones(shape, np.float32)

    square = ones(3, 3)
    yield error("eigh_b", linalg.eigh, square, square)
    yield error("eigh_type", lambda x: linalg.eigh(x, type=2), square)
    yield error("schur_output", lambda x: linalg.schur(x, "x"), square)
    yield error("qr_mode", lambda x: linalg.qr(x, mode="x"), square)
    yield error("qr_multiply_mode", lambda x: linalg.qr_multiply(x, x, "x"), square)
    yield error("qr_multiply_shapes", linalg.qr_multiply, square, ones(2, 4))
    yield error("polar_side", lambda x: linalg.polar(x, "x"), square)
    yield error("polar_method", lambda x: linalg.polar(x, method="x"), square)
    yield error("polar_wide", linalg.polar, ones(2, 3))
    yield error("solve_kind", lambda x: linalg.solve(x, x, assume_a="x"), square)
    yield error("solve_shapes", linalg.solve, square, ones(4))
    yield error("solve_vectors", linalg.solve, ones(2, 3, 3), ones(2, 3))
    yield error("triangular_trans", lambda x: linalg.solve_triangular(x, x, trans=3), square)
    yield error("lu_trans", lambda x: linalg.lu_solve(linalg.lu_factor(x), x, trans=3), square)
    yield error("cho_solve", lambda x, y: linalg.cho_solve((x, True), y), square, ones(4))
    yield error("expm", linalg.expm, ones(2, 3))
    yield error("expm_frechet", linalg.expm_frechet, square, ones(2, 2))
    yield error("funm", lambda x: linalg.funm(x, jnp.sin), ones(2, 3))
    yield error("sqrtm_blocks", lambda x: linalg.sqrtm(x, 2), square)
    yield error("sylvester_method", lambda x: linalg.solve_sylvester(x, x, x, method="x"), square)
    yield error("sylvester_shapes", linalg.solve_sylvester, square, square, ones(3, 2))
    yield error("tridiagonal_dtypes", linalg.eigh_tridiagonal, np.arange(3), np.arange(2))
    yield error(
        "tridiagonal_select",
        lambda d, e: linalg.eigh_tridiagonal(d, e, select="v"),
        ones(3),
        ones(2),
    )
    yield error("block_diag", linalg.block_diag, ones(2, 2, 2))
    yield error("companion", linalg.companion, ones(1))
    yield error("leslie", linalg.leslie, ones(3), ones(3))
    yield error("hankel", linalg.hankel, ones())
    yield error("convolution_mode", lambda x: linalg.convolution_matrix(x, 2, "x"), ones(3))
    yield error("convolution_n", lambda x: linalg.convolution_matrix(x, 0), ones(3))
    yield error("pascal", lambda x: linalg.pascal(3, "x"), ones())
    yield error("hadamard", lambda x: linalg.hadamard(3), ones())
    yield error("helmert", lambda x: linalg.helmert(0), ones())
    yield error("dft", lambda x: linalg.dft(3, "x"), ones())


CASES = list(cases())
