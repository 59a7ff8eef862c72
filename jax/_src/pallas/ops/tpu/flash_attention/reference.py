"""Attention in plain operations: what the kernels compute."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src.api import jit
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.einsum import einsum
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.tpu.flash_attention.settings import SegmentIds
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE


def _scores(
    q: Any, k: Any, bias: Any, ids: SegmentIds | None, causal: bool, mask_value: float, sm_scale: float
) -> Any:  # fmt: skip
    s = einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=np.float32)
    if sm_scale != 1:
        s = s * sm_scale
    if bias is not None:
        s = s + bias
    seen = None
    if ids is not None:
        seen = ids.q[:, None, :, None] == ids.kv[:, None, None, :]
    if causal:
        shape = (q.shape[2], k.shape[2])
        position = functools.partial(lax.broadcasted_iota, np.int32, shape)
        before = position(1) <= position(0)
        seen = before if seen is None else seen & before
    return s if seen is None else where(seen, s, mask_value)


def mha_reference_no_custom_vjp(
    q: Any, k: Any, v: Any, ab: Any = None, segment_ids: SegmentIds | None = None, *,
    causal: bool = False, mask_value: float = DEFAULT_MASK_VALUE, sm_scale: float = 1.0,
    save_residuals: bool = False,
) -> Any:  # fmt: skip
    """Compute attention in plain operations, which JAX differentiates.

    Args:
      q, k, v, ab, segment_ids, causal, sm_scale: as in `flash_attention`.
      mask_value: the score of keys that a query does not see.
      save_residuals: whether to return the sums of exponentials and the greatest scores, too.

    Returns:
      [batch, heads, queries, features]; if asked for, with two arrays [batch, heads, queries].
    """
    s = _scores(q, k, ab, segment_ids, causal, mask_value, sm_scale)
    m = s.max(-1)
    p = ufuncs.exp(s - m[..., None])
    total = p.sum(-1)
    out = einsum("bhqk,bhkd->bhqd", (p / total[..., None]).astype(v.dtype), v)
    return (out, total, m) if save_residuals else out


@functools.partial(jit, static_argnames=("causal", "mask_value", "sm_scale"))
def mha_reference_bwd(
    q: Any, k: Any, v: Any, ab: Any, segment_ids: SegmentIds | None, o: Any, l: Any, m: Any, do: Any,
    causal: bool = False, mask_value: float = DEFAULT_MASK_VALUE, sm_scale: float = 1.0,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Compute the cotangents of attention's arguments, as the kernels do.

    Args:
      q, k, v, ab, segment_ids, causal, mask_value, sm_scale: as in `mha_reference_no_custom_vjp`.
      o, l, m: its results with `save_residuals`.
      do: cotangents of the results.

    Returns:
      The cotangents of q, k, v, and of ab, or None without one.
    """
    s = _scores(q, k, ab, segment_ids, causal, mask_value, sm_scale)
    p = ufuncs.exp(s - m[..., None]) / l[..., None]
    dv = einsum("bhqk,bhqd->bhkd", p, do).astype(v.dtype)
    delta = (o.astype(np.float32) * do).sum(-1, keepdims=True)
    ds = p * (einsum("bhqd,bhkd->bhqk", do, v, preferred_element_type=np.float32) - delta)
    dab = None if ab is None else ds.astype(ab.dtype)
    ds = ds * sm_scale
    dq = einsum("bhqk,bhkd->bhqd", ds, k).astype(q.dtype)
    dk = einsum("bhqk,bhqd->bhkd", ds, q).astype(k.dtype)
    return dq, dk, dv, dab


@functools.partial(custom_vjp, nondiff_argnums=(5, 6, 7))
def _mha_reference(
    q: Any, k: Any, v: Any, ab: Any, ids: Any, causal: bool, mask_value: float, sm_scale: float
) -> Any:  # fmt: skip
    return mha_reference_no_custom_vjp(
        q, k, v, ab, ids, causal=causal, mask_value=mask_value, sm_scale=sm_scale
    )


def _forward(
    q: Any, k: Any, v: Any, ab: Any, ids: Any, causal: bool, mask_value: float, sm_scale: float
) -> Any:  # fmt: skip
    out = mha_reference_no_custom_vjp(
        q, k, v, ab, ids, causal=causal, mask_value=mask_value, sm_scale=sm_scale, save_residuals=True
    )  # fmt: skip
    return out[0], (q, k, v, ab, ids, *out)


def _backward(
    causal: bool, mask_value: float, sm_scale: float, residuals: tuple[Any, ...], do: Any
) -> Any:
    cotangents = mha_reference_bwd(*residuals, do, causal, mask_value, sm_scale)
    return *cotangents, None


_mha_reference.defvjp(_forward, _backward)


@functools.partial(jit, static_argnames=("causal", "mask_value", "sm_scale"))
def mha_reference(
    q: Any, k: Any, v: Any, ab: Any, segment_ids: SegmentIds | None = None, causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE, sm_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Compute attention in plain operations, with the derivative that the kernels have.

    Args:
      q, k, v, ab, segment_ids, causal, mask_value, sm_scale: as in `mha_reference_no_custom_vjp`.

    Returns:
      [batch, heads, queries, features].
    """
    return _mha_reference(q, k, v, ab, segment_ids, causal, mask_value, sm_scale)
