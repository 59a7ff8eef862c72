"""Random arrays that are drawn block by block, and do not depend on the size of the blocks.

The array is divided into tiles, each with a key of its own. A block consists of whole tiles, so its values are
the same for all sizes of blocks that the tile's size divides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src.lax import lax
from jax._src.random.keys import fold_in
from jax._src.typing import Array

# Lists of keys, nested as deeply as the array has dimensions.
NdKeyList = Any


def blocked_fold_in(
    global_key: Any,
    total_size: Sequence[int],
    block_size: Sequence[int],
    tile_size: Sequence[int],
    block_index: Sequence[Any],
) -> NdKeyList:
    """Derives the keys of the tiles of a block.

    The key of a tile is `fold_in(global_key, i)`, where i is its number, in row-major order, among those of the
    whole array.

    Args:
      global_key: the key of the whole array.
      total_size: shape of the whole array.
      block_size: shape of the block, multiples of `tile_size`.
      tile_size: shape of a tile.
      block_index: position of the block, in blocks; may be traced.

    Returns:
      Lists of keys, nested in the order of the dimensions.

    Raises:
      ValueError: if the shapes have different lengths, or tiles do not divide the block or the array.
    """
    _check_sizes(block_size, tile_size, total_size)
    tiles = [b // t for b, t in zip(block_size, tile_size)]
    all_tiles = [-(-n // t) for n, t in zip(total_size, tile_size)]

    def keys(first: tuple[int, ...]) -> NdKeyList:
        depth = len(first)
        if depth < len(tiles):
            return [keys((*first, i)) for i in range(tiles[depth])]
        number: Any = 0
        for index, count, i, total in zip(block_index, tiles, first, all_tiles):
            number = number * total + (index * count + i)
        return fold_in(global_key, number)

    return keys(())


def sample_block(
    sampler_fn: Callable[..., Array],
    keys: NdKeyList,
    block_size: Sequence[int],
    tile_size: Sequence[int],
    *args: Any,
    **kwargs: Any,
) -> Array:
    """Draws the values of a block, tile by tile.

    Args:
      sampler_fn: a function such as `jax.random.uniform`, called with a key, `shape=` and what follows.
      keys: the keys of the tiles, by `blocked_fold_in`.
      block_size: shape of the block.
      tile_size: shape of a tile.
      *args, **kwargs: further arguments of `sampler_fn`.

    Returns:
      Array of the shape `block_size`.
    """
    _check_sizes(block_size, tile_size)

    def draw(nested: NdKeyList, axis: int) -> Array:
        if axis == len(tile_size):
            return sampler_fn(nested, *args, shape=tuple(tile_size), **kwargs)
        return lax.concatenate([draw(part, axis + 1) for part in nested], axis)

    return draw(keys, 0)


def _check_sizes(block: Sequence[int], tile: Sequence[int], total: Sequence[int] | None = None):
    if len(block) != len(tile) or (total is not None and len(total) != len(tile)):
        raise ValueError(
            f"block_size {tuple(block)} and tile_size {tuple(tile)} must have as many dimensions as the array"
        )
    if any(b % t for b, t in zip(block, tile)):
        raise ValueError(f"tile_size {tuple(tile)} must divide block_size {tuple(block)}")
