"""Matrix decompositions of `jax.scipy.linalg`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, linalg as lax_linalg, slicing
from jax._src.lax.control_flow import fori_loop, while_loop
from jax._src.lax.linalg.common import (
    columns,
    complex_dtype,
    conj,
    eye,
    is_complex,
    matmul,
    mH,
    pad_to,
    real_dtype,
    rows,
    scale_columns,
    scale_rows,
    tril,
    triu,
)
from jax._src.numpy import linalg as np_linalg, reductions, util
from jax._src.numpy.array_constructors import asarray
from jax._src.scipy.linalg.common import export, inexact
from jax._src.typing import ArrayLike


@export
def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Computes Cholesky decompositions of Hermitian positive definite matrices.

    Args:
      a: array of shape (..., n, n), of which only one triangle is read.
      lower: whether to return the lower triangular L with `a = L @ L^H` and read the lower triangle
        of `a`; otherwise the upper triangular U with `a = U^H @ U`, from the upper triangle.
      overwrite_a, check_finite: have no effect: arrays are immutable, and values are not checked.

    Returns:
      Array of the same shape. It contains NaNs if `a` is not positive definite, where SciPy raises
      an error.

    >>> jax.scipy.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    return _cholesky(inexact(a), lower=bool(lower))


def _cholesky_impl(a, *, lower):
    if a.ndim < 2:
        raise ValueError(f"cholesky takes matrices (..., n, n), got shape {a.shape}")
    out = lax_linalg.cholesky(a if lower else mH(a), symmetrize_input=False)
    return out if lower else mH(out)


_cholesky_impl.__name__ = "cholesky"
_cholesky = nested_jit(_cholesky_impl, static_argnames=("lower",))


@export
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Computes singular value decompositions `a = U @ diag(s) @ Vh`.

    Args:
      a: array of shape (..., m, n).
      full_matrices, compute_uv: as for `jax.numpy.linalg.svd`.
      overwrite_a, check_finite: have no effect; see `cholesky`.
      lapack_driver: "gesdd" for the platform's default algorithm, "gesvd" for the QR algorithm.

    Returns:
      `(U, s, Vh)`, or s alone.

    Raises:
      ValueError: if `lapack_driver` is unknown.

    >>> jax.scipy.linalg.svd(jnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    algorithms = {"gesdd": None, "gesvd": lax_linalg.SvdAlgorithm.QR}
    if lapack_driver not in algorithms:
        raise ValueError(f"svd: lapack_driver must be 'gesdd' or 'gesvd', got {lapack_driver!r}")
    return lax_linalg.svd(
        inexact(a),
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        algorithm=algorithms[lapack_driver],
    )


@export
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Computes eigenvalues and eigenvectors of Hermitian matrices.

    Args:
      a: array of shape (..., n, n); (a + a^H) / 2 is decomposed.
      b, eigvals, type: must be None, None and 1: generalized problems and subsets are not
        implemented.
      eigvals_only: whether to return only eigenvalues.
      lower, overwrite_a, overwrite_b, turbo, check_finite: have no effect.

    Returns:
      `(eigenvalues, eigenvectors)`: arrays of shapes (..., n), ascending, and (..., n, n), with
      eigenvectors in columns.

    Raises:
      NotImplementedError: if `b`, `eigvals` or `type` has any other value.

    >>> w, v = jax.scipy.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> bool(jnp.allclose(w, jnp.array([1.0, 3.0]), atol=1e-2))
    True
    """
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    w, v = np_linalg.eigh(inexact(a), "L" if lower else "U")
    return w if eigvals_only else (w, v)


@export
def schur(a: ArrayLike, output: str = "real") -> list[Array]:
    """Computes Schur decompositions `a = Z @ T @ Z^H` on CPUs: T (quasi) triangular, Z unitary.

    Args:
      a: array of shape (..., n, n).
      output: "real" (T of a real matrix has 2x2 diagonal blocks for complex eigenvalues) or
        "complex" (T is triangular).

    Returns:
      The list `[T, Z]`.

    Raises:
      ValueError: if `output` is unknown.

    >>> T, Z = jax.scipy.linalg.schur(jnp.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> bool(jnp.allclose((Z @ T @ Z.T), jnp.array([[0.0, 2.0], [2.0, 0.0]]), atol=1e-2))
    True
    """
    a = inexact(a)
    if output not in ("real", "complex"):
        raise ValueError(
            f"Expected 'output' to be either 'real' or 'complex', got output={output!r}."
        )
    if output == "complex":
        a = lax.convert_element_type(a, complex_dtype(a.dtype))
    return lax_linalg.schur(a)


