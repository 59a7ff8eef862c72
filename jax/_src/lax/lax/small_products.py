"""Products of small matrices on CPU, as sums of products.

XLA's CPU compiler passes all but the smallest matrix products to a library, whose call costs more
than the product itself, and loops over a batch of them. A sum of broadcast products is one loop,
which vectorizes and is fused with the operations around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.shardings import needs_no_shardings
from jax._src.lax.lax.arithmetic import mul
from jax._src.lax.lax.precision import DotAlgorithm, DotAlgorithmPreset
from jax._src.lax.lax.reductions import reduce_sum
from jax._src.lax.lax.shape import broadcast_in_dim, transpose

# Determined by timing a range of shapes on CPUs with vectors of 256 and 512 bits.
_LEAST_SIDE = 4
_MOST_TERMS = 16
_MOST_MULTIPLICATIONS = 512
_DTYPES = (np.dtype("float32"), np.dtype("float64"))


def is_small_product(ctx: mlir.LoweringRuleContext, dimension_numbers: Any, precision: Any) -> bool:
    """Return whether sums compute a product of matrices faster, to the same precision."""
    (lhs, rhs), (out,) = ctx.avals_in, ctx.avals_out
    if not lhs.dtype == rhs.dtype == out.dtype or out.dtype not in _DTYPES:
        return False
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return False
    if not core.is_constant_shape((*lhs.shape, *rhs.shape)):
        return False
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = dimension_numbers
    terms = _size(lhs, lhs_sum)
    rows = _size(lhs, set(range(lhs.ndim)) - {*lhs_sum, *lhs_batch})
    columns = _size(rhs, set(range(rhs.ndim)) - {*rhs_sum, *rhs_batch})
    multiplications = rows * columns * terms
    return (
        min(rows, columns) >= _LEAST_SIDE
        and 1 < terms <= _MOST_TERMS
        and multiplications <= _MOST_MULTIPLICATIONS - bool(lhs_batch)
        and needs_no_shardings(ctx.module_context)
    )


def _size(aval: core.ShapedArray, dims: Any) -> int:
    return math.prod(aval.shape[d] for d in dims)


def sum_of_products(lhs: Any, rhs: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    """Compute a general dot product by multiplying broadcast operands and summing."""
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = dimension_numbers
    lhs_own = [d for d in range(lhs.ndim) if d not in (*lhs_sum, *lhs_batch)]
    rhs_own = [d for d in range(rhs.ndim) if d not in (*rhs_sum, *rhs_batch)]
    batch, own = len(lhs_batch), len(lhs_batch) + len(lhs_own)
    out = own + len(rhs_own)
    shape = [
        *(lhs.shape[d] for d in (*lhs_batch, *lhs_own)),
        *(rhs.shape[d] for d in rhs_own),
        *(lhs.shape[d] for d in lhs_sum),
    ]
    summed = range(out, len(shape))
    lhs = _spread(lhs, (*lhs_batch, *lhs_own, *lhs_sum), shape, (*range(own), *summed))
    rhs = _spread(
        rhs, (*rhs_batch, *rhs_own, *rhs_sum), shape, (*range(batch), *range(own, len(shape)))
    )
    return reduce_sum(mul(lhs, rhs), tuple(summed))


def _spread(x: Any, order: Sequence[int], shape: Sequence[int], dims: Sequence[int]) -> Any:
    return broadcast_in_dim(transpose(x, order), shape, dims)


lower_small_product = mlir.lower_fun(sum_of_products, multiple_results=False)
