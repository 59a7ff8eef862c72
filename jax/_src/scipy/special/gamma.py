"""Gamma functions and their relatives: factorials, binomial coefficients, beta functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, special
from jax._src.lax.control_flow import cond
from jax._src.lax.special.beta import positive_beta
from jax._src.lax.special.doubled import two_sum
from jax._src.lax.special.expansions import stirling_error
from jax._src.lax.special.gamma_tables import GAMMA, SINE
from jax._src.lax.special.polynomials import piecewise
from jax._src.lax.special.scales import stirling_exponent
from jax._src.numpy.util import broadcast_arrays
from jax._src.scipy.special.common import (
    const,
    elementwise,
    export,
    in_single_or_double,
    inexact_args,
    real_args,
    where,
)
from jax._src.scipy.special.complex_gamma import complex_gamma, complex_loggamma
from jax._src.typing import ArrayLike

_LOG_2PI = math.log(2 * math.pi)


@export
def gammaln(x: ArrayLike) -> Array:
    """Elementwise logarithm of the absolute value of the gamma function.

    Args:
      x: real array.

    >>> jax.scipy.special.gammaln(3.0)
    Array(0.6931..., dtype=float32, weak_type=True)
    """
    return special.lgamma(*inexact_args("gammaln", x))


@export
def gammasgn(x: ArrayLike) -> Array:
    """Elementwise sign of the gamma function: NaN at its poles except 0, where it is the sign of 0.

    Args:
      x: real array.

    >>> jax.scipy.special.gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    (x,) = real_args("gammasgn", x)
    return _sign(lax.convert_type(x, x.dtype, False))


def _sign(x):
    floor = lax.floor(x)
    pole = (x < 0) & (x == floor)
    # The parity of large numbers is exact too: they are even.
    odd = floor != 2 * lax.floor(floor * 0.5)
    out = where((x < 0) & odd, -1, lax.full_like(x, 1))
    out = where(x == 0, lax.sign(1 / x), out)
    return where(pole | (x != x), np.nan, out)