@export
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Converts real Schur forms to complex ones.

    Args:
      T, Z: arrays of shape (..., n, n), as returned by `schur`.
      check_finite: has no effect.

    Returns:
      `(T, Z)`: complex arrays; T is upper triangular.

    Raises:
      ValueError: if the shapes are invalid.

    >>> T, Z = jax.scipy.linalg.rsf2csf(*jax.scipy.linalg.schur(jnp.array([[0.0, 1.0], [-1.0, 0.0]])))
    >>> abs(T[1, 0]).item()
    0.0
    """
    T, Z = inexact(T, Z)
    for name, x in (("T", T), ("Z", Z)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square. Got shape {x.shape}.")
    if T.shape[-1] != Z.shape[-1]:
        raise ValueError(f"Input array shapes must match: Z: {Z.shape} vs. T: {T.shape}")
    lead = lax.broadcast_shapes(T.shape[:-2], Z.shape[:-2])
    dtype = complex_dtype(T.dtype)
    T, Z = (
        lax.convert_element_type(util.broadcast_to(x, (*lead, *x.shape[-2:])), dtype)
        for x in (T, Z)
    )
    return _rsf2csf(T, Z)


def _rsf2csf_impl(T, Z):
    n = T.shape[-1]
    d = T.ndim - 2
    eps = np.array(dtypes.finfo(real_dtype(T.dtype)).eps, real_dtype(T.dtype))
    lane = lax.broadcasted_iota(np.int32, (*T.shape[:-2], 2, n), d + 1)
    row_ids = lax.broadcasted_iota(np.int32, T.shape, d)
    column_ids = lax.broadcasted_iota(np.int32, T.shape, d + 1)

    def step(i, carry):
        # Rotates rows and columns m - 1 and m so that T[m, m - 1] becomes 0, from the bottom up.
        T, Z = carry
        k = n - 2 - i  # m - 1
        pair = slicing.dynamic_slice_in_dim(T, k, 2, d)
        block = slicing.dynamic_slice_in_dim(pair, k, 2, d + 1)
        a, b, c, e = (block[..., i, j] for i in (0, 1) for j in (0, 1))
        needed = lax.abs(c) > eps * (lax.abs(a) + lax.abs(e))
        half = (a - e) / 2
        # Where no rotation is needed, use values at which the square root is differentiable.
        mu = half + lax.sqrt(util.select_where(needed, half * half + b * c, 1))
        mu, c = util.select_where(needed, mu, 1), util.select_where(needed, c, 0)
        size = lax.sqrt(_square_of_size(mu) + _square_of_size(c)).astype(T.dtype)
        cos, sin = (mu / size)[..., None, None], (c / size)[..., None, None]
        G = lax.concatenate(
            [
                lax.concatenate([conj(cos), sin], d + 1),
                lax.concatenate([-sin, cos], d + 1),
            ],
            d,
        )
        turned = util.select_where(lane >= k, matmul(G, pair), pair)
        T = slicing.dynamic_update_slice_in_dim(T, turned, k, d)
        T = util.select_where(row_ids <= k + 1, _turn_columns(T, G, k), T)
        below = (row_ids == k + 1) & (column_ids == k)
        return util.select_where(below, lax.full_like(T, 0), T), _turn_columns(Z, G, k)

    if n < 2:
        return T, Z
    return fori_loop(0, n - 1, step, tuple(core.vary_alike([T, Z])))


def _square_of_size(x):
    return lax.square(lax.real(x)) + lax.square(lax.imag(x))


def _turn_columns(x, G, k):
    pair = slicing.dynamic_slice_in_dim(x, k, 2, x.ndim - 1)
    return slicing.dynamic_update_slice_in_dim(x, matmul(pair, mH(G)), k, x.ndim - 1)


_rsf2csf_impl.__name__ = "rsf2csf"
_rsf2csf = nested_jit(_rsf2csf_impl)


@export
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Computes Hessenberg forms `a = Q @ H @ Q^H`, on CPUs: H is zero below the first subdiagonal.

    Args:
      a: array of shape (..., n, n).
      calc_q: whether to return the unitary Q as well.
      overwrite_a, check_finite: have no effect.

    Returns:
      H, or `(H, Q)`.

    >>> h, q = jax.scipy.linalg.hessenberg(jnp.ones((3, 3)), calc_q=True)
    >>> (q @ h @ q.T).round(3)[0].tolist()
    [1.0, 1.0, 1.0]
    """
    return _hessenberg(inexact(a), calc_q=bool(calc_q))


