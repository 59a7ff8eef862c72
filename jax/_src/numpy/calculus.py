"""Finite differences, gradients, integration, phase unwrapping and interpolation of samples."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.numpy.manipulation.shape import moveaxis, operand, ravel
from jax._src.numpy.reductions import sum
from jax._src.numpy.searching import elements_at, searchsorted_arrays
from jax._src.numpy.ufuncs import remainder
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple


def _part(x, start, stop, axis):
    return slicing.slice_in_dim(x, start, stop, axis=axis)


def _steps(x, axis):
    """Returns differences of adjacent elements along an axis; for booleans, whether they differ."""
    n = x.shape[axis]
    later, earlier = _part(x, min(1, n), n, axis), _part(x, 0, max(n - 1, 0), axis)
    return lax.ne(later, earlier) if x.dtype == np.bool_ else lax.sub(later, earlier)


# ---------------------------------------------------------------------------------------------------
# Differences


@export
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Computes n-th order differences of adjacent elements along an axis.

    Args:
      a: array of at least one dimension.
      n: number of times to take differences.
      axis: the axis.
      prepend, append: values to add before and after `a` first: scalars, or arrays of the shape of
        `a` except along `axis`.

    Returns:
      An array like `a`, smaller by `n` along `axis`.

    Raises:
      ValueError: if `a` is a scalar, or `n` is negative.

    >>> jnp.diff(jnp.array([1, 4, 9])).tolist()
    [3, 5]
    """
    a = operand("diff", a)
    util.check_arraylike_or_none("diff", prepend, append)
    n = core.concrete_or_error(operator.index, n, "'n' argument of jnp.diff")
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    return _diff(a, prepend, append, n=n, axis=canonicalize_axis(axis, a.ndim))


def _diff(a, prepend, append, *, n, axis):
    shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])

    def filled(x):
        x = util.to_array(x)
        return x if x.ndim else lax.broadcast_in_dim(x, shape, ())

    parts = [a]
    if prepend is not None:
        parts.insert(0, filled(prepend))
    if append is not None:
        parts.append(filled(append))
    if len(parts) > 1:
        a = concatenate(parts, axis)
    for _ in range(n):
        a = _steps(a, axis)
    return a


_diff = nested_jit(_diff, static_argnames=("n", "axis"))


@export
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Computes differences of adjacent elements of the flattened array.

    Args:
      ary: array.
      to_end, to_begin: values to add after and before the differences, converted to the dtype of
        `ary`.

    Returns:
      A vector of the dtype of `ary`.

    >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_end=7).tolist()
    [3, 5, 7]
    """
    util.check_arraylike_or_none("ediff1d", to_end, to_begin)
    return _ediff1d(operand("ediff1d", ary), to_end, to_begin)


def _ediff1d(ary, to_end, to_begin):
    ary = ravel(ary)
    n = ary.shape[0]
    parts = [lax.sub(_part(ary, min(1, n), n, 0), _part(ary, 0, max(n - 1, 0), 0))]
    if to_begin is not None:
        parts.insert(0, ravel(lax.convert_element_type(to_begin, ary.dtype)))
    if to_end is not None:
        parts.append(ravel(lax.convert_element_type(to_end, ary.dtype)))
    return concatenate(parts, 0)


_ediff1d = nested_jit(_ediff1d)


@export
def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Any:
    """Estimates derivatives of a sampled function by finite differences.

    The differences are central, and one-sided at the ends.

    Args:
      f: samples; at least 2 along each axis.
      *varargs: spacing: nothing for 1, one value for all axes, or one per entry of `axis`. Each
        value is a scalar or a vector of coordinates.
      axis: axis or axes to differentiate along; None for all.
      edge_order: must be None.

    Returns:
      An array of the shape of `f`, or a list of them for several axes.

    Raises:
      ValueError: if there are too few samples or the shape of a spacing does not match.
      TypeError: if the number of spacings is wrong.

    >>> jnp.gradient(jnp.array([1., 4., 9., 16.])).tolist()
    [3.0, 4.0, 6.0, 7.0]
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    f, *spacing = util.ensure_arraylike_tuple("gradient", (f, *varargs))
    axes = canonicalize_axis_tuple(axis, f.ndim)
    if len(spacing) not in (0, 1, len(axes)):
        raise TypeError(f"Invalid number of spacing arguments {len(spacing)} for {axis=}")
    if len(spacing) == 1:
        spacing = spacing * len(axes)
    if any(core.definitely_greater(2, f.shape[d]) for d in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
        )
    for h, d in zip(spacing, axes):
        if h.ndim > 1:
            raise ValueError("Spacing arrays must be 1D arrays or scalars.")
        if h.ndim == 1 and h.shape[0] != f.shape[d]:
            raise ValueError(
                "Spacing arrays must have the same length as the dimension along which the gradient is "
                "calculated."
            )
    out = _gradient(f, spacing, axes=axes)
    return out[0] if len(axes) == 1 else out


