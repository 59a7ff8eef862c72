"""Slices at static and at traced indices, and updates of slices."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax, rules
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.rules import LINEAR, common_memory_space, standard_primitive
from jax._src.lax.slicing import bounds, gathers, scatters
from jax._src.lax.slicing.types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from jax._src.typing import ArrayLike, Shape
from jax._src.util import canonicalize_axis, tuple_delete


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Slice an array: every `strides[i]`-th element from `start_indices[i]` to `limit_indices[i]`.

    Args:
      operand: array of rank `n`.
      start_indices, limit_indices: `n` static integers each, not negative and within the shape.
      strides: `n` positive integers; None means all 1.

    Returns:
      An array of rank `n`.

    Raises:
      TypeError: if a length is not `n`, or a value is out of range.

    >>> lax.slice(jnp.arange(12).reshape(3, 4), (1, 0), (3, 3), (1, 2)).tolist()
    [[4, 6], [8, 10]]
    """
    return slice_p.bind(
        operand,
        start_indices=core.canonicalize_shape(start_indices),
        limit_indices=core.canonicalize_shape(limit_indices),
        strides=None if strides is None else core.canonicalize_shape(strides),
    )


def slice_in_dim(
    operand: Array | np.ndarray,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Slice along one axis; negative and None limits are interpreted as in NumPy.

    Args:
      operand: array.
      start_index, limit_index: static limits.
      stride: positive integer.
      axis: axis to slice.

    Returns:
      An array of the operand's rank.

    Raises:
      IndexError: if the axis is out of range.
      TypeError: if a limit is out of range.

    >>> lax.slice_in_dim(jnp.arange(6), -4, None, 2).tolist()
    [2, 4]
    """
    shape = np.shape(operand)
    axis = _check_axis(axis, len(shape))
    size = shape[axis]
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = 0 if start_index is None else _from_end(start_index, size)
    limits[axis] = size if limit_index is None else _from_end(limit_index, size)
    strides[axis] = stride
    return slice(operand, starts, limits, strides)


def index_in_dim(
    operand: Array | np.ndarray, index: int, axis: int = 0, keepdims: bool = True
) -> Array:
    """Index one axis with a static integer; the axis is removed unless `keepdims`.

    Args:
      operand: array.
      index: static integer; negative values count from the end.
      axis: axis to index.
      keepdims: whether to keep the axis, with size 1.

    Returns:
      An array of the operand's rank, or one less.

    Raises:
      IndexError: if the index or the axis is out of range.

    >>> lax.index_in_dim(jnp.arange(6).reshape(2, 3), -1, keepdims=False).tolist()
    [3, 4, 5]
    """
    index = core.concrete_dim_or_error(operator.index, index, "index_in_dim")
    axis = _check_axis(axis, np.ndim(operand))
    size = np.shape(operand)[axis]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    index = _from_end(index, size)
    out = slice_in_dim(operand, index, index + 1, 1, axis)
    return out if keepdims else lax.squeeze(out, (axis,))


def dynamic_slice(
    operand: Array | np.ndarray,
    start_indices: Array | np.ndarray | Sequence[ArrayLike],
    slice_sizes: Shape,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Slice an array at traced indices, with static sizes.

    Indices are clamped so that the slice lies within the operand.

    Args:
      operand: array of rank `n`.
      start_indices: `n` integer scalars, or an integer array of shape `(n,)`.
      slice_sizes: `n` static sizes.
      allow_negative_indices: whether negative indices count from the end; a bool, or one for each
        dimension. False saves the test for them.

    Returns:
      An array of shape `slice_sizes`.

    Raises:
      TypeError: if sizes or dtypes are invalid.

    >>> lax.dynamic_slice(jnp.arange(6), (4,), (3,)).tolist()
    [3, 4, 5]
    """
    slice_sizes = core.canonicalize_shape(slice_sizes)
    starts = _start_indices(operand, start_indices, allow_negative_indices)
    if bounds.enabled.value:
        bounds.check("dynamic_slice", (operand, *starts), dict(slice_sizes=slice_sizes))
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=slice_sizes)


