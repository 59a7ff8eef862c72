"""The uniform distribution: `jax.scipy.stats.uniform`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise, probability, scaled_up, standardized
from jax._src.typing import ArrayLike


def _inside(z):
    return (z >= 0) & (z <= 1)


@elementwise("uniform", weak="array")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the uniform distribution.

    Args:
      x: array of values.
      loc: array, the lower end.
      scale: array, positive: the length of the interval.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.uniform.logpdf(0.5)
    Array(-0., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    log_density = where(_inside(z), -lax.log(scale), -np.inf)
    return where(z == z, log_density, np.nan)


@elementwise("uniform", weak="array")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the uniform distribution.

    Args:
      x: array of values.
      loc: array, the lower end.
      scale: array, positive: the length of the interval.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.uniform.pdf(0.5)
    Array(1., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    density = where(_inside(z), 1 / scale, 0)
    return where(z == z, density, np.nan)


@elementwise("uniform", weak="never")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the uniform distribution.

    Args:
      x: array of values.
      loc: array, the lower end.
      scale: array, positive: the length of the interval.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.uniform.cdf(0.5)
    Array(0.5, dtype=float32)
    """
    z = standardized(x, loc, scale)
    return where(z < 0, 0, where(z > 1, 1, z))


@elementwise("uniform", analytic=lambda q, loc, scale: loc + scale * q, weak="array")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the uniform distribution, the inverse of its cdf.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      loc: array, the lower end.
      scale: array, positive: the length of the interval.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.uniform.ppf(0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return scaled_up(probability(q), loc, scale)
