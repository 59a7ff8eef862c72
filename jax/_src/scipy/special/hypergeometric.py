"""Hypergeometric functions 1F1 and 2F1 of real numbers, differentiable in all arguments.

Sums run until every element has converged; elements that have converged keep their values. Terms and sums are doubled
numbers, so that neither the rounding errors of many terms nor those of terms that cancel are in the results.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax, special
from jax._src.lax.control_flow import while_loop
from jax._src.lax.special.doubled import (
    add_doubled,
    divide_doubled,
    multiply_doubled,
    two_difference,
    two_sum,
)
from jax._src.numpy.array_constructors import asarray
from jax._src.scipy.special.common import (
    elementwise,
    export,
    in_single_or_double,
    partial_derivative,
    real_args,
    where,
)
from jax._src.scipy.special.gamma import real_gamma
from jax._src.typing import ArrayLike

_MAX_TERMS = 2000
# log(2) in two parts, the first of few bits
_LOG2_HIGH = 0.693359375
_LOG2_LOW = math.log(2) - _LOG2_HIGH


def _sum_while(active, first, next_term, next_bound=None, steps=_MAX_TERMS, shifted=None):
    """Sums terms: `next_term(k, term)` is term k + 1; both are doubled numbers, as is the sum.

    The sum ends when `next_bound(k, bound)`, a bound of the terms that is zero for no parameters,
    is small: then also the derivatives by parameters have converged.

    Returns the sum, and how many times it was divided by `2**_shift(dtype)` so as not to overflow: only where
    `shifted` says so.
    """
    eps = dtypes.finfo(first.dtype).eps ** 1.25
    zero = lax.full_like(first, 0)
    next_bound = next_bound or (lambda k, bound: next_term(k, (bound, zero))[0])

    def go_on(state):
        k, active, *_ = state
        return (k < steps) & lax.reduce_or(active, tuple(range(active.ndim)))

    def step(state):
        k, active, quiet, bound, term, total, shifts = state
        index = lax.convert_element_type(k, first.dtype)
        term, bound = next_term(index, term), next_bound(index, bound)
        total = _where_doubled(active, _finite_or_single(total, term), total)
        # Several small terms in a row are needed: one alone may be small by chance.
        quiet = where(abs(bound) <= eps * abs(total[0]), quiet + 1, 0)
        active = active & (quiet < 3) & lax.is_finite(total[0])
        if shifted is not None:
            shift = _shift(first.dtype)
            large = active & shifted & (lax.max(abs(term[0]), abs(total[0])) > 2.0**shift)
            factor = where(large, 2.0**-shift, one[0])
            term, total = ([factor * x for x in pair] for pair in (term, total))
            term, total, bound = tuple(term), tuple(total), factor * bound
            shifts = where(large, shifts + 1, shifts)
        return k + 1, active, quiet, bound, term, total, shifts

    one = (first, zero)
    state = while_loop(go_on, step, (np.int32(0), active, zero, first, one, one, zero))
    total, shifts = state[5:]
    return total[0] + total[1], shifts


def _shift(dtype):
    return 96 if dtype == np.float32 else 960


def _where_doubled(condition, x, y):
    return tuple(where(condition, u, v) for u, v in zip(x, y))


def _finite_or_single(x, y):
    """Adds doubled numbers; a sum that overflows is infinite, without the low part's NaN."""
    single = x[0] + y[0]
    return _where_doubled(lax.is_finite(single), add_doubled(x, y), (single, 0 * x[1]))


def _times_ratio(term, upper, lower):
    """Multiplies a term by a product of doubled numbers and divides it by another one."""
    ratio = divide_doubled(
        functools.reduce(multiply_doubled, upper), functools.reduce(multiply_doubled, lower)
    )
    single = term[0] * ratio[0]
    product = multiply_doubled(term, ratio)
    return _where_doubled(lax.is_finite(single), product, (single, lax.full_like(single, 0)))


def _shifted(x, k):
    """Adds a number to a doubled one."""
    high, low = two_sum(x[0], k)
    return high, low + x[1]


def _single(x):
    return x, lax.full_like(x, 0)


def _or_1(x):
    """Replaces a zero divisor, of terms that follow the end of a polynomial."""
    return where(x == 0, 1, x)


def _away_from_zero(x):
    return lax.max(abs(x), lax.full_like(x, 0.5))


# ---------------------------------------------------------------------------------------------------
# The confluent function


def _is_whole(x):
    return x == lax.floor(x)


