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
from jax._src.lax.special.expansions import stirling_error
from jax._src.lax.special.incomplete import log1p_error
from jax._src.lax.special.polynomials import polynomial
from jax._src.scipy.special.common import where


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


def deviance(x: Any, mean: Any) -> Any:
    """Computes x log(x / mean) + mean - x, which is not negative, for x, mean >= 0."""
    positive = (x > 0) & (mean > 0) & (mean < np.inf)
    k, m = where(positive, x, 1), where(positive, mean, 1)
    u = (k - m) / m
    # (1 + u) log(1 + u) - u, which is about u**2 / 2
    close = abs(u) < 0.5
    v = where(close, u, 0)
    near = m * (v * lax.log1p(v) + log1p_error(v))
    k_far, m_far = where(close, 1, k), where(close, 1, m)
    far = k_far * (lax.log(k_far) - lax.log(m_far)) + (m_far - k_far)
    out = where(close, near, far)
    out = where((x > 0) & ((mean == 0) | (mean == np.inf)), np.inf, out)
    return where((x == 0) & (mean >= 0), mean, out)


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
