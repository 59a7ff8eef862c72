"""Reductions that ignore NaN."""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.reductions.basic import all, max, min, prod, sum
from jax._src.numpy.reductions.engine import Axis, check_where, greatest, hashable_axis, least
from jax._src.numpy.reductions.means import (
    dtype_of_numbers,
    mean,
    variance_arguments,
    variance_dtypes,
)
from jax._src.numpy.ufuncs_binary import dtype_kind
from jax._src.numpy.ufuncs_unary import isnan
from jax._src.numpy.util import check_arraylike, ensure_arraylike, export, reject_out, select_where
from jax._src.typing import ArrayLike, DTypeLike


def _nan_reduction(a, name, reduction, fill, nan_if_all_nan, where, **kwargs):
    check_arraylike(name, a)
    a = util.to_array(a)
    if dtype_kind(a) not in "fc":
        return reduction(a, where=where, **kwargs)
    fill_value = np.asarray(fill(a.dtype), a.dtype)[()]
    out = reduction(select_where(isnan(a), fill_value, a), where=where, **kwargs)
    if not nan_if_all_nan:
        return out
    only_nan = all(isnan(a), axis=kwargs["axis"], keepdims=kwargs["keepdims"])
    return select_where(only_nan, np.asarray(np.nan, a.dtype)[()], out)


def _nan_impl(name, reduction, fill, nan_if_all_nan, with_dtype):
    def impl(a, initial, where, *, axis, keepdims, dtype=None):
        kwargs = {"axis": axis, "keepdims": keepdims, "initial": initial}
        if with_dtype:
            kwargs["dtype"] = dtype
        return _nan_reduction(
            a, name, reduction, fill, nan_if_all_nan and initial is None, where, **kwargs
        )

    impl.__name__ = impl.__qualname__ = name
    return nested_jit(impl, static_argnames=("axis", "keepdims", "dtype"))


_nansum = _nan_impl("nansum", sum, lambda d: 0, False, True)
_nanprod = _nan_impl("nanprod", prod, lambda d: 1, False, True)
_nanmax = _nan_impl("nanmax", max, least, True, False)
_nanmin = _nan_impl("nanmin", min, greatest, True, False)


def _nan_call(name, program, a, axis, out, keepdims, initial, where, dtype=None):
    check_arraylike(name, a)
    reject_out(name, out)
    if where is not None:
        where = check_where(name, where)
    kwargs = {"axis": hashable_axis(axis), "keepdims": bool(keepdims)}
    if dtype is not None:
        kwargs["dtype"] = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    return program(a, initial, where, **kwargs)


@export
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sums elements over axes, ignoring NaNs; takes the arguments of `sum`.

    >>> jnp.nansum(jnp.array([1., jnp.nan, 2.]))
    Array(3., dtype=float32)
    """
    return _nan_call("nansum", _nansum, a, axis, out, keepdims, initial, where, dtype)


@export
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Multiplies elements over axes, ignoring NaNs; takes the arguments of `sum`.

    >>> jnp.nanprod(jnp.array([3., jnp.nan, 2.]))
    Array(6., dtype=float32)
    """
    return _nan_call("nanprod", _nanprod, a, axis, out, keepdims, initial, where, dtype)


@export
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Computes the maximum over axes, ignoring NaNs unless there is nothing else; see `max`.

    >>> jnp.nanmax(jnp.array([1., jnp.nan, 2.]))
    Array(2., dtype=float32)
    """
    return _nan_call("nanmax", _nanmax, a, axis, out, keepdims, initial, where)


@export
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Computes the minimum over axes, ignoring NaNs unless there is nothing else; see `max`.

    >>> jnp.nanmin(jnp.array([1., jnp.nan, 2.]))
    Array(1., dtype=float32)
    """
    return _nan_call("nanmin", _nanmin, a, axis, out, keepdims, initial, where)


