"""Dot-product attention by ordinary operations, which has the logits in memory."""

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lax.lax import DotAlgorithmPreset
from jax._src.nn.functions import softmax_impl
from jax._src.numpy.util import select_where
from jax._src.ops.special import logsumexp_impl

# Value of masked logits: finite, so that a row in which all logits are masked does not become NaN.
MASKED = -0.7 * float(np.finfo(np.float32).max)


def attention_of_logits(
    query,
    key,
    value,
    bias,
    mask,
    scale,
    query_lengths,
    key_lengths,
    *,
    is_causal,
    window,
    return_residual,
):
    """Returns the attention and, if asked for, the log-sum-exps of the logits, in its dtype.

    Args:
      query: array of shape (B, T, N, H).
      key, value: arrays of shape (B, S, K, H).
      bias, mask: arrays that broadcast to (B, N, T, S), or None.
      scale: array or number by which logits are multiplied.
      query_lengths, key_lengths: int32 arrays of shape (B,), or None.
      is_causal: whether a query attends only to keys up to its position.
      window: how many positions before and after its own a query attends to, or None for all.
      return_residual: whether to return the log-sum-exps, of shape (B, T, N). They have no gradient.
    """
    b, t, n, h = query.shape
    s, k = key.shape[1:3]
    dtype = query.dtype
    # Logits of shape (batch, key heads, target, query heads of a key head, source).
    grouped = lax.reshape(query, (b, t, k, n // k, h))
    logits = lax.dot_general(
        grouped, key, (((4,), (3,)), ((0, 2), (0, 2))),
        precision=_PRECISIONS.get(dtype), preferred_element_type=accumulator(dtype),
    )  # fmt: skip
    scale = lax.convert_element_type(scale, logits.dtype)
    logits = logits * (_grouped(scale, k) if scale.ndim else scale)
    if bias is not None:
        logits = logits + _grouped(bias, k)
    allowed = _allowed(mask, query_lengths, key_lengths, is_causal, window, b, t, s, k)
    if allowed is not None:
        logits = select_where(allowed, logits, np.asarray(MASKED, logits.dtype))
    # The softmax's sums need more precision than 16 bits.
    logits = lax.convert_element_type(logits, accumulator(dtype))
    weights = lax.convert_element_type(softmax_impl(logits, None, axes=(4,)), dtype)
    out = lax.dot_general(
        weights, value, (((4,), (1,)), ((0, 1), (0, 2))), preferred_element_type=dtype
    )
    out = lax.reshape(lax.transpose(out, (0, 2, 1, 3, 4)), (b, t, n, h))
    if query_lengths is not None:
        within = lax.lt(lax.broadcasted_iota(np.int32, (b, t), 1), _column(query_lengths, (b, t)))
        # The operator brings both into one sharding.
        out = out * lax.expand_dims(within.astype(dtype), (2, 3))
    if not return_residual:
        return out, None
    sums, _ = logsumexp_impl(logits, None, None, axes=(4,), keepdims=False, return_sign=False)
    sums = lax.stop_gradient(lax.transpose(sums, (0, 2, 1, 3)))
    return out, lax.convert_element_type(lax.reshape(sums, (b, t, n)), dtype)


attention_of_logits.__name__ = "dot_product_attention"

# bfloat16 products are accumulated in float32. The corresponding preset for float16, F16_F16_F32,
# does not run on CPUs; there the float32 output dtype alone has the same effect.
_PRECISIONS = {np.dtype(dtypes.bfloat16): DotAlgorithmPreset.BF16_BF16_F32}


def accumulator(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def _grouped(x, k: int):
    """Reshapes (batch, heads, target, source), any of which may be 1, to the layout of logits."""
    b, n, t, s = x.shape
    x = lax.reshape(x, (b, k, n // k, t, s) if n > 1 else (b, 1, 1, t, s))
    return lax.transpose(x, (0, 1, 3, 2, 4))


def _column(lengths, shape):
    return lax.broadcast_in_dim(lengths, shape, (0,))


def _allowed(mask, query_lengths, key_lengths, is_causal, window, b, t, s, k):
    """Returns the mask of logits to keep, or None for all."""
    parts = []
    if mask is not None:
        parts.append(_grouped(mask, k))
    rows, cols = (lax.broadcasted_iota(np.int32, (t, s), d) for d in (0, 1))
    if is_causal:
        parts.append(lax.ge(rows, cols))
    if window is not None:
        before, after = window
        parts.append(lax.le(rows, cols + before) & lax.ge(rows, cols - after))
    for lengths, positions in ((query_lengths, rows), (key_lengths, cols)):
        if lengths is not None:
            positions = lax.broadcast_to(positions, (b, t, s))
            parts.append(lax.lt(positions, _column(lengths, (b, t, s))))
    if not parts:
        return None
    allowed = None
    for part in parts:
        if part.ndim == 2:
            part = lax.expand_dims(part, (0, 1, 3))
        elif part.ndim == 3:
            part = lax.expand_dims(part, (1, 3))
        allowed = part if allowed is None else allowed & part
    return allowed
