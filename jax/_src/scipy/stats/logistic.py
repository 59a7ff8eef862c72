"""The logistic distribution: `jax.scipy.stats.logistic`."""

from __future__ import annotations

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy import special
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise, scaled_up, standardized, tail_exponential
from jax._src.typing import ArrayLike


def _pdf(x, loc, scale):
    tail = lax.exp((loc - x) / scale)
    return tail / (lax.square(1 + tail) * scale)


def _tails(x, loc, scale):
    """Computes the cumulative distribution function and the survival function."""
    z = standardized(x, loc, scale)
    tail = tail_exponential(z, x, loc, scale)
    return where(z < 0, tail, 1) / (1 + tail), where(z < 0, 1, tail) / (1 + tail)


@elementwise("logistic", analytic=lambda *args: lax.log(_pdf(*args)))
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the logistic distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.logistic.logpdf(0.0)
    Array(-1.386..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    below = where(z < 0, z, -z)
    return below - 2 * lax.log1p(lax.exp(below)) - lax.log(scale)


@elementwise("logistic", analytic=_pdf)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the logistic distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.logistic.pdf(0.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    tail = tail_exponential(z, x, loc, scale)
    return tail / (lax.square(1 + tail) * scale)


@elementwise(
    "logistic", analytic=lambda x, loc, scale: 1 / (1 + lax.exp((loc - x) / scale)), weak="array"
)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the logistic distribution.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.logistic.cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _tails(x, loc, scale)[0]


@elementwise(
    "logistic", analytic=lambda x, loc, scale: 1 / (1 + lax.exp((x - loc) / scale)), weak="array"
)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the logistic distribution, 1 - cdf.

    Args:
      x: array of values.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.logistic.sf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _tails(x, loc, scale)[1]


@elementwise("logistic", analytic=lambda x, loc, scale: loc + scale * lax.log(x / (1 - x)))
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the logistic distribution, the inverse of its cdf.

    Args:
      x: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.logistic.ppf(0.25)
    Array(-1.098..., dtype=float32, weak_type=True)
    """
    return scaled_up(special.logit(x), loc, scale)


@elementwise("logistic", analytic=lambda x, loc, scale: loc - scale * lax.log(x / (1 - x)))
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Inverse of the survival function of the logistic distribution.

    Args:
      x: array of numbers from 0 to 1: the probabilities.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.logistic.isf(0.25)
    Array(1.098..., dtype=float32, weak_type=True)
    """
    return scaled_up(-special.logit(x), loc, scale)
