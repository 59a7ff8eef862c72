"""Elementary functions of float32 and float64 on CPUs, where XLA's own expansions lose digits.

The functions have errors below two units of the last place and vectorize. XLA's CPU compiler takes
numbers below the normal ones as zero. It may sum constants in x + c1 + c2, but keeps other orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import mlir
from jax._src.lax.lax import elementary
from jax._src.lax.lax.accuracy import accuracy_attr, accuracy_attrs
from jax._src.lax.lax.arithmetic import (
    abs,
    add,
    complex,
    div,
    floor,
    imag,
    max,
    mul,
    real,
    sign,
    square,
    sub,
)
from jax._src.lax.lax.convert import bitcast_convert_type, convert_element_type
from jax._src.lax.lax.elementary import exp, log
from jax._src.lax.lax.logical import bitwise_and, bitwise_or, eq, ge, gt, le, lt, ne, shift_left
from jax._src.lax.lax.select import clamp, filled, select
from jax._src.lax.rules import broadcast_operands, hlo_op, with_sharding
from jax._src.lax.utils import const
from jax._src.lib.mlir.dialects import hlo


def _with_accuracy(name: str) -> hlo_op:
    return hlo_op(name, attrs=accuracy_attrs)


class _cpu_rule:
    """Lower operands of real and complex dtypes by two functions; an op is for those without one.

    The op is for set accuracies, too. Dtypes below float32 are computed in float32.
    """

    __slots__ = ("real", "complex", "op", "wide_only")

    def __init__(
        self,
        op: Callable[..., Any],
        real: Callable[..., Any] | None = None,
        complex: Callable[..., Any] | None = None,
    ):
        self.op = op
        self.real = mlir.lower_fun(_in_float32(real), multiple_results=False) if real else op
        self.complex = mlir.lower_fun(complex, multiple_results=False) if complex else op

    def __call__(self, ctx: mlir.LoweringRuleContext, x: Any, **params: Any) -> Any:
        dtype = ctx.avals_out[0].dtype
        rule = self.complex if dtypes.issubdtype(dtype, np.complexfloating) else self.real
        if rule is self.op or params.get("accuracy") is not None:
            return self.op(ctx, x, **params)
        return rule(ctx, x)


def _in_float32(fun: Callable[..., Any]) -> Callable[..., Any]:
    def wide(x: Any) -> Any:
        dtype = core.typeof(x).dtype
        if dtypes.itemsize_bits(dtype) >= 32:
            return fun(x)
        return convert_element_type(fun(convert_element_type(x, np.float32)), dtype)

    return wide


# ---------------------------------------------------------------------------------------------------
# Hyperbolic functions

# The shift of large arguments of sinh and cosh, exp(shift) / 2 is very close to a number of the dtype.
_SHIFTS = {np.dtype("float32"): 2.8125, np.dtype("float64"): 1.859375}


def _half_exp(a: Any) -> Any:
    """Return exp(a) / 2 without overflow, for non-negative numbers."""
    dtype = core.typeof(a).dtype
    shift = _SHIFTS[dtype]
    is_large = gt(a, const(a, math.log(np.finfo(dtype).max) - 8))
    # The difference is exact, as the shift is a multiple of the distance of these numbers.
    shifted = select(is_large, sub(a, const(a, shift)), a)
    scale = select(is_large, filled(a, math.exp(shift) / 2), filled(a, 0.5))
    return mul(exp(shifted), scale)


def _cosh(x: Any) -> Any:
    e = _half_exp(abs(x))
    return add(e, div(const(x, 0.25), e))


def _sinh(x: Any) -> Any:
    a = abs(x)
    e = _half_exp(a)
    large = mul(sub(e, div(const(x, 0.25), e)), sign(x))
    # The Taylor series, as far as its terms count up to 1.
    eps = np.finfo(core.typeof(x).dtype).eps
    terms = [1 / math.factorial(k) for k in range(3, 30, 2) if 16 / math.factorial(k) > eps]
    x2 = square(x)
    series = const(x, terms[-1])
    for term in terms[-2::-1]:
        series = add(mul(series, x2), const(x, term))
    small = add(x, mul(x, mul(x2, series)))
    return select(lt(a, const(a, 1)), small, large)


def _log1p(x: Any) -> Any:
    """Return log(1 + x): the logarithm of the rounded sum, corrected by its rounding error."""
    one = const(x, 1)
    # The maximum only keeps the compiler from summing 1 and -1.
    y = max(add(x, one), const(x, -1))
    error = div(sub(x, sub(y, one)), y)
    at_edge = bitwise_or(eq(y, const(y, 0)), eq(y, const(y, np.inf)))
    out = add(log(y), select(at_edge, filled(error, 0), error))
    return select(eq(x, const(x, 0)), x, out)  # for the sign of zero


_lower_log1p_double = mlir.lower_fun(_log1p, multiple_results=False)


def _lower_log1p(ctx: mlir.LoweringRuleContext, x: Any, *, accuracy: Any) -> Any:
    # XLA's results for float64 from -0.42 to -0.29 are not precise.
    if ctx.avals_out[0].dtype == np.float64 and accuracy is None:
        return _lower_log1p_double(ctx, x)
    return elementary.lower_log1p(ctx, x, accuracy=accuracy)


def _atanh(x: Any) -> Any:
    # log1p(2 a / (1 - a)) / 2, and its argument such that rounding errors do not count for small a.
    a = abs(x)
    double = add(a, a)
    argument = add(double, div(mul(double, a), sub(const(a, 1), a)))
    out = mul(mul(_log1p(argument), const(a, 0.5)), sign(x))
    return select(le(a, const(a, 1)), out, filled(x, np.nan))


# ---------------------------------------------------------------------------------------------------
# Powers, roots and logarithms


def _cbrt(x: Any) -> Any:
    a, third = abs(x), const(x, 1 / 3)
    root = exp(mul(log(a), third))
    # One step of Newton's method.
    step = mul(sub(root, div(a, square(root))), third)
    tiny = np.finfo(core.typeof(x).dtype).tiny
    is_regular = bitwise_and(ge(a, const(a, tiny)), lt(a, const(a, np.inf)))
    root = select(is_regular, sub(root, step), a)
    return mul(root, sign(x))


# (2**x - 1) / x for x in [0, 1], of relative error 2**-26 in 2**x: interpolation at Chebyshev's points
_EXP2 = (0.6931472, 0.24022721, 0.055496022, 0.0096521955, 0.0012692166, 0.00020817915)


def _exp2_single(x: Any) -> Any:
    # Results below the normal numbers are zero; of -127 and 128 the bits are those of 0 and infinity.
    x = clamp(const(x, -127), x, const(x, 128))
    n = floor(x)
    part = sub(x, n)
    series = const(x, _EXP2[-1])
    for c in _EXP2[-2::-1]:
        series = add(mul(series, part), const(x, c))
    exponent = add(convert_element_type(n, np.int32), np.int32(127))
    power = bitcast_convert_type(shift_left(exponent, np.int32(23)), np.float32)
    return mul(add(mul(series, part), const(x, 1)), power)


_lower_exp2_single = mlir.lower_fun(_in_float32(_exp2_single), multiple_results=False)


def _lower_exp2(ctx: mlir.LoweringRuleContext, x: Any, *, accuracy: Any) -> Any:
    (aval_out,) = ctx.avals_out
    if dtypes.issubdtype(aval_out.dtype, np.complexfloating):
        if accuracy is None:
            return _lower_complex_exp2(ctx, x)
        return elementary.lower_exp2(ctx, x, accuracy=accuracy)
    if aval_out.dtype != np.float64 and accuracy is None:
        return _lower_exp2_single(ctx, x)
    if aval_out.dtype not in (np.float32, np.float64):
        return elementary.lower_exp2(ctx, x, accuracy=accuracy)
    log2 = mlir.full_like_aval(ctx, np.log(2), aval_out)
    # The product's rounding error would grow with x, so take the power of two of the nearest
    # integer apart; in two factors, each of which is in range.
    bits, info = aval_out.dtype.itemsize * 8, np.finfo(aval_out.dtype)
    integers = aval_out.update(dtype=np.dtype(f"int{bits}"))
    limit = 2.0 ** (np.log2(info.maxexp) + 0.25)  # results beyond it are 0 and infinite
    x = hlo.clamp(
        mlir.full_like_aval(ctx, -limit, aval_out), x, mlir.full_like_aval(ctx, limit, aval_out)
    )
    n = hlo.round_nearest_even(x)
    out = hlo.exponential(
        hlo.multiply(log2, hlo.subtract(x, n)), result_accuracy=accuracy_attr(accuracy)
    )
    n = hlo.convert(mlir.aval_to_ir_type(ctx.module_context, integers), n)
    one = mlir.full_like_aval(ctx, 1, integers)
    first = hlo.shift_right_arithmetic(n, one)
    for part in (first, hlo.subtract(n, first)):
        exponent = hlo.add(part, mlir.full_like_aval(ctx, info.maxexp - 1, integers))
        power = hlo.shift_left(exponent, mlir.full_like_aval(ctx, info.nmant, integers))
        power = hlo.bitcast_convert(mlir.aval_to_ir_type(ctx.module_context, aval_out), power)
        out = hlo.multiply(out, power)
    return [with_sharding(ctx, out, aval_out)]


def _lower_asin(ctx: mlir.LoweringRuleContext, x: Any) -> Any:
    (aval_out,) = ctx.avals_out
    out = elementary.lower_asin(ctx, x)
    if dtypes.issubdtype(aval_out.dtype, np.complexfloating):
        return out
    # Small numbers are their own arc sines. The op halves its operand, so that it loses those below twice the smallest
    # normal one, and in float16 some jaxlibs round those above otherwise.
    small = mlir.full_like_aval(ctx, float(dtypes.finfo(aval_out.dtype).eps) ** 0.5 / 2, aval_out)
    is_small = mlir.compare_hlo(hlo.abs(x), small, "LT", "FLOAT")
    return [with_sharding(ctx, hlo.select(is_small, x, out[0]), aval_out)]


def _lower_atan2(ctx: mlir.LoweringRuleContext, y: Any, x: Any) -> Any:
    (aval_out,) = ctx.avals_out
    dtype = aval_out.dtype
    if dtype in (np.float32, np.float64, dtypes.bfloat16):
        # The op may return NaN for two numbers below the normal ones, so have both as zeros. They
        # come last: onnxruntime's Where keeps the sign of zeros there only.
        tiny = mlir.full_like_aval(ctx, dtypes.finfo(dtype).tiny, aval_out)
        zero = mlir.full_like_aval(ctx, 0, aval_out)
        y, x = [
            hlo.select(mlir.compare_hlo(hlo.abs(a), tiny, "GE", "FLOAT"), a, hlo.multiply(a, zero))
            for a in broadcast_operands(ctx, (y, x), aval_out)
        ]
        return [with_sharding(ctx, hlo.atan2(y, x), aval_out)]
    return _hlo_atan2(ctx, y, x)


_hlo_atan2 = hlo_op("atan2")


# ---------------------------------------------------------------------------------------------------
# Complex numbers


def _scaled_sinh_cosh(a: Any) -> tuple[Any, Any, Any]:
    """Return numbers whose products are sinh(a) and cosh(a): two and a common scale.

    The scale is left for last, as products with sines and cosines may be finite where these are not.
    """
    bound = math.log(np.finfo(core.typeof(a).dtype).max) - 1
    is_large = gt(abs(a), const(a, bound))
    root = exp(mul(abs(a), const(a, 0.5)))
    half = mul(root, const(a, 0.5))
    sinh = select(is_large, mul(half, sign(a)), elementary.sinh(a))
    cosh = select(is_large, half, elementary.cosh(a))
    return sinh, cosh, select(is_large, root, filled(a, 1))


def _complex_sinh(z: Any) -> Any:
    a, b = real(z), imag(z)
    sinh, cosh, scale = _scaled_sinh_cosh(a)
    im = mul(mul(cosh, elementary.sin(b)), scale)
    im = select(eq(b, const(b, 0)), b, im)  # also where cosh(a) is infinite
    return complex(mul(mul(sinh, elementary.cos(b)), scale), im)


def _complex_cosh(z: Any) -> Any:
    a, b = real(z), imag(z)
    sinh, cosh, scale = _scaled_sinh_cosh(a)
    im = mul(mul(sinh, elementary.sin(b)), scale)
    # cosh(nan + 0i) has a zero, as it is real for real numbers.
    zero = mul(b, select(ne(a, a), filled(a, 1), sign(a)))
    im = select(eq(b, const(b, 0)), zero, im)
    return complex(mul(mul(cosh, elementary.cos(b)), scale), im)


def _complex_exp2(z: Any) -> Any:
    a, b = real(z), imag(z)
    # Products with sines and cosines may be finite where 2**a is not.
    is_large = gt(a, const(a, dtypes.finfo(core.typeof(a).dtype).maxexp - 1))
    size = elementary.exp2(select(is_large, mul(a, const(a, 0.5)), a))
    scale = select(is_large, size, filled(a, 1))
    angle = mul(b, const(b, math.log(2)))
    im = mul(mul(size, elementary.sin(angle)), scale)
    im = select(eq(b, const(b, 0)), b, im)
    re = mul(mul(size, elementary.cos(angle)), scale)
    # The size is 0 at -inf, where the angle does not matter.
    vanishes = eq(a, const(a, -np.inf))
    return complex(select(vanishes, filled(a, 0), re), select(vanishes, filled(a, 0), im))


_lower_complex_exp2 = mlir.lower_fun(_complex_exp2, multiple_results=False)


def _on_cpu(p: core.Primitive, op: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    mlir.register_lowering(p, _cpu_rule(op, *args, **kwargs), platform="cpu")


_on_cpu(elementary.sinh_p, hlo_op("sinh", "chlo"), _sinh, _complex_sinh)
_on_cpu(elementary.cosh_p, hlo_op("cosh", "chlo"), _cosh, _complex_cosh)
_on_cpu(elementary.atanh_p, elementary.lower_atanh, _atanh)
_on_cpu(elementary.cbrt_p, _with_accuracy("cbrt"), _cbrt)
mlir.register_lowering(elementary.log1p_p, _lower_log1p, platform="cpu")
mlir.register_lowering(elementary.exp2_p, _lower_exp2, platform="cpu")
mlir.register_lowering(elementary.asin_p, _lower_asin, platform="cpu")
mlir.register_lowering(elementary.atan2_p, _lower_atan2, platform="cpu")
