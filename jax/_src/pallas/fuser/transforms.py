"""Which block of an operand an operation needs for a block of its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jax._src.pallas.blocks import BlockDim, Blocked, Buffered, Squeezed
from jax._src.pallas.memory import MemorySpace


def _first_block(*block_indices: Any) -> None:
    """Stands for an index that does not matter: the block is the whole array."""


@dataclasses.dataclass
class BlockIndexTransform:
    """The block of an array that is needed for blocks of the results of a function.

    Args:
      block_shape: its shape, as in `pl.BlockSpec`; None for the whole array.
      block_index_transform: function from the indices of the blocks of the results, a tuple of integers
        for each, to the index of this block, a tuple of integers.
      memory_space: where the kernel finds the block.
      pipeline_mode: how a pipeline buffers the blocks.
    """

    block_shape: Sequence[BlockDim | int | None] | None
    block_index_transform: Callable[..., Any] = _first_block
    _: dataclasses.KW_ONLY
    memory_space: Any | None = None
    pipeline_mode: Buffered | None = None

    def replace(self, **kwargs: Any) -> BlockIndexTransform:
        """Return a copy with some fields replaced."""
        return dataclasses.replace(self, **kwargs)

    def then(
        self, block_shape: Sequence[Any], of_index: Callable[[Any], Any]
    ) -> BlockIndexTransform:
        """Return the transform of an array whose block's index is a function of this block's.

        Args:
          block_shape: the shape of the other array's block.
          of_index: function from the index of this block, a tuple, to that of the other.
        """
        own = self.block_index_transform
        return self.replace(
            block_shape=tuple(block_shape),
            block_index_transform=lambda *indices: tuple(of_index(own(*indices))),
        )


class NoBlockIndexTransform:
    """Stands for the transform of an array that is needed whole, or not at all."""

    def __repr__(self) -> str:
        return "NoBlockIndexTransform"


whole = NoBlockIndexTransform()
Transform = BlockIndexTransform | NoBlockIndexTransform

# A key of random numbers, which kernels read from a space of its own.
key_transform = BlockIndexTransform(None, memory_space=MemorySpace.KEY)


def is_key(t: Any) -> bool:
    return isinstance(t, BlockIndexTransform) and t.memory_space is MemorySpace.KEY


def is_squeezed(d: Any) -> bool:
    return d is None or isinstance(d, Squeezed)


def is_blocked(d: Any) -> bool:
    """Whether a block's index counts blocks of equal size, or positions."""
    return is_squeezed(d) or isinstance(d, (int, Blocked))


def size_of(d: Any) -> int:
    """The number of elements of a block along a dimension."""
    if is_squeezed(d):
        return 1
    return int(d) if isinstance(d, int) else int(d.block_size)


def seen_dims(block_shape: Sequence[Any]) -> list[int]:
    """The dimensions of an array that a block of it has."""
    return [i for i, d in enumerate(block_shape) if not is_squeezed(d)]


def seen_shape(block_shape: Sequence[Any]) -> tuple[int, ...]:
    """The shape of the array that a kernel sees as a block."""
    return tuple([size_of(d) for d in block_shape if not is_squeezed(d)])


def same_dims(a: Sequence[Any] | None, b: Sequence[Any] | None) -> bool:
    """Whether two block shapes mean the same."""
    if a is None or b is None:
        return a is b
    plain = lambda s: [
        None if is_squeezed(d) else Blocked(d) if isinstance(d, int) else d for d in s
    ]
    return plain(a) == plain(b)
