"""Linear systems, least squares, inverses, ranks and determinants."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, linalg as lax_linalg
from jax._src.lax.linalg.common import (
    diagonal,
    eye_like,
    is_complex,
    matmul,
    mH,
    permute_rows,
    real_dtype,
)
from jax._src.lax.linalg.determinants import det_3x3
from jax._src.numpy import reductions, util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.linalg.common import check_matrix, check_square, export, inexact
from jax._src.numpy.linalg.decompositions import svd
from jax._src.numpy.linalg.elimination import is_small_batched, solve_small
from jax._src.numpy.linalg.norms import norm
from jax._src.typing import ArrayLike


@export
class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Array
    logabsdet: Array


# ---------------------------------------------------------------------------------------------------
# Linear systems


@export
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solves the linear system `a @ x = b`.

    Args:
      a: array of shape (..., n, n).
      b: a vector (n,), or an array of shape (..., n, k). Batch dimensions broadcast.

    Returns:
      Array x of shape (..., n) if `b` is a vector, else (..., n, k). It contains infinities or NaNs
      if `a` is singular, where NumPy raises an error.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> jnp.linalg.solve(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([5.0, 8.0])).tolist()
    [1.5, 2.0]
    """
    a, b = inexact("solve", a, b)
    return _solve(a, b)


def _solve_impl(a, b):
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"solve: a must have shape (..., n, n), got {a.shape}")
    if b.ndim == 0 or b.shape[-1 if b.ndim == 1 else -2] != a.shape[-1]:
        hint = ""
        if b.ndim == a.ndim - 1 and b.shape and b.shape[-1] == a.shape[-1]:
            hint = " For a batch of vectors use solve(a, b[..., None]).squeeze(-1)."
        raise ValueError(
            f"solve: b must have shape ({a.shape[-1]},) or (..., {a.shape[-1]}, k) for a of shape "
            f"{a.shape}, got {b.shape}.{hint}"
        )
    vector = b.ndim == 1
    if vector:
        b = lax.expand_dims(b, (1,))
    lead = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.ndim == 2 and b.ndim > 2 or (vector and a.ndim == 2):
        # Factorize the matrix once for all right-hand sides.
        x = _solve_many(a, b)
    else:
        a = util.broadcast_to(a, (*lead, *a.shape[-2:]))
        b = util.broadcast_to(b, (*lead, *b.shape[-2:]))
        x = linear_solve(a, b)
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


def _solve_many(a, b):
    """Solves for right-hand sides (..., n, k) of one matrix by placing them side by side."""
    n = b.shape[-2]
    order = (b.ndim - 2, *range(b.ndim - 2), b.ndim - 1)
    wide = lax.transpose(b, order)
    x = linear_solve(a, lax.reshape(wide, (n, math.prod(wide.shape[1:]))))
    return lax.transpose(lax.reshape(x, wide.shape), (*range(1, b.ndim - 1), 0, b.ndim - 1))


_solve_impl.__name__ = "solve"
_solve = nested_jit(_solve_impl)


@custom_jvp
def linear_solve(a: Any, b: Any) -> Any:
    """Computes `a^-1 @ b` for (..., n, n) and (..., n, k) arrays of one dtype and batch shape."""
    if is_small_batched(a, b):
        return solve_small(a, b)
    lu, _, permutation = lax_linalg.lu(a)
    return lu_solve(lu, permutation, b)


@linear_solve.defjvp
def _linear_solve_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    lu, _, permutation = lax_linalg.lu(a)
    # Differentiating a x = b gives a dx = db - da x, which reuses the factorization.
    x = lu_solve(lu, permutation, b)
    return x, lu_solve(lu, permutation, lax.sub(db, matmul(da, x)))


