"""`jnp.take`, `jnp.take_along_axis`, `jnp.put` and `jnp.put_along_axis`."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.lax.slicing import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    bounds,
)
from jax._src.lax.slicing.gathers import default_fill_value
from jax._src.numpy import util
from jax._src.numpy.indexing.lower import as_index, common_index_dtype
from jax._src.numpy.indexing.setting import checked_values, scatter_update
from jax._src.typing import ArrayLike, StaticScalar
from jax._src.util import canonicalize_axis

_FILL, _CLIP, _PROMISE = (
    GatherScatterMode.FILL_OR_DROP,
    GatherScatterMode.CLIP,
    GatherScatterMode.PROMISE_IN_BOUNDS,
)


@util.export
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: StaticScalar | None = None,
) -> Array:
    """Takes elements along an axis, like `a[..., indices, ...]`.

    Args:
      a: array.
      indices: integer array. Negative indices count from the end, except in mode "clip".
      axis: the axis; None for the flattened array.
      out: must be None.
      mode: treatment of out-of-bounds indices: "fill" (default) gives `fill_value`, "clip" the
        nearest element, "wrap" counts modulo the size. NumPy's "raise" is not supported.
      unique_indices, indices_are_sorted: promises that may make the operation faster.
      fill_value: a static scalar; by default NaN, the least signed or the largest unsigned integer.

    Returns:
      An array of the shape of `a` with the axis replaced by the shape of `indices`.

    Raises:
      IndexError: if the axis is empty and `indices` is not.
      TypeError, ValueError: if an argument has the wrong dtype, or `axis` or `mode` is invalid.
      NotImplementedError: if `out` is given or `mode` is "raise".

    >>> jnp.take(jnp.array([10., 20.]), jnp.array([1, -2, 5])).tolist()
    [20.0, 10.0, nan]
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.take is not supported.")
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    if mode not in (None, "fill", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    if type(a) is not ArrayImpl or type(indices) is not ArrayImpl:
        util.check_arraylike("take", a, indices)
    if fill_value is not None:
        fill_value = _static_fill("take", fill_value)
    run = _take_now if mode is None and bounds.enabled.value else _take
    return run(
        a,
        indices,
        axis=_static_axis("take", axis),
        mode=mode,
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        fill_value=fill_value,
    )


def _static_axis(name: str, axis: Any) -> int | None:
    if axis is None:
        return None
    return core.concrete_or_error(operator.index, axis, f"axis argument to jnp.{name}()")


def _static_fill(name: str, fill_value: Any) -> Any:
    if isinstance(fill_value, (bool, int, float, complex)):
        return np.nan if fill_value != fill_value else fill_value
    value = np.asarray(
        core.concrete_or_error(
            None, fill_value, f"The `fill_value` argument of {name} must be static."
        )
    )
    if value.ndim:
        raise ValueError(f"fill_value argument to {name} must be a scalar, got shape {value.shape}")
    return value.item()


def _take_now(a, indices, *, axis, mode, unique_indices, indices_are_sorted, fill_value):
    """Implements `take`; in a program of its own it would have the line of the first call."""
    a, indices = util.ensure_arraylike("take", a, indices)
    if axis is None:
        a, axis = lax.reshape(a, (math.prod(a.shape),)), 0
    elif a.ndim == 0 and axis in (0, -1):
        a, axis = lax.expand_dims(a, (0,)), 0
    else:
        axis = canonicalize_axis(axis, a.ndim)
    if indices.dtype == np.bool_ or 0 in indices.shape:  # [] has a float dtype
        indices = lax.convert_element_type(indices, np.int32)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"indices must have an integer type, got {indices.dtype.name}")
    size = a.shape[axis]
    shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
    if type(size) is int and size == 0:
        if 0 not in indices.shape:
            raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
        return lax.full(shape, 0, a.dtype)
    if indices.dtype != np.uint32:
        indices = as_index(indices, common_index_dtype([indices], a.shape))
    gather_mode = {"clip": _CLIP, "wrap": _PROMISE}.get(mode, _FILL)
    if mode == "wrap":
        indices = _wrapped(indices, size)
    elif mode != "clip":
        indices = slicing.count_from_front(indices, size)
    n = indices.ndim
    indices = lax.expand_dims(indices, (n,))
    dnums = GatherDimensionNumbers(
        offset_dims=(*range(axis), *range(axis + n, a.ndim + n - 1)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    if mode is None and bounds.enabled.value:
        bounds.check("gather", (a, indices), dict(dimension_numbers=dnums, slice_sizes=sizes))
    return slicing.gather(
        a,
        indices,
        dnums,
        sizes,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=gather_mode,
        fill_value=fill_value,
    )


_take_now.__name__ = _take_now.__qualname__ = "_take"
_take = nested_jit(
    _take_now,
    static_argnames=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value"),
)


def _wrapped(indices, size):
    size = lax.full_like(indices, size)
    indices = lax.rem(indices, size)
    negative = lax.lt(indices, lax.full_like(indices, 0))
    return lax.select(negative, lax.add(indices, size), indices)


@util.export
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: StaticScalar | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Takes elements along an axis at indices that may differ along the other axes.

    Args:
      arr: array of shape `(*s, n, *t)`.
      indices: integer array of shape `(*s, k, *t)`; dimensions of size 1 broadcast.
      axis: the axis; None for the flattened array, with one-dimensional indices.
      mode: treatment of out-of-bounds indices: "fill" (default) gives `fill_value`, "clip" the
        nearest element, "promise_in_bounds" asserts that there are none.
      fill_value: a static scalar; by default NaN, the least signed or the largest unsigned integer.
      wrap_negative_indices: whether negative indices count from the end; None for True, except in
        mode "promise_in_bounds".

    Returns:
      An array of shape `(*s, k, *t)`.

    Raises:
      TypeError: if `indices` is not an integer array.
      ValueError: if shapes, `axis` or `mode` are invalid.

    >>> x = jnp.array([[3, 1, 2], [6, 5, 4]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    if type(arr) is not ArrayImpl or type(indices) is not ArrayImpl:
        util.check_arraylike("take_along_axis", arr, indices)
    gather_mode = GatherScatterMode.from_any(mode)
    if fill_value is not None:
        fill_value = _static_fill("take_along_axis", fill_value)
    checks = mode is None and bounds.enabled.value
    run = functools.partial(_take_along, checks=True) if checks else _take_along_axis
    return run(
        arr,
        indices,
        axis=_static_axis("take_along_axis", axis),
        mode=gather_mode,
        fill_value=fill_value,
        wrap=gather_mode is not _PROMISE
        if wrap_negative_indices is None
        else bool(wrap_negative_indices),
    )


def _take_along(arr, indices, *, axis, mode, fill_value, wrap, checks=False):
    arr, indices = util.ensure_arraylike("take_along_axis", arr, indices)
    _check_index_dtype("take_along_axis", indices)
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(
                f"take_along_axis indices must be 1D if axis=None, got shape {indices.shape}"
            )
        arr, axis = lax.reshape(arr, (math.prod(arr.shape),)), 0
    if arr.ndim != indices.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"{indices.ndim} vs. {arr.ndim}"
        )
    axis = canonicalize_axis(axis, arr.ndim)
    out_shape, index, dnums, sizes = _along_axis(arr, indices, axis, wrap)
    if 0 in out_shape:
        return lax.full(out_shape, 0, arr.dtype)
    if arr.shape[axis] == 0:
        if mode is not _FILL:
            raise IndexError(f"index is out of bounds for axis {axis} with size 0")
        fill = default_fill_value(arr.dtype) if fill_value is None else fill_value
        return lax.full(out_shape, fill, arr.dtype)
    if checks:
        bounds.check("gather", (arr, index), dict(dimension_numbers=dnums, slice_sizes=sizes))
    return slicing.gather(arr, index, dnums, sizes, mode=mode, fill_value=fill_value)


_take_along.__name__ = _take_along.__qualname__ = "take_along_axis"
_take_along_axis = nested_jit(_take_along, static_argnames=("axis", "mode", "fill_value", "wrap"))


def _check_index_dtype(name: str, indices) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(
            f"{name} indices must be of integer type, got {dtypes.dtype_name(indices.dtype)}"
        )


def _along_axis(arr, indices, axis, wrap, reads=True):
    """Returns the result shape, indices, dimension numbers and slice sizes of `take_along_axis`.

    uint32 indices that wrap around to negative ones count from the end only where it reads.
    """
    shape, index_shape = arr.shape, indices.shape
    others = [d for d in range(arr.ndim) if d != axis]
    sizes = lax.broadcast_shapes(
        tuple([shape[d] for d in others]), tuple([index_shape[d] for d in others])
    )
    out_shape = (*sizes[:axis], index_shape[axis], *sizes[axis:])
    index = as_index(indices, common_index_dtype([indices], shape))
    if wrap and (reads or not dtypes.issubdtype(indices.dtype, np.unsignedinteger)):
        index = slicing.count_from_front(index, shape[axis])
    # Every other dimension is a batching dimension of both arrays, or a full window of the operand,
    # or has size 1 in the operand and broadcasts.
    batching, offset, collapsed = [], [], [axis]
    for d in others:
        if index_shape[d] == 1 and shape[d] != 1:
            offset.append(d)
        elif shape[d] == 1:
            (collapsed if index_shape[d] != 1 else offset).append(d)
        else:
            batching.append(d)
    kept = [d for d in range(arr.ndim) if d not in offset]
    index = lax.reshape(index, (*[index_shape[d] for d in kept], 1))
    dnums = GatherDimensionNumbers(
        offset_dims=tuple(offset),
        collapsed_slice_dims=tuple(sorted(collapsed)),
        start_index_map=(axis,),
        operand_batching_dims=tuple(batching),
        start_indices_batching_dims=tuple([kept.index(d) for d in batching]),
    )
    slice_sizes = [shape[d] if d in offset else 1 for d in range(arr.ndim)]
    return out_shape, index, dnums, slice_sizes


@util.export
def put(
    a: ArrayLike,
    ind: ArrayLike,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: bool = True,
) -> Array:
    """Replaces elements of the flattened array.

    Args:
      a: array.
      ind: integer array of indices into the flattened array.
      v: values, repeated as often as needed.
      mode: treatment of out-of-bounds indices: None and "clip" clamp them ("clip" also clamps
        negative ones), "wrap" counts modulo the size. NumPy's "raise" is not supported.
      inplace: must be False, since arrays are immutable.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ValueError: if `inplace` is True or `mode` is unknown.

    >>> jnp.put(jnp.zeros(4), jnp.array([0, -1]), 1., inplace=False).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    util.check_arraylike("put", a, ind, v)
    if inplace:
        raise ValueError(
            "jax.numpy.put cannot modify arrays in-place, because JAX arrays are immutable. Pass inplace=False "
            "to instead return an updated array."
        )
    if mode not in (None, "clip", "wrap"):
        if mode == "raise":
            raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    a, ind, v = util.ensure_arraylike("put", a, ind, v)
    if not dtypes.issubdtype(ind.dtype, np.integer):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {ind.dtype}"
        )
    size, n = math.prod(a.shape), math.prod(ind.shape)
    if size == 0 or n == 0 or 0 in v.shape:
        return a
    ind = lax.reshape(ind, (n,))
    if ind.dtype != np.uint32:
        ind = as_index(ind, common_index_dtype([ind], (size,)))
    if mode == "wrap":
        ind = _wrapped(ind, size)
    elif mode is None:
        ind = slicing.count_from_front(ind, size)
    ind = lax.clamp(lax.const(ind, 0), ind, lax.const(ind, size - 1))
    v = lax.reshape(v, (math.prod(v.shape),))
    if core.definitely_greater(n, v.shape[0]) or not core.is_constant_shape((n, *v.shape)):
        v = lax.tile(v, (-(-n // v.shape[0]),))
    v = slicing.slice_in_dim(v, 0, n)
    out = scatter_update(lax.reshape(a, (size,)), ind, v, slicing.scatter, normalize_indices=False)
    return lax.reshape(out, a.shape)


@util.export
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """Replaces elements along an axis at indices that may differ along the other axes.

    Args:
      arr: array of shape `(*s, n, *t)`.
      indices: integer array of shape `(*s, k, *t)`; dimensions of size 1 broadcast.
      values: array that broadcasts to the shape of `indices`.
      axis: the axis; None for the flattened array.
      inplace: must be False, since arrays are immutable.
      mode: treatment of out-of-bounds indices, as for `x.at`; None drops the values.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      ValueError: if `inplace` is True, or shapes or `axis` are invalid.

    >>> x = jnp.zeros((2, 3))
    >>> jnp.put_along_axis(x, jnp.array([[0], [2]]), 1., axis=1, inplace=False).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if inplace:
        raise ValueError(
            "jax.numpy.put_along_axis cannot modify arrays in-place, because JAX arrays are immutable. Pass "
            "inplace=False to instead return an updated array."
        )
    util.check_arraylike("put_along_axis", arr, indices, values)
    return _put_along_axis(
        arr,
        indices,
        values,
        axis=None if axis is None else int(axis),
        mode=GatherScatterMode.from_any(mode),
    )


def _put_along(arr, indices, values, *, axis, mode):
    arr, indices, values = util.ensure_arraylike("put_along_axis", arr, indices, values)
    _check_index_dtype("put_along_axis", indices)
    shape = arr.shape
    if axis is None:
        arr, axis = lax.reshape(arr, (math.prod(shape),)), 0
    axis = canonicalize_axis(axis, arr.ndim)
    if arr.ndim != indices.ndim:
        raise ValueError(
            "put_along_axis arguments 'arr' and 'indices' must have same ndim. Got "
            f"arr.ndim={arr.ndim} and indices.ndim={indices.ndim}."
        )
    out_shape, index, dnums, _ = _along_axis(arr, indices, axis, True, reads=False)
    values = lax.convert_type(checked_values(arr, values), arr.dtype, core.typeof(arr).weak_type)
    if 0 in out_shape or arr.shape[axis] == 0:
        return lax.reshape(arr, shape)
    out = slicing.scatter(
        arr, index, _broadcast_values(values, out_shape), ScatterDimensionNumbers(*dnums), mode=mode
    )
    return lax.reshape(out, shape)


def _broadcast_values(values, shape):
    n = len(shape) - values.ndim
    if n < 0 or any(d not in (1, size) for d, size in zip(values.shape, shape[n:])):
        raise ValueError(
            f"put_along_axis values of shape {values.shape} do not broadcast to shape {shape} of the indices"
        )
    return lax.broadcast_in_dim(values, shape, range(n, len(shape)))


_put_along.__name__ = _put_along.__qualname__ = "put_along_axis"
_put_along_axis = nested_jit(_put_along, static_argnames=("axis", "mode"))