def _hessenberg_impl(a, *, calc_q):
    h, taus = lax_linalg.hessenberg(a)
    H = triu(h, -1)
    if not calc_q:
        return H
    n = a.shape[-1]
    if n < 2:
        return H, lax.broadcast(eye(a.dtype, n), a.shape[:-2])
    q = lax_linalg.householder_product(columns(rows(h, 1, n), 0, n - 1), taus)
    zero = np.zeros((), a.dtype)
    # The reflections leave the first coordinate alone, so Q has a first row and column of the
    # identity.
    q = lax.pad(q, zero, [(0, 0, 0)] * (a.ndim - 2) + [(1, 0, 0), (1, 0, 0)])
    corner = lax.pad(np.ones((1, 1), a.dtype), zero, [(0, n - 1, 0), (0, n - 1, 0)])
    return H, lax.add(q, lax.broadcast(corner, a.shape[:-2]))


_hessenberg_impl.__name__ = "hessenberg"
_hessenberg = nested_jit(_hessenberg_impl, static_argnames=("calc_q",))


@export
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Computes LU decompositions with row exchanges, `a = P @ L @ U`.

    Args:
      a: array of shape (..., m, n); k is min(m, n). Unlike the original, batch dimensions are
        allowed.
      permute_l: whether to return `P @ L` instead of P and L.
      overwrite_a, check_finite: have no effect.

    Returns:
      `(P, L, U)`: a permutation matrix (..., m, m), a lower triangular matrix (..., m, k) with unit
      diagonal, and an upper triangular matrix (..., k, n); or `(P @ L, U)`.

    >>> P, L, U = jax.scipy.linalg.lu(jnp.array([[1.0, 2.0], [2.0, 6.0]]))
    >>> L.tolist(), U.tolist()
    ([[1.0, 0.0], [0.5, 1.0]], [[2.0, 6.0], [0.0, -1.0]])
    """
    return _lu(inexact(a), permute_l=bool(permute_l))


def _lu_impl(a, *, permute_l):
    factors, _, permutation = lax_linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = tril(columns(factors, 0, k), -1)
    lower = lax.add(lower, lax.broadcast(eye(a.dtype, m, k), a.shape[:-2]))
    upper = triu(rows(factors, 0, k))
    shape = (*a.shape[:-2], m, m)
    iota = lax.broadcasted_iota(np.int32, shape, len(shape) - 2)
    across = lax.broadcast_in_dim(permutation, shape, (*range(len(shape) - 2), len(shape) - 1))
    P = lax.convert_element_type(lax.eq(iota, across), real_dtype(a.dtype))
    if permute_l:
        return matmul(P.astype(a.dtype), lower), upper
    return P, lower, upper


_lu_impl.__name__ = "lu"
_lu = nested_jit(_lu_impl, static_argnames=("permute_l",))


@export
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """Computes QR decompositions `a = Q @ R`: Q has orthonormal columns, R is upper triangular.

    Args:
      a: array of shape (..., m, n); k is min(m, n).
      mode: "full" for Q (..., m, m) and R (..., m, n); "economic" for Q (..., m, k) and R (..., k,
        n); "r" for the R of "full" alone.
      pivoting: whether to permute columns, so that `a[..., p] = Q @ R`.
      overwrite_a, lwork, check_finite: have no effect.

    Returns:
      A tuple of Q (except in mode "r"), R and, with pivoting, p.

    Raises:
      ValueError: if `mode` is unknown.

    >>> q, r = jax.scipy.linalg.qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> bool(jnp.allclose(jnp.abs(r), jnp.array([[5.0, 2.2], [0.0, 0.4]]), atol=1e-2))
    True
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(
            f"Unsupported QR decomposition mode {mode!r}: known are 'full', 'r' and 'economic'."
        )
    out = lax_linalg.qr(inexact(a), pivoting=pivoting, full_matrices=mode != "economic")
    return out[1:] if mode == "r" else out


