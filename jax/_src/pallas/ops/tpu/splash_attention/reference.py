"""Attention with a mask, in plain operations: what the kernels compute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.manipulation import repeat
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.tpu.splash_attention.attention import SegmentIds
from jax._src.pallas.ops.tpu.splash_attention.masks import Mask
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE
from jax._src.transforms.vmap import vmap


def attention_reference(
    mask: Any, q: Any, k: Any, v: Any, segment_ids: SegmentIds | None, sinks: Any = None, *,
    mask_value: float = DEFAULT_MASK_VALUE, save_residuals: bool = False,
    attn_logits_soft_cap: float | None = None,
) -> Any:  # fmt: skip
    """Compute attention of one head.

    Args:
      mask: booleans, [queries, keys].
      q, k, v: queries, keys and values, [number, features].
      segment_ids: segments of queries and keys, or None.
      sinks: a score that takes part in the sum of exponentials only, or None.
      mask_value: the score of what the mask leaves out.
      save_residuals: whether to return the logarithms of the sums of exponentials, too.
      attn_logits_soft_cap: a bound c of the scores: they become c tanh(score / c).

    Returns:
      [queries, features of values]; with `save_residuals` a pair of that and `(logarithms,)`.
    """
    scores = lax.dot_general(q.astype(np.float32), k.astype(np.float32), (((1,), (1,)), ((), ())))
    if attn_logits_soft_cap is not None:
        scores = attn_logits_soft_cap * ufuncs.tanh(scores / attn_logits_soft_cap)
    seen = asarray(mask)
    if segment_ids is not None:
        seen = seen & (segment_ids.q[:, None] == segment_ids.kv[None, :])
    scores = where(seen, scores, mask_value)
    greatest = scores.max(1, keepdims=True)
    if sinks is not None:
        greatest = ufuncs.maximum(greatest, sinks.astype(np.float32))
    weights = ufuncs.exp(scores - greatest)
    total = weights.sum(1, keepdims=True)
    if sinks is not None:
        total = total + ufuncs.exp(sinks.astype(np.float32) - greatest)
    out = ((weights / total) @ v.astype(np.float32)).astype(q.dtype)
    if not save_residuals:
        return out
    return out, ((greatest + ufuncs.log(total))[:, 0],)


def make_attention_reference(
    mask: Mask | np.ndarray, is_mqa: bool, **params: Any
) -> Callable[..., Any]:
    """Make a function like those of `make_splash_mha` and `make_splash_mqa`, in plain operations.

    Args:
      mask: the mask of each head, [heads, queries, keys].
      is_mqa: whether all heads share keys and values.
      **params: options of `attention_reference`.
    """
    array = asarray(mask[:, :, :])
    one_head = functools.partial(attention_reference, **params)

    def run(
        q: Any, k: Any, v: Any, segment_ids: SegmentIds | None = None, sinks: Any = None
    ) -> Any:
        if not is_mqa and k.shape[0] != q.shape[0]:
            k, v = [repeat(x, q.shape[0] // x.shape[0], axis=0) for x in (k, v)]
        shared = None if is_mqa else 0
        over_sinks = None if sinks is None else 0
        each = vmap(one_head, (0, 0, shared, shared, None, over_sinks))
        return each(array, q, k, v, segment_ids, sinks)

    return run


make_masked_mha_reference = functools.partial(make_attention_reference, is_mqa=False)
make_masked_mqa_reference = functools.partial(make_attention_reference, is_mqa=True)
