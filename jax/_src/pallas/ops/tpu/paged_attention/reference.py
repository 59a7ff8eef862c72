"""Attention of one query for each sequence in plain operations: what the kernel computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.debugging import debug_print
from jax._src.nn.functions import softmax
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import arange
from jax._src.numpy.einsum import einsum
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.tpu.paged_attention.quantization import (
    QuantizedTensor,
    unquantize_from_int8,
)
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE


def grouped_query_attention_reference(
    queries: Any, k_pages: Any, v_pages: Any, seq_lens: Any, soft_cap: float | None = None, debug: bool = False
) -> Any:  # fmt: skip
    """Compute attention of one query for each sequence.

    Args:
      queries: [batch, heads, features].
      k_pages, v_pages: keys and values of each sequence, [batch, heads of keys, number, features], or
        `QuantizedTensor`s of them.
      seq_lens: how many keys each sequence has, [batch].
      soft_cap: a bound c of the scores: they become c tanh(score / c).
      debug: whether to print the scores.

    Returns:
      [batch, heads, features].
    """
    k, v = [
        unquantize_from_int8(x, np.float32) if isinstance(x, QuantizedTensor) else x
        for x in (k_pages, v_pages)
    ]
    batch, heads, depth = queries.shape
    q = queries.reshape(batch, k.shape[1], heads // k.shape[1], depth)
    s = einsum("bhgd,bhkd->bhgk", q.astype(np.float32), k.astype(np.float32))
    if soft_cap is not None:
        s = ufuncs.tanh(s / soft_cap) * soft_cap
    if debug:
        debug_print("scores: {}", s)
    seen = arange(k.shape[2])[None] < seq_lens[:, None]
    s = where(seen[:, None, None], s, DEFAULT_MASK_VALUE)
    out = einsum("bhgk,bhkd->bhgd", softmax(s), v.astype(np.float32))
    return out.reshape(batch, heads, depth).astype(queries.dtype)
