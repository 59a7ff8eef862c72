"""`apply_along_axis` and `apply_over_axes`."""

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
    """Applies a function to all one-dimensional slices of an array along an axis, using `vmap`.

    Args:
      func1d: function of a vector.
      axis: axis along which to slice.
      arr: array of at least one dimension.
      *args, **kwargs: further arguments of the function.

    Returns:
      An array in which `axis` is replaced by the dimensions of the function's result.

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
    """Applies a reduction-like function along several axes, one after the other.

    Args:
      func: called as `func(a, axis)`; its result must keep all dimensions, or all but `axis`.
      a: array.
      axes: axes in the order of application.

    Returns:
      An array of the rank of `a`.

    Raises:
      ValueError: if the function's result has any other number of dimensions.

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
