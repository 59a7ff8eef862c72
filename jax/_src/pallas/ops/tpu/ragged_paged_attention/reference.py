"""Attention of ragged sequences over pages in plain operations: what the kernel computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.nn.functions import softmax
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import arange
from jax._src.numpy.einsum import einsum
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.tpu.ragged_paged_attention.checks import static_validate_inputs
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE


def ref_ragged_paged_attention(
    queries: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any, *,
    sm_scale: float = 1.0, sliding_window: int | None = None, soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE, k_scale: float | None = None, v_scale: float | None = None,
) -> Any:  # fmt: skip
    """Compute attention, sequence by sequence; lengths must not be traced.

    Args:
      queries, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sm_scale, sliding_window, soft_cap, mask_value,
        k_scale, v_scale: as in `ragged_paged_attention`.

    Returns:
      [tokens of the sequences, heads, features].
    """
    static_validate_inputs(
        queries, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs,
        sliding_window=sliding_window, soft_cap=soft_cap,
    )  # fmt: skip
    heads, depth = queries.shape[1:]
    kv_heads = kv_pages.shape[2] // 2
    out = []
    for i in range(int(num_seqs[0])):
        q = queries[int(cu_q_lens[i]) : int(cu_q_lens[i + 1])]
        length = int(kv_lens[i])
        kv = kv_pages[page_indices[i]].reshape(-1, 2 * kv_heads, depth)[:length]
        k, v = [
            x.astype(np.float32) * (1 if scale is None else scale)
            for x, scale in ((kv[:, 0::2], k_scale), (kv[:, 1::2], v_scale))
        ]
        groups = q.reshape(-1, kv_heads, heads // kv_heads, depth).astype(np.float32)
        s = einsum("qhgd,khd->hgqk", groups, k) * sm_scale
        if soft_cap is not None:
            s = soft_cap * ufuncs.tanh(s / soft_cap)
        position = arange(q.shape[0])[:, None] + length - q.shape[0]
        key = arange(length)[None]
        seen = key <= position
        if sliding_window is not None:
            seen = seen & (key > position - sliding_window)
        s = where(seen, s, DEFAULT_MASK_VALUE if mask_value is None else mask_value)
        x = einsum("hgqk,khd->qhgd", softmax(s), v)
        out.append(x.reshape(-1, heads, depth).astype(queries.dtype))
    return concatenate(out) if out else queries[:0]
