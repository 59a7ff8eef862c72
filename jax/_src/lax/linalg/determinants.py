"""Determinants of small matrices."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters import mlir
from jax._src.lax import lax, native_calls, slicing
from jax._src.lax.linalg.common import linalg_primitive
from jax._src.lax.rules import COMPLEX, FLOAT


def det_3x3(a: Any) -> Any:
    """Compute the determinants of matrices of shape (..., 3, 3), by cofactors of the first row."""
    return det_3x3_p.bind(a)


def _shape(a):
    if tuple(a) != (3, 3):
        raise ValueError(f"det_3x3 takes matrices of shape (3, 3), got {tuple(a)}")
    return ()


def _elements(a):
    """Return the elements by rows, each of shape (...,)."""
    lead = a.shape[:-2]
    zeros, last = (0,) * len(lead), (a.ndim - 2, a.ndim - 1)

    def element(i, j):
        return lax.squeeze(slicing.slice(a, (*zeros, i, j), (*lead, i + 1, j + 1)), last)

    return [[element(i, j) for j in range(3)] for i in range(3)]


def _minor(first, second, j, k):
    """Return the determinant of columns j and k of two rows."""
    return lax.sub(lax.mul(first[j], second[k]), lax.mul(first[k], second[j]))


def _compute(a):
    x, y, z = _elements(a)
    # This has fewer products than the sum over permutations.
    first = lax.mul(x[0], _minor(y, z, 1, 2))
    second = lax.mul(x[1], _minor(y, z, 0, 2))
    return lax.add(lax.sub(first, second), lax.mul(x[2], _minor(y, z, 0, 1)))


def _jvp(da, out, a):
    """The sum of the tangents times their cofactors."""
    rows, tangents = _elements(a), _elements(da)
    total = None
    for i in range(3):
        # The next rows and columns, cyclically, whose minors need no signs
        first, second = rows[(i + 1) % 3], rows[(i + 2) % 3]
        for j in range(3):
            term = lax.mul(tangents[i][j], _minor(first, second, (j + 1) % 3, (j + 2) % 3))
            total = term if total is None else lax.add(total, term)
    return total


_lower = mlir.lower_fun(_compute, multiple_results=False)

det_3x3_p = linalg_primitive(
    "det_3x3",
    FLOAT | COMPLEX,
    (2,),
    _shape,
    lower={
        None: _lower,
        # The kernel reads four matrices at a time, instead of single elements.
        "cpu": native_calls.lowering_of_float32("jaxlib_ext_determinants_3x3", _lower, 9 << 9),
    },
    jvp=(_jvp,),
)
