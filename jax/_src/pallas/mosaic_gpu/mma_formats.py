"""Scales of blocks, and positions of the elements of sparse matrices, for products of Blackwell GPUs.

A row of a matrix is divided into blocks of elements that have a scale in common. Of a sparse matrix two of four
elements of a row are there; which ones is said by two numbers below four.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.pallas.mosaic_gpu.layouts import TMEMLayout, TMEMTiledLayout

# What is copied at once: four scales each of some rows, or 64 positions each.
SCALES, POSITIONS = 4, 64
ROWS = 128  # of a block
_LANES = 32
_OF_PAIRS = 256  # rows, of scales for pairs of blocks with 64 rows each

_BLOCKS = {
    ("float8_e4m3fn", "float8_e8m0fnu"): 32,
    ("float8_e5m2", "float8_e8m0fnu"): 32,
    ("float4_e2m1fn", "float8_e8m0fnu"): 32,
    ("float4_e2m1fn", "float8_e4m3fn"): 16,
}


def block_size(dtype: Any, scale_dtype: Any) -> int:
    """Return how many elements have a scale in common.

    Raises:
      ValueError: if there are no such scales for the dtype.
    """
    names = dtypes.dtype_name(dtype), dtypes.dtype_name(scale_dtype)
    if names not in _BLOCKS:
        known = "; ".join([f"{a} with {s}, for {n} elements" for (a, s), n in _BLOCKS.items()])
        raise ValueError(
            f"No tensor core multiplies {names[0]} with scales of {names[1]}. There are {known}."
        )
    return _BLOCKS[names]


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """How scales or positions are arranged in shared memory, from where they are copied to tensor memory.

    Attributes:
      layout: that of the array in tensor memory.
      rows, columns: the part of it that is copied at once.
      lanes: how many rows of 16 bytes this is in shared memory.
    """

    layout: TMEMTiledLayout
    rows: int
    columns: int
    lanes: int

    @property
    def width(self) -> int:
        """The elements of a row of 16 bytes."""
        return self.rows * self.columns // self.lanes

    def in_shared_memory(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of an array as it is in shared memory."""
        m, n = shape
        return (-(-m // self.rows), -(-n // self.columns), self.lanes, self.width)

    def from_shared_memory(self, x: np.ndarray) -> np.ndarray:
        """Return an array in the order of its rows and columns, given that in shared memory."""
        m, n, lanes, width = x.shape
        if self.columns == POSITIONS:
            return x.transpose(0, 2, 1, 3).reshape(m * lanes, n * width)
        # A row of 16 bytes has the scales of four rows, `_LANES` apart from each other.
        split = x.reshape(m, n, lanes // _LANES, _LANES, width // SCALES, SCALES)
        return split.transpose(0, 2, 4, 3, 1, 5).reshape(m * self.rows, n * SCALES)


ARRANGEMENTS = {
    "scales": (
        Arrangement(TMEMLayout.SCALES_LAYOUT.to_mgpu(), ROWS, SCALES, _LANES),
        Arrangement(TMEMLayout.SCALES_M64_COLLECTIVE_LAYOUT.to_mgpu(), _OF_PAIRS, SCALES, 2 * _LANES),
    ),
    "sparse_metadata": (
        Arrangement(TMEMLayout.SPARSE_METADATA_LAYOUT.to_mgpu(), ROWS, POSITIONS, ROWS),
    ),
}  # fmt: skip


def arrangement_of(kind: str, layout: Any) -> Arrangement:
    """Return the arrangement of scales or of positions that are in tensor memory in a layout.

    Raises:
      ValueError: if they are not, in that layout.
    """
    for a in ARRANGEMENTS[kind]:
        if a.layout == layout:
            return a
    names = {"scales": "SCALES_LAYOUT", "sparse_metadata": "SPARSE_METADATA_LAYOUT"}
    raise ValueError(
        f"{kind} of a product are in tensor memory in a layout of their own, not in {layout}: give plgpu.TMEM(...) layout=plgpu.TMEMLayout.{names[kind]}."
    )


def scaled(x: np.ndarray, scales: np.ndarray, block: int) -> np.ndarray:
    """Return a matrix whose blocks of elements of a row have been multiplied by their scales."""
    m, k = x.shape
    factors = np.repeat(scales[:m].astype(np.float32), block, 1)[:, :k]
    return x.astype(np.float32) * factors


def dense(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the matrix of which two of four elements of a row are there.

    Args:
      x: these elements, of shape (m, k // 2).
      positions: where they are, of shape (m, k // 2), in the order in which tensor memory has them.
    """
    m, n = x.shape
    at = _in_order(positions, dtypes.itemsize_bits(x.dtype)).astype(np.int64)[:m, :n]
    columns = np.arange(n) // 2 * 4 + at
    out = np.zeros((m, 2 * n), x.dtype)
    np.put_along_axis(out, columns, x, 1)
    return out


def _in_order(positions: np.ndarray, bits: int) -> np.ndarray:
    """Return positions in the order of the elements; undoes `format_tcgen05_sparse_metadata`."""
    if bits == 8:
        return positions
    m, n = positions.shape
    split = positions.reshape(m // ROWS, 8, 2, 8, n // POSITIONS, 4, 2, 4, 2)
    # From rows (r6 r5 r4, g2, r2 r1 r0) and columns (g4 g3, r3, g1 g0) to rows and groups.
    return split.transpose(0, 1, 6, 3, 4, 5, 2, 7, 8).reshape(m, n)
