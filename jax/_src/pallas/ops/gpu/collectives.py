"""Collectives over NVLink, whose switch stores on all devices at once, and reduces what all have while it is loaded (NVLink SHARP)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, Literal

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import ShapedArray
from jax._src.custom_derivatives.jvp import custom_jvp
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.pallas.mosaic_gpu.core import SemaphoreType
from jax._src.pallas.mosaic_gpu.helpers import nd_loop
from jax._src.pallas.mosaic_gpu.kernel import kernel as mosaic_gpu_kernel
from jax._src.pallas.mosaic_gpu.layouts import WARPGROUP, Layout
from jax._src.pallas.mosaic_gpu.memory_operations import (
    layout_cast,
    load,
    multimem_load_reduce,
    multimem_store,
    semaphore_signal_multicast,
    semaphore_wait,
)
from jax._src.pallas.ops.differentiable import linear
from jax._src.pallas.ops.gpu.warpgroups import int32, part, persistent_blocks
from jax._src.transforms.linear_call import linear_call

traceback_util.register_exclusion(__file__)
_BLOCKS = "blocks"
_VECTOR_BYTES = 16
_WORD = 4  # bytes: the switch moves no fewer
_VECTORS = 8  # of a lane, in a tile


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """How a matrix is divided among blocks and lanes.

    Attributes:
      shape: the shape of a tile.
      counts: how many tiles there are along rows and columns.
      vec_size: how many elements lanes have beside each other.
    """

    shape: tuple[int, int]
    counts: tuple[int, int]
    vec_size: int

    @classmethod
    def of(
        cls, rows: int, columns: int, dtype: Any, tile_size: int | None, vec_size: int | None, name: str
    ) -> _Tiles:  # fmt: skip
        """Return tiles of a matrix.

        Args:
          rows, columns, dtype: the matrix.
          tile_size, vec_size: the numbers of elements of a tile and of a lane's neighbors; None for the best ones.
          name: the operation, for errors.

        Raises:
          ValueError: if there are none.
        """
        what = f"{rows * columns} elements of {dtypes.dtype_name(dtype)}"
        vec_size = _vector(rows, columns, dtype, vec_size, name, what)
        least = WARPGROUP * vec_size
        sizes = (
            [tile_size] if tile_size is not None else [least * k for k in range(_VECTORS, 0, -1)]
        )
        for size in sizes:
            width = math.gcd(columns, size)
            height = size // width
            if size % least == 0 and size > 0 and rows % height == 0:
                return cls((height, width), (rows // height, columns // width), vec_size)
        raise ValueError(
            f"{name} cannot divide {what}, {columns} of them beside each other, into tiles of {tile_size}: tile_size must be a multiple of {least}, as "
            f"each of {WARPGROUP} lanes moves {vec_size} at a time, and divide them."
        )

    def part(self, i: Any, j: Any, start: Any = 0) -> tuple[Any, Any]:
        """Return the index of a tile in a matrix whose columns begin somewhere."""
        height, width = self.shape
        return part(i, height), ds(lax.add(int32(start), lax.mul(j, np.int32(width))), width)

    @property
    def layout(self) -> Any:
        return Layout.WG_STRIDED(self.shape, vec_size=self.vec_size)


def _vector(rows: int, columns: int, dtype: Any, vec_size: int | None, name: str, what: str) -> int:
    """Return how many elements beside each other a lane moves, which are 4, 8 or 16 bytes."""
    size = max(8, dtypes.itemsize_bits(dtype)) // 8
    allowed = [n // size for n in (_VECTOR_BYTES, 2 * _WORD, _WORD) if n >= size]
    if vec_size is not None and vec_size not in allowed:
        raise ValueError(
            f"{name} of {dtypes.dtype_name(dtype)} has vec_size {', '.join(map(str, allowed[::-1]))}, for 4, 8 or 16 bytes that lanes move at a time, "
            f"got {vec_size}."
        )
    for n in allowed if vec_size is None else [vec_size]:
        if columns and columns % n == 0 and rows * columns % (n * WARPGROUP) == 0:
            return n
    least = WARPGROUP * (vec_size or allowed[-1])
    raise ValueError(
        f"{name} moves multiples of {least} elements of each device, {vec_size or allowed[-1]} or more of them beside each other, got {what}, {columns} "
        "of them beside each other: pad the array."
    )


def _of_dimension(x: Any, dimension: int, name: str) -> int:
    if not -x.ndim <= dimension < x.ndim:
        raise ValueError(f"{name} {dimension} is no dimension of an array of shape {x.shape}.")
    return dimension % x.ndim


def _axes(axis_name: Hashable) -> tuple[Hashable, ...]:
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


@dataclasses.dataclass(frozen=True)
class _Options:
    """How a collective runs: along which axes of the mesh, and what `all_gather` takes besides."""

    axes: tuple[Hashable, ...]
    num_blocks: int | None = None
    tile_size: int | None = None
    vec_size: int | None = None
    interpret: Any = None

    def tiles(self, rows: int, columns: int, dtype: Any, name: str) -> _Tiles:
        """Return tiles of a matrix: see `_Tiles.of`."""
        return _Tiles.of(rows, columns, dtype, self.tile_size, self.vec_size, name)


def _run(
    transfer: Callable[[Any, Any, Any, tuple[Any, Any]], None], x: Any, out: ShapedArray, tiles: _Tiles, options: _Options
) -> Any:  # fmt: skip
    """Run a function for each tile, and wait until all devices have done so.

    Args:
      transfer: function of references to argument and result, of the device's number, and of a tile's position.
      x: the argument.
      out: the type of the result.
      tiles: the tiles.
      options: the options.
    """
    num_blocks, axes = options.num_blocks, options.axes
    if num_blocks is not None and num_blocks < 1:
        raise ValueError(f"num_blocks must be positive, got {num_blocks}.")
    blocks = persistent_blocks(math.prod(tiles.counts)) if num_blocks is None else num_blocks

    def body(x_ref: Any, out_ref: Any, done: Any) -> None:
        number = axis_index(axes)

        @nd_loop(tiles.counts, collective_axes=_BLOCKS)
        def _(info: Any) -> None:
            transfer(x_ref, out_ref, number, info.index)

        # What this block has stored, and loaded, others wait for at the same block's semaphore.
        semaphore_signal_multicast(done, collective_axes=axes)
        semaphore_wait(done, axis_size(axes))

    run = mosaic_gpu_kernel(
        body, out_type=out, scratch_types=[SemaphoreType.REGULAR], grid=(blocks,), grid_names=(_BLOCKS,),
        interpret=options.interpret,
    )  # fmt: skip
    return run(x)


def all_gather(
    x: Any, *, axis_name: Hashable, gather_dimension: int = 0, num_blocks: int | None = None,
    tile_size: int | None = None, vec_size: int | None = None, interpret: Any = None,
) -> Any:  # fmt: skip
    """Return the arrays of all devices joined along a dimension, each of which its device stores on all at once.

    Args:
      x: this device's array, in `jax.shard_map`.
      axis_name: the axes of the mesh, all of them.
      gather_dimension: the dimension along which arrays are joined.
      num_blocks: how many blocks of threads copy; None for as many as the GPU runs at a time.
      tile_size: how many elements a block copies at a time; None for the most that divides the array, up to 128 bytes of
        each of 128 lanes.
      vec_size: how many of them beside each other a lane copies at a time: 4, 8 or 16 bytes; None for the most.
      interpret: `plgpu.InterpretParams()` to run it without GPUs.

    Returns:
      An array that is `axis_size` times as long along the dimension; that of `jax.lax.all_gather(..., tiled=True)`.
      The derivative is a `reduce_scatter`.

    Raises:
      ValueError: if there is no such dimension, or tiles do not divide the array.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.all_gather_mgpu import all_gather
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> run = lambda x: all_gather(x, axis_name="x", interpret=plgpu.InterpretParams())
    >>> P = jax.sharding.PartitionSpec
    >>> jax.shard_map(run, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False)(jnp.ones((8, 128))).shape
    (8, 128)
    """
    axis = _of_dimension(x, gather_dimension, "gather_dimension")
    options = _Options(_axes(axis_name), num_blocks, tile_size, vec_size, interpret)
    return _all_gather(x, axis, options)


def _gather(x: Any, axis: int, options: _Options) -> Any:
    count, axes = axis_size(options.axes), options.axes
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    tiles = options.tiles(rows, columns, x.dtype, "all_gather")
    shape = (*x.shape[:axis], count * x.shape[axis], *x.shape[axis + 1 :])

    def transfer(x_ref: Any, out_ref: Any, number: Any, at: tuple[Any, Any]) -> None:
        source = x_ref.reshape(rows, columns)
        value = load(source, tiles.part(*at), layout=tiles.layout, optimized=False)
        start = lax.mul(number, np.int32(columns))
        target = out_ref.reshape(rows, count * columns).at[tiles.part(*at, start)]
        multimem_store(value, target, axes)

    return _run(transfer, x, ShapedArray(shape, x.dtype), tiles, options)


def reduce_scatter(
    x: Any, *, axis_name: Hashable, scatter_dimension: int | None = 0,
    reduction: Literal["add", "min", "max", "and", "or", "xor"] = "add", num_blocks: int | None = None,
    tile_size: int | None = None, vec_size: int | None = None, interpret: Any = None,
) -> Any:  # fmt: skip
    """Return this device's part of the reduction of the arrays of all devices, or the whole.

    Each device loads its part, which the switch reduces. For the whole it stores that part on all devices, if parts can be
    divided into tiles, and loads all of it otherwise.

    Args:
      x: this device's array, in `jax.shard_map`.
      axis_name: the axes of the mesh, all of them.
      scatter_dimension: the dimension along which the result is divided among devices; None for all of it on each.
      reduction: `"add"`; for other dtypes than float32 also `"min"` and `"max"`; and for integers `"and"`, `"or"`
        and `"xor"`. Sums of numbers of 16 bits are rounded once.
      num_blocks: how many blocks of threads reduce; None for as many as the GPU runs at a time.
      tile_size: how many elements a block reduces at a time; None for the most that divides the result, up to 128 bytes
        of each of 128 lanes.
      vec_size: how many of them beside each other a lane reduces at a time: 4, 8 or 16 bytes; None for the most.
      interpret: `plgpu.InterpretParams()` to run it without GPUs.

    Returns:
      An array that is `axis_size` times shorter along the dimension, or as `x`; that of
      `jax.lax.psum_scatter(..., tiled=True)`, or of `jax.lax.psum`. The derivative of a sum is an `all_gather`, or a sum; that of
      the least or largest number is shared by those that are as large.

    Raises:
      ValueError: if there is no such dimension or reduction, or tiles do not divide the array.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.reduce_scatter_mgpu import reduce_scatter
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> run = lambda x: reduce_scatter(x, axis_name="x", interpret=plgpu.InterpretParams())
    >>> P = jax.sharding.PartitionSpec
    >>> jax.shard_map(run, mesh=mesh, in_specs=P(), out_specs=P("x"), check_vma=False)(jnp.ones((8, 128))).shape
    (8, 128)
    """
    options = _Options(_axes(axis_name), num_blocks, tile_size, vec_size, interpret)
    if scatter_dimension is None:
        return _all_reduce(x, options, reduction)
    axis = _of_dimension(x, scatter_dimension, "scatter_dimension")
    count = axis_size(options.axes)
    if x.shape[axis] % count:
        raise ValueError(
            f"reduce_scatter divides dimension {axis} of an array of shape {x.shape} among {count} devices, which do not divide it."
        )
    return _scatter(x, axis, options, reduction)


def _scatter(x: Any, axis: int, options: _Options, reduction: str = "add") -> Any:
    """Return this device's part of a reduction, with derivatives."""
    scatter = functools.partial(_reduce_part, axis=axis, options=options, reduction=reduction)
    gather = lambda g: _all_gather(g, axis, options)
    if reduction == "add":
        return linear(scatter, (gather,), x)
    add = lambda x: _scatter(x, axis, options)
    return _of_chosen(scatter, add, gather, gather, reduction)(x)


