"""Rules of broadcasts, positions, reshapes, transpositions, and parts of arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.indexing import Slice
from jax._src.lax import lax, slicing
from jax._src.lib.mlir.dialects import arith
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.layouts import FragmentedLayout, WGStridedFragLayout
from jax._src.pallas.mosaic_gpu.lowering.elementwise import convert
from jax._src.pallas.mosaic_gpu.lowering.exchange import broadcasted, fill, scratch, through_memory
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    from_elements,
    layout_of,
    positions,
    register_shape,
    slice_of_registers,
    splat,
    vector_axis,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, rule
from jax._src.pallas.mosaic_gpu.lowering.views import View, index_of, load, store, transformed
from jax._src.state.indexing import NDIndexer
from jax._src.state.types import ReshapeTransform

_int32 = np.dtype(np.int32)


@rule(lax.broadcast_in_dim_p)
def _broadcast(
    ctx: RuleContext, x: Fragment, *_: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], **__: Any
) -> Any:  # fmt: skip
    kernel, shape, kept = ctx.kernel, tuple(shape), tuple(broadcast_dimensions)
    if x.is_splat:
        return splat(x.scalar, shape, x.dtype)
    if shape == x.shape:
        return x
    layout = kernel.layouts.get(ctx.eqn.outvars[0])
    return broadcasted(kernel, x, shape, kept, layout)


@rule(slicing.slice_p)
def _slice(
    ctx: RuleContext, x: Fragment, *, start_indices: Sequence[int], limit_indices: Any, strides: Any
) -> Any:  # fmt: skip
    (out,) = ctx.avals_out
    if x.is_splat:
        return splat(x.scalar, out.shape, x.dtype)
    registers = slice_of_registers(x.layout, start_indices, limit_indices, strides)
    if registers is not None:
        return Fragment(x.layout, out.shape, x.dtype, x.registers[registers])
    parts = [
        Slice(start, n, step)
        for start, n, step in zip(start_indices, out.shape, strides or [1] * len(out.shape))
    ]
    change = lambda view: transformed(view, [NDIndexer(parts, x.shape)])
    return through_memory(ctx.kernel, x, change, ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(lax.transpose_p)
def _transpose(ctx: RuleContext, x: Fragment, *, permutation: Sequence[int]) -> Any:
    (out,) = ctx.avals_out
    if x.is_splat:
        return splat(x.scalar, out.shape, x.dtype)
    change = lambda v: v.replace(dims=tuple([v.dims[p] for p in permutation]))
    return through_memory(ctx.kernel, x, change, ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(lax.rev_p)
def _rev(ctx: RuleContext, x: Fragment, *, dimensions: Sequence[int]) -> Any:
    if x.is_splat:
        return x

    def change(view: View) -> View:
        dims = list(view.dims)
        for d in dimensions:
            dims[d] = dataclasses.replace(dims[d], start=Index(dims[d].size - 1), step=-1)
        return view.replace(dims=tuple(dims))

    return through_memory(ctx.kernel, x, change, ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(slicing.dynamic_slice_p)
def _dynamic_slice(
    ctx: RuleContext, x: Fragment, *starts: Fragment, slice_sizes: Sequence[int]
) -> Any:
    (out,) = ctx.avals_out
    if x.is_splat:
        return splat(x.scalar, out.shape, x.dtype)
    change = lambda view: _part_at(view, starts, slice_sizes)
    return through_memory(ctx.kernel, x, change, ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(slicing.dynamic_update_slice_p)
def _dynamic_update_slice(
    ctx: RuleContext, x: Fragment, update: Fragment, *starts: Fragment
) -> Any:
    kernel = ctx.kernel
    whole = scratch(kernel, x.shape, x.dtype)
    kernel.warpgroup_barrier()
    store(kernel, whole, x)
    kernel.warpgroup_barrier()
    store(kernel, _part_at(whole, starts, update.shape), update)
    kernel.warpgroup_barrier()
    return load(kernel, whole, kernel.layouts.get(ctx.eqn.outvars[0]))


def _part_at(view: View, starts: Sequence[Fragment], sizes: Sequence[int]) -> View:
    """Return a part that begins where a kernel says, or as near to it as the array has one."""
    for axis, (start, n) in enumerate(zip(starts, sizes)):
        last = view.shape[axis] - n
        at = index_of(start)
        if at.dynamic is None:
            at = Index(min(max(at.static, 0), last))
        else:
            at = Index(0, arith.minsi(arith.maxsi(at.value(), integer(0)), integer(last)))
        view = view.part(axis, at, n)
    return view


@rule(lax.iota_p)
def _iota(
    ctx: RuleContext, *_: Any, dtype: Any, shape: Sequence[int], dimension: int, **__: Any
) -> Any:
    shape = tuple(shape)
    layout = ctx.kernel.layouts.get(ctx.eqn.outvars[0]) or layout_of(shape, dtype)
    return iota(ctx.kernel, layout, shape, dimension, dtype)


def iota(
    kernel: GpuKernel, layout: FragmentedLayout, shape: tuple[int, ...], dimension: int, dtype: Any
) -> Fragment:
    """Return an array of the positions along a dimension."""
    counts, n = register_shape(layout, shape)
    step = 1 if vector_axis(layout, shape) == dimension else 0
    registers = np.empty(counts, dtype=object)
    for at, index in positions(kernel, layout, shape):
        values = [(index[dimension] + k * step).value(kernel.i32) for k in range(n)]
        registers[at] = convert(from_elements(values), _int32, dtype)
    return Fragment(layout, shape, np.dtype(dtype), registers)


@rule(lax.reshape_p, lax.squeeze_p)
def _reshape(ctx: RuleContext, x: Fragment, *_: Any, **__: Any) -> Any:
    (out,) = ctx.avals_out
    if x.is_splat:
        return splat(x.scalar, out.shape, x.dtype)
    if isinstance(x.layout, WGStridedFragLayout):
        # The elements in row-major order stay where they are.
        layout = WGStridedFragLayout(tuple(out.shape), x.layout.vec_size)
        return Fragment(layout, tuple(out.shape), x.dtype, x.registers)
    if tuple(out.shape) == x.shape:
        return x
    wanted = ctx.kernel.layouts.get(ctx.eqn.outvars[0])
    change = lambda view: transformed(view, [ReshapeTransform(tuple(out.shape), x.shape)])
    return through_memory(ctx.kernel, x, change, wanted)


@rule(lax.concatenate_p)
def _concatenate(ctx: RuleContext, *xs: Fragment, dimension: int) -> Any:
    (out,) = ctx.avals_out
    kernel = ctx.kernel
    whole = scratch(kernel, tuple(out.shape), out.dtype)
    kernel.warpgroup_barrier()
    start = 0
    for x in xs:
        store(kernel, _part(whole, dimension, start, x.shape[dimension]), x)
        start += x.shape[dimension]
    kernel.warpgroup_barrier()
    return load(kernel, whole, kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(lax.pad_p)
def _pad(
    ctx: RuleContext, x: Fragment, value: Fragment, *, padding_config: Sequence[tuple[int, int, int]]
) -> Any:  # fmt: skip
    (out,) = ctx.avals_out
    kernel = ctx.kernel
    sizes, own, kept = [], [], []
    for n, size, (low, high, interior) in zip(x.shape, out.shape, padding_config):
        spread = n + max(n - 1, 0) * interior
        sizes.append(max(low, 0) + spread + max(high, 0))
        own.append(Slice(max(low, 0), n, interior + 1))
        kept.append(Slice(max(-low, 0), size))
    whole = scratch(kernel, tuple(sizes), out.dtype)
    kernel.warpgroup_barrier()
    fill(kernel, whole, value.scalar)
    kernel.warpgroup_barrier()
    store(kernel, transformed(whole, [NDIndexer(own, whole.shape)]), x)
    kernel.warpgroup_barrier()
    view = transformed(whole, [NDIndexer(kept, whole.shape)])
    return load(kernel, view, kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(lax.split_p)
def _split(ctx: RuleContext, x: Fragment, *, sizes: Sequence[int], axis: int) -> Any:
    outs, start = [], 0
    for v, n in zip(ctx.eqn.outvars, sizes, strict=True):
        if x.is_splat:
            outs.append(splat(x.scalar, v.aval.shape, x.dtype))
        else:
            change = functools.partial(_part, axis=axis, start=start, size=n)
            outs.append(through_memory(ctx.kernel, x, change, ctx.kernel.layouts.get(v)))
        start += n
    return outs


def _part(view: View, axis: int, start: int, size: int) -> View:
    """Return a part of a view along an axis."""
    parts = [Slice(0, n) for n in view.shape]
    parts[axis] = Slice(start, size)
    return transformed(view, [NDIndexer(parts, view.shape)])
