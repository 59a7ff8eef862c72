"""Reading and adding to elements of dense arrays at the places that BCOO indices name.

Indices have the shape `(*batch, nse, n_sparse)`. An index out of bounds is padding: it reads zeros,
and what would be added there is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.lax import lax, slicing
from jax._src.lax.lax.sharding import entries, with_entries
from jax._src.lax.slicing.types import GatherDimensionNumbers, ScatterDimensionNumbers
from jax._src.numpy.util import to_array
from jax._src.sparse.util import replicated

FILL = slicing.GatherScatterMode.FILL_OR_DROP


def full_batch(x: Any, batch: Sequence[int]) -> Any:
    """`x` with its leading dimensions, of which any may have size 1, broadcast to `batch`."""
    shape = (*batch, *x.shape[len(batch) :])
    if x.shape == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(x.ndim)))


def columns_of(indices: Any, columns: Sequence[int]) -> Any:
    """Some columns of the indices, in the given order; they are static."""
    ndim, count = indices.ndim, indices.shape[-1]
    if list(columns) == list(range(count)):
        return indices
    if not columns:
        return slicing.slice_in_dim(indices, 0, 0, axis=ndim - 1)
    parts = [slicing.slice_in_dim(indices, c, c + 1, axis=ndim - 1) for c in columns]
    return lax.concatenate(parts, ndim - 1)


def row_of(values: Sequence[int], indices: Any) -> Any:
    """Static numbers, one for every column, that broadcast against the indices."""
    return np.asarray(values, indices.dtype).reshape((1,) * (indices.ndim - 1) + (-1,))


def out_of_bounds(indices: Any, shape: Sequence[int]) -> Any:
    """Which rows of the indices are padding: an array of shape `(*batch, nse)`."""
    if not shape:
        return lax.full(indices.shape[:-1], False, bool)
    beyond = lax.ge(
        indices, lax.broadcast_in_dim(_limits(shape, indices), indices.shape, (indices.ndim - 1,))
    )
    return lax.reduce_or(beyond, (indices.ndim - 1,))


def _limits(shape: Sequence[int], indices: Any) -> Any:
    # A size that the type of the indices cannot represent bounds nothing.
    top = np.iinfo(indices.dtype).max
    if core.is_constant_shape(shape):
        return to_array(np.asarray([min(s, top) for s in shape], indices.dtype))
    sizes = [s if core.is_symbolic_dim(s) else np.asarray(min(s, top)) for s in shape]
    return lax.concatenate(
        [lax.broadcast(lax.convert_element_type(s, indices.dtype), (1,)) for s in sizes], 0
    )


def fill_row(shape: Sequence[int], like: Any) -> Any:
    """The index of padding, the shape itself, for all rows of `like`."""
    sharding = core.typeof(like)._sharding
    return lax.broadcast_in_dim(
        _limits(shape, like), like.shape, (like.ndim - 1,), out_sharding=sharding
    )


def full_rows(value: Any, like: Any, n_batch: int, sizes: Sequence[int]) -> Any:
    """A repeated scalar, of the batch dimensions of `like` and these sizes, sharded as `like` is."""
    aval = core.typeof(like)
    sharding = None
    if aval._sharding is not None:
        axes = entries(aval)
        same = tuple(sizes[1:]) == like.shape[n_batch + 1 :]
        rest = axes[n_batch + 1 :] if same else [None] * (len(sizes) - 1)
        sharding = with_entries(aval, (*axes[:n_batch], None, *rest))
    return lax.broadcast(value, (*like.shape[:n_batch], *sizes), out_sharding=sharding)


def masked_rows(rows: Any, x: Any, value: Any) -> Any:
    """`x` of shape `(*batch, nse, …)`, with `value` in the given rows of shape `(*batch, nse)`."""
    mask = lax.broadcast_in_dim(rows, x.shape, tuple(range(rows.ndim)))
    return lax.select(mask, lax.full_like(x, value) if np.ndim(value) == 0 else value, x)


def _counted_from_front(indices: Any, sizes: Sequence[int]) -> Any:
    if np.issubdtype(indices.dtype, np.unsignedinteger):
        return indices
    limits = lax.broadcast_in_dim(_limits(sizes, indices), indices.shape, (indices.ndim - 1,))
    return lax.select(lax.lt(indices, lax.full_like(indices, 0)), indices + limits, indices)


def gather_at(x: Any, indices: Any, batched: Mapping[int, int], columns: Mapping[int, int]) -> Any:
    """Read slices of a dense array.

    Args:
      x: dense array.
      indices: array of shape `(*batch, nse, n_sparse)`.
      batched: from dimensions of `x` to the batch dimensions of the indices they run along with.
      columns: from dimensions of `x` to the columns of the indices that index them.

    Returns:
      An array of shape `(*batch, nse, *rest)` with the other dimensions of `x`.
    """
    if columns:
        x, batched, columns = _along_shards(x, indices, batched, columns)
    rest = [d for d in range(x.ndim) if d not in batched and d not in columns]
    rest_shape = tuple(x.shape[d] for d in rest)
    outer = indices.shape[:-1]
    shape = (*outer, *rest_shape)
    if not columns:
        order = sorted(batched, key=lambda d: batched[d])
        x = lax.transpose(x, (*order, *rest))
        where = [batched[d] for d in order] + list(range(len(outer), len(shape)))
        return lax.broadcast_in_dim(x, shape, where)
    if 0 in shape or any(x.shape[d] == 0 for d in columns):
        return lax.full(shape, 0, x.dtype)
    dims = sorted(columns)
    found = columns_of(indices, [columns[d] for d in dims])
    found = _counted_from_front(found, [x.shape[d] for d in dims])
    along = sorted(batched)
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(len(outer), len(shape))),
        collapsed_slice_dims=tuple(dims),
        start_index_map=tuple(dims),
        operand_batching_dims=tuple(along),
        start_indices_batching_dims=tuple(batched[d] for d in along),
    )
    sizes = [x.shape[d] if d in rest else 1 for d in range(x.ndim)]
    return slicing.gather(x, found, numbers, sizes, mode=FILL, fill_value=0)


def _sharded_batches(indices: Any, known: Collection[int]) -> list[int]:
    """The batch dimensions of the indices that are sharded over Explicit axes, but for the known."""
    aval = core.typeof(indices)
    if aval._sharding is None:
        return []
    axes = entries(aval)
    return [d for d in range(indices.ndim - 2) if axes[d] is not None and d not in known]


def _along_shards(
    x: Any, indices: Any, batched: Mapping[int, int], columns: Mapping[int, int]
) -> tuple[Any, Mapping[int, int], Mapping[int, int]]:
    """The arguments of `gather_at`, with `x` repeated where sharded batches read all of it.

    The gradient is then a sum over the devices.
    """
    new = _sharded_batches(indices, tuple(batched.values()))
    if not new:
        return x, batched, columns
    aval, axes, n = core.typeof(x), entries(core.typeof(indices)), len(new)
    shape = (*(indices.shape[d] for d in new), *x.shape)
    old = entries(aval) if aval._sharding is not None else (None,) * x.ndim
    sharding = with_entries(core.typeof(indices), (*(axes[d] for d in new), *old))
    x = lax.broadcast_in_dim(x, shape, tuple(range(n, len(shape))), out_sharding=sharding)
    batched = dict(enumerate(new)) | {d + n: b for d, b in batched.items()}
    return x, batched, {d + n: c for d, c in columns.items()}


def _scattered(updates: Any, batched: Sequence[int], sizes: Sequence[int], outer: int) -> Any:
    """The sharding of the result: that of the updates' batch and dense dimensions."""
    aval = core.typeof(updates)
    if aval._sharding is None:
        return None
    axes = entries(aval)
    return with_entries(aval, (*[axes[d] for d in batched], *[None] * len(sizes), *axes[outer:]))


