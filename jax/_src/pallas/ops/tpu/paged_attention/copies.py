"""Copies of the pages of a block of keys or values to vector memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.pallas.mosaic.copies import make_async_copy
from jax._src.pallas.ops.tpu.paged_attention.quantization import from_int8


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