def _hyp1f1_series(a, b, x, active, shifted):
    """DLMF 13.2.2, with how many times it was divided as in `_sum_while`; `a` is a doubled number."""
    one = lax.full_like(x, 1) + 0 * (a[0] + b + x)

    def term(k, t):
        bottom = _shifted(_single(b), k)
        lower = (_where_doubled(bottom[0] == 0, _single(one), bottom), _single(k + 1 + 0 * x))
        return _times_ratio(t, (_shifted(a, k), _single(x)), lower)

    return _sum_while(
        active,
        one,
        term,
        lambda k, t: t * (_away_from_zero(a[0] + k) / _or_1(b + k)) * (x / (k + 1)),
        shifted=shifted,
    )


def _hyp1f1_large(a, b, x, active):
    """The asymptotic series for large positive x, DLMF 13.7.1, over exp(x)."""
    one = lax.full_like(x, 1) + 0 * (a + b + x)

    def term(k, t):
        new = t[0] * ((1 - a + k) * (b - a + k) / ((k + 1) * x))
        # An asymptotic series is cut before its terms grow.
        return _single(where(abs(new) < abs(t[0]), new, 0))

    total, _ = _sum_while(active, one, term, steps=60)
    # Where the logarithms of the gamma functions are large, they have lost digits.
    small = (abs(a) < 30) & (abs(b) < 30)
    quotient = real_gamma(where(small, b, 1)) / real_gamma(where(small, a, 1))
    quotient = where(small, quotient, _gamma_sign(a) * _gamma_sign(b))
    log_scale = where(small, 0, special.lgamma(b) - special.lgamma(a))
    return lax.pow(x, a - b) * (quotient * total), log_scale


def _gamma_sign(x):
    floor = lax.floor(x)
    odd = floor != 2 * lax.floor(0.5 * floor)
    return where((x < 0) & odd, -1, lax.full_like(x, 1))


def _hyp1f1(a, b, x):
    finite = lax.is_finite(a) & lax.is_finite(b) & lax.is_finite(x)
    pole = (b <= 0) & _is_whole(b)
    ends = (a <= 0) & _is_whole(a)
    defined = finite & (~pole | (ends & (a >= b)))
    a, b, x = (where(defined, v, 1.0) for v in (a, b, x))
    # Kummer's transformation, DLMF 13.2.39, makes all terms have one sign. Polynomials stay.
    mirrored = (x < 0) & ~ends
    p = _where_doubled(mirrored, two_difference(b, a), _single(a))
    y = where(mirrored, -x, x)
    still_ends = (p[0] <= 0) & _is_whole(p[0]) & (p[1] == 0)
    far = (y > 120 + 2 * abs(p[0]) * (1 + abs(p[0] - b))) & ~still_ends
    s_x = where(far, 1, y)
    shrinks = mirrored & ~far
    series, shifts = _hyp1f1_series(p, b, s_x, ~far, shrinks)
    l_a, l_b, l_x = where(far, p[0], 1), where(far, b, 1), where(far, y, 200)
    large, log_scale = _hyp1f1_large(l_a, l_b, l_x, far)
    # exp(y) of the asymptotic series and exp(-y) of the transformation cancel.
    grown = 0.5 * (log_scale + where(mirrored, 0, y))
    grown = lax.exp(where(far, grown, 0))
    large = grown * large * grown
    # The logarithm of the factors of the sum in two parts, the first one exact
    shift = _shift(x.dtype)
    exponent = x + (shift * _LOG2_HIGH) * shifts
    series = series * lax.exp((shift * _LOG2_LOW) * shifts)
    deep = exponent < -60
    shrunk = lax.exp(where(shrinks, where(deep, 0.5 * exponent, exponent), 0))
    out = where(far, large, shrunk * series * where(shrinks & deep, shrunk, 1))
    out = where(x == 0, 1, out)
    out = where(defined, out, where(a == 0, lax.full_like(x, 1), np.inf))
    return where(finite, out, np.nan)


_hyp1f1.__name__ = "hyp1f1"
_hyp1f1_fun = elementwise(
    _hyp1f1,
    lambda out, a, b, x: partial_derivative(_hyp1f1, 0)(a, b, x),
    lambda out, a, b, x: partial_derivative(_hyp1f1, 1)(a, b, x),
    lambda out, a, b, x: a / b * _hyp1f1_fun(a + 1, b + 1, x),  # DLMF 13.3.15
)


