"""Tables of the blocks of scores that masks do not leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core
from jax._src.numpy.array_creation import arange
from jax._src.numpy.selecting import where
from jax._src.numpy.util import broadcast_to
from jax._src.pallas.ops.tpu.splash_attention.masks import Mask, MultiHeadMask, NumpyMask

EMPTY, PARTIAL, FULL = 0, 1, 2


class BlockTable(NamedTuple):
    """For each head and each block of rows, the blocks of columns that rows of it see.

    Attributes:
      block: their numbers, [heads, blocks of rows, most blocks of columns]. Those after the last one
        repeat it, and are empty.
      kind: `EMPTY`, `PARTIAL` or `FULL`, of the same shape.
      partial: the number of a partial block in `partials`, of the same shape; None if none is partial.
      partials: the different partial blocks, [number, rows of a block, columns of a block]; or None.
    """

    block: Any
    kind: Any
    partial: Any
    partials: Any


def heads_of(mask: Any) -> Sequence[Mask] | None:
    """Return the mask of each head; None if the mask is traced."""
    if isinstance(mask, MultiHeadMask):
        return mask.masks
    if isinstance(mask, Mask) or np.ndim(mask) != 3:
        raise ValueError(
            f"Unexpected mask shape: {mask.shape}. Masks have three dimensions: heads, queries and keys."
        )
    if isinstance(mask, core.Tracer):
        return None
    return [NumpyMask(np.asarray(m)) for m in mask]


def block_table(masks: Sequence[Mask], rows: int, columns: int, small: bool) -> BlockTable:
    """List the blocks of known masks.

    Args:
      masks: one for each head.
      rows, columns: the sizes of a block; they divide the masks' sizes.
      small: whether numbers are stored in few bits.
    """
    found: dict[Mask, list[list[tuple[int, int, int]]]] = {}
    partials: dict[bytes, int] = {}
    for mask in masks:
        if mask not in found:
            found[mask] = _blocks_of(mask, rows, columns, partials)
    heads = [found[mask] for mask in masks]
    width = max(max((len(row) for table in heads for row in table), default=1), 1)
    padded = np.zeros((len(heads), len(heads[0]), width, 3), np.int32)
    for h, table in enumerate(heads):
        for i, row in enumerate(table):
            for w in range(width):
                last = row[-1] if row else (0, EMPTY, 0)
                padded[h, i, w] = row[w] if w < len(row) else (last[0], EMPTY, last[2])
    block, kind, partial = np.moveaxis(padded, -1, 0)
    stack = [np.frombuffer(b, bool).reshape(rows, columns) for b in partials]
    number = _narrow if small else np.asarray
    return BlockTable(
        number(block),
        number(kind),
        number(partial) if stack else None,
        np.stack(stack) if stack else None,
    )


def _blocks_of(
    mask: Mask, rows: int, columns: int, partials: dict[bytes, int]
) -> list[list[tuple[int, int, int]]]:
    height, width = mask.shape
    table = []
    for i in range(0, height, rows):
        strip = np.asarray(mask[i : i + rows, :])
        blocks = strip.reshape(rows, width // columns, columns)
        any_seen, all_seen = blocks.any((0, 2)), blocks.all((0, 2))
        row = []
        for j in np.flatnonzero(any_seen):
            if all_seen[j]:
                row.append((int(j), FULL, 0))
            else:
                key = np.ascontiguousarray(blocks[:, j]).tobytes()
                row.append((int(j), PARTIAL, partials.setdefault(key, len(partials))))
        table.append(row)
    return table


def traced_block_table(mask: Any, rows: int, columns: int) -> BlockTable:
    """List the blocks of a traced mask: all of them, with what they turn out to be."""
    heads, height, width = mask.shape
    m, n = height // rows, width // columns
    blocks = mask.reshape(heads, m, rows, n, columns).transpose(0, 1, 3, 2, 4)
    kind = where(blocks.all((3, 4)), FULL, where(blocks.any((3, 4)), PARTIAL, EMPTY))
    shape = (heads, m, n)
    return BlockTable(
        broadcast_to(arange(n, dtype=np.int32), shape),
        kind.astype(np.int32),
        arange(heads * m * n, dtype=np.int32).reshape(shape),
        blocks.reshape(-1, rows, columns),
    )


class _Transposed(Mask):
    def __init__(self, mask: Mask, start: int, stop: int):
        self.mask, self.start, self.stop = mask, start, stop

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.mask.shape[1], self.stop - self.start)

    def __getitem__(self, index: Any) -> np.ndarray:
        rows, columns = index
        low, high, _ = columns.indices(self.stop - self.start)
        return np.asarray(self.mask[self.start + low : self.start + high, rows]).T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Transposed) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.mask, self.start, self.stop)


def transposed_block_table(
    masks: Sequence[Mask], rows: int, columns: int, shards: int, small: bool
) -> BlockTable:
    """List, for each block of columns of known masks, the blocks of rows that see it.

    Where the rows are divided among devices each has a table of its own, with numbers of its own
    blocks: the arrays are [heads, devices, blocks of columns, most blocks of rows].
    """
    size = masks[0].shape[0] // shards
    parts = [_Transposed(m, s * size, (s + 1) * size) for m in masks for s in range(shards)]
    table = block_table(parts, columns, rows, small)
    split = lambda x: None if x is None else x.reshape(len(masks), shards, *x.shape[1:])
    partials = table.partials
    return BlockTable(
        split(table.block),
        split(table.kind),
        split(table.partial),
        None if partials is None else np.ascontiguousarray(partials.transpose(0, 2, 1)),
    )


def transposed_traced_block_table(mask: Any, rows: int, columns: int) -> BlockTable:
    """The same of a traced mask, whose rows are on one device."""
    table = traced_block_table(mask.transpose(0, 2, 1), columns, rows)
    return BlockTable(*[x[:, None] for x in table[:3]], partials=table.partials.transpose(0, 2, 1))


def _narrow(x: np.ndarray) -> np.ndarray:
    for dtype in (np.int8, np.int16):
        if x.max(initial=0) <= np.iinfo(dtype).max:
            return x.astype(dtype)
    return x
