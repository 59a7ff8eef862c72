"""Exact linear programming, to bound symbolic dimensions by their constraints.

The simplex method with Bland's rule (R. G. Bland, "New finite pivoting rules for the simplex
method", Mathematics of Operations Research 2, 1977): it always ends. Equations are rows of integers,
each times a positive number of its own, so results are exact. Problems here have few variables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def minimize(
    rows: Sequence[Sequence[int]], right: Sequence[int], cost: Sequence[int]
) -> Fraction | float:
    """The least value of a linear function of non-negative variables with given sums.

    Args:
      rows: (m, n) coefficients of the equations.
      right: (m,) right sides of the equations.
      cost: (n,) coefficients of the function.

    Returns:
      The minimum; infinity if the equations have no solution, minus infinity if there is no bound.
    """
    n, m = len(cost), len(rows)
    # One artificial variable for each equation gives a first solution; then they are driven out.
    table = []
    for i, (row, b) in enumerate(zip(rows, right, strict=True)):
        sign = -1 if b < 0 else 1
        table.append([sign * k for k in row] + [int(i == j) for j in range(m)] + [sign * b])
    basis = list(range(n, n + m))
    if _solve(table, basis, [0] * n + [1] * m + [0], n + m) != 0:
        return math.inf
    _drop_artificial(table, basis, n)
    return _solve(table, basis, [*cost] + [0] * (m + 1), n)


def _solve(
    table: list[list[int]], basis: list[int], cost: list[int], num_columns: int
) -> Fraction | float:
    """Pivots to the minimum from the solution in the table, which is changed."""
    # The last number is what the others have been multiplied by.
    reduced = [*cost, 1]
    for row, column in zip(table, basis):
        _eliminate(reduced, row, column)
    while True:
        enter = next((j for j in range(num_columns) if reduced[j] < 0), None)
        if enter is None:
            return Fraction(-reduced[-2], reduced[-1])
        ratios = [
            (Fraction(row[-1], row[enter]), basis[i], i)
            for i, row in enumerate(table)
            if row[enter] > 0
        ]
        if not ratios:
            return -math.inf
        leave = min(ratios)[2]
        _pivot(table, basis, leave, enter)
        _eliminate(reduced, table[leave], enter)


def _pivot(table: list[list[int]], basis: list[int], leave: int, enter: int) -> None:
    for i, row in enumerate(table):
        if i != leave:
            _eliminate(row, table[leave], enter)
    basis[leave] = enter


def _eliminate(row: list[int], other: list[int], column: int) -> None:
    """Makes the row's number in a column zero, by a multiple of a row with a positive one there."""
    factor = row[column]
    if not factor:
        return
    common = math.gcd(factor, other[column])
    factor, scale = factor // common, other[column] // common
    rest = [scale * x for x in row[len(other) :]]
    row[:] = [scale * x - factor * y for x, y in zip(row, other)] + rest
    common = math.gcd(*row)
    if common > 1:
        row[:] = [x // common for x in row]


def _drop_artificial(table: list[list[int]], basis: list[int], n: int) -> None:
    """Replaces artificial variables in the basis, which are zero; equations that depend on others go."""
    for i in reversed(range(len(table))):
        if basis[i] >= n:
            enter = next((j for j in range(n) if table[i][j] != 0), None)
            if enter is None:
                del table[i], basis[i]
                continue
            if table[i][enter] < 0:
                table[i] = [-x for x in table[i]]
            _pivot(table, basis, i, enter)