def _gradient(f, spacing, *, axes):
    f, *spacing = (util.to_array(x) for x in util.promote_dtypes_inexact(f, *spacing))
    spacing = spacing or [lax.const(f, 1)] * len(axes)
    return [_gradient_along(f, h, d) for h, d in zip(spacing, axes)]


def _gradient_along(f, h, d):
    n = f.shape[d]

    def over(x, h):
        if np.ndim(h):
            h = lax.broadcast_in_dim(h, x.shape, (d,))
        return lax.div(x, h)

    left = lax.sub(_part(f, 1, 2, d), _part(f, 0, 1, d))
    right = lax.sub(_part(f, n - 1, n, d), _part(f, n - 2, n - 1, d))
    if not np.ndim(h):
        inner = lax.sub(_part(f, 2, n, d), _part(f, 0, n - 2, d))
        return lax.concatenate(
            [over(left, h), lax.mul(over(inner, h), lax.const(f, 0.5)), over(right, h)], d
        )
    steps = _steps(h, 0)
    before, after = _part(steps, 0, n - 2, 0), _part(steps, 1, n - 1, 0)
    both = lax.add(before, after)
    # Derivative of the parabola through three points, at the middle one.
    weights = (
        lax.neg(lax.div(after, lax.mul(before, both))),
        lax.div(lax.sub(after, before), lax.mul(before, after)),
        lax.div(before, lax.mul(after, both)),
    )
    parts = _part(f, 0, n - 2, d), _part(f, 1, n - 1, d), _part(f, 2, n, d)
    terms = [lax.mul(lax.broadcast_in_dim(w, p.shape, (d,)), p) for w, p in zip(weights, parts)]
    inner = lax.add(lax.add(terms[0], terms[1]), terms[2])
    first, last = _part(steps, 0, 1, 0), _part(steps, n - 2, n - 1, 0)
    return lax.concatenate([over(left, first), inner, over(right, last)], d)


_gradient = nested_jit(_gradient, static_argnames=("axes",))


# ---------------------------------------------------------------------------------------------------
# Integration


