"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import positions, scalar_types
from jax._src.random import keys as random_keys, uniform
from jax._src.sparse.bcoo.array import BCOO
from jax._src.sparse.bcoo.functions import bcoo_sort_indices
from jax._src.transforms.vmap import vmap
from jax._src.typing import DTypeLike
from jax._src.util import set_module

MODULE = "jax.experimental.sparse.random"


def _number_of_elements(nse: Any, size: int) -> int:
    """How many of `size` elements to store; `nse` is a number of them, or a fraction."""
    if not 0 <= nse <= size:
        raise ValueError(f"got nse={nse}, expected to be between 0 and {size}")
    if 0 < nse < 1:
        return math.ceil(nse * size)
    try:
        return operator.index(nse)
    except TypeError:
        raise TypeError(
            f"random_bcoo: nse must be an integer, or a fraction between 0 and 1; got {nse}"
        ) from None


def _random_indices(
    key: Any, sizes: tuple[int, ...], nse: int, unique: bool, dtype: np.dtype
) -> Any:
    """Coordinates, of shape `(nse, len(sizes))`, in an array of these sizes."""
    size = math.prod(sizes)
    flat = uniform.permutation(key, size)[:nse] if unique else uniform.randint(key, (nse,), 0, size)
    if not sizes:
        return lax.full((nse, 0), 0, dtype)
    columns = positions.unravel_index(lax.convert_element_type(flat, dtype), sizes)
    return lax.concatenate([lax.expand_dims(c, (1,)) for c in columns], 1)


@set_module(MODULE)
def random_bcoo(
    key: Array,
    shape: Sequence[int],
    *,
    dtype: DTypeLike = scalar_types.float64,
    indices_dtype: DTypeLike | None = None,
    nse: int | float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Array] = uniform.uniform,
    **kwds: Any,
) -> BCOO:
    """Make a BCOO array of random elements at random places.

    Args:
      key: key of random numbers, a scalar.
      shape: shape of the array.
      dtype: type of its elements, as `generator` takes it.
      indices_dtype: integer type of the indices; by default that of Python's int.
      nse: number of elements that each batch stores, or, between 0 and 1, the fraction that these
        are of all elements, rounded up.
      n_batch: number of batch dimensions.
      n_dense: number of dense dimensions.
      unique_indices: whether the indices of a batch must be distinct.
      sorted_indices: whether to sort the indices.
      generator: function of a key and of keywords `shape` and `dtype` that returns the elements.
      **kwds: more keywords for `generator`.

    Returns:
      BCOO array.

    Raises:
      ValueError: if the layout does not fit to the shape, `nse` is out of range, or the indices
        do not fit into `indices_dtype`.
      TypeError: if `nse` is neither an integer nor a fraction.

    >>> import jax
    >>> from jax.experimental import sparse
    >>> M = sparse.random_bcoo(jax.random.key(0), (4, 5), dtype="float32", nse=3)
    >>> M
    BCOO(float32[4, 5], nse=3)
    >>> M.indices.tolist()
    [[0, 0], [0, 3], [1, 4]]
    """
    shape = tuple(map(operator.index, shape))
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > len(shape):
        raise ValueError(f"Invalid {n_batch=}, {n_dense=} for {shape=}")
    end = len(shape) - n_dense
    batch, sizes, dense = shape[:n_batch], shape[n_batch:end], shape[end:]
    size = math.prod(sizes)
    index_type = dtypes.check_and_canonicalize_user_dtype(
        int if indices_dtype is None else indices_dtype, "random_bcoo"
    )
    if size > dtypes.iinfo(index_type).max:
        raise ValueError(
            f"{indices_dtype=} does not have enough range to generate sparse indices of "
            f"size {size}."
        )
    stored = _number_of_elements(nse, size)
    keys = random_keys.split(key, 1 + math.prod(batch))
    data = generator(keys[0], shape=(*batch, stored, *dense), dtype=dtype, **kwds)
    of_batch = vmap(lambda k: _random_indices(k, sizes, stored, unique_indices, index_type))
    indices = lax.reshape(of_batch(keys[1:]), (*batch, stored, len(sizes)))
    mat = BCOO((data, indices), shape=shape)
    return bcoo_sort_indices(mat) if sorted_indices else mat
