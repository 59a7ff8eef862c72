"""Interpolation on grids: the implementation of `jax.scipy.interpolate`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.manipulation.joining import stack
from jax._src.numpy.searching import searchsorted
from jax._src.numpy.selecting import clip
from jax._src.tree_util import register_pytree_node
from jax._src.typing import ArrayLike
from jax._src.util import set_module

_METHODS = ("linear", "nearest")


@set_module("jax.scipy.interpolate")
class RegularGridInterpolator:
    """Interpolates values that are known on a rectilinear grid.

    It is a pytree of the points, the values and the value outside of the grid, and may be an argument of functions
    that are compiled, mapped or differentiated.

    Args:
      points: for each dimension of the grid a vector of coordinates, of sizes (m_1, ..., m_n), strictly ascending
        or descending. Descending ones have to be known while tracing.
      values: array of shape (m_1, ..., m_n, ...).
      method: "linear" or "nearest" (the lower of two points at the same distance).
      bounds_error: must be False, since under `jit` no error can be raised.
      fill_value: the result outside of the grid; if None, values are extrapolated.

    Raises:
      NotImplementedError: if `bounds_error` is True.
      ValueError: if `method` is unknown, `points` do not fit `values` or are not sorted, or `fill_value` cannot be
        converted to the dtype of `values`.

    >>> grid = (jnp.array([0.0, 1.0]), jnp.array([0.0, 2.0]))
    >>> f = jax.scipy.interpolate.RegularGridInterpolator(grid, jnp.array([[0.0, 2.0], [1.0, 3.0]]))
    >>> print(f(jnp.array([[0.5, 1.0], [1.0, 0.0]])))
    [1.5 1. ]
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = np.nan,
    ):
        _check_method(method)
        if bounds_error:
            raise NotImplementedError(
                "`bounds_error` takes no effect under JIT, and is not supported. Pass bounds_error=False; results "
                "outside of the grid are fill_value."
            )
        values = asarray(values)
        (values,) = util.promote_dtypes_inexact(values)
        if len(points) > values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {values.ndim} dimensions"
            )
        grid = []
        for i, p in enumerate(points):
            p, flipped = _checked_points(p, i, values.shape[i])
            if flipped:
                values = lax.rev(values, (i,))
            grid.append(p)
        self.grid = tuple(grid)
        self.values = values
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = None
        if fill_value is not None:
            fill_value = asarray(fill_value)
            if dtypes.result_type(fill_value, values) != values.dtype and not _same_kind(
                fill_value.dtype, values.dtype
            ):
                raise ValueError(
                    "fill_value must be either 'None' or of a type compatible with values, got "
                    f"{fill_value.dtype} for values of {values.dtype}."
                )
            self.fill_value = fill_value

    def __call__(self, xi: ArrayLike | Sequence[ArrayLike], method: str | None = None) -> Array:
        """Interpolates at points.

        Args:
          xi: array of shape (..., n), or a tuple of n arrays that broadcast; for n = 1 also a vector.
          method: as for the class; by default the one given there.

        Returns:
          Array of the shape (..., *values.shape[n:]). It is NaN where a coordinate is.

        Raises:
          ValueError: if `method` is unknown, or the last dimension of `xi` is not n.
        """
        method = self.method if method is None else method
        _check_method(method)
        n = len(self.grid)
        xi = _points_of(xi, n)
        if xi.shape[-1] != n:
            raise ValueError(
                f"the requested sample points xi have dimension {xi.shape[-1]}, but this "
                f"RegularGridInterpolator has dimension {n}"
            )
        return _interpolate(self.grid, self.values, self.fill_value, xi, method=method)


def _flatten(f: RegularGridInterpolator) -> tuple[tuple[Any, ...], tuple[str, bool]]:
    return (f.grid, f.values, f.fill_value), (f.method, f.bounds_error)


def _unflatten(aux: tuple[str, bool], children: tuple[Any, ...]) -> RegularGridInterpolator:
    f = object.__new__(RegularGridInterpolator)  # without checks: children may be of any kind
    f.grid, f.values, f.fill_value = children
    f.method, f.bounds_error = aux
    return f


