"""Functions that change the shape of BCOO arrays, or take parts of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.lax import lax, slicing
from jax._src.numpy.util import select_where, to_array
from jax._src.sparse.bcoo import places
from jax._src.sparse.bcoo.array import BCOO, MODULE, as_axes, check_bcoo
from jax._src.sparse.bcoo.contraction import countable
from jax._src.sparse.bcoo.functions import (
    bcoo_sum_duplicates,
    bcoo_transpose,
    full_buffers,
)
from jax._src.sparse.util import check_index_type, replicated
from jax._src.typing import Shape
from jax._src.util import canonicalize_axis, set_module


def sparse_sizes(mat: BCOO) -> tuple[int, ...]:
    """The sizes of the sparse dimensions."""
    return mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]


@set_module(MODULE)
def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Shape, broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """Add dimensions to a BCOO array, and repeat it along batch and dense ones.

    Args:
      mat: BCOO array.
      shape: shape of the result.
      broadcast_dimensions: for each dimension of `mat`, that of the result. New dimensions before
        the sparse ones are batch dimensions, those after them are sparse if `mat` has no dense
        dimensions, else dense; those between are sparse.
      sharding: not supported, must be None.

    Returns:
      BCOO array.

    Raises:
      NotImplementedError: if a sparse dimension would be repeated.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    check_bcoo("bcoo_broadcast_in_dim", mat)
    if sharding is not None:
        raise NotImplementedError("bcoo_broadcast_in_dim: sharding")
    shape, dims = tuple(shape), as_axes(broadcast_dimensions)
    if len(dims) != mat.ndim:
        raise ValueError(
            f"bcoo_broadcast_in_dim: the operand of shape {mat.shape} and "
            f"broadcast_dimensions={dims} must have the same length"
        )
    n_batch, n_sparse, n_dense = mat.n_batch, mat.n_sparse, mat.n_dense
    if list(dims) != sorted(set(dims)) or any(not 0 <= d < len(shape) for d in dims):
        raise ValueError(
            f"bcoo_broadcast_in_dim: broadcast_dimensions must be ascending dimensions of the "
            f"result, got {dims} for shape {shape}"
        )
    for d, size in zip(dims, mat.shape):
        if size not in (1, shape[d]):
            raise ValueError(
                f"bcoo_broadcast_in_dim: cannot broadcast {mat.shape} to {shape} along {dims}"
            )
    new_batch = dims[n_batch] if n_sparse + n_dense else len(shape)
    if n_dense:
        new_dense = len(shape) - (dims[n_batch + n_sparse - 1] + 1 if n_sparse else new_batch)
        if n_sparse:
            new_dense = min(new_dense, len(shape) - dims[n_batch + n_sparse - 1] - 1)
            between = dims[n_batch + n_sparse] - dims[n_batch + n_sparse - 1] - 1
            new_dense -= between
    else:
        new_dense = 0
    new_sparse = len(shape) - new_batch - new_dense
    old_sparse = {dims[d] - new_batch: d - n_batch for d in range(n_batch, n_batch + n_sparse)}
    sizes = shape[new_batch : new_batch + new_sparse]
    for i, size in enumerate(sizes):
        old = mat.shape[n_batch + old_sparse[i]] if i in old_sparse else 1
        if size != old:
            raise NotImplementedError("Adding sparse dimensions with lengths != 1")

    data, indices = mat.data, mat.indices
    batch = shape[:new_batch]
    dense = shape[new_batch + new_sparse :]
    where = list(dims[:n_batch])
    of_dense = [d - new_batch - new_sparse + new_batch + 1 for d in dims[n_batch + n_sparse :]]
    data = lax.broadcast_in_dim(data, (*batch, mat.nse, *dense), (*where, new_batch, *of_dense))
    indices = lax.broadcast_in_dim(
        indices, (*batch, mat.nse, n_sparse), (*where, new_batch, new_batch + 1)
    )
    if new_sparse != n_sparse:
        zeros = lax.full((*indices.shape[:-1], 1), 0, indices.dtype)
        columns = [
            slicing.slice_in_dim(indices, old_sparse[i], old_sparse[i] + 1, axis=new_batch + 1)
            if i in old_sparse
            else zeros
            for i in range(new_sparse)
        ]
        indices = lax.concatenate(columns, new_batch + 1)
    return BCOO((data, indices), shape=shape)


