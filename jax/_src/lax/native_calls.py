"""Calls of the CPU kernels of `jaxlib-ext`, if that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.constants import ir_attribute
from jax._src.lax.batch_partitioning import batch_attributes
from jax._src.lib import native_kernels
from jax._src.lib.mlir.dialects import hlo

# The types that kernels for numbers take.
_NUMBERS = frozenset(
    np.dtype(t)
    for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")  # codes with sizes
)


def can_call(ctx: Any, target: str) -> bool:
    """Return whether `target` can be called with the operands of `ctx`."""
    return (
        config.native_kernels.value
        # Exported programs must also run where the kernels are not installed.
        and not ctx.module_context.lowering_parameters.for_export
        and all(_has_kernel(a) for a in ctx.avals_in)
        and native_kernels.has(target)
    )


def can_call_whole(ctx: Any, target: str) -> bool:
    """Return whether `target`, which the compiler cannot partition, can be called."""
    return not is_partitioned(ctx) and can_call(ctx, target)


def is_number(dtype: Any) -> bool:
    """Return whether kernels for numbers take this dtype: integers, float32 and float64."""
    return dtype in _NUMBERS


def is_partitioned(ctx: Any) -> bool:
    """Return whether the program runs on several devices."""
    return getattr(ctx.module_context.axis_context, "num_devices", None) != 1


def _has_kernel(aval: core.ShapedArray) -> bool:
    dtype = aval.dtype
    if dtypes.issubdtype(dtype, dtypes.extended) or not core.is_constant_shape(aval.shape):
        return False
    return dtype.itemsize > 0 and not dtype.name.startswith("float4")


def broadcast_scalar(value: Any) -> Any | None:
    """Return the scalar that an IR value repeats, as far as that is known from its operation."""
    owner = value.owner
    if getattr(owner, "name", None) != "stablehlo.broadcast_in_dim":
        return None
    (operand,) = owner.operands
    return operand if operand.type.rank == 0 else None


def call(
    ctx: Any,
    target: str,
    operands: Sequence[Any],
    avals_in: Sequence[core.ShapedArray],
    avals_out: Sequence[core.ShapedArray],
    attributes: dict[str, Any],
    *,
    batch_dims: int | None = None,
    **params: Any,
) -> Sequence[Any]:
    """Call a kernel with IR values; it can be partitioned along its batch dimensions.

    Args:
      batch_dims: how many leading dimensions are a batch; by default all but the first operand's last.
      params: as for `mlir.custom_call`.
    """
    if batch_dims is None:
        batch_dims = avals_in[0].ndim - 1
    layouts = [[range(a.ndim - 1, -1, -1) for a in avals] for avals in (avals_in, avals_out)]
    extra = batch_attributes(batch_dims, avals_in, avals_out) if is_partitioned(ctx) else None
    return mlir.custom_call(
        target,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in avals_out],
        operands=operands,
        backend_config={k: ir_attribute(v) for k, v in attributes.items()},
        api_version=4,
        operand_layouts=layouts[0],
        result_layouts=layouts[1],
        extra_attributes=extra,
        **params,
    ).results


def lowering_of_float32(target: str, otherwise: Any, min_size: int) -> Any:
    """Return a rule that calls a kernel of one operand and no attributes for many numbers of float32.

    Args:
      target: the kernel.
      otherwise: the rule for other dtypes, for several devices, and where there is no kernel.
      min_size: the number of elements from which on it is called. Fewer are better computed together
        with what is around.
    """

    def lower(ctx, x):
        (aval,) = ctx.avals_in
        if aval.dtype == np.float32 and can_call_whole(ctx, target) and aval.size >= min_size:
            return call(ctx, target, [x], ctx.avals_in, ctx.avals_out, {})
        return otherwise(ctx, x)

    return lower


def call_along(
    ctx: Any,
    target: str,
    operands: Sequence[Any],
    avals: Sequence[core.ShapedArray],
    dimension: int,
    attributes: dict[str, Any],
) -> Sequence[Any]:
    """Call a kernel that works along a dimension; its results are of the operands' types."""
    last = avals[0].ndim - 1
    swap = None
    if dimension != last and is_partitioned(ctx):
        # The compiler can partition custom calls along leading dimensions only.
        swap = list(range(last + 1))
        swap[dimension], swap[last] = last, dimension
        avals = [a.update(shape=tuple(a.shape[i] for i in swap)) for a in avals]
        operands = [transpose(x, swap) for x in operands]
        dimension = last
    attributes = dict(attributes, dimension=np.int64(dimension))
    results = call(ctx, target, operands, avals, avals, attributes)
    if swap is not None:
        results = [transpose(x, swap) for x in results]
    return results


def transpose(x: Any, order: Sequence[int]) -> Any:
    """Return an IR value with its dimensions in another order."""
    return hlo.transpose(x, mlir.dense_int_array(order))
