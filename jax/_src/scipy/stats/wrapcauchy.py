"""The wrapped Cauchy distribution: `jax.scipy.stats.wrapcauchy`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise
from jax._src.typing import ArrayLike


def _density(x, c):
    """Returns the density, which is 1 outside of the support, and whether `x` and `c` are inside."""
    inside = (x >= 0) & (x <= 2 * math.pi) & (c > 0) & (c < 1)
    x, c = where(inside, x, 1), where(inside, c, 0.5)
    # 1 + c**2 - 2 * c * cos(x), without cancellation
    distance = lax.square(1 - c) + 4 * c * lax.square(lax.sin(0.5 * x))
    return where(inside, (1 - c) * (1 + c) / (2 * math.pi * distance), 1), inside


def _supported(x, c, out):
    return where((c > 0) & (c < 1) & (x == x), out, np.nan)


@elementwise("wrapcauchy", weak="array")
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Logarithm of the probability density function of the wrapped Cauchy distribution.

    Args:
      x: array of angles.
      c: array of numbers between 0 and 1: the concentration.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.wrapcauchy.logpdf(1.0, 0.5)
    Array(-1.782..., dtype=float32, weak_type=True)
    """
    density, inside = _density(x, c)
    return _supported(x, c, where(inside, lax.log(density), -np.inf))


@elementwise("wrapcauchy", weak="array")
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Probability density function of the wrapped Cauchy distribution.

    Args:
      x: array of angles.
      c: array of numbers between 0 and 1: the concentration.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.wrapcauchy.pdf(1.0, 0.5)
    Array(0.168..., dtype=float32, weak_type=True)
    """
    density, inside = _density(x, c)
    return _supported(x, c, where(inside, density, 0))
