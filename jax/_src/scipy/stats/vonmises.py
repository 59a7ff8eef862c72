"""The von Mises distribution: `jax.scipy.stats.vonmises`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.scipy import special
from jax._src.scipy.special.common import where
from jax._src.scipy.stats.common import elementwise
from jax._src.typing import ArrayLike


def _concentration(kappa):
    return where(kappa >= 0, kappa, np.nan)


def _fall(x, kappa):
    # kappa * (1 - cos(x)), without cancellation
    return 2 * kappa * lax.square(lax.sin(0.5 * x))


def _scaled_period(kappa):
    return 2 * math.pi * special.i0e(kappa)


@elementwise("vonmises", weak="array")
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Logarithm of the probability density function of the von Mises distribution.

    Args:
      x: array of angles.
      kappa: array, not negative: the concentration.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.vonmises.logpdf(0.0, 1.0)
    Array(-1.073..., dtype=float32, weak_type=True)
    """
    kappa = _concentration(kappa)
    return -_fall(x, kappa) - lax.log(_scaled_period(kappa))


@elementwise("vonmises", weak="array")
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Probability density function of the von Mises distribution.

    Args:
      x: array of angles.
      kappa: array, not negative: the concentration.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.vonmises.pdf(0.0, 1.0)
    Array(0.341..., dtype=float32, weak_type=True)
    """
    kappa = _concentration(kappa)
    return lax.exp(-_fall(x, kappa)) / _scaled_period(kappa)
