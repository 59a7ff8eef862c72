"""Logarithms of binomial and Poisson probabilities, without the cancellation of their large terms.

They are differences of few large terms, which Loader, "Fast and accurate computation of binomial
probabilities" (2000), writes as sums of small ones: the deviances of the counts from their means, and the
errors of Stirling's formula. The counts may be real numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src.lax import lax, special
from jax._src.lax.special.doubled import two_product
from jax._src.lax.special.expansions import stirling_error
from jax._src.lax.special.incomplete import log1p_error
from jax._src.lax.special.polynomials import polynomial
from jax._src.lax.special.scales import doubled_deviance
from jax._src.numpy import reductions, util
from jax._src.scipy.special.common import elementwise as differentiable, where


def log_factorial_rest(x: Any) -> Any:
    """Computes log(x!) - x log(x) + x for x >= 0, where 0 log(0) = 0."""
    large = x >= 3
    y = where(large, x, 3)
    far = stirling_error(y) + 0.5 * lax.log((2 * math.pi) * y)
    y = where(large, 1, x)
    near = special.lgamma(y + 1) - _x_log_x(y) + y
    return where(large, far, near)


def _x_log_x(x):
    zero = x == 0
    return where(zero, 0, x * lax.log(where(zero, 1, x)))


def deviance(x: Any, mean: Any, mean_rest: Any = None) -> Any:
    """Computes x log(x / mean) + mean - x, which is not negative, for x, mean >= 0.

    Args:
      x, mean: arrays.
      mean_rest: what the exact mean is larger by than `mean` is.
    """
    positive = (x > 0) & (mean > 0) & (mean < np.inf)
    k, m = where(positive, x, 1), where(positive, mean, 1)
    difference = k - m
    if mean_rest is not None:
        difference = difference - where(positive, mean_rest, 0)
    u = difference / m
    # (1 + u) log(1 + u) - u, which is about u**2 / 2
    close = abs(u) < 0.5
    v = where(close, u, 0)
    near = m * (v * lax.log1p(v) + log1p_error(v))
    k_far, m_far = where(close, 1, k), where(close, 1, m)
    far = k_far * (lax.log(k_far) - lax.log(m_far)) + (m_far - k_far)
    out = where(close, near, far)
    out = where((x > 0) & ((mean == 0) | (mean == np.inf)), np.inf, out)
    return where((x == 0) & (mean >= 0), mean, out)


def scaled_shares(p: Any, total: Any, axis: int) -> tuple[Any, Any, Any]:
    """Computes total * p, what the exact products are larger by, and by how much their sum exceeds the total.

    Args:
      p: array, whose sum along the axis is about 1.
      total: array of the other dimensions.
    """
    totals = lax.expand_dims(total, (axis % p.ndim,))
    totals, p = util.broadcast_arrays(totals, p)
    mean = totals * p
    _, rest = two_product(lax.stop_gradient(totals), lax.stop_gradient(p))
    # The sum of the upper parts is exact.
    steps = 2.0 ** (np.finfo(p.dtype).nmant // 2)
    high = lax.stop_gradient(lax.round(p * steps) / steps)
    excess = (reductions.sum(high, axis=axis) - 1) + reductions.sum(p - high, axis=axis)
    return mean, where(lax.is_finite(rest), rest, 0), total * excess


def _likelihood_inside(x, mean, rest):
    high, low = doubled_deviance(x, (mean, rest))
    return lax.exp(-high) * (1 - where(high < 1e4, low, 0))


def _likelihood_slope_x(out, x, mean, rest):
    return -out * log_ratio(x, mean, x - mean)


def _likelihood_slope_mean(out, x, mean, rest):
    return out * ((x - mean) / mean)


_likelihood = differentiable(_likelihood_inside, _likelihood_slope_x, _likelihood_slope_mean, None)


def likelihood(x: Any, mean: Any, mean_rest: Any) -> Any:
    """Computes exp(-deviance(x, mean, mean_rest)), which keeps the digits of large deviances."""
    positive = (x > 0) & (mean > 0) & (x < np.inf) & (mean < np.inf)
    out = _likelihood(
        where(positive, x, 1), where(positive, mean, 1), where(positive, mean_rest, 0)
    )
    ends = where(x == 0, lax.exp(-where(x == 0, mean, 0)) * (1 - mean_rest), 0)
    return where(positive, out, ends)


def log_poisson(k: Any, mean: Any) -> Any:
    """Computes log(mean**k exp(-mean) / k!) for k >= 0."""
    return -deviance(k, mean) - log_factorial_rest(k)


def log_binomial(x: Any, y: Any, p: Any, q: Any) -> Any:
    """Computes log((x + y)! / (x! y!) p**x q**y) for x, y >= 0 and q = 1 - p."""
    n = x + y
    rest = log_factorial_rest(n) - log_factorial_rest(x) - log_factorial_rest(y)
    return rest - deviance(x, n * p) - deviance(y, n * q)


# ---------------------------------------------------------------------------------------------------
# Densities

# The coefficients of log(x) - digamma(x) - 1 / (2 x) in powers of 1 / x**2; DLMF 5.11.2
_DIGAMMA = (0.0, 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)


def log_minus_digamma(x: Any) -> Any:
    """Computes log(x) - digamma(x) for x > 0, which is about 1 / (2 x) for large x."""
    large = x >= 10
    y = 1 / where(large, x, 10)
    far = 0.5 * y + polynomial(y * y, _DIGAMMA)
    y = where(large, 1, x)
    return where(large, far, lax.log(y) - special.digamma(y))


def log_ratio(x: Any, mean: Any, difference: Any) -> Any:
    """Computes log(x / mean) of positive numbers, whose difference x - mean is given."""
    u = difference / mean
    close = abs(u) < 0.5
    far = lax.log(where(close, 1, x)) - lax.log(where(close, 1, mean))
    return where(close, lax.log1p(where(close, u, 0)), far)


def divided(scale: Any, log_scale: Any, divisor: Any) -> tuple[Any, Any]:
    """Computes scale / divisor, also where the scale underflows, and the logarithm."""
    quotient, log = scale / divisor, log_scale - lax.log(divisor)
    # Near 1 the sum of logarithms would cancel.
    near = (quotient > 1e-3) & (quotient < 1e3)
    underflows = scale < 1e3 * float(np.finfo(scale.dtype).tiny)
    log_quotient = where(near, lax.log(where(near, quotient, 1)), log)
    return where(underflows, lax.exp(log), quotient), log_quotient
