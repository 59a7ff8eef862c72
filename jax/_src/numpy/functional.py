"""Functions that apply others along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api, traceback_util
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.manipulation.shape import operand
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis


@export
@traceback_util.api_boundary
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """Applies a function to the vectors along a dimension, by `vmap`.

    Args:
      func1d: function of a vector.
      axis: which dimension.
      arr: array.
      *args, **kwargs: further arguments of the function.

    Returns:
      An array in which the dimensions of the function's result stand in place of `axis`.

    >>> jnp.apply_along_axis(jnp.sum, 1, jnp.arange(6).reshape(2, 3)).tolist()
    [3, 12]
    """
    arr = operand("apply_along_axis", arr)
    axis = canonicalize_axis(axis, arr.ndim)

    def fun(row):
        return func1d(row, *args, **kwargs)

    for i in range(1, arr.ndim - axis):
        fun = api.vmap(fun, in_axes=i, out_axes=-1)
    for _ in range(axis):
        fun = api.vmap(fun)
    return fun(arr)


@export
@traceback_util.api_boundary
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Sequence[int]) -> Array:
    """Applies a function along one dimension after the other.

    Args:
      func: called as `func(a, axis)`; its result has the dimensions of `a`, or lacks `axis`.
      a: array.
      axes: which dimensions.

    Raises:
      ValueError: if the function's result has another number of dimensions.

    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), [0, 2]).shape
    (1, 3, 1)
    """
    a = operand("apply_over_axes", a)
    for axis in axes:
        b = util.to_array(func(a, axis))
        if b.ndim == a.ndim - 1:
            b = lax.expand_dims(b, (canonicalize_axis(axis, a.ndim),))
        elif b.ndim != a.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        a = b
    return a
