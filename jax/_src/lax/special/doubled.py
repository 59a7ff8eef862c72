"""Arithmetic of doubled numbers: unevaluated sums of two floating-point numbers, a larger and a small one.

The products, sums and differences of two numbers are exact (Dekker 1971, Knuth 4.2.2), unless they overflow or their
low parts are below the normal numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.lax.lax.arithmetic import add, div, mul, neg, sub
from jax._src.lax.lax.convert import bitcast_convert_type, convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.logical import bitwise_and, shift_left, shift_right_arithmetic
from jax._src.lax.special.polynomials import polynomial
from jax._src.lax.utils import const


def split(x: Any) -> tuple[Any, Any]:
    """Split finite numbers into parts of half the precision, whose products are exact.

    The upper part is the number without its low bits, which unlike Dekker's splitting no
    compiler simplifies and which does not overflow.
    """
    dtype = core.typeof(x).dtype
    bits, kept = (np.int32, 12) if dtype == np.float32 else (np.int64, 27)
    integer = bitcast_convert_type(x, bits)
    integer = bitwise_and(integer, full_like(integer, -1 << kept))
    high = bitcast_convert_type(integer, dtype)
    return high, sub(x, high)


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the sum of two numbers; of constants it may be inexact, as compilers merge them."""
    total = add(x, y)
    part = sub(total, x)
    return total, add(sub(x, sub(total, part)), sub(y, part))


def two_difference(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the difference of two numbers."""
    return two_sum(x, neg(y))


def two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the product of two numbers."""
    product = mul(x, y)
    (x1, x2), (y1, y2) = split(x), split(y)
    error = add(add(sub(mul(x1, y1), product), mul(x1, y2)), mul(x2, y1))
    return product, add(error, mul(x2, y2))


def normalize(high: Any, low: Any) -> tuple[Any, Any]:
    """Return a doubled number from one whose low part is smaller, but not small."""
    total = add(high, low)
    return total, sub(low, sub(total, high))


def add_doubled(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the sum of two doubled numbers, exact to nearly the doubled precision of the larger one."""
    high, low = two_sum(x[0], y[0])
    return normalize(high, add(low, add(x[1], y[1])))


def multiply_doubled(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the product of two doubled numbers."""
    high, low = two_product(x[0], y[0])
    return normalize(high, add(low, add(mul(x[0], y[1]), mul(x[1], y[0]))))


def negative(x: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return minus a doubled number."""
    return neg(x[0]), neg(x[1])


def reciprocal(x: Any) -> tuple[Any, Any]:
    """Return 1 / x as a doubled number."""
    one = full_like(x, 1)
    out = div(one, x)
    product, error = two_product(x, out)
    return out, mul(sub(sub(one, product), error), out)


def divide_doubled(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the quotient of two doubled numbers."""
    # XLA would keep a quotient that is used several times in memory; a reciprocal is fused.
    reciprocal = div(full_like(y[0], 1), y[0])
    high = mul(x[0], reciprocal)
    product, error = two_product(high, y[0])
    rest = sub(add(sub(sub(x[0], product), error), x[1]), mul(high, y[1]))
    return high, mul(rest, reciprocal)


# log(2) as a number whose multiples by exponents are exact, and a small one
LOG_2 = {
    32: (0.693145751953125, 1.4286068203094173e-06),
    64: (0.6931471805598903, 5.497923018708371e-14),
}


def from_power_of_2(x: Any) -> tuple[Any, Any]:
    """Return the exponent k with sqrt(1/2) <= x / 2**k < sqrt(2), and 2**-k, of normal x up to a half of the largest."""
    info = dtypes.finfo(core.typeof(x).dtype)
    integer = np.int32 if info.bits == 32 else np.int64
    root = int(np.sqrt(np.asarray(0.5, info.dtype)).view(integer))
    bits = bitcast_convert_type(x, integer)
    fraction_bits = full_like(bits, info.nmant)
    k = shift_right_arithmetic(sub(bits, full_like(bits, root)), fraction_bits)
    power = shift_left(sub(full_like(bits, 1 - info.minexp), k), fraction_bits)
    return convert_element_type(k, info.dtype), bitcast_convert_type(power, info.dtype)


def doubled_log(x: Any) -> tuple[Any, Any]:
    """Return log(x) of normal x up to a half of the largest as a doubled number, exact to a few of its low part's bits."""
    k, power = from_power_of_2(x)
    y, one = mul(x, power), full_like(x, 1)
    # log(y) = 2 atanh(s)
    s, s_rest = divide_doubled((sub(y, one), full_like(x, 0)), two_sum(y, one))
    s_2 = mul(s, s)
    terms = 6 if dtypes.finfo(core.typeof(x).dtype).bits == 32 else 12
    series = mul(mul(s, s_2), polynomial(s_2, [2 / (2 * i + 3) for i in range(terms)]))
    log_2, log_2_rest = LOG_2[dtypes.finfo(core.typeof(x).dtype).bits]
    high, low = two_sum(mul(k, const(x, log_2)), add(s, s))
    rest = add(mul(k, const(x, log_2_rest)), add(add(s_rest, s_rest), series))
    return normalize(high, add(low, rest))
