"""Exchanges of elements between the lanes of a warpgroup, through shared memory and by shuffles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm, nvvm, vector
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.layouts import (
    WARPGROUP,
    FragmentedLayout,
    TiledLayout,
    WGSplatFragLayout,
)
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    layout_of,
    register_shape,
    splat,
    tiled_dims,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, unraveled
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, element_type
from jax._src.pallas.mosaic_gpu.lowering.views import Dim, View, load, store, to_stored, whole
from jax._src.pallas.mosaic_gpu.transforms import nbytes


def scratch(kernel: GpuKernel, shape: tuple[int, ...], dtype: Any) -> View:
    """Return shared memory of the warpgroup that the next one who asks is given too."""
    pointer = kernel.scratch_pointer(nbytes(shape, dtype))
    return whole(pointer, shape, dtype, MemorySpace.SMEM)


def fill(kernel: GpuKernel, view: View, scalar: Any) -> None:
    """Write a scalar to all elements of a view, one after the other to a lane."""
    total = math.prod(view.shape)
    stored = to_stored(scalar, view.dtype)
    for first in range(0, total, WARPGROUP):
        at: Any = arith.addi(kernel.in_warpgroup, integer(first))
        if first + WARPGROUP > total:
            at = arith.minui(at, integer(total - 1))
        offset = view.element_offset(unraveled(Index(0, at), view.shape))
        llvm.StoreOp(stored, view.address(offset))


def through_memory(
    kernel: GpuKernel, x: Fragment, change: Callable[[View], View], layout: FragmentedLayout | None
) -> Fragment:
    """Return an array of the elements of another.

    Args:
      kernel: the kernel.
      x: the other array.
      change: function from a view of it to one of the new array.
      layout: the layout of that; None for any.
    """
    view = scratch(kernel, x.shape, x.dtype)
    kernel.warpgroup_barrier()
    store(kernel, view, x)
    kernel.warpgroup_barrier()
    return load(kernel, change(view), layout)


def in_layout(kernel: GpuKernel, x: Fragment, layout: FragmentedLayout | None) -> Fragment:
    """Return an array in a layout; None for any."""
    if layout is None or x.is_splat or x.layout == layout:
        return x if layout is None else x.with_layout(layout)
    if isinstance(layout, WGSplatFragLayout):
        return x
    return through_memory(kernel, x, lambda v: v, layout)


# Broadcasts


def broadcasted(
    kernel: GpuKernel, x: Fragment, shape: tuple[int, ...], kept: Sequence[int], layout: FragmentedLayout | None
) -> Fragment:  # fmt: skip
    """Return an array with new axes, and axes of size one repeated.

    Args:
      kernel: the kernel.
      x: the array.
      shape: the shape of the result.
      kept: the axes of the result that are those of the array.
      layout: the layout of the result; None for any.
    """
    if x.is_splat:
        return splat(x.scalar, shape, x.dtype)
    layout = layout or layout_of(shape, x.dtype)
    new = tuple([d for d in range(len(shape)) if d not in kept])
    same_sizes = tuple([shape[d] for d in kept]) == x.shape
    if isinstance(layout, TiledLayout) and same_sizes and x.layout == layout.reduce(new):
        return _repeated(x, shape, new, layout)

    def change(view: View) -> View:
        dims = [Dim(n, Index(), ((n, 0),)) for n in shape]
        for d, dim in zip(kept, view.dims):
            if dim.size == shape[d]:
                dims[d] = dim
        return view.replace(dims=tuple(dims))

    return through_memory(kernel, x, change, layout)


def _repeated(
    x: Fragment, shape: tuple[int, ...], new: Sequence[int], layout: TiledLayout
) -> Fragment:
    """Return an array with new axes, along which each lane has the same elements."""
    dims = tiled_dims(layout, shape)
    counts, n = register_shape(layout, shape)
    own = [1 if d.origin in new else c for d, c in zip(dims, counts)]
    registers = x.registers.reshape(own)
    if dims[layout.vector_dim].origin in new and n > 1:
        kind = ir.VectorType.get([n], element_type(x.dtype))
        wide = np.empty(registers.shape, dtype=object)
        for at in np.ndindex(wide.shape):
            wide[at] = vector.broadcast(kind, elements(registers[at])[0])
        registers = wide
    return Fragment(layout, shape, x.dtype, np.broadcast_to(registers, counts))


# Shuffles


def from_lane(x: Any, offset: int) -> Any:
    """Return the scalar of the lane whose number differs in some bits."""
    kind = x.type
    bits = ir.IntegerType(kind).width if isinstance(kind, ir.IntegerType) else kind.width
    integers = ir.IntegerType.get_signless(bits)
    value = x if kind == integers else arith.bitcast(integers, x)
    i32 = ir.IntegerType.get_signless(32)
    if bits < 32:
        out = arith.trunci(integers, _shuffled(arith.extui(i32, value), offset))
    elif bits == 32:
        out = _shuffled(value, offset)
    else:
        high = arith.trunci(i32, arith.shrui(value, integer(32, integers)))
        low = _shuffled(arith.trunci(i32, value), offset)
        high = arith.extui(integers, _shuffled(high, offset))
        out = arith.ori(arith.shli(high, integer(32, integers)), arith.extui(integers, low))
    return out if kind == integers else arith.bitcast(kind, out)


def _shuffled(x: Any, offset: int) -> Any:
    kind = nvvm.ShflKind.bfly
    return nvvm.shfl_sync(integer(-1), x, integer(offset), integer(31), kind, results=[x.type])
