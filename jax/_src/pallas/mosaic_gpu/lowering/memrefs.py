"""References as values of MLIR's type memref, for code that is not the back end's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, builtin, llvm, memref
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import element_type, pointer_type
from jax._src.pallas.mosaic_gpu.lowering.views import Dim, View, row_major
from jax._src.pallas.mosaic_gpu.transforms import SwizzleTransform, TilingTransform

_SHARED = "#gpu.address_space<workgroup>"


def to_memref(view: View, transforms: Sequence[Any]) -> Any:
    """Return a memref of what a view has, in the order of the memory.

    Args:
      view: the view.
      transforms: how its memory is arranged: tiled dimensions are two each, and swizzled pieces where they are.

    Raises:
      ValueError: if it is arranged otherwise.
      NotImplementedError: if it has been reshaped.
    """
    swizzle = next((t.swizzle for t in transforms if isinstance(t, SwizzleTransform)), None)
    tiling = next((t.tiling for t in transforms if isinstance(t, TilingTransform)), ())
    if view.swizzle != swizzle or not _is_tiled(view, tiling):
        raise ValueError(
            f"A reference of shape {view.shape} in memory with other transforms is given to a function of inline_mgpu with arg_types of "
            f"plgpu.RefType({tuple(transforms)}): take the transforms of its plgpu.SMEM(...)."
        )
    outer, inner = [], []
    start = Index()
    for d, tile in zip(view.dims, [*[None] * (len(view.dims) - len(tiling)), *tiling]):
        if tile is None:
            (size, stride), *others = d.factors
            if others:
                raise NotImplementedError(
                    "inline_mgpu has no references that have been reshaped: give the whole one."
                )
            outer.append((d.size, stride * d.step))
        elif d.step != 1 or d.start.divisor % tile or d.size % tile:
            raise ValueError(f"inline_mgpu takes whole tiles of {tuple(tiling)}, not parts.")
        else:
            outer.append((d.size // tile, d.factors[0][1]))
            inner.append((tile, d.factors[1][1]))
        start += d.offset(Index())
    for d in view.dropped:
        start += d.offset(Index())
    pointer = view.replace(swizzle=None).address(start)
    return _memref(pointer, [*outer, *inner], view.dtype, view.space)


def _is_tiled(view: View, tiling: Sequence[int]) -> bool:
    n = len(tiling)
    tiles = [d.factors[1:] for d in view.dims]
    head, tail = tiles[: len(tiles) - n], tiles[len(tiles) - n :]
    return not any(head) and [tuple([m for m, _ in f]) for f in tail] == [(t,) for t in tiling]


def _memref(pointer: Any, dims: Sequence[tuple[int, int]], dtype: Any, space: MemorySpace) -> Any:
    """Return a memref of sizes and strides that begins at a pointer."""
    i64, n = ir.IntegerType.get_signless(64), len(dims)
    arrays = f", array<{n} x i64>, array<{n} x i64>" if n else ""
    kind = ir.Type.parse(
        f"!llvm.struct<({pointer.type}, {pointer.type}, i64{arrays})>".replace("!llvm.ptr", "ptr")
    )
    out = llvm.mlir_undef(kind)
    fields = [([0], pointer), ([1], pointer), ([2], integer(0, i64))]
    for k, (size, stride) in enumerate(dims):
        fields += [([3, k], integer(size, i64)), ([4, k], integer(stride, i64))]
    for position, value in fields:
        out = llvm.insertvalue(out, value, position)
    sizes, strides = [s for s, _ in dims], [s for _, s in dims]
    layout = None
    if tuple(strides) != row_major(sizes):
        layout = ir.StridedLayoutAttr.get(0, strides)
    where = ir.Attribute.parse(_SHARED) if space is MemorySpace.SMEM else None
    made = ir.MemRefType.get(sizes, element_type(dtype), layout=layout, memory_space=where)
    return builtin.unrealized_conversion_cast([made], [out])


def from_memref(ref: Any, dtype: Any, tiled: int = 0, swizzle: int | None = None) -> View:
    """Return a view of what a memref has.

    Args:
      ref: the memref.
      dtype: that of its elements.
      tiled: how many of the dimensions of the array are two of the memref each, the last ones.
      swizzle: how many bytes rows have whose pieces are permuted; None if they are not.
    """
    kind = ir.MemRefType(ref.type)
    strides, offset = kind.get_strides_and_offset()
    space = MemorySpace.GMEM if kind.memory_space is None else MemorySpace.SMEM
    i64 = ir.IntegerType.get_signless(64)
    address = arith.index_cast(i64, memref.extract_aligned_pointer_as_index(ref))
    pointer = llvm.inttoptr(pointer_type(3 if space is MemorySpace.SMEM else 0), address)
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        offset = arith.index_cast(i64, memref.extract_strided_metadata(ref)[1])
        pointer = pointer_at(pointer, offset, kind.element_type)
    elif offset:
        pointer = pointer_at(pointer, integer(offset, i64), kind.element_type)
    factors = list(zip(kind.shape, strides))
    n = len(factors) - 2 * tiled
    parts = [[f] for f in factors[:n]]
    parts += [[a, b] for a, b in zip(factors[n : n + tiled], factors[n + tiled :])]
    dims = tuple([Dim(math.prod([size for size, _ in p]), Index(), tuple(p)) for p in parts])
    large = sum([(size - 1) * stride for size, stride in factors]) >= 2**28
    return View(pointer, dims, np.dtype(dtype), space, swizzle=swizzle, is_large=large)
