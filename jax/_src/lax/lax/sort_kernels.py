"""Sorting on CPU by the kernels of `jaxlib-ext`, if that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes, lib
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.constants import ir_attribute
from jax._src.lax.batch_partitioning import batch_attributes
from jax._src.lib import native_kernels
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

# The sort kernel uses unsigned 32-bit positions, the top_k kernel signed ones.
_MAX_SORT_SIZE = 2**32 - 1
_MAX_TOP_K_SIZE = 2**31 - 1
# From this jaxlib version on, XLA's bfloat16 top_k orders NaNs by their bits; the kernel does not.
TELLS_NANS_APART = (0, 11, 1)


def can_sort(ctx: Any, dimension: int) -> bool:
    """Return whether the kernel can sort the operands of `ctx`."""
    return _can_call(ctx) and ctx.avals_in[0].shape[dimension] <= _MAX_SORT_SIZE


def sort(ctx: Any, operands: Sequence[Any], dimension: int, num_keys: int) -> Sequence[Any]:
    """Sort IR values by the kernel; the sort is stable."""
    avals = ctx.avals_in
    last = avals[0].ndim - 1
    swap = None
    if dimension != last and _is_partitioned(ctx):
        # The compiler can partition custom calls along leading dimensions only.
        swap = list(range(last + 1))
        swap[dimension], swap[last] = last, dimension
        avals = [a.update(shape=tuple(a.shape[i] for i in swap)) for a in avals]
        operands = [hlo.transpose(x, mlir.dense_int_array(swap)) for x in operands]
        dimension = last
    results = _call(
        ctx,
        "jaxlib_ext_sort",
        operands,
        avals,
        avals,
        dict(dimension=np.int64(dimension), num_keys=np.int64(num_keys)),
    )
    if swap is not None:
        results = [hlo.transpose(x, mlir.dense_int_array(swap)) for x in results]
    return results


def can_top_k(ctx: Any) -> bool:
    """Return whether the kernel can compute the top_k of the operand of `ctx`."""
    (aval,) = ctx.avals_in
    if aval.dtype == dtypes.bfloat16 and lib.version >= TELLS_NANS_APART:
        return False
    return _can_call(ctx) and max(aval.shape) <= _MAX_TOP_K_SIZE


def top_k(ctx: Any, operand: Any, dtype: Any, k: int) -> Sequence[Any]:
    """Return the `k` largest elements of an IR value along its last dimension, with indices."""
    shape = ir.RankedTensorType(operand.type).shape
    aval = core.ShapedArray(shape, dtype)
    values = core.ShapedArray((*shape[:-1], k), dtype)
    indices = core.ShapedArray(values.shape, np.dtype(np.int32))
    return _call(ctx, "jaxlib_ext_top_k", [operand], [aval], [values, indices], {})


def _can_call(ctx: Any) -> bool:
    return (
        config.native_kernels.value
        # Exported programs must also run where the kernels are not installed.
        and not ctx.module_context.lowering_parameters.for_export
        and all(_has_kernel(a) for a in ctx.avals_in)
        and native_kernels.extension() is not None
    )


def _has_kernel(aval: core.ShapedArray) -> bool:
    dtype = aval.dtype
    if dtypes.issubdtype(dtype, dtypes.extended) or not core.is_constant_shape(aval.shape):
        return False
    return dtype.itemsize > 0 and not dtype.name.startswith("float4")


def _is_partitioned(ctx) -> bool:
    return getattr(ctx.module_context.axis_context, "num_devices", None) != 1


def _call(ctx, target, operands, avals_in, avals_out, attributes):
    layouts = [[range(a.ndim - 1, -1, -1) for a in avals] for avals in (avals_in, avals_out)]
    extra = (
        batch_attributes(avals_in[0].ndim - 1, avals_in, avals_out)
        if _is_partitioned(ctx)
        else None
    )
    return mlir.custom_call(
        target,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in avals_out],
        operands=operands,
        backend_config={k: ir_attribute(v) for k, v in attributes.items()},
        api_version=4,
        operand_layouts=layouts[0],
        result_layouts=layouts[1],
        extra_attributes=extra,
    ).results
