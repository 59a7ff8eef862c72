"""Pytrees of arrays as a single vector."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import manipulation, util
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import HashablePartial, set_module


@set_module("jax.flatten_util")
def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Concatenate the elements of all arrays of a pytree into one vector.

    Args:
      pytree: a pytree of arrays and scalars.

    Returns:
      A vector whose dtype is the promoted dtype of the leaves, and a function from such a vector to
      a pytree of the same structure, shapes and dtypes. If all leaves have the same dtype, the
      function accepts vectors of any dtype. Functions made from equal structures are equal.

    The returned function raises:
      ValueError: for an array of another shape.
      TypeError: for one of another dtype, if the leaves have different dtypes.

    >>> from jax.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"a": jnp.ones(2), "b": jnp.zeros((1, 2))})
    >>> flat.tolist()
    [1.0, 1.0, 0.0, 0.0]
    >>> unravel(flat * 2)["b"].shape
    (1, 2)
    """
    leaves, tree = tree_flatten(pytree)
    if not leaves:
        flat = lax.full((0,), 0, dtypes.default_float_dtype())
        return flat, HashablePartial(_unravel_nothing, tree)
    leaves = [util.ensure_arraylike("ravel_pytree", leaf) for leaf in leaves]
    types = tuple([leaf.dtype for leaf in leaves])
    shapes = tuple([leaf.shape for leaf in leaves])
    to_dtype = dtypes.result_type(*types)
    if all(dtype == to_dtype for dtype in types):
        flat = manipulation.concatenate([manipulation.ravel(leaf) for leaf in leaves])
        return flat, HashablePartial(_unravel, tree, shapes, None, None)
    flat = lax.concatenate(
        [manipulation.ravel(lax.convert_element_type(leaf, to_dtype)) for leaf in leaves], 0
    )
    return flat, HashablePartial(_unravel, tree, shapes, types, to_dtype)


def _unravel_nothing(tree, flat):
    _check_shape(flat, 0)
    return tree_unflatten(tree, [])


def _check_shape(flat, size):
    if np.shape(flat) != (size,):
        raise ValueError(
            f"unravel function given array of shape {np.shape(flat)}, but expected shape ({size},)"
        )


def _unravel(tree, shapes, types, dtype, flat):
    sizes = [math.prod(shape) for shape in shapes]
    _check_shape(flat, sum(sizes))
    if dtype is not None and dtypes.dtype(flat) != dtype:
        raise TypeError(
            f"unravel function given array of dtype {dtypes.dtype(flat)}, but expected dtype {dtype}"
        )
    parts = lax.split(flat, sizes) if len(sizes) > 1 else [util.to_array(flat)]
    leaves = [lax.reshape(part, shape) for part, shape in zip(parts, shapes)]
    if types is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # converting to real leaves drops imaginary parts
            leaves = [lax.convert_element_type(x, t) for x, t in zip(leaves, types)]
    return tree_unflatten(tree, leaves)