@export
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise confluent hypergeometric function 1F1, Kummer's function M.

    Args:
      a, b, x: real arrays.

    >>> jax.scipy.special.hyp1f1(1.0, 1.0, 0.0)
    Array(1., dtype=float32)
    """
    return in_single_or_double(_hyp1f1_fun, *real_args("hyp1f1", *map(asarray, (a, b, x))))


# ---------------------------------------------------------------------------------------------------
# The Gaussian function


def _hyp2f1_series(a, b, c, x, active):
    """DLMF 15.2.1; `b` and `x` are doubled numbers."""
    one = lax.full_like(c, 1) + 0 * (a + b[0] + c + x[0])
    inside = abs(x[0]) < 1  # outside only polynomials remain, whose other terms would diverge

    def term(k, t):
        bottom = _shifted(_single(c), k)
        lower = (_where_doubled(bottom[0] == 0, _single(one), bottom), _single(k + 1 + 0 * c))
        return _times_ratio(t, (_shifted(_single(a), k), _shifted(b, k), x), lower)

    def bound(k, t):
        p, q = (where(inside, _away_from_zero(v + k), v + k) for v in (a, b[0]))
        return t * (p / _or_1(c + k)) * (q / (k + 1)) * x[0]

    return _sum_while(active, one, term, bound)[0]


def _taylor(a, b, c, x0, rest, f, g, h, terms):
    """Returns the value and slope at x0 + h of a solution with value f and slope g at x0 = 1 - rest.

    The coefficients at x0 follow from the differential equation, DLMF 15.10.1. There are at least
    `terms` terms; more are needed where large parameters make the solution grow steeply to 1.
    """
    curve = x0 * rest
    eps = dtypes.finfo(h.dtype).eps / 4

    def go_on(state):
        k, _, v, value, slope = state
        grows = (abs(v) > eps * abs(value)) | ((k + 1) * abs(v) > eps * abs(slope))
        return (k < terms) | ((k < _MAX_TERMS) & lax.reduce_or(grows, tuple(range(grows.ndim))))

    def step(state):
        n, u, v, value, slope = state  # u and v are terms k and k + 1, times powers of h
        k = lax.convert_element_type(n, h.dtype)
        value, slope = value + v, slope + (k + 1) * v
        # x0 (1 - x0) (k + 2) (k + 1) t[k + 2] = ...
        first = (k + 1) * (k * (2 * x0 - 1) - (c - (a + b + 1) * x0)) * v * h
        second = (k + a) * (k + b) * u * h * h
        return n + 1, v, (first + second) / (curve * ((k + 2) * (k + 1))), value, slope

    _, _, _, value, slope = while_loop(go_on, step, (np.int32(0), f, g * h, f, 0 * f))
    return value, slope / where(h == 0, 1, h)


def _hyp2f1_continued(a, b, c, x, rest, active):
    """Computes the function for 7/8 < x < 1 from the value at 7/8; `b` is a doubled number, `rest` is 1 - x."""
    start = lax.full_like(x, 0.875) + 0 * (a + b[0] + c + x)
    f = _hyp2f1_series(a, b, c, _single(start), active)
    g = a * b[0] / c * _hyp2f1_series(a + 1, _shifted(b, 1 + 0 * x), c + 1, _single(start), active)
    b = b[0]

    terms = 36 if x.dtype == np.float32 else 66

    def go_on(state):
        k, rest0, f, g, active = state
        return (k < 1100) & lax.reduce_or(active, tuple(range(active.ndim)))

    def step(state):
        k, rest0, f, g, active = state
        new_f, new_g = _taylor(a, b, c, 1 - rest0, rest0, f, g, 0.5 * rest0, terms)
        f, g = where(active, new_f, f), where(active, new_g, g)
        rest0 = where(active, 0.5 * rest0, rest0)
        return k + 1, rest0, f, g, active & (rest < 0.5 * rest0)

    far = active & (rest < 0.5 * (1 - start))
    _, rest0, f, g, _ = while_loop(go_on, step, (np.int32(0), 1 - start, f, g, far))
    # The last step, to x itself, goes at most half of the way to 1.
    return _taylor(a, b, c, 1 - rest0, rest0, f, g, rest0 - rest, 2 * terms)[0]


def _ends(x):
    return (x <= 0) & _is_whole(x)


def _hyp2f1(a, b, c, x):
    return _hyp2f1_value(a, b, c, x, polynomials=True)


def _hyp2f1_for_slopes(a, b, c, x):
    # A polynomial's derivatives by its parameters are no polynomials, and converge slowly near 1.
    return _hyp2f1_value(a, b, c, x, polynomials=False)


def _hyp2f1_value(a, b, c, x, polynomials):
    finite = lax.is_finite(a) & lax.is_finite(b) & lax.is_finite(c) & lax.is_finite(x)
    ends = _ends(a) | _ends(b)
    defined = ~_ends(c) | (_ends(a) & (a >= c)) | (_ends(b) & (b >= c))
    at_one = x == 1
    converges = c - a - b > 0
    good = finite & defined & (ends | (x < 1))
    p, q, r, y = (where(good, v, s) for v, s in ((a, 1.0), (b, 1.0), (c, 2.0), (x, 0.25)))
    ends = ends & good
    # Pfaff's transformation, DLMF 15.8.1, of negative x: to a polynomial, or one whose terms decay
    negative = (y < 0) & ~ends
    p_rest, q_rest = two_difference(r, p), two_difference(r, q)
    p_ends, q_ends = (_ends(v[0]) & (v[1] == 0) for v in (p_rest, q_rest))
    swap = (p_ends & ~q_ends) | ((p_ends | ~q_ends) & (abs(p_rest[0]) < abs(q_rest[0])))
    # Where the power would leave the range of floats, the other form serves if few of its digits cancel.
    limits = dtypes.finfo(y.dtype)
    power_log = q * lax.log1p(where(negative, -y, 0))
    lost = abs(power_log) > 0.9 * math.log(float(limits.max))
    swap = negative & swap & ~(lost & ~p_ends & (abs(q_rest[0]) < limits.nmant))
    first = where(swap, q, p)
    second = _where_doubled(swap, p_rest, q_rest)
    second = _where_doubled(negative, second, _single(q))
    # A difference from a constant would be simplified.
    rest, error = two_difference(where(good, lax.full_like(y, 1), np.nan), y)
    power = lax.pow(where(negative, rest, 1), where(negative, -first, 0))
    power = power * (1 - where(negative, first * (error / rest), 0))
    quotient = divide_doubled(_single(y), (where(negative, -rest, 1), where(negative, -error, 0)))
    z = _where_doubled(negative, quotient, _single(y))
    rest = where(negative, 1 / where(negative, rest, 1), rest)
    stays = ends | (negative & (p_ends | q_ends)) if polynomials else ends
    near_one = (z[0] > 0.9) & ~stays
    direct = _hyp2f1_series(
        first, second, r, _where_doubled(near_one, _single(0 * y + 0.25), z), ~near_one
    )
    f, s, low, r, z, rest = (
        where(near_one, v, w)
        for v, w in (
            (first, 1.0),
            (second[0], 1.0),
            (second[1], 0.0),
            (r, 2.0),
            (z[0], 0.9375),
            (rest, 0.0625),
        )
    )
    continued = _hyp2f1_continued(f, (s, low), r, z, rest, near_one)
    out = where(near_one, continued, direct) * power
    out = where(good, out, np.inf)
    # Gauss's theorem, DLMF 15.4.20
    one = at_one & converges & defined & finite & ~ends
    p, q, r = (where(one, v, s) for v, s in ((a, 0.25), (b, 0.25), (c, 1.0)))
    signs = _gamma_sign(r) * _gamma_sign(r - p - q) * _gamma_sign(r - p) * _gamma_sign(r - q)
    logs = special.lgamma(r) - special.lgamma(r - p) + special.lgamma(r - p - q)
    gauss = signs * lax.exp(logs - special.lgamma(r - q))
    out = where(one, gauss, out)
    out = where(x == 0, 1, out)
    return where(finite, out, np.nan)


_hyp2f1.__name__ = _hyp2f1_for_slopes.__name__ = "hyp2f1"
_hyp2f1_fun = elementwise(
    _hyp2f1,
    lambda out, a, b, c, x: partial_derivative(_hyp2f1_for_slopes, 0)(a, b, c, x),
    lambda out, a, b, c, x: partial_derivative(_hyp2f1_for_slopes, 1)(a, b, c, x),
    lambda out, a, b, c, x: partial_derivative(_hyp2f1_for_slopes, 2)(a, b, c, x),
    lambda out, a, b, c, x: a * b / c * _hyp2f1_fun(a + 1, b + 1, c + 1, x),  # DLMF 15.5.1
)


@export
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise hypergeometric function 2F1 for x <= 1.

    Near 1 it is continued by Taylor series of the differential equation's solution, which has no
    exceptional parameters. Of negative x, results may be lost where `(1 - x)` to the power of the larger of a and b
    overflows: they are NaN or 0 then. More parameters are possible in float64.

    Args:
      a, b, c, x: real arrays.

    >>> jax.scipy.special.hyp2f1(1.0, 1.0, 1.0, 0.0)
    Array(1., dtype=float32)
    """
    return in_single_or_double(_hyp2f1_fun, *real_args("hyp2f1", a, b, c, x))
