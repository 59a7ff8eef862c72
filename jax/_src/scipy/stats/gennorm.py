"""The generalized normal distribution: `jax.scipy.stats.gennorm`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax, special
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise
from jax._src.typing import ArrayLike


def _positive(beta):
    return where(beta > 0, beta, np.nan)


def _power(x, beta):
    zero = x == 0
    power = where(zero, 0, lax.pow(where(zero, 1, abs(x)), beta))
    return where(beta == beta, power, np.nan)


@elementwise("gennorm", weak="array")
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Logarithm of the probability density function of the generalized normal distribution.

    Args:
      x: array of values.
      beta: array, positive: the exponent, 2 for the normal distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gennorm.logpdf(0.0, 2.0)
    Array(-0.572..., dtype=float32, weak_type=True)
    """
    beta = _positive(beta)
    return -_power(x, beta) - math.log(2) - special.lgamma(1 / beta + 1)


@elementwise("gennorm", weak="array")
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Probability density function of the generalized normal distribution.

    Args:
      x: array of values.
      beta: array, positive: the exponent, 2 for the normal distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gennorm.pdf(0.0, 2.0)
    Array(0.564..., dtype=float32, weak_type=True)
    """
    beta = _positive(beta)
    return lax.exp(-_power(x, beta) - special.lgamma(1 / beta + 1)) * 0.5


@elementwise("gennorm", weak="array")
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Cumulative distribution function of the generalized normal distribution.

    Args:
      x: array of values.
      beta: array, positive: the exponent, 2 for the normal distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.gennorm.cdf(0.0, 2.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    beta = _positive(beta)
    tail = 0.5 * special.igammac(1 / beta, _power(x, beta))
    return where(x < 0, tail, 1 - tail)
