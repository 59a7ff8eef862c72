"""Gather as products with one-hot matrices, for hardware that multiplies faster than it gathers."""

from __future__ import annotations

import numpy as np

from jax._src.lax import lax


def one_hot_gather(operand, indices, *, dimension_numbers, slice_sizes):
    """Gather by contractions with one-hot matrices; the result is zero at out-of-bounds indices.

    There is one contraction for each indexed dimension. The intermediate array first has the batch
    dimensions of the indices, starting with those paired with the operand's batching dimensions,
    and then the operand's other dimensions. Each contraction replaces an indexed dimension by the
    window's dimension.
    """
    offset_dims, collapsed, index_map, batching_dims, tied = dimension_numbers
    n_batch = indices.ndim - 1
    rest = [d for d in range(operand.ndim) if d not in batching_dims]
    order = [*tied, *[d for d in range(n_batch) if d not in tied]]
    indices = lax.transpose(indices, (*order, n_batch))
    batch = indices.shape[:-1]
    x = lax.transpose(operand, (*batching_dims, *rest))
    x = lax.broadcast_in_dim(
        x,
        (*batch, *x.shape[len(tied) :]),
        (*range(len(tied)), *range(n_batch, n_batch + len(rest))),
    )
    for k, d in enumerate(index_map):
        axis = n_batch + rest.index(d)
        matrix = _one_hot(_crop(indices, n_batch, k, 1), slice_sizes[d], operand.shape[d])
        dims = tuple(range(n_batch))
        x = lax.dot_general(
            lax.convert_element_type(matrix, operand.dtype),
            x,
            (((n_batch + 1,), (axis,)), (dims, dims)),
            precision="highest",
        )
        back = [*dims, *range(n_batch + 1, x.ndim)]
        back.insert(axis, n_batch)
        x = lax.transpose(x, back)
    for d in rest:
        if d not in index_map:
            x = _crop(x, n_batch + rest.index(d), 0, slice_sizes[d])
    x = lax.squeeze(x, [n_batch + rest.index(d) for d in collapsed])
    batch_at = [d for d in range(x.ndim) if d not in offset_dims]
    source = [0] * x.ndim
    for i, d in enumerate(order):
        source[batch_at[d]] = i
    for i, d in enumerate(offset_dims):
        source[d] = n_batch + i
    return lax.transpose(x, source)


def _one_hot(start, window, size):
    """Return matrices of shape `(*batch, window, size)` whose row `w` has a one at `start + w`."""
    n = start.ndim - 1
    shape = (*start.shape[:-1], window, size)
    start = lax.broadcast_in_dim(start, shape, range(n + 1))
    column = lax.sub(
        lax.broadcasted_iota(np.int32, shape, n + 1), lax.broadcasted_iota(np.int32, shape, n)
    )
    return lax.eq(lax.convert_element_type(start, np.int32), column)


def _crop(x, axis, start, size):
    end = x.shape[axis] - start - size
    if not start and not end:
        return x
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (-start, -end, 0)
    return lax.pad(x, np.array(0, x.dtype)[()], config)
