"""Rules of elementwise operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from jax._src.export.onnx.attributes import enum, integer, result_dtype
from jax._src.export.onnx.graph import BOOL, Graph, Unsupported, Value
from jax._src.lax.special.error_tables import ERFCX_SINGLE

Rule = Callable[..., Value]


def kind_of(dtype: np.dtype) -> str:
    """b, i, u, f: like NumPy's kinds, also of the types of ml_dtypes."""
    return "f" if dtype.kind == "V" else dtype.kind


# Arithmetic


def _unary(onnx_op: str) -> Rule:
    return lambda c, op, x: c.graph.map(onnx_op, x)


def _arithmetic(onnx_op: str, of_bools: str) -> Rule:
    def rule(c: Any, op: Any, x: Value, y: Value) -> Value:
        if x.dtype == BOOL:
            return c.graph.map(of_bools, x, y)
        g = c.graph
        if x.dtype == np.uint64:
            # the same bits as of signed integers
            return g.cast(g.map(onnx_op, g.cast(x, np.int64), g.cast(y, np.int64)), x.dtype)
        return g.map(onnx_op, x, y)

    return rule


def _negate(c: Any, op: Any, x: Value) -> Value:
    if kind_of(x.dtype) == "u":
        g = c.graph
        return g.cast(g.map("Neg", g.cast(x, np.int64)), x.dtype)
    return c.graph.map("Neg", x)


def _absolute(c: Any, op: Any, x: Value) -> Value:
    return x if kind_of(x.dtype) in "ub" else c.graph.map("Abs", x)


def _operator(onnx_op: str, of_bools: str) -> Rule:
    return lambda c, op, *xs: c.graph.map(of_bools if xs[0].dtype == BOOL else onnx_op, *xs)


def unsigned64(g: Graph, x: Value) -> Value:
    """Signed integers that are ordered as those of uint64 are."""
    flipped = g.map("BitwiseXor", x, g.splat(1 << 63, x))
    return g.cast(flipped, np.int64)


def _divide(c: Any, op: Any, x: Value, y: Value) -> Value:
    if kind_of(x.dtype) == "f":
        return c.graph.map("Div", x, y)
    quotient, _ = _integer_division(c.graph, x, y)
    return quotient


def _remainder(c: Any, op: Any, x: Value, y: Value) -> Value:
    if kind_of(x.dtype) == "f":
        return c.graph.map("Mod", x, y, fmod=1)
    _, remainder = _integer_division(c.graph, x, y)
    return remainder


