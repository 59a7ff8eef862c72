"""Exponential and trigonometric integrals, and the dilogarithm."""

from __future__ import annotations

import math

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, special
from jax._src.lax.control_flow import while_loop
from jax._src.lax.special.doubled import reciprocal, two_difference, two_sum
from jax._src.lax.special.expansions import accurate_log1p
from jax._src.lax.special.polynomials import piecewise
from jax._src.numpy.array_constructors import asarray
from jax._src.scipy.special.common import (
    const,
    elementwise,
    export,
    in_single_or_double,
    inexact_args,
    only_single_or_double,
    real_args,
    where,
)
from jax._src.scipy.special.integral_tables import (
    CI_SMALL,
    E1_LARGE,
    E1_SMALL,
    EI_LARGE,
    EI_SMALL,
    SI_SMALL,
    SICI_MODULUS,
    SICI_PHASE,
)
from jax._src.typing import ArrayLike

# The zeros of Ei and of Ci, as sums of two numbers of few bits and a small one
_EI_ZERO = (0.37250709533691406, 3.154441401420627e-07, 3.1242989931293346e-13)
_CI_ZERO = (0.6165046691894531, 8.164306564140134e-07, 6.066947837544337e-13)


def _near_zero(table, zero, x):
    """Computes log(x / x0) + (x - x0) g(x), where the zero x0 is given in parts."""
    root = sum(zero)
    first, *rest = zero
    d = x - const(x, first)
    close = abs(d) < 0.5 * root
    for part in rest:
        d = d - where(close, lax.full_like(x, part), 0)  # two constants would be merged
    d = where(close, d, x - const(x, root))
    log_ratio = where(close, lax.log1p(where(close, d, 0) / root), lax.log(x / root))
    return log_ratio + d * piecewise(table, x)


def _exp1(x):
    small = x <= 1
    y = where(small & (x > 0), x, 1)
    low = piecewise(E1_SMALL, y) - lax.log(y)
    z = where(x > 1, x, 1)
    high = lax.exp(-z) * (piecewise(E1_LARGE, 1 / z) / z)
    out = where(small, low, high)
    out = where(x == np.inf, 0, out)
    return where(x > 0, out, where(x == 0, np.inf, lax.full_like(x, np.nan)))


def _expi(x):
    negative = -_exp1(where(x < 0, -x, 1))
    small = x <= 6
    y = where(small & (x > 0), x, 1)
    low = _near_zero(EI_SMALL, _EI_ZERO, y)
    z = where(x > 6, where(x > 800, 800, x), 6)  # At 800 the result is infinite.
    half = lax.exp(0.5 * z)
    high = half * (half * (piecewise(EI_LARGE, 1 / z) / z))
    out = where(x < 0, negative, where(small, low, high))
    return where(x == 0, -np.inf, where(x == x, out, np.nan))


_exp1.__name__, _expi.__name__ = "exp1", "expi"
_exp1_fun = elementwise(_exp1, lambda out, x: -lax.exp(-x) / x)
_expi_fun = elementwise(_expi, lambda out, x: lax.exp(x) / x)


@export
def exp1(x: ArrayLike) -> Array:
    """Elementwise exponential integral of exp(-t) / t from x to infinity; NaN for negative x.

    Args:
      x: real array.

    >>> jax.scipy.special.exp1(1.0)
    Array(0.2193..., dtype=float32)
    """
    return in_single_or_double(_exp1_fun, *real_args("exp1", x))


@export
def expi(x: ArrayLike) -> Array:
    """Elementwise exponential integral of exp(t) / t from minus infinity to x (principal value).

    Args:
      x: real array.

    >>> jax.scipy.special.expi(1.0)
    Array(1.895..., dtype=float32)
    """
    return in_single_or_double(_expi_fun, *real_args("expi", x))


# ---------------------------------------------------------------------------------------------------
# The generalized exponential integral

_MAX_STEPS = 200


def _expn_series(n, x):
    """Sums DLMF 8.19.8 for integers n >= 1 and 0 < x <= 1."""
    terms = 12 if x.dtype == np.float32 else 20
    total, power, gap = lax.full_like(x, 0), lax.full_like(x, 1), lax.full_like(x, 0)
    for k in range(terms):
        if k:
            power = power * (-x / k)
        at = k == n - 1
        gap = where(at, power, gap)
        total = total - where(at, 0, power / where(at, 1, k - n + 1))
    psi = special.digamma(where(n >= 1, n, 1))
    return where(gap == 0, total, total + gap * (psi - lax.log(x)))


