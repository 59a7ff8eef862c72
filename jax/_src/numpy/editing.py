"""`insert`, `delete` and `trim_zeros`."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.errors import ConcretizationTypeError
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation.shape import moveaxis, operand, ravel
from jax._src.numpy.selecting import nonzero
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple


@export
def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """Inserts values before given positions along an axis.

    Args:
      arr: array.
      obj: an integer, a vector of integers, or a slice: positions in `arr` before which to insert.
      values: values to insert, which broadcast to the inserted part; they are converted to the
        dtype of `arr`.
      axis: axis along which to insert; None for the flattened array.

    Returns:
      An array of the dtype of `arr`, larger along `axis` by the number of inserted values.

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
        obj = lax.iota(np.int32, n)[obj] if core.is_symbolic_dim(n) else np.arange(*obj.indices(n))
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
        # As in NumPy, with a scalar position the values along their first dimension are all
        # inserted.
        values = moveaxis(values, 0, axis)
    values = lax.convert_element_type(values, arr.dtype)
    count = values.shape[axis] if indices.size == 1 else indices.size
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    return _insert(arr, ravel(indices), util.broadcast_to(values, shape), axis=axis)


def _insert(arr, indices, values, *, axis):
    n, count = arr.shape[axis], values.shape[axis]
    indices = lax.convert_element_type(slicing.clamped(indices), np.int32)
    last = lax.const(indices, n)
    wrapped = lax.select(lax.lt(indices, np.int32(0)), lax.add(indices, last), indices)
    wrapped = lax.clamp(np.int32(0), wrapped, last)
    keys = lax.broadcast_in_dim(wrapped, (count,), (0,))
    # Sort keys: 2 i for values inserted before element i, 2 i + 1 for element i itself. The sort is
    # stable, so values at the same position keep their order.
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
    """Removes slices along an axis.

    Args:
      arr: array.
      obj: positions to remove: an integer, a vector of integers, a boolean vector, or a slice.
      axis: axis along which to remove; None for the flattened array.
      assume_unique_indices: promise that integer positions are distinct and in bounds, which allows
        them to be traced.

    Returns:
      An array of the dtype of `arr`, smaller along `axis`.

    Raises:
      ValueError: if `obj` is of another kind, or a scalar position is out of bounds.
      IndexError: if a position in a vector is out of bounds.

    >>> jnp.delete(jnp.array([1, 2, 3, 4]), jnp.array([0, 2])).tolist()
    [2, 4]
    """
    arr = operand("delete", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonicalize_axis(axis, arr.ndim)
    n = arr.shape[axis]
    if isinstance(obj, slice) and not core.is_constant_dim(n):
        return _without_slice(arr, obj, axis)
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
    if not core.is_constant_dim(n) and value.size <= 1 and value.dtype != np.bool_:
        return _delete(arr, ravel(util.to_array(value)), axis=axis)
    if value.dtype == np.bool_:
        kept = np.flatnonzero(~value)
    else:
        if value.ndim == 0:
            value = np.asarray(canonicalize_axis(value, n))
        kept = np.delete(np.arange(n), value.astype(np.int64).ravel())
    return _take(arr, kept.astype(np.int32), axis)


def _without_slice(arr, s, axis):
    """Removes a slice along an axis of symbolic size."""
    if s.step not in (None, 1):
        raise NotImplementedError(
            f"jnp.delete along an axis of symbolic size needs a slice of step 1, got {s}"
        )
    along = (slice(None),) * axis
    first = arr[(*along, slice(None, 0 if s.start is None else s.start))]
    end = first.shape[axis] + arr[(*along, s)].shape[axis]
    return lax.concatenate([first, slicing.slice_in_dim(arr, end, None, axis=axis)], axis)


def _delete(arr, indices, *, axis):
    n = arr.shape[axis]
    indices = lax.convert_element_type(slicing.clamped(indices), np.int32)
    indices = lax.select(
        lax.lt(indices, np.int32(0)), lax.add(indices, lax.const(indices, n)), indices
    )
    removed = lax.sort(indices)
    # Element k of the result has before it in `arr` the removed elements i (in sorted order) with
    # removed[i] - i <= k.
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
    """Removes zeros from the ends of an array.

    Args:
      filt: array; it must not be traced.
      trim: "f" to trim the front, "b" the back, "fb" both.
      axis: axis or axes to trim; None for all.

    Returns:
      A slice of `filt`.

    >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    filt = operand("trim_zeros", filt)
    trim = trim.lower()
    if trim not in ("f", "b", "fb", "bf"):
        raise ValueError(f"jnp.trim_zeros: unexpected character(s) in `trim`: {trim!r}")
    core.concrete_or_error(
        None,
        filt,
        "Error arose in the `filt` argument of trim_zeros(): the result's shape depends on its values.",
    )
    start, stop = [0] * filt.ndim, list(filt.shape)
    if not filt.ndim:
        return filt
    found = np.nonzero(np.asarray(filt)) if filt.is_fully_addressable else nonzero(filt)
    for d in canonicalize_axis_tuple(axis, filt.ndim):
        if not len(found[d]):
            start[d] = stop[d] = 0
            continue
        first, last = util.known_bounds(found[d], "trim_zeros")
        if "f" in trim:
            start[d] = first
        if "b" in trim:
            stop[d] = last + 1
    return slicing.slice(filt, start, stop)
