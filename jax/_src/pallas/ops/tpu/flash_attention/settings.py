"""What applications of attention are given besides arrays of numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple


class SegmentIds(NamedTuple):
    """Segments of concatenated sequences: a query sees the keys of its own segment.

    Attributes:
      q: the segment of each query, integers, [batch, queries].
      kv: the segment of each key, [batch, keys].
    """

    q: Any
    kv: Any


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """Numbers of queries and keys in the blocks of the kernels: they change the time, not the results.

    Args:
      block_q, block_k_major, block_k, block_b: of the forward kernel: queries, keys that are loaded, keys that
        are computed at a time, and batches.
      block_q_major_dkv, block_k_major_dkv, block_k_dkv, block_q_dkv: of the kernel for cotangents of keys and
        values: queries and keys that are loaded, and that are computed at a time.
      block_k_major_dq, block_k_dq, block_q_dq: of the kernel for cotangents of queries.

    Raises:
      ValueError: if blocks that are computed do not divide those that are loaded.
    """

    block_q: int
    block_k_major: int
    block_k: int
    block_b: int
    block_q_major_dkv: int | None = None
    block_k_major_dkv: int | None = None
    block_k_dkv: int | None = None
    block_q_dkv: int | None = None
    block_k_major_dq: int | None = None
    block_k_dq: int | None = None
    block_q_dq: int | None = None

    def __post_init__(self) -> None:
        for part, whole in (
            ("block_k", "block_k_major"),
            ("block_q_dkv", "block_q_major_dkv"),
            ("block_k_dkv", "block_k_major_dkv"),
            ("block_k_dq", "block_k_major_dq"),
        ):
            size, total = getattr(self, part), getattr(self, whole)
            if size is None or total is None:
                continue
            if size > total:
                raise ValueError(f"{part}={size} should be smaller than {whole}={total}")
            if total % size:
                raise ValueError(f"{part}={size} should divide {whole}={total}")

    @property
    def has_backward_blocks(self) -> bool:
        """Whether the sizes for the derivative are given."""
        return all(size is not None for size in dataclasses.astuple(self))

    @classmethod
    def get_default(
        cls, batch_size: int, num_heads: int, q_seq_len: int, kv_len: int, d_model: int
    ) -> BlockSizes:
        """Return blocks of 128, for any sizes of the arrays."""
        del batch_size, num_heads, q_seq_len, kv_len, d_model
        return cls(128, 128, 128, 1, 128, 128, 128, 128, 128, 128, 128)