@export
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> Any:
    """Multiplies a matrix by the Q of a QR decomposition, without forming Q.

    Args:
      a: array of shape (..., m, n) to decompose; k is min(m, n).
      c: array of shape (..., k, p) for mode "left", (..., p, m) for "right"; or a vector.
      mode: "left" for `Q @ c` of shape (..., m, p), "right" for `c @ Q` of shape (..., p, k).
      pivoting: whether to permute columns, as for `qr`.
      conjugate: whether to use the complex conjugate of Q.
      overwrite_a, overwrite_c: have no effect.

    Returns:
      `(product, R)`, or with pivoting `(product, R, p)`; R has shape (..., k, n).

    Raises:
      ValueError: if `mode` is unknown or the shapes are incompatible.

    >>> a = jnp.array([[3.0, 1.0], [4.0, 2.0]])
    >>> product, r = jax.scipy.linalg.qr_multiply(a, jnp.eye(2), "left")
    >>> bool(jnp.allclose((product @ r), jnp.array([[3.0, 1.0], [4.0, 2.0]]), atol=1e-2))
    True
    """
    if mode not in ("left", "right"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    a, c = inexact(a, c)
    if a.ndim < 2:
        raise ValueError(f"qr_multiply: a must be a matrix, got shape {a.shape}")
    return _qr_multiply(
        a, c, left=mode == "left", pivoting=bool(pivoting), conjugate=bool(conjugate)
    )


def _qr_multiply_impl(a, c, *, left, pivoting, conjugate):
    m, n = a.shape[-2:]
    k = min(m, n)
    vector = c.ndim == 1
    if vector:
        c = lax.expand_dims(c, (1 if left else 0,))
    have, want = (c.shape[-2], k) if left else (c.shape[-1], m)
    if have != want:
        product = "Q @ c" if left else "c @ Q"
        raise ValueError(
            f"Array shapes are not compatible for {product} operation: a has shape {a.shape} so Q has {m} "
            f"rows and {k} columns, but c has {have} {'rows' if left else 'columns'} (expected {want})."
        )
    p = ()
    if pivoting:
        h, pivots, taus = lax_linalg.geqp3(a, lax.full((*a.shape[:-2], n), 0, np.int32))
        p = (lax.sub(pivots, lax.full_like(pivots, 1)),)
    else:
        h, taus = lax_linalg.geqrf(a)
    r = triu(rows(h, 0, k))
    lead = lax.broadcast_shapes(a.shape[:-2], c.shape[:-2])
    h, c = (util.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (h, c))
    taus = util.broadcast_to(taus, (*lead, k))
    if conjugate:
        c = conj(c)
    if left:
        out = lax_linalg.ormqr(h, taus, pad_to(c, m, c.shape[-1]))
    else:
        out = columns(lax_linalg.ormqr(h, taus, c, left=False), 0, k)
    if conjugate:
        out = conj(out)
    if vector:
        out = lax.squeeze(out, (out.ndim - 1 if left else out.ndim - 2,))
    return (out, r, *p)


_qr_multiply_impl.__name__ = "qr_multiply"
_qr_multiply = nested_jit(_qr_multiply_impl, static_argnames=("left", "pivoting", "conjugate"))


@export
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Computes polar decompositions `a = U @ P` (or `P @ U`), where P is positive semidefinite.

    Args:
      a: array of shape (..., m, n).
      side: "right" for `U @ P` with P (..., n, n); "left" for `P @ U` with P (..., m, m).
      method: "qdwh", which needs m >= n on the right side and m <= n on the left (see
        `jax.lax.linalg.qdwh`); or "svd".
      eps, max_iterations: parameters of "qdwh".

    Returns:
      `(U, P)`; U has the shape of `a` and orthonormal columns (rows if m < n).

    Raises:
      ValueError: if `side` or `method` is unknown.
      NotImplementedError: if "qdwh" does not support the shape.

    >>> u, p = jax.scipy.linalg.polar(jnp.array([[0.0, -2.0], [1.0, 0.0]]))
    >>> bool(jnp.allclose(p, jnp.array([[1.0, 0.0], [0.0, 2.0]]), atol=1e-2))
    True
    """
    a = inexact(a)
    if a.ndim < 2:
        raise ValueError(f"The input `a` must be at least a 2-D array. Got shape {a.shape}.")
    if side not in ("right", "left"):
        raise ValueError(f"The argument `side` must be either 'right' or 'left', got {side!r}.")
    if method not in ("qdwh", "svd"):
        raise ValueError(
            f"Unknown polar decomposition method {method}: known are 'qdwh' and 'svd'."
        )
    m, n = a.shape[-2:]
    right = side == "right"
    if method == "qdwh" and (m < n if right else m > n):
        raise NotImplementedError(
            "method='qdwh' only supports mxn matrices with m >= n for side='right' and m <= n for "
            f"side='left', got {(m, n)} with side={side!r}. Use method='svd'."
        )
    if eps is not None:
        eps = float(eps)
    if max_iterations is not None:
        max_iterations = operator.index(max_iterations)
    return _polar(a, right=right, method=method, eps=eps, max_iterations=max_iterations)


def _polar_impl(a, *, right, method, eps, max_iterations):
    if method == "qdwh":
        u, p, _, _ = lax_linalg.qdwh(a if right else mH(a), eps=eps, max_iterations=max_iterations)
        return (u, p) if right else (mH(u), p)
    u, s, vh = lax_linalg.svd(a, full_matrices=False)
    if right:
        return matmul(u, vh), matmul(mH(vh), scale_rows(vh, s))
    return matmul(u, vh), matmul(scale_columns(u, s), mH(u))


_polar_impl.__name__ = "polar"
_polar = nested_jit(_polar_impl, static_argnames=("right", "method", "eps", "max_iterations"))


# ---------------------------------------------------------------------------------------------------
# Tridiagonal matrices


@export
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Computes eigenvalues and eigenvectors of a Hermitian tridiagonal matrix.

    Eigenvalues alone are computed by bisection, eigenvectors by a dense decomposition.

    Args:
      d: diagonal, of shape (n,); imaginary parts are ignored.
      e: off-diagonal, of shape (n - 1,) and the same dtype.
      eigvals_only: whether to return only eigenvalues.
      select: "a" for all eigenvalues, "i" for those with indices in `select_range`.
      select_range: `(first, last)` indices, for "i".
      tol: absolute error at which bisection stops; by default the limit of the dtype's precision.
      key: has no effect: no random vectors are needed.

    Returns:
      Eigenvalues in ascending order; or `(eigenvalues, eigenvectors)` with eigenvectors in columns.

    Raises:
      NotImplementedError: if `select` is "v", since the size of its result depends on values.
      ValueError, TypeError: if another argument is invalid.

    >>> d, e = jnp.array([2.0, 2.0]), jnp.array([1.0])
    >>> want = jnp.array([1.0, 3.0])
    >>> bool(jnp.allclose(jax.scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True), want, atol=1e-2))
    True
    """
    d, e = asarray(d), asarray(e)
    if d.dtype != e.dtype:
        raise TypeError(
            f"diagonal and off-diagonal values must have same dtype, got {d.dtype} and {e.dtype}"
        )
    if str(d.dtype) not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(
            "Only float32 and float64 inputs (and their complex counterparts) are supported as inputs to "
            f"jax.scipy.linalg.eigh_tridiagonal, got {d.dtype} and {e.dtype}"
        )
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise ValueError(
            "eigh_tridiagonal takes a diagonal (n,) and an off-diagonal (n - 1,), got shapes "
            f"{d.shape} and {e.shape}"
        )
    n = d.shape[0]
    first, last = 0, n - 1
    if select == "i":
        if select_range is None:
            raise ValueError("for select='i', select_range must be specified.")
        first, last = map(operator.index, select_range)
        if first > last:
            raise ValueError(f"Got empty index range in select_range: {select_range}.")
        if first < 0 or last >= n:
            raise ValueError(f"select_range must be in 0, …, {n - 1}, got {select_range}.")
    elif select == "v":
        raise NotImplementedError("eigh_tridiagonal(..., select='v') is not implemented")
    elif select != "a":
        raise ValueError(f"'select' must be one of 'a', 'i' and 'v', got {select!r}.")
    if not eigvals_only:
        w, v = _eigh_tridiagonal(d, e)
        return w[first : last + 1], v[:, first : last + 1]
    tol = None if tol is None else float(tol)
    return _bisect(d, e, first=first, last=last, tol=tol)


def _eigh_tridiagonal_impl(d, e):
    n = d.shape[0]
    zero = np.zeros((), d.dtype)
    diagonal = lax.mul(eye(d.dtype, n), lax.broadcast(d, (n,)))
    if is_complex(d):
        diagonal = lax.complex(lax.real(diagonal), lax.full_like(lax.real(diagonal), 0))
    below = lax.convert_type(lax.eye(np.bool_, (n, n), -1), d.dtype)
    low = lax.mul(below, lax.broadcast(lax.pad(e, zero, [(0, n - e.shape[0], 0)]), (n,)))
    v, w = lax_linalg.eigh(lax.add(diagonal, lax.add(low, mH(low))), symmetrize_input=False)
    return w, v


_eigh_tridiagonal_impl.__name__ = "eigh_tridiagonal"
_eigh_tridiagonal = nested_jit(_eigh_tridiagonal_impl)


def _bisect_impl(d, e, *, first, last, tol):
    """Bisects all eigenvalues at once by Sturm counts: Barth, Martin and Wilkinson (1967)."""
    real = real_dtype(d.dtype)
    d, e = core.vary_alike([lax.real(d) if is_complex(d) else d, e])
    n = d.shape[0]
    if not n:
        return lax.full((0,), 0, real)
    size = lax.abs(e)
    squares = lax.square(size)
    finfo = dtypes.finfo(real)
    reach = lax.pad(size, np.zeros((), real), [(0, 1, 0)]) + lax.pad(
        size, np.zeros((), real), [(1, 0, 0)]
    )
    # Bounds of the eigenvalues by Gershgorin's theorem.
    low, high = reductions.min(d - reach), reductions.max(d + reach)
    span = lax.max(lax.abs(low), lax.abs(high))
    pad = 2 * n * float(finfo.eps) * span + 2 * float(finfo.tiny)
    low, high = low - pad, high + pad
    # Smaller pivots are replaced by -tiny, so that dividing by them does not overflow.
    tiny = lax.max(
        float(finfo.tiny)
        / float(finfo.eps)
        * lax.max(np.array(1, real), reductions.max(squares, initial=0)),
        np.array(finfo.tiny, real),
    )
    targets = lax.iota(np.int32, last - first + 1) + np.int32(first)

    def count(x):
        """Returns how many eigenvalues are less than each x."""

        def step(i, carry):
            q, below = carry
            here = slicing.dynamic_index_in_dim(d, i, 0, keepdims=False)
            square = slicing.dynamic_index_in_dim(squares, i - 1, 0, keepdims=False)
            q = here - x - square / q
            q = util.select_where(lax.abs(q) <= tiny, -tiny, q)
            return q, below + lax.convert_element_type(q < 0, np.int32)

        q = d[0] - x
        q = util.select_where(lax.abs(q) <= tiny, -tiny, q)
        below = lax.convert_element_type(q < 0, np.int32)
        return below if core.definitely_equal(n, 1) else fori_loop(1, n, step, (q, below))[1]

    def step(_, bounds):
        low, high = bounds
        middle = low + (high - low) / 2
        up = count(middle) <= targets
        return util.select_where(up, middle, low), util.select_where(up, high, middle)

    shape = targets.shape
    steps = finfo.nmant + 3 - int(finfo.minexp) // 8
    if tol is not None and tol > 0:
        steps = min(steps, 4096)

        def wide(carry):
            low, high, i = carry
            return (reductions.max(high - low) > tol) & (i < steps)

        def body(carry):
            return (*step(0, carry[:2]), carry[2] + 1)

        low, high, _ = while_loop(
            wide, body, (lax.broadcast(low, shape), lax.broadcast(high, shape), np.int32(0))
        )
    else:
        low, high = fori_loop(
            0, steps, step, (lax.broadcast(low, shape), lax.broadcast(high, shape))
        )
    return low + (high - low) / 2


_bisect_impl.__name__ = "eigh_tridiagonal"
_bisect = nested_jit(_bisect_impl, static_argnames=("first", "last", "tol"))
