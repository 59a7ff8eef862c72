"""Rules of elementwise primitives.

Mathematical functions of float32 and float64 are calls of the device's library. Triton computes only
some of those of narrower types; the others, and all arithmetic of eight-bit floats, are done in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax, special
from jax._src.lib.mlir.dialects import arith, math
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext, lower_fun
from jax._src.pallas.primitives import reciprocal_p
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.kernel import Constant, Kernel, is_bool, is_float8, rule, rules

_float32 = np.dtype(np.float32)
# A function of values of MLIR, the dtype of the first of which is known.
Operation = Callable[[Sequence[Any], Any], Any]


def _operands(ctx: RuleContext, args: Sequence[Any]) -> list[Any]:
    """Return operands as values of the shape of the result."""
    shape = ctx.avals_out[0].shape
    kernel = ctx.kernel
    out = []
    for x, aval in zip(args, ctx.avals_in):
        if type(x) is Constant:
            x = kernel.full(x.value, shape, aval.dtype)
        elif aval.shape != shape:
            x = kernel.broadcast(x, shape)
        out.append(x)
    return out


def _elementwise(primitive: Any, operation: Operation) -> None:
    """Define the rule of a primitive whose result has the operands' dtype, or is boolean."""

    def lower(ctx: RuleContext, *args: Any, **_: Any) -> Any:
        values = _operands(ctx, args)
        dtype = ctx.avals_in[0].dtype
        if not is_float8(dtype):
            return operation(values, dtype)
        (aval,) = ctx.avals_out
        wide = [convert(ctx.kernel, x, aval.shape, dtype, _float32) for x in values]
        out = operation(wide, _float32)
        return out if is_bool(aval.dtype) else convert(ctx.kernel, out, aval.shape, _float32, dtype)

    rules.rule(primitive)(lower)


def arithmetic(floating: Any, signed: Any, unsigned: Any = None, boolean: Any = None) -> Operation:
    """Choose one of Triton's operations by dtype."""

    def operation(values: Sequence[Any], dtype: Any) -> Any:
        if is_float(dtype):
            chosen = floating
        elif is_bool(dtype):
            chosen = boolean
        else:
            chosen = signed if unsigned is None or is_signed(dtype) else unsigned
        if chosen is None:
            raise NotImplementedError(
                f"Kernels for {rules.target} do not have this operation for {dtypes.dtype_name(dtype)}: convert the operands."
            )
        return chosen(*values)

    return operation


add = arithmetic(arith.addf, arith.addi, boolean=arith.ori)
multiply = arithmetic(arith.mulf, arith.muli, boolean=arith.andi)
maximum = arithmetic(arith.maxnumf, arith.maxsi, arith.maxui, arith.ori)
minimum = arithmetic(arith.minnumf, arith.minsi, arith.minui, arith.andi)
bitwise_and = arithmetic(None, arith.andi, boolean=arith.andi)
bitwise_or = arithmetic(None, arith.ori, boolean=arith.ori)
bitwise_xor = arithmetic(None, arith.xori, boolean=arith.xori)

for _p, _operation in {
    lax.add_p: add,
    lax.add_any_p: add,
    lax.sub_p: arithmetic(arith.subf, arith.subi),
    lax.mul_p: multiply,
    lax.max_p: maximum,
    lax.min_p: minimum,
    lax.rem_p: arithmetic(arith.remf, arith.remsi, arith.remui),
    lax.and_p: bitwise_and,
    lax.or_p: bitwise_or,
    lax.xor_p: bitwise_xor,
    lax.shift_left_p: arithmetic(None, arith.shli),
    lax.shift_right_logical_p: arithmetic(None, arith.shrui),
    lax.shift_right_arithmetic_p: arithmetic(None, arith.shrsi),
    lax.square_p: lambda xs, dtype: multiply((xs[0], xs[0]), dtype),
}.items():
    _elementwise(_p, _operation)

