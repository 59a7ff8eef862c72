"""The chi-square distribution: `jax.scipy.stats.chi2`."""

from __future__ import annotations

from jax._src.basearray import Array
from jax._src.scipy.stats.common import elementwise, log_per_scale, standardized
from jax._src.scipy.stats.gamma import densities, log_tails, lower_tail, upper_tail
from jax._src.typing import ArrayLike


@elementwise("chi2")
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the chi-square distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.chi2.logpdf(1.0, 2.0)
    Array(-1.193..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_per_scale(densities(0.5 * z, 0.5 * df)[1], 2 * scale)


@elementwise("chi2")
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the chi-square distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.chi2.pdf(1.0, 2.0)
    Array(0.303..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return 0.5 * densities(0.5 * z, 0.5 * df)[0] / scale


@elementwise("chi2")
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the chi-square distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.chi2.cdf(1.0, 2.0)
    Array(0.393..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return lower_tail(0.5 * z, 0.5 * df)


@elementwise("chi2")
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the chi-square distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.chi2.logcdf(1.0, 2.0)
    Array(-0.932..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_tails(0.5 * z, 0.5 * df)[0]


@elementwise("chi2")
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the chi-square distribution, 1 - cdf.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.chi2.sf(1.0, 2.0)
    Array(0.606..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return upper_tail(0.5 * z, 0.5 * df)


@elementwise("chi2")
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the chi-square distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.chi2.logsf(1.0, 2.0)
    Array(-0.500..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_tails(0.5 * z, 0.5 * df)[1]
