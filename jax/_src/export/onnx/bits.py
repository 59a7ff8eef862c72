"""Rules of operations on the bits of numbers: shifts, counts, and casts of bits.

ONNX has a cast of bits since opset 26 only, which few runtimes know: here it is arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from jax._src.export.onnx.attributes import owner, result_dtype
from jax._src.export.onnx.elementwise import (
    Rule,
    at_least_float32,
    compare_with,
    is_negative,
    kind_of,
    select,
)
from jax._src.export.onnx.graph import BOOL, INT64, Graph, Unsupported, Value


def _bits(dtype: np.dtype) -> int:
    return 8 * dtype.itemsize


def _shift(c: Any, op: Any, x: Value, by: Value) -> Value:
    """Shifts; by the width of the type or more, they shift everything out."""
    g, bits = c.graph, _bits(x.dtype)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    direction = "LEFT" if op.name.endswith("left") else "RIGHT"
    flip = None
    if op.name.endswith("arithmetic") and kind_of(x.dtype) == "i":
        # the bits of negative numbers are flipped before and after
        flip = g.where(compare_with(g, "Less", x, 0), g.splat(-1, x), g.splat(0, x))
        x = g.map("BitwiseXor", x, flip)
    wide = g.cast(g.cast(x, unsigned), np.uint64)
    amount = g.cast(g.cast(by, unsigned), np.int64)
    known = by.constant
    if known is not None and np.all((known >= 0) & (known < bits)):
        shifted = g.map("BitShift", wide, g.cast(amount, np.uint64), direction=direction)
    else:
        far = g.map(
            "Or",
            compare_with(g, "Less", amount, 0),
            compare_with(g, "GreaterOrEqual", amount, bits),
        )
        amount = g.cast(g.where(far, g.splat(0, amount), amount), np.uint64)
        shifted = g.map("BitShift", wide, amount, direction=direction)
        shifted = select(g, far, g.splat(0, shifted), shifted)
    result = g.cast(g.cast(shifted, unsigned), x.dtype)
    return result if flip is None else g.map("BitwiseXor", result, flip)


def _popcnt(c: Any, op: Any, x: Value) -> Value:
    g = c.graph
    same_width = np.dtype(f"u{x.dtype.itemsize}")
    return g.cast(_count_ones(g, g.cast(g.cast(x, same_width), np.uint64)), x.dtype)


def _count_ones(g: Graph, x: Value) -> Value:
    """The number of ones of uint64, as int64: the sums of pairs, fours, ... of bits."""

    def right(v: Value, n: int) -> Value:
        return g.map("BitShift", v, g.splat(n, v), direction="RIGHT")

    def masked(v: Value, mask: int) -> Value:
        return g.cast(g.map("BitwiseAnd", v, g.splat(mask, v)), np.int64)

    for shift, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        full = mask * 0x0001000100010001
        total = g.map("Add", masked(x, full), masked(right(x, shift), full))
        x = g.cast(total, np.uint64)
    for shift, full in ((16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        total = g.map("Add", masked(x, full), masked(right(x, shift), full))
        x = g.cast(total, np.uint64)
    return g.cast(x, np.int64)


def _count_leading_zeros(c: Any, op: Any, x: Value) -> Value:
    g, bits = c.graph, _bits(x.dtype)
    wide = g.cast(g.cast(x, np.dtype(f"u{bits // 8}")), np.uint64)
    shift = 1
    while shift < bits:  # all bits below the first one are set
        moved = g.map("BitShift", wide, g.splat(shift, wide), direction="RIGHT")
        wide = g.map("BitwiseOr", wide, moved)
        shift *= 2
    ones = _count_ones(g, wide)
    return g.cast(g.map("Sub", g.splat(bits, ones), ones), x.dtype)


# Casts of bits


def _bitcast(c: Any, op: Any, x: Value) -> Value:
    dtype = result_dtype(op)
    if x.dtype == dtype:
        return x
    if _bits(x.dtype) != _bits(dtype) or BOOL in (x.dtype, dtype):
        raise Unsupported(f"a bitcast of {x.dtype.name} to {dtype.name}, of another size")
    g = c.graph
    if x.constant is not None:
        return g.with_constant(x, x.constant.view(dtype))
    if kind_of(x.dtype) == "f":
        return _of_bits(g, _bits_of(g, x), dtype)
    cut = _cut_number(c, op) if dtype == np.float32 else None
    return _of_bits(g, x, dtype) if cut is None else _without_low_bits(g, *cut)


def _cut_number(c: Any, op: Any) -> tuple[Value, int] | None:
    """The float32 of which the operation makes one without its low bits, and how many these are."""
    masked = owner(op.operands[0])
    if getattr(masked, "name", "") != "stablehlo.and":
        return None
    number, mask = owner(masked.operands[0]), c.environment[masked.operands[1]].constant
    if getattr(number, "name", "") != "stablehlo.bitcast_convert" or mask is None or mask.size != 1:
        return None
    x = c.environment[number.operands[0]]
    low = -int(mask.reshape(-1)[0])
    if x.dtype != np.float32 or not 0 < low < 1 << 23 or low & (low - 1):
        return None
    return x, low.bit_length() - 1


def _without_low_bits(g: Graph, x: Value, count: int) -> Value:
    """float32 numbers whose lowest bits are made zeros."""
    wide = g.cast(x, np.float64)

    def rounded(v: Value) -> Value:
        # to nearest, by Dekker's splitting
        large = g.map("Mul", v, g.splat((1 << (29 + count)) + 1, v))
        return g.map("Sub", large, g.map("Sub", large, v))

    # Where it was away from zero: a bit less than the last bit that is left is taken away.
    near = rounded(wide)
    away = g.map("Greater", g.map("Abs", near), g.map("Abs", wide), dtype=bool)
    less = rounded(g.map("Mul", near, g.splat(1 - 2.0 ** (count - 24), near)))
    cut = g.where(away, less, near)
    # small numbers have their bits at the same place
    size = g.map("Abs", wide)
    unit = 2.0 ** (count - 149)
    steps = g.map("Floor", g.map("Mul", size, g.splat(1 / unit, size)))
    small = g.map("Mul", g.map("Mul", steps, g.splat(unit, steps)), g.map("Sign", wide))
    tiny = compare_with(g, "Less", size, float(np.finfo(np.float32).tiny))
    cut = g.cast(g.where(tiny, small, cut), np.float32)
    return g.where(compare_with(g, "Less", size, math.inf), cut, x)


def _bits_of(g: Graph, x: Value) -> Value:
    """The bits of floating-point numbers, as signed integers; of any NaN those of one.

    A number that is not negative is m * 2^e with 1 <= m < 2, or, if it is small, m < 1 and the least e.
    Its bits are those of the integer m * 2^(bits of m) plus e, less the least, in the bits above.
    """
    info, dtype = ml_dtypes.finfo(x.dtype), x.dtype
    least, digits = int(info.minexp), int(info.nmant)
    largest = math.frexp(float(info.max))[1] - 1
    wide = g.cast(at_least_float32(g, x)[0], np.float64)
    special = g.map("IsNaN", wide, dtype=bool)
    infinite = g.map("IsInf", wide, dtype=bool)
    size = g.map("Abs", wide)
    size = g.where(g.map("Or", special, infinite), g.splat(1, size), size)
    # e or e - 1, whatever the rounding of the logarithm
    log = g.map("Mul", g.map("Log", size), g.splat(1 / math.log(2), size))
    e = g.map("Floor", g.map("Sub", log, g.splat(2.0**-40, log)))
    e = g.map("Sub", g.map("Max", e, g.splat(least, e)), g.splat(least, e))
    e = g.cast(e, INT64)
    powers = np.ldexp(1.0, -np.arange(least, largest + 1))
    m = g.map("Mul", size, _looked_up(g, powers, e))
    low = compare_with(g, "GreaterOrEqual", m, 2)
    m = g.map("Mul", m, g.where(low, g.splat(0.5, m), g.splat(1, m)))
    e = g.map("Add", e, g.cast(low, INT64))
    digits_of_m = g.cast(g.map("Mul", m, g.splat(2.0**digits, m)), INT64)
    bits = g.map("Add", g.map("Mul", e, g.splat(1 << digits, e)), digits_of_m)
    signed = np.dtype(f"i{dtype.itemsize}")
    with np.errstate(all="ignore"):
        nan, infinity = (np.array(n).astype(dtype).view(signed) for n in (np.nan, np.inf))
    bits = g.where(infinite, g.splat(int(infinity), bits), bits)
    sign = g.where(is_negative(g, wide), g.splat(np.iinfo(signed).min, bits), g.splat(0, bits))
    bits = g.where(special, g.splat(int(nan), bits), g.map("Add", bits, sign))
    return g.cast(bits, signed)


def _of_bits(g: Graph, x: Value, dtype: np.dtype) -> Value:
    """The numbers with the bits of integers."""
    if kind_of(dtype) in "iu":
        return g.cast(x, dtype)
    bits, digits = _bits(dtype), int(ml_dtypes.finfo(dtype).nmant)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    kind = np.dtype(np.float64 if bits == 64 else np.float32)
    x = g.cast(x, unsigned)
    with np.errstate(all="ignore"):
        if bits == 8:
            table = np.arange(256, dtype=unsigned).view(dtype).astype(kind)
            return g.cast(_looked_up(g, table, g.cast(x, INT64)), dtype)
        # signs and exponents, in the bits above `digits`, give the number with these digits' unit
        # and what is added to the digits
        upper = np.arange(1 << (bits - digits), dtype=unsigned) << np.array(digits, unsigned)
        first = upper.view(dtype).astype(kind)
        units = (upper + unsigned.type(1)).view(dtype).astype(kind) - first
        units = np.where(np.isinf(first), first, units)
        added = np.where(np.isinf(first), 1, first / units).astype(kind)
    wide = g.cast(x, np.uint64)
    top = g.cast(g.map("BitShift", wide, g.splat(digits, wide), direction="RIGHT"), INT64)
    lower = g.cast(g.map("BitwiseAnd", wide, g.splat((1 << digits) - 1, wide)), kind)
    number = g.map("Mul", g.map("Add", lower, _looked_up(g, added, top)), _looked_up(g, units, top))
    infinity = int(np.array(np.inf, dtype).view(unsigned))
    size = g.cast(g.map("BitwiseAnd", wide, g.splat((1 << (bits - 1)) - 1, wide)), INT64)
    nan = compare_with(g, "Greater", size, infinity)
    return g.cast(g.where(nan, g.splat(np.nan, number), number), dtype)


def _looked_up(g: Graph, table: np.ndarray, index: Value) -> Value:
    name = g.node("Gather", [g.initializer(table), index.name], axis=0)
    return g.like(name, table.dtype, [index])


RULES: dict[str, Rule] = {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.count_leading_zeros": _count_leading_zeros,
    "stablehlo.popcnt": _popcnt,
    "stablehlo.shift_left": _shift,
    "stablehlo.shift_right_arithmetic": _shift,
    "stablehlo.shift_right_logical": _shift,
}