def dynamic_slice_in_dim(
    operand: Array | np.ndarray,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Slice one axis at a traced index; see `dynamic_slice`.

    >>> lax.dynamic_slice_in_dim(jnp.arange(6), 2, 3).tolist()
    [2, 3, 4]
    """
    starts, sizes = [0] * np.ndim(operand), list(np.shape(operand))
    axis = _check_axis(axis, len(sizes))
    size = slice_size if core.is_symbolic_dim(slice_size) else operator.index(slice_size)
    starts[axis], sizes[axis] = start_index, size
    allow = [i == axis and allow_negative_indices for i in range(len(sizes))]
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow)


def dynamic_index_in_dim(
    operand: Array | np.ndarray,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Index one axis with a traced integer; the axis is removed unless `keepdims`.

    >>> int(lax.dynamic_index_in_dim(jnp.arange(6), 4, keepdims=False))
    4
    """
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else lax.squeeze(out, (_check_axis(axis, np.ndim(operand)),))


def dynamic_update_slice(
    operand: Array | np.ndarray,
    update: ArrayLike,
    start_indices: Array | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Replace a slice of the operand by `update`, at traced indices.

    Indices are clamped so that the slice lies within the operand.

    Args:
      operand: array of rank `n`.
      update: array of rank `n` and the same dtype, not larger in any dimension.
      start_indices, allow_negative_indices: see `dynamic_slice`.

    Returns:
      An array of the operand's shape and dtype.

    Raises:
      TypeError: if shapes or dtypes are invalid.

    >>> lax.dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (1,)).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    starts = _start_indices(operand, start_indices, allow_negative_indices)
    if bounds.enabled.value:
        bounds.check("dynamic_update_slice", (operand, update, *starts), {})
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_update_slice_in_dim(
    operand: Array | np.ndarray,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replace a slice of one axis by `update`, at a traced index; see `dynamic_update_slice`.

    >>> lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.ones(2), 1, 0).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    starts: list[Any] = [0] * np.ndim(operand)
    axis = _check_axis(axis, len(starts))
    starts[axis] = start_index
    allow = [i == axis and allow_negative_indices for i in range(len(starts))]
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow)


