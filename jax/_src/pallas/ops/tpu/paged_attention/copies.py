"""Pages of keys and values, and copies of blocks of them to vector memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jax._src import dtypes
from jax._src.api import vjp
from jax._src.pallas.mosaic.copies import make_async_copy
from jax._src.pallas.ops.tpu.paged_attention.quantization import QuantizedTensor, from_int8


class Sizes(NamedTuple):
    """The sizes of arrays and blocks."""

    batch: int
    kv_heads: int
    group: int
    depth: int
    page: int
    pages_per_sequence: int
    pages_per_block: int

    @property
    def block(self) -> int:
        return self.page * self.pages_per_block


class Position(NamedTuple):
    """A block of keys: of a sequence, a head of keys, and the number of the block."""

    sequence: Any
    head: Any
    block: Any

    def first_page(self, sizes: Sizes) -> Any:
        """Return where in the pages of all sequences, one after the other, those of the block start."""
        return self.sequence * sizes.pages_per_sequence + self.block * sizes.pages_per_block


class Pages:
    """Keys or values: their arrays, and the buffers of a block.

    Args:
      x: the pages, or a `QuantizedTensor` of them.
      pages_per_block: how many pages a block has.
    """

    def __init__(self, x: Any, pages_per_block: int):
        self._quantized = isinstance(x, QuantizedTensor)
        self.arrays = list(x) if self._quantized else [x]
        self.buffers = [((pages_per_block, *a.shape[2:]), a.dtype) for a in self.arrays]

    def take(self, refs: Iterator[Any]) -> tuple[Any, Any]:
        """Take the references of arrays or of buffers, and None for scales that there are not."""
        taken = [next(refs) for _ in self.arrays]
        return taken[0], taken[1] if len(taken) > 1 else None

    def cotangent(self, dx: Any) -> Any:
        """Return the cotangent of what pages were given as, of that of their numbers."""
        if not self._quantized:
            return dx.astype(self.arrays[0].dtype)
        weight, scales = self.arrays
        of_scales = vjp(lambda h: from_int8(weight, h, np.float32), scales)[1](dx)[0]
        return QuantizedTensor(np.zeros(weight.shape, dtypes.float0), of_scales)


class PagesCopy:
    """Copies of the pages of one head, all on one semaphore.

    Args:
      pages_hbm_ref: the pages, [heads, pages, rows, features].
      scales_pages_hbm_ref: their scales, [heads, pages, rows, 1], or None.
      vmem_buffer, scales_vmem_buffer: where they are copied to, [pages of a block, rows, features or 1].
      sem: the semaphore.
      page_indices: the pages of all sequences, one after the other, in scalar memory.
      page_indices_start_offset: where in it the block starts.
      num_pages_to_load: how many pages a block has.
      head_index: the head.
    """

    def __init__(
        self, pages_hbm_ref: Any, scales_pages_hbm_ref: Any, vmem_buffer: Any, scales_vmem_buffer: Any, sem: Any,
        page_indices: Any, page_indices_start_offset: Any, num_pages_to_load: int, head_index: Any,
    ):  # fmt: skip
        self._buffer, self._scales = vmem_buffer, scales_vmem_buffer
        self._copies = []
        pairs = [(pages_hbm_ref, vmem_buffer), (scales_pages_hbm_ref, scales_vmem_buffer)]
        for source, target in pairs:
            if source is None:
                continue
            head = source.at[head_index]
            for i in range(num_pages_to_load):
                page = page_indices[page_indices_start_offset + i]
                self._copies.append(make_async_copy(head.at[page], target.at[i], sem))

    def start(self) -> None:
        """Start all copies."""
        for copy in self._copies:
            copy.start()

    def wait_and_get_loaded(self) -> Any:
        """Wait for all copies, and return what was copied, [rows of the block, features]."""
        for copy in self._copies:
            copy.wait()
        x = self._buffer[...]
        if self._scales is not None:
            x = from_int8(x.astype(np.float32), self._scales[...], np.float32)
        return x.reshape(-1, x.shape[-1])


class BlockCopies:
    """Copies of blocks of keys and values, each to one of two buffers.

    Args:
      sources: for keys and for values the pages and their scales: see `Pages.take`.
      buffers: the same of two buffers each.
      sems: a semaphore for each buffer.
      page_indices: the pages of all sequences, one after the other, in scalar memory.
      sizes: the sizes of blocks.
    """

    def __init__(
        self, sources: list[tuple[Any, Any]], buffers: list[tuple[Any, Any]], sems: Any, page_indices: Any,
        sizes: Sizes,
    ):  # fmt: skip
        self._sources, self._buffers, self._sems = sources, buffers, sems
        self._page_indices, self._sizes = page_indices, sizes

    def start(self, at: Position, slot: Any) -> None:
        """Start to copy a block to a buffer."""
        for copy in self._copies(at, slot):
            copy.start()

    def wait(self, at: Position, slot: Any) -> list[Any]:
        """Wait for the copies of a block, and return its keys and values, [rows of the block, features]."""
        return [copy.wait_and_get_loaded() for copy in self._copies(at, slot)]

    def _copies(self, at: Position, slot: Any) -> list[PagesCopy]:
        first, count = at.first_page(self._sizes), self._sizes.pages_per_block
        return [
            PagesCopy(
                *source, buffer.at[slot], None if scales is None else scales.at[slot], self._sems.at[slot],
                self._page_indices, first, count, at.head,
            )
            for source, (buffer, scales) in zip(self._sources, self._buffers, strict=True)
        ]  # fmt: skip
