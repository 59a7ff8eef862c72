"""Attention, and matrix products of block-scaled low-precision numbers."""

import functools
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src import dtypes, xla_bridge
from jax._src.api import jit
from jax._src.lax import lax
from jax._src.nn.normalizing import logsumexp, softmax
from jax._src.numpy import util


def _mask_bounds(name: str, window: Any) -> tuple[int, int] | None:
    if window is None:
        return None
    if isinstance(window, (int, np.integer)):
        return int(window), int(window)
    if len(window) != 2:
        raise ValueError(f"{name}: local_window_size must be an int or a pair (left, right), got {window}")
    return int(window[0]), int(window[1])


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
    return_residual: bool = False,
):  # fmt: skip
    """Scaled dot-product attention. Vaswani et al., "Attention is all you need", 2017.

    Args:
      query: array of shape (batch, T, N, H), or (T, N, H).
      key, value: arrays of shape (batch, S, K, H), or (S, K, H); K divides N: each key and value head
        serves N / K query heads.
      bias: added to the logits, of a shape that broadcasts to (batch, N, T, S).
      mask: boolean, of a shape that broadcasts to (batch, N, T, S); False hides.
      scale: factor of the logits; 1 / sqrt(H) by default.
      is_causal: whether positions see only themselves and earlier ones.
      query_seq_lengths, key_value_seq_lengths: int arrays of shape (batch,): what is beyond is padding.
      local_window_size: how many positions to the left and right are seen: an int, or a pair.
      implementation: 'xla', 'cudnn' (NVIDIA GPUs only), or None for 'xla'.
      return_residual: whether to return the logarithms of the normalizers too, of shape (batch, T, N).

    Returns:
      Array of the shape of `query`; with `return_residual` a pair.

    >>> x = jnp.ones((1, 4, 2, 8))
    >>> jax.nn.dot_product_attention(x, x, x).shape
    (1, 4, 2, 8)
    """
    util.check_arraylike("dot_product_attention", query, key, value)
    query, key, value = jnp.asarray(query), jnp.asarray(key), jnp.asarray(value)
    out_shape = query.shape
    if query.ndim not in (3, 4):
        raise ValueError(
            f"dot_product_attention: query must have shape (T, N, H) or (batch, T, N, H), got {query.shape}"
        )
    batched = query.ndim == 4

    def with_batch(x, name):
        if x is None:
            return None
        x = jnp.asarray(x)
        if not batched and x.ndim == 3:
            x = x[None]
        if x.ndim != 4:
            raise ValueError(f"dot_product_attention: {name} must have as many dimensions as query, got {x.shape}")
        return x

    query, key, value = (with_batch(x, n) for x, n in ((query, "query"), (key, "key"), (value, "value")))
    bias, mask = with_batch(bias, "bias"), with_batch(mask, "mask")
    lengths = []
    for lens in (query_seq_lengths, key_value_seq_lengths):
        lengths.append(None if lens is None else jnp.asarray(lens, np.int32).reshape(-1))
    b, t, n, h = query.shape
    s, k = key.shape[1], key.shape[2]
    if key.shape != (b, s, k, h) or value.shape != key.shape:
        raise ValueError(
            "dot_product_attention: key and value must have shape (batch, S, K, H) that fits query "
            f"{query.shape}, got {key.shape} and {value.shape}"
        )
    if n % k:
        raise ValueError(f"dot_product_attention: {n} query heads cannot share {k} key and value heads")
    for x, name in ((bias, "bias"), (mask, "mask")):
        if x is not None and not all(
            d in (1, full) for d, full in zip(x.shape, (b, n, t, s))
        ):
            raise ValueError(f"dot_product_attention: {name} of shape {x.shape} does not broadcast to {(b, n, t, s)}")
    if mask is not None and mask.dtype != np.bool_:
        raise ValueError(f"dot_product_attention: mask must be boolean, got {dtypes.dtype_name(mask.dtype)}")
    for lens, name in zip(lengths, ("query_seq_lengths", "key_value_seq_lengths")):
        if lens is not None and lens.shape != (b,):
            raise ValueError(f"dot_product_attention: {name} must have shape {(b,)}, got {lens.shape}")
    if implementation == "cudnn":
        if not any(d.platform == "gpu" for d in xla_bridge.devices()):
            raise RuntimeError(
                "dot_product_attention: implementation='cudnn' needs an NVIDIA GPU. Use implementation='xla'."
            )
        raise NotImplementedError("dot_product_attention: implementation='cudnn' is not available yet")
    if implementation not in (None, "xla"):
        raise ValueError(f"dot_product_attention: unsupported implementation {implementation!r}: 'xla' or 'cudnn'")
    scale_value = 1.0 / np.sqrt(h) if scale is None else scale
    out = _attention(
        query, key, value, bias, mask, *lengths, scale=scale_value, is_causal=bool(is_causal),
        window=_mask_bounds("dot_product_attention", local_window_size), return_residual=bool(return_residual),
    )  # fmt: skip
    if return_residual:
        encoded, residual = out
        return encoded.reshape(out_shape), (residual if batched else residual[0])
    return out.reshape(out_shape)