def lu_solve(lu: Any, permutation: Any, b: Any, trans: int = 0) -> Any:
    """Solves with the LU decomposition of a matrix, or its transpose (trans=1) or adjoint (2)."""
    solve = lax_linalg.triangular_solve
    if trans == 0:
        b = permute_rows(b, permutation)
        b = solve(lu, b, left_side=True, lower=True, unit_diagonal=True)
        return solve(lu, b, left_side=True, lower=False)
    conj = trans == 2
    b = solve(lu, b, left_side=True, lower=False, transpose_a=True, conjugate_a=conj)
    b = solve(
        lu, b, left_side=True, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=conj
    )
    return permute_rows(b, inverse_permutation(permutation))


def inverse_permutation(permutation: Any) -> Any:
    """Inverts permutations along the last dimension."""
    iota = lax.broadcasted_iota(np.int32, permutation.shape, permutation.ndim - 1)
    return lax.sort([permutation, iota], num_keys=1)[1]


@export
def inv(a: ArrayLike) -> Array:
    """Inverts matrices. To solve a linear system, `solve` is faster and more accurate.

    Args:
      a: array of shape (..., n, n).

    Returns:
      Array of the same shape; it contains infinities or NaNs if `a` is singular.

    Raises:
      ValueError: if `a` is not square.

    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    a = inexact("inv", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to inv must have shape [..., n, n], got {a.shape}.")
    return _inv(a)


def _inv_impl(a):
    return linear_solve(a, eye_like(a))


_inv_impl.__name__ = "inv"
_inv = nested_jit(_inv_impl)


@export
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """Solves the tensor equation `tensordot(a, x, x.ndim) = b` for x.

    Args:
      a: array of shape `b.shape + x.shape`, after moving `axes` to its end.
      b: array of any shape.
      axes: dimensions of `a` to move to its end first.

    Returns:
      Array x, of the trailing dimensions of `a`.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> jnp.linalg.tensorsolve(2 * jnp.eye(4).reshape(2, 2, 4), jnp.ones((2, 2))).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    a, b = util.ensure_arraylike("jnp.linalg.tensorsolve", a, b)
    if axes is not None:
        moved = [operator.index(i) % a.ndim for i in axes]
        a = lax.transpose(a, [*[i for i in range(a.ndim) if i not in moved], *moved])
    rest = a.shape[b.ndim :]
    n = math.prod(rest)
    if math.prod(a.shape[: b.ndim]) != n or b.size != n:
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={a.shape}, b.ndim={b.ndim}."
        )
    return solve(lax.reshape(a, (n, n)), lax.reshape(b, (n,))).reshape(rest)


