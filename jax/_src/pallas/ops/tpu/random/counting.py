"""Kernels that hash the positions of the elements of an array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.numpy.array_constructors import asarray
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import program_id

BLOCK_SIZE = (256, 256)


def blocked_iota(block_shape: Sequence[int], total_shape: Sequence[int]) -> Any:
    """Return the positions in an array, in row-major order, of the elements of its first block."""
    out = lax.full(tuple(block_shape), 0, np.uint32)
    for axis in range(len(block_shape)):
        stride = np.uint32(math.prod(total_shape[axis + 1 :]))
        at = lax.convert_element_type(
            lax.broadcasted_iota(np.int32, tuple(block_shape), axis), np.uint32
        )
        out = out + at * stride
    return out


def compute_scalar_offset(
    iteration_index: Sequence[Any], total_size: Sequence[int], block_size: Sequence[int]
) -> Any:
    """Return the position in an array of the first element of a block.

    Args:
      iteration_index: the indices of the block.
      total_size: the shape of the array.
      block_size: the shape of blocks.
    """
    out: Any = 0
    for axis, (index, size) in enumerate(zip(iteration_index, block_size, strict=True)):
        out = out + index * (size * math.prod(total_size[axis + 1 :]))
    return out


def round_up(x: int, y: int) -> int:
    """Return the least multiple of y that is not less than x."""
    return -(-x // y) * y


def hash_positions(
    hashed: Callable[..., Sequence[Any]], key: Any, shape: Sequence[int], unpadded_shape: Sequence[int],
    block_size: tuple[int, int], offset: Any, num_results: int, name: str,
) -> Any:  # fmt: skip
    """Hash the positions of the elements of an array.

    Args:
      hashed: a function of the two words of the key and of positions, that returns arrays like them.
      key: two words.
      shape: the shape of the results: blocks divide its last two dimensions.
      unpadded_shape: the shape whose positions they are.
      block_size: the shape of blocks.
      offset: what is added to the positions.
      num_results: how many arrays there are.
      name: the name of the kernel.

    Returns:
      Arrays of uint32.
    """
    shape, unpadded_shape = tuple(shape), tuple(unpadded_shape)
    if len(shape) < 2 or any(n % b for n, b in zip(shape[-2:], block_size)):
        raise ValueError(f"Shape dimension {shape[-2:]} must be divisible by {tuple(block_size)}")
    if math.prod(unpadded_shape) > np.iinfo(np.uint32).max + 1:
        raise ValueError(
            f"Shape too large: {math.prod(unpadded_shape)} > {np.iinfo(np.uint32).max + 1}"
        )
    block = (1,) * (len(shape) - 2) + tuple(block_size)
    grid = tuple(n // b for n, b in zip(shape, block))

    def kernel(key_ref: Any, offset_ref: Any, *out_refs: Any) -> None:
        index = [lax.convert_element_type(program_id(a), np.uint32) for a in range(len(grid))]
        strides = [
            np.uint32(math.prod(unpadded_shape[a + 1 :]) & 0xFFFFFFFF) for a in range(len(grid))
        ]
        start = offset_ref[0]
        for i, b, stride in zip(index, block, strides, strict=True):
            start = start + i * np.uint32(b) * stride
        positions = blocked_iota(block, unpadded_shape) + start
        for ref, out in zip(out_refs, hashed(key_ref[0, 0], key_ref[0, 1], positions), strict=True):
            ref[...] = out

    spec = BlockSpec(block, lambda *index: index)
    scalar = BlockSpec(memory_space=MemorySpace.SMEM)
    call = pallas_call(
        kernel, [ShapeDtypeStruct(shape, np.uint32)] * num_results, grid=grid, in_specs=[scalar, scalar],
        out_specs=[spec] * num_results, name=name,
    )  # fmt: skip
    offset = lax.convert_element_type(asarray(offset), np.uint32)
    return call(lax.reshape(key, (1, 2)), lax.reshape(offset, (1,)))


def padded_to_blocks(shape: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return an array's shape as rows and columns, and the same in whole blocks."""
    rows = (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)
    padded = [round_up(max(n, 1), b) for n, b in zip(rows, BLOCK_SIZE)]
    return rows, (padded[0], padded[1])


def check_32_bits(bit_width: int) -> None:
    """Raise ValueError unless a generator is asked for words of 32 bits."""
    if bit_width != 32:
        raise ValueError("Only 32-bit PRNG supported.")
