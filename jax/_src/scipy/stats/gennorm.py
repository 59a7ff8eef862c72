"""The generalized normal distribution: `jax.scipy.stats.gennorm`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax, special
from jax._src.scipy.special.common import elementwise as differentiable, where
from jax._src.scipy.stats.common import elementwise
from jax._src.typing import ArrayLike


def _positive(beta):
    return where(beta > 0, beta, np.nan)


def _power(x, beta):
    zero = x == 0
    power = where(zero, 0, lax.pow(where(zero, 1, abs(x)), beta))
    return where(beta == beta, power, np.nan)


def _density(x, beta):
    return lax.exp(-_power(x, beta) - special.lgamma(1 / beta + 1)) * 0.5


def _upper_tail(x, beta):
    power = _power(x, beta)
    tail = 0.5 * special.igammac(1 / beta, power)
    return where(_underflows(x, power), 0.5 - x * _density(lax.full_like(beta, 0), beta), tail)


def _underflows(x, power):
    return (power < np.finfo(power.dtype).tiny) & (x < 1)


def _upper_tail_slope_beta(out, x, beta):
    power, a = _power(x, beta), 1 / beta
    by_shape = special.igamma_grad_a(a, power)
    inside = (x > 0) & (power < np.inf)
    y = where(inside, x, 1)
    by_power = y * lax.log(y) * lax.exp(-power - special.lgamma(a)) * beta * beta
    slope = 0.5 * (by_shape - where(inside, by_power, 0))
    near_zero = -x * _density(lax.full_like(beta, 0), beta) * special.digamma(a + 1)
    return where(_underflows(x, power), near_zero, slope) / (beta * beta)


# The derivatives of the function and of the power in it would not be defined at zero.
_differentiable_upper_tail = differentiable(
    _upper_tail, lambda out, x, beta: -_density(x, beta), _upper_tail_slope_beta
)


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
    return _density(x, _positive(beta))


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
    tail = _differentiable_upper_tail(where(x < 0, -x, x), beta)
    return where(x < 0, tail, 1 - tail)
