"""The Student's t distribution: `jax.scipy.stats.t`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy import special
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise, log1p_square, standardized
from jax._src.typing import ArrayLike


def _log_density(z, df):
    # Without degrees of freedom it is undefined; with infinitely many it is the normal distribution.
    normal = df == np.inf
    finite = where(df > 0, where(normal, 1, df), np.nan)
    root = lax.sqrt(finite)
    log_power = 0.5 * (finite + 1) * log1p_square(where(normal, 0, z) / root)
    log_constant = -special.betaln(lax.full_like(df, 0.5), 0.5 * finite) - lax.log(root)
    student = log_constant - log_power
    return where(normal, -0.5 * z * z - 0.5 * math.log(2 * math.pi), student)


@elementwise("t")
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the Student's t distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.t.logpdf(0.0, 5.0)
    Array(-0.968..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _log_density(z, df) - lax.log(scale)


@elementwise("t")
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the Student's t distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.t.pdf(0.0, 5.0)
    Array(0.379..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return lax.exp(_log_density(z, df)) / scale
