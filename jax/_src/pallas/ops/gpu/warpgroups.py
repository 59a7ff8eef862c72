"""What operations for GPUs by Mosaic GPU share: swizzled memory, positions of tiles, products, and how many blocks run at a time."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.array_impl import default_device
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import (
    commit_smem,
    commit_smem_to_gmem_group,
    copy_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import ACC, MemorySpace
from jax._src.pallas.mosaic_gpu.helpers import find_swizzle
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.memory_operations import (
    layout_cast,
    set_max_registers,
)
from jax._src.pallas.mosaic_gpu.mma import wgmma
from jax._src.pallas.mosaic_gpu.transforms import (
    SwizzleTransform,
    TilingTransform,
)
from jax._src.pallas.ops.differentiable import turned
from jax._src.pallas.primitives import run_scoped
from jax._src.state.discharge import run_state
from jax._src.state.types import Transform

COMPUTING = 2  # warpgroups of a block for Hopper, beside the one that copies
REGISTERS_OF_COPIES, _REGISTERS_OF_PRODUCTS = 40, 232
_MULTIPROCESSORS = 132  # of an H100


class MatmulDimension(enum.IntEnum):
    """A dimension of the result of a product: its rows or its columns."""

    M = 0
    N = 1


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


def check_product(rows: tuple[str, int], columns: tuple[str, int]) -> None:
    """Check that the tensor core of a Hopper GPU multiplies matrices of some named numbers of rows and columns."""
    (name, m), (other, n) = rows, columns
    if m < 64 or m % 64:
        raise ValueError(f"{name}={m} must be a multiple of 64, the rows of a product.")
    if n < 8 or n % 8 or (n > 256 and n % 256):
        raise ValueError(
            f"{other}={n} must be a multiple of 8 up to 256, or of 256: the columns of a product."
        )


def copy_or_compute(thread: Any, copy: Callable[[], None], compute: Callable[[], None]) -> None:
    """Call what a warpgroup of a block does, the last one to copy; registers go to those that compute."""

    @when(lax.eq(thread, np.int32(COMPUTING)))
    def _() -> None:
        set_max_registers(REGISTERS_OF_COPIES, action="decrease")
        copy()

    @when(lax.lt(thread, np.int32(COMPUTING)))
    def _() -> None:
        set_max_registers(_REGISTERS_OF_PRODUCTS, action="increase")
        compute()


def zeros(rows: int, columns: int) -> Any:
    """Return zeros as the tensor core adds products to them."""
    return layout_cast(lax.full((rows, columns), 0, np.float32), Layout.WGMMA)


def product(a: Any, b: Any, shape: tuple[int, int]) -> Any:
    """Return the product of two matrices in shared memory, of a known shape."""

    def multiply(acc: Any) -> Any:
        wgmma(acc, a, b)
        return acc[...]

    return run_scoped(multiply, ACC(shape))


def add_product(total: Any, a: Any, b: Any) -> Any:
    """Add the product of an array, rounded to the dtype of `b`, and of `b`, a matrix in shared memory."""
    a = lax.convert_element_type(a, b.dtype)
    return run_state(lambda acc: wgmma(acc, a, b))(ACC.init(total))


def start_store(x: Any, buffer: Any, ref: Any) -> None:
    """Start to store an array, by way of a buffer in shared memory."""
    buffer[...] = lax.convert_element_type(x, buffer.dtype)
    commit_smem()
    copy_smem_to_gmem(buffer, ref)


def heads_beside_each_other(x: Any) -> Any:
    """Return an array of shape (batch, length, heads, depth) as a matrix: copies have few dimensions."""
    batch, length, heads, depth = x.shape
    return lax.reshape(x, (batch * length, heads * depth))


def rows_of_head(ref: Any, start: Any, rows: int, length: int, head: Any, depth: int) -> Any:
    """Return rows of a head of this block's batch, of such a matrix."""
    first = lax.add(lax.mul(axis_index("batch"), np.int32(length)), int32(start))
    return ref.at[ds(first, rows), part(head, depth)]


def with_rows_of(a: Any, size: int, is_transposed: bool) -> Any:
    """Return a matrix with rows of zeros after its last, so that their number is a multiple of a size.

    Args:
      a: the matrix.
      size: the size.
      is_transposed: whether its columns are the rows.
    """
    more = -turned(a.shape, is_transposed)[0] % size
    if not more:
        return a
    return lax.pad(a, np.zeros((), a.dtype), turned(((0, more, 0), (0, 0, 0)), is_transposed))
