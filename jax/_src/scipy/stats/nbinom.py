"""The negative binomial distribution: `jax.scipy.stats.nbinom`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.beta import differentiable_densities
from jax._src.scipy.stats.common import elementwise
from jax._src.scipy.stats.deviance import log_binomial
from jax._src.typing import ArrayLike


def _log_mass(k, n, p):
    """Computes the logarithm of the probability of `k` failures before `n` successes."""
    valid = (n > 0) & (n < np.inf) & (p > 0) & (p <= 1) & (k == k)
    inside = valid & (k >= 0) & (k < np.inf)
    k, n, p = where(inside, k, 0), where(inside, n, 1), where(inside, p, 0.5)
    # That of n successes in n + k trials, the last one a success.
    out = log_binomial(n, k, p, 1 - p) + lax.log(n / (n + k))
    return where(valid, where(inside, out, -np.inf), np.nan)


def _mass(k, n, p):
    valid = (n > 0) & (n < np.inf) & (p > 0) & (p <= 1) & (k == k)
    inside = valid & (k >= 0) & (k < np.inf)
    between = inside & (p < 1)
    count, n, q = where(between, k, 0), where(between, n, 1), where(between, p, 0.5)
    # In this order, as the quotient may underflow.
    mass = differentiable_densities(n, count + 1, q)[0] * q / (n + count)
    # At 1, so that the derivative is right
    at_one = where(k == 0, 1 - n * (1 - p), where(k == 1, n * (1 - p), 0))
    out = where(between, mass, where(inside, at_one, 0))
    return where(valid, out, np.nan)


@elementwise("nbinom")
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability mass function of the negative binomial distribution.

    Numbers between integers are interpolated by gamma functions.

    Args:
      k: array of counts.
      n: array, positive: the number of successes.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.nbinom.logpmf(1, 4, 0.25)
    Array(-4.446..., dtype=float32, weak_type=True)
    """
    return _log_mass(k - loc, n, p)


@elementwise("nbinom")
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability mass function of the negative binomial distribution.

    Numbers between integers are interpolated by gamma functions.

    Args:
      k: array of counts.
      n: array, positive: the number of successes.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.nbinom.pmf(1, 4, 0.25)
    Array(0.011..., dtype=float32, weak_type=True)
    """
    return _mass(k - loc, n, p)