_PREDICATES = {
    lax.eq_p: ("OEQ", "eq", "eq"),
    lax.ne_p: ("UNE", "ne", "ne"),
    lax.lt_p: ("OLT", "slt", "ult"),
    lax.le_p: ("OLE", "sle", "ule"),
    lax.gt_p: ("OGT", "sgt", "ugt"),
    lax.ge_p: ("OGE", "sge", "uge"),
}


def compare(primitive: Any) -> Operation:
    """Return the operation of a comparison."""
    floating, signed, unsigned = _PREDICATES[primitive]

    def operation(values: Sequence[Any], dtype: Any) -> Any:
        x, y = values
        if is_float(dtype):
            return arith.cmpf(getattr(arith.CmpFPredicate, floating), x, y)
        name = signed if is_signed(dtype) else unsigned
        return arith.cmpi(getattr(arith.CmpIPredicate, name), x, y)

    return operation


for _p in _PREDICATES:
    _elementwise(_p, compare(_p))


@rules.rule(lax.div_p)
def _divide(ctx: RuleContext, *args: Any) -> Any:
    x, y = _operands(ctx, args)
    (aval,) = ctx.avals_out
    return divide(ctx.kernel, x, y, aval)


def divide(kernel: Kernel, x: Any, y: Any, aval: Any) -> Any:
    dtype = aval.dtype
    if not is_float(dtype):
        return arith.divsi(x, y) if is_signed(dtype) else arith.divui(x, y)
    if dtype.itemsize >= 4:
        return arith.divf(x, y)
    wide = [convert(kernel, v, aval.shape, dtype, _float32) for v in (x, y)]
    return convert(kernel, arith.divf(*wide), aval.shape, _float32, dtype)


@rule(lax.neg_p)
def _negate(ctx: RuleContext, x: Any) -> Any:
    (aval,) = ctx.avals_in
    zero = ctx.kernel.full(0.0 if is_float(aval.dtype) else 0, aval.shape, aval.dtype)
    if is_float8(aval.dtype):
        wide = convert(ctx.kernel, x, aval.shape, aval.dtype, _float32)
        out = arith.subf(ctx.kernel.full(0.0, aval.shape, _float32), wide)
        return convert(ctx.kernel, out, aval.shape, _float32, aval.dtype)
    return arith.subf(zero, x) if is_float(aval.dtype) else arith.subi(zero, x)


@rule(lax.not_p)
def _not(ctx: RuleContext, x: Any) -> Any:
    (aval,) = ctx.avals_in
    ones = True if is_bool(aval.dtype) else -1
    return arith.xori(x, ctx.kernel.full(ones, aval.shape, aval.dtype))


@rules.rule(lax.select_n_p)
def _select(ctx: RuleContext, which: Any, *cases: Any) -> Any:
    (aval,) = ctx.avals_out
    kernel = ctx.kernel
    shape = aval.shape
    index, *values = _operands(ctx, [which, *cases])
    if is_bool(ctx.avals_in[0].dtype):
        if len(values) == 1:
            return values[0]
        return arith.select(index, values[1], values[0])
    out = values[-1]
    for i in range(len(values) - 2, -1, -1):
        bound = kernel.full(i, shape, ctx.avals_in[0].dtype)
        out = arith.select(arith.cmpi(arith.CmpIPredicate.sle, index, bound), values[i], out)
    return out


@rules.rule(lax.clamp_p)
def _clamp(ctx: RuleContext, *args: Any) -> Any:
    low, x, high = _operands(ctx, args)
    dtype = ctx.avals_in[1].dtype
    return minimum((maximum((low, x), dtype), high), dtype)


@rule(lax.copy_p, lax.stop_gradient_p, lax.optimization_barrier_p)
def _identity(ctx: RuleContext, *args: Any, **_: Any) -> Any:
    return list(args)


