"""What the original's kernels know of a mask: which blocks of keys come next, and of what kind they are.

Kernels here go through `block_tables` instead; these are for kernels of others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src.numpy.array_creation import arange
from jax._src.numpy.selecting import where
from jax._src.numpy.util import broadcast_to
from jax._src.pallas.ops.tpu.splash_attention.block_tables import EMPTY, FULL, PARTIAL
from jax._src.pallas.ops.tpu.splash_attention.masks import (
    FullMask,
    Mask,
    MultiHeadMask,
    _ByPosition,
)


class MaskInfo(NamedTuple):
    """The blocks of a mask, in the order in which a kernel goes through them.

    If all heads of a shard have one mask, arrays have one entry for it in the place of heads.

    Attributes:
      data_next: integers of shape (heads or shards of heads, blocks of queries, blocks of keys): the block that is loaded next,
        of keys, or of queries in the kernel for the derivative by keys and values.
      mask_next: integers of the same shape: the number of the next partial block; None if there is none.
      block_mask: integers of the same shape: 0 of empty blocks, 1 of partial ones, 2 of full ones.
      partial_mask_blocks: booleans of shape (blocks, block of queries, block of keys), or keys first in the kernel for the
        derivative by keys and values; of a traced mask (heads, blocks of queries, blocks of keys, ...) with all blocks; None if
        the mask is computed, or none is partial.
      q_sequence: int32 array: the position of each query, if the mask is computed from positions.
      is_dynamic_mask: whether the mask is traced.
    """

    data_next: Any
    mask_next: Any
    block_mask: Any
    partial_mask_blocks: Any
    q_sequence: Any
    is_dynamic_mask: bool | None = None


def _check(shape: tuple[int, ...], block: tuple[int, int], heads: int, queries: int) -> None:
    head_count, q_len, kv_len = shape
    for name, divisor, of, size in (
        ("q_block_size", block[0], "q_seq_len", q_len),
        ("kv_block_size", block[1], "kv_seq_len", kv_len),
        ("head_shards", heads, "head_count", head_count),
        ("q_seq_shards", queries, "q_seq_len", q_len),
        ("q_block_size", block[0], "queries of a shard", q_len // queries),
    ):
        if divisor < 1 or size % divisor:
            raise ValueError(f"{name}={divisor} should divide {of}={size}.")


def _narrow(x: Any, most: int, is_small: bool) -> Any:
    dtypes = (np.int8, np.int16, np.int32) if is_small else (np.int32,)
    return x.astype(next(d for d in dtypes if most <= np.iinfo(d).max))


def process_mask(
    mask: MultiHeadMask, block_shape: tuple[int, int], *, is_dkv: bool = False,
    downcast_smem_data: bool = True, head_shards: int = 1, q_seq_shards: int = 1, shrink_grid: bool = True,
) -> tuple[MaskInfo, Callable[[Any, Any], Any] | None]:  # fmt: skip
    """Return the blocks of a known mask, in the order of a kernel.

    Args:
      mask: the mask of all heads.
      block_shape: the numbers of queries and of keys in a block.
      is_dkv: whether it is the kernel for the derivative by keys and values, which goes through the queries of each block of
        keys.
      downcast_smem_data: whether integers have as few bits as can be.
      head_shards, q_seq_shards: among how many devices heads and queries are divided.
      shrink_grid: whether empty blocks are left out, if all heads have one mask.

    Returns:
      The blocks, and the function from positions of queries and keys to booleans that computes the mask; None if there is
      none, or all heads have not the same.

    Raises:
      ValueError: if blocks or devices do not divide the mask.
    """
    _check(mask.shape, block_shape, head_shards, q_seq_shards)
    masks = list(mask.masks)
    per_shard = len(masks) // head_shards
    groups = [masks[i : i + per_shard] for i in range(0, len(masks), per_shard)]
    if all(m == group[0] for group in groups for m in group):
        groups = [group[:1] for group in groups]
    found: dict[bytes, int] = {}
    tables: dict[Mask, tuple[np.ndarray, np.ndarray]] = {}
    for m in [m for group in groups for m in group]:
        if m not in tables:
            tables[m] = _blocks(m, block_shape, found)
    one = next(iter(tables)) if len(tables) == 1 else None
    computed = one if isinstance(one, _ByPosition) and not isinstance(one, FullMask) else None
    is_shrunk = shrink_grid and one is not None
    count = mask.shape[1] // block_shape[0] // q_seq_shards
    shards = []
    for group in groups:
        parts = []
        for start in range(0, count * q_seq_shards, count):
            kind, partial = [
                np.stack([tables[m][i][start : start + count] for m in group]) for i in range(2)
            ]
            part = _in_order(kind, partial, is_dkv)
            parts.append(_shrunk(part, is_dkv) if is_shrunk else part)
        shards.append(_joined(parts, is_dkv))
    data_next, mask_next, block_mask = [np.concatenate(x) for x in zip(*shards)]
    narrow = lambda x: _narrow(x, int(x.max(initial=0)), downcast_smem_data)
    has_partial = bool(found) and computed is None
    blocks = [np.frombuffer(b, bool).reshape(block_shape) for b in found] if has_partial else None
    info = MaskInfo(
        narrow(data_next), narrow(mask_next) if has_partial else None, narrow(block_mask),
        None if blocks is None else _turned(np.stack(blocks), is_dkv),
        None if computed is None else np.arange(mask.shape[1], dtype=np.int32),
    )  # fmt: skip
    return info, None if computed is None else computed.sees


def _turned(blocks: Any, is_dkv: bool) -> Any:
    """Return partial blocks as a kernel multiplies them: that of the derivative by keys has keys first."""
    return blocks.swapaxes(-1, -2) if is_dkv else blocks


def _blocks(
    mask: Mask, block: tuple[int, int], found: dict[bytes, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the kinds of all blocks, and the numbers of partial ones, which are added to `found`."""
    shape = tuple(size // b for size, b in zip(mask.shape, block))
    kind, number = np.zeros((2, *shape), np.int32)
    for i in range(shape[0]):
        strip = np.asarray(mask[i * block[0] : (i + 1) * block[0], :])
        for j in range(shape[1]):
            part = np.ascontiguousarray(strip[:, j * block[1] : (j + 1) * block[1]])
            kind[i, j] = FULL if part.all() else PARTIAL if part.any() else EMPTY
            if kind[i, j] == PARTIAL:
                number[i, j] = found.setdefault(part.tobytes(), len(found))
    return kind, number


_Part = tuple[np.ndarray, np.ndarray, np.ndarray]


def _in_order(kind: np.ndarray, partial: np.ndarray, is_dkv: bool) -> _Part:
    """Return what is loaded next at each block, and the kinds, of blocks of one device: [masks, queries, keys]."""
    order = (2, 0, 1) if is_dkv else (0, 1, 2)
    index = np.indices(kind.shape)[1 if is_dkv else 2]

    def following(values: np.ndarray, some: np.ndarray) -> np.ndarray:
        at = np.flatnonzero(some.transpose(order))
        if not at.size:
            return np.zeros_like(values)
        flat = values.transpose(order)
        found = np.searchsorted(at, np.arange(flat.size)) % at.size  # after the last, the first
        return flat.ravel()[at[found]].reshape(flat.shape).transpose(np.argsort(order))

    return following(index, kind != EMPTY), following(partial, kind == PARTIAL), kind


def _shrunk(part: _Part, is_dkv: bool) -> _Part:
    """Leave out empty blocks: of each row those after others; of each column, in the other kernel, those before others."""
    axis = 1 if is_dkv else 2
    some = part[2] != EMPTY
    count = max(int(some.sum(axis).max()), 1)
    # A stable order: those that stay are at one end, as they were.
    order = np.argsort(some if is_dkv else ~some, axis=axis, kind="stable")
    keep = np.take_along_axis(some, order, axis)
    moved = [np.where(keep, np.take_along_axis(x, order, axis), 0) for x in part]
    start = some.shape[axis] - count if is_dkv else 0
    data, mask, kind = [x.take(np.arange(start, start + count), axis) for x in moved]
    return data, mask, kind


def _joined(parts: Sequence[_Part], is_dkv: bool) -> _Part:
    """Join the blocks of devices along queries, all as many as those of the device with the most."""
    axis = 1 if is_dkv else 2
    most = max(p[2].shape[axis] for p in parts)
    out = []
    for i in range(3):
        padded = []
        for x in [p[i] for p in parts]:
            more = [(0, most - x.shape[a] if a == axis else 0) for a in range(3)]
            # What is added are empty blocks, at which nothing else is loaded.
            padded.append(np.pad(x, more) if i == 2 else np.pad(x, more, "edge"))
        out.append(np.concatenate(padded, 1))
    return out[0], out[1], out[2]


process_mask_dkv = functools.partial(process_mask, is_dkv=True)


def process_dynamic_mask(
    mask: Any, block_shape: tuple[int, int], *, is_dkv: bool = False, downcast_smem_data: bool = True,
    head_shards: int = 1, q_seq_shards: int = 1, shrink_grid: bool = True,
) -> tuple[MaskInfo, None]:  # fmt: skip
    """Return the blocks of a mask that may be traced: all of them, in their places.

    Args:
      mask: booleans of shape (heads, queries, keys).
      block_shape, is_dkv, downcast_smem_data, head_shards, q_seq_shards: as of `process_mask`.
      shrink_grid: has no effect: which blocks are empty is not known.

    Returns:
      The blocks, and None.

    Raises:
      ValueError: if blocks or devices do not divide the mask.
    """
    del shrink_grid
    _check(mask.shape, block_shape, head_shards, q_seq_shards)
    heads, q_len, kv_len = mask.shape
    rows, columns = q_len // block_shape[0], kv_len // block_shape[1]
    blocks = mask.reshape(heads, rows, block_shape[0], columns, block_shape[1])
    blocks = blocks.transpose(0, 1, 3, 2, 4)
    kind = where(blocks.all((3, 4)), FULL, where(blocks.any((3, 4)), PARTIAL, EMPTY))
    shape = (heads, rows, columns)
    of_shard = (heads // head_shards, rows // q_seq_shards, columns)
    along = 1 if is_dkv else 2
    index = arange(of_shard[along], dtype=np.int32)
    index = index.reshape(1, -1, 1) if is_dkv else index
    number = arange(math.prod(of_shard), dtype=np.int32).reshape(of_shard)
    tile = lambda x: broadcast_to(
        broadcast_to(x, of_shard)[None, :, None], (head_shards, of_shard[0], q_seq_shards, *of_shard[1:])
    ).reshape(shape)  # fmt: skip
    of_some = where(kind != EMPTY, tile(index), 0)
    of_partial = where(kind == PARTIAL, tile(number), 0)
    info = MaskInfo(
        _narrow(of_some, of_shard[along] - 1, downcast_smem_data),
        _narrow(of_partial, math.prod(of_shard) - 1, downcast_smem_data),
        _narrow(kind, FULL, downcast_smem_data), _turned(blocks, is_dkv), None, True,
    )  # fmt: skip
    return info, None


process_dynamic_mask_dkv = functools.partial(process_dynamic_mask, is_dkv=True)