@export
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Inverts the linear map that `tensordot` with `a` performs.

    Args:
      a: array in which the first `ind` dimensions have as many elements as the remaining ones.
      ind: a positive integer.

    Returns:
      Array of shape `a.shape[ind:] + a.shape[:ind]`.

    Raises:
      ValueError: if `ind` is not positive or the numbers of elements differ.

    >>> jnp.linalg.tensorinv(2 * jnp.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    a = util.ensure_arraylike("jnp.linalg.tensorinv", a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    first, rest = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals that of the "
            f"remaining dimensions. got arr.shape={a.shape} with ind={ind}."
        )
    n = math.prod(rest)
    return inv(lax.reshape(a, (n, n))).reshape(*rest, *first)


# ---------------------------------------------------------------------------------------------------
# Least squares and pseudo-inverses


@export
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Finds the least-squares solution of `a @ x = b`, of minimum norm if there are several.

    Args:
      a: array of shape (m, n).
      b: array of shape (m,) or (m, k).
      rcond: singular values below `rcond` times the largest one are treated as zero; None for
        max(m, n) times the dtype's machine epsilon, a negative number for machine epsilon.
      numpy_resid: whether to return empty `residuals` like NumPy if the rank is less than n or m <=
        n. That depends on values, so it does not work under `jit`.

    Returns:
      `(x, residuals, rank, s)`: the solution, (n,) or (n, k); the sums of squared residuals, (1,)
      or (k,); the rank of `a`; the singular values of `a`.

    Raises:
      ValueError, TypeError: if the shapes are incompatible.

    >>> x, *_ = jnp.linalg.lstsq(jnp.array([[1.0], [1.0]]), jnp.array([1.0, 3.0]))
    >>> bool(jnp.allclose(x, jnp.array([2.0]), atol=1e-2))
    True
    """
    a, b = inexact("lstsq", a, b)
    if a.ndim != 2:
        raise TypeError(
            f"{a.ndim}-dimensional array given as a. Array must be two-dimensional, got shape {a.shape}"
        )
    if b.ndim not in (1, 2):
        raise TypeError(
            f"{b.ndim}-dimensional array given. Array must be one or two-dimensional, got b.shape={b.shape}"
        )
    if a.shape[0] != b.shape[0]:
        raise ValueError(
            f"Leading dimensions of input arrays must match: got {a.shape} and {b.shape}"
        )
    if rcond is not None:
        rcond = lax.convert_element_type(rcond, real_dtype(a.dtype))
        if rcond.ndim:
            rcond = util.broadcast_to(rcond, (core.min_dim(*a.shape),))
    x, residuals, rank, s = _lstsq(a, b, rcond)
    if numpy_resid:
        m, n = a.shape
        known = core.concrete_or_error(int, rank, "The rank, in lstsq(..., numpy_resid=True).")
        if known < n or m <= n:
            residuals = lax.full((0,), 0, residuals.dtype)
    return x, residuals, rank, s


def _lstsq_impl(a, b, rcond):
    m, n = a.shape
    vector = b.ndim == 1
    if vector:
        b = lax.expand_dims(b, (1,))
    real = real_dtype(a.dtype)
    int_dtype = dtypes.default_int_dtype()
    if not a.size:
        x = lax.full((n, b.shape[1]), 0, a.dtype)
        s, rank = lax.full((0,), 0, real), lax.full((), 0, int_dtype)
        error = b
    else:
        eps = np.array(dtypes.finfo(real).eps, real)
        if rcond is None:
            rcond = _times_size(float(eps), a, real)
        else:
            rcond = util.select_where(rcond < 0, eps, rcond)
        u, s, vh = lax_linalg.svd(a, full_matrices=False)
        keep = lax.bitwise_and(s >= rcond * s[0], s > 0)
        rank = reductions.sum(keep, dtype=int_dtype)
        one = lax.full_like(s, 1)
        inverse = lax.select(keep, lax.div(one, lax.select(keep, s, one)), lax.full_like(s, 0))
        x = matmul(mH(vh), lax.expand_dims(inverse, (1,)).astype(a.dtype) * matmul(mH(u), b))
        error = lax.sub(b, matmul(a, x))
    residuals = reductions.sum(lax.square(lax.abs(error)), 0)
    return (lax.squeeze(x, (1,)) if vector else x), residuals, rank, s


_lstsq_impl.__name__ = "lstsq"
_lstsq = nested_jit(_lstsq_impl)


@export
def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """Computes Moore-Penrose pseudo-inverses of matrices.

    Args:
      a: array of shape (..., m, n).
      rtol: singular values below `rtol` times the largest one are treated as zero; a scalar, or an
        array that broadcasts with the batch shape. The default is `10 * max(m, n)` times the
        dtype's machine epsilon.
      hermitian: whether `a` is Hermitian, which allows a faster algorithm.
      rcond: alias of `rtol`.

    Returns:
      Array of shape (..., n, m).

    Raises:
      ValueError: if both `rtol` and `rcond` are given, or `a` has fewer than two dimensions.

    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    a = inexact("pinv", a)
    check_matrix("pinv", a)
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    real = real_dtype(a.dtype)
    if rtol is None:
        rtol = _times_size(10.0 * float(dtypes.finfo(real).eps), a, real)
    rtol = lax.convert_element_type(asarray(rtol), real)
    lead = lax.broadcast_shapes(rtol.shape, a.shape[:-2])
    a, rtol = util.broadcast_to(a, (*lead, *a.shape[-2:])), util.broadcast_to(rtol, lead)
    return _pinv(a, rtol, hermitian=bool(hermitian))


def _pinv_impl(a, rtol, *, hermitian):
    @custom_jvp
    def pseudo_inverse(a, rtol):
        if not a.size:
            return lax.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), 0, a.dtype)
        u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
        cutoff = lax.mul(rtol, s[..., 0])[..., None]
        # Dividing by infinity drops the singular values below the cutoff.
        s = util.select_where(s > cutoff, s, np.array(np.inf, s.dtype))
        return matmul(mH(vh), lax.div(mH(u), lax.expand_dims(s, (s.ndim,)).astype(u.dtype)))

    @pseudo_inverse.defjvp
    def rule(primals, tangents):
        # Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
        # problems whose variables separate" (1973); it holds where the rank is locally constant.
        (a, rtol), (da, _) = primals, tangents
        p = pseudo_inverse(a, rtol)
        out = lax.neg(_triple(p, da, p))
        right = _triple(p, mH(p), mH(da))
        out = lax.add(out, lax.sub(right, _triple(right, a, p)))
        left = _triple(mH(da), mH(p), p)
        return p, lax.add(out, lax.sub(left, _triple(p, a, left)))

    return pseudo_inverse(a, rtol)