def _nanmean_impl(a, where, *, axis, dtype, keepdims):
    a = ensure_arraylike("nanmean", a)
    if dtype_kind(a) not in "fc":
        return mean(a, axis, dtype, keepdims=keepdims, where=where)
    if dtype is None:
        dtype = a.dtype
    valid = lax.bitwise_not(isnan(a))
    count = sum(valid, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    total = nansum(a, axis, dtype=dtype, keepdims=keepdims, where=where)
    return lax.div(total, count)


_nanmean_impl.__name__ = "nanmean"
_nanmean = nested_jit(_nanmean_impl, static_argnames=("axis", "dtype", "keepdims"))


@export
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Computes means over axes, ignoring NaNs; takes the arguments of `mean`.

    >>> jnp.nanmean(jnp.array([1., jnp.nan, 2.]))
    Array(1.5, dtype=float32)
    """
    check_arraylike("nanmean", a)
    reject_out("nanmean", out)
    if where is not None:
        where = check_where("nanmean", where)
    if dtype is not None:
        dtype = dtype_of_numbers(dtype, "nanmean")
    return _nanmean(a, where, axis=hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


@export
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Computes variances over axes, ignoring NaNs; takes the arguments of `var`.

    >>> jnp.nanvar(jnp.array([1., jnp.nan, 2.]))
    Array(0.25, dtype=float32)
    """
    reject_out("nanvar", out)
    ddof, args, dtype = variance_arguments("nanvar", a, where, mean, dtype, ddof, None)
    return _nanvar(*args, ddof, axis=hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


@export
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Computes standard deviations over axes, ignoring NaNs; takes the arguments of `var`.

    >>> jnp.nanstd(jnp.array([1., jnp.nan, 2.]))
    Array(0.5, dtype=float32)
    """
    reject_out("nanstd", out)
    ddof, args, dtype = variance_arguments("nanstd", a, where, mean, dtype, ddof, None)
    return _nanstd(*args, ddof, axis=hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


def _nanvar_impl(a, where, known_mean, ddof, *, axis, dtype, keepdims):
    a = ensure_arraylike("nanvar", a)
    compute_dtype, dtype = variance_dtypes("nanvar", a.dtype, dtype)
    a = lax.convert_element_type(a, compute_dtype)
    if known_mean is None:
        center = nanmean(a, axis, dtype=compute_dtype, keepdims=True, where=where)
    else:
        center = lax.convert_element_type(util.to_array(known_mean), compute_dtype)
    is_nan = isnan(a)
    centered = select_where(is_nan, 0, lax.sub(*util.promote_shapes("nanvar", a, center)))
    if dtype_kind(centered) == "c":
        squared = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        squared = lax.square(centered)
    count = sum(lax.bitwise_not(is_nan), axis=axis, keepdims=keepdims, where=where)
    # `ddof` may be fractional, so count in floating point.
    count = lax.convert_element_type(count, dtypes.to_inexact_dtype(squared.dtype))
    count = lax.sub(count, lax.convert_element_type(ddof, count.dtype))
    too_few = lax.le(count, lax.zero(count))
    out = sum(squared, axis, squared.dtype, keepdims=keepdims, where=where)
    out = lax.div(lax.convert_element_type(out, count.dtype), select_where(too_few, 1, count))
    return lax.convert_element_type(select_where(too_few, np.nan, out), dtype)


def _nanstd_impl(a, where, mean, ddof, *, axis, dtype, keepdims):
    return lax.sqrt(_nanvar(a, where, mean, ddof, axis=axis, dtype=dtype, keepdims=keepdims))


_nanvar_impl.__name__, _nanstd_impl.__name__ = "nanvar", "nanstd"
_nanvar = nested_jit(_nanvar_impl, static_argnames=("axis", "dtype", "keepdims"))
_nanstd = nested_jit(_nanstd_impl, static_argnames=("axis", "dtype", "keepdims"))