@set_module(MODULE)
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Concatenate BCOO arrays along a batch or sparse dimension.

    Args:
      operands: BCOO arrays with equal shapes, except along `dimension`, and equal layouts.
      dimension: the dimension, which is not negative.

    Returns:
      BCOO array.

    Raises:
      TypeError: if shapes or types do not fit together.
      ValueError: if there are no operands, or if one is dense or has another layout.
      NotImplementedError: for a dense dimension.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0)
    BCOO(float32[4, 2], nse=4)
    """
    dimension = operator.index(dimension)
    if not all(isinstance(op, BCOO) for op in operands):
        raise ValueError(
            f"bcoo_concatenate: expected operands to be a sequence of BCOO arrays. Got {operands}"
        )
    if not operands:
        raise ValueError("bcoo_concatenate: operands must be a non-empty sequence")
    shapes = [op.shape for op in operands]
    if len({len(s) for s in shapes}) != 1:
        raise TypeError(
            f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}."
        )
    if not 0 <= dimension < len(shapes[0]):
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}."
        )
    if len({s[:dimension] + s[dimension + 1 :] for s in shapes}) != 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {dimension} for shapes {shapes}."
        )
    if len({op.n_dense for op in operands}) != 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching dense dimensions.")
    if len({op.n_batch for op in operands}) != 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching batch dimensions.")
    n_batch, n_sparse = operands[0].n_batch, operands[0].n_sparse
    if dimension >= n_batch + n_sparse:
        raise NotImplementedError("Concatenation along dense dimensions.")
    shape = list(shapes[0])
    shape[dimension] = sum(s[dimension] for s in shapes)
    if dimension < n_batch:
        largest = max(op.nse for op in operands)
        buffers = [full_buffers(_padded(op, largest)) for op in operands]
        parts = list(zip(*buffers))
        axis = dimension
    else:
        column = dimension - n_batch
        start, shifted = 0, []
        top = tuple(shape[n_batch : n_batch + n_sparse])
        for op in operands:
            check_index_type(op.indices.dtype, "bcoo_concatenate", shape[dimension] - 1)
        for op in operands:
            data, indices = full_buffers(op)
            offset = np.zeros(n_sparse, indices.dtype)
            offset[column] = start
            moved = indices + places.row_of(offset, indices)
            # An index out of bounds must not get into the next operand.
            outside = places.out_of_bounds(indices, sparse_sizes(op))
            shifted.append((data, places.masked_rows(outside, moved, places.fill_row(top, moved))))
            start += op.shape[dimension]
        parts = list(zip(*shifted))
        axis = n_batch
    data, indices = (lax.concatenate(list(xs), axis) for xs in parts)
    return BCOO((data, indices), shape=tuple(shape))


def _padded(mat: BCOO, nse: int) -> BCOO:
    """The array with padding up to `nse` elements."""
    missing = nse - mat.nse
    if not missing:
        return mat
    at = mat.n_batch
    data, indices = full_buffers(mat)
    more = lax.full((*data.shape[:at], missing, *data.shape[at + 1 :]), 0, data.dtype)
    data = lax.concatenate([data, more], at)
    fill = lax.full((*indices.shape[:at], missing, mat.n_sparse), 0, indices.dtype)
    if mat.n_sparse:
        fill = places.fill_row(sparse_sizes(mat), fill)
    return BCOO((data, lax.concatenate([indices, fill], at)), shape=mat.shape)


@set_module(MODULE)
def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """Reshape a BCOO array; batch, sparse and dense dimensions cannot be mixed.

    Args:
      mat: BCOO array.
      new_sizes: shape of the result.
      dimensions: permutation of the dimensions of `mat`, which is applied first.
      sharding: not supported, must be None.

    Returns:
      BCOO array.

    Raises:
      TypeError: if the number of elements differs.
      ValueError: if the new shape mixes kinds of dimensions, or the type of the indices is too narrow.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_reshape(sparse.eye(4), new_sizes=(2, 8)).indices.tolist()
    [[0, 0], [0, 5], [1, 2], [1, 7]]
    """
    check_bcoo("bcoo_reshape", mat)
    if sharding is not None:
        raise NotImplementedError("bcoo_reshape: sharding")
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new = as_axes(new_sizes)
    shape, n_batch, n_dense = mat.shape, mat.n_batch, mat.n_dense
    old_batch, old_sparse = math.prod(shape[:n_batch]), math.prod(sparse_sizes(mat))
    old_dense = math.prod(shape[len(shape) - n_dense :])
    splits = [k for k in range(len(new) + 1) if math.prod(new[:k]) == old_batch]
    if not splits:
        raise ValueError(
            "bcoo_reshape: new shape cannot mix batch and sparse dimensions; "
            f"got {shape=} new_shape={new} with {n_batch=}"
        )
    if math.prod(new) != mat.size or any(d < 0 for d in new):
        raise TypeError(
            f"cannot reshape array of shape {shape} (size {mat.size}) into shape {new} "
            f"(size {math.prod(new)})"
        )
    new_batch = splits[-1]
    ends = [len(new)] if not n_dense else range(len(new), new_batch - 1, -1)
    ends = [
        k
        for k in ends
        if math.prod(new[k:]) == old_dense and math.prod(new[new_batch:k]) == old_sparse
    ]
    if not ends:
        raise ValueError(
            "bcoo_reshape: new shape cannot mix sparse and dense dimensions; "
            f"got {shape=} new_shape={new} with {n_dense=}"
        )
    end = ends[0]
    batch, sizes, dense = new[:new_batch], new[new_batch:end], new[end:]
    data, indices = full_buffers(mat)
    if sizes != sparse_sizes(mat):
        check_index_type(indices.dtype, "bcoo_reshape", old_sparse - 1)
    data = lax.reshape(data, (*batch, mat.nse, *dense))
    indices = lax.reshape(indices, (*batch, mat.nse, mat.n_sparse))
    indices = _reshaped_indices(indices, sparse_sizes(mat), sizes)
    return BCOO((data, indices), shape=new)


def _reshaped_indices(indices: Any, old: Sequence[int], new: Sequence[int]) -> Any:
    if tuple(old) == tuple(new):
        return indices
    axis = indices.ndim - 1
    outside = places.out_of_bounds(indices, old)
    flat = lax.full((*indices.shape[:-1], 1), 0, indices.dtype)
    for c, size in enumerate(old):
        flat = flat * np.asarray(size, indices.dtype) + slicing.slice_in_dim(
            indices, c, c + 1, axis=axis
        )
    columns: list[Any] = []
    for size in reversed(new):
        divisor = lax.full_like(flat, max(size, 1))
        columns.append(lax.rem(flat, divisor))
        flat = lax.div(flat, divisor)
    if not columns:
        return slicing.slice_in_dim(indices, 0, 0, axis=axis)
    found = lax.concatenate(columns[::-1], axis)
    return places.masked_rows(outside, found, places.fill_row(new, found))


@set_module(MODULE)
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """Reverse the order of elements along some dimensions.

    Args:
      operand: BCOO array.
      dimensions: distinct dimensions.

    Returns:
      BCOO array.

    Raises:
      TypeError: if dimensions are out of bounds or repeated.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_rev(sparse.BCOO.fromdense(jnp.array([1, 0, 2])), (0,)).todense().tolist()
    [2, 0, 1]
    """
    check_bcoo("bcoo_rev", operand, "operand")
    dims = as_axes(dimensions)
    if len(set(dims)) != len(dims):
        raise TypeError(f"rev dimensions must be unique, got {dims}.")
    if any(not 0 <= d < operand.ndim for d in dims):
        raise TypeError(
            f"rev dimensions must all be nonnegative and less than operand ndim, got dimensions "
            f"{dims} for operand ndim {operand.ndim}."
        )
    n_batch, n_sparse = operand.n_batch, operand.n_sparse
    data, indices = full_buffers(operand)
    batch = [d for d in dims if d < n_batch]
    dense = [d - n_sparse + 1 for d in dims if d >= n_batch + n_sparse]
    data, indices = lax.rev(data, [*batch, *dense]), lax.rev(indices, batch)
    columns = [d - n_batch for d in dims if n_batch <= d < n_batch + n_sparse]
    if columns:
        sizes = sparse_sizes(operand)
        outside = places.out_of_bounds(indices, sizes)
        last = places.row_of([n - 1 if n else 0 for n in sizes], indices)
        reversed_ = places.row_of([c in columns for c in range(n_sparse)], indices) != 0
        moved = select_where(reversed_, last - indices, indices)
        # Padding stays where it is.
        indices = places.masked_rows(outside, moved, indices)
    return BCOO((data, indices), shape=operand.shape, unique_indices=False)


@set_module(MODULE)
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Remove dimensions of size 1.

    Args:
      arr: BCOO array.
      dimensions: dimensions of size 1.

    Returns:
      BCOO array.

    Raises:
      ValueError: if a dimension has another size.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_squeeze(sparse.BCOO.fromdense(jnp.ones((1, 3))), dimensions=(0,))
    BCOO(float32[3], nse=3)
    """
    check_bcoo("bcoo_squeeze", arr, "arr")
    dims = {canonicalize_axis(d, arr.ndim) for d in as_axes(dimensions)}
    if any(arr.shape[d] != 1 for d in dims):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={arr.shape} and dimensions={tuple(dimensions)}"
        )
    n_batch, n_sparse = arr.n_batch, arr.n_sparse
    batch = [d for d in dims if d < n_batch]
    dense = [d - n_sparse + 1 for d in dims if d >= n_batch + n_sparse]
    kept = [c for c in range(n_sparse) if c + n_batch not in dims]
    data, indices = arr.data, places.columns_of(arr.indices, kept)
    shape = tuple(s for d, s in enumerate(arr.shape) if d not in dims)
    # Padding is in order if all of its columns, or the first ones, are out of bounds.
    in_order = kept == list(range(n_sparse - len(kept), n_sparse))
    if len(kept) < n_sparse:
        # What is out of bounds along a removed dimension only must not become an element.
        outside = places.out_of_bounds(arr.indices, sparse_sizes(arr))
        if kept:
            sizes = [arr.shape[n_batch + c] for c in kept]
            indices = places.masked_rows(outside, indices, places.fill_row(sizes, indices))
        else:
            batch_shape = [max(a, b) for a, b in zip(data.shape[:n_batch], outside.shape)]
            data, outside = (places.full_batch(x, batch_shape) for x in (data, outside))
            data = places.masked_rows(outside, data, 0)
            indices = places.full_batch(indices, batch_shape)
    return BCOO(
        (lax.squeeze(data, [*batch, *dense]), lax.squeeze(indices, batch)),
        shape=shape,
        indices_sorted=arr.indices_sorted and in_order,
        unique_indices=arr.unique_indices,
    )


