"""Functions that insert, remove and replace parts of an array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.errors import ConcretizationTypeError
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.numpy.manipulation.shape import moveaxis, operand, ravel
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple


@export
def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """Inserts values before positions of a dimension.

    Args:
      arr: array.
      obj: an integer, integers or a slice: before which elements, as they are numbered in `arr`.
      values: what to insert; broadcast to the shape of the places. It is converted to the dtype of `arr`.
      axis: along which dimension; None for the flattened array.

    Raises:
      ValueError: if positions are not integers, or `axis` is out of range.

    >>> jnp.insert(jnp.array([1, 2, 3]), 1, 9).tolist()
    [1, 9, 2, 3]
    >>> jnp.insert(jnp.array([1, 2, 3]), jnp.array([0, 3]), jnp.array([8, 9])).tolist()
    [8, 1, 2, 3, 9]
    """
    arr, values = util.ensure_arraylike("insert", arr, values)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = core.concrete_or_error(operator.index, axis, "axis argument of jnp.insert()")
    axis = canonicalize_axis(axis, arr.ndim)
    n = arr.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n))
    else:
        util.check_arraylike("insert", 0, obj)
    indices = obj if isinstance(obj, np.ndarray) else util.to_array(obj)
    if indices.size and not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"jnp.insert(): index array must be integer typed; got {indices}")
    if indices.ndim > 1:
        raise ValueError(f"jnp.insert(): index array must be one-dimensional; got {indices}")
    scalar = indices.ndim == 0
    if values.ndim > arr.ndim:
        raise ValueError(
            f"jnp.insert(): values of shape {values.shape} have more dimensions than arr"
        )
    values = lax.broadcast_to_rank(values, arr.ndim)
    if scalar:
        # One position: the first dimension of values is the one that is inserted.
        values = moveaxis(values, 0, axis)
    values = lax.convert_element_type(values, arr.dtype)
    count = values.shape[axis] if indices.size == 1 else indices.size
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    return _insert(arr, ravel(indices), util.broadcast_to(values, shape), axis=axis)


def _insert(arr, indices, values, *, axis):
    n, count = arr.shape[axis], values.shape[axis]
    indices = lax.convert_element_type(indices, np.int32)
    wrapped = lax.select(lax.lt(indices, np.int32(0)), lax.add(indices, np.int32(n)), indices)
    wrapped = lax.clamp(np.int32(0), wrapped, np.int32(n))
    keys = lax.broadcast_in_dim(wrapped, (count,), (0,))
    # What is inserted before an element comes before it, in the order given.
    place = lax.concatenate(
        [
            lax.mul(keys, np.int32(2)),
            lax.add(lax.mul(lax.iota(np.int32, n), np.int32(2)), np.int32(1)),
        ],
        0,
    )
    _, order = lax.sort((place, lax.iota(np.int32, n + count)), num_keys=1)
    return _take(lax.concatenate([values, arr], axis), order, axis)


_insert = nested_jit(_insert, static_argnames=("axis",))


def _take(x, positions, axis):
    if x.shape[axis] == 0:
        return x
    kept = tuple([d for d in range(x.ndim) if d != axis])
    return slicing.gather(
        x,
        lax.expand_dims(positions, (1,)),
        slicing.GatherDimensionNumbers(kept, (axis,), (axis,)),
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        unique_indices=True,
        mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


@export
def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """Removes elements along a dimension.

    Args:
      arr: array.
      obj: which: an integer, integers, a boolean vector or a slice.
      axis: along which dimension; None for the flattened array.
      assume_unique_indices: promises that integers are different and in bounds, so that they may be traced.

    Raises:
      ValueError: for positions of another kind, or out of range.
      IndexError: if one of several positions is out of bounds.

    >>> jnp.delete(jnp.array([1, 2, 3, 4]), jnp.array([0, 2])).tolist()
    [2, 4]
    """
    arr = operand("delete", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonicalize_axis(axis, arr.ndim)
    n = arr.shape[axis]
    if isinstance(obj, slice):
        kept = np.delete(np.arange(n), obj)
        return _take(arr, kept.astype(np.int32), axis)
    _, obj = util.arraylike("delete", 0, obj)
    dtype = dtypes.dtype(obj)
    if dtypes.issubdtype(dtype, np.bool_):
        if np.shape(obj) != (n,):
            raise ValueError(
                "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with length matching "
                "specified axis."
            )
    elif np.size(obj) and not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"np.delete(arr, obj): got obj.dtype={dtype}; must be integer or bool.")
    try:
        value = core.concrete_or_error(np.asarray, obj, "'obj' array argument of jnp.delete()")
    except ConcretizationTypeError:
        if dtype == np.bool_ or not (assume_unique_indices or np.ndim(obj) == 0):
            raise
        return _delete(arr, ravel(util.to_array(obj)), axis=axis)
    if value.dtype == np.bool_:
        kept = np.flatnonzero(~value)
    else:
        if value.ndim == 0:
            value = np.asarray(canonicalize_axis(value, n))
        kept = np.delete(np.arange(n), value.astype(np.int64).ravel())
    return _take(arr, kept.astype(np.int32), axis)


def _delete(arr, indices, *, axis):
    n = arr.shape[axis]
    indices = lax.convert_element_type(indices, np.int32)
    indices = lax.select(lax.lt(indices, np.int32(0)), lax.add(indices, np.int32(n)), indices)
    removed = lax.sort(indices)
    # The k-th element that is kept has before it those removed whose number minus rank is at most k.
    count = removed.shape[0]
    ranked = lax.sub(removed, lax.iota(np.int32, count))
    place = lax.iota(np.int32, n - count)
    rows = lax.le(
        lax.broadcast_in_dim(ranked, (n - count, count), (1,)),
        lax.broadcast_in_dim(place, (n - count, count), (0,)),
    )
    shift = lax.reduce_sum(lax.convert_element_type(rows, np.int32), axes=(1,))
    return _take(arr, lax.add(place, shift), axis)


_delete = nested_jit(_delete, static_argnames=("axis",))


@export
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Removes zeros from the ends.

    Args:
      filt: array, not traced.
      trim: "f" for the front, "b" for the back, "fb" for both.
      axis: along which dimensions; None for all.

    >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    filt = operand("trim_zeros", filt)
    trim = trim.lower()
    if trim not in ("f", "b", "fb", "bf"):
        raise ValueError(f"jnp.trim_zeros: unexpected character(s) in `trim`: {trim!r}")
    value = core.concrete_or_error(
        np.asarray,
        filt,
        "Error arose in the `filt` argument of trim_zeros(): the result's shape depends on its values.",
    )
    start, stop = [0] * filt.ndim, list(filt.shape)
    found = np.argwhere(value)
    for d in canonicalize_axis_tuple(axis, filt.ndim):
        if not len(found):
            start[d] = stop[d] = 0
            continue
        if "f" in trim:
            start[d] = int(found[:, d].min())
        if "b" in trim:
            stop[d] = int(found[:, d].max()) + 1
    return slicing.slice(filt, start, stop)
