"""Functions of normal densities: exp(-x**2), scaled and complementary error functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.lax.lax.arithmetic import abs, add, div, is_finite, mul, sub
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp
from jax._src.lax.lax.logical import gt, lt
from jax._src.lax.lax.select import select
from jax._src.lax.special.doubled import two_product
from jax._src.lax.special.error_tables import ERFCX, ERFCX_SINGLE
from jax._src.lax.special.polynomials import piecewise, polynomial
from jax._src.lax.utils import const


def exp_minus_square(x: Any, scale: float = 1.0) -> Any:
    """Return exp(-scale * x**2), without losing the low bits of the square; `scale` is 1 or 1/2."""
    square, rest = two_product(x, x)
    factor = const(x, -scale)
    out = exp(mul(factor, square))
    rest = mul(factor, rest)
    # A subnormal product, which is flushed to zero where it is not fused with the sum, would be lost.
    info = dtypes.finfo(core.typeof(x).dtype)
    small = lt(out, const(x, float(info.tiny / info.eps)))
    corrected = add(out, mul(out, rest))
    corrected = select(small, mul(out, add(const(x, 1), rest)), corrected)
    return select(is_finite(square), corrected, out)


def erfcx_positive(y: Any) -> Any:
    """Return exp(y**2) erfc(y) of numbers that are not negative, by a mapping of Shepherd and Laframboise (1981)."""
    one = const(y, 1)
    if core.typeof(y).dtype == np.float32:
        u = div(const(y, 2), add(const(y, 2), y))
        return mul(u, polynomial(sub(add(u, u), one), *ERFCX_SINGLE))
    # At infinity the scaled function is 0 / 0.
    big = gt(y, const(y, 1e30))
    z = select(big, full_like(y, 1), y)
    four = const(y, 4)
    out = div(piecewise(ERFCX, div(four, add(four, z))), add(one, add(z, z)))
    return select(big, div(const(y, 1 / np.sqrt(np.pi)), y), out)


def erfc(x: Any) -> Any:
    """Return the complementary error function, of float32 or float64."""
    upper = mul(erfcx_positive(abs(x)), exp_minus_square(x))
    return select(lt(x, const(x, 0)), sub(const(x, 2), upper), upper)
