"""Layouts: which thread of a warpgroup, or which lane of tensor memory, has which elements of an array."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any

from jax._src import dtypes
from jax._src.pallas.mosaic_gpu.tilings import Replicated, Tiling
from jax._src.util import HashableDict

WARPGROUP = 128

# Layouts of values in registers


@dataclasses.dataclass(frozen=True)
class WGSplatFragLayout:
    """Every thread has the one value that all elements are."""

    shape: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class WGStridedFragLayout:
    """The elements in row-major order are dealt out in vectors, one to each thread in turn."""

    shape: tuple[int, ...]
    vec_size: int

    def __post_init__(self) -> None:
        if math.prod(self.shape) % (WARPGROUP * self.vec_size):
            raise ValueError(
                f"An array of shape {self.shape} cannot be dealt out to {WARPGROUP} threads in vectors of "
                f"{self.vec_size} elements."
            )


@dataclasses.dataclass(frozen=True)
class TiledLayout:
    """The tiles of an array are the registers of a warpgroup.

    Attributes:
      tiling: how the array is tiled; the first tile is that of the whole warpgroup.
      warp_dims, lane_dims: the dimensions, counted from the end, whose positions are the number of the
        warp, and of the lane in it, or `Replicated`.
      vector_dim: the dimension whose elements are one register, or adjacent ones.
    """

    tiling: Tiling
    warp_dims: tuple[int | Replicated, ...]
    lane_dims: tuple[int | Replicated, ...]
    vector_dim: int

    def reduce(self, axes: Sequence[int]) -> TiledLayout:
        """Return the layout of the array that has been reduced over axes."""
        out = self
        for axis in sorted(set(axes), reverse=True):
            out = out._without(axis)
        return out

    def _without(self, axis: int) -> TiledLayout:
        if not 0 <= axis < self.tiling.rank:
            raise ValueError(f"Dimension {axis} is out of range for {self.tiling}")
        shape = self.tiling.tile_shape(self.tiling.tiles[0])
        removed = self.tiling.tile_dimension(axis)
        n = len(shape)
        kept = [i for i in range(n) if not removed[i]]
        tiling = self.tiling.remove_dimension(axis)
        position = {i - n: k - len(kept) for k, i in enumerate(kept)}
        vector = position.get(self.vector_dim)
        if vector is None:
            # A vector has one element: a last dimension of its own.
            tiling = Tiling((*tiling.tiles, (1,)))
            position = {i: p - 1 for i, p in position.items()}
            vector = -1
        tiling, canonical = tiling.canonical_and_positions()
        position = {i: canonical[p] for i, p in position.items() if p in canonical}
        vector = canonical[vector]

        def moved(d: int | Replicated) -> int | Replicated:
            return d if isinstance(d, Replicated) else position.get(d, Replicated(shape[d]))

        return TiledLayout(
            tiling,
            tuple(map(moved, self.warp_dims)),
            tuple(map(moved, self.lane_dims)),
            vector,
        )


FragmentedLayout = WGSplatFragLayout | WGStridedFragLayout | TiledLayout


def _tiled(tiles: Any, warp_dims: Any, lane_dims: Any, vector_dim: int = -1) -> TiledLayout:
    return TiledLayout(Tiling(tiles), warp_dims, lane_dims, vector_dim)


_WARPS, _LANES = Replicated(4), Replicated(32)
_FIXED = {
    "WGMMA": _tiled(((64, 8), (16, 8), (8, 8), (2,)), (-7,), (-3, -2)),
    "WGMMA_8BIT": _tiled(((64, 16), (16, 16), (8, 16), (4,)), (-7,), (-3, -2)),
    "WGMMA_UPCAST_2X": _tiled(((64, 16), (16, 16), (8, 16), (8,), (4,)), (-8,), (-4, -2, -3)),
    "WGMMA_UPCAST_4X": _tiled(((64, 32), (16, 32), (8, 32), (8,)), (-7,), (-3, -2)),
    "WGMMA_TRANSPOSED": _tiled(
        ((64, 8), (16, 8), (8, 8), (2, 2), (2, 1)), (-10,), (-6, -3, -5), -2
    ),
    "TCGEN05": _tiled(((128, 8), (32, 8), (8, 8), (2,)), (-7,), (-3, -2)),
    "TCGEN05_TRANSPOSED": _tiled(
        ((128, 8), (32, 8), (8, 8), (2, 2), (2, 1)), (-10,), (-6, -3, -5), -2
    ),
    "TMA_INDICES": _tiled(((16,), (4,)), (-2,), (_LANES,)),
    "TMA_INDICES_4": _tiled(((4,),), (_WARPS,), (_LANES,)),
}


def _tmem_native(vector_length: int = 2) -> TiledLayout:
    return _tiled(((128, vector_length), (32, vector_length)), (-4,), (-2,))


def _m64_collective(columns: int) -> TiledLayout:
    tiles = ((64, columns), (32, columns // 2), (8, 8), (2,))
    return _tiled(tiles, (-6, -7), (-3, -2))


def _m64_collective_native(columns: int) -> TiledLayout:
    return _tiled(((64, columns), (32, columns // 2), (1,)), (-4, -5), (-3,))


def _smem_gmem_copy(shape: Sequence[int], dtype: Any, swizzle: int) -> TiledLayout:
    """Return a layout of which each warp copies whole rows of swizzled tiles, in 16 bytes a lane."""
    shape = tuple(shape)
    bits = dtypes.itemsize_bits(dtype)
    vector, columns = 128 // bits, swizzle * 8 // bits
    if len(shape) < 2:
        raise ValueError(
            f"Expected tiling to be at most rank of shape. Got tiling: {(8, columns)} (rank: 2) and shape {shape} "
            f"(rank: {len(shape)})."
        )
    rows, row_size = shape[-2:]
    if rows % 8 or row_size % columns:
        raise ValueError("Non-divisible tiling:", shape, (8, columns))
    # The four warps take tiles of eight rows below each other, then beside each other.
    down = math.gcd(rows // 8, 4)
    across = 4 // down
    if row_size % (columns * across):
        raise ValueError(
            f"Four warps cannot divide an array of shape {shape} into tiles of shape {(8, columns)}."
        )
    lanes = columns // vector  # that read a row of a tile
    tile_rows = min(8, 32 // lanes)
    beside = 32 // (lanes * tile_rows)
    if row_size % (columns * across * beside):
        raise ValueError(
            f"The lanes of a warp cannot divide an array of shape {shape} into rows of {columns} elements."
        )
    width = columns * beside
    tiles = [(8 * down, width * across), (8, width), (tile_rows, columns), (vector,)]
    lane_dims: tuple[int, ...] = (-3, -2)
    if beside > 1:
        lane_dims = (-4, -3, -2)
    if tiles[2] == tiles[1]:
        del tiles[2]
    warp = -5 if len(tiles) == 3 else -7
    warp_dims = (warp,) if across == 1 else (warp, warp + 1)
    return _tiled(tuple(tiles), warp_dims, lane_dims)


_MAKERS = {
    "WG_SPLAT": WGSplatFragLayout,
    "WG_STRIDED": WGStridedFragLayout,
    "TILED": TiledLayout,
    "TCGEN05_TMEM_NATIVE": _tmem_native,
    "TCGEN05_M64_COLLECTIVE": _m64_collective,
    "TCGEN05_M64_COLLECTIVE_NATIVE": _m64_collective_native,
    "SMEM_GMEM_COPY": _smem_gmem_copy,
}


class SomeLayout:
    """What can be given as a layout of an array in registers: `to_mgpu` returns the layout itself."""

    def reduce(self, axes: int | Sequence[int]) -> ReducedLayout:
        """Return the layout of the array that has been reduced over axes."""
        return ReducedLayout(self, (axes,) if isinstance(axes, int) else tuple(axes))

    def to_mgpu(self) -> FragmentedLayout:
        raise NotImplementedError


class Layout(SomeLayout, enum.Enum):
    """Layouts of arrays in the registers of a warpgroup. Calling one gives it its parameters.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.Layout.WG_STRIDED((256,), vec_size=2).to_mgpu()
    WGStridedFragLayout(shape=(256,), vec_size=2)
    """

    WGMMA = enum.auto()
    WGMMA_8BIT = enum.auto()
    WGMMA_UPCAST_2X = enum.auto()
    WGMMA_UPCAST_4X = enum.auto()
    WGMMA_TRANSPOSED = enum.auto()
    WG_SPLAT = enum.auto()
    WG_STRIDED = enum.auto()
    TILED = enum.auto()
    TCGEN05 = enum.auto()
    TCGEN05_TRANSPOSED = enum.auto()
    TCGEN05_M64_COLLECTIVE = enum.auto()
    TCGEN05_TMEM_NATIVE = enum.auto()
    TCGEN05_M64_COLLECTIVE_NATIVE = enum.auto()
    SMEM_GMEM_COPY = enum.auto()
    TMA_INDICES = enum.auto()
    TMA_INDICES_4 = enum.auto()

    def __str__(self) -> str:
        return f"Layout.{self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> ParameterizedLayout:
        return ParameterizedLayout(self, args, kwargs)

    def to_mgpu(self, *args: Any, **kwargs: Any) -> FragmentedLayout:
        """Return the layout with these parameters.

        Raises:
          ValueError: if it has none.
        """
        if self.name in _FIXED:
            if args or kwargs:
                raise ValueError(f"Can't instantiate {self} with arguments.")
            return _FIXED[self.name]
        return _MAKERS[self.name](*args, **kwargs)


@dataclasses.dataclass(frozen=True)
class ParameterizedLayout(SomeLayout):
    """A layout with its parameters."""

    layout_cls: Any
    args: tuple[Any, ...]
    kwargs: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(map(_hashable, self.args)))
        object.__setattr__(self, "kwargs", HashableDict(self.kwargs))

    def to_mgpu(self) -> Any:
        return self.layout_cls.to_mgpu(*self.args, **self.kwargs.val)


def _hashable(x: Any) -> Any:
    return tuple(x) if isinstance(x, list) else x


@dataclasses.dataclass(frozen=True)
class ReducedLayout(SomeLayout):
    """The layout of an array that has been reduced over axes."""

    layout: Any
    axes: tuple[int, ...]

    def to_mgpu(self) -> FragmentedLayout:
        layout = self.layout.to_mgpu()
        if not isinstance(layout, TiledLayout):
            raise ValueError("Only TiledLayout supports reductions.")
        return layout.reduce(self.axes)


# Layouts of tensor memory


@dataclasses.dataclass(frozen=True)
class TMEMTiledLayout:
    """How the elements of an array are arranged in the lanes and columns of tensor memory.

    Attributes: those of `TiledLayout`.
    """

    tiling: Tiling
    warp_dims: tuple[int | Replicated, ...]
    lane_dims: tuple[int | Replicated, ...]
    vector_dim: int

    def columns(self, shape: Sequence[int]) -> int:
        """Return how many columns of 32 bits an array takes.

        Raises:
          ValueError: if it has another number of rows.
        """
        rows = self.tiling.tiles[0][0]
        if shape[0] % rows:
            raise ValueError(f"An array of shape {tuple(shape)} is not divided into {rows} rows.")
        together = self.tiling.tile_shape(self.tiling.tiles[0])[self.vector_dim]
        copies = math.prod([d.times for d in self.warp_dims if isinstance(d, Replicated)])
        return -(-math.prod(shape) * copies // (128 * together))


def _tmem(tiles: Any, warp_dims: Any, lane_dims: Any, vector_dim: int) -> TMEMTiledLayout:
    return TMEMTiledLayout(Tiling(tiles), warp_dims, lane_dims, vector_dim)


def default_tmem_layout(
    shape: Sequence[int], dtype: Any, packed: bool | None, collective: bool | None
) -> TMEMTiledLayout:
    """Return the layout of an array in tensor memory for which none is given."""
    if len(shape) != 2:
        raise ValueError(f"TMEM can only represent 2D shapes, got {tuple(shape)}")
    bits = dtypes.itemsize_bits(dtype)
    if bits != 32 and packed is None:
        raise ValueError(
            "dtypes narrower than 32-bit require either the packed argument or an explicit TMEM layout"
        )
    packing = 32 // bits if packed else 1
    rows, columns = shape
    if rows == 128:
        return _tmem(((128, packing), (32, packing)), (-4,), (-2,), -1)
    if rows != 64:
        raise ValueError(
            f"Unsupported shape: {tuple(shape)}. TMEM references must have either 128 or 64 rows, but got {rows}."
        )
    if collective:
        return _tmem(((64, columns), (32, columns // 2), (packing,)), (-4, -5), (-3,), -1)
    return _tmem(((64, columns), (16, columns // 2), (packing,)), (-5,), (-4, -3), -1)


class TMEMLayout(enum.Enum):
    """Layouts of arrays in tensor memory. Calling one gives it its parameters."""

    SCALES_LAYOUT = enum.auto()
    SPARSE_METADATA_LAYOUT = enum.auto()
    M64_COLLECTIVE_LAYOUT = enum.auto()
    SCALES_M64_COLLECTIVE_LAYOUT = enum.auto()

    def __call__(self, *args: Any, **kwargs: Any) -> ParameterizedLayout:
        return ParameterizedLayout(self, args, kwargs)

    def to_mgpu(self, *args: Any, **kwargs: Any) -> TMEMTiledLayout:
        """Return the layout with these parameters."""
        if self is TMEMLayout.M64_COLLECTIVE_LAYOUT:
            return _tmem_m64_collective(*args, **kwargs)
        if args or kwargs:
            raise ValueError(f"Can't instantiate {self} with arguments.")
        return _FIXED_TMEM[self.name]


def _tmem_m64_collective(columns: int) -> TMEMTiledLayout:
    return _tmem(((64, columns), (32, columns // 2), (1,)), (-4, -5), (-3,), -1)


_FIXED_TMEM = {
    "SCALES_LAYOUT": _tmem(((128, 4), (32, 1)), (_WARPS,), (-2,), -3),
    "SPARSE_METADATA_LAYOUT": _tmem(((128, 16), (32, 1), (16, 1), (8, 1)), (-8,), (-2, -4, -6), -7),
    "SCALES_M64_COLLECTIVE_LAYOUT": _tmem(
        ((256, 4), (128, 4), (32, 4)), (Replicated(2), -6), (-2,), -1
    ),
}


class TMEMArrangement(enum.Enum):
    """Where a warp finds its part of an array in the 32 lanes of tensor memory that it can reach."""

    LANES = enum.auto()  # 128 rows: 32 of them, all columns
    HALVES = enum.auto()  # 64 rows: 16 of them, the left columns below the right ones
    BLOCKS = enum.auto()  # 64 rows: 32 of them, the left or the right columns


def tmem_arrangement(layout: TMEMTiledLayout) -> tuple[TMEMArrangement, int] | None:
    """Return how a layout arranges arrays, and how many elements share 32 bits; None if it does otherwise."""
    tiles = layout.tiling.tiles
    (rows, columns), packing = tiles[0], tiles[-1][-1]
    known = {
        TMEMArrangement.LANES: _tmem(((128, packing), (32, packing)), (-4,), (-2,), -1),
        TMEMArrangement.HALVES: _tmem(((rows, columns), (16, columns // 2), (packing,)), (-5,), (-4, -3), -1),
        TMEMArrangement.BLOCKS: _tmem(((rows, columns), (32, columns // 2), (packing,)), (-4, -5), (-3,), -1),
    }  # fmt: skip
    return next(((a, packing) for a, x in known.items() if x == layout), None)


def tmem_register_layouts(
    layout: TMEMTiledLayout, columns: int, dtype: Any
) -> tuple[TiledLayout, ...]:
    """Return the layouts in which registers are copied from and to an array in tensor memory, the best one first.

    Args:
      layout: that of the array in tensor memory.
      columns: the number of its columns.
      dtype: the type of its elements.
    """
    bits = dtypes.itemsize_bits(dtype)
    arrangement = tmem_arrangement(layout)
    if arrangement is None or bits < 16 and arrangement[1] * bits != 32:
        return ()
    kind, out = arrangement[0], []
    beside = columns if kind is TMEMArrangement.LANES else columns // 2
    if bits >= 16 and beside % 8 == 0:
        out.append(
            {
                TMEMArrangement.LANES: _FIXED["TCGEN05"],
                TMEMArrangement.HALVES: _FIXED["WGMMA"],
                TMEMArrangement.BLOCKS: _m64_collective(columns),
            }[kind]
        )
    if kind is TMEMArrangement.LANES:
        vectors = [n for n in (2, 4, 8, 16, 1) if n * bits % 32 == 0 and columns % n == 0]
        out += [_tmem_native(n) for n in vectors]
    elif kind is TMEMArrangement.BLOCKS and bits == 32:
        out.append(_m64_collective_native(columns))
    return tuple(out)
