"""Arrays built with indexing syntax: `mgrid`, `ogrid`, `r_`, `c_`; and `ix_`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import manipulation, util
from jax._src.numpy.array_constructors import array
from jax._src.numpy.array_creation import arange, linspace, meshgrid
from jax._src.numpy.util import export, promote_dtypes
from jax._src.typing import ArrayLike


def _range_of(s: slice, name: str) -> Array:
    context = "slice {} of jnp." + name
    start = core.concrete_or_error(None, s.start, context.format("start")) or 0
    stop = core.concrete_or_error(None, s.stop, context.format("stop"))
    step = core.concrete_or_error(None, s.step, context.format("step")) or 1
    if np.iscomplex(step):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


def _ranges(key: tuple, name: str) -> list[Array]:
    return promote_dtypes(*[_range_of(s, name) for s in key]) if key else []


class _Mgrid:
    """Coordinate arrays of a dense grid, built with indexing syntax.

    Each slice gives the coordinates along one axis, as `start:stop:step`. An imaginary step `nj`
    asks for n evenly spaced points, `stop` included.

    >>> jnp.mgrid[0:2, 0:3].tolist()
    [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]]]
    >>> jnp.mgrid[0:1:3j].tolist()
    [0.0, 0.5, 1.0]
    """

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Array:
        if isinstance(key, slice):
            return _range_of(key, "mgrid")
        axes = _ranges(key, "mgrid")
        if not axes:
            return arange(0)
        return manipulation.stack(meshgrid(*axes, indexing="ij"))


class _Ogrid:
    """Coordinate arrays of an open grid, which broadcast against each other; see `mgrid`.

    >>> [x.shape for x in jnp.ogrid[0:2, 0:3]]
    [(2, 1), (1, 3)]
    """

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Array | list[Array]:
        if isinstance(key, slice):
            return _range_of(key, "ogrid")
        return meshgrid(*_ranges(key, "ogrid"), indexing="ij", sparse=True)


class _Concatenator:
    """Base of `r_` and `c_`: joins arrays that are written as an index."""

    axis = 0
    ndmin = 1
    place = -1

    def __getitem__(self, key: Any) -> Array:
        key = key if isinstance(key, tuple) else (key,)
        axis, ndmin, place, as_matrix = self.axis, self.ndmin, self.place, None
        if key and isinstance(key[0], str):
            directive, *key = key
            axis, ndmin, place, as_matrix = self._directive(directive)
        parts = [self._part(item, ndmin, place) for item in key]
        out = manipulation.concatenate(promote_dtypes(*parts), axis=axis)
        if as_matrix is not None and out.ndim < 2:
            out = lax.expand_dims(out, (0,) if as_matrix == "r" else (1,))
        return out

    def _directive(self, text: str) -> tuple[int, int, int, str | None]:
        if text in ("r", "c"):
            return -1, self.ndmin, self.place, text
        if not re.fullmatch(r"-?\d+(,-?\d+){0,2}", text):
            raise ValueError(f"could not understand directive {text!r}")
        numbers = [int(n) for n in text.split(",")]
        defaults = [self.axis, self.ndmin, self.place]
        axis, ndmin, place = numbers + defaults[len(numbers) :]
        return axis, ndmin, place, None

    def _part(self, item: Any, ndmin: int, place: int) -> Array:
        if isinstance(item, str):
            raise ValueError("string directive must be placed at the beginning")
        out = (
            _range_of(item, type(self).__name__)
            if isinstance(item, slice)
            else array(item, copy=False)
        )
        ndim = out.ndim
        if ndim >= ndmin:
            return out
        # The item's dimensions go among the new ones at position `place`, counted from the end if
        # negative.
        extra = ndmin - ndim
        front = place + extra + 1 if place < 0 else min(place, extra)
        return lax.expand_dims(out, [*range(front), *range(front + ndim, ndmin)])


class RClass(_Concatenator):
    """Arrays, numbers and ranges joined along the first axis.

    Slices are ranges, as in `mgrid`. A leading string may hold up to three integers: the axis to
    join along, the minimum number of dimensions, and the position of an item's own dimensions if it
    has fewer. The strings "r" and "c" turn a vector result into a matrix of one row or one column.

    >>> jnp.r_[1:4, 7, jnp.array([8, 9])].tolist()
    [1, 2, 3, 7, 8, 9]
    >>> jnp.r_['0,2', [1, 2], [3, 4]].tolist()
    [[1, 2], [3, 4]]
    """


class CClass(_Concatenator):
    """Arrays, numbers and ranges joined along the last axis, as columns; see `r_`.

    >>> jnp.c_[jnp.array([1, 2]), jnp.array([3, 4])].tolist()
    [[1, 3], [2, 4]]
    """

    axis = -1
    ndmin = 2
    place = 0


mgrid = _Mgrid()
ogrid = _Ogrid()
r_ = RClass()
c_ = CClass()


@export
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Returns arrays that index all combinations of the given positions.

    Args:
      *args: integer arrays of shape `(n_i,)`, one per axis.

    Returns:
      A tuple of arrays that broadcast against each other to shape `(n_0, n_1, ...)`.

    Raises:
      NotImplementedError: if an array is boolean.
      ValueError: if an array is not one-dimensional.

    >>> jnp.arange(6).reshape(2, 3)[jnp.ix_(jnp.array([0, 1]), jnp.array([0, 2]))].tolist()
    [[0, 2], [3, 5]]
    """
    arrays = util.ensure_arraylike_tuple("ix", args)
    out = []
    for i, a in enumerate(arrays):
        if a.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {a.shape}"
            )
        if a.dtype == np.bool_:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_ are not implemented")
        if a.size == 0 and not dtypes.issubdtype(a.dtype, np.integer):
            a = lax.convert_element_type(a, dtypes.default_int_dtype())
        out.append(lax.expand_dims(a, [j for j in range(len(arrays)) if j != i]))
    return tuple(out)
