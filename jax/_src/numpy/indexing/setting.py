"""Updating elements: the implementation of `x.at[...].set()` and related methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.device_put.functions import device_put
from jax._src.jit.library import Programs
from jax._src.lax import lax, slicing
from jax._src.lax.resharding import reshard
from jax._src.lax.slicing import GatherScatterMode, ScatterDimensionNumbers
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.indexing.getting import join, split
from jax._src.numpy.indexing.lower import make_plan, with_new
from jax._src.numpy.indexing.parse import (
    NEW,
    Flag,
    Position,
    Positions,
    Slice,
    parse_index,
)
from jax._src.numpy.util import promote_dtypes
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.transforms.explicit_sharding import auto_axes

_trace_ctx = core.trace_ctx
_eval_trace = core.eval_trace
_DROP = GatherScatterMode.FILL_OR_DROP


def scatter_update(
    x: Any,
    idx: Any,
    y: Any,
    scatter_op: Callable,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    normalize_indices: bool = True,
    out_sharding: Any = None,
    *,
    compiled: bool = True,
) -> Any:
    """Returns `x` with the elements at `idx` updated with `y`.

    Args:
      x: array or tracer.
      idx: the index, as written between brackets.
      y: values that broadcast to the shape of `x[idx]`. They are converted to the dtype of `x`,
        with a FutureWarning if that is not a safe cast.
      scatter_op: a function like `lax.scatter`.
      indices_are_sorted, unique_indices: promises about index arrays.
      mode: treatment of out-of-bounds indices; None drops the updates.
      normalize_indices: whether negative indices count from the end.
      out_sharding: sharding of the result, in explicit mode.
      compiled: whether an eager update may run as one compiled program, which is cached under
        `scatter_op`.

    Raises:
      IndexError, TypeError, ValueError: if the index, dtypes or shapes are invalid.
    """
    checks_bounds = config.debug_bounds.value
    scatter_mode = GatherScatterMode.from_any(mode)
    if mode is None and checks_bounds:
        scatter_mode = None  # the same, but indices must be in bounds
    if type(y) is not ArrayImpl or y.dtype != x.dtype:
        safe, y = _checked_values(x, y)
        if not safe:  # update in the promoted dtype, then convert back
            aval = core.typeof(x)
            wide, y = promote_dtypes(x, y)
            out = scatter_update(
                wide, idx, y, scatter_op, indices_are_sorted, unique_indices, mode,
                normalize_indices, out_sharding, compiled=compiled,
            )  # fmt: skip
            return lax.convert_type(
                out, aval.dtype, aval.weak_type, warn_on_complex_to_real_cast=False
            )
    entries = parse_index(idx, x.shape, normalize_indices)
    flags = (bool(indices_are_sorted), bool(unique_indices), scatter_mode)
    if out_sharding is not None:
        sharding = canonicalize_sharding(out_sharding, "x.at[...].set")
        skeleton, leaves = split(entries, x.shape)
        program = _programs[scatter_op, skeleton, flags]
        return auto_axes(program, out_sharding=sharding)(x, y, *leaves)
    is_eager = type(x) is ArrayImpl and _trace_ctx.trace is _eval_trace
    if compiled and is_eager and not checks_bounds:  # a program has the line of its first call
        skeleton, leaves = split(entries, x.shape)
        return _programs[scatter_op, skeleton, flags](x, y, *leaves)
    return update_entries(x, entries, y, scatter_op, *flags)


def update_entries(x, entries, y, scatter_op, is_sorted, unique, mode):
    """Updates `x` at parsed entries with lax operations."""
    dtype, weak_type, shape = x.dtype, core.typeof(x).weak_type, x.shape
    plan = make_plan(shape, entries)
    if plan.is_empty or plan.empty_axis is not None:
        _check_shape(y, plan.result_shape)
        return x
    y = _fit(_converted(y, dtype, weak_type), plan.shape, plan.new, plan.reverse)
    dnums = ScatterDimensionNumbers(plan.offset_dims, plan.collapsed, plan.axes)
    return scatter_op(
        x,
        plan.indices,
        y,
        dnums,
        indices_are_sorted=is_sorted or plan.unique,
        unique_indices=unique or plan.unique,
        mode=mode,
    )


def _converted(y, dtype, weak_type):
    """Converts values to the array's dtype; Python numbers that fit need no operation."""
    t = type(y)
    if t is float and dtypes.issubdtype(dtype, np.floating):
        return np.array(y, dtype)[()]
    if t is int or t is bool:
        if dtypes.issubdtype(dtype, np.floating) or (
            dtype.kind in "iu" and slicing.int_range(dtype)[0] <= y <= slicing.int_range(dtype)[1]
        ):
            return np.array(y, dtype)[()]
    return lax.convert_type(y, dtype, weak_type)


def _fit(y, update_shape, new, reverse):
    """Broadcasts values to the shape of the scatter's updates.

    Args:
      y: values that broadcast to the shape of the updates with dimensions of size 1 added at `new`.
      update_shape: shape of the updates.
      new: dimensions of `y` that the updates lack.
      reverse: dimensions of the updates in which they are reversed.
    """
    shape = with_new(update_shape, new)
    _check_shape(y, shape)
    n, ndim = np.ndim(y), len(shape)
    if n == 0:
        return lax.broadcast_in_dim(y, update_shape, ()) if update_shape else y
    if np.shape(y) != shape:
        y = lax.broadcast_in_dim(y, shape, range(ndim - n, ndim))
    if new:
        y = lax.squeeze(y, new)
    return lax.rev(y, reverse) if reverse else y


