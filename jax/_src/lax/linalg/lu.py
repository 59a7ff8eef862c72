"""LU decomposition with partial pivoting."""

from __future__ import annotations

import numpy as np

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    eye,
    linalg_primitive,
    matmul,
    pad_to,
    permute_rows,
    tril,
    triu,
)
from jax._src.lax.linalg.triangular import triangular_solve
from jax._src.lax.rules import COMPLEX, FLOAT, ZERO
from jax._src.typing import ArrayLike

_INT32 = np.dtype(np.int32)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Compute the decomposition `x[permutation] = L @ U`, where L has ones on its diagonal.

    Args:
      x: matrices of shape (..., m, n), floating point or complex.

    Returns:
      A list `(lu, pivots, permutation)`. `lu` has the shape of `x`, with L below the diagonal, and
      U on and above it. `pivots`, int32 of shape (..., min(m, n)), is the row that each row was
      exchanged with, in order; `permutation`, int32 of shape (..., m), is the resulting
      permutation.

    Raises:
      TypeError: if the dtype or shape is invalid.

    >>> lu, pivots, permutation = lax.linalg.lu(jnp.array([[1.0, 2.0], [2.0, 6.0]]))
    >>> lu.tolist(), pivots.tolist(), permutation.tolist()
    ([[2.0, 6.0], [0.5, -1.0]], [1, 1], [1, 0])
    """
    return lu_p.bind(x)


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """Convert pivots, a sequence of row exchanges, to the resulting permutation.

    Args:
      pivots: int32 array of shape (..., k): row i was exchanged with row `pivots[..., i]`.
      permutation_size: number of rows, at least k.

    Returns:
      int32 array of shape (..., permutation_size).

    Raises:
      TypeError, ValueError: if the dtype is invalid, or there are more pivots than rows.

    >>> lax.linalg.lu_pivots_to_permutation(jnp.array([2, 2, 2]), 3).tolist()
    [2, 0, 1]
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=permutation_size)


# ---------------------------------------------------------------------------------------------------
# Pivots


def _permutation_shape(pivots, *, permutation_size):
    if pivots[0] > permutation_size:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of the "
            f"pivots. Got pivots size {pivots[0]}"
        )
    return (permutation_size,)


def _permutation(pivots, *, permutation_size):
    lead = pivots.shape[:-1]
    k = pivots.shape[-1]
    shape = (*lead, permutation_size)
    iota = lax.broadcasted_iota(np.int32, shape, len(lead))
    if not k:
        return iota

    def exchange(i, permutation):
        j = slicing.dynamic_index_in_dim(pivots, i, len(lead))
        here = slicing.dynamic_index_in_dim(permutation, i, len(lead))
        if lead:
            is_there = lax.eq(iota, j)
            there = lax.expand_dims(
                lax.reduce_sum(
                    lax.select(is_there, permutation, lax.full_like(permutation, 0)), (len(lead),)
                ),
                (len(lead),),
            )
            here = lax.broadcast_in_dim(here, shape, range(len(shape)))
            permutation = lax.select(is_there, here, permutation)
        else:
            at = lax.squeeze(j, (0,))
            there = slicing.dynamic_index_in_dim(permutation, at, 0)
            permutation = slicing.dynamic_update_index_in_dim(permutation, here, at, 0)
        return slicing.dynamic_update_index_in_dim(permutation, there, i, len(lead))

    return fori_loop(0, k, exchange, iota)


_emit_permutation = mlir.lower_fun(_permutation, multiple_results=False)


def _permutation_rule(ctx, pivots, *, permutation_size):
    # Batches may be sharded, but arrays created in the loop are not, so drop the shardings here.
    plain = [[a.update(sharding=None) for a in avals] for avals in (ctx.avals_in, ctx.avals_out)]
    ctx = ctx.replace(avals_in=plain[0], avals_out=plain[1])
    return _emit_permutation(ctx, pivots, permutation_size=permutation_size)


def _permutation_gpu(ctx, pivots, *, permutation_size, gpu):
    (aval,) = ctx.avals_in
    return kernels.call(
        ctx, f"{gpu}_lu_pivots_to_permutation", [pivots], [aval], ctx.avals_out,
        batch_dims=aval.ndim - 1,
    )  # fmt: skip


lu_pivots_to_permutation_p = linalg_primitive(
    "lu_pivots_to_permutation",
    frozenset({np.int32}),
    (1,),
    _permutation_shape,
    lower={
        None: _permutation_rule,
        **kernels.on_gpus(_permutation_gpu),
    },
    jvp=ZERO,
)

