"""Constants with the shape or dtype of an example, and constant matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from jax._src.basearray import Array
from jax._src.core.avals import ShapedArray, is_symbolic_dim
from jax._src.lax.lax.arithmetic import add
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import broadcasted_iota, full, full_like
from jax._src.lax.lax.logical import bitwise_and, eq, ge
from jax._src.lax.utils import const as const
from jax._src.typing import ArrayLike, DTypeLike, Shape

# Scalars with the dtype of an example.
zero = partial(const, value=0)
one = partial(const, value=1)


def zeros_like_array(x: ArrayLike) -> Array:
    """Return zeros with the shape and dtype of `x`."""
    return full_like(x, 0)


def ones_like_array(x: ArrayLike) -> Array:
    """Return ones with the shape and dtype of `x`."""
    return full_like(x, 1)


zeros_like = zeros_like_array


def zeros_like_shaped_array(aval: ShapedArray) -> Array:
    """Return zeros with the shape and dtype of `aval`."""
    return full(aval.shape, 0, aval.dtype)


def eye(dtype: DTypeLike, shape: Shape, offset: int = 0) -> Array:
    """Return a matrix with ones on diagonal `offset` (above the main one) and zeros elsewhere."""
    n, m = shape
    rows = broadcasted_iota(np.int32, (n, m), 0)
    columns = broadcasted_iota(np.int32, (n, m), 1)
    return convert_element_type(eq(add(rows, np.int32(offset)), columns), dtype)


def delta(dtype: DTypeLike, shape: Shape, axes: Sequence[int]) -> Array:
    """Return ones where the indices along all of `axes` are equal, and zeros elsewhere."""
    axes = [int(a) for a in axes]
    index = [broadcasted_iota(np.uint32, tuple(shape), a) for a in axes]
    equal = eq(index[0], index[1])
    for i, j in zip(index[1:], index[2:]):
        equal = bitwise_and(equal, eq(i, j))
    return convert_element_type(equal, dtype)


def tri(dtype: DTypeLike, shape: Shape, offset: int | Array) -> Array:
    """Return ones on and below diagonal `offset`, zeros elsewhere; `offset` may be traced."""
    n, m = shape
    rows = broadcasted_iota(np.int32, (n, m), 0)
    columns = broadcasted_iota(np.int32, (n, m), 1)
    if isinstance(offset, int) or is_symbolic_dim(offset):
        offset = const(rows, offset)
    return convert_element_type(ge(add(rows, offset), columns), dtype)


def empty_like_shaped_array(aval: ShapedArray) -> Array:
    """Return an array with the shape and dtype of `aval`, with unspecified values."""
    return full(aval.shape, 0, aval.dtype)