def _check_shape(y, shape):
    """Raises ValueError unless the values broadcast to a shape."""
    n, ndim = np.ndim(y), len(shape)
    if n > ndim:
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={np.shape(y)} shape={shape}"
        )
    if any(
        not (core.definitely_equal(d, 1) or core.definitely_equal(d, size))
        for d, size in zip(np.shape(y), shape[ndim - n :])
    ):
        aval = core.typeof(y)
        raise ValueError(
            f"Incompatible types for broadcasting: input type={aval.str_short()} and requested "
            f"type={aval.update(shape=shape).str_short()}"
        )


# ---------------------------------------------------------------------------------------------------
# Values


def checked_values(x, y):
    """Converts values to an array or scalar; warns if they cannot be safely cast to `x`'s dtype."""
    return _checked_values(x, y)[1]


def _checked_values(x, y):
    """Returns whether values can be safely cast to `x`'s dtype (else warns), and the values."""
    t = type(y)
    if t in _SCALARS:
        key = (x.dtype, t, config.numpy_dtype_promotion.value)
    else:
        if not isinstance(y, (Array, np.ndarray, np.generic)):
            y = asarray(y)
        key = (x.dtype, y.dtype, core.typeof(y).weak_type, config.numpy_dtype_promotion.value)
    safe = _safe.get(key)
    if safe is None:
        if isinstance(x.dtype, dtypes.ExtendedDType) and dtypes.dtype(y) != x.dtype:
            raise TypeError(
                f"An array of dtype {x.dtype} takes elements of that dtype only, got {dtypes.dtype(y)}."
            )
        safe = _safe[key] = dtypes.safe_to_cast(y, x)
    if not safe:
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={dtypes.dtype(y)} to dtype={dtypes.dtype(x)} with jax_numpy_dtype_promotion="
            f"{config.numpy_dtype_promotion.value}. In future JAX releases this will result in an error.",
            FutureWarning,
            stacklevel=4,
        )
    return safe, y


_SCALARS = (bool, int, float, complex)
_safe: dict[Any, bool] = {}


# ---------------------------------------------------------------------------------------------------
# Compiled programs


def _update_of(key: Any) -> Callable:
    scatter_op, skeleton, flags = key
    combine = _COMBINERS.get(scatter_op)
    if combine is not None and _is_one_slice(skeleton):

        def update(x, y, *leaves):
            return _update_slice(x, join(skeleton, leaves), y, combine)
    else:

        def update(x, y, *leaves):
            return update_entries(x, join(skeleton, leaves), y, scatter_op, *flags)

    return update


_programs = Programs(_update_of)  # by operation, skeleton and flags


# How each scatter combines old and new elements, for updates of a single window.
_COMBINERS: dict[Callable, Callable] = {
    slicing.scatter: lambda old, new: new,
    slicing.scatter_add: lax.add,
    slicing.scatter_sub: lax.sub,
    slicing.scatter_mul: lax.mul,
    slicing.scatter_min: lax.min,
    slicing.scatter_max: lax.max,
}


def _is_one_slice(skeleton) -> bool:
    """Tests whether the elements are known to form one in-bounds window of the array."""
    for e in skeleton:
        if type(e) is Slice:
            if e.step != 1 or not e.inside:
                return False
        elif type(e) is Position:
            if not e.inside:
                return False
        elif type(e) is Positions or type(e) is Flag:
            return False
    return True


def _update_slice(x, entries, y, combine):
    """Updates a window by dynamic_update_slice, cheaper than a scatter on most hardware."""
    shape = x.shape
    starts, sizes, reverse, new, kept = [], [], [], [], []
    out_dim = 0
    for e in entries:
        if e is NEW:
            new.append(out_dim)
            out_dim += 1
        elif type(e) is Slice:
            if e.reverse:
                reverse.append(len(kept))
            kept.append(len(starts))
            starts.append(0 if e.size == 0 else e.start)
            sizes.append(e.size)
            out_dim += 1
        elif type(e) is Position:
            starts.append(e.index)
            sizes.append(1)
    y = _converted(y, x.dtype, core.typeof(x).weak_type)
    y = _fit(y, tuple([sizes[a] for a in kept]), new, reverse)
    window = tuple(sizes)
    y = lax.broadcast_in_dim(y, window, kept)
    static = all(type(s) is int for s in starts)
    if combine is not _COMBINERS[slicing.scatter]:
        y = combine(slicing.dynamic_slice(x, starts, window, allow_negative_indices=False), y)
    aval = core.typeof(x)
    if core.typeof(y).memory_space is not aval.memory_space:
        y = device_put(y, aval.memory_space)
    sharding = aval._sharding
    if sharding is not None:
        y = _sharded_window(x, y, sharding)
    if static and window == shape:
        return y
    return slicing.dynamic_update_slice(x, y, starts, allow_negative_indices=False)


def _sharded_window(x, y, sharding):
    """Reshards the values of a window like `x`; raises an error if it cuts a sharded dimension."""
    spec = sharding.spec.partitions
    if any(e is not None and n != y.shape[d] for d, (e, n) in enumerate(zip(spec, x.shape))):
        raise core.ShardingTypeError(
            "The sharding of this update could not be resolved unambiguously: use "
            "`.at[...].set(..., out_sharding=)` (or `.add`, ...), or `jax.sharding.reshard`. Got an array "
            f"{core.typeof(x).str_short()} and values for a part of it of shape {y.shape}, which cuts "
            "sharded dimensions."
        )
    return y if core.typeof(y)._sharding == sharding else reshard(y, sharding)
