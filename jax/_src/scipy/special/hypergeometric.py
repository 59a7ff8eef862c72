"""Hypergeometric functions 1F1 and 2F1 of real numbers, differentiable in all arguments.

Sums run until every element has converged; elements that have converged keep their values.
"""

from __future__ import annotations

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax, special
from jax._src.lax.control_flow import fori_loop, while_loop
from jax._src.numpy.array_constructors import asarray
from jax._src.scipy.special.common import (
    elementwise,
    export,
    in_single_or_double,
    partial_derivative,
    real_args,
    where,
)
from jax._src.typing import ArrayLike

_MAX_TERMS = 2000


def _sum_while(active, first, next_term, next_bound=None, steps=_MAX_TERMS):
    """Sums terms: `next_term(k, term)` is term k + 1.

    The sum ends when `next_bound(k, bound)`, a bound of the terms that is zero for no parameters,
    is small: then also the derivatives by parameters have converged.
    """
    eps = dtypes.finfo(first.dtype).eps / 64
    quiet = lax.full_like(first, 0)
    next_bound = next_bound or next_term

    def go_on(state):
        k, active, *_ = state
        return (k < steps) & lax.reduce_or(active, tuple(range(active.ndim)))

    def step(state):
        k, active, quiet, bound, term, total = state
        index = lax.convert_element_type(k, term.dtype)
        term, bound = next_term(index, term), next_bound(index, bound)
        total = where(active, total + term, total)
        # Several small terms in a row are needed: one alone may be small by chance.
        quiet = where(abs(bound) <= eps * abs(total), quiet + 1, 0)
        active = active & (quiet < 3) & lax.is_finite(total)
        return k + 1, active, quiet, bound, term, total

    return while_loop(go_on, step, (np.int32(0), active, quiet, first, first, first))[5]


def _or_1(x):
    """Replaces a zero divisor, of terms that follow the end of a polynomial."""
    return where(x == 0, 1, x)


def _away_from_zero(x):
    return lax.max(abs(x), lax.full_like(x, 0.5))


# ---------------------------------------------------------------------------------------------------
# The confluent function


def _is_whole(x):
    return x == lax.floor(x)


def _hyp1f1_series(a, b, x, active):
    """DLMF 13.2.2."""
    one = lax.full_like(x, 1) + 0 * (a + b + x)
    return _sum_while(
        active,
        one,
        lambda k, t: t * ((a + k) / _or_1(b + k)) * (x / (k + 1)),
        lambda k, t: t * (_away_from_zero(a + k) / _or_1(b + k)) * (x / (k + 1)),
    )


def _hyp1f1_large(a, b, x, active):
    """The asymptotic series for large positive x, DLMF 13.7.1."""
    one = lax.full_like(x, 1) + 0 * (a + b + x)

    def term(k, t):
        new = t * ((1 - a + k) * (b - a + k) / ((k + 1) * x))
        # An asymptotic series is cut before its terms grow.
        return where(abs(new) < abs(t), new, 0)

    total = _sum_while(active, one, term, steps=60)
    # The gamma function's quotient is a zero at the poles of gamma(a).
    sign = _gamma_sign(a) * _gamma_sign(b)
    log_scale = special.lgamma(b) - special.lgamma(a) + (a - b) * lax.log(x)
    return sign * total, log_scale


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
    p, y = where(mirrored, b - a, a), where(mirrored, -x, x)
    still_ends = (p <= 0) & _is_whole(p)
    far = (y > 60 + 2 * abs(p) * (1 + abs(p - b))) & ~still_ends
    s_x = where(far, 1, y)
    series = _hyp1f1_series(p, b, s_x, ~far)
    l_a, l_b, l_x = where(far, p, 1), where(far, b, 1), where(far, y, 100)
    large = _hyp1f1_large(l_a, l_b, l_x, far)
    large, log_scale = large
    # exp(y) of the asymptotic series and exp(-y) of the transformation cancel.
    grown = 0.5 * (log_scale + where(mirrored, 0, y))
    grown = lax.exp(where(far, grown, 0))
    large = grown * large * grown
    shrunk = lax.exp(where(mirrored & ~far, 0.5 * x, 0))
    out = where(far, large, shrunk * series * shrunk)
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
    """DLMF 15.2.1."""
    one = lax.full_like(x, 1) + 0 * (a + b + c + x)
    inside = abs(x) < 1  # outside only polynomials remain, whose other terms would diverge

    def bound(k, t):
        p, q = (where(inside, _away_from_zero(v + k), v + k) for v in (a, b))
        return t * (p / _or_1(c + k)) * (q / (k + 1)) * x

    return _sum_while(
        active, one, lambda k, t: t * ((a + k) / _or_1(c + k)) * ((b + k) / (k + 1)) * x, bound
    )


