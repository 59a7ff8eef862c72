"""Removal of trends."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.manipulation.shape import moveaxis
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, set_module

_KINDS = {"linear": "linear", "l": "linear", "constant": "constant", "c": "constant"}


@set_module("jax.scipy.signal")
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Removes a constant or a linear trend along an axis.

    Args:
      data: array of rank 1 or more. Integers are converted to floating point.
      axis: axis of the trend.
      type: "linear" (or "l") subtracts the line of least squares, "constant" (or "c") the mean.
      bp: positions between 0 and the size of the axis, where new lines begin.
      overwrite_data: must be None, since arrays are immutable.

    Returns:
      Array of the shape of `data`.

    Raises:
      ValueError: if `type` is unknown, a breakpoint or `axis` is out of range.
      NotImplementedError: if `overwrite_data` is given.

    >>> x = jnp.array([1.0, 4.0, 7.0, 0.0, 2.0])
    >>> bool(jnp.allclose(jax.scipy.signal.detrend(x, bp=3), 0.0, atol=1e-5))
    True
    >>> jax.scipy.signal.detrend(jnp.array([1.0, 2.0, 6.0]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError(
            "detrend: overwrite_data is not implemented, since arrays are immutable. Leave it out."
        )
    data = asarray(data)
    kind = trend_kind(type)
    axis = canonicalize_axis(operator.index(axis), data.ndim)
    n = data.shape[axis]
    starts = sorted({0, *(operator.index(b) for b in np.ravel(bp)), n} if np.size(bp) else {0, n})
    if starts[0] < 0 or starts[-1] > n:
        raise ValueError(
            f"detrend: breakpoints bp={bp} must be between 0 and {n}, the size of axis {axis} of shape {data.shape}."
        )
    if kind == "constant":
        starts = [0, n]
    return _detrend(data, axis=axis, kind=kind, starts=tuple(starts))


def trend_kind(kind: Any) -> str:
    """The full name of a kind of trend.

    Raises:
      ValueError: if it is unknown.
    """
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(
            f"detrend: the type of trend must be 'linear' or 'constant', got {kind!r}."
        )
    return _KINDS[kind]


def _detrend_impl(data, *, axis, kind, starts):
    (data,) = util.promote_dtypes_inexact(data)
    data = moveaxis(data, axis, -1)
    if len(starts) > 2:
        parts = [
            without_trend(slicing.slice_in_dim(data, start, stop, axis=data.ndim - 1), kind)
            for start, stop in zip(starts, starts[1:])
        ]
        data = lax.concatenate(parts, data.ndim - 1)
    else:
        data = without_trend(data, kind)
    return moveaxis(data, -1, axis)


_detrend_impl.__name__ = "detrend"
_detrend: Any = nested_jit(_detrend_impl, static_argnames=("axis", "kind", "starts"))


def without_trend(x: Array, kind: str) -> Array:
    """Subtracts from `x` its trend along the last axis.

    The line of least squares is the mean plus the projection on the positions, measured from their mean, to which
    constants are orthogonal.
    """
    n, dtype = x.shape[-1], x.dtype
    if not x.size:
        return x
    if dtypes.itemsize_bits(dtype) < 32:
        return lax.convert_element_type(
            without_trend(lax.convert_element_type(x, np.float32), kind), dtype
        )
    last = x.ndim - 1
    total = lambda v: lax.expand_dims(lax.reduce_sum(v, (last,)), (last,))
    x = x - total(x) / n
    if kind == "linear" and n > 1:
        positions = np.arange(n) - (n - 1) / 2
        unit = (positions / np.linalg.norm(positions)).astype(dtype)
        x = x - total(x * unit) * unit
    return x
