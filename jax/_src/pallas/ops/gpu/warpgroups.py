"""What operations for GPUs by Mosaic GPU share: swizzled memory, positions of tiles, and how many blocks run at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.array_impl import default_device
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import (
    commit_smem_to_gmem_group,
    copy_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.helpers import find_swizzle
from jax._src.pallas.mosaic_gpu.transforms import (
    SwizzleTransform,
    TilingTransform,
)
from jax._src.state.types import Transform

_MULTIPROCESSORS = 132  # of an H100


def swizzled(shape: Sequence[int], dtype: Any) -> Any:
    """Return the type of a reference in shared memory that copies and the tensor core are fastest with."""
    return MemorySpace.SMEM(shape, dtype, transforms=swizzling(shape[-1], dtype))


def swizzling(columns: int, dtype: Any) -> tuple[Transform, ...]:
    """Return how rows of some size are tiled and swizzled."""
    bits = dtypes.itemsize_bits(dtype)
    swizzle = find_swizzle(columns * bits)
    if swizzle == 16:
        raise ValueError(
            f"Rows of {columns} elements of {dtypes.dtype_name(dtype)} in shared memory have {columns * bits // 8} bytes, which must be a "
            "multiple of 32: the tensor core reads no others."
        )
    return (TilingTransform((8, swizzle * 8 // bits)), SwizzleTransform(swizzle))


def int32(x: Any) -> Any:
    """Return an integer, traced or not, as an int32 scalar."""
    return lax.convert_element_type(x, np.int32)


def part(i: Any, size: int) -> Any:
    """Return the slice that is the `i`-th part of some size."""
    return ds(lax.mul(int32(i), np.int32(size)), size)


def store_rows(buffer: Any, ref: Any, start: Any, target: Any, count: Any) -> None:
    """Start to copy some rows to global memory, by copies of numbers that are powers of two; they are one group.

    Args:
      buffer: reference in shared memory, neither tiled nor swizzled.
      ref: reference in global memory with as many columns.
      start, target: the first row, in `buffer` and in `ref`.
      count: how many rows; none, if it is negative.
    """
    done, block = np.int32(0), buffer.shape[0]
    size = 1 << (block.bit_length() - 1)
    if size < block:  # more than the largest power: none is larger than it together with the others
        size *= 2
    while size:
        rows = min(size, block)
        takes = lax.ge(lax.sub(count, done), np.int32(rows))

        @when(takes)
        def _(rows: int = rows, done: Any = done) -> None:
            copy_smem_to_gmem(
                buffer.at[ds(lax.add(start, done), rows)],
                ref.at[ds(lax.add(target, done), rows)],
                commit_group=False,
            )

        done = lax.add(done, lax.select(takes, np.int32(rows), np.int32(0)))
        size //= 2
    commit_smem_to_gmem_group()


def multiprocessors() -> int:
    """Return how many blocks of threads a GPU runs at a time: that of the default device, or of an H100."""
    device = default_device()
    if device.platform not in ("gpu", "cuda"):
        return _MULTIPROCESSORS
    return getattr(device, "core_count", None) or _MULTIPROCESSORS


def persistent_blocks(tiles: int, cluster: int = 1) -> int:
    """Return how many clusters of blocks a kernel starts, which take tiles in turn."""
    return max(min(tiles, multiprocessors() // cluster), 1)


def check_divides(*sizes: tuple[str, int, str, int]) -> None:
    """Check of several (name, size, name of the divisor, divisor) that the divisor divides the size."""
    for name, size, of, divisor in sizes:
        if divisor <= 0 or size % divisor:
            raise ValueError(f"{name}={size} must be divisible by {of}={divisor}.")


def heads_beside_each_other(x: Any) -> Any:
    """Return an array of shape (batch, length, heads, depth) as a matrix: copies have few dimensions."""
    batch, length, heads, depth = x.shape
    return lax.reshape(x, (batch * length, heads * depth))


def rows_of_head(ref: Any, start: Any, rows: int, length: int, head: Any, depth: int) -> Any:
    """Return rows of a head of this block's batch, of such a matrix."""
    first = lax.add(lax.mul(axis_index("batch"), np.int32(length)), int32(start))
    return ref.at[ds(first, rows), part(head, depth)]
