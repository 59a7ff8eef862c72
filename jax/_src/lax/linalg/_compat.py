"""A name that outside code imports from `jax._src.lax.linalg`; our own code does not use it."""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.linalg.common import along_columns, along_rows, permute_rows
from jax._src.lax.linalg.lu import lu_pivots_to_permutation


def _lu_python(x: Array) -> tuple[Array, Array, Array]:
    """The results of `lu` by operations of `lax`, also for floats of 16 bits, which no kernel takes."""
    if not dtypes.issubdtype(x.dtype, np.inexact):
        raise TypeError(
            f"an LU decomposition is one of floats or complex numbers, not of {x.dtype}"
        )
    *lead, m, n = x.shape
    axis, steps = len(lead), min(m, n)
    rows = lax.broadcasted_iota(np.int32, (*lead, m), axis)
    row_of, column_of = (lax.broadcasted_iota(np.int32, x.shape, axis + d) for d in (0, 1))
    over_rows = lambda v: lax.broadcast_in_dim(v, rows.shape, range(axis))

    def step(i, state):
        x, pivots = state
        column = slicing.dynamic_index_in_dim(x, i, axis + 1, keepdims=False)
        size = lax.abs(column)
        if dtypes.issubdtype(x.dtype, np.complexfloating):  # the measure of LAPACK
            size = lax.add(lax.abs(lax.real(column)), lax.abs(lax.imag(column)))
        left = lax.ge(rows, lax.full_like(rows, i))
        pivot = lax.argmax(lax.select(left, size, lax.full_like(size, -np.inf)), axis, np.int32)
        pivots = slicing.dynamic_update_index_in_dim(pivots, pivot, i, axis)
        here, there = lax.full_like(rows, i), over_rows(pivot)
        order = lax.select(lax.eq(rows, there), here, rows)
        x = permute_rows(x, lax.select(lax.eq(rows, here), there, order))

        column = slicing.dynamic_index_in_dim(x, i, axis + 1, keepdims=False)
        divisor = over_rows(slicing.dynamic_index_in_dim(column, i, axis, keepdims=False))
        divides = lax.bitwise_and(lax.gt(rows, here), lax.ne(divisor, lax.full_like(divisor, 0)))
        divisor = lax.select(divides, divisor, lax.full_like(divisor, 1))
        column = lax.div(column, divisor)
        x = slicing.dynamic_update_index_in_dim(x, column, i, axis + 1)
        row = slicing.dynamic_index_in_dim(x, i, axis, keepdims=False)
        product = lax.mul(along_columns(column, x.shape), along_rows(row, x.shape))
        i = lax.full_like(row_of, i)
        rest = lax.bitwise_and(lax.gt(row_of, i), lax.gt(column_of, i))
        return lax.sub(x, lax.select(rest, product, lax.full_like(x, 0))), pivots

    pivots = lax.full((*lead, steps), 0, np.int32)
    if x.size:
        x, pivots = fori_loop(0, steps, step, (x, pivots))
    return x, pivots, lu_pivots_to_permutation(pivots, m)
