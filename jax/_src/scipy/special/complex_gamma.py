"""The gamma function of complex numbers and its logarithm.

Hare, "Computing the principal branch of log-gamma" (1997).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.scipy.special.common import where

_SHIFT = 8
# Coefficients of Stirling's series, DLMF 5.11.1, B_2k / (2k (2k - 1)), and of its derivative.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _series(z, coefficients):
    w = 1 / (z * z)
    out = lax.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = out * w + c
    return out


def _right_half(z):
    """Computes the logarithm of the gamma function where the real part is at least 1/2."""
    near = (lax.real(z) < _SHIFT) & (abs(lax.imag(z)) < _SHIFT)
    moved = where(near, z + _SHIFT, z)
    out = (z - 0.5) * lax.log(moved) - z + 0.5 * math.log(2 * math.pi)
    rest = _series(moved, [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]) / moved
    # What the rounding of z + 8 leaves out
    x = lax.real(moved)
    rounded = lax.complex(where(near, lax.real(z) - (x - _SHIFT), 0), lax.full_like(x, 0))
    out = out + (rest + rounded * (1 - 0.5 / moved))
    # Recurrence to a real part of at least 8: logarithms of products of e (z + k) / (z + 8), which are
    # of the size of the result. The angle of four such factors is below pi, so each has the right branch.
    inverse = 1 / (moved * moved)
    scale = math.exp(_SHIFT / 2) * (inverse * inverse)
    for first in (0, _SHIFT // 2):
        product = z + first if first else z
        for k in range(first + 1, first + _SHIFT // 2):
            product = product * (z + k)
        product = where(near, product * scale, 1)
        # Unlike the complex logarithm's relative error, the absolute one is small near 1.
        x, y = lax.real(product), lax.imag(product)
        out = out - lax.complex(0.5 * lax.log(x * x + y * y), lax.atan2(y, x))
    return out


def _log_sin_pi(z):
    """Computes the logarithm of sin(pi z) with the branch that reflection needs, for Im z >= 0."""
    # sin(pi z) = i/2 exp(-i pi z) (1 - exp(2 pi i z)), whose last factor has principal logarithm.
    x, y = lax.real(z), lax.imag(z)
    whole = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    f = x - whole
    # 1 - exp(2 pi i z) = -expm1(-2 pi y) + 2 exp(-2 pi y) (sin(pi f)^2 - i sin(pi f) cos(pi f))
    decay = lax.exp(-2 * math.pi * y)
    s, c = lax.sin(math.pi * f), lax.cos(math.pi * f)
    real = -lax.expm1(-2 * math.pi * y) + 2 * decay * s * s
    imag = -2 * decay * s * c
    log_factor = lax.complex(lax.log(lax.sqrt(real * real + imag * imag)), lax.atan2(imag, real))
    return lax.complex(math.pi * y - math.log(2.0), math.pi * (0.5 - x)) + log_factor


@nested_jit
def _loggamma_value(z):
    x, y = lax.real(z), lax.imag(z)
    lower = (y < 0) | ((y == 0) & (lax.sign(1 / y) < 0))
    z = lax.complex(x, abs(y))
    left = x < 0.5
    out = _right_half(where(left, 1 - z, z))
    mirrored = math.log(math.pi) - _log_sin_pi(where(left, z, 0.25 + 0.25j)) - out
    out = where(left, mirrored, out)
    out = lax.complex(lax.real(out), where(lower, -lax.imag(out), lax.imag(out)))
    pole = (y == 0) & (x <= 0) & (x == lax.floor(x))
    bad = lax.complex(lax.full_like(x, np.nan), lax.full_like(x, np.nan))
    infinite = (x == np.inf) & (y == 0)
    out = where(infinite, lax.complex(lax.full_like(x, np.inf), lax.full_like(x, 0)), out)
    return where(pole, bad, out)


@custom_jvp
def complex_loggamma(z: Any) -> Any:
    """Computes the principal branch of the logarithm of the gamma function."""
    return _loggamma_value(z)


@complex_loggamma.defjvp
def _loggamma_jvp(primals, tangents):
    (z,), (t,) = primals, tangents
    return complex_loggamma(z), t * complex_digamma(z)


@custom_jvp
def complex_gamma(z: Any) -> Any:
    """Computes the gamma function of complex numbers."""
    return _gamma_value(z)


@nested_jit
def _gamma_value(z):
    return lax.exp(_loggamma_value(z))


@complex_gamma.defjvp
def _gamma_jvp(primals, tangents):
    (z,), (t,) = primals, tangents
    out = complex_gamma(z)
    return out, t * out * complex_digamma(z)


@nested_jit
def complex_digamma(z: Any) -> Any:
    """Computes the digamma function by reflection, recurrence and its asymptotic series, DLMF 5.5, 5.11."""
    left = lax.real(z) < 0.5
    mirrored = where(left, 1 - z, z)
    near = lax.real(mirrored) < _SHIFT
    moved = where(near, mirrored + _SHIFT, mirrored)
    total = lax.full_like(z, 0)
    for k in range(_SHIFT):
        total = total + where(near, 1 / (mirrored + k), 0)
    series = _series(moved, [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]) / (moved * moved)
    out = lax.log(moved) - 0.5 / moved - series - total
    # The cotangent has period 1, and tends to -i or i far from the real axis.
    f = z - lax.round(lax.real(z), lax.RoundingMethod.TO_NEAREST_EVEN)
    far = abs(lax.imag(z)) > 20
    angle = where(far, 0.25, math.pi * where(left, f, 0.25))
    limit = lax.complex(lax.full_like(lax.real(z), 0), -lax.sign(lax.imag(z)))
    cotangent = where(far, limit, lax.cos(angle) / lax.sin(angle))
    return where(left, out - math.pi * cotangent, out)
