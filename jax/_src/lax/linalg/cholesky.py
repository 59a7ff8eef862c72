"""Cholesky decomposition, and its rank-1 update."""

from __future__ import annotations

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax, rules, slicing
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    check_square,
    eye,
    linalg_primitive,
    matmul,
    symmetrize,
    tril,
)
from jax._src.lax.linalg.triangular import triangular_solve
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Compute the lower triangular L with `x = L @ L^H`, for Hermitian positive definite `x`.

    Args:
      x: matrices of shape (..., n, n), floating point or complex.
      symmetrize_input: whether to decompose (x + x^H) / 2; otherwise only the lower triangle is
        read.

    Returns:
      Array of the shape and dtype of `x`, zero above the diagonal. If a matrix is not positive
      definite, its result is NaN.

    Raises:
      TypeError, ValueError: if the dtype or shape is invalid.

    >>> lax.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = late.to_array(x)
    if symmetrize_input:
        _check_input(x)
        x = symmetrize(x)
    return tril(cholesky_p.bind(x))


def _check_input(x):
    if x.ndim < 2:
        raise TypeError(f"Input 0 to cholesky must have rank at least 2, but got shape={x.shape}")
    check_square("cholesky", x.shape[-2:])


def _shape(x):
    check_square("cholesky", x)
    return x


def _jvp(g, L, x):
    # dL = L phi(L^-1 dx L^-H), where phi takes the lower triangle with half of the diagonal
    # (Murray, "Differentiation of the Cholesky decomposition", 2016, section 3).
    L = tril(L)
    left = triangular_solve(L, g, left_side=False, transpose_a=True, conjugate_a=True, lower=True)
    both = tril(triangular_solve(L, left, left_side=True, lower=True))
    half = lax.mul(np.array(0.5, both.dtype), eye(both.dtype, both.shape[-1]))
    scale = lax.broadcast(lax.sub(np.array(1, both.dtype), half), both.shape[:-2])
    return matmul(L, lax.mul(both, scale))


def _lower(ctx, x):
    return [mlir.hlo.cholesky(x, lower=mlir.ir.BoolAttr.get(True))]


def _lower_cpu(ctx, x):
    return _potrf(ctx, x, kernels.lapack_target(ctx, "potrf_ffi"), {"uplo": kernels.char("L")})


def _lower_gpu(ctx, x, *, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    return _potrf(ctx, x, f"{gpu}solver_potrf_ffi", {"lower": True})


def _potrf(ctx, x, target, attributes):
    (aval,) = ctx.avals_in
    batch = aval.shape[:-2]
    out, info = kernels.call(
        ctx, target, [x], [aval], [aval, kernels.info_aval(batch)], attributes,
        batch_dims=len(batch), aliases={0: 0},
    )  # fmt: skip
    return kernels.nan_unless(ctx, info, [out], [aval])


cholesky_p = linalg_primitive(
    "cholesky",
    FLOAT | COMPLEX,
    (2,),
    _shape,
    lower={None: _lower, "cpu": _lower_cpu, **kernels.on_gpus(_lower_gpu)},
    jvp=(_jvp,),
)


# ---------------------------------------------------------------------------------------------------
# Rank-1 updates


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Update the decomposition `R^T @ R` of a matrix for adding `w @ w^T`, in O(n^2) steps.

    Args:
      r_matrix: upper triangular R, floating point, of shape (n, n).
      w_vector: w, of shape (n,).

    Returns:
      The new R, of shape (n, n).

    Raises:
      TypeError, ValueError: if dtypes or shapes are invalid.

    >>> r = lax.linalg.cholesky_update(jnp.eye(2), jnp.array([3.0 ** 0.5, 0.0]))
    >>> bool(jnp.allclose(r, jnp.array([[2.0, 0.0], [0.0, 1.0]]), atol=1e-2))
    True
    """
    return cholesky_update_p.bind(r_matrix, w_vector)


def _update_shape(r, w):
    for i, (aval, rank) in enumerate(((r, 2), (w, 1))):
        if aval.ndim != rank:
            raise TypeError(
                f"Input {i} to cholesky_update must have a rank of exactly {rank}, but got "
                f"shape={aval.shape}"
            )
    if r.shape != (w.shape[0], w.shape[0]):
        raise ValueError(
            "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the same size "
            f"as input. Got shapes {r.shape} and {w.shape} instead"
        )
    return r.shape


def _update_dtype(r, w):
    rules.check_dtypes("cholesky_update", (FLOAT, FLOAT), (r.dtype, w.dtype))
    return r.dtype


def _update(r, w):
    """Rotate w into the rows of R, one after the other, for R (..., n, n) and w (..., n)."""
    n = w.shape[-1]

    def step(k, carry):
        r, w = carry
        row = slicing.dynamic_index_in_dim(r, k, r.ndim - 2, keepdims=False)
        x = slicing.dynamic_index_in_dim(row, k, row.ndim - 1, keepdims=True)
        y = slicing.dynamic_index_in_dim(w, k, w.ndim - 1, keepdims=True)
        cos, sin = _givens(x, y)
        new = lax.sub(lax.mul(cos, row), lax.mul(sin, w))
        w = lax.add(lax.mul(sin, row), lax.mul(cos, w))
        return slicing.dynamic_update_index_in_dim(r, new, k, r.ndim - 2), w

    return fori_loop(0, n, step, (r, w))[0]


def _givens(x, y):
    """Return cos and sin of the rotation that takes (x, y) to (length, 0)."""
    size = lax.max(lax.abs(x), lax.abs(y))
    none = lax.eq(y, lax.full_like(y, 0))
    size = lax.select(none, lax.full_like(size, 1), size)
    x, y = lax.div(x, size), lax.div(y, size)
    length = lax.sqrt(lax.add(lax.mul(x, x), lax.mul(y, y)))
    length = lax.select(none, lax.full_like(length, 1), length)
    cos = lax.select(none, lax.full_like(x, 1), lax.div(x, length))
    # For y = 0 the rotation is the identity, but its derivative with respect to y is not zero.
    nonzero = lax.select(lax.eq(x, lax.full_like(x, 0)), lax.full_like(x, 1), x)
    return cos, lax.neg(lax.div(y, lax.select(none, nonzero, length)))


def _update_batch(args, dims):
    size = next(core.typeof(x).shape[d] for x, d in zip(args, dims) if d is not None)
    r, w = (batching.bdim_at_front(x, d, size) for x, d in zip(args, dims))
    return _update(r, w), 0


def _update_cuda(ctx, r, w):
    kernels.register_gpu_kernels()
    out, _ = kernels.call(
        ctx, "cu_cholesky_update_ffi", [r, w], ctx.avals_in, ctx.avals_in,
        batch_dims=None, aliases={0: 0, 1: 1}, row_major=True,
    )  # fmt: skip
    return [out]


def _update_jvp(primals, tangents):
    out = cholesky_update_p.bind(*primals)
    return out, ad.jvp(lambda r, w: [_update(r, w)], primals, tangents)[1][0]


cholesky_update_p = rules.standard_primitive(
    "cholesky_update",
    shape=_update_shape,
    dtype=_update_dtype,
    weak_type=lambda r, w: False,
    jvp=_update_jvp,
    lower={None: mlir.lower_fun(_update, multiple_results=False), "cuda": _update_cuda},
    batch=_update_batch,
)