def _triple(x, y, z):
    """Multiplies three matrices, starting with the smaller of the products x @ y and y @ z."""
    if core.definitely_greater(x.shape[-2] * y.shape[-1], y.shape[-2] * z.shape[-1]):
        return matmul(x, matmul(y, z))
    return matmul(matmul(x, y), z)


def _times_size(factor, a, dtype):
    """The factor times the larger side of the matrices `a`."""
    size = core.max_dim(*a.shape[-2:])
    if core.is_constant_dim(size):
        return np.array(factor * size, dtype)
    return lax.mul(lax.convert_element_type(size, dtype), np.array(factor, dtype))


_pinv_impl.__name__ = "pinv"
_pinv = nested_jit(_pinv_impl, static_argnames=("hermitian",))


@export
def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """Computes the numerical rank of matrices.

    Args:
      M: array of shape (..., m, n). A scalar or vector has rank 1 if any element is nonzero, else
        0.
      rtol: singular values up to `rtol` times the largest one are treated as zero; the default is
        max(m, n) times the dtype's machine epsilon. The original compares them with `rtol` itself.
      hermitian: whether `M` is Hermitian, which allows a faster algorithm.
      tol: absolute threshold instead of `rtol`: singular values up to it are treated as zero.

    Returns:
      Integer array of shape (...).

    Raises:
      ValueError: if both `tol` and `rtol` are given.

    >>> int(jnp.linalg.matrix_rank(jnp.ones((3, 3))))
    1
    """
    M = inexact("matrix_rank", M)
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    if M.ndim < 2:
        return reductions.any(M != 0).astype(dtypes.default_int_dtype())
    real = real_dtype(M.dtype)
    if tol is None and rtol is None:
        rtol = _times_size(float(dtypes.finfo(real).eps), M, real)
    relative = tol is None
    tol = lax.convert_element_type(rtol if relative else tol, real)
    return _matrix_rank(M, tol, hermitian=bool(hermitian), relative=relative)