@export
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrates a sampled function by the trapezoidal rule.

    Args:
      y: samples.
      x: coordinates: a vector, or an array that includes `axis`; None for samples `dx` apart.
      dx: spacing: a scalar, a vector, or an array that includes `axis`.
      axis: axis to integrate along.

    Returns:
      An array of the shape of `y` without `axis`.

    Raises:
      TypeError, ValueError: if an argument is not an array, or shapes do not broadcast.

    >>> jnp.trapezoid(jnp.array([1., 2., 3.]), dx=2.).item()
    8.0
    """
    if x is not None:
        (x,) = util.arraylike("trapezoid", x)
    y = operand("trapezoid", y)
    if not y.ndim:
        raise ValueError("trapezoid: `y` must have at least one dimension, got a scalar")
    canonicalize_axis(axis, y.ndim)
    if x is not None:
        return _trapezoid(y, x, None, axis=operator.index(axis))
    return _trapezoid(y, None, asarray(dx), axis=operator.index(axis))


def _trapezoid(y, x, dx, *, axis):
    (y,) = util.promote_dtypes_inexact(y)
    # A negative axis counts from the end of each array separately, since their ranks may differ.
    if x is None:
        y, apart = util.to_array(y), dx
    else:
        y, apart = (util.to_array(v) for v in util.promote_dtypes_inexact(y, x))
    y = moveaxis(y, axis, -1)
    if apart.ndim > 1:
        apart = moveaxis(apart, axis, -1)
    width = apart if x is None else _steps(apart, apart.ndim - 1)
    last, n = y.ndim - 1, y.shape[-1]
    if width.size == 1 and n:
        first, final = (lax.squeeze(_part(y, i, i + 1, last), (last,)) for i in (0, n - 1))
        halves = lax.add(first, final)
        halves = lax.mul(lax.const(halves, 0.5), halves)
        heights = lax.sub(*util.promote_dtypes(sum(y, axis=-1), halves))
        return lax.mul(*util.promote_args("trapezoid", lax.reshape(width, ()), heights))
    heights = lax.add(_part(y, min(1, n), n, last), _part(y, 0, max(n - 1, 0), last))
    areas = lax.mul(*util.promote_args("trapezoid", width, heights))
    total = sum(areas, axis=-1)
    return lax.mul(lax.const(total, 0.5), total)


_trapezoid = nested_jit(_trapezoid, static_argnames=("axis",))


# ---------------------------------------------------------------------------------------------------
# Phase unwrapping


@export
def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi
) -> Array:
    """Adds multiples of a period so that adjacent elements differ by at most half of it.

    Args:
      p: array.
      discont: smaller differences are left unchanged; None, or a value below it, means half the
        period.
      axis: axis along which to unwrap.
      period: a scalar, or an array that broadcasts to the differences.

    Returns:
      An array of the shape of `p`.

    Raises:
      ValueError: if `p` is complex.

    >>> jnp.unwrap(jnp.array([0, 1, 4, 5, 1]), period=4).tolist()
    [0, 1, 0, 1, 1]
    """
    util.check_arraylike_or_none("unwrap", discont)
    p, period = util.ensure_arraylike("unwrap", p, period)
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise ValueError("jnp.unwrap does not support complex inputs.")
    if not p.size:
        return lax.convert_element_type(p, dtypes.result_type(p, period))
    return _unwrap(p, discont, period, axis=canonicalize_axis(axis, p.ndim))


def _unwrap(p, discont, period, *, axis):
    dtype = dtypes.result_type(p, period)
    p, period = lax.convert_element_type(p, dtype), lax.convert_element_type(period, dtype)
    steps = _steps(p, axis)
    if period.ndim:
        period = util.broadcast_to(period, steps.shape)
    two = lax.const(period, 2)
    half = lax.div(period, two)
    zero = lax.full_like(steps, 0)
    sharding = core.typeof(steps)._sharding
    every = tuple(range(period.ndim))
    full = lax.broadcast_in_dim(half, steps.shape, every, out_sharding=sharding)
    integers = dtypes.issubdtype(p.dtype, np.integer)
    # `wrapped` is in [-period/2, period/2). A positive step of exactly half a period keeps its
    # sign.
    wrapped = lax.sub(remainder(lax.add(steps, full), period), full)
    at_edge = lax.bitwise_and(lax.eq(wrapped, lax.neg(full)), lax.gt(steps, zero))
    if integers:
        # Integer steps are never exactly half of an odd period.
        even = lax.eq(lax.rem(period, two), lax.const(period, 0))
        at_edge = lax.bitwise_and(at_edge, lax.broadcast_in_dim(even, at_edge.shape, every))
    wrapped = lax.select(at_edge, full, wrapped)
    if discont is None:
        limit = half
        if integers:
            # Round up, so that integer steps of less than half an odd period count as small.
            limit = lax.div(lax.add(period, lax.const(period, 1)), two)
        limit = lax.broadcast_in_dim(limit, steps.shape, every)
        small = lax.lt(lax.abs(steps), limit)
    else:
        a, b = util.promote_args("unwrap", lax.abs(steps), discont)
        small = util.broadcast_to(lax.lt(a, b), steps.shape)
    correction = lax.select(small, zero, lax.sub(wrapped, steps))
    moved = lax.add(_part(p, 1, p.shape[axis], axis), lax.cumsum(correction, axis))
    return lax.concatenate([_part(p, 0, 1, axis), moved], axis)


_unwrap = nested_jit(_unwrap, static_argnames=("axis",))


# ---------------------------------------------------------------------------------------------------
# Interpolation


@export
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Interpolates a sampled function linearly.

    Args:
      x: where to evaluate the function; any shape.
      xp: vector of the samples' coordinates, in ascending order.
      fp: vector of samples.
      left, right: results for `x` below and above all `xp`; None for the first and last sample,
        "extrapolate" to continue with the slope at that end.
      period: period of the coordinates. If it is given, `xp` needs no order, and `left` and `right`
        have no effect.

    Returns:
      An array of the shape of `x`.

    Raises:
      ValueError: if `xp` and `fp` are not vectors of equal size, or `x` is complex.

    >>> jnp.interp(jnp.array([0.5, 9.]), jnp.array([0., 1., 2.]), jnp.array([1., 3., 2.])).tolist()
    [2.0, 2.0]
    """
    x, xp, fp = util.arraylike("interp", x, xp, fp)
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{name}` is 'extrapolate', but got: {value!r}"
            )
    if np.ndim(xp) != 1 or np.shape(xp) != np.shape(fp):
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    if np.shape(xp) == (0,):
        raise ValueError("jnp.interp: array of sample points is empty")
    if dtypes.issubdtype(dtypes.result_type(x, xp), np.complexfloating):
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        (period,) = util.arraylike("interp", period)
        if np.ndim(period) != 0:
            raise ValueError(f"period must be a scalar; got {period}")
        known = core.to_concrete_value(period)
        if known is not None and known == 0:
            raise ValueError(f"period must be a non-zero value; got {period}")
    extrapolate = isinstance(left, str), isinstance(right, str)
    return _interp(
        x, xp, fp, None if extrapolate[0] else left, None if extrapolate[1] else right, period,
        extrapolate=extrapolate,
    )  # fmt: skip


def _interp(x, xp, fp, left, right, period, *, extrapolate):
    (fp,) = (util.to_array(v) for v in util.promote_dtypes_inexact(fp))
    if period is None:
        x, xp = (util.to_array(v) for v in util.promote_dtypes_inexact(x, xp))
    else:
        x, xp, period = (util.to_array(v) for v in util.promote_dtypes_inexact(x, xp, period))
        period = lax.abs(period)
        x, xp = remainder(x, period), remainder(xp, period)
        xp, fp = lax.sort_key_val(xp, fp)
        n = xp.shape[0]
        # Add the last and the first sample, one period away, at the ends.
        xp = lax.concatenate(
            [lax.sub(_part(xp, n - 1, n, 0), period), xp, lax.add(_part(xp, 0, 1, 0), period)], 0
        )
        fp = lax.concatenate([_part(fp, n - 1, n, 0), fp, _part(fp, 0, 1, 0)], 0)
    n = xp.shape[0]
    place = searchsorted_arrays(xp, x, None, side="right", method="scan")
    place = lax.clamp(lax.const(place, core.min_dim(1, n - 1)), place, lax.const(place, n - 1))
    before = lax.max(lax.sub(place, lax.const(place, 1)), lax.const(place, 0))
    x0, f0 = elements_at(xp, before), elements_at(fp, before)
    dx = lax.sub(elements_at(xp, place), x0)
    df = lax.sub(elements_at(fp, place), f0)
    # Coordinates that are equal, up to rounding, are a jump: do not divide by their difference.
    tiny = np.spacing(np.finfo(dtypes.dtype(xp)).eps) if xp.dtype.kind == "f" else 0
    jump = lax.le(lax.abs(dx), lax.const(dx, tiny))
    slope = lax.div(lax.sub(x, x0), lax.select(jump, lax.full_like(dx, 1), dx))
    rise = lax.mul(*util.promote_dtypes(slope, df))
    out = util.select_where(jump, f0, lax.add(*util.promote_dtypes(f0, rise)))
    if period is None:
        if not extrapolate[0]:
            first = slicing.index_in_dim(xp, 0, keepdims=False)
            value = slicing.index_in_dim(fp, 0, keepdims=False) if left is None else left
            out = util.select_where(lax.lt(x, first), value, out)
        if not extrapolate[1]:
            last = slicing.index_in_dim(xp, -1, keepdims=False)
            value = slicing.index_in_dim(fp, -1, keepdims=False) if right is None else right
            out = util.select_where(lax.gt(x, last), value, out)
    return out


_interp = nested_jit(_interp, static_argnames=("extrapolate",))
