"""Rules of Mosaic's lowering: arithmetic, comparisons, conversions and selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax, special
from jax._src.lib.mlir.dialects import arith, math
from jax._src.lib.mosaic import tpu
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.elementwise import BINARY, COMPARISONS, UNARY, Operations, kind
from jax._src.pallas.kernel_rules import RuleContext, lower_fun
from jax._src.pallas.mosaic.lowering.kernel import TABLE, TpuKernel, broadcast, rule
from jax._src.pallas.primitives import multiple_of_p, reciprocal_p


def operation(ctx: RuleContext, ops: Operations, dtype: Any) -> Callable[..., Any]:
    """Return the operation for elements of a dtype.

    Raises:
      NotImplementedError: if there is none.
    """
    op = ops[kind(dtype)]
    if op is None:
        raise NotImplementedError(
            f"Kernels for TPUs have no {ctx.eqn.primitive.name} of {dtypes.dtype_name(dtype)}: convert it to another "
            "type before."
        )
    return op


def _broadcast_all(ctx: RuleContext, args: Sequence[Any]) -> list[Any]:
    shape = ctx.avals_out[0].shape
    return [broadcast(ctx.kernel, x, a, shape) for x, a in zip(args, ctx.avals_in)]


@rule(*UNARY)
def _unary(ctx: RuleContext, x: Any, **_: Any) -> Any:
    return operation(ctx, UNARY[ctx.eqn.primitive], ctx.avals_in[0].dtype)(x)


@rule(*BINARY)
def _binary(ctx: RuleContext, x: Any, y: Any, **_: Any) -> Any:
    op = operation(ctx, BINARY[ctx.eqn.primitive], ctx.avals_in[0].dtype)
    return op(*_broadcast_all(ctx, (x, y)))


def _filled(ctx: RuleContext, value: Any, aval: Any = None) -> Any:
    aval = ctx.avals_out[0] if aval is None else aval
    return ctx.kernel.splat(value, aval.shape, aval.dtype)


@rule(lax.neg_p)
def _neg(ctx: RuleContext, x: Any) -> Any:
    if is_float(ctx.avals_in[0].dtype):
        return arith.negf(x)
    return arith.subi(_filled(ctx, 0), x)


@rule(lax.not_p)
def _not(ctx: RuleContext, x: Any) -> Any:
    ones = True if ctx.avals_in[0].dtype == np.bool_ else -1
    return arith.xori(x, _filled(ctx, ones))


@rule(lax.round_p)
def _round(ctx: RuleContext, x: Any, *, rounding_method: Any) -> Any:
    nearest_even = rounding_method is lax.RoundingMethod.TO_NEAREST_EVEN
    return math.roundeven(x) if nearest_even else math.round(x)


@rule(lax.logistic_p)
def _logistic(ctx: RuleContext, x: Any, **_: Any) -> Any:
    one = _filled(ctx, 1.0)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


@rule(lax.square_p)
def _square(ctx: RuleContext, x: Any) -> Any:
    return operation(ctx, BINARY[lax.mul_p], ctx.avals_in[0].dtype)(x, x)


@rule(lax.integer_pow_p)
def _integer_pow(ctx: RuleContext, x: Any, *, y: int, **_: Any) -> Any:
    mul = operation(ctx, BINARY[lax.mul_p], ctx.avals_in[0].dtype)
    result, n = None, abs(y)
    while n:
        if n & 1:
            result = x if result is None else mul(result, x)
        n >>= 1
        if n:
            x = mul(x, x)
    if result is None:
        return _filled(ctx, 1)
    return arith.divf(_filled(ctx, 1.0), result) if y < 0 else result


@rule(lax.pow_p)
def _pow(ctx: RuleContext, x: Any, y: Any) -> Any:
    x_aval, y_aval = ctx.avals_in
    if not is_float(x_aval.dtype):
        raise NotImplementedError(
            f"Kernels for TPUs have no pow of {x_aval.str_short()}: convert it to float32 before."
        )
    y = converted(ctx.kernel, y, y_aval, x_aval.dtype)
    ctx = ctx.replace(avals_in=[x_aval, y_aval.update(dtype=x_aval.dtype)])
    return math.powf(*_broadcast_all(ctx, (x, y)))


@rule(lax.is_finite_p)
def _is_finite(ctx: RuleContext, x: Any) -> Any:
    out = ctx.avals_out[0]
    weird = tpu.weird(ctx.kernel.type_of(out), x)
    return arith.xori(weird, _filled(ctx, True))


@rule(reciprocal_p)
def _reciprocal(ctx: RuleContext, x: Any, *, approx: bool, full_range: bool) -> Any:
    if not ctx.avals_in[0].shape:
        return arith.divf(_filled(ctx, 1.0), x)
    return tpu.reciprocal(x, approx=approx or None, full_range=None if full_range else False)


@rule(multiple_of_p)
def _multiple_of(ctx: RuleContext, x: Any, *, values: tuple[int, ...]) -> Any:
    for multiple in values:
        x = tpu.assume_multiple(x, multiple)
    return x


# Comparisons

_F, _I = arith.CmpFPredicate, arith.CmpIPredicate


@rule(*COMPARISONS)
def _compare(ctx: RuleContext, x: Any, y: Any) -> Any:
    dtype = ctx.avals_in[0].dtype
    x, y = _broadcast_all(ctx, (x, y))
    if dtype == np.bool_:
        return _compare_booleans(ctx, x, y)
    predicate = COMPARISONS[ctx.eqn.primitive][kind(dtype)]
    return arith.cmpf(predicate, x, y) if is_float(dtype) else arith.cmpi(predicate, x, y)


def _compare_booleans(ctx: RuleContext, x: Any, y: Any) -> Any:
    p = ctx.eqn.primitive
    inverted = lambda v: arith.xori(v, _filled(ctx, True))
    if p is lax.ne_p:
        return arith.xori(x, y)
    if p is lax.eq_p:
        return inverted(arith.xori(x, y))
    if p is lax.gt_p or p is lax.le_p:  # x > y, and its opposite
        greater = arith.andi(x, inverted(y))
        return greater if p is lax.gt_p else inverted(greater)
    less = arith.andi(inverted(x), y)
    return less if p is lax.lt_p else inverted(less)


# Selection


@rule(lax.select_n_p)
def _select_n(ctx: RuleContext, which: Any, *cases: Any) -> Any:
    which_aval, *case_avals = ctx.avals_in
    if len(cases) > 2 or which_aval.dtype != np.bool_:
        raise NotImplementedError(
            f"Kernels for TPUs have selections by booleans between two arrays only, not by {which_aval.str_short()} between "
            f"{len(cases)}: nest them."
        )
    if len(cases) == 1:
        return cases[0]
    shape = ctx.avals_out[0].shape
    no, yes = [broadcast(ctx.kernel, x, a, shape) for x, a in zip(cases, case_avals)]
    return arith.select(which, yes, no)


@rule(lax.clamp_p)
def _clamp(ctx: RuleContext, low: Any, x: Any, high: Any) -> Any:
    low, x, high = _broadcast_all(ctx, (low, x, high))
    dtype = ctx.avals_out[0].dtype
    at_least = operation(ctx, BINARY[lax.max_p], dtype)(x, low)
    return operation(ctx, BINARY[lax.min_p], dtype)(at_least, high)


# Conversions


@rule(lax.convert_element_type_p)
def _convert(ctx: RuleContext, x: Any, *, new_dtype: Any, **_: Any) -> Any:
    return converted(ctx.kernel, x, ctx.avals_in[0], new_dtype)


def converted(kernel: TpuKernel, x: Any, aval: Any, dtype: Any) -> Any:
    """Convert the elements of an array."""
    old, new = np.dtype(aval.dtype), np.dtype(dtype)
    if old == new:
        return x
    to = lambda d: kernel.type_of(aval.update(dtype=np.dtype(d)))
    bits, new_bits = dtypes.itemsize_bits(old), dtypes.itemsize_bits(new)
    if new == np.bool_:
        return _is_nonzero(kernel, x, aval)
    if old == np.bool_:
        if not is_float(new):
            return arith.extui(to(new), x)
        number = arith.sitofp(to(np.float32), arith.extui(to(np.int32), x))
        return number if new == np.float32 else arith.truncf(to(new), number)
    if is_float(old) and is_float(new):
        if bits < new_bits:
            return arith.extf(to(new), x)
        if bits == new_bits:  # as a wider type, which has all values of both
            x = arith.extf(to(np.float32), x)
        return arith.truncf(to(new), x)
    if is_float(old):
        return arith.fptosi(to(new), x) if is_signed(new) else arith.fptoui(to(new), x)
    if is_float(new):
        return arith.sitofp(to(new), x) if is_signed(old) else arith.uitofp(to(new), x)
    if bits == new_bits:
        return x
    if bits > new_bits:
        return arith.trunci(to(new), x)
    return arith.extsi(to(new), x) if is_signed(old) else arith.extui(to(new), x)


def _is_nonzero(kernel: TpuKernel, x: Any, aval: Any) -> Any:
    # Comparisons of 32 bits are those that all TPUs have.
    wide = np.dtype(np.float32) if is_float(aval.dtype) else np.dtype(np.int32)
    if dtypes.itemsize_bits(aval.dtype) < 32:
        x = converted(kernel, x, aval, wide)
    zero = kernel.splat(0, aval.shape, wide)
    return arith.cmpf(_F.UNE, x, zero) if is_float(wide) else arith.cmpi(_I.ne, x, zero)


@rule(lax.copy_p, lax.stop_gradient_p, lax.optimization_barrier_p)
def _same(ctx: RuleContext, *args: Any, **_: Any) -> Any:
    return args


# What is computed by other primitives


def _erf_inv(x: Any) -> Any:
    """The approximation of M. Giles, with two polynomials of log(1 - x²)."""
    w = -lax.log1p(x * -x)
    small = w < 5.0
    w = lax.select(small, w - 2.5, lax.sqrt(w) - 3.0)
    p = lax.full_like(x, 0.0)
    for near, far in _ERF_INV:
        p = p * w + lax.select(small, lax.full_like(x, near), lax.full_like(x, far))
    return lax.select(lax.abs(x) == 1.0, x * np.float32(np.inf), p * x)


_ERF_INV = (
    (2.81022636e-08, -0.000200214257),
    (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322),
    (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773),
    (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047),
    (0.246640727, 1.00167406),
    (1.50140941, 2.83297682),
)


def _sign(x: Any) -> Any:
    if is_float(x.dtype):
        sign = lax.convert_element_type(x > 0, x.dtype) - lax.convert_element_type(x < 0, x.dtype)
        return lax.select(x != x, x, sign)
    positive = lax.convert_element_type(x > 0, x.dtype)
    return positive - lax.convert_element_type(x < 0, x.dtype) if is_signed(x.dtype) else positive


def _nextafter(x: Any, y: Any) -> Any:
    bits = lambda v: lax.bitcast_convert_type(v, np.int32)
    ix, iy = bits(x), bits(y)
    magnitude = ix & np.int32(0x7FFFFFFF)
    smallest = (iy & np.int32(-(2**31))) | np.int32(1)
    away = ((ix ^ iy) < 0) | (magnitude > (iy & np.int32(0x7FFFFFFF)))
    step = lax.select(away, lax.full_like(ix, -1), lax.full_like(ix, 1))
    moved = lax.select(magnitude == 0, smallest, ix + step)
    moved = lax.select(x == y, iy, moved)
    nan = lax.full_like(ix, 0x7FC00000)
    moved = lax.select((x != x) | (y != y), nan, moved)
    return lax.bitcast_convert_type(moved, np.float32)


for _primitive, _function in {
    special.erf_inv_p: _erf_inv,
    lax.sign_p: _sign,
    lax.nextafter_p: _nextafter,
}.items():
    TABLE.rule(_primitive)(lower_fun(_function, multiple_results=False))
