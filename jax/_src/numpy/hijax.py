"""Searching in batches of sorted arrays.

Published libraries import it from here. There is no primitive of its own: `searchsorted` is a
function of batched bisection, so that it is differentiated and batched like any other.
"""

import functools
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.api import vmap
from jax._src.numpy import util
from jax._src.numpy.manipulation import moveaxis
from jax._src.numpy.searching import METHODS, searchsorted_arrays
from jax._src.typing import Array, ArrayLike


def searchsorted(
    sorted_arr: ArrayLike,
    query: ArrayLike,
    /,
    *,
    side: str = "left",
    dimension: int = 0,
    batch_dims: int = 0,
    method: str = "scan",
    dtype: Any = "int32",
) -> Array:
    """Finds where to insert values into arrays sorted along a dimension; see `jax.numpy.searchsorted`.

    Args:
      sorted_arr: array, in ascending order along `dimension`.
      query: array of values of the same dtype.
      side: "left" for the position before equal elements, "right" for that after them.
      dimension: of `sorted_arr`, behind the batch dimensions.
      batch_dims: number of leading dimensions that both arrays share.
      method: "scan", "scan_unrolled", "sort" or "compare_all".
      dtype: of the result.

    Returns:
      An array with the batch dimensions, the other dimensions of `sorted_arr`, and those of `query`
      behind its batch dimensions.

    Raises:
      ValueError: if an argument is out of range, the shared dimensions or the dtypes differ, or
        `dtype` is none of integers.
      OverflowError: if `dtype` cannot hold the size of the sorted arrays.
    """
    a, v = util.ensure_arraylike("searchsorted", sorted_arr, query)
    batch_dims, dimension = operator.index(batch_dims), operator.index(dimension)
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    if method not in METHODS:
        raise ValueError(f"invalid argument method={method!r}, expected one of {sorted(METHODS)}")
    if a.dtype != v.dtype:
        raise ValueError(f"dtypes of sorted_arr and query must match; got {a.dtype} and {v.dtype}")
    if not 0 <= batch_dims <= min(a.ndim, v.ndim):
        raise ValueError(f"{batch_dims=} must be in range [0, {min(a.ndim, v.ndim)}]")
    if not batch_dims <= dimension < a.ndim:
        raise ValueError(f"{dimension=} must be in range [{batch_dims}, {a.ndim})")
    if a.shape[:batch_dims] != v.shape[:batch_dims]:
        raise ValueError(
            f"sorted_arr and query must share {batch_dims=} leading dimensions, got shapes {a.shape}"
            f" and {v.shape}"
        )
    dtype = dtypes.canonicalize_dtype(dtype)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"dtype should be an integer type; got {dtype}")
    size = a.shape[dimension]
    if core.is_constant_dim(size) and size > dtypes.iinfo(dtype).max:
        raise OverflowError(
            f"positions in arrays of {size} elements do not fit in {dtype=!s}: choose a larger one"
        )
    search = functools.partial(searchsorted_arrays, sorter=None, side=side, method=method)
    # The arrays that are searched for all values, from the last dimension on.
    a = moveaxis(a, dimension, -1)
    for _ in range(a.ndim - 1 - batch_dims):
        search = vmap(search, (0, None))
    for _ in range(batch_dims):
        search = vmap(search)
    return search(a, v).astype(dtype)
