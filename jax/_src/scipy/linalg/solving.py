"""Linear systems: the solvers and factorizations of `jax.scipy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, linalg as lax_linalg
from jax._src.lax.control_flow import scan
from jax._src.lax.linalg.common import (
    complex_dtype,
    diagonal,
    eye,
    is_complex,
    matmul,
    mH,
    mT,
    real_dtype,
    tril,
    triu,
)
from jax._src.numpy import linalg as np_linalg, reductions, util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.linalg.solving import linear_solve, lu_solve as _solve_lu
from jax._src.scipy.linalg.common import check_square, export, inexact, solve_batches
from jax._src.scipy.linalg.decompositions import cholesky
from jax._src.typing import ArrayLike


@export
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Computes determinants of matrices (..., n, n); see `jax.numpy.linalg.det`.

    >>> float(jax.scipy.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]])))
    -2.0
    """
    return np_linalg.det(asarray(a))


@export
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverts matrices (..., n, n); see `jax.numpy.linalg.inv`.

    >>> jax.scipy.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return np_linalg.inv(asarray(a))


@export
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solves the linear system `a @ x = b`.

    Args:
      a: array of shape (..., n, n).
      b: array of shape (n,) or (..., n, k). Batch dimensions broadcast.
      lower: whether to read the lower or the upper triangle of `a`, unless it is general.
      overwrite_a, overwrite_b, debug, check_finite: have no effect.
      assume_a: structure of `a`: "gen" for general, "sym" for symmetric, "her" for Hermitian, "pos"
        for Hermitian positive definite.

    Returns:
      Array x; it contains infinities or NaNs if `a` is singular.

    Raises:
      ValueError: if `assume_a` is unknown or the shapes are incompatible.

    >>> jax.scipy.linalg.solve(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([5.0, 8.0])).tolist()
    [1.5, 2.0]
    """
    kinds = ["gen", "sym", "her", "pos"]
    if assume_a not in kinds:
        raise ValueError(f"Expected assume_a to be one of {kinds}; got {assume_a!r}")
    a, b = inexact(a, b)
    check_square("solve", a)
    return _solve(a, b, kind=assume_a, lower=bool(lower))


def _solve_impl(a, b, *, kind, lower):
    if kind == "pos":
        run = _solve_lower if lower else _solve_upper
        return solve_batches("solve", run, (a,), (2,), b)
    if kind in ("sym", "her"):
        flip = mT if kind == "sym" else mH
        a = lax.add(tril(a), flip(tril(a, -1))) if lower else lax.add(triu(a), flip(triu(a, 1)))
    return solve_batches("solve", linear_solve, (a,), (2,), b, vectors=False)


def _solve_definite(lower):
    """Makes a solver based on the Cholesky decomposition.

    Its derivative is that of a general solve, so it does not depend on which triangle is read.
    """

    @custom_jvp
    def run(a, b):
        return _cho_solve(cholesky(a, lower), b, lower=lower)

    @run.defjvp
    def rule(primals, tangents):
        (a, b), (da, db) = primals, tangents
        c = cholesky(a, lower)
        x = _cho_solve(c, b, lower=lower)
        return x, _cho_solve(c, lax.sub(db, matmul(da, x)), lower=lower)

    return run


_solve_lower, _solve_upper = _solve_definite(True), _solve_definite(False)

_solve_impl.__name__ = "solve"
_solve = nested_jit(_solve_impl, static_argnames=("kind", "lower"))


@export
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solves `op(a) @ x = b` for triangular `a`.

    Args:
      a: array of shape (..., n, n), of which one triangle is read.
      b: array of shape (n,) or (..., n, k). Batch dimensions broadcast.
      trans: op: 0 or "N" for `a` itself, 1 or "T" for its transpose, 2 or "C" for its adjoint.
      lower: whether `a` is lower triangular.
      unit_diagonal: whether to assume that the diagonal is one, without reading it.
      overwrite_b, debug, check_finite: have no effect.

    Returns:
      Array x of the shape of `b`, with broadcast batch dimensions.

    Raises:
      ValueError: if `trans` is unknown or the shapes are incompatible.

    >>> a = jnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> jax.scipy.linalg.solve_triangular(a, jnp.array([2.0, 9.0]), lower=True).tolist()
    [1.0, 2.0]
    """
    codes = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in codes:
        raise ValueError(f"Invalid 'trans' value {trans}: known are {', '.join(map(repr, codes))}")
    a, b = inexact(a, b)
    check_square("solve_triangular", a)
    return _solve_triangular(
        a, b, trans=codes[trans], lower=bool(lower), unit_diagonal=bool(unit_diagonal)
    )


