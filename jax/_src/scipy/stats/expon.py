"""The exponential distribution: `jax.scipy.stats.expon`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import (
    elementwise,
    exponential_correction,
    log1mexp,
    log_per_scale,
    probability,
    scaled_up,
    standardized,
)
from jax._src.typing import ArrayLike


def _inside(z):
    return where(z < 0, 0, z)


def _upper_tail(z, x, loc, scale):
    return lax.exp(-_inside(z)) * (1 - exponential_correction(z, x, loc, scale))


@elementwise("expon", weak="array")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the exponential distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.logpdf(1.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_per_scale(where(z < 0, -np.inf, -z), scale)


@elementwise("expon", weak="array")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the exponential distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.pdf(1.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return where(z < 0, 0, _upper_tail(z, x, loc, scale)) / scale


@elementwise("expon", weak="array")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the exponential distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.cdf(1.0)
    Array(0.632..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return where(z < 0, 0, -lax.expm1(-_inside(z)))


@elementwise("expon", weak="array")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the exponential distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.logcdf(1.0)
    Array(-0.458..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    tail = _upper_tail(z, x, loc, scale)
    return where(z < 0, -np.inf, log1mexp(_inside(z), tail))


@elementwise("expon", weak="array")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the exponential distribution, 1 - cdf.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.sf(1.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return where(z < 0, 1, _upper_tail(z, x, loc, scale))


@elementwise("expon", weak="array")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the exponential distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.logsf(1.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return where(z < 0, 0, -z)


@elementwise("expon", analytic=lambda q, loc, scale: loc - scale * lax.log1p(-q), weak="array")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the exponential distribution, the inverse of its cdf.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.expon.ppf(0.25)
    Array(0.287..., dtype=float32, weak_type=True)
    """
    return scaled_up(-lax.log1p(-probability(q)), loc, scale)