def _sliced(mat: BCOO, starts: Sequence[Any], sizes: Sequence[int], strides: Sequence[int]) -> BCOO:
    """The part of the sparse dimensions from `starts` (maybe traced), with `sizes` elements each.

    Elements elsewhere become padding. If the part is smaller than the number of elements, these
    are summed, so that there are not more of them than elements of the part.
    """
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    old = sparse_sizes(mat)
    most = math.prod(sizes)
    whole = all(isinstance(s, int) and s == 0 for s in starts) and tuple(sizes) == tuple(old)
    if whole and (most >= mat.nse or not n_sparse):
        return mat
    data, indices = full_buffers(mat)
    # Duplicates may be summed.
    data = countable(data)
    start = _index_row(starts, indices)
    stride = places.row_of(strides, indices)
    # Compared before subtracting, for unsigned types.
    ends = [a + (n - 1) * s + 1 if n else a for a, n, s in zip(starts, sizes, strides)]
    inside = (indices >= start) & (indices < _index_row(ends, indices))
    moved = indices - start
    if any(s != 1 for s in strides):
        inside &= (
            lax.rem(
                moved, lax.broadcast_in_dim(to_array(stride), moved.shape, tuple(range(moved.ndim)))
            )
            == 0
        )
        moved = lax.div(
            moved, lax.broadcast_in_dim(to_array(stride), moved.shape, tuple(range(moved.ndim)))
        )
    outside = lax.bitwise_not(lax.reduce_and(inside, (indices.ndim - 1,)))
    outside = lax.bitwise_or(outside, places.out_of_bounds(indices, old))
    data = places.masked_rows(outside, data, 0)
    indices = places.masked_rows(outside, moved, places.fill_row(sizes, moved))
    shape = (*mat.shape[:n_batch], *sizes, *mat.shape[n_batch + n_sparse :])
    out = BCOO((data, indices), shape=shape)
    if most >= mat.nse:
        return out
    return BCOO(bcoo_sum_duplicates(out, nse=most)._bufs, shape=shape)


