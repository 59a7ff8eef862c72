"""Matrix functions: `expm`, `sqrtm`, `funm`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api, core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, linalg as lax_linalg, slicing
from jax._src.lax.control_flow import cond, fori_loop, switch
from jax._src.lax.linalg.common import (
    complex_dtype,
    diagonal,
    eye,
    eye_like,
    matmul,
    mH,
    real_dtype,
    triu,
)
from jax._src.numpy import reductions, util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.linalg.norms import norm
from jax._src.numpy.linalg.solving import linear_solve
from jax._src.scipy.linalg.common import export, inexact
from jax._src.typing import ArrayLike

# ---------------------------------------------------------------------------------------------------
# Exponential: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005)

_PADE = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (
        17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0,
        3960.0, 90.0, 1.0,
    ),
    13: (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
        129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
        960960.0, 16380.0, 182.0, 1.0,
    ),
}  # fmt: skip
# The largest 1-norm for which the approximant of each degree is accurate to the dtype's precision
_SINGLE = {3: 0.4258730016922831, 5: 1.880152677804762, 7: 3.925724783138660}
_DOUBLE = {
    3: 0.01495585217958292,
    5: 0.2539398330063230,
    7: 0.9504178996162932,
    9: 2.097847961257068,
    13: 5.371920351148152,
}


@export
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Computes the matrix exponential.

    Args:
      A: array of shape (..., n, n).
      upper_triangular: whether A is upper triangular.
      max_squarings: maximum number of squarings; the result is NaN if the norm of A needs more.

    Returns:
      Array of the same shape.

    Raises:
      ValueError: if A is not square.

    >>> want = jnp.array([[1.0, 1.0], [0.0, 1.0]])
    >>> bool(jnp.allclose(jax.scipy.linalg.expm(jnp.array([[0.0, 1.0], [0.0, 0.0]])), want, atol=1e-2))
    True
    """
    A = inexact(A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={A.shape}.")
    return _expm(A, upper_triangular=bool(upper_triangular), max_squarings=int(max_squarings))


def _expm_impl(A, *, upper_triangular, max_squarings):
    if not A.size:
        return A
    limits = _SINGLE if dtypes.finfo(real_dtype(A.dtype)).bits <= 32 else _DOUBLE
    *lower, highest = limits
    size = norm(lax.stop_gradient(A), 1, (-2, -1))
    # Scale A by a power of two, so that its norm is within the limit of the highest degree.
    ratio = lax.div(size, np.array(limits[highest], size.dtype))
    squarings = lax.max(np.array(0, size.dtype), lax.floor(lax.log(ratio) / math.log(2)))
    squarings = util.select_where(size > 0, squarings, 0)
    scale = lax.expand_dims(lax.exp2(lax.neg(squarings)), (size.ndim, size.ndim + 1))
    A = lax.mul(A, util.broadcast_to(scale, A.shape).astype(A.dtype))
    # A degree higher than necessary does no harm, so use one degree for all matrices of a batch.
    largest = reductions.max(size)
    degree = sum(lax.convert_element_type(largest > limits[k], np.int32) for k in lower)
    U, V = switch(degree, [lambda A, k=k: _pade(A, k) for k in limits], A)
    P, Q = lax.add(U, V), lax.sub(V, U)
    if upper_triangular:
        out = lax_linalg.triangular_solve(Q, P, left_side=True, lower=False)
    else:
        out = linear_solve(Q, P)

    def square(i, out):
        more = lax.lt(lax.convert_element_type(i, squarings.dtype), squarings)
        mask = util.broadcast_to(lax.expand_dims(more, (more.ndim, more.ndim + 1)), out.shape)
        return cond(
            reductions.any(more),
            lambda x: lax.select(mask, matmul(x, x), x),
            lambda x: x,
            out,
        )

    out = fori_loop(0, max_squarings, square, out)
    fine = lax.expand_dims(squarings <= max_squarings, (size.ndim, size.ndim + 1))
    return util.select_where(fine, out, lax.full_like(out, np.nan))


_expm_impl.__name__ = "expm"
_expm = nested_jit(_expm_impl, static_argnames=("upper_triangular", "max_squarings"))


def _pade(A, degree):
    """Returns the odd and the even part of the Padé approximant's numerator."""
    b = [np.array(x, A.dtype) for x in _PADE[degree]]
    one = eye_like(A)
    A2 = matmul(A, A)
    if degree < 13:
        odd, even, power = b[1] * one, b[0] * one, None
        for k in range(2, degree, 2):
            power = A2 if power is None else matmul(power, A2)
            odd, even = odd + b[k + 1] * power, even + b[k] * power
        return matmul(A, odd), even
    A4 = matmul(A2, A2)
    A6 = matmul(A4, A2)
    odd = matmul(A6, b[13] * A6 + b[11] * A4 + b[9] * A2)
    odd = odd + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * one
    even = matmul(A6, b[12] * A6 + b[10] * A4 + b[8] * A2)
    return matmul(A, odd), even + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * one


@export
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """Computes the derivative of the matrix exponential in a direction.

    Args:
      A: array of shape (..., n, n).
      E: the direction, an array of the same shape.
      method: has no effect; forward-mode differentiation is used.
      compute_expm: whether to return the exponential as well.

    Returns:
      `(expm(A), derivative)`, or the derivative alone.

    Raises:
      ValueError: if A is not square or the shapes differ.

    >>> A, E = jnp.zeros((2, 2)), jnp.ones((2, 2))
    >>> jax.scipy.linalg.expm_frechet(A, E, compute_expm=False).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    A, E = inexact(A, E)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"expected A to be a square matrix, got A.shape={A.shape}")
    if A.shape != E.shape:
        raise ValueError(
            f"expected A and E to be the same shape, got A.shape={A.shape} E.shape={E.shape}"
        )
    out, tangent = api.jvp(expm, (A,), (E,))
    return (out, tangent) if compute_expm else tangent


# ---------------------------------------------------------------------------------------------------
# Functions computed from the Schur decomposition


@export
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """Computes the principal square root of matrices, on CPUs.

    Björck and Hammarling, "A Schur method for the square root of a matrix" (1983).

    Args:
      A: array of shape (..., n, n). Unlike the original, batch dimensions are allowed.
      blocksize: must be 1.

    Returns:
      Complex array of the same shape.

    Raises:
      NotImplementedError: if `blocksize` is greater than 1.

    >>> jax.scipy.linalg.sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]])).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if blocksize > 1:
        raise NotImplementedError("sqrtm: the blocked version (blocksize > 1) is not implemented.")
    A = inexact(A)
    return _sqrtm(A)


