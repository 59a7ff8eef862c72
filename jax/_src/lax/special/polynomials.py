"""Evaluation of polynomials, also of functions given by a table of piecewise polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core, dtypes
from jax._src.lax.lax.arithmetic import add, mul, sub
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.logical import lt
from jax._src.lax.lax.select import select
from jax._src.lax.utils import const


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial by Horner's rule; coefficients are from the constant one upwards."""
    out = full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = add(mul(out, x), const(x, c))
    return out


def even_odd(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial like `polynomial`, its even and its odd part apart: two sums, which do not wait for each other."""
    square = mul(x, x)
    odd = mul(x, polynomial(square, coefficients[1::2]))
    return add(polynomial(square, coefficients[::2]), odd)


def piecewise(table: dict[int, Any], x: Any) -> Any:
    """Evaluate a function that is given by a table of piecewise polynomials.

    All pieces have the same degree, so that selecting coefficients by the piece suffices.

    Args:
      table: by the bits of the dtype, a pair of the ends of the pieces and of their coefficients,
        in powers of a variable from -1 to 1 on the piece.
      x: float32 or float64 array within the ends of the table.
    """
    ends, rows = table[dtypes.finfo(core.typeof(x).dtype).bits]
    below = [lt(x, const(x, end)) for end in ends[1:-1]]

    def pick(values):
        out = full_like(x, values[-1])
        for mask, value in zip(reversed(below), reversed(values[:-1])):
            out = select(mask, full_like(x, value), out)
        return out

    pairs = list(zip(ends[:-1], ends[1:]))
    middle = pick([(a + b) / 2 for a, b in pairs])
    t = mul(sub(x, middle), pick([2 / (b - a) for a, b in pairs]))
    *columns, last = zip(*rows)
    out = pick(last)
    for column in reversed(columns):
        out = add(mul(out, t), pick(column))
    return out
