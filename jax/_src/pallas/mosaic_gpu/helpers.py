"""Loops over grids that threads divide among themselves, and arithmetic of layouts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop, while_loop
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import barrier_arrive, barrier_wait
from jax._src.pallas.mosaic_gpu.core import (
    Barrier,
    ClusterBarrier,
    TryClusterCancelResult,
)
from jax._src.pallas.mosaic_gpu.memory_operations import (
    query_cluster_cancel,
    try_cluster_cancel,
)
from jax._src.pallas.primitives import run_scoped

traceback_util.register_exclusion(__file__)


@dataclasses.dataclass(frozen=True)
class NDLoopInfo:
    """Where a loop over a grid is.

    Attributes:
      index: the position in the grid.
      local_index: the number of the iteration.
      num_local_steps: how many there are; None if that is not known.
    """

    index: tuple[Any, ...]
    local_index: Any
    num_local_steps: Any


def nd_loop(
    grid: Sequence[int], *, collective_axes: Sequence[Hashable] | Hashable,
    tiling: Sequence[int] | None = None, init_carry: Any = None,
) -> Callable[[Callable[..., Any]], Any]:  # fmt: skip
    """Return a decorator that calls a function at once for each position in a grid.

    The threads along some axes of the kernel's mesh take positions in turn, in row-major order.

    Args:
      grid: the sizes of the grid.
      collective_axes: the axes along which threads divide the positions among themselves.
      tiling: sizes of tiles: all positions of a tile come before the next tile.
      init_carry: a tree. The function then takes it besides, as `carry`, and returns the next one.

    Returns:
      A decorator of functions of an `NDLoopInfo`; what takes the function's name is the last tree, or None.

    Raises:
      ValueError: if the tiling does not divide the grid.
    """
    axes = collective_axes if isinstance(collective_axes, (tuple, list)) else (collective_axes,)
    sizes, order = _tiled_grid(tuple(grid), tiling)

    def decorate(body: Callable[..., Any]) -> Any:
        number, count = axis_index(tuple(axes)), axis_size(tuple(axes))
        total = math.prod(grid)
        steps = lax.add(
            np.int32(total // count),
            lax.convert_element_type(lax.lt(number, np.int32(total % count)), np.int32),
        )

        def step(i: Any, carry: Any) -> Any:
            i = lax.convert_element_type(i, np.int32)
            flat = lax.add(lax.mul(i, np.int32(count)), number)
            info = NDLoopInfo(order(_unraveled(flat, sizes)), i, steps)
            if init_carry is None:
                body(info)
                return None
            return body(info, carry=carry)

        return fori_loop(np.int32(0), steps, step, init_carry)

    return decorate


def _unraveled(flat: Any, sizes: Sequence[int]) -> tuple[Any, ...]:
    out: list[Any] = []
    for size in reversed(sizes):
        out.append(lax.rem(flat, np.int32(size)))
        flat = lax.div(flat, np.int32(size))
    return tuple(reversed(out))


def _tiled_grid(
    grid: tuple[int, ...], tiling: Sequence[int] | None
) -> tuple[tuple[int, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    """Return the sizes of the grid in the order of tiles, and what maps a position back."""
    if tiling is None:
        return grid, lambda index: index
    tile = tuple(tiling)
    if len(tile) != len(grid) or any([g % t for g, t in zip(grid, tile)]):
        raise ValueError(f"A tiling {tile} does not divide the grid {grid}.")
    n = len(grid)
    sizes = (*[g // t for g, t in zip(grid, tile)], *tile)
    return sizes, lambda index: tuple(
        [lax.add(lax.mul(index[k], np.int32(tile[k])), index[n + k]) for k in range(n)]
    )


def dynamic_scheduling_loop(
    grid_names: Sequence[Hashable], thread_axis: Hashable | None = None,
    cluster_axes: Sequence[Hashable] = (), init_carry: Any = None,
) -> Callable[[Callable[..., Any]], Any]:  # fmt: skip
    """Return a decorator that calls a function at once for this cluster's position in the grid, and others'.

    Clusters take over the work of others that have not started, until all is done. The grid is as large
    as the work.

    Args:
      grid_names: the axes of the grid.
      thread_axis: the axis of the threads, for kernels with several.
      cluster_axes: all axes of the cluster, for kernels with clusters of several blocks.
      init_carry: a tree. The function then takes it besides, as `carry`, and returns the next one.

    Returns:
      A decorator of functions of an `NDLoopInfo`; what takes the function's name is the last tree, or None.
    """
    names = tuple(grid_names)
    cluster_axes = tuple(cluster_axes)
    threads = 1 if thread_axis is None else axis_size(thread_axis)

    def decorate(body: Callable[..., Any]) -> Any:
        def run(result_ref: Any, answered: Any, done: Any) -> Any:
            def call(index: tuple[Any, ...], i: Any, carry: Any) -> Any:
                info = NDLoopInfo(index, i, None)
                if init_carry is None:
                    body(info)
                    return None
                return body(info, carry=carry)

            def step(state: Any) -> Any:
                i, index, _, carry = state
                slot = lax.rem(i, np.int32(2))
                when_first = lax.ge(i, np.int32(2))

                @when(when_first)
                def _() -> None:
                    barrier_wait(done.at[slot])

                try_cluster_cancel(result_ref.at[slot], answered.at[slot])
                carry = call(index, i, carry)
                barrier_wait(answered.at[slot])
                new, success = query_cluster_cancel(result_ref.at[slot], names)
                barrier_arrive(done.at[slot])
                return lax.add(i, np.int32(1)), new, success, carry

            first = tuple([axis_index(n) for n in names])
            out = while_loop(
                lambda state: state[2], step, (np.int32(0), first, np.bool_(True), init_carry)
            )
            return out[3]

        done: Any = Barrier(num_arrivals=threads, num_barriers=2)
        if cluster_axes:
            done = ClusterBarrier(
                collective_axes=cluster_axes, num_arrivals=threads, num_barriers=2
            )
        answered = Barrier(num_arrivals=threads, num_barriers=2)
        scoped = (TryClusterCancelResult(2), answered, done)
        collective = () if thread_axis is None else (thread_axis,)
        return run_scoped(run, *scoped, collective_axes=collective)

    return decorate


def planar_snake(
    lin_idx: Any, shape: tuple[Any, Any], minor_dim: int, tile_width: int
) -> tuple[Any, Any]:
    """Return a position in a plane for a number, such that close numbers are at close positions.

    The minor dimension is divided into tiles. In every second tile, the other dimension is run through
    backwards.

    Args:
      lin_idx: the number, an int32 scalar.
      shape: the sizes of the plane.
      minor_dim: which of the two dimensions is divided.
      tile_width: the size of a tile; the last one may be smaller.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> [tuple(map(int, plgpu.planar_snake(jnp.int32(i), (2, 2), 0, 1))) for i in range(4)]
    [(0, 0), (0, 1), (1, 1), (1, 0)]
    """
    minor, major = shape[minor_dim], shape[1 - minor_dim]
    i = lax.convert_element_type(lin_idx, np.int32)
    major, minor = (lax.convert_element_type(x, np.int32) for x in (major, minor))
    width = np.int32(tile_width)
    tile_size = lax.mul(width, major)
    tile = lax.div(i, tile_size)
    in_tile = lax.rem(i, tile_size)
    start = lax.mul(tile, width)
    own_width = lax.min(width, lax.sub(minor, start))  # of the last tile less
    along_minor = lax.add(start, lax.rem(in_tile, own_width))
    along_major = lax.div(in_tile, own_width)
    backwards = lax.sub(lax.sub(major, np.int32(1)), along_major)
    odd = lax.eq(lax.rem(tile, np.int32(2)), np.int32(1))
    along_major = lax.select(odd, backwards, along_major)
    return (along_minor, along_major) if minor_dim == 0 else (along_major, along_minor)


def find_swizzle(minor_dim_bits: int, what: str = "") -> int:
    """Return the largest number of bytes by which memory with rows of some size can be swizzled.

    Args:
      minor_dim_bits: the number of bits in a row.
      what: what it is of, for the error.

    Raises:
      ValueError: if a row is not a multiple of 16 bytes.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.find_swizzle(64 * 16)
    128
    """
    for swizzle in (128, 64, 32, 16):
        if minor_dim_bits % (swizzle * 8) == 0:
            return swizzle
    of = f" for {what}" if what else ""
    raise ValueError(
        f"No valid out swizzle{of}: minor dimension has {minor_dim_bits} bits, which is not a multiple of 128 (16 bytes)"
    )


def format_tcgen05_sparse_metadata(meta: Any, operand_dtype: Any) -> Any:
    """Return which elements of a sparse matrix are there, in the order in which the tensor core reads it.

    Args:
      meta: uint2 array of shape (m, k // 4, 2): the positions of the two elements of each four.
      operand_dtype: the dtype of the matrix: of 8 or 16 bits.

    Returns:
      An array of shape (m // 128, k // 128, 128, 64).

    Raises:
      ValueError: if shape or dtype are others.
      NotImplementedError: if there are no sparse products of the dtype.
    """
    if meta.dtype != dtypes.uint2:
        raise ValueError(f"Expected metadata dtype to be uint2, got: {meta.dtype}")
    if meta.ndim != 3:
        raise ValueError(
            f"Expected metadata to be 3-dimensional (M, K // 4, 2), but it is {meta.ndim}D"
        )
    if meta.shape[2] != 2:
        raise ValueError(
            f"Expected the trailing dimension of the metadata to be 2, got: {meta.shape[2]}"
        )
    m, groups, _ = meta.shape
    if m % 128 or groups % 32:
        raise ValueError(
            f"The metadata must have a multiple of 128 rows and of 32 groups, got shape {tuple(meta.shape)}."
        )
    bits = dtypes.itemsize_bits(operand_dtype)
    tiles = lax.reshape(meta, (m // 128, 128, groups // 32, 32, 2))
    if bits == 8:
        return lax.reshape(lax.transpose(tiles, (0, 2, 1, 3, 4)), (m // 128, groups // 32, 128, 64))
    if bits != 16:
        raise NotImplementedError(
            f"Sparse metadata format not implemented for operand_dtype={operand_dtype}"
        )
    # Of a row r = (r6..r4, r3, r2..r0) and a group g = (g4 g3, g2, g1 g0).
    split = lax.reshape(tiles, (m // 128, 8, 2, 8, groups // 32, 4, 2, 4, 2))
    ordered = lax.transpose(split, (0, 4, 1, 6, 3, 5, 2, 7, 8))
    return lax.reshape(ordered, (m // 128, groups // 32, 128, 64))