# ---------------------------------------------------------------------------------------------------
# The decomposition


def _shape(x):
    m, n = x
    return [(m, n), (core.min_dim(m, n),), (m,)]


def _jvp(primals, tangents):
    (x,), (g,) = primals, tangents
    decomposition, pivots, permutation = lu_p.bind(x)
    zeros = [Zero.from_primal_value(pivots), Zero.from_primal_value(permutation)]
    if type(g) is Zero:
        return [decomposition, pivots, permutation], [g, *zeros]
    # With P x = L U: L^-1 P dx U^-1 = L^-1 dL + dU U^-1, where the first term is strictly lower
    # triangular and the second upper triangular. L and U are padded to square matrices, with ones
    # on the diagonal.
    m, n = x.shape[-2:]
    k = core.min_dim(m, n)
    dtype, lead = decomposition.dtype, decomposition.shape[:-2]
    lower = pad_to(tril(_leading(decomposition, m, k), -1), m, m)
    lower = lax.add(lower, lax.broadcast(eye(dtype, m), lead))
    upper = pad_to(triu(_leading(decomposition, k, n)), n, n)
    rest = lax.ge(lax.iota(_INT32, n), _size(k))
    diagonal = lax.mul(eye(dtype, n), lax.broadcast(lax.convert_element_type(rest, dtype), (n,)))
    upper = lax.add(upper, lax.broadcast(diagonal, lead))
    g = permute_rows(g, permutation)
    g = triangular_solve(lower, g, left_side=True, lower=True, unit_diagonal=True)
    g = triangular_solve(upper, g, left_side=False, lower=False)
    d_lower = _leading(matmul(lower, pad_to(_leading(tril(g, -1), m, k), m, m)), m, k)
    d_upper = _leading(matmul(pad_to(_leading(triu(g), k, n), n, n), upper), k, n)
    tangent = lax.add(pad_to(d_lower, m, n), pad_to(d_upper, m, n))
    return [decomposition, pivots, permutation], [tangent, *zeros]


def _size(d):
    """A size as an array of int32, also a symbolic one."""
    return lax.convert_element_type(d, _INT32) if core.is_symbolic_dim(d) else np.int32(d)


def _leading(x, m, n):
    """Return x[..., :m, :n]."""
    start = [0] * x.ndim
    return slicing.slice(x, start, (*x.shape[:-2], m, n))


def _lower_cpu(ctx, x):
    return _getrf(ctx, x, kernels.lapack_target(ctx, "getrf_ffi"), _permutation_rule)


def _lower_gpu(ctx, x, *, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")

    def permutation(ctx, pivots, *, permutation_size):
        return _permutation_gpu(ctx, pivots, permutation_size=permutation_size, gpu=gpu)

    return _getrf(ctx, x, f"{gpu}solver_getrf_ffi", permutation)


def _getrf(ctx, x, target, permutation_rule):
    (aval,) = ctx.avals_in
    out_aval, pivots_aval, permutation_aval = ctx.avals_out
    lead = aval.shape[:-2]
    info_aval = kernels.info_aval(lead)
    out, pivots, info = kernels.call(
        ctx, target, [x], [aval], [out_aval, pivots_aval, info_aval],
        batch_dims=len(lead), aliases={0: 0},
    )  # fmt: skip
    pivots = kernels.subtract_one(ctx, pivots, pivots_aval)
    # A singular matrix (info > 0) has a valid decomposition as well.
    (out,) = kernels.nan_unless(ctx, info, [out], [out_aval], "GE")
    sub = ctx.replace(
        primitive=lu_pivots_to_permutation_p, avals_in=[pivots_aval], avals_out=[permutation_aval]
    )
    (permutation,) = permutation_rule(sub, pivots, permutation_size=aval.shape[-2])
    return [out, pivots, permutation]


def _lower_tpu(ctx, x):
    return kernels.expanded_call(ctx, "LuDecomposition", [x], ctx.avals_out, api_version=2)


lu_p = linalg_primitive(
    "lu",
    FLOAT | COMPLEX,
    (2,),
    _shape,
    dtype=lambda x: [x, _INT32, _INT32],
    multiple_results=True,
    lower={"cpu": _lower_cpu, "tpu": _lower_tpu, **kernels.on_gpus(_lower_gpu)},
    jvp=_jvp,
)