def _expn_fraction(n, x, active):
    """Sums the differences of the convergents of the continued fraction DLMF 8.19.17, for x > 1."""
    eps = dtypes.finfo(x.dtype).eps

    def go_on(state):
        i, active, *_ = state
        return (i < _MAX_STEPS) & lax.reduce_or(active, tuple(range(active.ndim)))

    def step(state):
        # Steed's method: all differences are positive. What rounding leaves out of their sum is summed, too.
        i, active, value, rest, difference, inverse = state
        k = lax.convert_element_type(i, x.dtype)
        a = k * (n - 1 + k)
        old, inverse = inverse, 1 / (x + (n + 2 * k) - a * inverse)
        difference = difference * (a * old * inverse)
        total, lost = two_sum(value, difference)
        value, rest = where(active, total, value), where(active, rest + lost, rest)
        return i + 1, active & (difference > 0.1 * eps * value), value, rest, difference, inverse

    first = 1 / (x + n)
    state = (np.int32(1), active, first, 0 * first, first, first)
    _, _, value, rest, *_ = while_loop(go_on, step, state)
    return value + rest


def _expn(n, x):
    valid = (n >= 0) & (x >= 0)
    small = valid & (x > 0) & (x <= 1) & (n >= 1)
    large = valid & (x > 1) & (x < np.inf) & (n >= 1)
    s_n, s_x = where(small, n, 2), where(small, x, 1)
    series = where(s_n == lax.floor(s_n), _expn_series(s_n, s_x), np.nan)
    l_n, l_x = where(large, n, 2), where(large, x, 2)
    fraction = lax.exp(-l_x) * _expn_fraction(l_n, l_x, large)
    out = where(small, series, where(large, fraction, 0))
    out = where(n == 1, _exp1(x), out)
    out = where(n == 0, lax.exp(-x) / x, out)
    out = where((n > 0) & (n < 1), np.nan, out)
    at_zero = where(n > 1, 1 / (n - 1), np.inf)
    out = where(x == 0, at_zero, out)
    out = where(x == np.inf, 0, out)
    return where(valid, out, np.nan)


@nested_jit
def _expn_slope(out, n, x):
    zero = n == 0
    return -where(zero, out * (1 + 1 / x), _expn_fun(where(zero, 1, n) - 1, x))


_expn.__name__ = "expn"
_expn_fun = elementwise(_expn, None, _expn_slope)