def _matrix_rank_impl(a, tol, *, hermitian, relative):
    s = svd(a, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if tol.ndim:
        tol = lax.expand_dims(tol, (tol.ndim,))
    if relative:
        tol = reductions.max(s, axis=-1, keepdims=True, initial=0) * tol
    return reductions.sum(s > tol, axis=-1)


_matrix_rank_impl.__name__ = "matrix_rank"
_matrix_rank = nested_jit(_matrix_rank_impl, static_argnames=("hermitian", "relative"))


@export
def cond(x: ArrayLike, p: Any = None) -> Array:
    """Computes condition numbers `norm(x, p) * norm(inv(x), p)`.

    Args:
      x: array of shape (..., m, n); square unless p is None, 2 or -2.
      p: order of the norm, see `norm`; for None, 2 and -2 the ratio of the extreme singular values.

    Returns:
      Array of shape (...); infinite for singular matrices.

    Raises:
      ValueError: if a matrix is empty, or has to be square and is not, or `p` is unknown.

    >>> float(jnp.linalg.cond(jnp.array([[1.0, 0.0], [0.0, 4.0]])))
    4.0
    """
    util.check_arraylike("cond", x)
    x = inexact("cond", x)
    check_matrix("cond", x)
    if not all(x.shape[-2:]):
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got arr.shape={x.shape}")
    if p in (None, 2, -2):
        s = lax_linalg.svd(x, compute_uv=False)
        first, last = s[..., 0], s[..., -1]
        out = last / first if p == -2 else first / last
    else:
        if x.shape[-1] != x.shape[-2]:
            raise ValueError(
                f"jnp.linalg.cond: for p={p!r}, array must be square; got arr.shape={x.shape}"
            )
        out = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    # 0 / 0 and inf * 0 come from singular matrices, unless the input already had NaNs.
    was_nan = reductions.any(lax.ne(x, x), axis=(-2, -1))
    return util.select_where(lax.ne(out, out) & ~was_nan, np.array(np.inf, out.dtype), out)


# ---------------------------------------------------------------------------------------------------
# Determinants


@export
def det(a: ArrayLike) -> Array:
    """Computes determinants of matrices.

    Args:
      a: array of shape (..., n, n).

    Returns:
      Array of shape (...). The gradient is also correct for singular matrices of rank n - 1.

    Raises:
      ValueError: if `a` is not square.

    >>> float(jnp.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]])))
    -2.0
    """
    a = inexact("det", a)
    check_square("det", a)
    return _det(a)


def _det_impl(a):
    n = a.shape[-1]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        return det_3x3(a)
    return _det_by_lu(a)


_det_impl.__name__ = "det"
_det = nested_jit(_det_impl)


@custom_jvp
def _det_by_lu(a):
    lu, pivots, _ = lax_linalg.lu(a)
    return _product(diagonal(lu)) * _parity(pivots).astype(a.dtype)


def _product(x):
    return reductions.prod(x, axis=-1)


def _parity(pivots):
    """Returns the sign of the permutation: -1 for an odd number of row exchanges, else 1."""
    iota = lax.broadcasted_iota(np.int32, pivots.shape, pivots.ndim - 1)
    count = reductions.sum(lax.ne(pivots, iota), axis=-1, dtype=np.int32)
    return 1 - 2 * (count % 2)


@_det_by_lu.defjvp
def _det_jvp(primals, tangents):
    """Jacobi's formula, d det(a) = trace(adj(a) da), valid for singular matrices too.

    With `P a = L U`, adj(a) = det(P) adj(U) L^-1 P. To compute adj(U) for singular U, let r be the
    pivot of smallest magnitude, k its index, and U' the matrix U with that pivot replaced by 1. U'
    is regular if U has rank n - 1 or more, and
      adj(U) = det(U') (r U'^-1 + (1 - r) U'^-1 e_k e_k^T U'^-1).
    """
    (a,), (da,) = primals, tangents
    lu, pivots, permutation = lax_linalg.lu(a)
    d = diagonal(lu)
    sign = _parity(pivots).astype(a.dtype)
    n = a.shape[-1]
    k = lax.argmin(lax.abs(d), d.ndim - 1, np.int32)[..., None]
    at_k = lax.broadcasted_iota(np.int32, d.shape, d.ndim - 1) == k
    r = reductions.sum(util.select_where(at_k, d, 0), axis=-1)[..., None, None]
    others = util.select_where(at_k, lax.full_like(d, 1), d)
    # Two zero pivots mean, in practice, a rank of at most n - 2, for which the adjugate is 0.
    lower_rank = reductions.any(lax.eq(others, lax.full_like(d, 0)), axis=-1, keepdims=True)
    scale = _product(others) * sign
    fixed = util.select_where(lower_rank, lax.full_like(d, 1), others)
    lane = lax.broadcast(lax.eye(np.bool_, (n, n)), lu.shape[:-2])
    regular = util.select_where(lane, fixed[..., None], lu)
    # The result is trace(adj(U) g) with g = L^-1 P da.
    g = permute_rows(da, permutation)
    g = lax_linalg.triangular_solve(lu, g, left_side=True, lower=True, unit_diagonal=True)
    unit = util.select_where(at_k, lax.full_like(d, 1), lax.full_like(d, 0))
    row = lax_linalg.triangular_solve(regular, unit[..., None, :], left_side=False, lower=False)
    column = lax_linalg.triangular_solve(regular, unit[..., None], left_side=True, lower=False)
    solved = lax_linalg.triangular_solve(regular, g, left_side=True, lower=False)
    first = reductions.sum(diagonal(solved), axis=-1)
    second = matmul(matmul(row, g), column)[..., 0, 0]
    r = r[..., 0, 0]
    tangent = scale * (r * first + (1 - r) * second)
    tangent = util.select_where(lower_rank[..., 0], lax.full_like(tangent, 0), tangent)
    return _product(d) * sign, tangent


@export
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Computes the sign and the logarithm of the absolute value of determinants.

    Args:
      a: array of shape (..., n, n).
      method: "lu" (or None) or, for real matrices only, "qr".

    Returns:
      `(sign, logabsdet)`, each of shape (...); 0 and -inf for singular matrices.

    Raises:
      ValueError: if `a` is not square or `method` is unknown.
      NotImplementedError: if `method` is "qr" and `a` is complex.

    >>> sign, logabsdet = jnp.linalg.slogdet(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> float(sign), round(float(jnp.exp(logabsdet)), 3)
    (-1.0, 6.0)
    """
    a = inexact("slogdet", a)
    check_square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method {method!r}. Supported methods are 'lu' (`None`), and 'qr'."
        )
    if method == "qr" and is_complex(a):
        raise NotImplementedError("slogdet method='qr' not implemented for complex inputs")
    return SlogdetResult(*_slogdet(a, method=method or "lu"))


def _slogdet_impl(a, *, method):
    return _slogdet_by_lu(a) if method == "lu" else _slogdet_by_qr(a)


_slogdet_impl.__name__ = "slogdet"
_slogdet = nested_jit(_slogdet_impl, static_argnames=("method",))


def _from_diagonal(d, sign):
    size = lax.abs(d)
    zero = lax.eq(d, lax.full_like(d, 0))
    phase = lax.div(d, util.select_where(zero, lax.full_like(size, 1), size).astype(d.dtype))
    return sign.astype(d.dtype) * _product(phase), reductions.sum(lax.log(size), axis=-1)


@custom_jvp
def _slogdet_by_lu(a):
    lu, pivots, _ = lax_linalg.lu(a)
    return _from_diagonal(diagonal(lu), _parity(pivots))


@_slogdet_by_lu.defjvp
def _slogdet_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    lu, pivots, permutation = lax_linalg.lu(a)
    sign, logabsdet = _from_diagonal(diagonal(lu), _parity(pivots))
    # d log(det(a)) = trace(a^-1 da); its imaginary part turns the sign of a complex determinant.
    trace = reductions.sum(diagonal(lu_solve(lu, permutation, da)), axis=-1)
    if not is_complex(a):
        return (sign, logabsdet), (lax.full_like(sign, 0), trace)
    turn = lax.complex(lax.full_like(logabsdet, 0), lax.imag(trace))
    return (sign, logabsdet), (turn * sign, lax.real(trace))


@custom_jvp
def _slogdet_by_qr(a):
    h, taus = lax_linalg.geqrf(a)
    # Each Householder reflection other than the identity has determinant -1.
    count = reductions.sum(lax.ne(taus, lax.full_like(taus, 0)), axis=-1, dtype=np.int32)
    return _from_diagonal(diagonal(h), 1 - 2 * (count % 2))


@_slogdet_by_qr.defjvp
def _slogdet_qr_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    sign, logabsdet = _slogdet_by_qr(a)
    q, r = lax_linalg.qr(a)
    solved = lax_linalg.triangular_solve(r, matmul(mH(q), da), left_side=True, lower=False)
    trace = reductions.sum(diagonal(solved), axis=-1)
    return (sign, logabsdet), (lax.full_like(sign, 0), trace)