def _solve_triangular_impl(a, b, *, trans, lower, unit_diagonal):
    def run(a, b):
        return lax_linalg.triangular_solve(
            a, b, left_side=True, lower=lower, transpose_a=trans > 0, conjugate_a=trans == 2,
            unit_diagonal=unit_diagonal,
        )  # fmt: skip

    return solve_batches("solve_triangular", run, (a,), (2,), b)


_solve_triangular_impl.__name__ = "solve_triangular"
_solve_triangular = nested_jit(
    _solve_triangular_impl, static_argnames=("trans", "lower", "unit_diagonal")
)


@export
def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Computes the Cholesky factor in the form for `cho_solve`: `(cholesky(a, lower), lower)`.

    Args:
      a, lower, overwrite_a, check_finite: as for `cholesky`.

    >>> c, lower = jax.scipy.linalg.cho_factor(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> jax.scipy.linalg.cho_solve((c, lower), jnp.array([8.0, 12.0])).tolist()
    [1.0, 2.0]
    """
    return cholesky(a, lower), lower


@export
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solves `a @ x = b`, given the Cholesky factor of `a`.

    Args:
      c_and_lower: result of `cho_factor(a)`; the factor has shape (..., n, n).
      b: array of shape (n,) or (..., n, k). Batch dimensions broadcast.
      overwrite_b, check_finite: have no effect.

    Returns:
      Array x of the shape of `b`, with broadcast batch dimensions.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> factor = jax.scipy.linalg.cho_factor(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> jax.scipy.linalg.cho_solve(factor, jnp.array([8.0, 12.0])).tolist()
    [1.0, 2.0]
    """
    c, lower = c_and_lower
    c, b = inexact(c, b)
    check_square("cho_solve", c)
    return _cho_solve_batches(c, b, lower=bool(lower))


def _cho_solve_impl(c, b, *, lower):
    return solve_batches("cho_solve", lambda c, b: _cho_solve(c, b, lower=lower), (c,), (2,), b)


_cho_solve_impl.__name__ = "cho_solve"
_cho_solve_batches = nested_jit(_cho_solve_impl, static_argnames=("lower",))


def _cho_solve(c, b, *, lower):
    for adjoint in (not lower, lower):
        b = lax_linalg.triangular_solve(
            c, b, left_side=True, lower=lower, transpose_a=adjoint, conjugate_a=adjoint
        )
    return b


@export
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Computes the LU factorization with row exchanges, in the compact form that `lu_solve` takes.

    Args:
      a: array of shape (..., m, n).
      overwrite_a, check_finite: have no effect.

    Returns:
      `(lu, pivots)`: both triangles in an array of the shape of `a`, and the row exchanges, an
      int32 array of shape (..., min(m, n)).

    >>> lu, pivots = jax.scipy.linalg.lu_factor(jnp.array([[1.0, 2.0], [2.0, 6.0]]))
    >>> lu.tolist(), pivots.tolist()
    ([[2.0, 6.0], [0.5, -1.0]], [1, 1])
    """
    lu, pivots, _ = lax_linalg.lu(inexact(a))
    return lu, pivots


@export
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solves `op(a) @ x = b`, given the LU factorization of `a`.

    Args:
      lu_and_piv: result of `lu_factor(a)`, for square `a`.
      b: array of shape (n,) or (..., n, k). Batch dimensions broadcast.
      trans: op: 0 for `a` itself, 1 for its transpose, 2 for its adjoint.
      overwrite_b, check_finite: have no effect.

    Returns:
      Array x of the shape of `b`, with broadcast batch dimensions.

    Raises:
      ValueError: if `trans` is unknown or the shapes are incompatible.

    >>> factors = jax.scipy.linalg.lu_factor(jnp.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> jax.scipy.linalg.lu_solve(factors, jnp.array([5.0, 8.0])).tolist()
    [1.5, 2.0]
    """
    lu, pivots = lu_and_piv
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    lu, b = inexact(lu, b)
    check_square("lu_solve", lu)
    return _lu_solve(lu, asarray(pivots), b, trans=int(trans))


def _lu_solve_impl(lu, pivots, b, *, trans):
    permutation = lax_linalg.lu_pivots_to_permutation(pivots, lu.shape[-1])
    return solve_batches(
        "lu_solve", lambda lu, p, b: _solve_lu(lu, p, b, trans), (lu, permutation), (2, 1), b
    )


_lu_solve_impl.__name__ = "lu_solve"
_lu_solve = nested_jit(_lu_solve_impl, static_argnames=("trans",))


@export
def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """Solves the Sylvester equation `A @ X + X @ B = C`.

    Args:
      A: array of shape (..., m, m).
      B: array of shape (..., n, n).
      C: array of shape (..., m, n). Batch dimensions broadcast.
      method: "schur" (Bartels and Stewart, "Solution of the matrix equation AX + XB = C", 1972; on
        CPUs), or "eigen", which is faster but less accurate for nearly parallel eigenvectors.
      tol: tolerance for singularity: if the sum of an eigenvalue of A and one of B is smaller in
        magnitude, the result is NaN.

    Returns:
      Array X of shape (..., m, n).

    Raises:
      ValueError: if `method` is unknown or the shapes are incompatible.

    >>> A, B, C = 2 * jnp.eye(2), jnp.eye(1), jnp.array([[3.0], [6.0]])
    >>> want = jnp.array([[1.0], [2.0]])
    >>> bool(jnp.allclose(jax.scipy.linalg.solve_sylvester(A, B, C), want, atol=1e-2))
    True
    """
    A, B, C = inexact(A, B, C)
    if method not in ("schur", "eigen"):
        raise ValueError(
            f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".'
        )
    check_square("solve_sylvester", A)
    check_square("solve_sylvester", B)
    if C.ndim < 2 or C.shape[-2:] != (A.shape[-1], B.shape[-1]):
        raise ValueError(
            f"Incompatible shapes for Sylvester equation:\nA: {A.shape}\nB: {B.shape}\nC: {C.shape}"
        )
    lead = lax.broadcast_shapes(A.shape[:-2], B.shape[:-2], C.shape[:-2])
    A, B, C = (util.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (A, B, C))
    return _sylvester(A, B, C, np.array(tol, real_dtype(A.dtype)), method=method)


def _sylvester_impl(A, B, C, tol, *, method):
    dtype = complex_dtype(A.dtype)
    real = not is_complex(A)
    if method == "eigen":
        a, U = lax_linalg.eig(A, compute_left_eigenvectors=False)
        b, V = lax_linalg.eig(B, compute_left_eigenvectors=False)
        F = linear_solve(U, matmul(C.astype(dtype), V))
        sums = a[..., :, None] + b[..., None, :]
        X = matmul(
            matmul(U, F / sums),
            linear_solve(V, lax.broadcast(eye(dtype, V.shape[-1]), V.shape[:-2])),
        )
    else:
        R, U = lax_linalg.schur(A.astype(dtype))
        S, V = lax_linalg.schur(B.astype(dtype))
        F = matmul(matmul(mH(U), C.astype(dtype)), V)
        sums = diagonal(R)[..., :, None] + diagonal(S)[..., None, :]
        X = matmul(matmul(U, _triangular_sylvester(R, S, F)), mH(V))
    smallest = reductions.min(lax.abs(sums), axis=(-2, -1), keepdims=True, initial=np.inf)
    X = lax.real(X) if real else X
    return util.select_where(smallest >= tol, X, lax.full_like(X, np.nan))


def _triangular_sylvester(R, S, F):
    """Solves R Y + Y S = F for upper triangular R and S, one column of Y at a time."""
    R, S, F = core.vary_alike([R, S, F])
    n = S.shape[-1]
    one = lax.broadcast(eye(R.dtype, R.shape[-1]), R.shape[:-2])
    iota = lax.iota(np.int32, n)

    def step(Y, j):
        s = reductions.sum(util.select_where(iota == j, S, 0), axis=-1)  # column j
        f = reductions.sum(util.select_where(iota == j, F, 0), axis=-1, keepdims=True)
        # The columns of Y from j on are still zero, so the product involves only the previous ones.
        f = f - matmul(Y, lax.expand_dims(s, (s.ndim,)))
        corner = reductions.sum(util.select_where(iota == j, s, 0), axis=-1)[..., None, None]
        y = lax_linalg.triangular_solve(R + corner * one, f, left_side=True, lower=False)
        return util.select_where(iota == j, y, Y), None

    return scan(step, lax.full_like(F, 0), iota)[0]


_sylvester_impl.__name__ = "solve_sylvester"
_sylvester = nested_jit(_sylvester_impl, static_argnames=("method",))
