"""Helpers of the sparse formats: maps over batch dimensions, and counts of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import api, api_util, core, dtypes, tree_util
from jax._src.basearray import Array
from jax._src.lax import lax, resharding
from jax._src.numpy.util import to_array
from jax._src.partition_spec import PartitionSpec
from jax._src.sparse.base import UTIL_MODULE
from jax._src.util import set_module


@set_module(UTIL_MODULE)
def broadcasting_vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """`vmap`, except that a mapped axis of size 1 is broadcast to the size of the others.

    Args:
      fun: function of arrays or trees of arrays.
      in_axes, out_axes: as in `jax.vmap`.

    Returns:
      The mapped function.

    >>> from jax.experimental.sparse.util import broadcasting_vmap
    >>> broadcasting_vmap(jnp.add)(jnp.arange(3), jnp.array([10]))
    Array([10, 11, 12], dtype=int32)
    """

    def mapped(*args: Any) -> Any:
        leaves, tree = tree_util.tree_flatten(args)
        axes = api_util.flatten_axes("vmap in_axes", tree, in_axes)
        sizes = {np.shape(x)[a] for x, a in zip(leaves, axes) if a is not None}
        if len(sizes - {1}) > 1:
            raise ValueError(f"broadcasting_vmap: got inconsistent mapped axis sizes {sizes}")
        if not sizes - {1}:
            return api.vmap(fun, in_axes, out_axes)(*args)
        new_leaves, new_axes = [], []
        for x, axis in zip(leaves, axes):
            broadcast = axis is not None and np.shape(x)[axis] == 1
            new_leaves.append(lax.squeeze(x, [axis]) if broadcast else x)
            new_axes.append(None if broadcast else axis)
        run = lambda *leaves: fun(*tree_util.tree_unflatten(tree, leaves))
        return api.vmap(run, tuple(new_axes), out_axes)(*new_leaves)

    return mapped


@set_module(UTIL_MODULE)
def nfold_vmap(
    fun: Callable[..., Any], N: int, *, broadcasted: bool = True, in_axes: Any = 0
) -> Callable[..., Any]:
    """Map a function over `N` leading axes.

    Args:
      fun: function of arrays.
      N: the number of axes to map over.
      broadcasted: whether axes of size 1 are broadcast.
      in_axes: the axis to map over in every one of the `N` maps, as in `jax.vmap`.

    Returns:
      The mapped function.

    >>> from jax.experimental.sparse.util import nfold_vmap
    >>> nfold_vmap(jnp.add, 2)(jnp.ones((2, 3)), jnp.ones((1, 3))).shape
    (2, 3)
    """
    for _ in range(N):
        fun = broadcasting_vmap(fun, in_axes) if broadcasted else api.vmap(fun, in_axes)
    return fun


def count_stored_elements(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    """The number of elements to store: the largest of all batches, as a scalar array.

    Elements of the trailing `n_dense` dimensions are stored as one block.
    """
    counts = count_per_batch(mat, n_batch, n_dense)
    return counts.max() if counts.size else 0


def count_per_batch(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Array:
    """The number of elements to store of each of the leading `n_batch` batches."""
    mat = to_array(mat)
    nonzero = mat != 0
    if n_dense > 0:
        nonzero = nonzero.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    return nonzero.sum(tuple(range(n_batch, nonzero.ndim)))


def static_nse(nse: Any, what: str) -> int:
    """`nse` as an int or a symbolic size, which must be known while tracing.

    Raises:
      ConcretizationTypeError: if `nse` is traced.
      ValueError: if it is negative.
    """
    if core.is_symbolic_dim(nse):
        return nse
    found = operator.index(
        core.concrete_or_error(
            operator.index,
            nse,
            f"The nse argument of {what} must be a static number under jit, vmap and other "
            "transformations: give the number of elements to store.",
        )
    )
    if found < 0:
        raise ValueError(f"{what}: nse must be non-negative, got {found}")
    return found


def index_type(dtype: Any, what: str, *largest: int) -> np.dtype:
    """The type of indices that a user wants.

    Args:
      dtype: what the user gave.
      what: name of the function, for messages.
      largest: numbers that must be represented. Symbolic ones are, as those of 32 bits.

    Raises:
      TypeError: if it is not an integer type.
      ValueError: if it is too narrow.
    """
    found = dtypes.check_and_canonicalize_user_dtype(dtype, what)
    if not dtypes.issubdtype(found, np.integer):
        raise TypeError(f"{what}: index_dtype must be an integer type, got {found}")
    check_index_type(found, what, *largest)
    return np.dtype(found)


def check_index_type(dtype: Any, what: str, *largest: int) -> None:
    """Raise a ValueError if a type of indices is too narrow for numbers, of which symbolic ones have 32 bits."""
    most = max(
        [np.iinfo(np.int32).max if core.is_symbolic_dim(n) else n for n in largest], default=0
    )
    if most > dtypes.iinfo(dtype).max:
        raise ValueError(
            f"{what}: indices of type {np.dtype(dtype).name} cannot represent {most}; use a wider "
            "type"
        )


def replicated(x: Any, dims: Sequence[int] | None = None) -> Any:
    """`x` on all devices, where it or some of its dimensions are sharded over Explicit axes."""
    sharding = core.typeof(x)._sharding
    if sharding is None:
        return x
    old = sharding.spec.partitions
    new = [None if dims is None or d in dims else axes for d, axes in enumerate(old)]
    if list(old) == new:
        return x
    return resharding.reshard(x, sharding.update(spec=PartitionSpec(*new)))


def with_out_sharding(out: Any, out_sharding: Any) -> Any:
    """The result of an operation in the sharding that its user asks for, if any."""
    return out if out_sharding is None else resharding.reshard(out, out_sharding)


def remaining(original: Sequence[int], *removed_lists: Sequence[int]) -> list[int]:
    """The elements of `original` that are in none of the other lists."""
    gone = {x for xs in removed_lists for x in xs}
    return [x for x in original if x not in gone]


def ranges_like(*xs: Sequence[Any]) -> Iterator[range]:
    """Consecutive ranges as long as each sequence, the first one from 0."""
    start = 0
    for x in xs:
        yield range(start, start + len(x))
        start += len(x)
