"""The blocks of keys that blocks of queries of ragged sequences see: what attention and its derivative go through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import arange
from jax._src.numpy.searching import searchsorted
from jax._src.numpy.selecting import where
from jax._src.pallas.helpers import cdiv, when
from jax._src.pallas.mosaic.copies import make_async_copy
from jax._src.pallas.ops.tpu.tiles import before_end, bounded, product
from jax._src.pallas.primitives import program_id


class Settings(NamedTuple):
    """What kernels are the same for: see `ragged_paged_attention`."""

    sm_scale: float
    window: int | None
    cap: float | None
    mask_value: float
    scales: tuple[float | None, float | None]
    pages: int
    pages_per_sequence: int
    rows: int
    vmem_limit_bytes: int | None

    def scores(self, q: Any, k: Any) -> tuple[Any, Any]:
        """Return the scores of queries and keys, and the slope that the bound gives them, or None."""
        return bounded(product(q, k, (1, 1)) * self.sm_scale, self.cap)


class Ragged(NamedTuple):
    """What kernels have in scalar memory.

    Attributes:
      lens: how many keys each sequence has.
      starts: where the queries of each start, and the end of the last.
      pages: the pages of each, one sequence after the other.
      first, after: the first sequence with queries in a block, and the one after the last.
    """

    lens: Any
    starts: Any
    pages: Any
    first: Any
    after: Any


def sequences_of_blocks(
    q: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, rows: int
) -> Ragged:
    """Return which sequences have queries in each block of rows."""
    blocks = cdiv(q.shape[0], rows)
    count = num_seqs[0].astype(np.int32)
    number = arange(kv_lens.shape[0], dtype=np.int32)
    end = where(number < count, cu_q_lens[1:], np.iinfo(np.int32).max)
    start = where(number < count, cu_q_lens[:-1], np.iinfo(np.int32).max)
    at = arange(blocks, dtype=np.int32) * rows
    first = searchsorted(end, at, side="right").astype(np.int32)
    after = ufuncs.minimum(searchsorted(start, at + rows, side="left").astype(np.int32), count)
    return Ragged(kv_lens, cu_q_lens, page_indices.reshape(-1), first, after)


class Block(NamedTuple):
    """A block of keys of a sequence, beside the block of queries of this point of the grid.

    Attributes:
      start: the first of the block's queries.
      q_start, q_end: the sequence's queries.
      key: the number of the block's first key.
      length: how many keys the sequence has.
      first_page: where in `Ragged.pages` the block's pages start.
      buffer: the keys and values, [pages, rows, 2 heads of keys, features].
    """

    settings: Settings
    start: Any
    q_start: Any
    q_end: Any
    key: Any
    length: Any
    first_page: Any
    buffer: Any

    @property
    def keys(self) -> int:
        pages, page, _, _ = self.buffer.shape
        return pages * page

    def of_sequence(self, group: int, columns: int) -> Any:
        """Return which rows have queries of the sequence, [rows * group, columns]."""
        token = self._tokens((self.settings.rows * group, columns), group)
        return (token >= self.q_start) & (token < self.q_end)

    def seen(self, group: int) -> Any:
        """Return which keys queries see, [rows * group, keys]."""
        shape = (self.settings.rows * group, self.keys)
        token = self._tokens(shape, group)
        key = self.key + lax.broadcasted_iota(np.int32, shape, 1)
        # The position of a token in its sequence.
        position = token + (self.length - self.q_end)
        seen = (token >= self.q_start) & (token < self.q_end) & (key <= position)
        if self.settings.window is not None:
            seen = seen & (key > position - self.settings.window)
        return seen

    def _tokens(self, shape: tuple[int, int], group: int) -> Any:
        return self.start + lax.div(lax.broadcasted_iota(np.int32, shape, 0), np.int32(group))

    def keys_and_values(self, head: int, finite: bool = False) -> list[Any]:
        """Return the keys and values of a head, [keys, features], in float32.

        Args:
          head: the head of keys.
          finite: whether also keys beyond the end of the sequence are 0, as values are: they may be NaN.
        """
        pages, page, _, depth = self.buffer.shape
        out = []
        for offset, scale in enumerate(self.settings.scales):
            x = self.buffer[...].astype(np.float32)[:, :, 2 * head + offset, :]
            x = x.reshape(pages * page, depth)
            x = x if scale is None else x * scale
            if offset or finite:
                x = before_end(x, self.length - self.key, 0)
            out.append(x)
        return out


def rows_of_head(ref: Any, head: int, group: int) -> Any:
    """Return the rows of the queries of a head of keys, [rows * group, features], in float32."""
    rows, _, depth = ref.shape
    x = ref[:, head * group : (head + 1) * group, :].astype(np.float32)
    return x.reshape(rows * group, depth)


def for_each_block(
    refs: tuple[Any, ...], rows: int, kv_hbm: Any, buffer: Any, sems: Any, settings: Settings,
    work: Callable[[Block], None],
) -> None:  # fmt: skip
    """Call a function for all blocks of keys that this point's block of queries sees; the next one is copied meanwhile.

    Args:
      refs: those of `Ragged`.
      rows: how many queries a block has.
      kv_hbm: all pages.
      buffer, sems: two buffers for blocks of keys and values, and semaphores.
      work: the function.
    """
    lens_ref, starts_ref, pages_ref, first_ref, after_ref = refs
    number = program_id(0)
    start = number * rows
    _, pages, page, _, _ = buffer.shape
    keys = pages * page

    def sequence(i: Any, _: Any) -> None:
        length, q_start, q_end = lens_ref[i], starts_ref[i], starts_ref[i + 1]
        shift = length - q_end
        last = lax.min(q_end, start + rows) - 1
        blocks = lax.div(last + shift, np.int32(keys)) + 1
        first = np.int32(0)
        if settings.window is not None:
            lowest = lax.max(q_start, start) + shift - (settings.window - 1)
            first = lax.div(lax.max(lowest, np.int32(0)), np.int32(keys))

        def copies(j: Any, slot: Any) -> list[Any]:
            final = lax.div(lax.max(length - 1, np.int32(0)), np.int32(page))
            out = []
            for p in range(pages):
                at = i * settings.pages_per_sequence + lax.min(j * pages + p, final)
                out.append(
                    make_async_copy(kv_hbm.at[pages_ref[at]], buffer.at[slot, p], sems.at[slot])
                )
            return out

        def begin(j: Any, slot: Any) -> None:
            for copy in copies(j, slot):
                copy.start()

        when(first < blocks)(functools.partial(begin, first, np.int32(0)))

        def step(j: Any, _: Any) -> None:
            slot = lax.rem(j - first, np.int32(2))
            when(j + 1 < blocks)(lambda: begin(j + 1, 1 - slot))
            for copy in copies(j, slot):
                copy.wait()
            first_page = i * settings.pages_per_sequence + j * pages
            work(
                Block(
                    settings, start, q_start, q_end, j * keys, length, first_page, buffer.at[slot]
                )
            )

        fori_loop(first, blocks, step, None)

    fori_loop(first_ref[number], after_ref[number], sequence, None)
