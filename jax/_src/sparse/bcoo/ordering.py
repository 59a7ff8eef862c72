"""Sorted indices, and sums of elements that have the same index."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core
from jax._src.lax import lax, slicing
from jax._src.lax.slicing.types import ScatterDimensionNumbers
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.bcoo import places
from jax._src.sparse.primitive import buffer_primitive, to_front, with_batch


def _sorted_rows(indices: Any) -> tuple[Any, Any]:
    """Rows in lexicographic order, and their former positions; equal rows keep their order."""
    rows = indices.ndim - 2
    columns = [
        lax.squeeze(slicing.slice_in_dim(indices, c, c + 1, axis=rows + 1), [rows + 1])
        for c in range(indices.shape[-1])
    ]
    sharding = core.typeof(columns[0])._sharding if columns else None
    position = lax.broadcasted_iota(np.int32, indices.shape[:-1], rows, out_sharding=sharding)
    if not columns:
        return indices, position
    *columns, position = lax.sort(
        (*columns, position), dimension=rows, num_keys=len(columns), is_stable=True
    )
    expanded = [lax.expand_dims(c, (rows + 1,)) for c in columns]
    return lax.concatenate(expanded, rows + 1), position


def _rows_at(data: Any, position: Any) -> Any:
    """The rows of `data`, of shape `(*batch, nse, …)`, at positions of shape `(*batch, nse)`."""
    n_batch = position.ndim - 1
    along = {d: d for d in range(n_batch)}
    return places.gather_at(data, lax.expand_dims(position, (n_batch + 1,)), along, {n_batch: 0})


def _starts(rows: Any) -> Any:
    """Which of the sorted rows differ from the one before: an array of shape `(*batch, nse)`."""
    axis = rows.ndim - 2
    first = places.full_rows(np.True_, rows, axis, (core.min_dim(1, rows.shape[axis]),))
    if not core.possibly_greater(rows.shape[axis], 1):
        return first
    before = slicing.slice_in_dim(rows, 0, -1, axis=axis)
    after = slicing.slice_in_dim(rows, 1, None, axis=axis)
    changed = lax.reduce_or(lax.ne(before, after), (rows.ndim - 1,))
    return lax.concatenate([first, changed], axis)


def first_occurrences(indices: Any) -> Any:
    """Which rows of the indices have no equal row before them, as bools."""
    rows, position = _sorted_rows(indices)
    starts = _starts(rows)
    # Sorting by the former positions undoes the permutation.
    _, starts = lax.sort((position, starts), dimension=position.ndim - 1, num_keys=1)
    return starts


def count_unique(indices: Any, shape: Any) -> Any:
    """The number of distinct rows within bounds, the largest of all batches, as a scalar."""
    if not indices.shape[-1]:
        return lax.full((), min(1, indices.shape[-2]), np.int32)
    rows, _ = _sorted_rows(indices)
    inside = lax.bitwise_not(places.out_of_bounds(rows, shape))
    found = lax.convert_element_type(lax.bitwise_and(_starts(rows), inside), np.int32)
    counts = lax.reduce_sum(found, (found.ndim - 1,))
    return lax.reduce_max(counts, tuple(range(counts.ndim))) if counts.size else 0


def _sort_indices(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    n_batch = indices.ndim - 2
    sizes = [max(a, b) for a, b in zip(data.shape[:n_batch], indices.shape[:n_batch])]
    indices, position = _sorted_rows(indices)
    if not indices.shape[-1]:
        return data, indices
    data = places.full_batch(data, sizes)
    return _rows_at(data, places.full_batch(position, sizes)), indices


def _sort_batch(size: int, args: Any, dims: Any, *, spinfo: SparseInfo) -> Any:
    return map(to_front, args, dims), {"spinfo": with_batch(spinfo, size)}


bcoo_sort_indices_p = buffer_primitive(
    "bcoo_sort_indices", _sort_indices, linear=(0,), batch=_sort_batch, multiple_results=True
)


def _place_rows(target: Any, segments: Any, rows: Any, scatter: Any) -> Any:
    n_batch = segments.ndim - 1
    along = tuple(range(n_batch))
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(n_batch + 1, rows.ndim)),
        inserted_window_dims=(n_batch,),
        scatter_dims_to_operand_dims=(n_batch,),
        operand_batching_dims=along,
        scatter_indices_batching_dims=along,
    )
    if not target.size or not rows.size:
        return target
    where = lax.expand_dims(segments, (n_batch + 1,))
    return scatter(target, where, rows, numbers, indices_are_sorted=not n_batch, mode=places.FILL)


def sum_duplicates(data: Any, indices: Any, *, spinfo: SparseInfo, nse: int) -> Any:
    """Buffers with sorted and distinct indices; padding comes last."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch, sizes = spinfo.shape[:n_batch], spinfo.shape[n_batch : n_batch + n_sparse]
    data, indices = places.full_batch(data, batch), places.full_batch(indices, batch)
    padding = places.out_of_bounds(indices, sizes)
    if n_sparse:
        fill = places.fill_row(sizes, indices)
        indices = places.masked_rows(padding, indices, fill)
    rows, position = _sorted_rows(indices)
    ones = lax.convert_element_type(_starts(rows), np.int32)
    segments = lax.cumsum(ones, n_batch) - 1
    data = _rows_at(data, position) if n_sparse and data.shape[n_batch] else data
    new_data = places.full_rows(
        np.zeros((), data.dtype), data, n_batch, (nse, *data.shape[n_batch + 1 :])
    )
    new_data = _place_rows(new_data, segments, data, slicing.scatter_add)
    new_indices = places.full_rows(np.zeros((), indices.dtype), indices, n_batch, (nse, n_sparse))
    if n_sparse:
        new_indices = places.fill_row(sizes, new_indices)
        new_indices = _place_rows(new_indices, segments, rows, slicing.scatter)
    return new_data, new_indices


def _sum_batch(size: int, args: Any, dims: Any, *, spinfo: SparseInfo, nse: int) -> Any:
    return map(to_front, args, dims), {"spinfo": with_batch(spinfo, size), "nse": nse}


bcoo_sum_duplicates_p = buffer_primitive(
    "bcoo_sum_duplicates", sum_duplicates, linear=(0,), batch=_sum_batch, multiple_results=True
)
