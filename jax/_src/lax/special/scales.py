"""The factors x**a exp(-x) / gamma(a) and x**a (1 - x)**b / B(a, b) of incomplete functions.

They are exponentials of numbers up to hundreds, which are small sums of large terms. So the exponents are doubled numbers;
those of large parameters are deviances, as by Loader, "Fast and accurate computation of binomial probabilities" (2000).
"""

from __future__ import annotations

import math
from typing import Any

from jax._src import core, dtypes
from jax._src.lax.lax.arithmetic import add, div, max, min, mul, neg, sub
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, expm1, log, sqrt
from jax._src.lax.lax.logical import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    eq,
    ge,
    gt,
    lt,
)
from jax._src.lax.lax.select import select
from jax._src.lax.special.doubled import (
    LOG_2,
    add_doubled,
    divide_doubled,
    from_power_of_2,
    multiply_doubled,
    negative,
    normalize,
    two_difference,
    two_product,
    two_sum,
)
from jax._src.lax.special.expansions import stirling_error
from jax._src.lax.special.gamma_tables import GAMMA, LGAMMA
from jax._src.lax.special.polynomials import piecewise, polynomial
from jax._src.lax.utils import const

_LARGE = 3  # from here on Stirling's formula holds


def _select(condition, x, y):
    """Select between doubled numbers."""
    return tuple(select(condition, u, v) for u, v in zip(x, y))


def _multiply(x, y):
    """Multiply a positive doubled number, which may be tiny, by one that is at least 1."""
    info = dtypes.finfo(core.typeof(x[0]).dtype)
    high = mul(x[0], y[0])
    # Then parts of the product are below the normal numbers, and what becomes of them is larger than its rounding error.
    tiny = lt(min(x[0], high), const(high, 8 * float(info.tiny) / float(info.eps)))
    return _select(tiny, (high, full_like(high, 0)), multiply_doubled(x, y))


def _minus_power(u, large, x, d):
    """Return the doubled number d - u log(x / r), where r is u if that is `large`, and then d = x - u, and otherwise 1.

    Args:
      u, large: arrays.
      x, d: doubled numbers.
    """
    info = dtypes.finfo(core.typeof(u).dtype)
    reference = select(large, u, full_like(u, 1))
    ratio = mul(x[0], div(full_like(u, 1), reference))
    ratio = min(max(ratio, const(u, float(info.tiny))), const(u, float(info.max) / 2))
    # log(x / r) = k log(2) + 2 atanh(s)
    k, power = from_power_of_2(ratio)
    near = bitwise_and(large, eq(k, const(k, 0)))
    y, y_rest = (mul(part, power) for part in x)
    difference, rest = two_difference(y, reference)
    difference = _select(near, d, (difference, add(rest, y_rest)))
    total, rest = two_sum(y, reference)
    s, s_rest = divide_doubled(difference, (total, add(rest, y_rest)))
    terms = 6 if info.bits == 32 else 12
    u2, s2 = add(u, u), mul(s, s)
    series = mul(mul(u2, mul(s, s2)), polynomial(s2, [1 / (2 * i + 3) for i in range(terms)]))
    # Near u, d - 2 u s = d s.
    factor = select(near, d[0], u2)
    high, low = two_product(factor, s)
    low = add(low, mul(factor, s_rest))
    by_s = high, select(near, add(low, mul(d[1], s)), low)
    log_2, log_2_rest = LOG_2[info.bits]
    high, low = two_product(u, mul(k, const(k, log_2)))
    by_k = high, add(low, mul(u, mul(k, const(k, log_2_rest))))
    far = add_doubled(d, negative(add_doubled(by_s, by_k)))
    high, low = _select(near, by_s, far)
    return normalize(high, sub(low, series))


def _gamma(x, steps):
    """Return gamma(x) for x from 1 to steps + 2."""
    product, two = full_like(x, 1), const(x, 2)
    for _ in range(steps):
        beyond = ge(x, two)
        x = select(beyond, sub(x, const(x, 1)), x)
        product = select(beyond, mul(product, x), product)
    return mul(product, piecewise(GAMMA, x))


def _stirling_or_gamma(a, large, steps=2):
    """Return f and g so that 1 / gamma(a) = f exp(-g) times, for large a, exp(a) / a**a."""
    one, three = full_like(a, 1), full_like(a, _LARGE)
    big = select(large, a, three)
    small = select(large, one, a)
    factor = select(
        large, sqrt(mul(a, const(a, 0.5 / math.pi))), div(small, _gamma(add(small, one), steps))
    )
    return factor, select(large, stirling_error(big), full_like(a, 0))


def _scale(factor, exponent, rest):
    """Return factor * exp(-exponent - rest) of a doubled exponent, and its logarithm."""
    high, low = normalize(exponent[0], add(exponent[1], rest))
    log_scale = sub(log(factor), add(high, low))
    low = select(gt(high, const(high, 1e4)), full_like(low, 0), low)  # it may be large then
    # The exponential may underflow where the product does not.
    deep = gt(high, const(high, 60))
    high = select(deep, sub(high, const(high, 11)), high)
    factor = select(deep, mul(factor, const(factor, math.exp(-11))), factor)
    return mul(sub(factor, mul(factor, low)), exp(neg(high))), log_scale


