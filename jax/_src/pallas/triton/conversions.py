"""Conversions of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.triton.kernel import Constant, Kernel, is_bool, is_float8, rule, rules

_float32 = np.dtype(np.float32)


@rules.rule(lax.convert_element_type_p)
def _convert(ctx: RuleContext, x: Any, *, new_dtype: Any, **_: Any) -> Any:
    (aval,) = ctx.avals_in
    if type(x) is Constant and not aval.shape:
        return Constant(np.asarray(x.value, aval.dtype).astype(new_dtype).item(), new_dtype)
    return convert(ctx.kernel, ctx.kernel.value(x, aval), aval.shape, aval.dtype, new_dtype)


def convert(kernel: Kernel, x: Any, shape: tuple[int, ...], old: Any, new: Any) -> Any:
    """Convert a value to a dtype."""
    old, new = np.dtype(old), np.dtype(new)
    if old == new:
        return x
    target = kernel.type_of(shape, new)
    if is_float(old):
        if is_float(new):
            return _float_to_float(kernel, x, shape, old, new)
        if old.itemsize < 4:
            x, old = _float_to_float(kernel, x, shape, old, _float32), _float32
        if is_bool(new):
            return arith.cmpf(arith.CmpFPredicate.UNE, x, kernel.full(0.0, shape, old))
        # What is beyond the integers becomes the nearest one.
        limits = dtypes.iinfo(new)
        low, high = [kernel.full(float(v), shape, old) for v in (limits.min, limits.max)]
        x = arith.maximumf(arith.minimumf(x, high), low)
        return arith.fptosi(target, x) if is_signed(new) else arith.fptoui(target, x)
    if is_float(new):
        if is_float8(new):
            x = convert(kernel, x, shape, old, _float32)
            return _float_to_float(kernel, x, shape, _float32, new)
        return arith.sitofp(target, x) if is_signed(old) else arith.uitofp(target, x)
    if is_bool(new):
        return arith.cmpi(arith.CmpIPredicate.ne, x, kernel.full(0, shape, old))
    before, after = [1 if is_bool(d) else dtypes.itemsize_bits(d) for d in (old, new)]
    if after == before:
        return x
    if after < before:
        return arith.trunci(target, x)
    return arith.extsi(target, x) if is_signed(old) else arith.extui(target, x)


def _float_to_float(kernel: Kernel, x: Any, shape: tuple[int, ...], old: Any, new: Any) -> Any:
    target = kernel.type_of(shape, new)
    before, after = dtypes.itemsize_bits(old), dtypes.itemsize_bits(new)
    if before == 8 and 8 < after <= 32:
        return tt.fp_to_fp(target, x)
    if before < 32 and new != _float32:
        # Halves have neither range nor precision of each other.
        x, before = _float_to_float(kernel, x, shape, old, _float32), 32
        old = _float32
    if after == 8:
        if before > 32:
            x = arith.truncf(kernel.type_of(shape, _float32), x)
        return tt.fp_to_fp(target, x, rounding=tt.RoundingMode.RTNE)
    return arith.extf(target, x) if after > before else arith.truncf(target, x)


@rule(lax.bitcast_convert_type_p)
def _bitcast(ctx: RuleContext, x: Any, *, new_dtype: Any) -> Any:
    (aval,) = ctx.avals_in
    if dtypes.itemsize_bits(aval.dtype) != dtypes.itemsize_bits(new_dtype):
        raise NotImplementedError(
            f"Kernels for {rules.target} cannot reinterpret {aval.str_short()} as {dtypes.dtype_name(new_dtype)}, of another "
            "width: combine the parts by shifts."
        )
    target = ctx.kernel.type_of(ctx.avals_out[0].shape, new_dtype)
    return x if x.type == target else tt.bitcast(target, x)


@rule(lax.reduce_precision_p)
def _reduce_precision(ctx: RuleContext, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    (aval,) = ctx.avals_in
    for dtype in (aval.dtype, np.dtype(np.float16), dtypes.bfloat16, _float32):
        info = dtypes.finfo(dtype)
        if (info.nexp, info.nmant) == (exponent_bits, mantissa_bits):
            rounded = convert(ctx.kernel, x, aval.shape, aval.dtype, np.dtype(dtype))
            return convert(ctx.kernel, rounded, aval.shape, np.dtype(dtype), aval.dtype)
    raise NotImplementedError(
        f"Kernels for {rules.target} cannot round to {exponent_bits} bits of exponent and {mantissa_bits} of mantissa, only to "
        "a dtype that there is."
    )
