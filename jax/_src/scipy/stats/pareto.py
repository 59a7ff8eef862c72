"""The Pareto distribution: `jax.scipy.stats.pareto`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.lax.special.doubled import two_product
from jax._src.scipy.special.common import elementwise as differentiable, where
from jax._src.scipy.stats.common import (
    elementwise,
    log1mexp,
    log_per_scale,
    power_of_complement,
    scaled_up,
    standardized,
)
from jax._src.typing import ArrayLike


def _inside(z):
    return where(z < 1, 1, z)


def _positive(b):
    return where(b > 0, b, np.nan)


def _defined(out, b):
    return where(b == b, out, np.nan)  # 1 to the power of NaN is 1


def _quantile_value(q, b):
    """Computes (1 - q) ** (-1 / b), corrected by the rounding errors of the base and of the exponent."""
    exponent = -1 / b
    product, error = two_product(exponent, b)
    return _defined(power_of_complement(q, exponent, ((-1 - product) - error) / b), b)


# The derivatives of the correction would be of no use, those of the power alone lose digits of small q.
_quantile = differentiable(
    _quantile_value,
    lambda out, q, b: out / (b * (1 - q)),
    lambda out, q, b: out * (lax.log1p(-q) / b) / b,
)


@elementwise("pareto")
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the Pareto distribution.

    Args:
      x: array of values.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.logpdf(2.0, 3.0)
    Array(-1.673..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    y, b = _inside(z), _positive(b)
    finite = where(b == np.inf, 1, b)
    out = lax.log(finite) - (finite + 1) * lax.log(y)
    all_at_one = where(z == 1, np.inf, lax.full_like(z, -np.inf))
    out = where(b == np.inf, all_at_one, out)
    out = where(z < 1, -np.inf, where(z == z, out, np.nan))
    return log_per_scale(_defined(out, b), scale)


@elementwise("pareto")
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the Pareto distribution.

    Args:
      x: array of values.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.pdf(2.0, 3.0)
    Array(0.187..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    y, b = _inside(z), _positive(b)
    # The sum b + 1 would be rounded.
    out = where((z < 1) | ((z > 1) & (b == np.inf)), 0, b * lax.pow(y, -b) / y)
    return _defined(out, b) / scale


@elementwise("pareto")
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Cumulative distribution function of the Pareto distribution.

    Args:
      x: array of values.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.cdf(2.0, 3.0)
    Array(0.875, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    y, b = _inside(z), _positive(b)
    return _defined(where(z < 1, 0, -lax.expm1(-b * lax.log(y))), b)


@elementwise("pareto", weak="array")
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the cumulative distribution function of the Pareto distribution.

    Args:
      x: array of values.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.logcdf(2.0, 3.0)
    Array(-0.133..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    # At 1 the slope of the logarithm is infinite: outside of the support it is taken at another place.
    y, b = where(z < 1, 2, z), _positive(b)
    return _defined(where(z < 1, -np.inf, log1mexp(b * lax.log(y), lax.pow(y, -b))), b)


@elementwise("pareto")
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Survival function of the Pareto distribution, 1 - cdf.

    Args:
      x: array of values.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.sf(2.0, 3.0)
    Array(0.125, dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    y, b = _inside(z), _positive(b)
    return _defined(where(z < 1, 1, lax.pow(y, -b)), b)


@elementwise("pareto")
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the survival function of the Pareto distribution.

    Args:
      x: array of values.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.logsf(2.0, 3.0)
    Array(-2.079..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    y, b = _inside(z), _positive(b)
    return _defined(where(z < 1, 0, -b * lax.log(y)), b)


@elementwise("pareto", analytic=lambda q, b, loc, scale: loc + scale * lax.pow(1 - q, -1 / b))
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile function of the Pareto distribution, the inverse of its cdf.

    Args:
      q: array of numbers from 0 to 1: the probabilities.
      b: array, positive: the exponent.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.pareto.ppf(0.25, 3.0)
    Array(1.100..., dtype=float32, weak_type=True)
    """
    return scaled_up(_quantile(q, _positive(b)), loc, scale)
