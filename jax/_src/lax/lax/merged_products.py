"""Products over several dimensions on CPU, as products of matrices.

XLA's CPU compiler merges the dimensions of a product after it has brought them into the order of an
ordinary one: those that are summed over last in the first operand, and first in the second. The
gradient of `x @ w` by `w`, where `x` has a batch and a sequence before its features, sums over the
leading dimensions of both. XLA copies one of them transposed, and computes again in that copy what
it can fuse with it: in a transformer all that was added to the gradient in the layers above. Where
dimensions can be merged without a copy, a product of matrices needs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.shardings import is_for_one_device_here
from jax._src.lax.lax.shape import reshape


def is_mergeable(ctx: mlir.LoweringRuleContext, dimension_numbers: Any) -> bool:
    """Return whether `product_of_matrices` computes a product with fewer copies than XLA."""
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = dimension_numbers
    batch = tuple(range(len(lhs_batch)))
    if not lhs_sum or tuple(lhs_batch) != batch or tuple(rhs_batch) != batch:
        return False
    avals = ctx.avals_in
    shapes = [aval.shape for aval in avals]
    if not core.is_constant_shape([n for shape in shapes for n in shape]):
        return False
    if not is_for_one_device_here(ctx.module_context):
        return False
    own = max(aval.ndim - len(batch) - len(lhs_sum) for aval in avals)
    if own < 2 and len(lhs_sum) == 1:
        return False  # it is a product of matrices
    summed = [*zip(*sorted(zip(lhs_sum, rhs_sum)))]
    runs = [range(dims[0], dims[0] + len(dims)) for dims in summed]
    if any(dims != tuple(run) for dims, run in zip(summed, runs)):
        return False
    first = [run.start == len(batch) for run in runs]
    last = [run.stop == aval.ndim for run, aval in zip(runs, avals)]
    is_ordinary = last[0] and first[1]
    return not is_ordinary and all(f or l for f, l in zip(first, last))


def product_of_matrices(
    multiply: Callable[..., Any], lhs: Any, rhs: Any, *, dimension_numbers: Any, **params: Any
) -> Any:
    """Compute a mergeable product of general dimensions by `multiply`, on matrices."""
    summed, (batch, _) = dimension_numbers
    lhs, lhs_sum, lhs_own = _matrix(lhs, summed[0], len(batch))
    rhs, rhs_sum, rhs_own = _matrix(rhs, summed[1], len(batch))
    numbers = (((lhs_sum,), (rhs_sum,)), (batch, batch))
    out = multiply(lhs, rhs, dimension_numbers=numbers, **params)
    return reshape(out, (*lhs.shape[: len(batch)], *lhs_own, *rhs_own))


def _matrix(x: Any, summed: Sequence[int], batch: int) -> tuple[Any, int, list[int]]:
    """Return an operand as matrices, the dimension to sum over, and the sizes of the others."""
    own = [x.shape[d] for d in range(batch, x.ndim) if d not in summed]
    sizes = [math.prod(own)]
    place = 0 if min(summed) == batch else 1
    sizes.insert(place, math.prod(x.shape[d] for d in summed))
    return reshape(x, (*x.shape[:batch], *sizes)), batch + place, own
