"""The right-skewed Gumbel distribution: `jax.scipy.stats.gumbel_r`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import (
    elementwise,
    exponential_correction,
    log1mexp,
    probability,
    scaled_up,
    standardized,
)
from jax._src.typing import ArrayLike


def density(z: Any, rest: Any) -> Any:
    """Computes exp(-z - exp(-z)) of z + rest, where rest is small."""
    # Two factors have a smaller error than the exponential of a sum; the second is zero for large exp(-z).
    far = z < -10
    tail = lax.exp(-where(far, 0, z))
    return where(far, 0, tail * lax.exp(-tail) * (1 + (tail - 1) * rest))


def log_density(z: Any) -> Any:
    """Computes -z - exp(-z)."""
    return where(z == -np.inf, -np.inf, -z - lax.exp(-z))


def exponential(z: Any, rest: Any) -> Any:
    """Computes exp(-z) of z + rest, where rest is small."""
    return lax.exp(-z) * (1 - rest)


def log_upper_tail(z: Any, rest: Any) -> Any:
    """Computes log(1 - exp(-exp(-z))) of z + rest, where rest is small."""
    # For large z, exp(-z) is smaller than the spacing of numbers at 1, and then zero.
    large = z > 40
    return where(large, -z, log1mexp(exponential(where(large, 0, z), rest)))


def _exponential(x, loc, scale):
    z = standardized(x, loc, scale)
    return exponential(z, exponential_correction(z, x, loc, scale))


@elementwise("gumbel_r", weak="array")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the right-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.logpdf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_density(z) - lax.log(scale)


@elementwise("gumbel_r", weak="array")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the right-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.pdf(0.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return density(z, exponential_correction(z, x, loc, scale)) / scale


@elementwise("gumbel_r", weak="array")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the right-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.cdf(0.0)
    Array(0.367..., dtype=float32, weak_type=True)
    """
    return lax.exp(-_exponential(x, loc, scale))


@elementwise("gumbel_r", weak="array")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the right-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.logcdf(0.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return -_exponential(x, loc, scale)


@elementwise("gumbel_r")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the right-skewed Gumbel distribution, 1 - cdf.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.sf(0.0)
    Array(0.632..., dtype=float32, weak_type=True)
    """
    return -lax.expm1(-_exponential(x, loc, scale))


@elementwise("gumbel_r", weak="array")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the right-skewed Gumbel distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.logsf(0.0)
    Array(-0.458..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return log_upper_tail(z, exponential_correction(z, x, loc, scale))


@elementwise("gumbel_r", weak="array")
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the right-skewed Gumbel distribution, the inverse of its cdf.

    Args:
      p: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gumbel_r.ppf(0.25)
    Array(-0.326..., dtype=float32, weak_type=True)
    """
    return scaled_up(-lax.log(-lax.log(probability(p))), loc, scale)
