"""Cumulative sums and products along an axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.core import eval_trace, trace_ctx
from jax._src.jit.library import eager_jit, inline_jit
from jax._src.lax import lax
from jax._src.numpy.reductions import promote_integer_dtype
from jax._src.numpy.ufuncs_unary import isnan
from jax._src.numpy.util import check_arraylike, ensure_arraylike, export, reject_out, select_where
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis


def _cumulative(name: str, operation: Any, identity: int, ignore_nan: bool) -> Any:
    """Makes a function that computes partial sums or products of an array along an axis."""

    def impl(a, *, axis, dtype, promote_integers=False):
        a = ensure_arraylike(name, a)
        if axis is None or a.ndim == 0:
            a = lax.reshape(a, (a.size,)) if a.ndim != 1 else a
            axis = 0 if axis is None else canonicalize_axis(axis, 1)
        axis = canonicalize_axis(axis, a.ndim)
        if ignore_nan and dtypes.issubdtype(a.dtype, np.inexact):
            a = select_where(isnan(a), np.asarray(identity, a.dtype)[()], a)
        if dtype is None:
            dtype = a.dtype
            if dtype == np.bool_ or promote_integers:
                dtype = promote_integer_dtype(dtype)
        if a.dtype != dtype or a.weak_type:
            a = lax.convert_element_type(a, dtype)
        if dtype == np.bool_:
            # bool has no sums or products: compute in int32 and convert at the end.
            a = lax.convert_element_type(a, np.int32)
        out = operation(a, axis=axis)
        return lax.convert_element_type(out, np.bool_) if dtype == np.bool_ else out

    impl.__name__ = impl.__qualname__ = name
    program = inline_jit(impl, static_argnames=("axis", "dtype", "promote_integers"))

    def call(a, axis, dtype, promote_integers=False):
        check_arraylike(name, a)
        if axis is not None:
            axis = core.concrete_or_error(operator.index, axis, f"axis argument to jnp.{name}()")
        if dtype is not None:
            dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
        compute = program if trace_ctx.trace is eval_trace else impl
        return compute(a, axis=axis, dtype=dtype, promote_integers=promote_integers)

    return call


_cumsum = _cumulative("cumsum", lax.cumsum, 0, False)
_cumprod = _cumulative("cumprod", lax.cumprod, 1, False)
_nancumsum = _cumulative("nancumsum", lax.cumsum, 0, True)
_nancumprod = _cumulative("nancumprod", lax.cumprod, 1, True)


@export
@eager_jit("axis", "out", direct=("dtype",))
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Cumulative sums along an axis.

    Args:
      a: array.
      axis: the axis; None for the flattened array.
      dtype: dtype of the result; by default that of `a`, or the default integer for booleans.
      out: must be None.

    Returns:
      An array of the shape of `a`, or a vector if `axis` is None.

    Differs from NumPy: integers narrower than the default are not promoted.

    >>> jnp.cumsum(jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    reject_out("cumsum", out)
    return _cumsum(a, axis, dtype)


@export
@eager_jit("axis", "out", direct=("dtype",))
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Cumulative products along an axis; takes the arguments of `cumsum`.

    >>> jnp.cumprod(jnp.arange(1, 5))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    reject_out("cumprod", out)
    return _cumprod(a, axis, dtype)


@export
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Cumulative sums that treat NaN as zero; takes the arguments of `cumsum`.

    >>> jnp.nancumsum(jnp.array([1., jnp.nan, 2.]))
    Array([1., 1., 3.], dtype=float32)
    """
    reject_out("nancumsum", out)
    return _nancumsum(a, axis, dtype)


@export
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Cumulative products that treat NaN as one; takes the arguments of `cumsum`.

    >>> jnp.nancumprod(jnp.array([3., jnp.nan, 2.]))
    Array([3., 3., 6.], dtype=float32)
    """
    reject_out("nancumprod", out)
    return _nancumprod(a, axis, dtype)


@export
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Cumulative sums along an axis, as the Array API defines them.

    Args:
      x: array of at least one dimension.
      axis: the axis; may be None for one-dimensional arrays.
      dtype: dtype of the result; by default that of `jnp.sum`.
      include_initial: whether to prepend a zero.

    Returns:
      An array of the shape of `x`, larger by one along `axis` with `include_initial`.

    Raises:
      ValueError: if `x` is a scalar, or `axis` is None for more than one dimension.

    >>> jnp.cumulative_sum(jnp.arange(4), include_initial=True)
    Array([0, 0, 1, 3, 6], dtype=int32)
    """
    return _array_api("cumulative_sum", "sum", _cumsum, 0, x, axis, dtype, include_initial)


@export
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Cumulative products along an axis, as the Array API defines them; see `cumulative_sum`.

    Unlike `cumulative_sum`, it does not promote narrow integers.

    >>> jnp.cumulative_prod(jnp.arange(1, 4), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _array_api("cumulative_prod", "product", _cumprod, 1, x, axis, dtype, include_initial)


def _array_api(name, what, cumulate, identity, x, axis, dtype, include_initial):
    x = ensure_arraylike(name, x)
    if x.ndim == 0:
        raise ValueError(
            f"The input must be non-scalar to take a cumulative {what}, however a scalar value or scalar"
            " array was given."
        )
    if axis is None:
        if x.ndim > 1:
            raise ValueError(
                f"The input array has rank {x.ndim}, however axis was not set to an explicit value. The axis"
                " argument is only optional for one-dimensional arrays."
            )
        axis = 0
    axis = canonicalize_axis(axis, x.ndim)
    out = cumulate(x, axis, dtype, promote_integers=what == "sum")
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        out = lax.concatenate([lax.full(shape, identity, out.dtype), out], axis)
    return out