# Mathematical functions: names in the device's library, which CUDA's has as __nv_NAMEf and __nv_NAME,
# and ROCm's as __ocml_NAME_f32 and __ocml_NAME_f64.
_FUNCTIONS: dict[Any, str] = {
    lax.floor_p: "floor",
    lax.ceil_p: "ceil",
    lax.exp_p: "exp",
    lax.exp2_p: "exp2",
    lax.log_p: "log",
    lax.log1p_p: "log1p",
    lax.expm1_p: "expm1",
    lax.sqrt_p: "sqrt",
    lax.rsqrt_p: "rsqrt",
    lax.cbrt_p: "cbrt",
    lax.sin_p: "sin",
    lax.cos_p: "cos",
    lax.tan_p: "tan",
    lax.asin_p: "asin",
    lax.acos_p: "acos",
    lax.atan_p: "atan",
    lax.sinh_p: "sinh",
    lax.cosh_p: "cosh",
    lax.tanh_p: "tanh",
    lax.asinh_p: "asinh",
    lax.acosh_p: "acosh",
    lax.atanh_p: "atanh",
    lax.pow_p: "pow",
    lax.atan2_p: "atan2",
    lax.nextafter_p: "nextafter",
    special.erf_inv_p: "erfinv",
    special.erf_p: "erf",
    special.erfc_p: "erfc",
    special.lgamma_p: "lgamma",
}


def library_call(kernel: Kernel, name: str, args: Sequence[Any], shape: Any, dtype: Any) -> Any:
    """Call a function of the device's library.

    Args:
      name: its name, without what says for which type it is.
      args: values of a shape and dtype, float32 or float64.
    """
    if kernel.platform == "cuda":
        symbol = f"__nv_{name}f" if dtype == np.float32 else f"__nv_{name}"
    else:
        symbol = f"__ocml_{name}_f32" if dtype == np.float32 else f"__ocml_{name}_f64"
    return extern(kernel.type_of(shape, dtype), args, symbol)


def extern(target: Any, args: Sequence[Any], symbol: str, library: str = "") -> Any:
    return tt.extern_elementwise(target, args, library, "", symbol, True)


def _function(primitive: Any, name: str) -> None:
    def lower(ctx: RuleContext, *args: Any, **_: Any) -> Any:
        (aval,) = ctx.avals_out
        kernel, dtype, shape = ctx.kernel, aval.dtype, aval.shape
        if primitive is lax.pow_p and not is_float(ctx.avals_in[1].dtype):
            return _power_of_integer(ctx, args)
        values = _operands(ctx, args)
        if dtype.itemsize >= 4:
            return library_call(kernel, name, values, shape, dtype)
        if primitive is lax.nextafter_p:
            raise NotImplementedError(
                f"Kernels for {rules.target} have nextafter for float32 and float64 only, not for {dtypes.dtype_name(dtype)}."
            )
        wide = [convert(kernel, x, shape, dtype, _float32) for x in values]
        out = library_call(kernel, name, wide, shape, _float32)
        return convert(kernel, out, shape, _float32, dtype)

    rules.rule(primitive)(lower)


for _p, _name in _FUNCTIONS.items():
    _function(_p, _name)


def _power_of_integer(ctx: RuleContext, args: Sequence[Any]) -> Any:
    x, y = _operands(ctx, args)
    (aval,) = ctx.avals_out
    kernel, dtype, shape = ctx.kernel, aval.dtype, aval.shape
    y = convert(kernel, y, shape, ctx.avals_in[1].dtype, np.dtype(np.int32))
    wide = dtype if dtype.itemsize >= 4 else _float32
    x = convert(kernel, x, shape, dtype, wide)
    if kernel.platform == "cuda":
        symbol = "__nv_powif" if wide == np.float32 else "__nv_powi"
    else:
        symbol = "__ocml_pown_f32" if wide == np.float32 else "__ocml_pown_f64"
    out = extern(kernel.type_of(shape, wide), [x, y], symbol)
    return convert(kernel, out, shape, wide, dtype)


@rule(lax.round_p)
def _round(ctx: RuleContext, x: Any, *, rounding_method: Any) -> Any:
    (aval,) = ctx.avals_in
    away = rounding_method is lax.RoundingMethod.AWAY_FROM_ZERO
    name = "round" if away else "rint"
    wide = aval.dtype if aval.dtype.itemsize >= 4 else _float32
    x = convert(ctx.kernel, x, aval.shape, aval.dtype, wide)
    out = library_call(ctx.kernel, name, [x], aval.shape, wide)
    return convert(ctx.kernel, out, aval.shape, wide, aval.dtype)