def _taylor(a, b, c, x0, rest, f, g, h, terms):
    """Returns the value and slope at x0 + h of a solution with value f and slope g at x0 = 1 - rest.

    The coefficients at x0 follow from the differential equation, DLMF 15.10.1.
    """
    curve = x0 * rest

    def step(k, state):
        u, v, value, slope = state  # u and v are terms k and k + 1, times powers of h
        k = lax.convert_element_type(k, h.dtype)
        value, slope = value + v, slope + (k + 1) * v
        # x0 (1 - x0) (k + 2) (k + 1) t[k + 2] = ...
        first = (k + 1) * (k * (2 * x0 - 1) - (c - (a + b + 1) * x0)) * v * h
        second = (k + a) * (k + b) * u * h * h
        return v, (first + second) / (curve * ((k + 2) * (k + 1))), value, slope

    _, _, value, slope = fori_loop(0, terms, step, (f, g * h, f, 0 * f))
    return value, slope / where(h == 0, 1, h)


def _hyp2f1_continued(a, b, c, x, rest, active):
    """Computes the function for 1/2 < x < 1 from the value at 1/2; `rest` is 1 - x."""
    half = lax.full_like(x, 0.5) + 0 * (a + b + c + x)
    f = _hyp2f1_series(a, b, c, half, active)
    g = a * b / c * _hyp2f1_series(a + 1, b + 1, c + 1, half, active)

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

    far = active & (rest < 0.25)
    _, rest0, f, g, _ = while_loop(go_on, step, (np.int32(0), half, f, g, far))
    # The last step, to x itself, goes less than 3/4 of the way to 1.
    return _taylor(a, b, c, 1 - rest0, rest0, f, g, rest0 - rest, 2 * terms)[0]


def _hyp2f1(a, b, c, x):
    finite = lax.is_finite(a) & lax.is_finite(b) & lax.is_finite(c) & lax.is_finite(x)
    a_ends, b_ends = (a <= 0) & _is_whole(a), (b <= 0) & _is_whole(b)
    c_pole = (c <= 0) & _is_whole(c)
    ends = a_ends | b_ends
    defined = ~c_pole | (a_ends & (a >= c)) | (b_ends & (b >= c))
    at_one = x == 1
    converges = c - a - b > 0
    good = finite & defined & (ends | (x < 1))
    p, q, r, y = (where(good, v, s) for v, s in ((a, 1.0), (b, 1.0), (c, 2.0), (x, 0.25)))
    ends = ends & good
    # Pfaff's transformation, DLMF 15.8.1, of negative x, and Euler's where it makes terms decay
    negative = (y < 0) & ~ends
    swap = negative & (abs(r - p) < abs(r - q))
    first, second = where(swap, q, p), where(swap, p, q)
    power = lax.exp(where(negative, -first * lax.log1p(where(negative, -y, 0)), 0))
    second = where(negative, r - second, second)
    rest = where(negative, 1 / where(negative, 1 - y, 1), 1 - y)
    z = where(negative, y / where(negative, y - 1, 1), y)
    near_one = (z > 0.6) & ~ends
    direct = _hyp2f1_series(first, second, r, where(near_one, 0.25, z), ~near_one)
    f, s, r, z, rest = (
        where(near_one, v, w)
        for v, w in ((first, 1.0), (second, 1.0), (r, 2.0), (z, 0.75), (rest, 0.25))
    )
    continued = _hyp2f1_continued(f, s, r, z, rest, near_one)
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


_hyp2f1.__name__ = "hyp2f1"
_hyp2f1_fun = elementwise(
    _hyp2f1,
    lambda out, a, b, c, x: partial_derivative(_hyp2f1, 0)(a, b, c, x),
    lambda out, a, b, c, x: partial_derivative(_hyp2f1, 1)(a, b, c, x),
    lambda out, a, b, c, x: partial_derivative(_hyp2f1, 2)(a, b, c, x),
    lambda out, a, b, c, x: a * b / c * _hyp2f1_fun(a + 1, b + 1, c + 1, x),  # DLMF 15.5.1
)


@export
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise hypergeometric function 2F1 for x <= 1.

    Near 1 it is continued by Taylor series of the differential equation's solution, which has no
    exceptional parameters.

    Args:
      a, b, c, x: real arrays.

    >>> jax.scipy.special.hyp2f1(1.0, 1.0, 1.0, 0.0)
    Array(1., dtype=float32)
    """
    return in_single_or_double(_hyp2f1_fun, *real_args("hyp2f1", a, b, c, x))
