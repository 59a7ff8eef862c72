"""How lgamma and digamma are computed: by piecewise polynomials and asymptotic series.

They are accurate also near their zeros. Sines and tangents of a half turn at most are polynomials: XLA's own, which reduce
any argument, are not vectorized on CPUs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import core
from jax._src.lax.lax.arithmetic import abs, add, div, floor, mul, neg, sub
from jax._src.lax.lax.convert import bitcast_convert_type, convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import log, log1p
from jax._src.lax.lax.logical import bitwise_and, eq, ge, gt, le, lt, shift_right_arithmetic
from jax._src.lax.lax.select import select
from jax._src.lax.special.doubled import doubled_log, two_difference, two_product, two_sum
from jax._src.lax.special.gamma_tables import (
    DIGAMMA,
    DIGAMMA_TAIL,
    LGAMMA,
    LOG2,
    SINE,
    STIRLING,
    TANGENT,
)
from jax._src.lax.special.polynomials import even_odd, piecewise
from jax._src.lax.utils import const


def _where(condition: Any, x: Any, y: Any) -> Any:
    like = y if isinstance(x, (int, float)) else x
    x, y = (full_like(like, v) if isinstance(v, (int, float)) else v for v in (x, y))
    return select(condition, x, y)


def accurate_log1p(x: Any) -> Any:
    """Return log(1 + x); XLA's own loses two digits of float64 near -0.41."""
    if core.typeof(x).dtype == np.float32:
        return log1p(x)
    near = lt(abs(x), const(x, 0.35))
    return select(near, log1p(select(near, x, full_like(x, 0))), log(add(const(x, 1), x)))


def log2_single(x: Any) -> Any:
    """Return log2(x) of normal positive float32 numbers, of absolute error 2**-24; half as long as XLA's."""
    bits = bitcast_convert_type(x, np.int32)
    from_least = sub(bits, full_like(bits, 0x3F3504F3))  # sqrt(1/2), the least fraction
    exponent = bitwise_and(from_least, full_like(bits, -1 << 23))
    fraction = sub(bitcast_convert_type(sub(bits, exponent), np.float32), const(x, 1))
    whole = convert_element_type(
        shift_right_arithmetic(from_least, full_like(bits, 23)), np.float32
    )
    return add(whole, mul(fraction, even_odd(fraction, LOG2[0])))


def stirling_error(x: Any) -> Any:
    """Return lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2 for x >= 3; DLMF 5.11.1."""
    return div(piecewise(STIRLING, div(const(x, 1), mul(x, x))), x)


# log(2 pi) / 2 - 1 / 2 as a number of few bits and a small one
_STIRLING_CONSTANT = (0.4189453125, -6.7792953272582197e-06)


def _lgamma_of_large(x: Any, log_x: Any) -> Any:
    """Return lgamma(x) for x >= 3 by Stirling's formula, of which the products are doubled numbers."""
    one = const(x, 1)
    huge = ge(x, const(x, 1e30))  # only the first product counts, the doubled one may overflow
    z = _where(huge, 3.0, x)
    high, low = doubled_log(z)
    high, rest = two_sum(high, neg(one))
    low = add(rest, low)
    half_of_high = mul(high, const(x, 0.5))
    product, rest = two_product(z, high)
    low = add(rest, mul(sub(z, const(x, 0.5)), low))
    total, rest = two_difference(product, half_of_high)
    low = add(rest, low)
    total, rest = two_sum(total, const(x, _STIRLING_CONSTANT[0]))
    low = add(add(rest, low), add(stirling_error(z), const(x, _STIRLING_CONSTANT[1])))
    return select(huge, mul(x, sub(log_x, one)), add(total, low))


def _from_integer(x):
    """Return the distance from the nearest integer, with its sign."""
    return sub(x, floor(add(x, const(x, 0.5))))


def lgamma(x: Any) -> Any:
    """Return the logarithm of the absolute value of the gamma function, of float32 or float64."""
    one, half = const(x, 1), const(x, 0.5)
    y = abs(x)
    tiny, large = lt(y, half), ge(y, const(x, 3))
    # Recurrence, DLMF 5.5.1, below 1/2
    z = _where(large, 1.5, _where(tiny, add(y, one), y))
    out = mul(mul(sub(z, one), sub(z, const(x, 2))), piecewise(LGAMMA, z))
    log_y = log(y)
    out = _where(tiny, sub(out, log_y), out)
    out = _where(large, _lgamma_of_large(_where(large, y, 3.0), log_y), out)
    # Reflection: gamma(x) gamma(-x) = -pi / (x sin(pi x)), DLMF 5.5.3
    distance = _from_integer(x)
    sine = abs(mul(distance, piecewise(SINE, mul(distance, distance))))
    reflected = sub(sub(const(x, math.log(math.pi)), log(sine)), add(log_y, out))
    out = _where(lt(x, const(x, 0)), reflected, out)
    pole = bitwise_and(le(x, const(x, 0)), eq(distance, const(x, 0)))
    out = _where(pole, np.inf, out)
    return _where(eq(y, const(x, np.inf)), np.inf, out)


# The zero of the digamma function, as a sum of numbers of few bits and a small one
_DIGAMMA_ZERO = (1.4616317749023438, 3.7006566344643943e-07, 3.5514482322942474e-13)


def digamma(x: Any) -> Any:
    """Return the logarithmic derivative of the gamma function, of float32 or float64."""
    one, half = const(x, 1), const(x, 0.5)
    y = abs(x)
    small, large = lt(y, one), gt(y, const(x, 10))
    z = _where(large, 2.0, _where(small, add(y, one), y))
    first, *parts = _DIGAMMA_ZERO
    distance = sub(z, const(x, first))
    near = lt(abs(distance), half)
    for part in parts:
        distance = sub(distance, _where(near, full_like(x, part), 0.0))  # constants would be merged
    distance = _where(near, distance, sub(z, const(x, sum(_DIGAMMA_ZERO))))
    out = mul(distance, piecewise(DIGAMMA, z))
    inverse = div(one, y)
    out = _where(small, sub(out, inverse), out)
    w = div(one, _where(large, y, 10.0))
    w2 = mul(w, w)
    series = add(mul(half, w), mul(w2, piecewise(DIGAMMA_TAIL, w2)))
    out = _where(large, sub(log(_where(large, y, 10.0)), series), out)
    # Reflection: digamma(x) = digamma(-x) - 1 / x - pi cot(pi x), DLMF 5.5.2 and 5.5.4
    r = _from_integer(x)
    steep = gt(abs(r), const(x, 0.25))
    rest = sub(_where(lt(r, const(x, 0)), full_like(x, -0.5), 0.5), r)
    angle = _where(steep, rest, r)
    tangent = mul(angle, piecewise(TANGENT, mul(angle, angle)))
    cotangent = _where(steep, tangent, div(one, tangent))
    reflected = sub(add(out, inverse), mul(const(x, math.pi), cotangent))
    out = _where(lt(x, const(x, 0)), reflected, out)
    pole = bitwise_and(le(x, const(x, 0)), eq(r, const(x, 0)))
    out = _where(pole, np.nan, out)
    return _where(eq(x, const(x, np.inf)), np.inf, _where(eq(x, const(x, -np.inf)), np.nan, out))