def _index_row(values: Sequence[Any], indices: Any) -> Any:
    if all(isinstance(v, int) for v in values):
        return places.row_of(values, indices)
    scalars = [lax.reshape(lax.convert_element_type(v, indices.dtype), (1,)) for v in values]
    return lax.reshape(lax.concatenate(scalars, 0), (1,) * (indices.ndim - 1) + (len(values),))


@set_module(MODULE)
def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """Take a static part of a BCOO array.

    Args:
      mat: BCOO array.
      start_indices: `mat.ndim` first positions.
      limit_indices: `mat.ndim` positions after the last ones.
      strides: `mat.ndim` positive steps; by default 1.

    Returns:
      BCOO array. It stores as many elements as `mat`, or all of its own if these are fewer.

    Raises:
      TypeError: if `mat` is not a BCOO array.
      ValueError: if positions are out of bounds.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_slice(sparse.eye(4), start_indices=(1, 1), limit_indices=(3, 3)).todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_bcoo("bcoo_slice", mat)
    start, limit = as_axes(start_indices), as_axes(limit_indices)
    stride = (1,) * mat.ndim if strides is None else as_axes(strides)
    if not len(start) == len(limit) == len(stride) == mat.ndim:
        raise ValueError(
            f"bcoo_slice: indices must be of size mat.ndim={mat.ndim}, got {start=} {limit=} {stride=}"
        )
    if any(s <= 0 for s in stride):
        raise ValueError(f"strides must be a sequence of positive integers; got {stride}")
    if any(not 0 <= a <= b <= n for a, b, n in zip(start, limit, mat.shape)):
        raise ValueError(
            f"bcoo_slice: invalid indices. Got start_indices={start}, limit_indices={limit} "
            f"and shape={mat.shape}"
        )
    n_batch, first_dense = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_buffers(mat)
    cut = lambda values, extra: (*values[:n_batch], *extra)
    shape = indices.shape[n_batch:]
    indices = slicing.slice(indices, cut(start, (0, 0)), cut(limit, shape), cut(stride, (1, 1)))
    data = slicing.slice(
        data,
        (*start[:n_batch], 0, *start[first_dense:]),
        (*limit[:n_batch], mat.nse, *limit[first_dense:]),
        (*stride[:n_batch], 1, *stride[first_dense:]),
    )
    sparse = sparse_sizes(mat)
    new_shape = [-(-(b - a) // s) for a, b, s in zip(start, limit, stride)]
    new_shape[n_batch:first_dense] = sparse
    part = BCOO((data, indices), shape=tuple(new_shape))
    inner = slice(n_batch, first_dense)
    sizes = [-(-(b - a) // s) for a, b, s in zip(start[inner], limit[inner], stride[inner])]
    return _sliced(part, start[inner], sizes, stride[inner])


@set_module(MODULE)
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """Take a part of static size, at positions that may be traced.

    Args:
      mat: BCOO array.
      start_indices: `mat.ndim` integer scalars. A negative one counts from the end; it is then
        clamped so that the part lies within the array.
      slice_sizes: `mat.ndim` static sizes.

    Returns:
      BCOO array. It stores as many elements as `mat`, or all of its own if these are fewer.

    Raises:
      TypeError: if sizes are too large, or positions are not integers of one type.

    >>> from jax.experimental import sparse
    >>> i = jnp.array(1)
    >>> sparse.bcoo_dynamic_slice(sparse.eye(4), (i, i), (2, 2)).todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_bcoo("bcoo_dynamic_slice", mat)
    sizes = as_axes(slice_sizes)
    starts = list(start_indices)
    if len(starts) != mat.ndim or len(sizes) != mat.ndim:
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(starts)}, {len(sizes)} vs {mat.shape})"
        )
    if any(not 0 <= n <= s for n, s in zip(sizes, mat.shape)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{sizes} for operand shape {mat.shape}."
        )
    if not all(
        np.issubdtype(np.result_type(s) if isinstance(s, (int, float)) else s.dtype, np.integer)
        for s in starts
    ):
        raise TypeError(f"index arguments to dynamic_slice must be integers, got {starts}")
    placed: list[Any] = []
    for s, n, size in zip(starts, sizes, mat.shape):
        if isinstance(s, int):
            s = s + size if s < 0 else s
            placed.append(min(max(s, 0), size - n))
        else:
            s = to_array(s)
            s = lax.convert_element_type(s, np.int32) if s.dtype.itemsize < 4 else s
            s = select_where(s < 0, s + size, s)
            placed.append(lax.clamp(np.asarray(0, s.dtype), s, np.asarray(size - n, s.dtype)))
    n_batch, first_dense = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_buffers(mat)
    if any(n != s for n, s in zip(sizes[:n_batch], mat.shape)):
        zeros = [0, 0]
        indices = slicing.dynamic_slice(
            indices,
            _same_type([*placed[:n_batch], *zeros]),
            (*sizes[:n_batch], *indices.shape[n_batch:]),
        )
    data = slicing.dynamic_slice(
        data,
        _same_type([*placed[:n_batch], 0, *placed[first_dense:]]),
        (*sizes[:n_batch], mat.nse, *sizes[first_dense:]),
    )
    shape = (*sizes[:n_batch], *sparse_sizes(mat), *sizes[first_dense:])
    part = BCOO((data, indices), shape=shape)
    inner = slice(n_batch, first_dense)
    return _sliced(part, placed[inner], sizes[inner], (1,) * mat.n_sparse)


