"""Means, weighted means, variances and standard deviations over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.core import eval_trace, trace_ctx
from jax._src.jit.library import Programs, eager_jit, inline_jit, nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.checks import check_divisor
from jax._src.numpy.reductions.basic import sum
from jax._src.numpy.reductions.engine import (
    Axis,
    canonical_axes,
    check_where,
    element_count,
    hashable_axis,
    split_axes,
    upcast,
)
from jax._src.numpy.ufuncs_binary import dtype_kind
from jax._src.numpy.util import (
    check_arraylike,
    ensure_arraylike,
    export,
    promote_dtypes_inexact,
    reject_out,
    select_where,
)
from jax._src.typing import ArrayLike, DTypeLike

# Means


def _mean_impl(a, where=None, *, axis, dtype, keepdims):
    a = ensure_arraylike("mean", a)
    axes = canonical_axes(axis, a.ndim)
    if dtype is None:
        result_dtype = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a.dtype))
        compute_dtype = upcast(result_dtype)
    else:
        result_dtype = compute_dtype = dtype
    total = sum(a, axis, dtype=compute_dtype, keepdims=keepdims, where=where)
    if where is None:
        count = element_count(a.shape, axes, compute_dtype)
    else:
        where = util.broadcast_to(where, a.shape)
        count = sum(where, axis, dtype=compute_dtype, keepdims=keepdims)
    out = lax.div(total, count)
    return lax.convert_element_type(out, result_dtype) if compute_dtype != result_dtype else out


_mean_impl.__name__ = "_mean"
_mean_program = inline_jit(_mean_impl, static_argnames=("axis", "dtype", "keepdims"))


def _mean_of(key: tuple[Axis, bool]) -> Callable:
    axis, keepdims = key

    def _mean(a):
        return _mean_impl(a, axis=axis, dtype=None, keepdims=keepdims)

    return _mean


_mean_programs = Programs(_mean_of)  # by axis and keepdims


@export
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Computes means over axes.

    Args:
      a: array.
      axis, out, keepdims, where: as for `sum`.
      dtype: dtype of the result; by default that of `a`, or the default float for integers.

    Returns:
      An array without the axes. The mean of no elements is NaN.

    >>> jnp.mean(jnp.arange(6).reshape(2, 3), axis=1)
    Array([1., 4.], dtype=float32)
    """
    eager = trace_ctx.trace is eval_trace
    if eager and dtype is None and out is None and where is None and type(a) is ArrayImpl:
        try:
            program = _mean_programs[axis, keepdims]
        except TypeError:
            pass
        else:
            return program(a)
    check_arraylike("mean", a)
    reject_out("mean", out)
    if where is not None:
        where = check_where("mean", where)
    if dtype is not None:
        dtype = dtype_of_numbers(dtype, "mean")
    compute = _mean_program if eager else _mean_impl
    return compute(a, where, axis=hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


def dtype_of_numbers(dtype, name):
    """Canonicalizes the `dtype` argument of a mean or variance, rejecting bool."""
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    if dtype == np.bool_:
        raise TypeError(f"jnp.{name}: dtype must be one of numbers, got bool")
    return dtype


@export
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Computes weighted means over axes.

    Args:
      a: array.
      axis, keepdims: as for `sum`.
      weights: array of the shape of `a`, or of its size along `axis`; None for equal weights.
      returned: whether to return the sums of the weights as well.

    Returns:
      An array, or `(array, sums of weights)`.

    Raises:
      ValueError: if the shape of the weights does not match.

    >>> jnp.average(jnp.array([1., 2., 3.]), weights=jnp.array([3., 1., 0.]))
    Array(1.25, dtype=float32)
    """
    check_arraylike("average", a)
    if weights is not None:
        check_arraylike("average", weights)
    compute = _average_program if trace_ctx.trace is eval_trace else _average_impl
    out, total = compute(a, weights, axis=hashable_axis(axis), keepdims=bool(keepdims))
    check_divisor(total)
    return (out, total) if returned else out


def _average_impl(a, weights, *, axis, keepdims):
    a = ensure_arraylike("average", a)
    if weights is None:
        (a,) = promote_dtypes_inexact(a)
        out = mean(a, axis=axis, keepdims=keepdims)
        count = element_count(a.shape, canonical_axes(axis, a.ndim), out.dtype)
        return out, util.broadcast_to(count, out.shape)
    a, weights = promote_dtypes_inexact(a, util.to_array(weights))
    a_shape, a_ndim = a.shape, a.ndim
    if a_shape != weights.shape:
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        axes, _ = split_axes(canonical_axes(axis, a_ndim))
        if tuple([a_shape[i] for i in axes]) != weights.shape:
            if len(axes) == 1 and weights.ndim != 1:
                raise ValueError("1D weights expected when shapes of a and weights differ.")
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        weights = lax.transpose(weights, order)
        weights = lax.reshape(weights, [d if i in axes else 1 for i, d in enumerate(a_shape)])
    total = sum(weights, axis=axis, keepdims=keepdims)
    out = lax.div(sum(lax.mul(a, weights), axis=axis, keepdims=keepdims), total)
    return out, util.broadcast_to(total, out.shape)


_average_impl.__name__ = "average"
_average_program = inline_jit(_average_impl, static_argnames=("axis", "keepdims"))


# Variances


@export
@eager_jit("axis", "out", "ddof", "keepdims", "correction", direct=("dtype",))
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Computes variances over axes.

    Args:
      a: array.
      axis, out, keepdims, where: as for `sum`.
      dtype: dtype of the result; by default that of `a`, or the default float for integers. With an
        integer dtype the elements are truncated first, and the result is floating point, since it
        may be NaN.
      ddof: number to subtract from the number of elements before dividing by it.
      mean: the means, if known, with the reduced axes kept.
      correction: alias of `ddof`.

    Returns:
      An array, real for complex numbers. NaN where there are no more than `ddof` elements.

    Raises:
      ValueError: if both `ddof` and `correction` are given.

    >>> jnp.var(jnp.array([1., 2., 3., 4.]))
    Array(1.25, dtype=float32)
    """
    reject_out("var", out)
    ddof, args, dtype = variance_arguments("var", a, where, mean, dtype, ddof, correction)
    return _var(*args, ddof, axis=hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


@export
@eager_jit("axis", "out", "ddof", "keepdims", "correction", direct=("dtype",))
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Computes standard deviations over axes, square roots of variances; see `var`.

    >>> jnp.std(jnp.array([1., 2., 3., 4.]))
    Array(1.118034, dtype=float32)
    """
    reject_out("std", out)
    if dtype is not None and not dtypes.issubdtype(dtypes.dtype(dtype), np.inexact):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
    ddof, args, dtype = variance_arguments("std", a, where, mean, dtype, ddof, correction)
    return _std(*args, ddof, axis=hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


def variance_arguments(name, a, where, mean, dtype, ddof, correction):
    (a,) = util.arraylike(name, a)
    if where is not None:
        where = check_where(name, where)
    if mean is not None:
        (mean,) = util.arraylike(name, mean)
    if dtype is not None:
        dtype = dtype_of_numbers(dtype, name)
    if correction is not None:
        if not isinstance(ddof, int) or ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    return ddof, (a, where, mean), dtype


def _var_impl(a, where, known_mean, ddof, *, axis, dtype, keepdims):
    a = ensure_arraylike("var", a)
    compute_dtype, dtype = variance_dtypes("var", a.dtype, dtype)
    axes = canonical_axes(axis, a.ndim)
    a = lax.convert_element_type(a, compute_dtype)
    if known_mean is None:
        center = mean(a, axis, dtype=compute_dtype, keepdims=True, where=where)
    else:
        center = lax.convert_element_type(util.to_array(known_mean), compute_dtype)
    centered = lax.sub(*util.promote_shapes("var", a, center))
    if dtype_kind(centered) == "c":
        squared = lax.real(lax.mul(centered, lax.conj(centered)))
        compute_dtype = squared.dtype
    else:
        squared = lax.square(centered)
    if where is None:
        count = element_count(a.shape, axes, compute_dtype)
    else:
        where = util.broadcast_to(where, a.shape)
        count = sum(where, axis, dtype=compute_dtype, keepdims=keepdims)
    count = lax.sub(count, lax.convert_element_type(ddof, compute_dtype))
    out = lax.div(sum(squared, axis, squared.dtype, keepdims=keepdims, where=where), count)
    out = lax.convert_element_type(out, dtype)
    return select_where(lax.gt(count, lax.zero(count)), out, np.nan)


def variance_dtypes(name, a_dtype, dtype):
    """Returns the dtypes for computation and for the result."""
    if dtype is None:
        inexact = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a_dtype))
        return upcast(inexact), util.complex_elem_type(inexact)
    if not dtypes.issubdtype(dtype, np.complexfloating) and dtypes.issubdtype(
        a_dtype, np.complexfloating
    ):
        raise ValueError(
            f"jax.numpy.{name} does not yet support real dtype parameters when computing the variance of an"
            " array of complex values. The semantics of numpy.var seem unclear in this case. Take the"
            " variance without dtype, and convert it."
        )
    if not dtypes.issubdtype(dtype, np.inexact):
        return dtype, dtype
    if min(dtypes.itemsize_bits(a_dtype), dtypes.itemsize_bits(dtype)) < 16:
        return upcast(dtype), dtype  # such narrow floats promote with no other dtype
    return upcast(dtypes.result_type(a_dtype, dtype)), dtype


def _std_impl(a, where, mean, ddof, *, axis, dtype, keepdims):
    return lax.sqrt(_var(a, where, mean, ddof, axis=axis, dtype=dtype, keepdims=keepdims))


_var_impl.__name__, _std_impl.__name__ = "_var", "_std"
_var = nested_jit(_var_impl, static_argnames=("axis", "dtype", "keepdims"))
_std = nested_jit(_std_impl, static_argnames=("axis", "dtype", "keepdims"))