def doubled_deviance(k: Any, mean: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return k log(k / mean) + mean - k of positive finite numbers as a doubled number; the mean is one, too."""
    zero = full_like(k, 0)
    return _minus_power(k, gt(k, zero), mean, add_doubled(mean, (neg(k), zero)))


def stirling_exponent(x: Any) -> tuple[Any, Any]:
    """Return the doubled logarithm of sqrt(2 pi / x) / gamma(x), for x >= 3."""
    zero = full_like(x, 0)
    high, low = _minus_power(x, lt(x, zero), (x, zero), (x, zero))
    return normalize(high, sub(low, stirling_error(x)))


def shrunk(a: Any, x: Any) -> tuple[Any, Any]:
    """Return numbers of the same ratio of which no sum overflows; only near x = a is the scale of larger ones not zero."""
    largest = const(a, 1e-4 * float(dtypes.finfo(core.typeof(a).dtype).max))
    # A power of two, since other products would be rounded, or not, where compilers fuse them with sums.
    factor = select(gt(max(a, x), largest), full_like(a, 2.0**-14), full_like(a, 1))
    return mul(a, factor), mul(x, factor)


def gamma_scale(a: Any, x: Any) -> tuple[Any, Any]:
    """Return x**a exp(-x) / gamma(a) of positive finite numbers, and its logarithm."""
    a, x = shrunk(a, x)
    large = ge(a, const(a, _LARGE))
    zero = full_like(a, 0)
    difference = _select(large, two_difference(x, a), (x, zero))
    factor, rest = _stirling_or_gamma(a, large)
    return _scale(factor, _minus_power(a, large, (x, zero), difference), rest)


def upper_gamma_of_small(a: Any, x: Any) -> Any:
    """Return Q(a, x), of a relative accuracy that 1 - P(a, x) does not have, for 0 < a < 1 and 0 < x <= 1.

    P(a, x) is t (1 + s), where t = x**a / gamma(a + 1) and the sum s is a few terms of DLMF 8.7.1.
    """
    one = const(a, 1)
    # lgamma(z) = (z - 1) (z - 2) g(z), with z = 1 + a
    log_gamma = mul(mul(a, sub(a, one)), piecewise(LGAMMA, add(a, one)))
    log_t = sub(mul(a, log(x)), log_gamma)
    total = full_like(a, 0)
    for n in range(12 if dtypes.finfo(core.typeof(a).dtype).bits == 32 else 18, 0, -1):
        coefficient = div(const(a, (-1) ** n / math.factorial(n)), add(a, const(a, n)))
        total = mul(x, add(total, coefficient))
    return neg(add(expm1(log_t), mul(exp(log_t), mul(a, total))))


def excess(a: Any, b: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the doubled number a y - b x: how far x = 1 - y is below the mean a / (a + b), times a + b."""
    nothing = full_like(a, 0)
    below = multiply_doubled(x, (b, nothing))
    return add_doubled(multiply_doubled(y, (a, nothing)), negative(below))


def beta_scale(a: Any, b: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return x**a y**b / B(a, b) of positive finite numbers, and its logarithm.

    Args:
      a, b: arrays.
      x, y: doubled numbers, whose sum is 1.
    """
    one, zero = full_like(a, 1), full_like(a, 0)
    a_large, b_large = ge(a, const(a, _LARGE)), ge(b, const(b, _LARGE))
    any_large = bitwise_or(a_large, b_large)
    n = two_sum(a, b)
    # The means are in proportion to the parameters; if all are small their sum does not matter.
    unit = _select(any_large, n, (one, zero))
    u, v = _multiply(x, unit), _multiply(y, unit)
    above = excess(a, b, x, y)  # v - b = a - u
    nothing = zero, zero
    from_a = _select(a_large, negative(above), _select(b_large, u, nothing))
    from_b = _select(b_large, above, _select(a_large, v, nothing))
    exponent = add_doubled(_minus_power(a, a_large, u, from_a), _minus_power(b, b_large, v, from_b))
    factor, rest = _inverse_beta(a, a_large, b, b_large, n[0])
    return _scale(factor, exponent, rest)


def _inverse_beta(a, a_large, b, b_large, n):
    """Return f and g so that 1 / B(a, b) = f exp(-g) times the powers of Stirling's formula for the large ones."""
    f, rest_a = _stirling_or_gamma(a, a_large)
    g, rest_b = _stirling_or_gamma(b, b_large)
    h, rest_n = _stirling_or_gamma(n, bitwise_or(a_large, b_large), 5)
    return mul(f, div(g, h)), sub(add(rest_a, rest_b), rest_n)


def beta(a: Any, b: Any) -> Any:
    """Return B(a, b) of positive finite numbers."""
    one, zero, three = full_like(a, 1), full_like(a, 0), const(a, _LARGE)
    a, b = min(a, b), max(a, b)
    a_large, b_large = ge(a, three), ge(b, three)
    n = two_sum(a, b)
    # a**a b**b / n**n for large parameters, exp(a) b**b / n**n for small a; both are 1 if b is small.
    first = _select(a_large, (a, zero), (one, zero))
    less = _select(a_large, (zero, zero), (neg(a), zero))
    never = bitwise_and(a_large, bitwise_not(a_large))
    exponent = add_doubled(
        _minus_power(a, never, divide_doubled(first, n), less),
        _minus_power(b, never, divide_doubled((b, zero), n), (zero, zero)),
    )
    exponent = _select(b_large, exponent, (zero, zero))
    factor, rest = _inverse_beta(a, a_large, b, b_large, n[0])
    return _scale(div(one, factor), exponent, neg(rest))[0]