@export
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise generalized exponential integral of exp(-x t) / t**n from 1 to infinity.

    Args:
      n: array of non-negative integers. The result is not differentiated with respect to it.
      x: real array, not negative.

    >>> jax.scipy.special.expn(2, 0.0)
    Array(1., dtype=float32)
    """
    return in_single_or_double(_expn_fun, *real_args("expn", asarray(n), asarray(x)))


# ---------------------------------------------------------------------------------------------------
# Sine and cosine integrals


# pi as a sum, by the bits of the dtype: two numbers of 13 or 28 bits and a small one
_PI = {
    32: (3.1416015625, -8.909031748771667e-06, 1.2154201013012384e-10),
    64: (3.141592651605606, 1.9841871617964912e-09, -2.435410355594793e-18),
}


def _oscillation(z):
    """Computes, for z >= 2, modulus M and sine and cosine of z - phase, all with small relative errors, also at zeros.

    Ci(z) is M sin(z - phase), and Si(z) is pi / 2 - M cos(z - phase); compare DLMF 6.2(iii) and 6.4.
    """
    single = z.dtype == np.float32
    inverse, inverse_rest = reciprocal(z)
    u = 1 / (z + 5)
    modulus = piecewise(SICI_MODULUS, u) * inverse
    later = piecewise(SICI_PHASE, u) * inverse * (inverse * inverse)
    phase, phase_rest = two_sum(inverse, later)
    # The distance from a multiple of pi (Cody and Waite 1980): products of its first parts are exact. No number beyond
    # the bound is so near a zero that it is needed.
    huge = z > (2.0**12 if single else 2.0**26)
    turns = where(huge, 0, lax.round((z - inverse) * (1 / math.pi)))
    first, second, third = _PI[32 if single else 64]
    angle, rest = two_difference(z - turns * first, turns * second)
    shifted, rounding = two_difference(angle, where(huge, 0, phase))
    rest = rest + rounding - (phase_rest + inverse_rest + turns * third) - where(huge, phase, 0)
    sin, cos = lax.sin(shifted), lax.cos(shifted)
    half = 0.5 * turns
    sign = where(half == lax.floor(half), modulus, -modulus)
    return sign * (sin + rest * cos), sign * (cos - rest * sin)


def _sici(x):
    y = abs(x)
    near = y <= 2
    z = where(near & (y > 0), y, 1)
    si_low = piecewise(SI_SMALL, z * z) * z
    ci_low = _near_zero(CI_SMALL, _CI_ZERO, z)
    sine, cosine = _oscillation(where(near | (y == np.inf), 2, y))
    si = where(near, si_low, 0.5 * math.pi - cosine)
    ci = where(near, ci_low, sine)
    si = where(y == np.inf, 0.5 * math.pi, si)
    ci = where(y == np.inf, 0, ci)
    si = where(x == 0, x, where(x < 0, -si, si))
    ci = where(x == 0, -np.inf, where(x == -np.inf, np.nan, ci))
    return where(x == x, si, np.nan), where(x == x, ci, np.nan)


def _sinc(x):
    zero = x == 0
    safe = where(zero, 1, x)
    return where(zero, 1, lax.sin(safe) / safe)


_sici.__name__ = "sici"
_sici_fun = elementwise(_sici, lambda out, x: (_sinc(x), lax.cos(x) / x))


@export
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Elementwise sine and cosine integrals.

    Args:
      x: real array. The cosine integral of a negative number is that of its absolute value.

    Returns:
      The integral of sin(t) / t from 0 to x, and minus that of cos(t) / t from x to infinity. Errors are small also
      near zeros, unless a zero is within a few numbers of x.

    >>> jax.scipy.special.sici(0.0)
    (Array(0., dtype=float32), Array(-inf, dtype=float32))
    """
    (x,) = inexact_args("sici", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError(
            f"Argument `x` to jax.scipy.special.sici must be real-valued, got dtype {x.dtype}. "
            "Pass its real part."
        )
    return in_single_or_double(_sici_fun, x)


# ---------------------------------------------------------------------------------------------------
# The dilogarithm

# B_2k / (2k + 1)!: the series of the Debye function, Lewin, "Polylogarithms" (1981), (1.76)
_DEBYE = (
    0.027777777777777776, -0.0002777777777777778, 4.72411186696901e-06, -9.185773074661964e-08,
    1.8978869988971e-09, -4.0647616451442256e-11, 8.921691020456452e-13, -1.9939295860721074e-14,
    4.518980029619918e-16, -1.0356517612181247e-17, 2.395218621026187e-19, -5.581785874325009e-21,
)  # fmt: skip


def _spence(x):
    # Into [1/2, 2], by DLMF 25.12.6 and 25.12.4
    low, high = x < 0.5, x > 2
    y = where(low | high, 1, x)
    # With u = log(y): Li2(1 - y) = -u - u**2 / 4 - sum of B_2k u**(2k + 1) / (2k + 1)!
    small = where(low, x, where(high, 1 / x, 0))
    log_rest = accurate_log1p(-where(small >= 1, 0, small))
    u = where(low | high, log_rest, lax.log(y))
    w = u * u
    series = lax.full_like(u, _DEBYE[-1])
    for c in reversed(_DEBYE[:-1]):
        series = series * w + const(u, c)
    out = -(u + 0.25 * w + u * w * series)
    log_x = lax.log(where((low & (x > 0)) | high, x, 1))
    reflected = math.pi**2 / 6 - log_x * log_rest - out
    inverted = out - math.pi**2 / 6 - log_x * (0.5 * log_x + log_rest)
    out = where(low, reflected, where(high, inverted, out))
    out = where(x == np.inf, -np.inf, out)
    return where(x >= 0, out, np.nan)


def _spence_slope_value(x):
    near = abs(x - 1) < 1e-4
    d = where(near, x - 1, 0)
    series = -1 + d * (1 / 2 + d * (-1 / 3 + d * (1 / 4 - d / 5)))
    z = where(near, 2, x)
    return where(near, series, lax.log(z) / (1 - z))


@nested_jit
def _spence_slope(x):
    return _spence_slope_value(x)


_spence.__name__ = "spence"
_spence_fun = elementwise(_spence, lambda out, x: _spence_slope(x))


@export
def spence(x: ArrayLike) -> Array:
    """Elementwise integral of log(t) / (1 - t) from 1 to x, the dilogarithm of 1 - x.

    Args:
      x: array of float32 or float64; the result is NaN where it is negative.

    Raises:
      TypeError: if `x` has another dtype.

    >>> jax.scipy.special.spence(1.0)
    Array(-0., dtype=float32)
    """
    return _spence_fun(only_single_or_double("spence", asarray(x)))
