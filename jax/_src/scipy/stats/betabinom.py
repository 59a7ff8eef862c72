"""The beta-binomial distribution: `jax.scipy.stats.betabinom`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.beta import differentiable_densities
from jax._src.scipy.stats.common import elementwise
from jax._src.scipy.stats.deviance import log_binomial
from jax._src.typing import ArrayLike


def _masks(k, n, a, b):
    valid = (n >= 0) & (n < np.inf) & (a > 0) & (b > 0) & (k == k)
    return valid, valid & (k >= 0) & (k <= n)


def _log_mass(k, n, a, b):
    k = lax.floor(k)
    valid, inside = _masks(k, n, a, b)
    k, n = where(inside, k, 0), where(inside, n, 1)
    a, b = where(inside, a, 1), where(inside, b, 1)
    failures = n - k
    # The ratio of beta functions is one of binomial probabilities for the posterior mean.
    p, total = (k + a) / (n + a + b), n + a + b
    q = (failures + b) / total
    ratio = log_binomial(k, failures, p, q) + log_binomial(a, b, p, q)
    ratio = ratio - log_binomial(k + a, failures + b, p, q)
    out = ratio + lax.log(a / (k + a)) + lax.log(b / (failures + b)) - lax.log((a + b) / total)
    return where(valid, where(inside, out, -np.inf), np.nan)


def _mass(k, n, a, b):
    """Computes the mass by Bayes' theorem, at a probability near the posterior mean, without a sum of logarithms."""
    k = lax.floor(k)
    valid, inside = _masks(k, n, a, b)
    inside = inside & (a < np.inf) & (b < np.inf)
    # The complement of the probability is rounded, so this must not be close to 1.
    swap = k + a > (n - k) + b
    k, a, b = where(swap, n - k, k), where(swap, b, a), where(swap, a, b)
    k, n, a, b = (where(inside, x, 1) for x in (k, n, a, b))
    # The result does not depend on the probability.
    least = 1e3 * float(np.finfo(a.dtype).tiny)
    p = lax.stop_gradient((k + a) / (n + a + b))
    p = where(p > least, p, least)
    likelihood, log_likelihood = differentiable_densities(k + 1, n - k + 1, p)
    prior, log_prior = differentiable_densities(a, b, p)
    posterior, log_posterior = differentiable_densities(k + a, n - k + b, p)
    usable = inside
    for density in (likelihood, prior, posterior):
        usable = usable & (density > least) & (density < 1 / least)
    ratio = where(usable, prior, 1) / where(usable, posterior, 1)
    out = where(usable, where(usable, likelihood, 1) * ratio, 1)
    log_out = log_likelihood + (log_prior - log_posterior)
    out = where(usable, out, lax.exp(where(usable, 0, log_out))) / (n + 1)
    return where(valid, where(inside, out, 0), np.nan)


@elementwise("betabinom")
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability mass function of the beta-binomial distribution.

    Counts between integers are rounded down, as in the original; SciPy's result is that of zero probability.

    Args:
      k: array of counts.
      n: array, not negative: the number of trials.
      a: array, positive: a parameter of the beta distribution.
      b: array, positive: a parameter of the beta distribution.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.betabinom.logpmf(1, 4, 2.0, 3.0)
    Array(-1.252..., dtype=float32, weak_type=True)
    """
    return _log_mass(k - loc, n, a, b)


@elementwise("betabinom")
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability mass function of the beta-binomial distribution.

    Counts between integers are rounded down, as in the original; SciPy's result is that of zero probability.

    Args:
      k: array of counts.
      n: array, not negative: the number of trials.
      a: array, positive: a parameter of the beta distribution.
      b: array, positive: a parameter of the beta distribution.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.betabinom.pmf(1, 4, 2.0, 3.0)
    Array(0.285..., dtype=float32, weak_type=True)
    """
    return _mass(k - loc, n, a, b)