def _same_type(scalars: Sequence[Any]) -> list[Any]:
    found = [s.dtype for s in scalars if not isinstance(s, int)]
    dtype = max(found, key=lambda d: d.itemsize) if found else np.dtype(np.int32)
    return [lax.convert_element_type(s, dtype) for s in scalars]


@set_module(MODULE)
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Sum the elements over some dimensions.

    Args:
      mat: BCOO array.
      axes: dimensions.

    Returns:
      BCOO array without these dimensions. Elements are not summed until its indices are.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_reduce_sum(sparse.BCOO.fromdense(jnp.ones((2, 3))), axes=[0]).todense().tolist()
    [2.0, 2.0, 2.0]
    """
    check_bcoo("bcoo_reduce_sum", mat)
    dims = sorted({canonicalize_axis(a, mat.ndim) for a in as_axes(axes)})
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    data, indices = full_buffers(mat)
    # This is the sum of NumPy, which widens integers, also where nothing is summed yet.
    data = data.sum(tuple(d - n_sparse + 1 for d in dims if d >= n_batch + n_sparse))
    if n_sparse:
        # Where only columns in bounds remain, padding would become an element.
        data = places.masked_rows(places.out_of_bounds(indices, sparse_sizes(mat)), data, 0)
    kept = [c for c in range(n_sparse) if c + n_batch not in dims]
    indices = places.columns_of(indices, kept)
    batch = [d for d in dims if d < n_batch]
    if batch:
        # The elements of these batches become elements of one.
        stay = [d for d in range(n_batch) if d not in batch]
        rows = math.prod(mat.shape[d] for d in batch) * mat.nse

        def merged(x: Any) -> Any:
            rest = range(n_batch + 1, x.ndim)
            x = replicated(x, batch)
            x = lax.transpose(x, (*stay, *batch, n_batch, *rest))
            return lax.reshape(x, (*x.shape[: len(stay)], rows, *x.shape[n_batch + 1 :]))

        data, indices = merged(data), merged(indices)
    shape = tuple(s for d, s in enumerate(mat.shape) if d not in dims)
    return BCOO((data, indices), shape=shape)
