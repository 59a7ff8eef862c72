"""Polar decomposition by the QDWH iteration, which uses only products, QR and Cholesky."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.control_flow import while_loop
from jax._src.lax.linalg.cholesky import cholesky
from jax._src.lax.linalg.common import (
    eye,
    eye_like,
    matmul,
    mH,
    real_dtype,
    rows,
    symmetrize,
)
from jax._src.lax.linalg.qr import qr
from jax._src.lax.linalg.triangular import triangular_solve
from jax._src.typing import ArrayLike


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute the polar decomposition `x = U @ H`.

    U has orthonormal columns, and H is positive semidefinite. The algorithm is the QR-based
    dynamically weighted Halley iteration: Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration
    for computing the matrix polar decomposition" (2010).

    Args:
      x: matrices of shape (..., m, n) with m >= n, floating point or complex.
      is_hermitian: whether `x` is Hermitian, and therefore U as well.
      max_iterations: maximum number of iterations; 10 by default.
      eps: relative change below which the iteration has converged; by default the machine epsilon.
      dynamic_shape: sizes (which may be traced) of the leading block of `x` to decompose; the rest
        is treated as zero.

    Returns:
      `(u, h, iterations, is_converged)`: arrays of shapes (..., m, n) and (..., n, n), the number
      of iterations, and whether they converged.

    Raises:
      ValueError: if the dtype is not floating point or complex, or m < n.

    >>> u, h, _, ok = lax.linalg.qdwh(jnp.array([[0.0, -2.0], [1.0, 0.0]]))
    >>> bool(jnp.allclose(h, jnp.diag(jnp.array([1.0, 2.0])), atol=1e-5)), bool(ok)
    (True, True)
    """
    x = late.to_array(x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        raise ValueError(f"qdwh takes floating-point and complex matrices, got dtype {x.dtype}")
    if x.ndim < 2 or x.shape[-2] < x.shape[-1]:
        raise ValueError(
            "qdwh: the input matrix of shape M x N must have M >= N. Got shape "
            f"{x.shape}; decompose the adjoint, `x.conj().mT`."
        )
    max_iterations = 10 if max_iterations is None else int(max_iterations)
    eps = float(dtypes.finfo(real_dtype(x.dtype)).eps) if eps is None else float(eps)
    if dynamic_shape is not None:
        x = _masked(x, dynamic_shape)
    if core.is_empty_shape(x.shape):
        n = x.shape[-1]
        h = lax.full((*x.shape[:-2], n, n), 0, x.dtype)
        return x, h, lax.full((), 0, np.int32), lax.full((), True, np.bool_)
    u, iterations, ok = _iterate(x, max_iterations, eps)
    # One Newton-Schulz step improves the accuracy of the last digits.
    u = lax.sub(_times(1.5, u), matmul(_times(0.5, u), matmul(mH(u), u)))
    if is_hermitian:
        u = symmetrize(u)
    return u, symmetrize(matmul(mH(u), x)), iterations, ok


def _masked(x, dynamic_shape):
    d = x.ndim
    for axis, size in zip((d - 2, d - 1), dynamic_shape):
        inside = lax.lt(
            lax.broadcasted_iota(np.int32, x.shape, axis),
            lax.broadcast(lax.convert_element_type(size, np.int32), x.shape),
        )
        x = lax.select(inside, x, lax.full_like(x, 0))
    return x


def _weights(lower: float) -> tuple[float, float, float, float]:
    """Return the weights (a, b, c) for singular values in [lower, 1], and the next lower bound."""
    l2 = lower * lower
    d = (4 * (1 - l2) / (l2 * l2)) ** (1 / 3)
    root = math.sqrt(1 + d)
    a = root + math.sqrt(8 - 4 * d + 8 * (2 - l2) / (l2 * root)) / 2
    b = (a - 1) ** 2 / 4
    c = a + b - 1
    return a, b, c, min(1.0, lower * (a + b * l2) / (1 + c * l2))


def _iterate(x, max_iterations, eps):
    # Scale so that singular values are at most 1: ||x||_2^2 <= ||x||_1 ||x||_inf. Assume that the
    # smallest relevant one is eps.
    one_norm = _max(lax.reduce_sum(lax.abs(x), (x.ndim - 2,)))
    inf_norm = _max(lax.reduce_sum(lax.abs(x), (x.ndim - 1,)))
    scale = lax.mul(lax.rsqrt(one_norm), lax.rsqrt(inf_norm))
    scale = lax.select(lax.eq(one_norm, lax.full_like(one_norm, 0)), lax.full_like(scale, 1), scale)
    u = lax.mul(x, _spread(scale, x))
    tolerance = (5 * eps) ** (1 / 3)
    lower, steps, done = eps, 0, None
    while lower + 10 * eps < 1 and steps < max_iterations:
        a, b, c, lower = _weights(lower)
        previous = u
        u = _qr_step(u, a, b, c) if c > 100 else _cholesky_step(u, a, b, c)
        steps += 1
        done = _converged(u, previous, tolerance)
    if done is None:
        done = core.vary_like(lax.full(u.shape[:-2], False, np.bool_), u)

    def running(carry):
        k, _, done = carry
        return lax.bitwise_and(
            lax.lt(k, np.int32(max_iterations)),
            lax.bitwise_not(lax.reduce_and(done, range(done.ndim))),
        )

    def step(carry):
        k, u, _ = carry
        new = _cholesky_step(u, 3.0, 1.0, 3.0)
        return lax.add(k, np.int32(1)), new, _converged(new, u, tolerance)

    k, u, done = while_loop(running, step, (lax.full((), steps, np.int32), u, done))
    return u, k, lax.reduce_and(done, range(done.ndim))


def _max(x):
    return lax.reduce_max(x, (x.ndim - 1,))


def _spread(scalar, x):
    """Broadcast one number for each matrix to all its elements."""
    full = lax.broadcast_in_dim(scalar, x.shape, range(x.ndim - 2))
    return lax.convert_element_type(full, x.dtype)


def _times(number, x):
    return lax.mul(np.array(number, x.dtype), x)


def _converged(new, old, tolerance):
    change = lax.sub(new, old)
    norm = lax.sqrt(lax.reduce_sum(lax.square(lax.abs(change)), (change.ndim - 2, change.ndim - 1)))
    return lax.le(norm, lax.full_like(norm, tolerance))


def _qr_step(u, a, b, c):
    """Return u (a + b u^H u) / (1 + c u^H u), by the QR of [sqrt(c) u; 1]; stable for large c."""
    m, n = u.shape[-2:]
    one = lax.broadcast(eye(u.dtype, n), u.shape[:-2])
    stacked = lax.concatenate([_times(math.sqrt(c), u), one], u.ndim - 2)
    q, _ = qr(stacked, full_matrices=False)
    product = matmul(rows(q, 0, m), mH(rows(q, m, m + n)))
    return lax.add(_times(b / c, u), _times((a - b / c) / math.sqrt(c), product))


def _cholesky_step(u, a, b, c):
    """Do the same as `_qr_step` by a Cholesky decomposition of 1 + c u^H u."""
    gram = matmul(mH(u), u)
    factor = cholesky(lax.add(_times(c, gram), eye_like(gram)), symmetrize_input=False)
    y = triangular_solve(factor, mH(u), left_side=True, lower=True)
    y = triangular_solve(factor, y, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
    return lax.add(_times(b / c, u), _times(a - b / c, mH(y)))
