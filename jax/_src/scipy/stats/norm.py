"""The normal distribution: `jax.scipy.stats.norm`."""

from __future__ import annotations

import math

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy import special
from jax._src.scipy.special.common import where
from jax._src.scipy.special.error import normal_density
from jax._src.scipy.stats.common import elementwise, exponential_correction, scaled_up, standardized
from jax._src.typing import ArrayLike

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _change_of_density(z, rest):
    """Computes by what share the density of z + rest is larger than that of z; not where it is zero to all digits."""
    return where(abs(z) < 1e3, -z * rest, 0)


def _lower_tail(z, rest):
    """Computes the cumulative distribution function of z + rest, where rest is small, and does not count above 0."""
    # The density over the tail to a few digits (Sampford 1953, "Some inequalities on Mill's ratio")
    inside = (z < 0) & (z > -1e3)
    t = lax.stop_gradient(where(inside, -z, 0))
    ratio = 0.25 * (3 * t + lax.sqrt(t * t + 8))
    return special.ndtr(z) * (1 + where(inside, ratio * rest, 0))


def _logpdf(x, loc, scale):
    z = (x - loc) / scale
    return -0.5 * z * z - _HALF_LOG_2PI - lax.log(scale)


@elementwise("norm", analytic=_logpdf)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the normal distribution.

    Args:
      x: array of values.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.logpdf(0.0)
    Array(-0.918..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    # One logarithm of the variance, rather than a sum that may be close to zero, unless that is out of range.
    moderate = (scale > 1e-15) & (scale < 1e15)
    log = lax.log(where(moderate, 2 * math.pi * scale * scale, scale))
    log_size = where(moderate, 0.5 * log, _HALF_LOG_2PI + log)
    return -(0.5 * z * z + log_size)


@elementwise("norm", analytic=lambda *args: lax.exp(_logpdf(*args)))
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the normal distribution.

    Args:
      x: array of values.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.pdf(0.0)
    Array(0.398..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    rest = exponential_correction(z, x, loc, scale)
    return normal_density(z) * (1 + _change_of_density(z, rest)) / scale


@elementwise("norm", weak="never")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the normal distribution.

    Args:
      x: array of values.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.cdf(0.0)
    Array(0.5, dtype=float32)
    """
    z = standardized(x, loc, scale)
    return _lower_tail(z, exponential_correction(z, x, loc, scale))


@elementwise("norm", weak="never", broadcast=False)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the normal distribution.

    Args:
      x: array of values.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.logcdf(0.0)
    Array(-0.693..., dtype=float32)
    """
    # As users write it, so that its exponential agrees with the function of the quotient.
    return special.log_ndtr(standardized(x, loc, scale))


@elementwise("norm", weak="never")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the normal distribution, 1 - cdf.

    Args:
      x: array of values.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.sf(0.0)
    Array(0.5, dtype=float32)
    """
    z = standardized(x, loc, scale)
    return _lower_tail(-z, -exponential_correction(z, x, loc, scale))


@elementwise("norm", weak="never")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the normal distribution.

    Args:
      x: array of values.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.logsf(0.0)
    Array(-0.693..., dtype=float32)
    """
    z = standardized(x, loc, scale)
    return special.log_ndtr(-z)


@elementwise("norm", weak="never")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the normal distribution, the inverse of its cdf.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.ppf(0.5)
    Array(0., dtype=float32)
    """
    return scaled_up(special.ndtri(q), loc, scale)


@elementwise("norm", weak="never")
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Inverse of the survival function of the normal distribution.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      loc: array, the mean.
      scale: array, positive: the standard deviation.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.norm.isf(0.5)
    Array(0., dtype=float32)
    """
    return scaled_up(-special.ndtri(q), loc, scale)
