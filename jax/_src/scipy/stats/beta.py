"""The beta distribution: `jax.scipy.stats.beta`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax, special as lax_special
from jax._src.lax.special.doubled import two_difference
from jax._src.lax.special.incomplete import (
    betainc_slope_ab,
    log_betainc_tails,
    log_betainc_tails_grad_x,
)
from jax._src.lax.special.scales import beta_scale
from jax._src.scipy.special.common import elementwise as differentiable, where
from jax._src.scipy.stats.common import elementwise, log_per_scale, standardized
from jax._src.scipy.stats.deviance import divided, log_minus_digamma, log_ratio
from jax._src.typing import ArrayLike


def _positive(a):
    return where(a > 0, a, np.nan)


def _clipped(z):
    return where(z < 0, 0, where(z > 1, 1, z))


def _smaller_tail(z, a, b):
    """Returns whether z is below the mean, and the integral of the density below or above z, respectively."""
    z = _clipped(z)
    below = z <= a / (a + b)
    tail = lax_special.betainc(where(below, a, b), where(below, b, a), where(below, z, 1 - z))
    return below, tail


_log_tails_slope_x = differentiable(log_betainc_tails_grad_x)
_log_tails_inside = differentiable(
    log_betainc_tails,
    betainc_slope_ab,
    betainc_slope_ab,
    lambda out, a, b, x: _log_tails_slope_x(a, b, x),
)


def _log_tails(z, a, b):
    """Computes the logarithms of both tails, also where they underflow."""
    # Derivatives outside of the support and at its ends are zero.
    low, high = z <= 0, z >= 1
    lower, upper = _log_tails_inside(_positive(a), _positive(b), where(low | high, 0.5, z))
    valid = (a > 0) & (b > 0)
    lower = where(low, -np.inf, where(high, 0, lower))
    upper = where(low, 0, where(high, -np.inf, upper))
    return where(valid, lower, np.nan), where(valid, upper, np.nan)


def _densities_inside(a, b, x):
    # A difference from a constant would be simplified.
    one = where(x > 0, lax.full_like(x, 1), 0)
    zero, rest = lax.full_like(x, 0), two_difference(one, x)
    density, log_density = divided(*beta_scale(a, b, (x, zero), rest), x * rest[0])
    return density, where((a == 1) & (b == 1), 0, log_density)


def _densities_slope_a(out, a, b, x):
    slope = log_ratio((a + b) * x, a, b * x - a * (1 - x))
    slope = slope + log_minus_digamma(a) - log_minus_digamma(a + b)
    return out[0] * slope, slope


def _densities_slope_b(out, a, b, x):
    slope = log_ratio((a + b) * (1 - x), b, a * (1 - x) - b * x)
    slope = slope + log_minus_digamma(b) - log_minus_digamma(a + b)
    return out[0] * slope, slope


def _densities_slope_x(out, a, b, x):
    slope = (a - 1) / x - (b - 1) / (1 - x)
    return out[0] * slope, slope


differentiable_densities = differentiable(
    _densities_inside, _densities_slope_a, _densities_slope_b, _densities_slope_x
)


def _densities(z, a, b):
    """Computes the density and its logarithm."""
    a, b = _positive(a), _positive(b)
    inside = (z > 0) & (z < 1) & (a < np.inf) & (b < np.inf)
    density, log_density = differentiable_densities(
        where(inside, a, 1), where(inside, b, 1), where(inside, z, 0.5)
    )
    # At its ends the density is zero, infinite, or the exponent of the other factor plus one.
    at_zero = where(a == 1, lax.log(b), where(a < 1, np.inf, lax.full_like(z, -np.inf)))
    at_one = where(b == 1, lax.log(a), where(b < 1, np.inf, lax.full_like(z, -np.inf)))
    ends = where(z == 0, at_zero, where(z == 1, at_one, -np.inf))
    ends = where((z == z) & (a == a) & (b == b), ends, np.nan)
    return where(inside, density, lax.exp(ends)), where(inside, log_density, ends)


@elementwise("beta")
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the probability density function of the beta distribution.

    Args:
      x: array of values.
      a: array, positive: the exponent of `x` plus one.
      b: array, positive: the exponent of `1 - x` plus one.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.beta.logpdf(0.5, 2.0, 3.0)
    Array(0.405..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_per_scale(_densities(z, a, b)[1], scale)


@elementwise("beta")
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability density function of the beta distribution.

    Args:
      x: array of values.
      a: array, positive: the exponent of `x` plus one.
      b: array, positive: the exponent of `1 - x` plus one.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> round(float(jax.scipy.stats.beta.pdf(0.5, 2.0, 3.0)), 5)
    1.5
    """
    z = standardized(x, loc, scale)
    return _densities(z, a, b)[0] / scale


@elementwise("beta")
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Cumulative distribution function of the beta distribution.

    Args:
      x: array of values.
      a: array, positive: the exponent of `x` plus one.
      b: array, positive: the exponent of `1 - x` plus one.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.beta.cdf(0.5, 2.0, 3.0)
    Array(0.687..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return lax_special.betainc(_positive(a), _positive(b), _clipped(z))


@elementwise("beta")
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the cumulative distribution function of the beta distribution.

    Args:
      x: array of values.
      a: array, positive: the exponent of `x` plus one.
      b: array, positive: the exponent of `1 - x` plus one.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.beta.logcdf(0.5, 2.0, 3.0)
    Array(-0.374..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _log_tails(z, a, b)[0]


@elementwise("beta")
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the beta distribution, 1 - cdf.

    Args:
      x: array of values.
      a: array, positive: the exponent of `x` plus one.
      b: array, positive: the exponent of `1 - x` plus one.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.beta.sf(0.5, 2.0, 3.0)
    Array(0.312..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    below, tail = _smaller_tail(z, _positive(a), _positive(b))
    return where(below, 1 - tail, tail)


@elementwise("beta")
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the survival function of the beta distribution.

    Args:
      x: array of values.
      a: array, positive: the exponent of `x` plus one.
      b: array, positive: the exponent of `1 - x` plus one.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.beta.logsf(0.5, 2.0, 3.0)
    Array(-1.163..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _log_tails(z, a, b)[1]
