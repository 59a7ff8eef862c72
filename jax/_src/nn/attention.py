"""Dot-product attention."""

import math
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.jit.library import inline_jit
from jax._src.lax import lax
from jax._src.nn.cudnn_attention import cudnn_attention
from jax._src.nn.logits_attention import attention_of_logits
from jax._src.nn.tiled_attention import suits_tiles, tiled_attention
from jax._src.numpy.array_constructors import array
from jax._src.numpy.util import check_arraylike, to_array
from jax._src.typing import ArrayLike
from jax._src.util import set_module


@set_module("jax.nn")
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Computes softmax(query @ key.T * scale + bias, masked) @ value for every head.

    Dimensions: batch B, target length T, source length S, N query heads, K key and value heads (N
    is a multiple of K: each key head serves N / K query heads), head size H.

    Args:
      query: array of shape (B, T, N, H), or (T, N, H).
      key, value: arrays of shape (B, S, K, H), or (S, K, H).
      bias: array that broadcasts to (B, N, T, S), added to the logits.
      mask: boolean array that broadcasts to (B, N, T, S): which logits to keep.
      scale: factor of the logits, which may broadcast to (B, N, T, S); by default 1 / sqrt(H).
      is_causal: whether a query attends only to keys up to its own position.
      query_seq_lengths: int32 array of shape (B,): later queries are padding and give zeros.
      key_value_seq_lengths: int32 array of shape (B,): later keys are padding and are masked.
      local_window_size: number of positions before and after its own that a query attends to: an
        int, or a pair (before, after).
      implementation: 'xla', or 'cudnn' for a fused kernel on NVIDIA GPUs, which never has the logits
        in memory. It takes bfloat16 and float16, heads of sizes up to 256 that are multiples of 8,
        windows (before, 0) or with `is_causal`, and, for gradients, even lengths. None means 'xla', or
        on CPUs where jaxlib-ext is installed a kernel that never has them in memory either.
      return_residual: whether to return the log-sum-exps of the logits as well.

    Returns:
      Array of the shape and dtype of `query`; with `return_residual` a pair with an array of shape
      (B, T, N) of the same dtype, whose gradient is stopped. Logits and softmax are computed in float32.

    Raises:
      ValueError: if shapes or dtypes are invalid, or `implementation` is unknown.
      NotImplementedError: if cuDNN has no kernel for the arguments.
      RuntimeError: if `implementation` is 'cudnn' on other platforms than NVIDIA GPUs.
    """
    query, key, value = (
        array(x) if isinstance(x, (list, tuple)) else x for x in (query, key, value)
    )
    check_arraylike("dot_product_attention", query, key, value)
    query, key, value = to_array(query), to_array(key), to_array(value)
    output_shape = query.shape
    if query.ndim == 3 and key.ndim == 3 and value.ndim == 3:
        query, key, value = (lax.expand_dims(x, (0,)) for x in (query, key, value))
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} must have 4 dimensions, (batch, length, heads, size), or all of query, key and "
                f"value 3; got shape {x.shape}"
            )
    b, t, n, h = query.shape
    s, k = key.shape[1:3]
    _check("key", key, (b, None, None, h), query.dtype)
    _check("value", value, (b, s, k, h), query.dtype)
    if not k or n % k:
        raise ValueError(
            f"The number of query heads must be a multiple of key/value heads, but got {n} vs {k}"
        )
    if bias is not None:
        bias = _four_dims("bias", bias, (b, n, t, s))
    if mask is not None:
        if to_array(mask).dtype != np.bool_:
            raise ValueError(
                f"mask dtype should be bool, but got {dtypes.dtype_name(to_array(mask).dtype)}"
            )
        mask = _four_dims("mask", mask, (b, n, t, s))
    lengths = []
    for name, x in (
        ("query_seq_lengths", query_seq_lengths),
        ("key_value_seq_lengths", key_value_seq_lengths),
    ):
        if x is not None:
            x = to_array(x)
            _check(name, x, (b,), np.dtype(np.int32))
        lengths.append(x)
    if local_window_size is None:
        window = None
    elif hasattr(local_window_size, "__len__") and getattr(local_window_size, "ndim", 1):
        window = tuple(
            [w if isinstance(w, core.Tracer) else operator.index(w) for w in local_window_size]
        )
    else:
        window = (operator.index(local_window_size),) * 2
        if len(window) != 2:
            raise ValueError(
                f"local_window_size must be an int or a pair (before, after), got {local_window_size}"
            )
    if implementation not in ("xla", "cudnn", None):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    if scale is None:
        scale = (
            lax.rsqrt(lax.convert_element_type(h, query.dtype))
            if core.is_symbolic_dim(h)
            else 1 / math.sqrt(h)
        )
    elif np.ndim(scale):
        scale = _four_dims("scale", scale, (b, n, t, s))
    attention = cudnn_attention if implementation == "cudnn" else _attention
    if implementation is None and suits_tiles(query, key, bias, mask, scale, window):
        attention = tiled_attention
    out, residual = attention(
        query, key, value, bias, mask, scale, *lengths,
        is_causal=bool(is_causal), window=window, return_residual=bool(return_residual),
    )  # fmt: skip
    out = lax.reshape(out, output_shape)
    if return_residual:
        return out, lax.reshape(residual, output_shape[:-1])
    return out


def _check(name: str, x: Any, shape: tuple, dtype: np.dtype) -> None:
    if x.ndim != len(shape) or any(
        want is not None and d != want for d, want in zip(x.shape, shape)
    ):
        wanted = [-1 if d is None else d for d in shape]
        raise ValueError(f"{name} shape should be {wanted}: but got {x.shape}")
    if x.dtype != dtype:
        raise ValueError(
            f"{name} dtype should be {dtypes.dtype_name(dtype)}, but got {dtypes.dtype_name(x.dtype)}"
        )


def _four_dims(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    x = to_array(x)
    x = lax.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x
    if x.ndim != 4 or any(d not in (1, want) for d, want in zip(x.shape, shape)):
        raise ValueError(
            f"{name} must broadcast to (batch, heads, target length, source length) = {shape}, got "
            f"shape {x.shape}"
        )
    return x


_attention = inline_jit(
    attention_of_logits, static_argnames=("is_causal", "window", "return_residual")
)
