"""Modes, ranks and standard errors of arrays: summaries in `jax.scipy.stats`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.indexing.functions import take_along_axis
from jax._src.numpy.manipulation.shape import atleast_1d, expand_dims
from jax._src.numpy.reductions.ignoring_nan import nanstd
from jax._src.numpy.reductions.means import std
from jax._src.numpy.sorting import argmax
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, set_module

_METHODS = ("average", "min", "max", "dense", "ordinal")


@set_module("jax.scipy.stats")
class ModeResult(NamedTuple):
    """The most frequent values and how often they occur: the result of `mode`."""

    mode: Array
    count: Array


def _vectors(a, axis):
    """Returns an array and its axis to work along, which for None are all elements and 0."""
    if axis is None:
        return lax.reshape(a, (a.size,)), 0
    return a, canonicalize_axis(axis, a.ndim)


def _check_propagates(name, nan_policy):
    if nan_policy in ("omit", "raise"):
        raise NotImplementedError(
            f"jax.scipy.stats.{name} does not implement nan_policy={nan_policy!r}, only 'propagate'. "
            "Remove or replace the NaNs before."
        )
    if nan_policy != "propagate":
        raise ValueError(
            f"jax.scipy.stats.{name} got nan_policy={nan_policy!r}, which is not one of 'propagate', 'omit', 'raise'."
        )


def _position(x, axis):
    sharding = core.typeof(x)._sharding
    return lax.broadcasted_iota(dtypes.default_int_dtype(), x.shape, axis, out_sharding=sharding)


def _one_along(x, axis, value, dtype):
    """An array like the first of `x` along an axis, with a value."""
    return lax.full_like(slicing.slice_in_dim(x, 0, 1, axis=axis), value, dtype)


def _starts(x, axis):
    """Marks where runs of equal elements start in a sorted array; NaNs are equal to each other."""
    if x.shape[axis] == 0:
        return lax.full(x.shape, False)
    before = slicing.slice_in_dim(x, 0, -1, axis=axis)
    after = slicing.slice_in_dim(x, 1, None, axis=axis)
    differ = before != after
    if dtypes.issubdtype(x.dtype, np.inexact):
        differ &= (before == before) | (after == after)
    return lax.concatenate([_one_along(x, axis, True, np.bool_), differ], axis)


@set_module("jax.scipy.stats")
def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Most frequent elements along an axis of an array; the smallest ones where several are.

    Args:
      a: array. A scalar is an array of one element.
      axis: integer, or None for all elements.
      nan_policy: "propagate", which counts NaNs as equal numbers that are greater than others.
      keepdims: whether the axis is kept, with size one.

    Returns:
      A tuple `(mode, count)` of arrays without the axis: elements of `a` and how many there are. Of no elements they
      are NaN and zero, both of the default floating-point dtype.

    Raises:
      NotImplementedError: if `nan_policy` is "omit" or "raise".

    >>> values, counts = jax.scipy.stats.mode(jnp.array([2, 4, 1, 1, 3, 4]))
    >>> int(values), int(counts)
    (1, 2)
    """
    _check_propagates("mode", nan_policy)
    (x,) = util.arraylike("jax.scipy.stats.mode", a)
    x = atleast_1d(x)
    ndim = x.ndim
    x, along = _vectors(x, axis)
    result = _mode(x, axis=along)
    if keepdims:
        axes = along if axis is not None else tuple(range(ndim))
        result = [expand_dims(y, axes) for y in result]
    return ModeResult(*result)


def _mode_impl(x, *, axis):
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    if x.size == 0 and np.prod(shape):
        nan = lax.full(shape, np.nan, dtypes.default_float_dtype())
        return nan, lax.full_like(nan, 0)
    if x.size == 0:
        return (
            lax.convert_type(lax.full(shape, 0, x.dtype), x.dtype, x.aval.weak_type),
            lax.full(shape, 0, dtypes.default_int_dtype()),
        )
    x = lax.sort(x, dimension=axis)
    position = _position(x, axis)
    first = lax.cummax(lax.select(_starts(x, axis), position, lax.full_like(position, 0)), axis)
    length = position - first + 1
    last = argmax(length, axis=axis, keepdims=True)
    return tuple(lax.squeeze(take_along_axis(y, last, axis), (axis,)) for y in (x, length))


_mode = nested_jit(_mode_impl, static_argnames=("axis",))


