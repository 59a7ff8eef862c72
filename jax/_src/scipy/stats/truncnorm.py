"""The truncated normal distribution: `jax.scipy.stats.truncnorm`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax, special as lax_special
from jax._src.scipy import special
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise, log_per_scale, standardized
from jax._src.typing import ArrayLike

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)


def _mass(a, b):
    """Integrates the normal density from a to b > a.

    Returns:
      r and m, such that the logarithm of the integral is m - r**2 / 2: differences of such
      logarithms cancel less, since r**2 - s**2 is (r - s) * (r + s).
    """
    # Mirror intervals of the upper tail, where the integral is a difference of numbers close to 1.
    mirrored = a > 0
    low, high = where(mirrored, -b, a), where(mirrored, -a, b)
    narrow = (b - a) * (1 + lax.min(abs(a), abs(b))) < (0.2 if a.dtype == np.float32 else 0.02)
    tail = (high <= 0) & ~narrow
    center, log_narrow = _narrow(where(narrow, low, 0), where(narrow, high, 0.01))
    log_tail = _tail(where(tail, low, -2), where(tail, high, -1))
    others = narrow | tail
    log_middle = _middle(where(others, -1, low), where(others, 1, high))
    r = where(narrow, center, where(tail, high, 0))
    return r, where(narrow, log_narrow, where(tail, log_tail, log_middle))


def _narrow(low, high):
    # Taylor series of the density at the center
    width, center = high - low, 0.5 * (low + high)
    s, v = center * center, width * width
    series = v * ((s - 1) / 24 + v * ((s - 6) * s + 3) / 1920)
    return center, lax.log(width) + lax.log1p(series) - _HALF_LOG_2PI


def _tail(low, high):
    # Both tails are divided by exp(-high**2 / 2).
    infinite = low == -np.inf
    low = where(infinite, high - 1, low)
    ratio = lax.exp(0.5 * (high - low) * (high + low))
    beyond = where(infinite, 0, special.erfcx(-_SQRT_HALF * low) * ratio)
    return lax.log(special.erfcx(-_SQRT_HALF * high) - beyond) - math.log(2)


def _middle(low, high):
    outside = special.ndtr(low) + special.ndtr(-high)
    most = outside < 0.5
    inside = 0.5 * (lax_special.erf(_SQRT_HALF * high) - lax_special.erf(_SQRT_HALF * low))
    return where(most, lax.log1p(-where(most, outside, 0)), lax.log(where(most, 1, inside)))


def _log_density(z, a, b):
    inside = (z >= a) & (z <= b) & (a < b) & (abs(z) < np.inf)
    x, low, high = where(inside, z, 0), where(inside, a, -1), where(inside, b, 1)
    r, m = _mass(low, high)
    out = -0.5 * (x - r) * (x + r) - _HALF_LOG_2PI - m
    return _defined(z, a, b, where(inside, out, -np.inf))


def _log_below(z, a, b):
    inside = (z > a) & (z < b)
    x, low, high = where(inside, z, 0), where(inside, a, -1), where(inside, b, 1)
    s, total = _mass(low, high)

    def log_ratio(low, high):
        r, part = _mass(low, high)
        return part - total - 0.5 * (r - s) * (r + s)

    # The larger part is computed from the smaller one.
    below, above = log_ratio(low, x), log_ratio(x, high)
    more = below > above
    out = where(more, lax.log1p(-lax.exp(where(more, above, -1))), below)
    return _defined(z, a, b, where(inside, out, where(z <= a, -np.inf, lax.full_like(z, 0))))


def _defined(z, a, b, out):
    return where((a < b) & (z == z), out, np.nan)


@elementwise("truncnorm", weak="never")
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the probability density function of the truncated normal distribution.

    Args:
      x: array of values.
      a: array, the lower end of the standardized values.
      b: array, the upper end of the standardized values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.truncnorm.logpdf(0.5, -1.0, 2.0)
    Array(-0.843..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return log_per_scale(_log_density(z, a, b), scale)


@elementwise("truncnorm", weak="never")
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability density function of the truncated normal distribution.

    Args:
      x: array of values.
      a: array, the lower end of the standardized values.
      b: array, the upper end of the standardized values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.truncnorm.pdf(0.5, -1.0, 2.0)
    Array(0.430..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return lax.exp(_log_density(z, a, b)) / scale


@elementwise("truncnorm", weak="never")
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Cumulative distribution function of the truncated normal distribution.

    Args:
      x: array of values.
      a: array, the lower end of the standardized values.
      b: array, the upper end of the standardized values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.truncnorm.cdf(0.5, -1.0, 2.0)
    Array(0.650..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return lax.exp(_log_below(z, a, b))


@elementwise("truncnorm", weak="never")
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the cumulative distribution function of the truncated normal distribution.

    Args:
      x: array of values.
      a: array, the lower end of the standardized values.
      b: array, the upper end of the standardized values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.truncnorm.logcdf(0.5, -1.0, 2.0)
    Array(-0.429..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return _log_below(z, a, b)


@elementwise("truncnorm", weak="never")
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the truncated normal distribution, 1 - cdf.

    Args:
      x: array of values.
      a: array, the lower end of the standardized values.
      b: array, the upper end of the standardized values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.truncnorm.sf(0.5, -1.0, 2.0)
    Array(0.349..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return lax.exp(_log_below(-z, -b, -a))


@elementwise("truncnorm", weak="never")
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the survival function of the truncated normal distribution.

    Args:
      x: array of values.
      a: array, the lower end of the standardized values.
      b: array, the upper end of the standardized values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.truncnorm.logsf(0.5, -1.0, 2.0)
    Array(-1.052..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return _log_below(-z, -b, -a)