def _sqrtm_impl(A):
    T, Z = lax_linalg.schur(lax.convert_element_type(A, complex_dtype(A.dtype)))

    # Element (i, j) of `R @ R = T`, solved for R[i, j].
    def entry(i, j, R):
        s = _row(T, i, j) - reductions.sum(_whole_row(R, i) * _whole_column(R, j), axis=-1)
        d = _row(R, i, i) + _row(R, j, j)
        zero = (s == 0) & (d == 0)
        return util.select_where(zero, 0, s / util.select_where(zero, 1, d))

    return _from_triangle(_fill_triangle(lax.sqrt(diagonal(T)), T, entry), Z)


_sqrtm_impl.__name__ = "sqrtm"
_sqrtm = nested_jit(_sqrtm_impl)


@export
def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """Applies a scalar function to a square matrix, on CPUs.

    Parlett, "A recurrence among the elements of functions of triangular matrices" (1976), which
    divides by differences of eigenvalues.

    Args:
      A: array of shape (n, n).
      func: elementwise function of complex arrays.
      disp: whether to return only the result, without an error estimate.

    Returns:
      Complex array (unlike SciPy, even if it could be real), or `(result, error estimate)`.

    Raises:
      ValueError: if A is not a square matrix.

    >>> want = jnp.array([[1.0, 0.0], [0.0, 0.5400000214576721]])
    >>> bool(jnp.allclose(jax.scipy.linalg.funm(jnp.array([[0.0, 0.0], [0.0, 1.0]]), jnp.cos).real, want, atol=1e-2))
    True
    """
    A = inexact(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"funm: expected square array_like input, got shape {A.shape}")
    T, Z = lax_linalg.schur(lax.convert_element_type(A, complex_dtype(A.dtype)))
    out = _funm(T, Z, asarray(func(diagonal(T))).astype(T.dtype))
    if disp:
        return out
    tol = float(dtypes.finfo(real_dtype(T.dtype)).eps)
    n = T.shape[-1]
    t = diagonal(T)
    pairs = np.triu(np.ones((n, n), bool), 1)
    gaps = util.select_where(pairs, lax.abs(t[:, None] - t[None, :]), np.inf)
    gap = reductions.min(gaps, initial=np.inf)
    gap = util.select_where(gap == 0, tol, gap)
    error = lax.max(lax.full_like(gap, tol), tol / gap * norm(triu(T, 1), 1))
    error = lax.min(lax.full_like(error, 1), error)
    finite = reductions.all(lax.is_finite(lax.real(out)) & lax.is_finite(lax.imag(out)))
    return out, util.select_where(finite, error, np.inf)


