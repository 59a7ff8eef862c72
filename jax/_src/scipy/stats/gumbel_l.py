"""The left-skewed Gumbel distribution: `jax.scipy.stats.gumbel_l`."""

from __future__ import annotations

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.stats.common import (
    elementwise,
    exponential_correction,
    probability,
    scaled_up,
    standardized,
)
from jax._src.scipy.stats.gumbel_r import density, exponential, log_density, log_upper_tail
from jax._src.typing import ArrayLike


def _exponential(x, loc, scale):
    z = standardized(x, loc, scale)
    return exponential(-z, -exponential_correction(z, x, loc, scale))


@elementwise("gumbel_l", weak="array")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the left-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.logpdf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_density(-z) - lax.log(scale)


@elementwise("gumbel_l", weak="array")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the left-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.pdf(0.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return density(-z, -exponential_correction(z, x, loc, scale)) / scale


@elementwise("gumbel_l", weak="array")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the left-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.cdf(0.0)
    Array(0.632..., dtype=float32, weak_type=True)
    """
    return -lax.expm1(-_exponential(x, loc, scale))


@elementwise("gumbel_l", weak="array")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the left-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.logcdf(0.0)
    Array(-0.458..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_upper_tail(-z, -exponential_correction(z, x, loc, scale))


@elementwise("gumbel_l", weak="array")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the left-skewed Gumbel distribution, 1 - cdf.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.sf(0.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    return lax.exp(-_exponential(x, loc, scale))


@elementwise("gumbel_l", weak="array")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the left-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.logsf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return -_exponential(x, loc, scale)


@elementwise("gumbel_l", weak="array")
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the left-skewed Gumbel distribution, the inverse of its cdf.

    Args:
      p: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_l.ppf(0.25)
    Array(-1.245..., dtype=float32, weak_type=True)
    """
    return scaled_up(lax.log(-lax.log1p(-probability(p))), loc, scale)
