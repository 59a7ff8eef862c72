"""The binomial distribution: `jax.scipy.stats.binom`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.beta import differentiable_densities
from jax._src.scipy.stats.common import elementwise
from jax._src.scipy.stats.deviance import log_binomial
from jax._src.typing import ArrayLike


def _log_mass(k, n, p):
    valid = (n >= 0) & (n < np.inf) & (p >= 0) & (p <= 1) & (k == k)
    inside = valid & (k >= 0) & (k <= n)
    k, n, p = where(inside, k, 0), where(inside, n, 1), where(inside, p, 0.5)
    out = where(inside, log_binomial(k, n - k, p, 1 - p), -np.inf)
    return where(valid, out, np.nan)


def _mass(k, n, p):
    valid = (n >= 0) & (n < np.inf) & (p >= 0) & (p <= 1) & (k == k)
    inside = valid & (k >= 0) & (k <= n)
    between = inside & (p > 0) & (p < 1)
    count, trials, q = where(between, k, 0), where(between, n, 1), where(between, p, 0.5)
    mass = differentiable_densities(count + 1, trials - count + 1, q)[0] / (trials + 1)
    # At the ends, so that the derivative is right
    count, q = where(p == 0, k, n - k), where(p == 0, p, 1 - p)
    at_end = where(count == 0, 1 - n * q, where(count == 1, n * q, 0))
    out = where(between, mass, where(inside, at_end, 0))
    return where(valid, out, np.nan)


@elementwise("binom", weak="array")
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability mass function of the binomial distribution.

    Numbers between integers are interpolated by gamma functions.

    Args:
      k: array of counts.
      n: array, not negative: the number of trials.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.binom.logpmf(1, 4, 0.25)
    Array(-0.863..., dtype=float32, weak_type=True)
    """
    return _log_mass(k - loc, n, p)


@elementwise("binom", weak="array")
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability mass function of the binomial distribution.

    Numbers between integers are interpolated by gamma functions.

    Args:
      k: array of counts.
      n: array, not negative: the number of trials.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.binom.pmf(1, 4, 0.25)
    Array(0.421..., dtype=float32, weak_type=True)
    """
    return _mass(k - loc, n, p)
