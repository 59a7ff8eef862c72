"""Broadcasts in gradients on CPU that do not share memory with those of the forward pass.

The gradient of `x * y` by `x`, where `y` has fewer elements, broadcasts `y` as the product itself did.
XLA merges the two broadcasts. YNNPACK, which computes sums in float32 with the operations around
them, takes a broadcast in only if nothing else needs it, so that the merged one is written to
memory, as large as `x`: in a layer norm the reciprocal deviations of the rows. Two broadcasts are
written nowhere. Those of an optimization barrier's result are not merged with others; XLA removes
the barrier afterwards.

Broadcasts of the forward pass are left alone, so that what a program computes twice is still merged, and
so are those that meet a product of matrices, with which YNNPACK is slower then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.interpreters.mlir.context import LoweringRuleContext
from jax._src.interpreters.mlir.shardings import allows_cpu_forms

# Smaller results are cheap, and so is what saves less than seven eighths of its elements.
_FEWEST, _FEWEST_COPIES = 1 << 16, 8
_MOVES = ("stablehlo.reshape", "stablehlo.transpose")


def is_wanted(
    ctx: LoweringRuleContext,
    aval: core.ShapedArray,
    shape: tuple[Any, ...],
    operands: Sequence[Any],
    avals: Sequence[core.ShapedArray],
) -> bool:
    """Returns whether an operand of an elementwise operation should get a broadcast of its own.

    Args:
      ctx: the context of the operation.
      aval: the type of the operand.
      shape: the shape of the result.
      operands: the IR values of all operands of the operation.
      avals: their types.
    """
    if aval.dtype != np.float32 or not core.is_constant_shape(shape):
        return False
    if math.prod(shape) < max(_FEWEST, _FEWEST_COPIES * math.prod(aval.shape)):
        return False
    whole = [op for op, a in zip(operands, avals) if a.shape == shape]
    return (
        allows_cpu_forms(ctx.module_context)
        and "transpose(" in str(ctx.name_stack)
        and len(whole) > 0
        and not any(map(_is_product, whole))
    )


def _is_product(value: Any) -> bool:
    """Whether a value is a product of matrices, perhaps with its dimensions rearranged."""
    while (name := getattr(value.owner, "name", None)) in _MOVES:
        (value,) = value.owner.operands
    return name == "stablehlo.dot_general"