@export
def gamma(x: ArrayLike) -> Array:
    """Elementwise gamma function.

    Args:
      x: real or complex array.

    >>> jax.scipy.special.gamma(5.0)
    Array(24., dtype=float32)
    """
    (x,) = inexact_args("gamma", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return complex_gamma(lax.convert_type(x, x.dtype, False))
    return in_single_or_double(real_gamma, x)


def _gamma(x):
    y = abs(x)
    # Recurrence, DLMF 5.5.1, to [1, 2]: y = 0 ... 12
    moved = where(y < 1, y + 1, where(y > 12, 1.5, y))
    product = lax.full_like(y, 1)
    for _ in range(11):
        more = moved >= 2
        moved = where(more, moved - 1, moved)
        product = where(more, product * moved, product)
    small = piecewise(GAMMA, moved) * product  # gamma(y + 1) for y < 1
    # Reflection: gamma(x) = -pi / (y gamma(y) sin(pi y)), DLMF 5.5.3
    from_integer = y - lax.floor(y + 0.5)
    sine = from_integer * piecewise(SINE, from_integer * from_integer)
    odd = (y - from_integer) != 2 * lax.floor((y - from_integer) * 0.5)
    inverse_sine = -math.pi / where(odd, -sine, sine)
    reflected = inverse_sine / where(y < 1, small, y * small)
    out = where(x < 0, reflected, where(y < 1, small / y, small))
    # Stirling's formula, DLMF 5.11.1. The exponential may be out of range where the product is not.
    single = x.dtype == np.float32
    deep, shift = (60, 14) if single else (600, 40)
    big = where(y > 12, lax.min(y, lax.full_like(y, 40 if single else 200)), 12)
    exponent, rest = stirling_exponent(big)
    root = lax.sqrt(big * (0.5 / math.pi))
    factor = where(x < 0, inverse_sine * (root / y), 1 / root)
    exponent, rest = where(x < 0, exponent, -exponent), where(x < 0, rest, -rest)
    less, more = exponent < -deep, exponent > deep
    exponent = where(less, exponent + shift, where(more, exponent - shift, exponent))
    factor = factor * where(
        less, math.exp(-shift), where(more, math.exp(shift), lax.full_like(x, 1))
    )
    out = where(y > 12, (factor + factor * rest) * lax.exp(exponent), out)
    out = where(x == np.inf, np.inf, where(x == 0, 1 / x, out))
    pole = (x < 0) & (x == lax.floor(x))
    return where(pole | (x != x), np.nan, out)


def _gamma_slope(out, x):
    return out * special.digamma(x)


_gamma.__name__ = "gamma"
real_gamma = elementwise(_gamma, _gamma_slope)


@export
def loggamma(x: ArrayLike) -> Array:
    """Elementwise principal branch of the logarithm of the gamma function.

    It is NaN for negative real numbers, and of complex type, with its branch cut there, for complex ones.

    Args:
      x: real or complex array.

    >>> jax.scipy.special.loggamma(3.0)
    Array(0.6931..., dtype=float32, weak_type=True)
    """
    (x,) = inexact_args("loggamma", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return complex_loggamma(lax.convert_type(x, x.dtype, False))
    return where(x > 0, special.lgamma(x), np.nan)


@export
def digamma(x: ArrayLike) -> Array:
    """Elementwise digamma function, the logarithmic derivative of the gamma function.

    Args:
      x: real array.

    >>> bool(jnp.isnan(jax.scipy.special.digamma(-1.0)))
    True
    """
    return special.digamma(*inexact_args("digamma", x))


@export
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise polygamma function: the n-th derivative of :func:`digamma`.

    Args:
      n: array of non-negative integers.
      x: real array.

    Raises:
      ValueError: if `n` is not of integers.

    >>> jax.scipy.special.polygamma(1, 1.0)
    Array(1.6449..., dtype=float32, weak_type=True)
    """
    if not dtypes.issubdtype(dtypes.dtype(n), np.integer):
        raise ValueError(
            f"Argument `n` to jax.scipy.special.polygamma must be of integers, got dtype {dtypes.dtype(n)}. "
            "Convert it, for example by n.astype(int)."
        )
    return special.polygamma(*broadcast_arrays(*real_args("polygamma", n, x)))


@export
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized lower incomplete gamma function.

    Args:
      a: real array, positive: the exponent.
      x: real array, not negative: the upper limit of integration.

    >>> jax.scipy.special.gammainc(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return special.igamma(*inexact_args("gammainc", a, x))


@export
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized upper incomplete gamma function, 1 - gammainc(a, x).

    Args:
      a: real array, positive: the exponent.
      x: real array, not negative: the lower limit of integration.

    >>> jax.scipy.special.gammaincc(1.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return special.igammac(*inexact_args("gammaincc", a, x))


# ---------------------------------------------------------------------------------------------------
# Factorials


def _factorial(n):
    # n gamma(n) is exact where n + 1 is rounded.
    x = where(n < 0, 1, n)
    large = x > 1
    out = where(large, x, 1) * real_gamma(where(large, x, x + 1))
    return where(n < 0, 0, out)


@export
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Elementwise factorial gamma(n + 1), zero for negative numbers.

    Args:
      n: real array.
      exact: must be False.

    Raises:
      NotImplementedError: with `exact`.

    >>> jax.scipy.special.factorial(4)
    Array(24., dtype=float32, weak_type=True)
    """
    if exact:
        raise NotImplementedError(
            "jax.scipy.special.factorial with exact=True is not implemented: use math.factorial for a "
            "Python integer."
        )
    (n,) = real_args("factorial", n)
    out = in_single_or_double(_factorial, n)
    return lax.convert_type(out, n.dtype, n.aval.weak_type)


def _poch(z, m):
    """Computes gamma(z + m) / gamma(z)."""
    total, rest = two_sum(z, m)
    # For a few integer steps the product is the most accurate.
    steps = lax.full_like(z, 1)
    for k in range(8):
        steps = where(k < m, steps * (z + k), steps)
    few = (m >= 0) & (m <= 8) & (m == lax.floor(m))
    largest = 30 if z.dtype == np.float32 else 160
    small = (abs(z) < largest) & (abs(total) < largest)
    quotient = real_gamma(total) / real_gamma(z)
    log_quotient = special.lgamma(total) - special.lgamma(z)
    logs = _sign(total) * _sign(z) * lax.exp(log_quotient)
    # At the poles of gamma(z) alone the quotient is 0.
    z_pole = (z <= 0) & (z == lax.floor(z))
    pole = (total <= 0) & (total == lax.floor(total))
    out = where(small, quotient, logs) / _by_rounded_sum(total, rest)
    # Of positive numbers gamma(m) / B(z, m), or B(z + m, -m) / gamma(-m)
    positive = (z > 0) & (total > 0) & (abs(m) < largest) & (m != 0) & lax.is_finite(total)
    up = m > 0
    step = where(positive, abs(m), 1)
    beta_of_step = positive_beta(where(positive, where(up, z, total), 1), step)
    gamma_of_step = real_gamma(step)
    ratio = where(up, gamma_of_step, beta_of_step) / where(up, beta_of_step, gamma_of_step)
    out = where(positive, ratio, out)
    out = where(z_pole & ~pole, 0, out)
    # At both: (-1)^m gamma(1 - z) / gamma(1 - z - m), DLMF 5.5.3
    u, v = where(z_pole, 1 - z, 1), where(z_pole & pole, 1 - total, 1)
    both = lax.exp(special.lgamma(u) - special.lgamma(v))
    odd = m != 2 * lax.floor(0.5 * m)
    both = where(odd, -both, both)
    out = where(z_pole & pole, both, out)
    out = where(pole & ~z_pole, np.nan, out)
    out = where(few, steps, out)
    out = where(m == 0, 1, out)
    return where((z != z) | (m != m), np.nan, out)


_poch.__name__ = "poch"
_poch_fun = elementwise(
    _poch,
    lambda out, z, m: out * (special.digamma(z + m) - special.digamma(z)),
    lambda out, z, m: out * special.digamma(z + m),
)


@export
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Elementwise Pochhammer symbol gamma(z + m) / gamma(z), the rising factorial.

    Args:
      z, m: real arrays.

    >>> jax.scipy.special.poch(2.0, 3.0)
    Array(24., dtype=float32)
    """
    return in_single_or_double(_poch_fun, *real_args("poch", z, m))


@export
def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """Elementwise logarithm of the multivariate gamma function.

    Args:
      a: real array.
      d: dimension, an integer.

    Raises:
      ValueError: if `d` is not an integer.

    >>> jax.scipy.special.multigammaln(3.0, 1)
    Array(0.6931..., dtype=float32)
    """
    d = core.concrete_or_error(
        float,
        d,
        "The argument `d` of jax.scipy.special.multigammaln has to be known while tracing.",
    )
    (a,) = real_args("multigammaln", a)
    constant = 0.25 * d * (d - 1) * math.log(math.pi)
    terms = [special.lgamma(a - const(a, 0.5 * k)) for k in range(int(d))]
    out = lax.full_like(a, constant)
    for term in terms:
        out = lax.add(out, term)
    return out


# ---------------------------------------------------------------------------------------------------
# Beta functions


def log_ratio(a: Any, b: Any) -> Any:
    """Computes lgamma(b) - lgamma(a + b) for b >= 10 and 0 < a <= b, without cancellation.

    By Stirling's formula, as in Didonato and Morris, TOMS 708.
    """
    c = b + a
    main = -(b - 0.5) * lax.log1p(a / b) - a * (lax.log(c) - 1)
    return main + (stirling_error(b) - stirling_error(c))


def _betaln(a, b):
    a, b = lax.min(a, b), lax.max(a, b)
    plain = special.lgamma(a) + special.lgamma(b) - special.lgamma(a + b)
    # For large b the last two terms cancel, and for large a and b all three.
    large = (a > 0) & (b >= 10)
    p, q = where(large, a, 1), where(large, b, 10)
    both = p >= 10
    x = where(both, p, 10)
    y = where(both, q, 10)
    corr = stirling_error(x) + stirling_error(y) - stirling_error(x + y)
    h = x / y
    two = -0.5 * lax.log(y) + 0.5 * _LOG_2PI + corr
    two = two + (x - 0.5) * lax.log(h / (1 + h)) - y * lax.log1p(h)
    one = special.lgamma(p) + log_ratio(p, q)
    out = where(large, where(both, two, one), plain)
    return where((b == np.inf) & (a > 0), -np.inf, out)


_betaln.__name__ = "betaln"
_betaln_fun = elementwise(
    _betaln,
    lambda out, a, b: special.digamma(a) - special.digamma(a + b),
    lambda out, a, b: special.digamma(b) - special.digamma(a + b),
)


@export
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Elementwise logarithm of the absolute value of the beta function.

    Args:
      a, b: real arrays.

    >>> jax.scipy.special.betaln(2.0, 3.0)
    Array(-2.484..., dtype=float32, weak_type=True)
    """
    a, b = inexact_args("betaln", a, b)
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise TypeError(
            f"jax.scipy.special.betaln does not accept dtype {a.dtype}. Pass real numbers."
        )
    out = in_single_or_double(_betaln_fun, a, b)
    return lax.convert_type(out, a.dtype, a.aval.weak_type and b.aval.weak_type)


def _by_rounded_sum(total, rest):
    """Returns gamma(total) / gamma(total + rest) for a small rest, also near poles."""
    return where(rest == 0, 1, 1 - special.digamma(total) * rest)


def _beta(a, b):
    total = a + b
    # Of positive numbers, also large ones, in doubled precision
    positive = (a > 0) & (b > 0) & lax.is_finite(total)
    out = positive_beta(where(positive, a, 1), where(positive, b, 1))
    # Mostly all are positive: then the rest, which takes as long, is left out.
    all_positive = lax.reduce_and(positive, range(positive.ndim))
    return cond(all_positive, lambda a, b, out: out, _beta_of_any_sign, a, b, out)


def _beta_of_any_sign(a, b, of_positive):
    total, rest = two_sum(a, b)
    largest = 30 if a.dtype == np.float32 else 160
    small = (abs(a) < largest) & (abs(b) < largest) & (abs(total) < largest)
    # The larger factor is divided first, so that the product does not overflow.
    ga, gb = real_gamma(a), real_gamma(b)
    big, little = where(abs(ga) > abs(gb), ga, gb), where(abs(ga) > abs(gb), gb, ga)
    quotient = big / real_gamma(total) * little
    logs = special.lgamma(a) + special.lgamma(b) - special.lgamma(total)
    logs = _sign(a) * _sign(b) * _sign(total) * lax.exp(logs)
    out = where(small, quotient, logs) * _by_rounded_sum(total, rest)
    out = where(_reflects(a, b, total) & ~small, _reflected_beta(a, b, total, rest), out)
    out = where((a > 0) & (b > 0) & lax.is_finite(total), of_positive, out)
    out = where((a > 0) & (b > 0) & (total == np.inf), 0, out)
    # A pole of the denominator alone is a zero.
    zero = (total <= 0) & (total == lax.floor(total))
    a_pole = (a <= 0) & (a == lax.floor(a))
    b_pole = (b <= 0) & (b == lax.floor(b))
    out = where(zero & ~a_pole & ~b_pole, 0, out)
    return where((a != a) | (b != b), np.nan, out)


def _reflects(a, b, total):
    low = lax.min(a, b)
    return (
        (low < 0) & (low > -0.25 * lax.max(a, b)) & (low != lax.floor(low)) & lax.is_finite(total)
    )


def _reflected_beta(a, b, total, rest):
    """Computes B(a, b), where one is negative and the other one larger, as gamma(b) gamma(-b) / B(a + b, -b)."""
    inside = _reflects(a, b, total)
    low = where(inside, lax.min(a, b), -0.5)
    c = where(inside, total, 1)
    nearest = lax.round(low, lax.RoundingMethod.TO_NEAREST_EVEN)
    odd = nearest - 2 * lax.floor(0.5 * nearest)
    sine = lax.sin(math.pi * (low - nearest)) * (1 - 2 * odd)
    out = math.pi / (-low * sine) / positive_beta(c, -low)
    # B(c, -b) is proportional to c**b.
    return out * (1 - where(inside, rest, 0) * (low / c))


_beta.__name__ = "beta"
_beta_fun = elementwise(
    _beta,
    lambda out, a, b: out * (special.digamma(a) - special.digamma(a + b)),
    lambda out, a, b: out * (special.digamma(b) - special.digamma(a + b)),
)


@export
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Elementwise beta function gamma(a) * gamma(b) / gamma(a + b).

    Args:
      a, b: real arrays.

    >>> jax.scipy.special.beta(1.0, 2.0)
    Array(0.5, dtype=float32)
    """
    return in_single_or_double(_beta_fun, *real_args("beta", a, b))


@export
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized incomplete beta function.

    Args:
      a, b: real arrays, not negative; the result is NaN where both are 0 or both infinite.
      x: real array, with values from 0 to 1: the upper limit of integration.

    >>> jax.scipy.special.betainc(1.0, 1.0, 0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return special.betainc(*real_args("betainc", a, b, x))


def _binomial(n, k):
    """Computes the binomial coefficient 1 / ((n + 1) B(n - k + 1, k + 1)) for 0 <= k <= n."""
    valid = (n >= 0) & (k >= 0) & (k <= n)
    n, k = where(valid, n, 1), where(valid, k, 1)
    least = lax.min(k, n - k)
    product = lax.full_like(n, 1)
    for i in range(1, 13):
        product = where(least >= i, product * (n - least + i) / i, product)
    whole = (n == lax.floor(n)) & (k == lax.floor(k))
    general = 1 / ((n + 1) * positive_beta(n - k + 1, k + 1))
    out = where(whole & (least <= 12), product, general)
    # Binomial coefficients of integers are integers.
    limit = 2.0**22 if n.dtype == np.float32 else 2.0**50
    rounded = lax.round(out, lax.RoundingMethod.TO_NEAREST_EVEN)
    out = where(whole & (out < limit), rounded, out)
    return where(valid, out, 0)


@nested_jit
def _comb_slope_n(out, n, k):
    return out * (special.digamma(where(n < 0, 0, n) + 1) - special.digamma(_at_least(n - k) + 1))


@nested_jit
def _comb_slope_k(out, n, k):
    return out * (special.digamma(_at_least(n - k) + 1) - special.digamma(where(k < 0, 0, k) + 1))


def _at_least(x):
    return where(x < 0, 0, x)


_binomial.__name__ = "comb"
_comb = elementwise(_binomial, _comb_slope_n, _comb_slope_k)


@export
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Elementwise number of ways to choose k of N things, zero unless 0 <= k <= N.

    Args:
      N, k: real arrays.
      repetition: whether a thing may be chosen several times, which is `comb(N + k - 1, k)`.

    >>> jax.scipy.special.comb(5, 2)
    Array(10., dtype=float32, weak_type=True)
    """
    N, k = inexact_args("comb", N, k)
    if dtypes.issubdtype(N.dtype, np.complexfloating):
        raise TypeError(
            f"jax.scipy.special.comb does not accept dtype {N.dtype}. Pass real numbers."
        )
    weak = N.aval.weak_type and k.aval.weak_type
    if repetition:
        out = in_single_or_double(
            lambda n, k: where((n == 0) & (k == 0), 1, _comb(n + k - 1, k)), N, k
        )
    else:
        out = in_single_or_double(_comb, N, k)
    return lax.convert_type(out, N.dtype, weak)