def _integer_division(g: Graph, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder, rounded towards zero. x / 0 is -1 and x % 0 is x, as in XLA."""
    if x.dtype == np.uint64:
        raise Unsupported("runtimes do not divide uint64; use uint32 or int64")
    by = y.constant
    if by is not None and np.all(by != 0) and not np.any(by == -1):
        return _quotient(g, x, y), g.map("Mod", x, y, fmod=1)
    zero = compare_with(g, "Equal", y, 0)
    divisor = g.where(zero, g.splat(1, y), y)
    if kind_of(x.dtype) == "i":  # the least number divided by -1 traps
        least = compare_with(g, "Equal", x, np.iinfo(x.dtype).min)
        overflow = g.map("And", least, compare_with(g, "Equal", y, -1))
        divisor = g.where(overflow, g.splat(1, y), divisor)
    ones = np.iinfo(x.dtype).max if kind_of(x.dtype) == "u" else -1
    quotient = g.where(zero, g.splat(ones, x), _quotient(g, x, divisor))
    return quotient, g.where(zero, x, g.map("Mod", x, divisor, fmod=1))


def _quotient(g: Graph, x: Value, divisor: Value) -> Value:
    if x.constant is None or not np.any(x.constant == 1):
        return g.map("Div", x, divisor)
    # onnxruntime replaces (1 / b) * a by a / b, for integers too: hide the 1
    one = g.map("Abs", divisor) if kind_of(x.dtype) == "i" else divisor
    unit = g.where(compare_with(g, "Equal", one, 1), divisor, g.splat(0, divisor))
    return g.where(
        compare_with(g, "Equal", x, 1),
        unit,
        g.map("Div", g.map("Sub", x, g.map("Mod", x, divisor, fmod=1)), divisor),
    )


def _power(c: Any, op: Any, x: Value, y: Value) -> Value:
    if kind_of(x.dtype) != "f":
        raise Unsupported("integers to integer powers that are not known when tracing")
    return c.graph.map("Pow", x, y)


def _clamp(c: Any, op: Any, low: Value, x: Value, high: Value) -> Value:
    g = c.graph
    return g.map("Min", g.map("Max", x, low), high)


def _sign(c: Any, op: Any, x: Value) -> Value:
    g = c.graph
    if kind_of(x.dtype) == "u":
        return g.cast(g.cast(x, bool), x.dtype)
    if kind_of(x.dtype) == "i":
        return g.map("Sign", x)
    ordered = g.map("IsNaN", x, dtype=bool)
    return g.where(ordered, x, g.map("Sign", x))


# Comparisons and selection

_DIRECTIONS = {
    "EQ": "Equal",
    "LT": "Less",
    "LE": "LessOrEqual",
    "GT": "Greater",
    "GE": "GreaterOrEqual",
}


def _compare(c: Any, op: Any, x: Value, y: Value) -> Value:
    direction = enum(op, "comparison_direction")
    if enum(op, "compare_type") == "TOTALORDER" and kind_of(x.dtype) == "f":
        return _total_order(c.graph, direction, x, y)
    return comparison(c.graph, direction, x, y)


def _total_order(g: Graph, direction: str, x: Value, y: Value) -> Value:
    """Comparisons where -0 is less than 0 and NaN is equal to itself and greater than all others."""
    if direction in ("NE", "GE", "LE"):
        opposite = {"NE": "EQ", "GE": "LT", "LE": "GT"}[direction]
        return g.map("Not", _total_order(g, opposite, x, y))
    if direction == "GT":
        x, y = y, x
    (x, _), (y, _) = at_least_float32(g, x), at_least_float32(g, y)
    nan = [g.map("IsNaN", v, dtype=bool) for v in (x, y)]
    inverse = [g.map("Reciprocal", v) for v in (x, y)]  # of zeros: infinities with their signs
    zeros = g.map("And", compare_with(g, "Equal", x, 0), compare_with(g, "Equal", y, 0))
    if direction == "EQ":
        same = g.map("Or", g.map("Not", zeros), g.map("Equal", *inverse, dtype=bool))
        equal = g.map("And", g.map("Equal", x, y, dtype=bool), same)
        return g.map("Or", equal, g.map("And", *nan))
    less = g.map("Less", x, y, dtype=bool)
    less_zero = g.map("And", zeros, g.map("Less", *inverse, dtype=bool))
    before_nan = g.map("And", g.map("Not", nan[0]), nan[1])
    return g.map("Or", less, g.map("Or", less_zero, before_nan))


def comparison(g: Graph, direction: str, x: Value, y: Value) -> Value:
    if x.dtype == BOOL:
        if direction == "NE":
            return g.map("Xor", x, y)
        if direction != "EQ":
            x, y = g.cast(x, np.int32), g.cast(y, np.int32)
    if x.dtype == np.uint64:
        x, y = unsigned64(g, x), unsigned64(g, y)
    if direction == "NE":
        return g.map("Not", g.map("Equal", x, y, dtype=bool))
    return g.map(_DIRECTIONS[direction], x, y, dtype=bool)


def _select(c: Any, op: Any, which: Value, on_true: Value, on_false: Value) -> Value:
    return select(c.graph, which, on_true, on_false)


def select(g: Graph, which: Value, on_true: Value, on_false: Value) -> Value:
    if on_true.dtype == np.uint64:
        a, b = g.cast(on_true, np.int64), g.cast(on_false, np.int64)
        return g.cast(g.where(which, a, b), np.uint64)
    return g.where(which, on_true, on_false)


# Functions of real numbers


def _rsqrt(c: Any, op: Any, x: Value) -> Value:
    return c.graph.map("Reciprocal", c.graph.map("Sqrt", x))


def _log1p(c: Any, op: Any, x: Value) -> Value:
    """log(1 + x), corrected for what 1 + x loses."""
    g = c.graph
    x, back = at_least_float32(g, x)
    one = g.splat(1, x)
    u = g.map("Add", x, one)
    difference = g.map("Sub", u, one)
    log = g.map("Log", u)
    corrected = g.map("Div", g.map("Mul", log, x), difference)
    plain = g.map("Or", compare_with(g, "Equal", x, math.inf), compare_with(g, "LessOrEqual", u, 0))
    result = g.where(plain, log, corrected)
    return back(g.where(compare_with(g, "Equal", difference, 0), x, result))


def _expm1(c: Any, op: Any, x: Value) -> Value:
    """exp(x) - 1, corrected for what the difference loses."""
    g = c.graph
    x, back = at_least_float32(g, x)
    one = g.splat(1, x)
    u = g.map("Exp", x)
    difference = g.map("Sub", u, one)
    corrected = g.map("Div", g.map("Mul", difference, x), g.map("Log", u))
    plain = g.map("Or", compare_with(g, "Greater", x, 1), compare_with(g, "Less", x, -30))
    result = g.where(plain, difference, corrected)
    return back(g.where(compare_with(g, "Equal", u, 1), x, result))


def _cbrt(c: Any, op: Any, x: Value) -> Value:
    """The cube root, by a power and a step of Newton's method."""
    g = c.graph
    x, back = at_least_float32(g, x)
    size = g.map("Abs", x)
    root = g.map("Pow", size, g.splat(1 / 3, x))
    square = g.map("Mul", root, root)
    error = g.map("Sub", root, g.map("Div", size, square))
    step = g.map("Sub", root, g.map("Div", error, g.splat(3, x)))
    special = g.map("Or", compare_with(g, "Equal", x, 0), g.map("IsInf", x, dtype=bool))
    return back(g.where(special, x, g.map("Mul", step, g.map("Sign", x))))


def compare_with(g: Graph, onnx_op: str, x: Value, number: float) -> Value:
    return g.map(onnx_op, x, g.splat(number, x), dtype=bool)


def is_negative(g: Graph, x: Value) -> Value:
    """Whether numbers have a sign; that of -0 is seen in its reciprocal. NaN has none."""
    return g.map(
        "Or", compare_with(g, "Less", x, 0), compare_with(g, "Less", g.map("Reciprocal", x), 0)
    )


def at_least_float32(g: Graph, x: Value) -> tuple[Value, Callable[[Value], Value]]:
    """For formulas that need the precision: 16-bit numbers as float32, and the way back."""
    if x.dtype.itemsize >= 4:
        return x, lambda y: y
    return g.cast(x, np.float32), lambda y: g.cast(y, x.dtype)


def _atan(g: Graph, x: Value) -> Value:
    """The arctangent; runtimes have that of float32."""
    if x.dtype != np.float64:
        return g.map("Atan", x)
    # two halvings of the argument, then the series: atan(x) = 2 atan(x / (1 + sqrt(1 + x^2)))
    one = g.splat(1, x)
    size = g.map("Abs", x)
    large = g.map("Greater", size, one, dtype=bool)
    z = g.where(large, g.map("Reciprocal", size), size)
    for _ in range(3):
        root = g.map("Sqrt", g.map("Add", one, g.map("Mul", z, z)))
        z = g.map("Div", z, g.map("Add", one, root))
    square = g.map("Mul", z, z)
    total = g.splat(1 / 27, x)
    for k in range(25, 0, -2):
        total = g.map("Sub", g.splat(1 / k, x), g.map("Mul", square, total))
    angle = g.map("Mul", g.map("Mul", z, total), g.splat(8, x))
    angle = g.where(large, g.map("Sub", g.splat(math.pi / 2, x), angle), angle)
    signed = g.where(compare_with(g, "Less", x, 0), g.map("Neg", angle), angle)
    # runtimes' Where keeps the sign of zeros in its last operand only
    return g.where(compare_with(g, "Greater", size, 0), signed, x)


def _atan2(c: Any, op: Any, y: Value, x: Value) -> Value:
    g = c.graph
    y, back = at_least_float32(g, y)
    x, _ = at_least_float32(g, x)
    one = g.splat(1, x)
    infinite = g.map("And", g.map("IsInf", x, dtype=bool), g.map("IsInf", y, dtype=bool))
    signs = [g.map("Sign", v) for v in (y, x)]  # of infinities, whose ratio is +-1
    # 0 / 0: an angle of 0 or a half turn, with the sign of y, as for 0 / 1
    zeros = g.map("And", compare_with(g, "Equal", x, 0), compare_with(g, "Equal", y, 0))
    divisor = g.where(infinite, signs[1], g.where(zeros, one, x))
    angle = _atan(g, g.map("Div", g.where(infinite, signs[0], y), divisor))
    left, below = is_negative(g, x), is_negative(g, y)
    turn = g.where(below, g.splat(-math.pi, y), g.splat(math.pi, y))
    return back(g.where(left, g.map("Add", angle, turn), angle))


def _tan(c: Any, op: Any, x: Value) -> Value:
    g = c.graph
    return g.map("Div", g.map("Sin", x), g.map("Cos", x))


def _is_finite(c: Any, op: Any, x: Value) -> Value:
    g = c.graph
    infinite, nan = (g.map(o, x, dtype=bool) for o in ("IsInf", "IsNaN"))
    return g.map("Not", g.map("Or", infinite, nan))


def _round_half_away(c: Any, op: Any, x: Value) -> Value:
    g = c.graph
    x, back = at_least_float32(g, x)
    size = g.map("Abs", x)
    floor = g.map("Floor", size)
    up = compare_with(g, "GreaterOrEqual", g.map("Sub", size, floor), 0.5)
    rounded = g.where(up, g.map("Add", floor, g.splat(1, x)), floor)
    return back(g.where(compare_with(g, "Less", x, 0), g.map("Neg", rounded), rounded))


# Conversions


def _convert(c: Any, op: Any, x: Value) -> Value:
    return convert(c.graph, x, result_dtype(op))


def convert(g: Graph, x: Value, dtype: np.dtype) -> Value:
    """A conversion as XLA does it: floating-point numbers out of an integer's range are cut."""
    if kind_of(x.dtype) != "f" or kind_of(dtype) not in "iu":
        return g.cast(x, dtype)
    if x.constant is not None:
        return g.cast(x, dtype)
    if x.dtype.itemsize < 4:
        x = g.cast(x, np.float32)
    limits = np.iinfo(dtype)
    low, high = x.dtype.type(limits.min), x.dtype.type(float(limits.max) + 1)
    inside = g.map("GreaterOrEqual", x, g.splat(low, x), dtype=bool)
    inside = g.map("And", inside, g.map("Less", x, g.splat(high, x), dtype=bool))
    converted = g.cast(g.where(inside, x, g.splat(0, x)), dtype)
    above = g.map("GreaterOrEqual", x, g.splat(high, x), dtype=bool)
    below = g.map("Less", x, g.splat(low, x), dtype=bool)
    converted = select(g, above, g.splat(limits.max, converted), converted)
    return select(g, below, g.splat(limits.min, converted), converted) if limits.min else converted


def _reduce_precision(c: Any, op: Any, x: Value) -> Value:
    g = c.graph
    bits = integer(op, "exponent_bits"), integer(op, "mantissa_bits")
    kinds = {
        (8, 7): ml_dtypes.bfloat16,
        (5, 10): np.float16,
        (8, 23): np.float32,
        (11, 52): np.float64,
    }
    if bits not in kinds:
        raise Unsupported(f"reduce_precision to {bits[0]} exponent and {bits[1]} mantissa bits")
    narrow = np.dtype(kinds[bits])
    if narrow.itemsize >= x.dtype.itemsize:
        return x
    return g.cast(g.cast(x, narrow), x.dtype)


RULES: dict[str, Rule] = {
    "stablehlo.abs": _absolute,
    "stablehlo.add": _arithmetic("Add", "Or"),
    "stablehlo.and": _operator("BitwiseAnd", "And"),
    "stablehlo.atan2": _atan2,
    "stablehlo.cbrt": _cbrt,
    "stablehlo.ceil": _unary("Ceil"),
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.cosine": _unary("Cos"),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": _unary("Exp"),
    "stablehlo.exponential_minus_one": _expm1,
    "stablehlo.floor": _unary("Floor"),
    "stablehlo.is_finite": _is_finite,
    "stablehlo.log": _unary("Log"),
    "stablehlo.log_plus_one": _log1p,
    "stablehlo.logistic": _unary("Sigmoid"),
    "stablehlo.maximum": _operator("Max", "Or"),
    "stablehlo.minimum": _operator("Min", "And"),
    "stablehlo.multiply": _arithmetic("Mul", "And"),
    "stablehlo.negate": _negate,
    "stablehlo.not": _operator("BitwiseNot", "Not"),
    "stablehlo.or": _operator("BitwiseOr", "Or"),
    "stablehlo.power": _power,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.remainder": _remainder,
    "stablehlo.round_nearest_afz": _round_half_away,
    "stablehlo.round_nearest_even": _unary("Round"),
    "stablehlo.rsqrt": _rsqrt,
    "stablehlo.select": _select,
    "stablehlo.sign": _sign,
    "stablehlo.sine": _unary("Sin"),
    "stablehlo.sqrt": _unary("Sqrt"),
    "stablehlo.subtract": _arithmetic("Sub", "Xor"),
    "stablehlo.tan": _tan,
    "stablehlo.tanh": _unary("Tanh"),
    "stablehlo.xor": _operator("BitwiseXor", "Xor"),
}


def _composite(onnx_op: str) -> Rule:
    """Uses ONNX's operator where runtimes have it, else what the function is made of."""

    def rule(c: Any, op: Any, x: Value) -> Any:
        if x.dtype == np.float64:
            return NotImplemented
        return c.graph.map(onnx_op, x)

    return rule


def _erfc(c: Any, op: Any, *operands: Value) -> Any:
    """1 - erf(x), and where that loses digits exp(-x^2) times a polynomial, as `lax.erfc` has it."""
    g, x = c.graph, operands[-1]  # the others are sizes
    if x.dtype != np.float32:
        return NotImplemented
    one, two = g.splat(1, x), g.splat(2, x)
    near = g.map("Sub", one, g.map("Erf", x))
    u = g.map("Div", two, g.map("Add", two, g.map("Abs", x)))
    y = g.map("Sub", g.map("Add", u, u), one)
    (coefficients,) = ERFCX_SINGLE
    series = g.splat(coefficients[-1], x)
    for k in coefficients[-2::-1]:
        series = g.map("Add", g.map("Mul", series, y), g.splat(k, x))
    decay = g.map("Exp", g.map("Neg", g.map("Mul", x, x)))
    far = g.map("Mul", g.map("Mul", decay, u), series)
    return g.where(compare_with(g, "Greater", x, 0.5), far, near)


NAMED: dict[str, Rule] = {
    "chlo.acos": _composite("Acos"),
    "chlo.acosh": _composite("Acosh"),
    "chlo.asin": _composite("Asin"),
    "chlo.asinh": _composite("Asinh"),
    "chlo.atan": _composite("Atan"),
    "chlo.atanh": _composite("Atanh"),
    "chlo.cosh": _composite("Cosh"),
    "chlo.erf": _composite("Erf"),
    "chlo.sinh": _composite("Sinh"),
    "chlo.tan": _composite("Tan"),
    "jax.erfc": _erfc,
}