register_pytree_node(RegularGridInterpolator, _flatten, _unflatten)


def _interpolate_impl(grid, values, fill_value, xi, *, method):
    axes = [xi[..., i] for i in range(len(grid))]
    places = [_place(p, x) for p, x in zip(grid, axes)]
    out = (_linear if method == "linear" else _nearest)(values, places)
    if not grid:
        return out
    outside = undefined = False
    for p, x in zip(grid, axes):
        outside = outside | (x < p[0]) | (x > p[-1])
        undefined = undefined | (x != x)
    if fill_value is not None:
        out = _select(outside, fill_value, out)
    return _select(undefined, np.nan, out)


_interpolate_impl.__name__ = "interpolate"
_interpolate = nested_jit(_interpolate_impl, static_argnames=("method",))


def _linear(values, places):
    total = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        index, weight = [], None
        for bit, (i, distance, size) in zip(corner, places):
            index.append(clip(i + bit, 0, size - 1))
            part = distance if bit else 1 - distance
            weight = part if weight is None else weight * part
        value = values[tuple(index)]
        if weight is not None:
            value = lax.expand_dims(weight, range(weight.ndim, value.ndim)) * value
        total = value if total is None else total + value
    return total


def _nearest(values, places):
    index = [
        clip(lax.select(distance <= 0.5, i, i + 1), 0, size - 1) for i, distance, size in places
    ]
    return values[tuple(index)]


def _check_method(method):
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined. It must be 'linear' or 'nearest'.")


def _same_kind(fill, dtype):
    return dtypes.issubdtype(dtype, np.complexfloating) or not dtypes.issubdtype(
        fill, np.complexfloating
    )


def _checked_points(p: Any, i: int, size: int) -> tuple[Any, bool]:
    """The coordinates of dimension `i`, ascending, and whether they were descending."""
    p = asarray(p)
    (p,) = util.promote_dtypes_inexact(p)
    if p.ndim != 1:
        raise ValueError(f"the points in dimension {i} must be 1-dimensional, got shape {p.shape}")
    if p.shape[0] != size:
        raise ValueError(
            f"there are {p.shape[0]} points in dimension {i}, but values has size {size} there"
        )
    if not size:
        raise ValueError(f"there are no points in dimension {i}; at least one is necessary")
    if isinstance(p, core.Tracer):
        return p, False
    steps = np.diff(np.asarray(p).astype(np.float64))
    if np.all(steps > 0):
        return p, False
    if np.all(steps < 0):
        return lax.rev(p, (0,)), True
    raise ValueError(f"the points in dimension {i} must be strictly ascending or descending")


def _points_of(xi, n):
    if isinstance(xi, tuple):
        arrays = util.broadcast_arrays(*[asarray(x) for x in xi])
        xi = stack(arrays, axis=-1)
    else:
        xi = asarray(xi)
        if xi.ndim == 1:
            xi = xi[:, None] if n == 1 else xi[None]
    (xi,) = util.promote_dtypes_inexact(xi)
    return xi


def _place(grid, x):
    """The interval of a grid for each coordinate, the distance from its lower end, and the grid's size."""
    size = grid.shape[0]
    if size == 1:
        return lax.full_like(x, 0, np.int32), lax.full_like(x, 0), 1
    # At a point of the grid derivatives are those from below.
    i = clip(searchsorted(grid, x) - 1, 0, core.max_dim(size - 2, 0))
    low = grid[i]
    width = grid[clip(i + 1, 0, size - 1)] - low
    if not core.definitely_greater(size, 1):  # a symbolic size that may turn out to be 1
        width = util.select_where(width == 0, 1, width)
    return i, (x - low) / width, size


def _select(condition, x, y):
    condition = lax.expand_dims(condition, range(condition.ndim, y.ndim))
    return util.select_where(condition, lax.convert_type(asarray(x), y.dtype, False), y)
