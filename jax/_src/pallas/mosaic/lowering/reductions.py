"""Rules of Mosaic's lowering: reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import ShapedArray
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, vector
from jax._src.lib.mosaic import tpu
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.lowering.arithmetic import converted
from jax._src.pallas.mosaic.lowering.kernel import TpuKernel, reshaped, rule

_Kind = vector.CombiningKind
# For floating-point numbers, and integers with and without sign.
_KINDS = {
    lax.reduce_sum_p: (_Kind.ADD, _Kind.ADD, _Kind.ADD),
    lax.reduce_max_p: (_Kind.MAXIMUMF, _Kind.MAXSI, _Kind.MAXUI),
    lax.reduce_min_p: (_Kind.MINIMUMF, _Kind.MINSI, _Kind.MINUI),
}


@rule(*_KINDS)
def _reduce(ctx: RuleContext, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    (aval,), (out,), kernel, p = ctx.avals_in, ctx.avals_out, ctx.kernel, ctx.eqn.primitive
    if not axes:
        return x
    dtype = np.dtype(aval.dtype)
    if dtype == np.bool_:
        raise NotImplementedError(
            f"Kernels for TPUs have no {p.name} of booleans, here {aval.str_short()}: convert them to int32 before."
        )
    narrow = dtypes.itemsize_bits(dtype) < 32
    if narrow and (p is lax.reduce_sum_p or not is_float(dtype)):
        # Sums are exact to the bit only where they are rounded once.
        wide = np.dtype(np.float32 if is_float(dtype) else np.int32)
        x, aval = converted(kernel, x, aval, wide), aval.update(dtype=wide)
    total = reduced(kernel, x, aval, axes, _kind(p, aval.dtype), _start(p, aval.dtype))
    return converted(kernel, total, out.update(dtype=aval.dtype), dtype)


def _kind(p: Any, dtype: Any) -> Any:
    return _KINDS[p][0 if is_float(dtype) else 1 if is_signed(dtype) else 2]


def _start(p: Any, dtype: Any) -> Any:
    if p is lax.reduce_sum_p:
        return 0
    low = p is lax.reduce_max_p
    if is_float(dtype):
        return -np.inf if low else np.inf
    info = dtypes.iinfo(dtype)
    return info.min if low else info.max


def reduced(
    kernel: TpuKernel, x: Any, aval: Any, axes: Sequence[int], kind: Any, start: Any
) -> Any:
    """Combine the elements along axes."""
    dtype, shape = aval.dtype, tuple(aval.shape)
    rest = tuple([d for i, d in enumerate(shape) if i not in axes])
    whole = not rest
    if whole:  # a vector of one element, as there are no vectors of no dimensions
        x = reshaped(kernel, x, shape, (1, *shape), dtype)
        axes, rest = [i + 1 for i in axes], (1,)
    kind_attribute = ir.Attribute.parse(f"#vector.kind<{str(kind)}>")
    total = vector.multi_reduction(
        kind_attribute, x, kernel.splat(start, rest, dtype), sorted(axes),
        results=[kernel.vector_type(rest, dtype)],
    )  # fmt: skip
    if not whole:
        return total
    ones = (1,) * (len(shape) + 1)
    return vector.extract(reshaped(kernel, total, (1,), ones, dtype), [], [0] * len(ones))


@rule(lax.reduce_or_p, lax.reduce_and_p)
def _any_or_all(ctx: RuleContext, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    (aval,), (out,), kernel = ctx.avals_in, ctx.avals_out, ctx.kernel
    if aval.dtype != np.bool_:
        raise NotImplementedError(
            f"Kernels for TPUs have no {ctx.eqn.primitive.name} of integers, here {aval.str_short()}."
        )
    number = aval.update(dtype=np.dtype(np.float32))
    ones, zeros = [kernel.splat(v, aval.shape, np.float32) for v in (1.0, 0.0)]
    x = arith.select(x, ones, zeros)
    some = ctx.eqn.primitive is lax.reduce_or_p
    kind = _Kind.MAXIMUMF if some else _Kind.MINIMUMF
    total = reduced(kernel, x, number, axes, kind, -np.inf if some else np.inf)
    return arith.cmpf(arith.CmpFPredicate.OGT, total, kernel.splat(0.0, out.shape, np.float32))


@rule(lax.argmax_p, lax.argmin_p)
def _arg(ctx: RuleContext, x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
    (aval,), (out,), kernel = ctx.avals_in, ctx.avals_out, ctx.kernel
    name = "arg_max" if ctx.eqn.primitive is lax.argmax_p else "arg_min"
    if not is_float(aval.dtype):
        raise NotImplementedError(
            f"Kernels for TPUs have no {ctx.eqn.primitive.name} of {aval.str_short()}: convert it to float32 before."
        )
    x = converted(kernel, x, aval, np.float32)
    (axis,) = axes
    shape = tuple(aval.shape)
    if len(shape) == 1:
        x = reshaped(kernel, x, shape, (1, *shape), np.float32)
        shape, axis = (1, *shape), 1
    rest = tuple([d for i, d in enumerate(shape) if i != axis])
    kind = ir.Attribute.parse(f"#tpu.reduction_kind<{name}>")
    where = tpu.reduce_index(kernel.vector_type(rest, np.int32), x, axis, kind)
    where = reshaped(kernel, where, rest, out.shape, np.int32)
    return converted(kernel, where, ShapedArray(out.shape, np.dtype(np.int32)), index_dtype)
