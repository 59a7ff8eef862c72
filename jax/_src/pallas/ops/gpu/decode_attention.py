"""Attention of one query for each sequence, to keys that are in order."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jax._src.api import jit, vjp
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.lax import lax
from jax._src.numpy import reductions, ufuncs
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.einsum import einsum
from jax._src.numpy.manipulation.shape import broadcast_to
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.gpu.access import DEFAULT_MASK_VALUE, iota, sum_dtype
from jax._src.pallas.ops.gpu.decoding import Keys, Settings, decode, normalized
from jax._src.pallas.ops.gpu.decoding_gradient import attend

_STATIC = (
    "sm_scale", "block_h", "block_k", "k_splits", "num_warps", "num_stages", "grid", "interpret", "debug",
    "return_residuals", "normalize_output",
)  # fmt: skip
_STATIC_OF_REFERENCE = ("sm_scale", "return_residuals", "normalize_output")


def _bounds(x: Any, batch: int) -> Any:
    return None if x is None else broadcast_to(asarray(x).astype(np.int32), (batch,))


def _scale(sm_scale: float | None, q: Any) -> float:
    return 1 / math.sqrt(q.shape[-1]) if sm_scale is None else sm_scale


def _check(q: Any, k: Any, v: Any) -> None:
    if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape:
        raise ValueError(
            "Queries have dimensions for batches, heads and features, and keys and values for batches, positions, heads and "
            f"features, got shapes {q.shape}, {k.shape} and {v.shape}."
        )
    if q.shape[0] != k.shape[0] or q.shape[2] != k.shape[3] or q.shape[1] % k.shape[2]:
        raise ValueError(
            "Queries and keys have the same numbers of batches and features, and the heads of queries are a multiple of those "
            f"of keys, got shapes {q.shape} and {k.shape}."
        )


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _with_sums(settings: Settings, q: Any, k: Any, v: Any, start: Any, end: Any) -> Any:
    """Return what `decode` does, whose derivative is that of whole arrays of scores."""
    return decode(q, Keys(k, v, start, end), settings)


def _forward(settings: Settings, *args: Any) -> Any:
    return _with_sums(settings, *args), args


def _backward(settings: Settings, args: tuple[Any, ...], cotangents: Any) -> Any:
    q, k, v, start, end = args
    plain = lambda q, k, v: _plain(q, k, v, start, end, settings.sm_scale)
    return *vjp(plain, q, k, v)[1](cotangents), None, None


_with_sums.defvjp(_forward, _backward)


def _plain(q: Any, k: Any, v: Any, start: Any, end: Any, sm_scale: float) -> Any:
    """Compute what `decode` does, by whole arrays of scores."""
    scores, seen = _scores(q, k, start, end, sm_scale)
    if seen is not None:
        scores = where(seen, scores, -np.inf)
    greatest = reductions.max(scores, axis=-1)
    base = where(greatest == -np.inf, 0, greatest)
    weights = ufuncs.exp(scores - base[..., None])
    out = einsum("bhgk,bkhc->bhgc", weights, v, preferred_element_type=scores.dtype)
    flat = lambda x: x.reshape(*q.shape[:2], *x.shape[3:])
    return flat(out), flat(reductions.sum(weights, axis=-1)), flat(greatest)


def _scores(q: Any, k: Any, start: Any, end: Any, sm_scale: float) -> tuple[Any, Any]:
    """Return scores, [batch, heads of keys, group, keys], and which of them there are, or None if all."""
    grouped = q.reshape(q.shape[0], k.shape[2], -1, q.shape[2])
    scores = einsum("bhgc,bkhc->bhgk", grouped, k, preferred_element_type=sum_dtype(q.dtype))
    shape = len(q), k.shape[1]
    positions, seen = broadcast_to(iota(k.shape[1]), shape), None
    for bound, compare in ((start, lax.ge), (end, lax.lt)):
        if bound is not None:
            mask = compare(positions, broadcast_to(_bounds(bound, len(q))[:, None], shape))
            seen = mask if seen is None else seen & mask
    return scores * sm_scale, None if seen is None else seen[:, None, None]


@functools.partial(jit, static_argnames=_STATIC)
def gqa(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: float | None = None,
    block_h: int = 16, block_k: int = 128, k_splits: int = 16, num_warps: int | None = None,
    num_stages: int = 2, grid: tuple[int, ...] | None = None, interpret: bool = False, debug: bool = False,
    return_residuals: bool = False, normalize_output: bool = True,
) -> Any:  # fmt: skip
    """Compute attention of one query for each sequence and head, where groups of heads share keys.

    Args:
      q: queries, [batch, heads, features].
      k, v: keys and values, [batch, keys, heads of keys, features].
      start_idx, kv_seq_len: None, or the first key, and the one after the last: numbers, or one for each
        sequence.
      sm_scale: a factor of the scores; None for one over the square root of the number of features.
      block_h, block_k: how many heads of a group and keys are computed at a time; powers of two, 16 at least.
      k_splits: into how many parts keys are divided at most.
      num_warps, num_stages: see `plgpu.CompilerParams`.
      grid: None, or the number of batches, heads of keys, blocks of heads, and parts of keys.
      interpret: whether to run the kernel as a program of XLA, which any device can.
      debug: whether to print the kernel.
      return_residuals: whether to return also the sums of exponentials and the maxima of scores, both
        [batch, heads].
      normalize_output: whether to divide by the sums of exponentials.

    Returns:
      [batch, heads, features], with `return_residuals` in a tuple `out, (sums, maxima)`. Without any key
      it is zero. Derivatives are computed by a kernel; of sums and of what is not normalized by whole arrays of scores.

    Raises:
      ValueError: if shapes do not match.
    """
    _check(q, k, v)
    settings = Settings(
        _scale(sm_scale, q), block_h, block_k, k_splits, num_warps, num_stages, grid, interpret, debug
    )  # fmt: skip
    keys = Keys(k, v, _bounds(start_idx, len(q)), _bounds(kv_seq_len, len(q)))
    if normalize_output and not return_residuals:
        return attend(q, keys, settings)
    out, total, greatest = _with_sums(settings, q, *keys[:4])
    if normalize_output:
        out = normalized(out, total)
    out = out.astype(q.dtype)
    return (out, (total, greatest)) if return_residuals else out


@functools.partial(jit, static_argnames=_STATIC)
def mqa(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: float | None = None,
    block_h: int = 16, block_k: int = 256, k_splits: int = 16, num_warps: int | None = None,
    num_stages: int = 2, grid: tuple[int, ...] | None = None, interpret: bool = False, debug: bool = False,
    return_residuals: bool = False, normalize_output: bool = True,
) -> Any:  # fmt: skip
    """Compute what `gqa` does, where all heads share keys and values: [batch, keys, features]."""
    if k.ndim != 3 or v.ndim != 3:
        raise ValueError(
            f"Keys and values have dimensions for batches, positions and features, got shapes {k.shape} and {v.shape}."
        )
    return gqa(
        q, k[:, :, None], v[:, :, None], start_idx, kv_seq_len, sm_scale, block_h, block_k, k_splits, num_warps,
        num_stages, grid, interpret, debug, return_residuals, normalize_output,
    )  # fmt: skip


@functools.partial(jit, static_argnames=_STATIC_OF_REFERENCE)
def gqa_reference(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: float | None = None,
    return_residuals: bool = False, normalize_output: bool = True,
) -> Any:  # fmt: skip
    """Compute what `gqa` does, by whole arrays of scores; without any key it is the mean of all values."""
    _check(q, k, v)
    scores, seen = _scores(q, k, start_idx, kv_seq_len, _scale(sm_scale, q))
    if seen is not None:
        scores = where(seen, scores, DEFAULT_MASK_VALUE)
    greatest = reductions.max(scores, axis=-1)
    weights = ufuncs.exp(scores - greatest[..., None])
    total = reductions.sum(weights, axis=-1)
    if normalize_output:
        weights = weights / total[..., None]
    out = einsum("bhgk,bkhc->bhgc", weights, v, preferred_element_type=scores.dtype)
    out = out.reshape(q.shape).astype(q.dtype)
    if not return_residuals:
        return out
    return out, (total.reshape(q.shape[:2]), greatest.reshape(q.shape[:2]))


@functools.partial(jit, static_argnames=_STATIC_OF_REFERENCE)
def mqa_reference(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: float | None = None,
    return_residuals: bool = False, normalize_output: bool = True,
) -> Any:  # fmt: skip
    """Compute what `mqa` does, by whole arrays of scores."""
    return gqa_reference(
        q, k[:, :, None], v[:, :, None], start_idx, kv_seq_len, sm_scale, return_residuals, normalize_output
    )  # fmt: skip


@functools.partial(jit, static_argnames=("sm_scale",))
def mha_reference(
    q: Any,
    k: Any,
    v: Any,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: float | None = None,
) -> Any:
    """Compute attention where each head has keys of its own, by whole arrays of scores."""
    return gqa_reference(q, k, v, start_idx, kv_seq_len, sm_scale)
