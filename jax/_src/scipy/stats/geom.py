"""The geometric distribution: `jax.scipy.stats.geom`."""

from __future__ import annotations

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import elementwise as differentiable, where
from jax._src.scipy.stats.common import elementwise, power_of_complement, x_log_y
from jax._src.typing import ArrayLike


def _inside(k, p):
    """Returns the number of failures, the probability, whether they are inside the support, and valid."""
    valid = (p > 0) & (p <= 1) & (k == k)
    inside = valid & (k > 0) & (k < np.inf)
    return where(inside, k - 1, 0), where(inside, p, 0.5), inside, valid


def _mass_value(failures, p):
    return p * power_of_complement(p, failures, lax.full_like(p, 0))


def _mass_slope_failures(out, failures, p):
    possible = (out > 0) & (p < 1)
    return where(possible, out * lax.log1p(where(possible, -p, 0)), 0)


def _mass_slope_p(out, failures, p):
    some = failures > 0
    fewer = lax.pow(1 - p, where(some, failures - 1, 0))
    return lax.pow(1 - p, failures) - where(some, p * failures * fewer, 0)


_mass = differentiable(_mass_value, _mass_slope_failures, _mass_slope_p)


@elementwise("geom")
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability mass function of the geometric distribution.

    Args:
      k: array of counts.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.geom.logpmf(2, 0.25)
    Array(-1.673..., dtype=float32, weak_type=True)
    """
    failures, p, inside, valid = _inside(k - loc, p)
    out = where(inside, lax.log(p) + x_log_y(failures, 1 - p, -p), -np.inf)
    return where(valid, out, np.nan)


@elementwise("geom")
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability mass function of the geometric distribution.

    Args:
      k: array of counts.
      p: array of numbers from 0 to 1: the probability of success.
      loc: array, added to the counts of the standard distribution.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.geom.pmf(2, 0.25)
    Array(0.187..., dtype=float32, weak_type=True)
    """
    failures, p, inside, valid = _inside(k - loc, p)
    out = where(inside, _mass(failures, p), 0)
    return where(valid, out, np.nan)
