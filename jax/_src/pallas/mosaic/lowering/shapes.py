"""Rules of Mosaic's lowering: broadcasting, shapes, slices, concatenation, gathers, reinterpreted bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax, slicing
from jax._src.lib.mlir.dialects import arith, vector
from jax._src.lib.mosaic import tpu
from jax._src.pallas.element_types import is_float
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.lowering.kernel import TpuKernel, reshaped, rule


@rule(lax.broadcast_in_dim_p)
def _broadcast_in_dim(
    ctx: RuleContext, x: Any, *_: Any, broadcast_dimensions: Any, **__: Any
) -> Any:
    (aval, *_), (out,) = ctx.avals_in, ctx.avals_out
    if aval.shape == out.shape:
        return x
    aligned = [1] * len(out.shape)
    for d, i in zip(aval.shape, broadcast_dimensions):
        aligned[i] = d
    if not aval.shape:
        return vector.broadcast(ctx.kernel.type_of(out), x)
    # MLIR broadcasts to dimensions in front; only sizes in between are made explicit.
    trailing = tuple(aligned[len(out.shape) - len(aval.shape) :])
    if trailing != tuple(aval.shape) or len(aval.shape) == 1:
        x = reshaped(ctx.kernel, x, aval.shape, aligned, aval.dtype)
        if tuple(aligned) == tuple(out.shape):
            return x
    return vector.broadcast(ctx.kernel.type_of(out), x)


@rule(lax.reshape_p, lax.squeeze_p)
def _reshape(ctx: RuleContext, x: Any, **_: Any) -> Any:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    return reshaped(ctx.kernel, x, aval.shape, out.shape, aval.dtype)


@rule(lax.transpose_p)
def _transpose(ctx: RuleContext, x: Any, *, permutation: Sequence[int]) -> Any:
    if list(permutation) == list(range(len(permutation))):
        return x
    return tpu.transpose(ctx.kernel.type_of(ctx.avals_out[0]), x, permutation)


@rule(lax.concatenate_p)
def _concatenate(ctx: RuleContext, *xs: Any, dimension: int) -> Any:
    return concatenated(ctx.kernel, xs, dimension)


def concatenated(kernel: TpuKernel, xs: Sequence[Any], dimension: int) -> Any:
    """Concatenate arrays along a dimension."""
    return xs[0] if len(xs) == 1 else tpu.concatenate(xs, dimension)


@rule(lax.stack_p)
def _stack(ctx: RuleContext, *xs: Any, axis: int) -> Any:
    (out,), kernel = ctx.avals_out, ctx.kernel
    one = tuple([1 if i == axis else d for i, d in enumerate(out.shape)])
    parts = [reshaped(kernel, x, a.shape, one, out.dtype) for x, a in zip(xs, ctx.avals_in)]
    return concatenated(kernel, parts, axis)


@rule(lax.unstack_p)
def _unstack(ctx: RuleContext, x: Any, *, axis: int, **_: Any) -> list[Any]:
    (aval,), outs = ctx.avals_in, ctx.avals_out
    one = [1 if i == axis else d for i, d in enumerate(aval.shape)]
    parts = []
    for k, out in enumerate(outs):
        start = [k if i == axis else 0 for i in range(len(one))]
        part = sliced(ctx.kernel, x, start, one, aval.dtype)
        parts.append(reshaped(ctx.kernel, part, one, out.shape, aval.dtype))
    return parts


@rule(lax.tile_p)
def _tile(ctx: RuleContext, x: Any, *, reps: Sequence[int]) -> Any:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    extra = len(out.shape) - len(aval.shape)
    x = reshaped(ctx.kernel, x, aval.shape, (*[1] * extra, *aval.shape), aval.dtype)
    for i, n in enumerate(reps):
        x = concatenated(ctx.kernel, [x] * n, i)
    return x


@rule(lax.iota_p)
def _iota(ctx: RuleContext, *_: Any, dimension: int, **__: Any) -> Any:
    (out,), kernel = ctx.avals_out, ctx.kernel
    # Vectors of one dimension, and of numbers that are no integers, are made of others.
    shape = (1, *out.shape) if len(out.shape) == 1 else out.shape
    floating = is_float(out.dtype)
    dtype = np.dtype(np.int32) if floating else out.dtype
    counted = tpu.iota(kernel.vector_type(shape, dtype), [dimension + len(shape) - len(out.shape)])
    if floating:
        counted = arith.sitofp(kernel.vector_type(shape, out.dtype), counted)
    return reshaped(kernel, counted, shape, out.shape, out.dtype)


def sliced(
    kernel: TpuKernel, x: Any, start: Sequence[int], sizes: Sequence[int], dtype: Any
) -> Any:
    """Take a part of an array, from a position known now."""
    ty = kernel.vector_type(sizes, dtype)
    return vector.extract_strided_slice(ty, x, list(start), list(sizes), [1] * len(sizes))


@rule(slicing.slice_p)
def _slice(
    ctx: RuleContext, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Any:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    if strides is not None and any([s != 1 for s in strides]):
        raise NotImplementedError(
            f"Kernels for TPUs have no slices of arrays with strides, here {tuple(strides)} of {aval.str_short()}: read from "
            "the reference with a stride, ref[pl.ds(start, size, stride)]."
        )
    if aval.shape == out.shape:
        return x
    return sliced(ctx.kernel, x, start_indices, out.shape, aval.dtype)


@rule(lax.split_p)
def _split(ctx: RuleContext, x: Any, *, sizes: Sequence[int], axis: int) -> list[Any]:
    start = [0] * len(ctx.avals_in[0].shape)
    parts = []
    for out, n in zip(ctx.avals_out, sizes):
        parts.append(sliced(ctx.kernel, x, start, out.shape, out.dtype))
        start[axis] += n
    return parts


@rule(lax.pad_p)
def _pad(ctx: RuleContext, x: Any, value: Any, *, padding_config: Any) -> Any:
    aval, kernel = ctx.avals_in[0], ctx.kernel
    shape = list(aval.shape)
    for i, (low, high, interior) in enumerate(padding_config):
        if interior:
            raise NotImplementedError(
                f"Kernels for TPUs have no padding between elements, here of {aval.str_short()}: write to a reference with a "
                "stride, ref[pl.ds(start, size, stride)] = x."
            )
        parts = [x]
        if low < 0 or high < 0:
            start = [max(-low, 0) if k == i else 0 for k in range(len(shape))]
            shape[i] -= max(-low, 0) + max(-high, 0)
            parts = [sliced(kernel, x, start, shape, aval.dtype)]
        for amount, at in ((low, 0), (high, len(parts) + (low > 0))):
            if amount > 0:
                edge = [amount if k == i else d for k, d in enumerate(shape)]
                parts.insert(at, vector.broadcast(kernel.vector_type(edge, aval.dtype), value))
        shape[i] += max(low, 0) + max(high, 0)
        x = concatenated(kernel, parts, i)
    return x


# Gathers: along one axis, as `jnp.take_along_axis` does


def _gathered_axis(
    dims: Any, shape: Sequence[int], slice_sizes: Any, indices: Sequence[int]
) -> int | None:
    """The axis along which elements are taken, with an index for each element of the result."""
    axes = tuple(dims.collapsed_slice_dims)
    if len(axes) != 1 or dims.start_index_map != axes or dims.offset_dims:
        return None
    others = tuple([i for i in range(len(shape)) if i != axes[0]])
    batched = dims.operand_batching_dims == others == dims.start_indices_batching_dims
    ones = all([n == 1 for n in slice_sizes])
    return axes[0] if batched and ones and len(indices) == len(shape) + 1 else None


@rule(slicing.gather_p)
def _gather(
    ctx: RuleContext, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any,
    fill_value: Any, **_: Any,
) -> Any:  # fmt: skip
    (aval, index_aval), (out,), kernel = ctx.avals_in, ctx.avals_out, ctx.kernel
    axis = _gathered_axis(dimension_numbers, aval.shape, slice_sizes, index_aval.shape)
    if axis is None or index_aval.dtype != np.int32:
        raise NotImplementedError(
            f"Kernels for TPUs can take elements along one axis only, of {aval.str_short()} with {index_aval.str_short()}: use "
            "jnp.take_along_axis, with an int32 index for each element."
        )
    shape = index_aval.shape[:-1]
    indices = reshaped(kernel, indices, index_aval.shape, shape, index_aval.dtype)
    zero, last = [kernel.splat(n, shape, np.int32) for n in (0, aval.shape[axis] - 1)]
    inside = None
    if mode == slicing.GatherScatterMode.FILL_OR_DROP:
        inside = arith.cmpi(
            arith.CmpIPredicate.ule, indices, last
        )  # negative indices are large without a sign
    if mode != slicing.GatherScatterMode.PROMISE_IN_BOUNDS:
        indices = arith.minsi(arith.maxsi(indices, zero), last)
    taken = tpu.dynamic_gather(x, indices, [axis])
    if inside is None:
        return taken
    return arith.select(inside, taken, kernel.splat(_fill(fill_value, out.dtype), shape, out.dtype))


def _fill(value: Any, dtype: Any) -> Any:
    if value is not None:
        return value
    if is_float(dtype):
        return np.nan
    info = dtypes.iinfo(dtype)
    return info.min if info.min < 0 else info.max


# Reinterpreted bits


@rule(lax.bitcast_convert_type_p)
def _bitcast(ctx: RuleContext, x: Any, *, new_dtype: Any) -> Any:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    return bitcast(ctx, x, aval, out)


def bitcast(ctx: RuleContext, x: Any, aval: Any, out: Any) -> Any:
    """Reinterpret bits; the second last dimension is that which may change.

    Raises:
      NotImplementedError: if another one does.
    """
    kernel = ctx.kernel
    if kernel.element_type(aval.dtype) == kernel.element_type(out.dtype):
        return x
    if not aval.shape:
        return arith.bitcast(kernel.type_of(out), x)
    if len(out.shape) != len(aval.shape):
        raise NotImplementedError(
            f"Kernels for TPUs cannot reinterpret {aval.str_short()} as {out.str_short()}: use pltpu.bitcast, which changes the "
            "second last dimension."
        )
    return tpu.bitcast(kernel.type_of(out), x)
