"""The gamma distribution: `jax.scipy.stats.gamma`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax, special
from jax._src.lax.special.incomplete import (
    log_igamma_tails,
    log_igamma_tails_grad_a,
    log_igamma_tails_grad_x,
)
from jax._src.lax.special.scales import gamma_scale
from jax._src.scipy.special.common import elementwise as differentiable, where
from jax._src.scipy.stats.common import elementwise, log_per_scale, standardized
from jax._src.scipy.stats.deviance import divided, log_minus_digamma, log_ratio
from jax._src.typing import ArrayLike


def _positive(a):
    return where(a > 0, a, np.nan)


def _densities_inside(a, x):
    density, log_density = divided(*gamma_scale(a, x), x)
    return density, where(a == 1, -x, log_density)  # which may be as small as x


def _densities_slope_a(out, a, x):
    slope = log_ratio(x, a, x - a) + log_minus_digamma(a)
    return out[0] * slope, slope


def _densities_slope_x(out, a, x):
    slope = (a - 1 - x) / x
    return out[0] * slope, slope


differentiable_densities = differentiable(_densities_inside, _densities_slope_a, _densities_slope_x)


def densities(z: Any, a: Any) -> tuple[Any, Any]:
    """Computes the density with scale 1, and its logarithm."""
    a = _positive(a)
    inside = (z > 0) & (z < np.inf) & (a < np.inf)
    density, log_density = differentiable_densities(where(inside, a, 1), where(inside, z, 1))
    at_zero = where(a == 1, 0, where(a < 1, np.inf, lax.full_like(z, -np.inf)))
    outside = where(z == 0, at_zero, -np.inf)
    outside = where((z == z) & (a == a), outside, np.nan)
    return where(inside, density, lax.exp(outside)), where(inside, log_density, outside)


def lower_tail(z: Any, a: Any) -> Any:
    """Computes the cumulative distribution function with scale 1."""
    return _inside(special.igamma, z, a, 0)


def upper_tail(z: Any, a: Any) -> Any:
    """Computes the survival function with scale 1."""
    return _inside(special.igammac, z, a, 1)


def _inside(tail, z, a, below):
    # The derivatives at zero can be infinite: a number below it must not be replaced by zero.
    a = _positive(a)
    return where((z < 0) & (a > 0), below, tail(a, where(z < 0, 1, z)))


_log_tails_slope_a = differentiable(log_igamma_tails_grad_a)
_log_tails_slope_x = differentiable(log_igamma_tails_grad_x)
_log_tails = differentiable(
    log_igamma_tails,
    lambda out, a, x: _log_tails_slope_a(a, x),
    lambda out, a, x: _log_tails_slope_x(a, x),
)


def log_tails(z: Any, a: Any) -> tuple[Any, Any]:
    """Computes the logarithms of both tails with scale 1, also where they underflow."""
    # Derivatives outside of the support and at its ends are zero.
    low, high = z <= 0, z == np.inf
    lower, upper = _log_tails(_positive(a), where(low | high, 1, z))
    lower = where(low, -np.inf, where(high, 0, lower))
    upper = where(low, 0, where(high, -np.inf, upper))
    return where(a > 0, lower, np.nan), where(a > 0, upper, np.nan)


@elementwise("gamma")
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the gamma distribution.

    Args:
      x: array of values.
      a: array, positive: the shape.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gamma.logpdf(1.0, 2.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_per_scale(densities(z, a)[1], scale)


@elementwise("gamma")
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the gamma distribution.

    Args:
      x: array of values.
      a: array, positive: the shape.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gamma.pdf(1.0, 2.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return densities(z, a)[0] / scale


@elementwise("gamma")
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the gamma distribution.

    Args:
      x: array of values.
      a: array, positive: the shape.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gamma.cdf(1.0, 2.0)
    Array(0.264..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return lower_tail(z, a)


@elementwise("gamma")
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the gamma distribution.

    Args:
      x: array of values.
      a: array, positive: the shape.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gamma.logcdf(1.0, 2.0)
    Array(-1.330..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_tails(z, a)[0]


@elementwise("gamma", weak="array")
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the gamma distribution, 1 - cdf.

    Args:
      x: array of values.
      a: array, positive: the shape.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gamma.sf(1.0, 2.0)
    Array(0.735..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return upper_tail(z, a)


@elementwise("gamma", weak="array")
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the gamma distribution.

    Args:
      x: array of values.
      a: array, positive: the shape.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gamma.logsf(1.0, 2.0)
    Array(-0.306..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_tails(z, a)[1]