@rule(lax.abs_p)
def _absolute(ctx: RuleContext, x: Any) -> Any:
    (aval,) = ctx.avals_in
    return absolute(ctx.kernel, x, aval)


def absolute(kernel: Kernel, x: Any, aval: Any) -> Any:
    dtype, shape = aval.dtype, aval.shape
    if is_float8(dtype):
        wide = convert(kernel, x, shape, dtype, _float32)
        return convert(kernel, math.absf(wide), shape, _float32, dtype)
    if is_float(dtype):
        if dtype.itemsize >= 4:
            return library_call(kernel, "fabs", [x], shape, dtype)
        return math.absf(x)
    if not is_signed(dtype):
        return x
    if kernel.platform == "cuda" and dtype.itemsize >= 4:
        symbol = "__nv_abs" if dtype == np.int32 else "__nv_llabs"
        return extern(kernel.type_of(shape, dtype), [x], symbol)
    return math.absi(x)


def _counting(primitive: Any, name: str, operation: Any) -> None:
    def lower(ctx: RuleContext, x: Any) -> Any:
        (aval,) = ctx.avals_in
        kernel, dtype, shape = ctx.kernel, aval.dtype, aval.shape
        if kernel.platform != "cuda":
            return operation(x)
        # CUDA's library counts in 32 and 64 bits.
        bits = dtypes.itemsize_bits(dtype)
        int32 = np.dtype(np.int32)
        as_int32 = kernel.type_of(shape, int32)
        wide = arith.extui(as_int32, x) if bits < 32 else x
        out = extern(as_int32, [wide], f"__nv_{name}ll" if bits == 64 else f"__nv_{name}")
        if bits < 32 and primitive is lax.clz_p:
            out = arith.subi(out, kernel.full(32 - bits, shape, int32))
        return convert(kernel, out, shape, np.dtype(np.uint32), dtype)

    rule(primitive)(lower)


_counting(lax.population_count_p, "popc", math.ctpop)
_counting(lax.clz_p, "clz", math.ctlz)


# What is made of other primitives


def _sign(x: Any) -> Any:
    one = lambda condition: lax.convert_element_type(condition, x.dtype)
    zero = np.zeros((), x.dtype)
    if is_float(x.dtype):
        out = lax.sub(one(lax.gt(x, zero)), one(lax.lt(x, zero)))
        return lax.select(lax.ne(x, x), lax.full_like(x, np.nan), out)
    if is_signed(x.dtype):
        return lax.sub(one(lax.gt(x, zero)), one(lax.lt(x, zero)))
    return one(lax.ne(x, zero))


def _is_finite(x: Any) -> Any:
    infinite = lax.eq(lax.abs(x), np.asarray(np.inf, x.dtype))
    return lax.bitwise_and(lax.bitwise_not(lax.ne(x, x)), lax.bitwise_not(infinite))


def _integer_power(x: Any, *, y: int) -> Any:
    if y == 0:
        return lax.full_like(x, 1)
    out, factor, n = None, x, abs(y)
    while n:
        if n & 1:
            out = factor if out is None else lax.mul(out, factor)
        n >>= 1
        if n:
            factor = lax.mul(factor, factor)
    return lax.div(lax.full_like(x, 1), out) if y < 0 else out


def _logistic(x: Any, *, accuracy: Any = None) -> Any:
    one = np.ones((), x.dtype)
    return lax.div(one, lax.add(lax.exp(lax.neg(x)), one))


for _p, _fun in {
    lax.sign_p: _sign,
    lax.is_finite_p: _is_finite,
    lax.integer_pow_p: _integer_power,
    lax.logistic_p: _logistic,
    reciprocal_p: lambda x, *, approx, full_range: _integer_power(x, y=-1),
}.items():
    rules.rule(_p)(lower_fun(_fun, multiple_results=False))