def _funm_impl(T, Z, values):
    # Parlett's recurrence: element (i, j) of `F @ T = T @ F`, solved for F[i, j].
    def entry(i, j, F):
        inside = reductions.sum(
            _strict(_whole_row(T, i), i) * _strict(_whole_column(F, j), j, before=True)
            - _strict(_whole_row(F, i), i) * _strict(_whole_column(T, j), j, before=True),
            axis=-1,
        )
        s = _row(T, i, j) * (_row(F, j, j) - _row(F, i, i)) + inside
        d = _row(T, j, j) - _row(T, i, i)
        return s / util.select_where(d == 0, 1, d)

    return _from_triangle(_fill_triangle(values, T, entry), Z)


_funm_impl.__name__ = "funm"
_funm = nested_jit(_funm_impl)


def _fill_triangle(values, T, entry):
    """Fills upper triangular matrices with `values` on the diagonal, column by column, bottom up.

    `entry(i, j, F)` computes element (i, j) from those to its left and below it; the elements above
    the diagonal that are not computed yet are zero.
    """
    n = T.shape[-1]
    if core.definitely_equal(n, 0):
        return T
    one = lax.broadcast(eye(T.dtype, n), T.shape[:-2])
    F = lax.mul(one, lax.broadcast_in_dim(values, T.shape, (*range(T.ndim - 2), T.ndim - 1)))

    def column(j, F):
        def element(k, F):
            i = j - 1 - k
            x = lax.expand_dims(entry(i, j, F), (T.ndim - 2, T.ndim - 1))
            start = [0] * (T.ndim - 2) + [i, j]
            return slicing.dynamic_update_slice(F, x, start)

        return fori_loop(0, j, element, F)

    return F if core.definitely_equal(n, 1) else fori_loop(1, n, column, F)


def _from_triangle(F, Z):
    return matmul(matmul(Z, F), mH(Z))


def _whole_row(x, i):
    return slicing.dynamic_index_in_dim(x, i, x.ndim - 2, keepdims=False)


def _whole_column(x, j):
    return slicing.dynamic_index_in_dim(x, j, x.ndim - 1, keepdims=False)


def _row(x, i, j):
    return slicing.dynamic_index_in_dim(_whole_row(x, i), j, x.ndim - 2, keepdims=False)


def _strict(v, k, before=False):
    """Sets all elements of `v` to zero but those after (or before) position k."""
    iota = lax.iota(np.int32, v.shape[-1])
    return util.select_where(iota < k if before else iota > k, v, 0)
