"""The Poisson distribution: `jax.scipy.stats.poisson`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax, special
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.special.polynomials import polynomial
from jax._src.scipy.special.common import elementwise as special_elementwise, where
from jax._src.scipy.stats.common import elementwise
from jax._src.scipy.stats.deviance import log_poisson
from jax._src.scipy.stats.gamma import differentiable_densities
from jax._src.typing import ArrayLike


def _log_mass(k, mu):
    valid = (mu >= 0) & (k == k)
    inside = valid & (k >= 0) & (k < np.inf) & (k == lax.floor(k))
    k, mu = where(inside, k, 0), where(inside, mu, 1)
    return where(valid, where(inside, log_poisson(k, mu), -np.inf), np.nan)


def _mass(k, mu):
    valid = (mu >= 0) & (k == k)
    inside = valid & (k >= 0) & (k < np.inf) & (k == lax.floor(k))
    positive = inside & (mu > 0) & (mu < np.inf)
    # As a function of the mean it is a density of the gamma distribution.
    count, mean = where(positive, k, 0), where(positive, mu, 1)
    mass = differentiable_densities(count + 1, mean)[0]
    # At zero, so that the derivative is right
    at_zero = where(k == 0, 1 - mu, where(k == 1, mu, 0))
    out = where(positive, mass, where(inside & (mu == 0), at_zero, 0))
    return where(valid, out, np.nan)


# Coefficients of the powers of 1 / mu in the entropy less log(2 pi e mu) / 2
_ENTROPY_SERIES = (
    *(-1 / 12, -1 / 24, -19 / 360, -9 / 80, -863 / 2520, -1375 / 1008),
    *(-33953 / 5040, -57281 / 1440, -3250433 / 11880),
)


def _entropy_value(mu):
    # Up to this mean the sum over all counts is taken, above it the asymptotic series is accurate.
    largest, terms = (20, 80) if mu.dtype == np.float32 else (100, 260)
    by_sum = mu < largest
    mean = where(by_sum & (mu > 0), mu, 1)

    def body(k, total):
        log_mass = log_poisson(0 * mean + lax.convert_element_type(k, mu.dtype), mean)
        return total - lax.exp(log_mass) * log_mass

    summed = fori_loop(0, terms, body, lax.full_like(mu, 0))
    large = where(by_sum, largest, mu)
    series = polynomial(1 / large, (0.0, *_ENTROPY_SERIES))
    far = 0.5 * lax.log((2 * math.pi * math.e) * large) + series
    return where(mu == 0, 0, where(by_sum, summed, far))


_entropy = special_elementwise(_entropy_value)


@elementwise("poisson", weak="array")
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability mass function of the Poisson distribution.

    Args:
      k: array of counts.
      mu: array, not negative: the mean.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.poisson.logpmf(1, 2.0)
    Array(-1.306..., dtype=float32, weak_type=True)
    """
    return _log_mass(k - loc, mu)


@elementwise("poisson", weak="array")
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability mass function of the Poisson distribution.

    Args:
      k: array of counts.
      mu: array, not negative: the mean.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.poisson.pmf(1, 2.0)
    Array(0.270..., dtype=float32, weak_type=True)
    """
    return _mass(k - loc, mu)


@elementwise("poisson")
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Cumulative distribution function of the Poisson distribution.

    Args:
      k: array of counts.
      mu: array, not negative: the mean.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.poisson.cdf(1, 2.0)
    Array(0.406..., dtype=float32, weak_type=True)
    """
    k, mu = lax.floor(k - loc), where(mu >= 0, mu, np.nan)
    inside = (k >= 0) & (k < np.inf) & (mu > 0) & (mu < np.inf)
    out = special.igammac(where(inside, k + 1, 1), where(inside, mu, 1))
    # All counts are below infinity, and 0 is the only one of mean 0.
    outside = where((k < 0) | ((mu == np.inf) & (k < np.inf)), 0, lax.full_like(k, 1))
    return where((k == k) & (mu == mu), where(inside, out, outside), np.nan)


@elementwise("poisson", weak="never")
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Entropy of the Poisson distribution, in nats.

    Args:
      mu: array, not negative: the mean.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.poisson.entropy(2.0)
    Array(1.704..., dtype=float32)
    """
    return _entropy(where(mu >= 0, mu, np.nan)) + 0 * loc
