"""Attention of one query for each sequence, to keys in pages: PagedAttention (Kwon et al., 2023, arXiv:2309.06180)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src.api import jit
from jax._src.nn.functions import softmax
from jax._src.numpy import ufuncs
from jax._src.numpy.einsum import einsum
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.gpu.access import DEFAULT_MASK_VALUE, iota, padded, sum_dtype
from jax._src.pallas.ops.gpu.decoding import Keys, Settings
from jax._src.pallas.ops.gpu.decoding_gradient import attend

# So far below scores that the exponential of a difference to one of them is zero.
_MAX_MASK_VALUE = -1e9


@functools.partial(
    jit,
    static_argnames=(
        "block_h", "pages_per_compute_block", "k_splits", "num_warps", "num_stages", "interpret", "debug",
        "mask_value", "attn_logits_soft_cap",
    ),
)  # fmt: skip
def paged_attention(
    q: Any, k_pages: Any, v_pages: Any, block_tables: Any, lengths: Any, k_scales_pages: Any = None,
    v_scales_pages: Any = None, *, block_h: int = 16, pages_per_compute_block: int = 8, k_splits: int = 16,
    num_warps: int = 8, num_stages: int = 2, interpret: bool = False, debug: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE, attn_logits_soft_cap: float | None = None,
) -> Any:  # fmt: skip
    """Compute attention of one query for each sequence and head, to keys that are in pages. Scores are not scaled.

    Args:
      q: queries, [batch, heads, features].
      k_pages, v_pages: keys and values, [heads of keys, pages, page size, features].
      block_tables: which pages each sequence has, [batch, pages of a sequence].
      lengths: None, or the number of keys of each sequence, [batch].
      k_scales_pages, v_scales_pages: None, or factors of quantized keys and values, [heads of keys, pages,
        page size].
      block_h: how many heads of a group are computed at a time: a power of two, 16 at least.
      pages_per_compute_block: how many pages are computed at a time; the number of their keys is rounded up
        to a power of two.
      k_splits: into how many parts the pages of a sequence are divided at most.
      num_warps, num_stages: see `plgpu.CompilerParams`.
      interpret: whether to run the kernel as a program of XLA, which any device can.
      debug: whether to print the kernel.
      mask_value: the score of keys beyond the length, which must be so low that they have no weight: they
        are not computed.
      attn_logits_soft_cap: a bound c of the scores: they become c tanh(score / c).

    Returns:
      [batch, heads, features]; zeros for a sequence without keys. Its derivatives are computed by a kernel, which
      adds to the derivatives of pages in float32, in no order where sequences share pages.

    Raises:
      ValueError: if shapes do not match, or keys beyond the length could have weight.
    """
    if not mask_value <= _MAX_MASK_VALUE:
        raise ValueError(
            f"Keys beyond the length have no weight: mask_value is at most {_MAX_MASK_VALUE:g}, not {mask_value}. Leave it out."
        )
    _check(q, k_pages, v_pages, block_tables, lengths, k_scales_pages, v_scales_pages)
    key_heads, pages, page_size, depth = k_pages.shape
    settings = Settings(
        1.0, block_h, padded(pages_per_compute_block * page_size), k_splits, num_warps, num_stages, None, interpret,
        debug, attn_logits_soft_cap, "paged_attention",
    )  # fmt: skip
    flat = lambda x: None if x is None else x.reshape(key_heads, pages * page_size, *x.shape[3:])
    keys = Keys(
        flat(k_pages),
        flat(v_pages),
        end=None if lengths is None else lengths.astype(np.int32),
        pages=block_tables.astype(np.int32),
        page_size=page_size,
        k_scales=flat(k_scales_pages),
        v_scales=flat(v_scales_pages),
    )
    return attend(q, keys, settings)


def _check(q: Any, k: Any, v: Any, tables: Any, lengths: Any, k_scales: Any, v_scales: Any) -> None:
    if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape:
        raise ValueError(
            "Queries have dimensions for batches, heads and features, and keys and values for heads, pages, positions and "
            f"features, got shapes {q.shape}, {k.shape} and {v.shape}."
        )
    if q.shape[2] != k.shape[3] or q.shape[1] % k.shape[0]:
        raise ValueError(
            "Queries and keys have the same number of features, and the heads of queries are a multiple of those of keys, got "
            f"shapes {q.shape} and {k.shape}."
        )
    if tables.ndim != 2 or len(tables) != len(q):
        raise ValueError(f"Each of {len(q)} sequences has a row of pages, got {tables.shape=}.")
    if lengths is not None and lengths.shape != (len(q),):
        raise ValueError(f"Each of {len(q)} sequences has a length, got {lengths.shape=}.")
    for what, scales in (("k", k_scales), ("v", v_scales)):
        if scales is not None and scales.shape != k.shape[:3]:
            raise ValueError(
                f"Factors of quantized rows have the shape {k.shape[:3]}, got {scales.shape} for {what}_scales_pages."
            )


@functools.partial(jit, static_argnames=("mask_value", "attn_logits_soft_cap"))
def paged_attention_reference(
    q: Any, k: Any, v: Any, lengths: Any, *, mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
) -> Any:  # fmt: skip
    """Compute what `paged_attention` does, of keys and values in order: [batch, keys, heads of keys, features]."""
    dtype = sum_dtype(q.dtype)
    grouped = q.reshape(q.shape[0], k.shape[2], -1, q.shape[2])
    scores = einsum("bhgc,bkhc->bhgk", grouped, k, preferred_element_type=dtype)
    if attn_logits_soft_cap is not None:
        scores = ufuncs.tanh(scores / attn_logits_soft_cap) * attn_logits_soft_cap
    if lengths is not None:
        mask = iota(k.shape[1]) < lengths[:, None]
        scores = where(mask[:, None, None], scores, mask_value)
    out = einsum("bhgk,bkhc->bhgc", softmax(scores), v, preferred_element_type=dtype)
    return out.reshape(q.shape).astype(q.dtype)