@set_module("jax.scipy.stats")
def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Ranks of elements, from one upwards.

    Args:
      a: array.
      method: rank of equal elements: "average", "min" or "max" of the ranks that they share, "ordinal" for different
        ranks, in their order; "dense" for the number of different elements that are not greater.
      axis: integer, or None for all elements.
      nan_policy: "propagate": the ranks along an axis are NaN if one of the elements is.

    Returns:
      Array of the shape of `a`, or one-dimensional if `axis` is None, of the default floating-point dtype.

    Raises:
      NotImplementedError: if `nan_policy` is "omit" or "raise".
      ValueError: if the method is unknown.

    >>> jax.scipy.stats.rankdata(jnp.array([1, 3, 2, 3]))
    Array([1. , 3.5, 2. , 3.5], dtype=float32)
    """
    _check_propagates("rankdata", nan_policy)
    (x,) = util.arraylike("jax.scipy.stats.rankdata", a)
    if method not in _METHODS:
        methods = ", ".join(map(repr, _METHODS))
        raise ValueError(
            f"jax.scipy.stats.rankdata got the unknown method {method!r}, not one of {methods}."
        )
    x, axis = _vectors(util.to_array(x), axis)
    return _rankdata(x, method=method, axis=axis)


def _rankdata_impl(x, *, method, axis):
    dtype = dtypes.default_float_dtype()
    if x.size == 0:
        return lax.full(x.shape, 0, dtype)
    x = lax.stop_gradient(x)
    position = _position(x, axis)
    ordered, source = lax.sort((x, position), dimension=axis, num_keys=1, is_stable=True)
    rank = _ranks_of_sorted(ordered, position, method, axis)
    # Moves each rank to the place from which its element came.
    _, rank = lax.sort((source, rank), dimension=axis, num_keys=1)
    rank = lax.convert_element_type(rank, dtype)
    if method == "average":
        rank = rank * np.asarray(0.5, dtype)
    if dtypes.issubdtype(x.dtype, np.inexact):
        is_nan = (x != x).any(axis=axis, keepdims=True)
        rank = lax.select(util.broadcast_to(is_nan, rank.shape), lax.full_like(rank, np.nan), rank)
    return rank


_rankdata = nested_jit(_rankdata_impl, static_argnames=("method", "axis"))


def _ranks_of_sorted(x, position, method, axis):
    """Integer ranks of a sorted array, twice the ranks if the method is "average"."""
    if method == "ordinal":
        return position + 1
    starts = _starts(x, axis)
    if method == "dense":
        return lax.cumsum(lax.convert_element_type(starts, position.dtype), axis)
    size = x.shape[axis]
    lowest = lax.cummax(lax.select(starts, position, lax.full_like(position, 0)), axis) + 1
    if method == "min":
        return lowest
    # The last element of a run is before the start of the next one.
    end = lax.select(starts, position, lax.full_like(position, size))
    after = slicing.slice_in_dim(end, 1, None, axis=axis)
    none = _one_along(end, axis, size, end.dtype)
    highest = lax.cummin(lax.concatenate([after, none], axis), axis, reverse=True)
    return highest if method == "max" else lowest + highest


@set_module("jax.scipy.stats")
def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Standard error of the mean: the standard deviation, divided by the root of the number of elements.

    Args:
      a: array.
      axis: integer, or None for all elements.
      ddof: number that is subtracted from the number of elements in the variance.
      nan_policy: "propagate", or "omit" to ignore NaNs.
      keepdims: whether the axis is kept, with size one.

    Returns:
      Array without the axis. It is NaN if there are no more than `ddof` elements.

    Raises:
      ValueError: if `nan_policy` is neither of the two.

    >>> jax.scipy.stats.sem(jnp.array([1.0, 3.0, 5.0, 7.0])).round(3)
    Array(1.291, dtype=float32)
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(
            f"jax.scipy.stats.sem does not support nan_policy={nan_policy!r}, only 'propagate' and 'omit'."
        )
    (x,) = util.promote_args_inexact("jax.scipy.stats.sem", a)
    x = util.to_array(x)
    ndim = x.ndim
    x, along = _vectors(x, axis)
    out = _sem(x, ddof, axis=along, omit=nan_policy == "omit")
    if keepdims:
        out = expand_dims(out, along if axis is not None else tuple(range(ndim)))
    return out


def _sem_impl(x: Any, ddof: Any, *, axis: int, omit: bool) -> Any:
    dtype = x.dtype
    # Roots of the numbers of elements may be out of the range of float16.
    x = lax.convert_element_type(x, dtypes.promote_types(dtype, np.float32))
    if omit:
        count = (x == x).sum(axis=axis)
        deviation = nanstd(x, axis=axis, ddof=ddof)
        number = lax.convert_element_type(count, lax.real(x).dtype if _complex(x) else x.dtype)
    else:
        deviation = std(x, axis=axis, ddof=ddof)
        number = lax.full(deviation.shape, x.shape[axis], deviation.dtype)
    out = deviation / lax.sqrt(lax.convert_element_type(number, deviation.dtype))
    return lax.convert_type(out, dtype, False)


def _complex(x):
    return dtypes.issubdtype(x.dtype, np.complexfloating)


_sem = nested_jit(_sem_impl, static_argnames=("axis", "omit"))