def dynamic_update_index_in_dim(
    operand: Array | np.ndarray,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replace the elements at a traced index along one axis by `update`.

    Args:
      operand: array of rank `n`.
      update: array of rank `n` with size 1 along the axis, or of rank `n - 1` without the axis.
      index: integer scalar.
      axis: axis to index.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the operand's shape and dtype.

    >>> lax.dynamic_update_index_in_dim(jnp.zeros(3), 7.0, 1, 0).tolist()
    [0.0, 7.0, 0.0]
    """
    axis = _check_axis(axis, np.ndim(operand))
    if np.ndim(update) != np.ndim(operand):
        if np.ndim(update) + 1 != np.ndim(operand):
            raise TypeError(
                "dynamic_update_index_in_dim update must have the rank of the operand or one less, got "
                f"update shape {np.shape(update)} for operand shape {np.shape(operand)}."
            )
        update = lax.expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def index_take(src: Array, idxs: Array, axes: Sequence[int]) -> Array:
    """Gather the elements of `src` at index vectors along some axes; indices wrap around.

    Args:
      src: array.
      idxs: for each of `axes`, an integer array of shape `(n,)`.
      axes: axes of `src`, in ascending order.

    Returns:
      An array of shape `(n, ...)`; its trailing axes are the other axes of `src`.

    >>> idxs = (jnp.array([1, -2]), jnp.array([0, 4]))
    >>> lax.index_take(jnp.arange(6).reshape(2, 3), idxs, (0, 1)).tolist()
    [3, 1]
    """
    shape = np.shape(src)
    axes = tuple([_check_axis(d, len(shape)) for d in axes])
    columns = []
    for i, d in zip(idxs, axes):
        i = lax.convert_element_type(i, index_dtype(shape))
        size = lax.full_like(i, shape[d])
        i = lax.rem(i, size)
        i = lax.select(lax.lt(i, lax.full_like(i, 0)), lax.add(i, size), i)
        columns.append(lax.expand_dims(i, (1,)))
    return gathers.gather(
        src,
        lax.concatenate(columns, 1),
        GatherDimensionNumbers(
            offset_dims=tuple(range(1, len(shape) - len(axes) + 1)),
            collapsed_slice_dims=axes,
            start_index_map=axes,
        ),
        [1 if d in axes else n for d, n in enumerate(shape)],
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


# ---------------------------------------------------------------------------------------------------
# Start indices


def _check_axis(axis: int, ndim: int) -> int:
    try:
        return canonicalize_axis(axis, ndim)
    except ValueError as e:
        raise IndexError(str(e)) from None


def _from_end(i: Any, size: Any) -> Any:
    if type(i) is int and type(size) is int:
        return i + size if i < 0 else i
    i = core.canonicalize_dim(i)
    return i + size if core.definitely_greater(0, i) else i


def _start_indices(operand, indices, allow_negative) -> list[Any]:
    """Convert the indices to scalars of one integer dtype, with `size` added to negative ones."""
    shape = np.shape(operand)
    if isinstance(indices, (Array, np.ndarray, np.generic)):
        if np.ndim(indices) != 1:
            raise ValueError(f"start_indices must be a 1D array, got shape {np.shape(indices)}")
        if isinstance(indices, Array):
            indices = [index_in_dim(indices, i, keepdims=False) for i in range(indices.shape[0])]
    indices = list(indices)
    if len(indices) != len(shape):
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions ({len(indices)} vs {shape})"
        )
    if isinstance(allow_negative, bool):
        allow = [allow_negative] * len(shape)
    else:
        allow = list(allow_negative)
        if len(allow) != len(shape):
            raise ValueError(
                "allow_negative_indices must be a bool or have one for each dimension, got "
                f"{len(allow)} for operand shape {shape}"
            )
    out: list[Any] = []
    has_sizes = False  # whether one is computed from symbolic sizes
    traced_dtype = None
    for i, size, negative in zip(indices, shape, allow):
        if isinstance(i, (int, np.integer)) and (core.is_constant_dim(size) or i >= 0):
            i = int(i)
            out.append(_from_end(i, size) if negative else i)
        elif isinstance(i, (int, np.integer)) or core.is_symbolic_dim(i):
            value = core.dimension_as_value(i)
            if negative:
                value = count_from_front(lax.convert_element_type(value, _INT32), size)
            has_sizes = True
            out.append(value)
        else:
            i = count_from_front(i, size) if negative else i
            traced_dtype = core.typeof(i).dtype
            out.append(i)
    if traced_dtype is None:
        dtype = index_dtype(shape)
    elif not dtypes.issubdtype(traced_dtype, np.integer):
        dtype = _INT32
    else:
        dtype = traced_dtype
        low, high = int_range(dtype)
        if any(type(i) is int and not low <= i <= high for i in out):
            dtype = index_dtype(shape)
            out = [i if type(i) is int else lax.convert_element_type(i, dtype) for i in out]
    if has_sizes:
        if int_range(dtype)[1] < int_range(_INT32)[1]:
            dtype = _INT32
        out = [i if type(i) is int else lax.convert_element_type(i, dtype) for i in out]
    low, high = int_range(dtype)
    return [np.array(min(max(i, low), high), dtype)[()] if type(i) is int else i for i in out]


@functools.cache
def int_range(dtype: Any) -> tuple[int, int]:
    """Return the minimum and the maximum of an integer dtype."""
    info = dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def index_dtype(shape: Shape) -> np.dtype:
    """Return int32, or int64 if a dimension is too large for int32."""
    for d in shape:
        if core.is_constant_dim(d) and d > 2**31 - 1:
            return dtypes.canonicalize_dtype(np.dtype(np.int64))
    return _INT32


_INT32 = np.dtype(np.int32)


def clamped(i: Any, dtype: np.dtype = _INT32) -> Any:
    """Clamp indices to the range of an integer dtype, to which they can be converted then."""
    if dtypes.issubdtype(core.typeof(i).dtype, np.integer):
        (a, b), (c, d) = int_range(core.typeof(i).dtype), int_range(dtype)
        if a < c or b > d:
            i = lax.clamp(lax.const(i, max(a, c)), i, lax.const(i, min(b, d)))
    return i


def count_from_front(i: Any, size: Any) -> Any:
    """Add `size` to the integer array `i` where it is negative."""
    dtype = core.typeof(i).dtype
    if not dtypes.issubdtype(dtype, np.signedinteger):
        return i
    if core.is_constant_dim(size):
        if size > int_range(dtype)[1]:  # the sum would overflow
            dtype = index_dtype((size,))
            i = lax.convert_element_type(i, dtype)
        size = np.array(size, dtype)[()]
    else:
        size = lax.convert_element_type(size, dtype)
    negative = lax.lt(i, np.array(0, dtype)[()])
    return lax.select_n(negative, i, lax.add(i, size))


def _check_start_indices(name: str, operand, starts) -> None:
    if len(starts) != len(operand.shape):
        raise TypeError(
            f"{name} start_indices must have length equal to the number of dimensions of the operand, got "
            f"{len(starts)} indices for operand shape {operand.shape}."
        )
    if any(i.shape for i in starts):
        raise TypeError(
            f"start_indices arguments to {name} must be scalars, got indices {tuple(starts)}"
        )
    found = {i.dtype for i in starts}
    if len(found) > 1 or not all(dtypes.issubdtype(d, np.integer) for d in found):
        raise TypeError(
            f"index arguments to {name} must be integers of the same type, got: "
            f"{', '.join(rules.dtype_name(i.dtype) for i in starts)}"
        )


# ---------------------------------------------------------------------------------------------------
# slice


def _slice_shape(operand, *, start_indices, limit_indices, strides):
    shape = operand.shape
    for what, values in (("start_indices", start_indices), ("limit_indices", limit_indices)):
        if len(values) != len(shape):
            raise TypeError(
                f"slice {what} must have length equal to the number of dimensions of the operand, got "
                f"{what} {values} for operand shape {shape}."
            )
    for start, limit, size in zip(start_indices, limit_indices, shape):
        if not limit <= size:
            raise TypeError(
                "slice limit_indices must be less than or equal to operand shape, got limit_indices "
                f"{limit_indices} for operand shape {shape}."
            )
        if not start >= 0:
            raise TypeError(
                "slice start_indices must be greater than or equal to zero, got start_indices of "
                f"{start_indices}."
            )
        if not limit >= start:
            raise TypeError(
                "slice limit_indices must be greater than or equal to start_indices, got start_indices "
                f"{start_indices} and limit_indices {limit_indices}."
            )
    if strides is None:
        return tuple([limit - start for start, limit in zip(start_indices, limit_indices)])
    if len(strides) != len(shape):
        raise TypeError(
            "slice strides must have length equal to the number of dimensions of the operand, got strides "
            f"{strides} for operand shape {shape}."
        )
    if not all(s > 0 for s in strides):
        raise TypeError(f"slice strides must be positive, got {strides}")
    return tuple(
        [
            (limit - start + s - 1) // s
            for start, limit, s in zip(start_indices, limit_indices, strides)
        ]
    )


def _same_dtype(operand, *_, **__):
    return operand.dtype


def _first_weak(operand, *_, **__):
    return operand.weak_type


def _slice_sharding(operand, **params):
    return shardings.resized("slicing", operand, _slice_shape(operand, **params))


def _slice_transpose(ct, operand, *, start_indices, limit_indices, strides):
    shape = operand.aval.shape
    zero = np.array(0, operand.aval.dtype)[()]
    if strides is None or all(s == 1 for s in strides):
        config = [(lo, d - hi, 0) for lo, hi, d in zip(start_indices, limit_indices, shape)]
    else:
        config = []
        for start, n, stride, size in zip(start_indices, ct.shape, strides, shape):
            end = start if n == 0 else start + (n - 1) * stride + 1
            config.append((start, size - end, stride - 1))
    return [lax.pad(ct, zero, config)]


def _slice_batch(args, dims, *, start_indices, limit_indices, strides):
    (x,), (d,) = args, dims

    def at_bdim(values, v):
        return (*values[:d], v, *values[d:])

    out = slice_p.bind(
        x,
        start_indices=at_bdim(start_indices, 0),
        limit_indices=at_bdim(limit_indices, x.shape[d]),
        strides=None if strides is None else at_bdim(strides, 1),
    )
    return out, d


def _slice_lower(ctx, x, *, start_indices, limit_indices, strides):
    (aval_out,) = ctx.avals_out
    out = mlir.slice_op(
        ctx,
        x,
        aval_out,
        start_indices=start_indices,
        limit_indices=limit_indices,
        strides=strides or (1,) * len(start_indices),
    )
    return [out]


slice_p = standard_primitive(
    "slice",
    shape=_slice_shape,
    dtype=_same_dtype,
    sharding=_slice_sharding,
    unreduced=shardings.same_unreduced,
    lower=_slice_lower,
    jvp=LINEAR,
    transpose=_slice_transpose,
    batch=_slice_batch,
)


# ---------------------------------------------------------------------------------------------------
# dynamic_slice


def _dynamic_slice_shape(operand, *starts, slice_sizes):
    shape = operand.shape
    if len(slice_sizes) != len(shape):
        raise TypeError(
            "dynamic_slice slice_sizes must have length equal to the number of dimensions of the operand, "
            f"got slice_sizes {slice_sizes} for operand shape {shape}."
        )
    if not all(n <= size for n, size in zip(slice_sizes, shape)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{slice_sizes} for operand shape {shape}."
        )
    if not all(n >= 0 for n in slice_sizes):
        raise TypeError(
            f"slice slice_sizes must be greater than or equal to zero, got slice_sizes of {slice_sizes}."
        )
    return slice_sizes


def _dynamic_slice_dtype(operand, *starts, slice_sizes):
    _check_start_indices("dynamic_slice", operand, starts)
    return operand.dtype


def _dynamic_slice_sharding(operand, *starts, slice_sizes):
    return shardings.resized("dynamic_slice", operand, slice_sizes)


def _dynamic_slice_jvp(primals, tangents, *, slice_sizes):
    out = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    t = tangents[0]
    if type(t) is Zero:
        return out, Zero.from_primal_value(out)
    return out, dynamic_slice_p.bind(t, *primals[1:], slice_sizes=slice_sizes)


def _dynamic_slice_transpose(ct, operand, *starts, slice_sizes):
    none = [None] * len(starts)
    if not ad.is_undefined_primal(operand):
        return [None, *none]
    zeros = gathers.zeros_of(operand.aval)
    return [dynamic_update_slice(zeros, ct, starts, allow_negative_indices=False), *none]


def _dynamic_slice_batch(args, dims, *, slice_sizes):
    (x, *starts), (d, *start_dims) = args, dims
    shape = x.shape if d is None else tuple_delete(x.shape, d)
    # In dimensions that are sliced whole, the start is clamped to 0, so it may be unbatched.
    part = [i for i, (m, n) in enumerate(zip(slice_sizes, shape)) if m != n]
    if all(start_dims[i] is None for i in part):
        zero = _zero_like(starts)
        starts = [s if i in part else zero for i, s in enumerate(starts)]
        if d is None:
            return dynamic_slice_p.bind(x, *starts, slice_sizes=slice_sizes), None
        out = dynamic_slice_p.bind(
            x,
            *starts[:d],
            zero,
            *starts[d:],
            slice_sizes=(*slice_sizes[:d], x.shape[d], *slice_sizes[d:]),
        )
        return out, d
    indices, i_dim = stack_batched([starts[i] for i in part], [start_dims[i] for i in part])
    n = tuple(range(len(slice_sizes)))
    return gathers.gather_p.batch(
        (x, indices),
        (d, i_dim),
        dimension_numbers=GatherDimensionNumbers(n, (), tuple(part)),
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


def _zero_like(starts) -> Any:
    return np.array(0, core.typeof(starts[0]).dtype if starts else _INT32)[()]


def stack_batched(scalars, dims) -> tuple[Any, int]:
    """Stack scalars, some of which are batched, to batched vectors of shape `(size, n)`."""
    size = next(x.shape[0] for x, d in zip(scalars, dims) if d is not None)
    columns: list[Any] = [
        None if d is None else lax.broadcast_in_dim(x, (size, 1), (0,))
        for x, d in zip(scalars, dims)
    ]
    sharding = next(core.typeof(c)._sharding for c in columns if c is not None)
    columns = [
        lax.broadcast_in_dim(x, (size, 1), (), out_sharding=sharding) if c is None else c
        for x, c in zip(scalars, columns)
    ]
    return lax.concatenate(columns, 1) if len(columns) > 1 else columns[0], 0


def _dynamic_slice_lower(ctx, x, *starts, slice_sizes):
    (aval_out,) = ctx.avals_out
    return [mlir.dynamic_slice(ctx, aval_out, x, start_indices=starts)]


def _dynamic_slice_unreduced(pairs, operand, *indices, **params):
    if any(u for u, _ in pairs):
        raise NotImplementedError(
            f"dynamic_slice does not take operands that are unreduced, got {operand.str_short()}. Reduce"
            " them first with `jax.sharding.reshard`."
        )
    return pairs[0]


dynamic_slice_p = standard_primitive(
    "dynamic_slice",
    shape=_dynamic_slice_shape,
    dtype=_dynamic_slice_dtype,
    weak_type=_first_weak,
    sharding=_dynamic_slice_sharding,
    unreduced=_dynamic_slice_unreduced,
    memory_space=lambda operand, *_, **__: operand.memory_space,
    lower=_dynamic_slice_lower,
    jvp=_dynamic_slice_jvp,
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
)


# ---------------------------------------------------------------------------------------------------
# dynamic_update_slice


def _dynamic_update_slice_shape(operand, update, *starts):
    if len(operand.shape) != len(update.shape):
        raise TypeError(
            "dynamic_update_slice update must have the same rank as operand, got update shape "
            f"{update.shape} for operand shape {operand.shape}."
        )
    if not all(u <= d for u, d in zip(update.shape, operand.shape)):
        raise TypeError(
            "dynamic_update_slice update shape must be smaller than operand shape, got update shape "
            f"{update.shape} for operand shape {operand.shape}."
        )
    return operand.shape


def _dynamic_update_slice_dtype(operand, update, *starts):
    rules.check_same_dtypes("dynamic_update_slice", operand.dtype, update.dtype)
    _check_start_indices("dynamic_update_slice", operand, starts)
    return operand.dtype


def _dynamic_update_slice_sharding(operand, update, *starts):
    if operand.sharding.spec != update.sharding.spec:
        raise core.ShardingTypeError(
            "dynamic_update_slice operand sharding must be equal to update sharding, got operand "
            f"{operand.str_short()} and update {update.str_short()}. Make them agree with "
            "`jax.sharding.reshard`."
        )
    return shardings.with_entries(operand, shardings.entries(operand))


def _dynamic_update_slice_jvp(primals, tangents):
    out = dynamic_update_slice_p.bind(*primals)
    t, u = tangents[:2]
    if type(t) is Zero and type(u) is Zero:
        return out, Zero.from_primal_value(out)
    t, u = ad.instantiate_zeros(t), ad.instantiate_zeros(u)
    return out, dynamic_update_slice_p.bind(t, u, *primals[2:])


def _dynamic_update_slice_transpose(ct, operand, update, *starts):
    operand_ct = update_ct = None
    update_aval = lax.aval_of(update)
    if ad.is_undefined_primal(operand):
        zeros = gathers.zeros_of(update_aval)
        operand_ct = dynamic_update_slice(ct, zeros, starts, allow_negative_indices=False)
    if ad.is_undefined_primal(update):
        update_ct = dynamic_slice(ct, starts, update_aval.shape, allow_negative_indices=False)
    return [operand_ct, update_ct, *[None] * len(starts)]


def _dynamic_update_slice_batch(args, dims):
    (x, u, *starts), (xd, ud, *start_dims) = args, dims
    shapes = [y.shape if d is None else tuple_delete(y.shape, d) for y, d in ((x, xd), (u, ud))]
    # In dimensions that are updated whole, the start is clamped to 0, so it may be unbatched.
    part = [i for i, (m, n) in enumerate(zip(*shapes)) if m != n]
    if all(start_dims[i] is None for i in part):
        zero = _zero_like(starts)
        starts = [s if i in part else zero for i, s in enumerate(starts)]
        if xd is None and ud is None:
            return dynamic_update_slice_p.bind(x, u, *starts), None
        size = x.shape[xd] if xd is not None else u.shape[ud]
        x, u = batching.bdim_at_front(x, xd, size), batching.bdim_at_front(u, ud, size)
        return dynamic_update_slice_p.bind(x, u, _zero_like(starts), *starts), 0
    indices, i_dim = stack_batched([starts[i] for i in part], [start_dims[i] for i in part])
    n = tuple(range(len(starts)))
    return scatters.scatter_p.batch(
        (x, indices, u),
        (xd, i_dim, ud),
        dimension_numbers=ScatterDimensionNumbers(n, (), tuple(part)),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        update_jaxpr=None,
        update_consts=(),
    )


def _dynamic_update_slice_lower(ctx, x, update, *starts):
    (aval_out,) = ctx.avals_out
    return [mlir.dynamic_update_slice(ctx, aval_out, x, update, start_indices=starts)]


dynamic_update_slice_p = standard_primitive(
    "dynamic_update_slice",
    shape=_dynamic_update_slice_shape,
    dtype=_dynamic_update_slice_dtype,
    weak_type=lambda *_, **__: False,
    sharding=_dynamic_update_slice_sharding,
    unreduced=lambda pairs, x, update, *_: shardings.same_unreduced(pairs[:2], x, update),
    memory_space=lambda x, update, *_: common_memory_space("dynamic_update_slice", x, update),
    lower=_dynamic_update_slice_lower,
    jvp=_dynamic_update_slice_jvp,
    transpose=_dynamic_update_slice_transpose,
    batch=_dynamic_update_slice_batch,
)


# Late bindings for lower layers

late.slice = slice
late.index_in_dim = lambda x, i, axis: index_in_dim(x, i, axis, keepdims=False)
late.dynamic_slice_in_dim = lambda x, start, size, axis: dynamic_slice_in_dim(
    x, start, size, axis, allow_negative_indices=False
)
