"""What attention of ragged sequences over pages requires of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np


def static_validate_inputs(
    q: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, *,
    sm_scale: float | None = None, sliding_window: int | None = None, soft_cap: float | None = None,
    mask_value: float | None = None, k_scale: float | None = None, v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None, num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> None:  # fmt: skip
    """Raise ValueError unless the shapes, types and options fit: see `ragged_paged_attention`."""
    del sm_scale, mask_value, k_scale, v_scale  # any
    if q.ndim != 3 or kv_pages.ndim != 4 or page_indices.ndim != 2:
        raise ValueError(
            "q should be [tokens, heads, features], kv_pages [pages, rows, 2 heads of keys, features], page_indices "
            f"[sequences, pages], but the shapes are {q.shape}, {kv_pages.shape} and {page_indices.shape}"
        )
    _, num_q_heads, depth = q.shape
    combined, kv_depth = kv_pages.shape[2:]
    max_num_seqs, pages_per_seq = page_indices.shape
    if combined % 2:
        raise ValueError(f"kv_pages has keys and values in turn, but {combined} heads")
    num_kv_heads = combined // 2
    if depth != kv_depth:
        raise ValueError(f"Q head_dim {depth} must be the same as that of K/V {kv_depth}.")
    if num_q_heads % num_kv_heads:
        raise ValueError(f"{num_q_heads=} must be divisible by {num_kv_heads=}")
    for name, x, n in (("kv_lens", kv_lens, max_num_seqs), ("cu_q_lens", cu_q_lens, max_num_seqs + 1)):  # fmt: skip
        if x.shape != (n,):
            raise ValueError(
                f"Expected {name}.shape={x.shape} to be ({n},) where `max_num_seqs` is `page_indices.shape[0]`."
            )
    if num_seqs.shape != (1,):
        raise ValueError(f"{num_seqs.shape=} must be (1,)")
    if not all(x.dtype == np.int32 for x in (kv_lens, page_indices, cu_q_lens)):
        raise ValueError(
            "The dtype of `kv_lens`, `page_indices`, and `cu_q_lens` must be int32. "
            f"Got {kv_lens.dtype=}, {page_indices.dtype=}, {cu_q_lens.dtype=}."
        )
    if sliding_window is not None and sliding_window <= 0:
        raise ValueError(f"{sliding_window=} must be positive.")
    if soft_cap is not None and soft_cap == 0:
        raise ValueError(f"{soft_cap=} must not be 0.0.")
    if num_kv_pages_per_block is not None and not 0 < num_kv_pages_per_block <= pages_per_seq:
        raise ValueError(f"{num_kv_pages_per_block=} must be in range (0, {pages_per_seq}].")
    if num_queries_per_block is not None and num_queries_per_block <= 0:
        raise ValueError(f"{num_queries_per_block=} must be positive.")
    if vmem_limit_bytes is not None and vmem_limit_bytes <= 0:
        raise ValueError(f"{vmem_limit_bytes=} must be positive.")


def dynamic_validate_inputs(
    q: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, **options: Any
) -> None:  # fmt: skip
    """Raise ValueError unless the values of lengths fit, too; they must not be traced."""
    static_validate_inputs(q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, **options)
    lengths, ends, (count,) = [np.asarray(x) for x in (kv_lens, cu_q_lens, num_seqs)]
    max_num_seqs, pages_per_seq = page_indices.shape
    page_size = kv_pages.shape[1]
    if count > max_num_seqs:
        raise ValueError(f"num_seqs[0]={count} must be less or equal to {max_num_seqs=}")
    if ends[count] > q.shape[0]:
        raise ValueError(
            f"Total q tokens {ends[count]} must be less or equal to max_num_batched_tokens={q.shape[0]}."
        )
    max_kv_len = lengths[:count].max(initial=0)
    min_pages_per_seq = -(-max_kv_len // page_size)
    if min_pages_per_seq > pages_per_seq:
        raise ValueError(
            f"{pages_per_seq=} must be greater or equal to {min_pages_per_seq=} given {max_kv_len=} and {page_size=}."
        )
    for i in range(count):
        q_len, kv_len = ends[i + 1] - ends[i], lengths[i]
        if q_len > kv_len:
            raise ValueError(f"{q_len=} must be less or equal to {kv_len=} at sequence {i}.")
