"""Arithmetic and comparison of dimension sizes, which are ints or symbolic dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax._src.core.avals import is_constant_shape, is_symbolic_dim
from jax._src.errors import InconclusiveDimensionOperation


def dimension_as_value(d: Any) -> Any:
    """The size of a dimension as a number: an int, or an array for a symbolic dimension."""
    return d.dimension_as_value() if is_symbolic_dim(d) else d


def definitely_equal(d1: object, d2: object) -> bool:
    """Whether two sizes are equal for all values of their dimension variables."""
    if d1 is d2:
        return True
    try:
        return bool(d1 == d2)
    except InconclusiveDimensionOperation:
        return False


def known_equal(d1: Any, d2: Any) -> bool:
    """Whether two sizes are equal.

    Raises:
      InconclusiveDimensionOperation: if that depends on the values of dimension variables.
    """
    if type(d1) is int and type(d2) is int:
        return d1 == d2
    return definitely_equal(d1, d2) or not (d1 > d2 or d1 < d2)


def definitely_greater(d1: Any, d2: Any) -> bool:
    """Whether a size is larger than another for all values of their dimension variables."""
    try:
        return bool(d1 > d2)
    except InconclusiveDimensionOperation:
        return False


def possibly_greater(d1: Any, d2: Any) -> bool:
    """Whether a size is larger than another for some values of their dimension variables."""
    try:
        return bool(d1 > d2)
    except InconclusiveDimensionOperation:
        return True


def definitely_equal_one_of_dim(d: int | None, options: Sequence[Any]) -> bool:
    return any(definitely_equal(d, o) for o in options)


def definitely_equal_shape(s1: Sequence[Any], s2: Sequence[Any]) -> bool:
    return len(s1) == len(s2) and all(map(definitely_equal, s1, s2))


def same_shape_sizes(s1: Sequence[Any], s2: Sequence[Any]) -> bool:
    """Whether arrays of the two shapes have the same number of elements."""
    return definitely_equal(math.prod(s1), math.prod(s2))


def is_empty_shape(s: Sequence[Any]) -> bool:
    return any(definitely_equal(d, 0) for d in s)


def dilate_dim(d: Any, dilation: int) -> Any:
    """The size of a dimension after inserting `dilation - 1` values between its elements."""
    if dilation == 1:
        return d
    if is_symbolic_dim(d):
        return max_dim(0, 1 + dilation * (d - 1))
    return 0 if d == 0 else 1 + dilation * (d - 1)


def stride_dim(d: object, window_size: Any, window_stride: int) -> Any:
    """The number of positions of a window along a dimension; 0 if it does not fit."""
    if is_symbolic_dim(d) or is_symbolic_dim(window_size):
        return max_dim(0, 1 + (d - window_size) // window_stride)
    return 0 if d < window_size else 1 + (d - window_size) // window_stride


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes."""
    if is_constant_shape((d1, d2)):
        return max(d1, d2)
    return d1.max(d2) if is_symbolic_dim(d1) else d2.rmax(d1)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes."""
    if is_constant_shape((d1, d2)):
        return min(d1, d2)
    return d1.min(d2) if is_symbolic_dim(d1) else d2.rmin(d1)
