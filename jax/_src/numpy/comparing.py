"""Approximate and exact array comparison, and replacement of non-finite values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import inline_jit, nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike

_RTOL, _ATOL = 1e-05, 1e-08


@export
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = _RTOL,
    atol: ArrayLike = _ATOL,
    equal_nan: bool = False,
) -> Array:
    """Tests elementwise whether `abs(a - b) <= atol + rtol * abs(b)`.

    Args:
      a, b: arrays of broadcast-compatible shapes.
      rtol, atol: relative and absolute tolerance; scalars or arrays that broadcast with `a` and
        `b`.
      equal_nan: whether two NaNs count as equal.

    Returns:
      A boolean array of the broadcast shape. Infinities are close only if they have the same sign.
      Integers and booleans are compared as floating-point numbers.

    >>> jnp.isclose(jnp.array([1., jnp.inf]), jnp.array([1.000001, jnp.inf])).tolist()
    [True, True]
    """
    # Default tolerances become constants of the traced program instead of operands.
    return _isclose(
        a,
        b,
        None if rtol is _RTOL else rtol,
        None if atol is _ATOL else atol,
        equal_nan=bool(equal_nan),
    )


def _isclose(a, b, rtol, atol, *, equal_nan):
    rtol, atol = _RTOL if rtol is None else rtol, _ATOL if atol is None else atol
    util.check_arraylike("isclose", a, b, rtol, atol)
    a, b = util.promote_args("isclose", a, b)
    lax.broadcast_shapes(np.shape(a), np.shape(b))
    dtype = dtypes.dtype(a)
    if isinstance(dtype, dtypes.ExtendedDType):
        return lax.eq(a, b)
    if dtypes.issubdtype(dtype, np.integer) or dtype == np.bool_:
        a, b = util.promote_args_inexact("isclose", a, b)
        dtype = dtypes.dtype(a)
    real = util.complex_elem_type(dtype)
    a, b, rtol, atol = util.promote_shapes(
        "isclose",
        lax.convert_element_type(a, dtype),
        lax.convert_element_type(b, dtype),
        lax.convert_element_type(rtol, real),
        lax.convert_element_type(atol, real),
    )
    # For infinities the difference is NaN or infinite, so they are close only where they are equal.
    close = lax.le(lax.abs(lax.sub(a, b)), lax.add(atol, lax.mul(rtol, lax.abs(b))))
    finite = lax.bitwise_and(_isfinite(a), _isfinite(b))
    close = lax.bitwise_or(lax.bitwise_and(close, finite), lax.eq(a, b))
    if equal_nan:
        close = lax.bitwise_or(close, lax.bitwise_and(lax.ne(a, a), lax.ne(b, b)))
    return close


def _isfinite(x):
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x)


_isclose = nested_jit(_isclose, static_argnames=("equal_nan",))


@export
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = _RTOL,
    atol: ArrayLike = _ATOL,
    equal_nan: bool = False,
) -> Array:
    """Tests whether all elements are equal within a tolerance; see `isclose`.

    >>> jnp.allclose(jnp.array([1., 2.]), jnp.array([1., 2.00001])).item()
    True
    """
    # Default tolerances become constants of the traced program instead of operands.
    return _allclose(
        a,
        b,
        None if rtol is _RTOL else rtol,
        None if atol is _ATOL else atol,
        equal_nan=bool(equal_nan),
    )


def _allclose(a, b, rtol, atol, *, equal_nan):
    util.check_arraylike("allclose", a, b)
    return _all(_isclose(a, b, rtol, atol, equal_nan=equal_nan))


def _all(x):
    out = lax.reduce_and(x, axes=tuple(range(x.ndim)))
    return lax.convert_element_type(out, np.bool_)


_allclose = inline_jit(_allclose, static_argnames=("equal_nan",))


@export
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Tests whether two arrays have the same shape and the same elements.

    Args:
      a1, a2: arrays, or sequences that can be converted to arrays.
      equal_nan: whether two NaNs count as equal.

    Returns:
      A boolean scalar.

    >>> jnp.array_equal(jnp.array([1, 2]), jnp.array([1, 2])).item()
    True
    """
    a1, a2 = _as_array(a1), _as_array(a2)
    if a1.ndim != a2.ndim or not all(map(core.known_equal, a1.shape, a2.shape)):
        return util.to_array(np.bool_(False))
    return _array_equal(a1, a2, equal_nan=bool(equal_nan))


def _as_array(x: Any) -> Any:
    return util.to_array(np.asarray(x) if isinstance(x, (list, tuple, str)) else x)


def _array_equal(a1, a2, *, equal_nan):
    if a1.dtype == a2.dtype == dtypes.float0:
        return lax.full((), True)
    a1, a2 = util.promote_args("array_equal", a1, a2)
    same = lax.eq(a1, a2)
    if equal_nan and dtypes.issubdtype(dtypes.dtype(a1), np.inexact):
        same = lax.bitwise_or(same, lax.bitwise_and(lax.ne(a1, a1), lax.ne(a2, a2)))
    return _all(same)


_array_equal = nested_jit(_array_equal, static_argnames=("equal_nan",))


@export
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Tests whether two arrays are equal after broadcasting; False if they do not broadcast.

    Args:
      a1, a2: arrays, or sequences that can be converted to arrays.

    Returns:
      A boolean scalar.

    >>> jnp.array_equiv(jnp.array([1, 2]), jnp.array([[1, 2], [1, 2]])).item()
    True
    """
    a1, a2 = _as_array(a1), _as_array(a2)
    try:
        lax.broadcast_shapes(a1.shape, a2.shape)
        dtypes.result_type(a1, a2)
    except ValueError:  # also of types that promote to none
        return util.to_array(np.bool_(False))
    return _array_equal(a1, a2, equal_nan=False)


@export
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Replaces NaNs and infinities by finite numbers.

    Args:
      x: array of any shape.
      copy: has no effect, since arrays are immutable.
      nan: replacement for NaNs.
      posinf, neginf: replacements for positive and negative infinity; None for the largest and the
        smallest finite number of the dtype.

    Returns:
      An array of the shape and dtype of `x`.

    >>> jnp.nan_to_num(jnp.array([1., jnp.nan, jnp.inf]), posinf=9.).tolist()
    [1.0, 0.0, 9.0]
    """
    util.check_arraylike("nan_to_num", x)
    return _nan_to_num(x, nan, posinf, neginf)


def _nan_to_num(x, nan, posinf, neginf):
    x = util.to_array(x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return x
    x = lax.convert_element_type(x, x.dtype)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.complex(
            _nan_to_num(lax.real(x), nan, posinf, neginf),
            _nan_to_num(lax.imag(x), nan, posinf, neginf),
        )
    info = dtypes.finfo(x.dtype)
    out = _replace(x, lax.ne(x, x), nan)
    if dtypes.supports_inf(x.dtype):
        inf = np.array(np.inf, x.dtype)
        out = _replace(out, lax.eq(x, lax.const(x, inf)), info.max if posinf is None else posinf)
        out = _replace(out, lax.eq(x, lax.const(x, -inf)), info.min if neginf is None else neginf)
    return out


def _replace(x, mask, value):
    return util.select_where(mask, lax.convert_element_type(value, x.dtype), x)


_nan_to_num = nested_jit(_nan_to_num)