def _all_gather(x: Any, axis: int, options: _Options) -> Any:
    """Return the arrays of all devices joined along a dimension, with derivatives."""
    gather = functools.partial(_gather, axis=axis, options=options)

    def scatter(g: Any) -> Any:
        if dtypes.itemsize_bits(g.dtype) >= 16:
            return _scatter(g, axis, options)
        # The switch adds no numbers of 8 bits.
        wide = lax.convert_element_type(g, np.dtype(np.float32))
        part = _scatter(wide, axis, dataclasses.replace(options, tile_size=None, vec_size=None))
        return lax.convert_element_type(part, g.dtype)

    return linear(gather, (scatter,), x)


def _of_chosen(
    reduce: Callable[[Any], Any], add: Callable[[Any], Any], transpose: Callable[[Any], Any],
    spread: Callable[[Any], Any], reduction: str,
) -> Callable[[Any], Any]:  # fmt: skip
    """Return a reduction that chooses numbers, with derivatives: those of the mean of what is chosen.

    Args:
      reduce: the reduction.
      add, transpose: the sum over the same devices, and its transpose, with derivatives.
      spread: function that returns results where all arguments are.
      reduction: its name.
    """
    if reduction not in ("min", "max"):
        return reduce
    f = custom_jvp(reduce)

    @f.defjvp
    def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = f(x)
        if t.dtype == dtypes.float0:
            return out, np.zeros(out.shape, dtypes.float0)
        chosen = lax.convert_element_type(lax.eq(x, spread(lax.stop_gradient(out))), x.dtype)
        total = linear_call(lambda _, t: add(t), lambda _, g: transpose(g), (), lax.mul(chosen, t))
        return out, lax.div(total, add(chosen))

    return f


