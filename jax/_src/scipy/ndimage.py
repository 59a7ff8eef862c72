"""Interpolation in images: the implementation of `jax.scipy.ndimage`."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.selecting import clip
from jax._src.typing import ArrayLike
from jax._src.util import set_module

# Functions (index, size) -> index in the array, of integer arrays. Indices are floored modulo.
_FIXED: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda i, n: clip(i, 0, n - 1),
    "nearest": lambda i, n: clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": lambda i, n: (n - 1) - abs(i % core.max_dim(2 * (n - 1), 1) - (n - 1)),
    # The distance from the point between the last element and its repetition is n - 1/2 - i.
    "reflect": lambda i, n: n - 1 - abs((2 * (i % (2 * n)) + 1 - 2 * n) // 2 + _below(i, n)),
}
_SAME = {"grid-constant": "constant", "grid-wrap": "wrap", "grid-mirror": "reflect"}


def _below(i, n):
    """1 in the first of two periods, in which half a distance is rounded down, 0 in the second."""
    return lax.convert_element_type(i % (2 * n) < n, i.dtype)


@set_module("jax.scipy.ndimage")
def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Interpolates an array at given coordinates.

    Args:
      input: array of n dimensions.
      coordinates: n arrays that broadcast, or one with a first dimension of n: the coordinates along each
        axis of `input`, in units of its elements.
      order: 0 for the nearest element (halves away from zero), 1 for linear interpolation.
      mode: which elements are taken outside of an axis with elements a b c d: "constant" for `cval`, "nearest"
        for a a|a b c d|d d, "wrap" (or "grid-wrap") for c d|a b c d|a b, "mirror" for c b|a b c d|c b, "reflect"
        (or "grid-mirror") for b a|a b c d|d c.
      cval: number outside of the array, if `mode` is "constant" (or "grid-constant").

    Returns:
      Array of the shape of each of the coordinates, and of the dtype of `input`. For integers it is rounded, for
      booleans true where it is not zero.

    Raises:
      NotImplementedError: for other orders and modes.
      ValueError: if `input` is a scalar or has no elements, or the number of coordinates is not its rank.
      TypeError: if coordinates are complex, or `cval` is and `input` is not.

    Differences from SciPy: `order` is required, and at most 1. "constant" interpolates between the border and
    `cval`, as SciPy's "grid-constant" does, and "wrap" has the period of SciPy's "grid-wrap".

    >>> image = jnp.array([[0.0, 1.0], [2.0, 3.0]])
    >>> jax.scipy.ndimage.map_coordinates(image, [jnp.array([0.5]), jnp.array([0.5])], order=1).item()
    1.5
    """
    if order not in (0, 1):
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates currently requires order<=1, got {order!r}. Splines of higher "
            "order have to be evaluated by scipy.ndimage, inside of jit by jax.pure_callback."
        )
    mode = _SAME.get(mode, mode)
    if mode not in _FIXED:
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}. Currently supported modes are "
            f"{sorted([*_FIXED, *_SAME])}."
        )
    array = asarray(input)
    # An array has its first dimension for the axes, of which it may have none.
    points = [asarray(c) for c in coordinates]
    if len(points) != array.ndim:
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(points)} != {array.ndim}"
        )
    if not array.ndim or not math.prod(array.shape):
        raise ValueError(
            "jax.scipy.ndimage.map_coordinates: input must have at least one dimension and one element, got "
            f"shape {array.shape}."
        )
    for c in points:
        if dtypes.issubdtype(c.dtype, np.complexfloating):
            raise TypeError(
                f"jax.scipy.ndimage.map_coordinates: coordinates must be real, got dtype {c.dtype}. Pass their "
                "real parts."
            )
    if np.ndim(cval):
        raise ValueError(
            f"jax.scipy.ndimage.map_coordinates: cval must be a number, got shape {np.shape(cval)}."
        )
    if np.iscomplexobj(cval) and not dtypes.issubdtype(array.dtype, np.complexfloating):
        raise TypeError(
            f"jax.scipy.ndimage.map_coordinates: cval must be real for an input of {array.dtype}, got {cval!r}. Pass "
            "its real part."
        )
    outside = lax.convert_element_type(asarray(cval), array.dtype)
    return _map_coordinates(array, points, outside, order=operator.index(int(order)), mode=mode)


def _map_coordinates_impl(array, points, outside, *, order, mode):
    points = util.broadcast_arrays(*points)
    # Along each axis, for one or two neighbors: index, whether it is within the array, weight or None for 1
    axes = [
        [
            (_FIXED[mode](i, n), (i >= 0) & (i < n) if mode == "constant" else None, weight)
            for i, weight in (_nearest(c) if order == 0 else _neighbors(c))
        ]
        for c, n in zip(points, array.shape)
    ]
    total = None
    for corner in itertools.product(*axes):
        indices, inside, weights = zip(*corner)
        term = array[indices]
        if mode == "constant":
            within = inside[0]
            for other in inside[1:]:
                within = within & other
            term = util.select_where(within, term, outside)
        for weight in weights:
            if weight is not None:
                term = weight * term
        total = term if total is None else total + term
    if dtypes.issubdtype(array.dtype, np.integer) and total.dtype != array.dtype:
        total = lax.round(total, lax.RoundingMethod.AWAY_FROM_ZERO)
    return lax.convert_type(total, array.dtype, False)


_map_coordinates_impl.__name__ = "map_coordinates"
_map_coordinates = nested_jit(_map_coordinates_impl, static_argnames=("order", "mode"))


def _nearest(c):
    if dtypes.issubdtype(c.dtype, np.inexact):
        c = lax.round(c, lax.RoundingMethod.AWAY_FROM_ZERO)
    return [(lax.convert_element_type(c, np.int32), None)]


def _neighbors(c):
    """The indices and weights of both neighbors, one for integers."""
    if not dtypes.issubdtype(c.dtype, np.inexact):
        return _nearest(c)
    lower = lax.floor(c)
    upper_weight = c - lower
    index = lax.convert_element_type(lower, np.int32)
    return [(index, 1 - upper_weight), (index + 1, upper_weight)]
