"""Solutions of many small linear systems by unrolled elimination, without a library call for each."""

from __future__ import annotations

import math
from typing import Any

from jax._src import core
from jax._src.lax import lax, slicing
from jax._src.lax.linalg.common import is_complex

_MAX_SIZE = 3
# Below, the time that is saved is far less than the longer compilation takes.
_MIN_BATCH = 1024


def is_small_batched(a: Any, b: Any) -> bool:
    """Tests whether `solve_small` is for systems of the shapes (..., n, n) and (..., n, k)."""
    if not core.is_constant_shape((*a.shape, *b.shape)):
        return False
    n, k = b.shape[-2:]
    return 1 <= k <= n <= _MAX_SIZE and math.prod(b.shape[:-2]) >= _MIN_BATCH


def solve_small(a: Any, b: Any) -> Any:
    """Solves systems (..., n, n) with right-hand sides (..., n, k) like LAPACK's `gesv`.

    This is Gaussian elimination with partial pivoting. Each entry is an array of the batch's shape,
    so that the compiler fuses everything into loops over the batch.
    """
    n, k = b.shape[-2:]
    rows = [[_entry(x, i, j) for x in (a, b) for j in range(x.shape[-1])] for i in range(n)]
    for c in range(n):
        for i in range(c + 1, n):
            exchange = lax.gt(_size(rows[i][c]), _size(rows[c][c]))
            pairs = list(zip(rows[c], rows[i]))[c:]
            rows[c][c:] = [lax.select(exchange, below, top) for top, below in pairs]
            rows[i][c:] = [lax.select(exchange, top, below) for top, below in pairs]
        pivot = rows[c][c]
        zero = lax.full_like(pivot, 0)
        for i in range(c + 1, n):
            # Below a pivot of zero there are zeros. LAPACK goes on with the next column.
            factor = lax.select(lax.eq(pivot, zero), rows[i][c], lax.div(rows[i][c], pivot))
            for j in range(c + 1, n + k):
                rows[i][j] = _sub_product(rows[i][j], factor, rows[c][j])
    solution: list[list[Any]] = []
    for i in reversed(range(n)):
        found = []
        for x, column in zip(rows[i][n:], range(k)):
            for j, known in zip(range(n - 1, i, -1), solution):
                x = _sub_product(x, rows[i][j], known[column])
            found.append(lax.div(x, rows[i][i]))
        solution.append(found)
    last = b.ndim - 2
    return lax.stack([lax.stack(found, last) for found in reversed(solution)], last)


def _entry(x, i, j):
    row = slicing.index_in_dim(x, i, x.ndim - 2, keepdims=False)
    return slicing.index_in_dim(row, j, row.ndim - 1, keepdims=False)


def _size(x):
    """Returns what LAPACK compares to choose pivots; for complex numbers this is not `abs`."""
    if is_complex(x):
        return lax.add(lax.abs(lax.real(x)), lax.abs(lax.imag(x)))
    return lax.abs(x)


def _sub_product(x, y, z):
    return lax.sub(x, lax.mul(y, z))
