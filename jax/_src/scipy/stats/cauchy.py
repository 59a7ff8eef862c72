"""The Cauchy distribution: `jax.scipy.stats.cauchy`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import (
    elementwise,
    log1p_square,
    probability,
    scaled_up,
    standardized,
)
from jax._src.typing import ArrayLike


def _pdf(x, loc, scale):
    z = (x - loc) / scale
    return 1 / (math.pi * (1 + z * z) * scale)


def _cdf(z):
    return 0.5 + lax.atan(z) / math.pi


def _tail(z):
    # Without the cancellation of 1/2 - atan(z) / pi.
    return lax.atan2(lax.full_like(z, 1), z) / math.pi


def _log_tail(z):
    upper = z > 0
    far = lax.log(_tail(where(upper, z, 1)))
    return where(upper, far, lax.log1p(-_tail(where(upper, 1, -z))))


def _quantile(q):
    # tan(pi * (q - 1/2)), which is -1 / tan(pi * q)
    low, high = q < 0.25, q > 0.75
    tail = where(high, 1 - q, q)
    end = tail == 0
    far = where(end, -np.inf, -1 / lax.tan(math.pi * where((low | high) & ~end, tail, 0.25)))
    middle = lax.tan(math.pi * (where(low | high, 0.5, q) - 0.5))
    return where(low, far, where(high, -far, middle))


@elementwise("cauchy", analytic=lambda *args: lax.log(_pdf(*args)))
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the Cauchy distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.logpdf(0.0)
    Array(-1.144..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return -log1p_square(z) - lax.log(math.pi * scale)


@elementwise("cauchy", analytic=_pdf)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the Cauchy distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.pdf(0.0)
    Array(0.318..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return 1 / (math.pi * (1 + z * z) * scale)


@elementwise("cauchy", analytic=lambda x, loc, scale: _cdf((x - loc) / scale))
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the Cauchy distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _tail(-z)


@elementwise("cauchy", analytic=lambda x, loc, scale: lax.log(_cdf((x - loc) / scale)))
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the Cauchy distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.logcdf(0.0)
    Array(-0.693..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _log_tail(-z)


@elementwise("cauchy", analytic=lambda x, loc, scale: _cdf((loc - x) / scale))
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the Cauchy distribution, 1 - cdf.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.sf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _tail(z)


@elementwise("cauchy", analytic=lambda x, loc, scale: lax.log(_cdf((loc - x) / scale)))
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the Cauchy distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.logsf(0.0)
    Array(-0.693..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _log_tail(z)


@elementwise("cauchy", analytic=lambda q, loc, scale: loc + scale * lax.tan(math.pi * (q - 0.5)))
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the Cauchy distribution, the inverse of its cdf.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.ppf(0.25)
    Array(-1., dtype=float32, weak_type=True)
    """
    return scaled_up(_quantile(probability(q)), loc, scale)


@elementwise("cauchy", analytic=lambda q, loc, scale: loc + scale * lax.tan(math.pi * (0.5 - q)))
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Inverse of the survival function of the Cauchy distribution.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.cauchy.isf(0.25)
    Array(1., dtype=float32, weak_type=True)
    """
    return scaled_up(-_quantile(probability(q)), loc, scale)
