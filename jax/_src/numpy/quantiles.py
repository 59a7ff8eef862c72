"""Quantiles, percentiles and medians, with variants that ignore NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import cumulative, reductions, util
from jax._src.numpy.reductions import Axis, hashable_axis
from jax._src.numpy.ufuncs_unary import isnan
from jax._src.numpy.util import (
    check_arraylike,
    ensure_arraylike,
    export,
    promote_dtypes_inexact,
    select_where,
)
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis_tuple

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


@export
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Computes quantiles over axes.

    Args:
      a: real array.
      q: probabilities from 0 to 1: a scalar or a vector.
      axis: an axis, a sequence of axes, or None for all.
      out, overwrite_input: must be None and False.
      method: value for a quantile between two elements: "linear" interpolates, "lower", "higher"
        and "nearest" take one of them, "midpoint" takes their mean. "inverted_cdf" takes the first
        element at which the cumulative distribution reaches `q`.
      keepdims: whether the result keeps the axes with size 1.
      weights: weights, of the shape of `a` or of its sizes along `axis`; for "inverted_cdf" only.

    Returns:
      A floating-point array: the shape of `q`, followed by the shape of `a` without the axes. It is
      NaN where a reduced element is NaN, or there is none. Its dtype is that of `a` and `weights`
      together.

    Raises:
      ValueError: if `a` is complex, `method` is unknown, or `q` has more than one dimension.

    >>> jnp.quantile(jnp.arange(5.), jnp.array([0.25, 0.5]))
    Array([1., 2.], dtype=float32)
    """
    return _call("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@export
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Computes quantiles over axes, ignoring NaNs; takes the arguments of `quantile`.

    >>> jnp.nanquantile(jnp.array([1., jnp.nan, 3.]), 0.5)
    Array(2., dtype=float32)
    """
    return _call("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@export
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Computes percentiles over axes: quantiles where `q` is from 0 to 100.

    Takes the arguments of `quantile`, and `out_sharding`, the sharding of the result in explicit
    mode.

    >>> jnp.percentile(jnp.arange(5.), 25)
    Array(1., dtype=float32)
    """
    check_arraylike("percentile", a, q)
    out = _call(
        "percentile", a, q, axis, out, overwrite_input, method, keepdims, weights, scale=100
    )
    if out_sharding is None:
        return out
    sharding = canonicalize_sharding(out_sharding, "percentile")
    return lax.broadcast_in_dim(out, out.shape, range(out.ndim), out_sharding=sharding)


@export
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Computes percentiles over axes, ignoring NaNs; takes the arguments of `percentile`.

    >>> jnp.nanpercentile(jnp.array([1., jnp.nan, 3.]), 50)
    Array(2., dtype=float32)
    """
    return _call(
        "nanpercentile", a, q, axis, out, overwrite_input, method, keepdims, weights, scale=100
    )


@export
def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Computes medians over axes; takes the arguments of `quantile`.

    >>> jnp.median(jnp.array([7., 1., 2., 4.]))
    Array(3., dtype=float32)
    """
    return _call("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None)


@export
def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Computes medians over axes, ignoring NaNs; takes the arguments of `quantile`.

    >>> jnp.nanmedian(jnp.array([7., jnp.nan, 2., 4.]))
    Array(4., dtype=float32)
    """
    return _call("nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None)


def _call(name, a, q, axis, out, overwrite_input, method, keepdims, weights, scale=1):
    check_arraylike(name, a, q)
    if weights is not None:
        check_arraylike(name, weights)
    if overwrite_input or out is not None:
        raise ValueError(f"jax.numpy.{name} does not support overwrite_input=True or out != None")
    if method not in _METHODS:
        raise ValueError(
            "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or 'inverted_cdf'"
        )
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."
        )
    return _programs[name](
        a,
        q,
        weights,
        axis=hashable_axis(axis),
        method=method,
        keepdims=bool(keepdims),
        scale=scale,
    )


def _quantile(name, a, q, weights, *, axis, method, keepdims, scale):
    a, q = ensure_arraylike(name, a, q)
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise ValueError(
            f"{name} does not support complex input, as the operation is poorly defined."
        )
    dtype = a.dtype
    if weights is not None:
        weights = ensure_arraylike(name, weights)
        dtype = dtypes.promote_types(dtype, weights.dtype)
    dtype = dtypes.to_inexact_dtype(dtype)
    (a,) = promote_dtypes_inexact(a)
    (q,) = promote_dtypes_inexact(q)
    if scale != 1:
        q = lax.div(q, lax.const(q, scale))
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    shape = a.shape
    axes = canonicalize_axis_tuple(axis, a.ndim)
    if weights is not None:
        weights = _full_weights(weights, a, axes, axis)
    a = _reduced_last(a, axes)
    ignore_nan = name.startswith("nan")
    if not a.size:
        out = lax.full((*q.shape, *a.shape[:-1]), np.nan, dtype)
    elif method == "inverted_cdf" and weights is not None:
        out = _weighted(a, _reduced_last(weights, axes), q, ignore_nan)
    else:
        out = _unweighted(a, q, method, ignore_nan)
    if keepdims:
        kept = [1 if i in axes else d for i, d in enumerate(shape)]
        out = lax.reshape(out, (*q.shape, *kept))
    return lax.convert_element_type(out, dtype)


def _full_weights(weights, a, axes, axis):
    (weights,) = promote_dtypes_inexact(weights)
    if weights.shape == a.shape:
        return weights
    if axis is None:
        raise ValueError("Weights shape must match 'a' shape when axis is None.")
    reduced = tuple([a.shape[i] for i in axes])
    if weights.shape != reduced:
        raise ValueError(f"Weights shape {weights.shape} must match reduction axes {reduced}")
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    weights = lax.transpose(weights, order)
    return lax.broadcast_in_dim(weights, a.shape, sorted(axes))


def _reduced_last(a, axes):
    """Moves the axes to reduce to the end and merges them into one."""
    rest = [i for i in range(a.ndim) if i not in axes]
    size = math.prod([a.shape[i] for i in axes])
    a = lax.transpose(a, [*rest, *axes])
    return lax.reshape(a, (*a.shape[: len(rest)], size))


def _unweighted(a, q, method, ignore_nan):
    axis, n = a.ndim - 1, a.shape[-1]
    is_nan = isnan(a)
    if ignore_nan:
        # NaNs of either sign become the positive one, which sorts to the end.
        a = lax.sort(select_where(is_nan, np.nan, a), dimension=axis)
        count = reductions.sum(lax.bitwise_not(is_nan), axis=-1, dtype=q.dtype)
        count = lax.broadcast(count, q.shape)
        position_q = lax.broadcast_in_dim(q, count.shape, range(q.ndim))
    else:
        a = lax.sort(
            select_where(reductions.any(is_nan, axis=-1, keepdims=True), np.nan, a), dimension=axis
        )
        count, position_q = lax.const(q, n), q
    # The positions of the quantiles among the sorted elements, which may lie between two of them.
    last = lax.sub(count, lax.one(q))
    if method == "inverted_cdf":
        position = lax.sub(lax.ceil(lax.mul(position_q, count)), lax.one(q))
    else:
        position = lax.mul(position_q, last)
    low, high = lax.floor(position), lax.ceil(position)
    high_weight = lax.sub(position, low)
    low_weight = lax.sub(lax.one(q), high_weight)
    low, high = [
        lax.max(lax.zero(q), lax.min(*util.promote_shapes("quantile", i, last)))
        for i in (low, high)
    ]
    low, high = [lax.convert_element_type(i, np.int32) for i in (low, high)]
    low_value, high_value = [_pick(a, i, q.ndim) for i in (low, high)]
    if method == "linear":
        low_weight, high_weight = [
            lax.broadcast_in_dim(w, low_value.shape, range(w.ndim))
            for w in (low_weight, high_weight)
        ]
        low_value, high_value = [
            lax.convert_element_type(v, q.dtype) if v.dtype != q.dtype else v
            for v in (low_value, high_value)
        ]
        return lax.add(
            lax.mul(low_value, lax.convert_element_type(low_weight, low_value.dtype)),
            lax.mul(high_value, lax.convert_element_type(high_weight, low_value.dtype)),
        )
    if method in ("lower", "inverted_cdf"):
        return low_value
    if method == "higher":
        return high_value
    if method == "nearest":
        nearer = lax.le(high_weight, lax.const(high_weight, 0.5))
        nearer = lax.broadcast_in_dim(nearer, low_value.shape, range(nearer.ndim))
        return lax.select_n(nearer, high_value, low_value)
    return lax.mul(lax.add(low_value, high_value), lax.const(low_value, 0.5))


def _pick(a, index, q_ndim):
    """Gathers elements along the last axis of `a`: at the same positions everywhere, or at others.

    An `index` with more dimensions than `q` has positions for each element of the batch.
    """
    batch = a.shape[:-1]
    promise = slicing.GatherScatterMode.PROMISE_IN_BOUNDS
    if index.ndim == q_ndim:
        dnums = slicing.GatherDimensionNumbers(
            offset_dims=tuple(range(q_ndim, q_ndim + len(batch))),
            collapsed_slice_dims=(a.ndim - 1,),
            start_index_map=(a.ndim - 1,),
        )
        start = lax.expand_dims(index, (index.ndim,))
        return slicing.gather(a, start, dnums, (*batch, 1), mode=promise)
    # One gather with batching dimensions, which follow those of q in `index`.
    n = len(batch)
    dnums = slicing.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(n,),
        start_index_map=(n,),
        operand_batching_dims=tuple(range(n)),
        start_indices_batching_dims=tuple(range(q_ndim, q_ndim + n)),
    )
    start = lax.expand_dims(index, (index.ndim,))
    return slicing.gather(a, start, dnums, (1,) * a.ndim, mode=promise)


def _weighted(a, w, q, ignore_nan):
    axis, n = a.ndim - 1, a.shape[-1]
    is_nan = isnan(a)
    if not ignore_nan:
        a = select_where(reductions.any(is_nan, axis=-1, keepdims=True), np.nan, a)
    a, w = lax.sort((select_where(is_nan, np.nan, a), w), dimension=axis, num_keys=1)
    is_nan = isnan(a)
    zero = lax.zero(w)
    invalid = lax.bitwise_or(lax.lt(w, zero), isnan(w))
    w = select_where(lax.bitwise_or(invalid, is_nan), zero, w)
    # A quantile is the first element whose cumulative weight reaches q times the total.
    reached = cumulative.cumsum(w, axis=axis)
    total = slicing.index_in_dim(reached, n - 1, axis, keepdims=False)
    batch = a.shape[:-1]
    shape = (*q.shape, *batch)
    target = lax.mul(
        lax.broadcast_in_dim(lax.convert_element_type(q, w.dtype), shape, range(q.ndim)),
        lax.broadcast(total, q.shape),
    )
    below = lax.lt(
        lax.broadcast(reached, q.shape),
        lax.broadcast_in_dim(target, (*shape, n), range(len(shape))),
    )
    index = reductions.sum(below, axis=-1, dtype=np.int32)
    index = lax.clamp(np.int32(0), index, lax.const(index, n - 1))
    out = _pick(a, index, q.ndim)
    bad = reductions.any(invalid, axis=-1)
    if not ignore_nan:
        bad = lax.bitwise_or(bad, reductions.any(is_nan, axis=-1))
    return select_where(lax.broadcast(bad, q.shape), np.nan, out)


def _program(name):
    def fun(a, q, weights, *, axis, method, keepdims, scale):
        return _quantile(
            name, a, q, weights, axis=axis, method=method, keepdims=keepdims, scale=scale
        )

    fun.__name__ = fun.__qualname__ = name
    return nested_jit(fun, static_argnames=("axis", "method", "keepdims", "scale"))


_programs: dict[str, Any] = {
    name: _program(name)
    for name in ("quantile", "nanquantile", "percentile", "nanpercentile", "median", "nanmedian")
}