def scatter_at(
    updates: Any, indices: Any, batched: Sequence[int], columns: Sequence[int], sizes: Sequence[int]
) -> Any:
    """Add rows of `updates` to zeros.

    Args:
      updates: array of shape `(*batch, nse, *rest)`.
      indices: array of shape `(*batch, nse, n_sparse)`.
      batched: batch dimensions that the result keeps; it is summed over the others.
      columns: columns of the indices for the sparse dimensions of the result.
      sizes: their sizes.

    Returns:
      An array with the dimensions `batched`, `columns` and `rest`, in this order.
    """
    outer = indices.ndim - 1
    if not columns:
        summed = tuple(d for d in range(outer) if d not in batched)
        return lax.reduce_sum(updates, summed)
    updates, indices = (replicated(x, [outer - 1]) for x in (updates, indices))
    if more := _sharded_batches(indices, batched):
        # Every device adds up its own batches; the sum of these is one over the devices.
        parts = scatter_at(updates, indices, [*more, *batched], columns, sizes)
        return lax.reduce_sum(parts, range(len(more)))
    rest = updates.shape[outer:]
    shape = (*(indices.shape[d] for d in batched), *sizes, *rest)
    zeros = lax.broadcast(
        np.zeros((), updates.dtype), shape, out_sharding=_scattered(updates, batched, sizes, outer)
    )
    if 0 in shape or 0 in updates.shape:
        return zeros
    first = len(batched)
    dims = tuple(range(first, first + len(columns)))
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(outer, updates.ndim)),
        inserted_window_dims=dims,
        scatter_dims_to_operand_dims=dims,
        operand_batching_dims=tuple(range(first)),
        scatter_indices_batching_dims=tuple(batched),
    )
    found = _counted_from_front(columns_of(indices, columns), sizes)
    return slicing.scatter_add(zeros, found, updates, numbers, mode=FILL)
