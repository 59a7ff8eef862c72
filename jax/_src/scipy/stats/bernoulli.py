"""The Bernoulli distribution: `jax.scipy.stats.bernoulli`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise, probability, x_log_y
from jax._src.typing import ArrayLike


@elementwise("bernoulli")
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability mass function of the Bernoulli distribution.

    A number between 0 and 1 has the weighted geometric mean of their probabilities.

    Args:
      k: array of counts.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.bernoulli.logpmf(1, 0.25)
    Array(-1.386..., dtype=float32, weak_type=True)
    """
    k, p = k - loc, probability(p)
    inside = (k >= 0) & (k <= 1)
    s = where(inside, k, 0)
    out = where(inside, x_log_y(s, p) + x_log_y(1 - s, 1 - p, -p), -np.inf)
    return where((k == k) & (p == p), out, np.nan)


@elementwise("bernoulli")
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability mass function of the Bernoulli distribution.

    A number between 0 and 1 has the weighted geometric mean of their probabilities.

    Args:
      k: array of counts.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.bernoulli.pmf(1, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    k, p = k - loc, probability(p)
    out = where(k == 0, 1 - p, where(k == 1, p, 0))
    between = (k > 0) & (k < 1)
    s = where(between, k, 0.5)
    out = where(between, lax.exp(x_log_y(s, p) + x_log_y(1 - s, 1 - p, -p)), out)
    return where((k == k) & (p == p), out, np.nan)


@elementwise("bernoulli")
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """Cumulative distribution function of the Bernoulli distribution.

    Args:
      k: array of counts.
      p: array of numbers from 0 to 1: the probability of success.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.bernoulli.cdf(1, 0.25)
    Array(1., dtype=float32, weak_type=True)
    """
    p = probability(p)
    out = where(k < 0, 0, where(k < 1, 1 - p, 1))
    return where((k == k) & (p == p), out, np.nan)


@elementwise("bernoulli")
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """Quantile function of the Bernoulli distribution, the inverse of its cdf.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      p: array of numbers from 0 to 1: the probability of success.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.bernoulli.ppf(0.25, 0.25)
    Array(0., dtype=float32, weak_type=True)
    """
    q, p = probability(q), probability(p)
    out = where(q <= 1 - p, 0, lax.full_like(q, 1))
    return where((q == q) & (p == p), out, np.nan)