def _reduce_part(x: Any, axis: int, options: _Options, reduction: str) -> Any:
    count = axis_size(options.axes)
    shape = (*x.shape[:axis], x.shape[axis] // count, *x.shape[axis + 1 :])
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    tiles = options.tiles(rows, columns, x.dtype, "reduce_scatter")

    def transfer(x_ref: Any, out_ref: Any, number: Any, at: tuple[Any, Any]) -> None:
        start = lax.mul(number, np.int32(columns))
        source = x_ref.reshape(rows, count * columns).at[tiles.part(*at, start)]
        target = out_ref.reshape(rows, columns).at[tiles.part(*at)]
        target[...] = _reduced(source, options.axes, reduction, tiles)

    return _run(transfer, x, ShapedArray(shape, x.dtype), tiles, options)


def _reduced(source: Any, axes: tuple[Hashable, ...], reduction: Any, tiles: _Tiles) -> Any:
    value = multimem_load_reduce(source, collective_axes=axes, reduction_op=reduction)
    return layout_cast(value, tiles.layout)


def _all_reduce(x: Any, options: _Options, reduction: str) -> Any:
    """Return a reduction on all devices, with derivatives. Of a sum the cotangent is, as of `jax.lax.psum`, their sum."""
    reduce = functools.partial(_reduce_all, options=options, reduction=reduction)
    add = lambda x: _all_reduce(x, options, "add")
    if reduction == "add":
        return linear(reduce, (add,), x)
    return _of_chosen(reduce, add, add, lambda out: out, reduction)(x)


def _reduce_all(x: Any, options: _Options, reduction: str) -> Any:
    size, count = math.prod(x.shape), axis_size(options.axes)
    try:
        if size % count:
            raise ValueError(f"{count} devices do not divide {size} elements.")
        tiles = options.tiles(1, size // count, x.dtype, "reduce_scatter")
        is_shared = True
    except ValueError:  # each device reduces all
        tiles = options.tiles(1, size, x.dtype, "reduce_scatter")
        is_shared = False

    def transfer(x_ref: Any, out_ref: Any, number: Any, at: tuple[Any, Any]) -> None:
        start = lax.mul(number, np.int32(size // count)) if is_shared else 0
        index = tiles.part(*at, start)
        value = _reduced(x_ref.reshape(1, size).at[index], options.axes, reduction, tiles)
        target = out_ref.reshape(1, size).at[index]
        if is_shared:
            multimem_store(value, target, options.axes)
        else:
            target[...] = value

    return _run(transfer, x, ShapedArray(x.shape, x.dtype), tiles, options)
