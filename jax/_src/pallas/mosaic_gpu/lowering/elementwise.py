"""Rules of elementwise primitives: each register is computed from those of the operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax, special
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, math
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.elementwise import BINARY, COMPARISONS, UNARY, kind
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.layouts import WGSplatFragLayout
from jax._src.pallas.mosaic_gpu.lowering.exchange import broadcasted, in_layout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    from_elements,
    full_like,
    like_operand,
    mapped,
)
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    element_type,
    library_call,
    number,
    rule,
)
from jax._src.pallas.mosaic_gpu.lowering.narrow_floats import from_narrow, to_narrow
from jax._src.pallas.mosaic_gpu.memory_operations import layout_cast_p
from jax._src.pallas.primitives import multiple_of_p, reciprocal_p

_float32 = np.dtype(np.float32)


def _of_library(name: str) -> Callable[..., Any]:
    """Return the operation of floats that is a function of CUDA's library, which has those of 32 and 64 bits.

    Args:
      name: its name there, without what says for which dtype it is.
    """

    def call(*xs: Any) -> Any:
        if isinstance(xs[0].type, ir.VectorType):
            return from_elements([call(*each) for each in zip(*map(elements, xs))])
        kind = ir.FloatType(xs[0].type)
        if kind.width >= 32:
            return library_call(f"__nv_{name}" if kind.width == 64 else f"__nv_{name}f", *xs)
        return arith.truncf(kind, call(*[arith.extf(ir.F32Type.get(), x) for x in xs]))

    return call


# Functions of CUDA's library that not all back ends have.
_FUNCTIONS: dict[Any, Any] = {
    lax.expm1_p: math.expm1,
    lax.cbrt_p: math.cbrt,
    lax.asin_p: math.asin,
    lax.acos_p: math.acos,
    lax.atan_p: math.atan,
    lax.sinh_p: math.sinh,
    lax.cosh_p: math.cosh,
    lax.asinh_p: math.asinh,
    lax.acosh_p: math.acosh,
    lax.atanh_p: math.atanh,
    special.erfc_p: math.erfc,
    special.erf_inv_p: _of_library("erfinv"),
    special.lgamma_p: _of_library("lgamma"),
}


TWO_OPERANDS = {
    **BINARY,
    lax.rem_p: (_of_library("fmod"), *BINARY[lax.rem_p][1:]),
    lax.nextafter_p: (_of_library("nextafter"), None, None, None),
}
_ONE_OPERAND = {**UNARY, **{p: (op, None, None, None) for p, op in _FUNCTIONS.items()}}


def _apply(ctx: RuleContext, operation: Callable[..., Any], *args: Fragment) -> Fragment:
    """Apply an operation to the elements of the operands, which are broadcast as by NumPy."""
    (out,) = ctx.avals_out
    layout = ctx.kernel.layouts.get(ctx.eqn.outvars[0])
    same = []
    for x in args:
        if x.shape != out.shape:
            kept = range(len(out.shape) - len(x.shape), len(out.shape))
            x = broadcasted(ctx.kernel, x, out.shape, kept, layout)
        same.append(x)
    arrays = [x for x in same if not x.is_splat]
    if arrays and (layout is None or isinstance(layout, WGSplatFragLayout)):
        layout = arrays[0].layout
    if arrays:
        same = [in_layout(ctx.kernel, x, layout) for x in same]
    return mapped(operation, same, out.dtype)


def _narrow(dtype: Any) -> bool:
    """Whether arithmetic of a dtype is done in float32."""
    return is_float(dtype) and dtypes.itemsize_bits(dtype) == 8


def _computed(operation: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """Return an operation on floats of a dtype that has no arithmetic."""
    if not _narrow(dtype):
        return operation

    def in_float32(*xs: Any) -> Any:
        out = operation(*[convert(x, dtype, _float32) for x in xs])
        is_result = not isinstance(_element(out), ir.IntegerType)
        return convert(out, _float32, dtype) if is_result else out

    return in_float32


def _element(x: Any) -> Any:
    return ir.VectorType(x.type).element_type if isinstance(x.type, ir.VectorType) else x.type


def _operation(ctx: RuleContext, table: Any, dtype: Any) -> Callable[..., Any]:
    operation = table[kind(dtype)]
    if operation is None:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have no {ctx.eqn.primitive.name} of {dtypes.dtype_name(dtype)}: convert it to another "
            "dtype before."
        )
    return operation


@rule(*_ONE_OPERAND)
def _unary(ctx: RuleContext, x: Fragment, **_: Any) -> Fragment:
    operation = _operation(ctx, _ONE_OPERAND[ctx.eqn.primitive], x.dtype)
    if ctx.kernel.params.approx_math and x.dtype == _float32:
        operation = _APPROXIMATE.get(ctx.eqn.primitive, operation)
    return _apply(ctx, _computed(operation, x.dtype), x)


def _approximate(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: operation(x, fastmath=arith.FastMathFlags.fast)


_APPROXIMATE: dict[Any, Callable[..., Any]] = {
    lax.exp_p: _approximate(math.exp),
    lax.exp2_p: _approximate(math.exp2),
    lax.log_p: _approximate(math.log),
    lax.sin_p: _approximate(math.sin),
    lax.cos_p: _approximate(math.cos),
    lax.tanh_p: _approximate(math.tanh),
    lax.rsqrt_p: _approximate(math.rsqrt),
}


@rule(*TWO_OPERANDS)
def _binary(ctx: RuleContext, x: Fragment, y: Fragment, **_: Any) -> Fragment:
    if ctx.eqn.primitive is lax.nextafter_p and dtypes.itemsize_bits(x.dtype) < 32:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have nextafter of float32 and float64 only, not of {dtypes.dtype_name(x.dtype)}."
        )
    operation = _operation(ctx, TWO_OPERANDS[ctx.eqn.primitive], x.dtype)
    return _apply(ctx, _computed(operation, x.dtype), x, y)


@rule(lax.neg_p)
def _neg(ctx: RuleContext, x: Fragment) -> Fragment:
    if is_float(x.dtype):
        return _apply(ctx, _computed(arith.negf, x.dtype), x)
    return _apply(ctx, lambda v: arith.subi(_full(v, 0, x.dtype), v), x)


@rule(lax.not_p)
def _not(ctx: RuleContext, x: Fragment) -> Fragment:
    ones = True if x.dtype == np.bool_ else -1
    return _apply(ctx, lambda v: arith.xori(v, _full(v, ones, x.dtype)), x)


def _full(like: Any, value: Any, dtype: Any) -> Any:
    return full_like(like, number(value, dtype))


@rule(lax.round_p)
def _round(ctx: RuleContext, x: Fragment, *, rounding_method: Any) -> Fragment:
    even = rounding_method is lax.RoundingMethod.TO_NEAREST_EVEN
    return _apply(ctx, _computed(math.roundeven if even else math.round, x.dtype), x)


@rule(lax.logistic_p)
def _logistic(ctx: RuleContext, x: Fragment, **_: Any) -> Fragment:
    dtype = _float32 if _narrow(x.dtype) else x.dtype

    def logistic(v: Any) -> Any:
        one = _full(v, 1, dtype)
        return arith.divf(one, arith.addf(one, math.exp(arith.negf(v))))

    return _apply(ctx, _computed(logistic, x.dtype), x)


@rule(lax.square_p)
def _square(ctx: RuleContext, x: Fragment) -> Fragment:
    multiply = _operation(ctx, BINARY[lax.mul_p], x.dtype)
    return _apply(ctx, _computed(lambda v: multiply(v, v), x.dtype), x)


@rule(lax.integer_pow_p)
def _integer_pow(ctx: RuleContext, x: Fragment, *, y: int, **_: Any) -> Fragment:
    multiply = _operation(ctx, BINARY[lax.mul_p], x.dtype)
    dtype = _float32 if _narrow(x.dtype) else x.dtype

    def power(v: Any) -> Any:
        out, n, one = None, abs(y), _full(v, 1, dtype)
        while n:
            if n & 1:
                out = v if out is None else multiply(out, v)
            n >>= 1
            if n:
                v = multiply(v, v)
        if out is None:
            return one
        return arith.divf(one, out) if y < 0 else out

    return _apply(ctx, _computed(power, x.dtype), x)


@rule(lax.pow_p)
def _pow(ctx: RuleContext, x: Fragment, y: Fragment) -> Fragment:
    if not is_float(x.dtype):
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have no pow of {dtypes.dtype_name(x.dtype)}: convert it to float32 before."
        )
    wide = _float32 if dtypes.itemsize_bits(x.dtype) < 32 else x.dtype

    def power(v: Any, n: Any) -> Any:
        out = math.powf(convert(v, x.dtype, wide), convert(n, y.dtype, wide))
        return convert(out, wide, x.dtype)

    return _apply(ctx, power, x, y)


@rule(lax.is_finite_p)
def _is_finite(ctx: RuleContext, x: Fragment) -> Fragment:
    wide = _float32 if dtypes.itemsize_bits(x.dtype) < 32 else x.dtype

    def is_finite(v: Any) -> Any:
        size = math.absf(convert(v, x.dtype, wide))
        return arith.cmpf(arith.CmpFPredicate.OLT, size, _full(size, np.inf, wide))

    return _apply(ctx, is_finite, x)


@rule(reciprocal_p)
def _reciprocal(ctx: RuleContext, x: Fragment, **_: Any) -> Fragment:
    dtype = _float32 if _narrow(x.dtype) else x.dtype
    return _apply(ctx, _computed(lambda v: arith.divf(_full(v, 1, dtype), v), x.dtype), x)


@rule(*COMPARISONS)
def _compare(ctx: RuleContext, x: Fragment, y: Fragment) -> Fragment:
    dtype = x.dtype
    if dtype == np.bool_:  # as numbers without a sign
        predicate = COMPARISONS[ctx.eqn.primitive][2]
    else:
        predicate = COMPARISONS[ctx.eqn.primitive][kind(dtype)]
    compare = arith.cmpf if is_float(dtype) else arith.cmpi
    return _apply(ctx, _computed(lambda a, b: compare(predicate, a, b), dtype), x, y)


@rule(lax.select_n_p)
def _select_n(ctx: RuleContext, which: Fragment, *cases: Fragment) -> Fragment:
    if len(cases) == 1:
        return cases[0]
    if which.dtype == np.bool_:
        return _apply(ctx, lambda w, no, yes: arith.select(w, yes, no), which, *cases)

    def select(w: Any, *values: Any) -> Any:
        out = values[-1]
        for i in range(len(values) - 2, -1, -1):
            test = arith.cmpi(arith.CmpIPredicate.sle, w, _full(w, i, which.dtype))
            out = arith.select(test, values[i], out)
        return out

    return _apply(ctx, select, which, *cases)


@rule(lax.clamp_p)
def _clamp(ctx: RuleContext, low: Fragment, x: Fragment, high: Fragment) -> Fragment:
    at_least = _operation(ctx, BINARY[lax.max_p], x.dtype)
    at_most = _operation(ctx, BINARY[lax.min_p], x.dtype)
    clamp = lambda a, v, b: at_most(at_least(v, a), b)
    return _apply(ctx, _computed(clamp, x.dtype), low, x, high)


@rule(lax.copy_p, lax.stop_gradient_p, lax.optimization_barrier_p, multiple_of_p)
def _same(ctx: RuleContext, *args: Any, **_: Any) -> Any:
    return args


@rule(layout_cast_p)
def _layout_cast(ctx: RuleContext, x: Fragment, *, new_layout: Any) -> Fragment:
    return in_layout(ctx.kernel, x, new_layout.to_mgpu())


# Conversions


@rule(lax.convert_element_type_p)
def _convert(ctx: RuleContext, x: Fragment, *, new_dtype: Any, **_: Any) -> Fragment:
    return _apply(ctx, lambda v: convert(v, x.dtype, new_dtype), x)


def convert(x: Any, old: Any, new: Any) -> Any:
    """Convert a scalar or a vector to a dtype."""
    old, new = np.dtype(old), np.dtype(new)
    if old == new:
        return x
    to = lambda d: like_operand(element_type(d), x)
    bits, new_bits = dtypes.itemsize_bits(old), dtypes.itemsize_bits(new)
    if is_float(old) and is_float(new):
        return _convert_float(x, old, new)
    if is_float(old):
        if bits < 32:
            x, old = _convert_float(x, old, _float32), _float32
        if new == np.bool_:
            return arith.cmpf(arith.CmpFPredicate.UNE, x, _full(x, 0, old))
        # What is beyond the integers becomes the nearest one.
        info = dtypes.iinfo(new)
        low, high = [_full(x, float(v), old) for v in (info.min, info.max)]
        inside = arith.maximumf(arith.minimumf(x, high), low)
        return arith.fptosi(to(new), inside) if is_signed(new) else arith.fptoui(to(new), inside)
    if is_float(new):
        wide = _float32 if new_bits < 32 else new
        out = arith.sitofp(to(wide), x) if is_signed(old) else arith.uitofp(to(wide), x)
        return convert(out, wide, new)
    if new == np.bool_:
        return arith.cmpi(arith.CmpIPredicate.ne, x, _full(x, 0, old))
    if old == np.bool_:
        return arith.extui(to(new), x)
    if bits == new_bits:
        return x
    if bits > new_bits:
        return arith.trunci(to(new), x)
    return arith.extsi(to(new), x) if is_signed(old) else arith.extui(to(new), x)


def _convert_float(x: Any, old: Any, new: Any) -> Any:
    to = lambda d: like_operand(element_type(d), x)
    bits, new_bits = dtypes.itemsize_bits(old), dtypes.itemsize_bits(new)
    if bits == 8:
        return convert(from_narrow(x, old), np.float16, new)
    if new_bits == 8:
        return to_narrow(convert(x, old, _float32), new)
    if bits == new_bits:  # as a wider type, which has all values of both
        return arith.truncf(to(new), arith.extf(to(_float32), x))
    return arith.extf(to(new), x) if bits < new_bits else arith.truncf(to(new), x)


@rule(lax.bitcast_convert_type_p)
def _bitcast(ctx: RuleContext, x: Fragment, *, new_dtype: Any) -> Fragment:
    if dtypes.itemsize_bits(x.dtype) != dtypes.itemsize_bits(new_dtype):
        raise NotImplementedError(
            f"Kernels for {TABLE.target} cannot reinterpret {dtypes.dtype_name(x.dtype)} as {dtypes.dtype_name(new_dtype)}, of another width: combine the parts by "
            "shifts."
        )

    def bitcast(v: Any) -> Any:
        target = like_operand(element_type(new_dtype), v)
        return v if v.type == target else arith.bitcast(target, v)

    return _apply(ctx, bitcast, x)
