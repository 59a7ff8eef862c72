"""The Laplace distribution: `jax.scipy.stats.laplace`."""

from __future__ import annotations

import math

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import (
    elementwise,
    exponential_correction,
    standardized,
    tail_exponential,
)
from jax._src.typing import ArrayLike


@elementwise("laplace")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the Laplace distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.laplace.logpdf(0.0)
    Array(-0.693..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return -(abs(z) + (math.log(2) + lax.log(scale)))


@elementwise("laplace")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the Laplace distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.laplace.pdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    rest = exponential_correction(z, x, loc, scale)
    return 0.5 * lax.exp(-abs(z)) * (1 - where(z < 0, -rest, rest)) / scale


@elementwise("laplace")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the Laplace distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.laplace.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    tail = 0.5 * tail_exponential(z, x, loc, scale)
    return where(z < 0, tail, 1 - tail)
