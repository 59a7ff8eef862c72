"""Arrays in the registers of a warpgroup: which elements a lane has is said by their layout."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, vector
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS
from jax._src.pallas.mosaic_gpu.layouts import (
    WARPGROUP,
    FragmentedLayout,
    TiledLayout,
    WGSplatFragLayout,
    WGStridedFragLayout,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, unraveled
from jax._src.pallas.mosaic_gpu.lowering.kernel import WARP, GpuKernel, element_type, is_first
from jax._src.pallas.mosaic_gpu.tilings import Replicated, Tiling

_VECTOR_BYTES = 16
_MOST_REPLICATED = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Fragment:
    """The part of an array that a lane has.

    Attributes:
      layout: which elements that are.
      shape, dtype: those of the array.
      registers: vectors of MLIR, in an array whose shape is that of the layout's registers; for the layout of
        equal elements, one scalar.
    """

    layout: FragmentedLayout
    shape: tuple[int, ...]
    dtype: Any
    registers: Any

    @property
    def is_splat(self) -> bool:
        return isinstance(self.layout, WGSplatFragLayout)

    @property
    def scalar(self) -> Any:
        """The value of all elements."""
        assert self.is_splat
        return self.registers.flat[0]

    def with_registers(self, registers: Any, dtype: Any = None) -> Fragment:
        return Fragment(self.layout, self.shape, self.dtype if dtype is None else dtype, registers)

    def with_dtype(self, operation: Callable[[Any], Any], dtype: Any) -> Fragment:
        """Return the array of another dtype whose registers are made by an operation."""
        registers = np.empty(self.registers.shape, dtype=object)
        for at in np.ndindex(registers.shape):
            registers[at] = operation(self.registers[at])
        return self.with_registers(registers, np.dtype(dtype))

    def with_layout(self, layout: FragmentedLayout) -> Fragment:
        """Return the array in a layout: its own, or any if all elements are equal."""
        if self.layout == layout or isinstance(layout, WGSplatFragLayout) and self.is_splat:
            return self
        if not self.is_splat:
            raise ValueError(f"An array in the layout {self.layout} has not the layout {layout}.")
        counts, size = register_shape(layout, self.shape)
        kind = ir.VectorType.get([size], element_type(self.dtype))
        filled = vector.broadcast(kind, self.scalar)
        registers = np.empty(counts, dtype=object)
        registers.fill(filled)
        return Fragment(layout, self.shape, self.dtype, registers)


def splat(scalar: Any, shape: Sequence[int], dtype: Any) -> Fragment:
    """Return an array whose elements are all a scalar."""
    shape = tuple(shape)
    registers = np.empty((), dtype=object)
    registers[()] = scalar
    return Fragment(WGSplatFragLayout(shape), shape, np.dtype(dtype), registers)


def default_layout(shape: Sequence[int], dtype: Any) -> FragmentedLayout | None:
    """Return the layout of arrays for which nothing wants another; None if there is none."""
    shape = tuple(shape)
    if not shape:
        return WGSplatFragLayout(())
    size = math.prod(shape)
    bits = max(8, dtypes.itemsize_bits(dtype))
    vector_size = math.gcd(_VECTOR_BYTES * 8 // bits, shape[-1])
    while vector_size > 1 and size % (WARPGROUP * vector_size):
        vector_size //= 2
    if size and size % (WARPGROUP * vector_size) == 0:
        return WGStridedFragLayout(shape, vector_size)
    if size <= _MOST_REPLICATED:
        # Each lane has all elements.
        tile = (1,) * len(shape)
        return TiledLayout(Tiling((tile,)), (Replicated(4),), (Replicated(32),), -1)
    return None


def layout_of(shape: Sequence[int], dtype: Any) -> FragmentedLayout:
    """Return the layout of arrays for which nothing wants another.

    Raises:
      NotImplementedError: if there is none.
    """
    layout = default_layout(shape, dtype)
    if layout is None:
        raise NotImplementedError(
            f"An array of shape {tuple(shape)} cannot be dealt out to the {WARPGROUP} lanes of a warpgroup: give it a multiple of as "
            f"many elements, or at most {_MOST_REPLICATED}."
        )
    return layout


# Which element is where


@dataclasses.dataclass(frozen=True, slots=True)
class TiledDim:
    """A dimension of a tiled array: part of a dimension of the array."""

    size: int
    origin: int
    stride: int


def tiled_dims(layout: TiledLayout, shape: Sequence[int]) -> list[TiledDim]:
    """Return the dimensions of an array that is tiled as a layout says."""
    layout.tiling.tile_shape(tuple(shape))  # checks that it fits
    dims = [TiledDim(n, d, 1) for d, n in enumerate(shape)]
    for tile in layout.tiling.tiles:
        head, tail = dims[: len(dims) - len(tile)], dims[len(dims) - len(tile) :]
        outer = [TiledDim(d.size // t, d.origin, d.stride * t) for d, t in zip(tail, tile)]
        inner = [TiledDim(t, d.origin, d.stride) for d, t in zip(tail, tile)]
        dims = [*head, *outer, *inner]
    return dims


def _distributed(layout: TiledLayout) -> set[int]:
    both = (*layout.warp_dims, *layout.lane_dims)
    return {d for d in both if not isinstance(d, Replicated)}


def register_shape(layout: FragmentedLayout, shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the shape of the array of registers, and the number of elements of each."""
    if isinstance(layout, WGSplatFragLayout):
        return (), 1
    if isinstance(layout, WGStridedFragLayout):
        return (math.prod(shape) // (WARPGROUP * layout.vec_size),), layout.vec_size
    dims = tiled_dims(layout, shape)
    gone = {d + len(dims) for d in (*_distributed(layout), layout.vector_dim)}
    counts = tuple([1 if i in gone else d.size for i, d in enumerate(dims)])
    return counts, dims[layout.vector_dim].size


def vector_axis(layout: FragmentedLayout, shape: Sequence[int]) -> int:
    """Return the dimension of the array along which the elements of a register are beside each other."""
    if isinstance(layout, TiledLayout):
        return tiled_dims(layout, shape)[layout.vector_dim].origin
    return len(shape) - 1


def slice_of_registers(
    layout: FragmentedLayout | None, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None
) -> tuple[slice, ...] | None:  # fmt: skip
    """Return which registers a part of an array is, in the same layout; None if it is not one of whole tiles."""
    if not isinstance(layout, TiledLayout) or any([s != 1 for s in strides or ()]):
        return None
    first = layout.tiling.tiles[0]
    tile = (1,) * (len(starts) - len(first)) + tuple(first)
    if any([a % t or b % t for a, b, t in zip(starts, limits, tile)]):
        return None
    return tuple([slice(a // t, b // t) for a, b, t in zip(starts, limits, tile)])


def positions(
    kernel: GpuKernel, layout: FragmentedLayout, shape: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], list[Index]]]:
    """Return for each register its position among them, and that of its first element in the array."""
    counts, size = register_shape(layout, shape)
    if isinstance(layout, WGSplatFragLayout):
        raise ValueError("The elements of an array of equal elements have no positions.")
    if isinstance(layout, WGStridedFragLayout):
        first = Index(0, kernel.in_warpgroup) * size
        for (k,) in np.ndindex(counts):
            yield (k,), unraveled(first + k * WARPGROUP * size, shape)
        return
    dims = tiled_dims(layout, shape)
    base = [Index() for _ in shape]
    for groups, value, total in (
        (layout.warp_dims, kernel.warp, NUM_WARPS),
        (layout.lane_dims, kernel.lane, WARP),
    ):
        for d, at in zip(groups, _digits(value, [_size(dims, g) for g in groups], total)):
            if not isinstance(d, Replicated):
                dim = dims[d]
                base[dim.origin] += at * dim.stride
    for at in np.ndindex(counts):
        index = list(base)
        for i, dim in zip(at, dims):
            index[dim.origin] += i * dim.stride
        yield at, index


def _size(dims: Sequence[TiledDim], d: int | Replicated) -> int:
    return d.times if isinstance(d, Replicated) else dims[d].size


def _digits(value: Any, sizes: Sequence[int], total: int) -> list[Index]:
    """Return the digits of a number below a total, whose bases are sizes, the last one the lowest."""
    out, rest, left = [], value, total
    for size in reversed(sizes):
        left //= size
        if size == 1:
            out.append(Index())
        elif left == 1:
            out.append(Index(0, rest))
        else:
            out.append(Index(0, arith.remui(rest, integer(size))))
            rest = arith.divui(rest, integer(size))
    return out[::-1]


def first_of_copies(kernel: GpuKernel, layout: FragmentedLayout) -> Any:
    """Return whether this lane is the first of those that have the same elements; None if all differ."""
    if isinstance(layout, WGSplatFragLayout):
        return is_first(kernel.in_thread)
    if isinstance(layout, WGStridedFragLayout):
        return None
    out = None
    for groups, value in ((layout.warp_dims, kernel.warp), (layout.lane_dims, kernel.lane)):
        if any(isinstance(d, Replicated) for d in groups):
            if len(groups) != 1:
                raise NotImplementedError(f"Layouts that are partly replicated: {layout}")
            test = arith.cmpi(arith.CmpIPredicate.eq, value, integer(0))
            out = test if out is None else arith.andi(out, test)
    return out


# Operations on elements


def mapped(operation: Callable[..., Any], args: Sequence[Fragment], dtype: Any) -> Fragment:
    """Apply an operation on values of MLIR to the elements of arrays of one shape and layout.

    Args:
      operation: function of as many scalars, or vectors, as there are arrays.
      args: the arrays; those of equal elements can be any.
      dtype: the dtype of the result.
    """
    shape = args[0].shape
    if all(x.is_splat for x in args):
        return splat(operation(*[x.scalar for x in args]), shape, dtype)
    layout = next(x.layout for x in args if not x.is_splat)
    parts = [x.with_layout(layout) for x in args]
    registers = np.empty(parts[0].registers.shape, dtype=object)
    for at in np.ndindex(registers.shape):
        registers[at] = operation(*[p.registers[at] for p in parts])
    return Fragment(layout, shape, np.dtype(dtype), registers)


def like_operand(scalar_type: Any, x: Any) -> Any:
    """Return the type of a vector of as many elements as a value has, or that of a scalar."""
    if isinstance(x.type, ir.VectorType):
        return ir.VectorType.get(ir.VectorType(x.type).shape, scalar_type)
    return scalar_type


def full_like(x: Any, constant: Any) -> Any:
    """Return a scalar as a value of the shape of another."""
    if isinstance(x.type, ir.VectorType):
        return vector.broadcast(
            ir.VectorType.get(ir.VectorType(x.type).shape, constant.type), constant
        )
    return constant


def elements(register: Any) -> list[Any]:
    """Return the elements of a vector."""
    (n,) = ir.VectorType(register.type).shape
    return [vector.extract(register, [], [i]) for i in range(n)]


def from_elements(values: Sequence[Any]) -> Any:
    """Return a vector of elements."""
    return vector.from_elements(ir.VectorType.get([len(values)], values[0].type), list(values))


def flat_registers(x: Fragment) -> list[Any]:
    """Return the values that the array is, for operations that take values only."""
    return list(x.registers.flat)


def from_registers(like: Fragment, values: Iterator[Any]) -> Fragment:
    """Return an array of the type and layout of another with other registers, the next of an iterator."""
    registers = np.empty(like.registers.shape, dtype=object)
    flat = list(itertools.islice(values, registers.size))
    for at, v in zip(np.ndindex(registers.shape), flat):
        registers[at] = v
    return like.with_registers(registers)
