"""Exact linear programming, to bound symbolic dimensions by their constraints.

The simplex method with Bland's rule (R. G. Bland, "New finite pivoting rules for the simplex
method", Mathematics of Operations Research 2, 1977), in rational numbers: results are exact, and it
always ends. Problems here have few variables.
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
        artificial = [Fraction(int(i == j)) for j in range(m)]
        table.append([Fraction(sign * k) for k in row] + artificial + [Fraction(sign * b)])
    basis = list(range(n, n + m))
    first = [Fraction(0)] * n + [Fraction(1)] * m + [Fraction(0)]
    if _solve(table, basis, first, n + m) != 0:
        return math.inf
    _drop_artificial(table, basis, n)
    second = [Fraction(k) for k in cost] + [Fraction(0)] * (m + 1)
    return _solve(table, basis, second, n)


def _solve(
    table: list[list[Fraction]], basis: list[int], cost: list[Fraction], num_columns: int
) -> Fraction | float:
    """Pivots to the minimum from the solution in the table, which is changed."""
    reduced = list(cost)
    for row, column in zip(table, basis):
        _subtract(reduced, row, reduced[column])
    while True:
        enter = next((j for j in range(num_columns) if reduced[j] < 0), None)
        if enter is None:
            return -reduced[-1]
        ratios = [
            (row[-1] / row[enter], basis[i], i) for i, row in enumerate(table) if row[enter] > 0
        ]
        if not ratios:
            return -math.inf
        _pivot(table, basis, min(ratios)[2], enter)
        _subtract(reduced, table[basis.index(enter)], reduced[enter])


def _pivot(table: list[list[Fraction]], basis: list[int], leave: int, enter: int) -> None:
    scale = table[leave][enter]
    table[leave] = [x / scale for x in table[leave]]
    for i, row in enumerate(table):
        if i != leave:
            _subtract(row, table[leave], row[enter])
    basis[leave] = enter


def _subtract(row: list[Fraction], other: list[Fraction], factor: Fraction) -> None:
    if factor:
        for j, x in enumerate(other):
            if x:
                row[j] -= factor * x


def _drop_artificial(table: list[list[Fraction]], basis: list[int], n: int) -> None:
    """Replaces artificial variables in the basis, which are zero; equations that depend on others go."""
    for i in reversed(range(len(table))):
        if basis[i] >= n:
            enter = next((j for j in range(n) if table[i][j] != 0), None)
            if enter is None:
                del table[i], basis[i]
            else:
                _pivot(table, basis, i, enter)