@functools.partial(jit, static_argnames=("scale", "is_causal", "window", "return_residual"), inline=True)
def _attention(query, key, value, bias, mask, q_lengths, kv_lengths, *, scale, is_causal, window, return_residual):
    b, t, n, h = query.shape
    s, k = key.shape[1], key.shape[2]
    if n != k:
        # Query heads in groups that share a key and value head.
        query = query.reshape(b, t, k, n // k, h)
        logits = jnp.einsum("BTKGH,BSKH->BKGTS", query, key, preferred_element_type=_logits_dtype(query))
        logits = logits.reshape(b, n, t, s)
    else:
        logits = jnp.einsum("BTNH,BSNH->BNTS", query, key, preferred_element_type=_logits_dtype(query))
    logits = logits * jnp.array(scale, dtype=logits.dtype)
    if bias is not None:
        logits = (logits + bias).astype(logits.dtype)
    seen = _seen(mask, q_lengths, kv_lengths, t, s, is_causal, window)
    if seen is not None:
        hidden = jnp.array(-0.7 * float(dtypes.finfo(logits.dtype).max), dtype=logits.dtype)
        logits = jnp.where(seen, logits, hidden)
    wide = logits.astype(np.float32)
    probs = softmax(wide, axis=-1).astype(key.dtype)
    if n != k:
        encoded = jnp.einsum("BKGTS,BSKH->BTKGH", probs.reshape(b, k, n // k, t, s), value).reshape(b, t, n, h)
    else:
        encoded = jnp.einsum("BNTS,BSNH->BTNH", probs, value)
    if q_lengths is not None:
        inside = (jnp.arange(t) < q_lengths[:, None])[:, :, None, None]
        encoded = encoded * inside.astype(encoded.dtype)
    if return_residual:
        return encoded, jnp.transpose(logsumexp(wide, axis=-1), (0, 2, 1)).astype(key.dtype)
    return encoded


def _logits_dtype(x):
    return np.float32 if x.dtype.itemsize <= 4 else x.dtype


def _seen(mask, q_lengths, kv_lengths, t, s, is_causal, window):
    """The mask of all reasons to hide, of shape (batch or 1, heads or 1, T, S); None if there are none."""
    q_pos = lax.broadcasted_iota(np.int32, (1, 1, t, s), 2)
    k_pos = lax.broadcasted_iota(np.int32, (1, 1, t, s), 3)
    parts = [] if mask is None else [mask]
    if is_causal:
        parts.append(q_pos >= k_pos)
    if window is not None:
        left, right = window
        parts.append((q_pos <= k_pos + left) & (q_pos >= k_pos - right))
    if q_lengths is not None:
        parts.append(q_pos < q_lengths[:, None, None, None])
    if kv_lengths is not None:
        parts.append(k_pos < kv_lengths[:, None, None, None])
    if not parts:
        return None
    return functools.reduce(jnp.logical_and, parts)


# Block-scaled products: each block of numbers along the contracted dimension shares a scale.


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
):
    """A batched matrix product of block-scaled operands.

    Args:
      lhs: array of shape (batch, M, K).
      rhs: array of shape (batch, N, K).
      lhs_scales: array of shape (batch, M, K / block).
      rhs_scales: array of shape (batch, N, K / block).
      preferred_element_type: dtype of the result.

    Returns:
      Array of shape (batch, M, N).
    """
    for name, x in (("lhs", lhs), ("rhs", rhs), ("lhs_scales", lhs_scales), ("rhs_scales", rhs_scales)):
        if np.ndim(x) != 3:
            raise ValueError(f"scaled_matmul requires all inputs to be 3-dimensional arrays, {name} has shape {np.shape(x)}")
    b, m, k = lhs.shape
    n = rhs.shape[1]
    if rhs.shape != (b, n, k):
        raise ValueError(f"scaled_matmul: lhs {lhs.shape} and rhs {rhs.shape} must agree in batch and last dimension")
    for name, x, rows in (("lhs_scales", lhs_scales, m), ("rhs_scales", rhs_scales, n)):
        if x.shape[:2] != (b, rows) or not x.shape[2] or k % x.shape[2]:
            raise ValueError(
                f"scaled_matmul: {name} of shape {x.shape} must have shape {(b, rows)} and a last dimension "
                f"that divides {k}"
            )
    preferred_element_type = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "scaled_matmul")

    def wide(x, scales):
        block = k // scales.shape[-1]
        return x.astype(preferred_element_type) * jnp.repeat(
            scales.astype(preferred_element_type), block, axis=-1
        )

    return jnp.einsum(
        "bmk,bnk->bmn", wide(lhs, lhs_scales), wide(rhs, rhs_scales), preferred_element_type=preferred_element_type
    )
