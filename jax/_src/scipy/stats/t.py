"""The Student's t distribution: `jax.scipy.stats.t`."""

from __future__ import annotations

import math

import numpy as np

from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.lax.special.doubled import add_doubled, divide_doubled, two_product
from jax._src.lax.special.scales import beta_scale
from jax._src.scipy import special
from jax._src.scipy.special.common import elementwise as differentiable, where
from jax._src.scipy.stats.common import elementwise, log1p_square, standardized
from jax._src.scipy.stats.deviance import divided, log_minus_digamma
from jax._src.typing import ArrayLike


def _log_density(z, df):
    # Without degrees of freedom it is undefined; with infinitely many it is the normal distribution.
    normal = df == np.inf
    finite = where(df > 0, where(normal, 1, df), np.nan)
    root = lax.sqrt(finite)
    log_power = 0.5 * (finite + 1) * log1p_square(where(normal, 0, z) / root)
    log_constant = -special.betaln(lax.full_like(df, 0.5), 0.5 * finite) - lax.log(root)
    student = log_constant - log_power
    return where(normal, -0.5 * z * z - 0.5 * math.log(2 * math.pi), student)


def _density_inside(z, df):
    # With x = df / (df + z**2) the density is x**(df / 2) (1 - x)**(1 / 2) / B(df / 2, 1 / 2) / abs(z), which nearer to
    # zero than this is constant.
    z = lax.max(abs(z), lax.sqrt(df / (df + 1)) * float(0.4 * np.finfo(z.dtype).eps ** 0.5))
    zero, half = lax.full_like(z, 0), lax.full_like(z, 0.5)
    square = two_product(z, z)
    total = add_doubled((df, zero), square)
    x, y = divide_doubled((df, zero), total), divide_doubled(square, total)
    return divided(*beta_scale(0.5 * df, half, x, y), z)[0]


def _density_slope_z(out, z, df):
    return out * (-(df + 1) * z / (df + z * z))


def _density_slope_df(out, z, df):
    digammas = lax.log1p(1 / df) - log_minus_digamma(0.5 * (df + 1)) + log_minus_digamma(0.5 * df)
    square = z * z
    slope = digammas - 1 / df - lax.log1p(square / df) + (df + 1) / df * (square / (df + square))
    return out * (0.5 * slope)


_differentiable_density = differentiable(_density_inside, _density_slope_z, _density_slope_df)


def _density(z, df):
    info = np.finfo(z.dtype)
    limit = float(1e-3 * info.max) ** 0.5
    usable = (df > float(info.tiny / info.eps**2)) & (df < limit) & (abs(z) < limit)
    out = _differentiable_density(where(usable, z, 0), where(usable, df, 1))
    return where(usable, out, lax.exp(_log_density(z, df)))


@elementwise("t")
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability density function of the Student's t distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.t.logpdf(0.0, 5.0)
    Array(-0.968..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _log_density(z, df) - lax.log(scale)


@elementwise("t")
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability density function of the Student's t distribution.

    Args:
      x: array of values.
      df: array, positive: the degrees of freedom.
      loc: array, added to the values of the standard distribution.
      scale: array, positive: what the values of the standard distribution are multiplied by.

    Returns:
      An array of the shape that the arguments broadcast to.

    >>> jax.scipy.stats.t.pdf(0.0, 5.0)
    Array(0.379..., dtype=float32, weak_type=True)
    """
    z = standardized(x, loc, scale)
    return _density(z, df) / scale
