"""Rules of reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_float
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.elementwise import (
    Operation,
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    compare,
    maximum,
    minimum,
    multiply,
)
from jax._src.pallas.triton.kernel import rule

_float32 = np.dtype(np.float32)
_int32 = np.dtype(np.int32)


def _combined(operation: Any, xs: Sequence[Any], combine: Any, yields: Any) -> list[Any]:
    """Fill the region of a reduction or a scan: `combine` takes two elements of each operand."""
    elements = [ir.RankedTensorType(x.type).element_type for x in xs]
    types = [*elements, *elements]
    block = operation.regions[0].blocks.append(*types, arg_locs=[ir.Location.current] * len(types))
    with ir.InsertionPoint(block):
        n = len(xs)
        args = list(block.arguments)
        yields(combine(args[:n], args[n:]))
    return list(operation.results)


def reduce(xs: Sequence[Any], axis: int, combine: Any) -> list[Any]:
    """Reduce arrays together along an axis."""
    return _combined(tt.ReduceOp(xs, axis), xs, combine, tt.reduce_return)


def _computed_in(dtype: Any, in_float32: bool = False) -> Any:
    """Return the dtype in which elements are combined: float32 for those of eight bits, or for all narrower ones."""
    narrow = is_float(dtype) and dtypes.itemsize_bits(dtype) < (32 if in_float32 else 16)
    return _float32 if narrow else dtype


def _folded(ctx: RuleContext, x: Any, operation: Operation, in_float32: bool, fold: Any) -> Any:
    """Return what `fold` makes of an array and a function that combines two elements."""
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    own = _computed_in(aval.dtype, in_float32)
    x = convert(ctx.kernel, x, aval.shape, aval.dtype, own)
    x = fold(x, lambda a, b: [operation((a[0], b[0]), own)])
    return convert(ctx.kernel, x, out.shape, own, aval.dtype)


# Sums and products of narrow floats are computed in float32.


def _reduction(primitive: Any, operation: Operation, in_float32: bool) -> None:
    def lower(ctx: RuleContext, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
        def fold(x: Any, combine: Any) -> Any:
            for axis in sorted(axes, reverse=True):
                (x,) = reduce([x], axis, combine)
            return x

        return _folded(ctx, x, operation, in_float32, fold)

    rule(primitive)(lower)


for _p, _operation, _wide in (
    (lax.reduce_sum_p, add, True),
    (lax.reduce_prod_p, multiply, True),
    (lax.reduce_max_p, maximum, False),
    (lax.reduce_min_p, minimum, False),
    (lax.reduce_and_p, bitwise_and, False),
    (lax.reduce_or_p, bitwise_or, False),
    (lax.reduce_xor_p, bitwise_xor, False),
):
    _reduction(_p, _operation, _wide)


def _position_of(primitive: Any, better: Any, worse: Any, best: Operation) -> None:
    """Define argmax or argmin: of equal elements, the first one's position."""

    def lower(ctx: RuleContext, x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
        (aval,), (axis,) = ctx.avals_in, axes
        kernel, shape = ctx.kernel, aval.shape
        own = _computed_in(aval.dtype)
        x = convert(kernel, x, shape, aval.dtype, own)
        positions = kernel.iota(shape, axis) if shape[axis] > 1 else kernel.full(0, shape, _int32)

        def combine(a: Any, b: Any) -> list[Any]:
            (x, i), (y, j) = a, b
            first = arith.minsi(i, j)
            of_equal_or_second = arith.select(compare(worse)((x, y), own), j, first)
            position = arith.select(compare(better)((x, y), own), i, of_equal_or_second)
            return [best((x, y), own), position]

        _, position = reduce([x, positions], axis, combine)
        return convert(kernel, position, ctx.avals_out[0].shape, _int32, index_dtype)

    rule(primitive)(lower)


_position_of(lax.argmax_p, lax.gt_p, lax.lt_p, maximum)
_position_of(lax.argmin_p, lax.lt_p, lax.gt_p, minimum)


def _scan(primitive: Any, operation: Operation, in_float32: bool) -> None:
    def lower(ctx: RuleContext, x: Any, *, axis: int, reverse: bool) -> Any:
        def fold(x: Any, combine: Any) -> Any:
            (x,) = _combined(tt.ScanOp([x], axis, reverse), [x], combine, tt.scan_return)
            return x

        return _folded(ctx, x, operation, in_float32, fold)

    rule(primitive)(lower)


for _p, _operation, _wide in (
    (lax.cumsum_p, add, True),
    (lax.cumprod_p, multiply, True),
    (lax.cummax_p, maximum, False),
    (lax.cummin_p, minimum, False),
):
    _scan(_p, _operation, _wide)
