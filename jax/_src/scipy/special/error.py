"""Integrals of normal densities: error functions, the normal distribution, Fresnel integrals."""

from __future__ import annotations

import functools
import math

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, special
from jax._src.lax.special import quantiles
from jax._src.lax.special.doubled import split, two_difference, two_product
from jax._src.lax.special.expansions import accurate_log1p
from jax._src.lax.special.normal import erfcx_positive, exp_minus_square
from jax._src.lax.special.polynomials import piecewise
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.util import check_arraylike
from jax._src.scipy.special.common import (
    elementwise,
    export,
    in_single_or_double,
    inexact_args,
    only_single_or_double,
    real_args,
    where,
)
from jax._src.scipy.special.error_tables import (
    DAWSON,
    DAWSON_TAIL,
    FRESNEL_C,
    FRESNEL_F,
    FRESNEL_G,
    FRESNEL_S,
)
from jax._src.typing import ArrayLike

_SQRT_PI = math.sqrt(math.pi)
_SQRT_2PI = math.sqrt(2 * math.pi)


@export
def erf(x: ArrayLike) -> Array:
    """Elementwise error function.

    Args:
      x: real array.

    >>> jax.scipy.special.erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return special.erf(*inexact_args("erf", x))


@export
def erfc(x: ArrayLike) -> Array:
    """Elementwise complementary error function, 1 - erf(x), accurate for large x.

    Args:
      x: real array.

    >>> jax.scipy.special.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return special.erfc(*inexact_args("erfc", x))


# ---------------------------------------------------------------------------------------------------
# Scaled error functions: of real numbers by a mapping of Shepherd and Laframboise (1981)


def _erfcx(x):
    y = abs(x)
    positive = erfcx_positive(y)
    # 2 exp(x**2) - erfcx(-x), with the square's low bits
    square, rest = two_product(*[where(y < 30, y, 0)] * 2)
    power = where(y < 30, lax.exp(square), np.inf)
    power = power + where(power < np.inf, power, 0) * rest
    return where(x < 0, 2 * power - positive, positive)


_erfcx.__name__ = "erfcx"
_real_erfcx = elementwise(_erfcx, lambda out, x: 2 * x * out - 2 / _SQRT_PI)


@export
def erfcx(x: ArrayLike) -> Array:
    """Elementwise scaled complementary error function exp(x**2) * erfc(x).

    Args:
      x: real or complex array.

    >>> jax.scipy.special.erfcx(0.0)
    Array(1., dtype=float32)
    """
    (x,) = inexact_args("erfcx", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return _wofz(lax.mul(lax.convert_type(x, x.dtype, False), lax.full_like(x, 1j)))
    return in_single_or_double(_real_erfcx, x)


@functools.cache
def _weideman(n):
    """Coefficients of Weideman, "Computation of the complex error function" (1994), and their scale."""
    scale = math.sqrt(n / math.sqrt(2))
    m = 2 * n
    t = scale * np.tan(np.arange(-m + 1, m) * math.pi / (2 * m))
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    coefficients = np.fft.fft(np.fft.fftshift(values)).real / (2 * m)
    return coefficients[1 : n + 1].tolist(), scale


@nested_jit
def _wofz_value(z):
    single = z.dtype == np.complex64
    coefficients, scale = _weideman(20 if single else 56)
    lower = lax.imag(z) < 0
    u = where(lower, -z, z)
    x, y = lax.real(u), lax.imag(u)
    # Laplace's continued fraction far from the origin, DLMF 7.9.3, and the mapped series elsewhere
    far = x * x + y * y > (64 if single else 256)
    i = lax.complex(lax.full_like(x, 0), lax.full_like(x, 1))
    near = where(far, i, u)
    d = 1 / (scale - i * near)
    mapped = (scale + i * near) * d
    p = lax.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        p = p * mapped + c
    out = 2 * p * d * d + d / _SQRT_PI
    away = where(far, u, 10j)
    tail = away
    for k in range(12, 0, -1):
        tail = away - (0.5 * k) / tail
    out = where(far, i / (_SQRT_PI * tail), out)
    # On the real axis the real part is the exponential alone.
    on_axis = y == 0
    real = where(on_axis, exp_minus_square(x), lax.real(out))
    imag = where(on_axis, 2 / _SQRT_PI * _dawsn(x), lax.imag(out))
    out = lax.complex(real, where(x == 0, 0, imag))
    infinite = abs(x) == np.inf
    out = where(infinite, lax.complex(lax.full_like(x, 0), lax.full_like(x, 0)), out)
    # w(-z) = 2 exp(-z**2) - w(z), DLMF 7.4.3; with z in the upper half-plane
    return where(lower, _twice_exp_minus_square(x, y) - out, out)


def _twice_exp_minus_square(x, y):
    """Returns 2 exp(-(x + i y)**2), with the low bits of the square, and infinite parts where it overflows."""
    (xx, xx_rest), (yy, yy_rest), (xy, xy_rest) = (
        two_product(*p) for p in ((x, x), (y, y), (x, y))
    )
    exponent, rest = two_difference(yy, xx)
    rest = rest + (yy_rest - xx_rest)
    rest = where(lax.is_finite(rest), rest, 0)
    angle_rest = where(lax.is_finite(xy_rest), 2 * xy_rest, 0)
    # Half of the exponent, as the exponential may be out of range where its products are not.
    half = lax.exp(0.5 * where(exponent == exponent, exponent, (y - x) * (y + x)))
    cos, sin = lax.cos(2 * xy), lax.sin(2 * xy)
    real = cos - sin * angle_rest + cos * rest
    imag = -sin - cos * angle_rest - sin * rest
    # On the axes the imaginary part is zero, also where the exponential is infinite; and both are at infinity.
    real = where(half == 0, 0, 2 * (half * real) * half)
    imag = where(sin == 0, -sin, 2 * (half * imag) * half)
    return lax.complex(real, where(half == 0, 0, imag))


@custom_jvp
def _wofz(z):
    return _wofz_value(z)


@_wofz.defjvp
def _wofz_jvp(primals, tangents):
    (z,), (t,) = primals, tangents
    out = _wofz(z)
    i = lax.full_like(z, 1j)
    return out, t * (2 / _SQRT_PI * i - 2 * z * out)


@export
def wofz(z: ArrayLike) -> Array:
    """Elementwise Faddeeva function exp(-z**2) * erfc(-i z).

    Args:
      z: real or complex array.

    Returns:
      A complex array.

    >>> jax.scipy.special.wofz(0.0)
    Array(1.+0.j, dtype=complex64)
    """
    (z,) = inexact_args("wofz", z)
    double = z.dtype in (np.float64, np.complex128)
    return _wofz(lax.convert_type(z, np.complex128 if double else np.complex64, False))


def _dawsn(x):
    y = abs(x)
    small = piecewise(DAWSON, where(y < 6, y, 1)) * x
    tail = piecewise(DAWSON_TAIL, 1 / lax.square(where(y < 6, 6, y))) * (0.5 / where(y < 6, 1, x))
    return where(y < 6, small, tail)


_dawsn.__name__ = "dawsn"
_dawsn_fun = elementwise(_dawsn, lambda out, x: 1 - 2 * x * out)


@export
def dawsn(x: ArrayLike) -> Array:
    """Elementwise Dawson function exp(-x**2) * integral of exp(t**2) from 0 to x.

    Args:
      x: real array.

    >>> jax.scipy.special.dawsn(0.0)
    Array(0., dtype=float32)
    """
    return in_single_or_double(_dawsn_fun, *real_args("dawsn", x))


# ---------------------------------------------------------------------------------------------------
# Fresnel integrals


def _quarter_turns(x):
    """Returns x**2 modulo 4, without the rounding error of the square."""
    high, low = split(x)
    turns = lax.rem(high * high, lax.full_like(x, 4))
    return turns + lax.rem(low * (high + x), lax.full_like(x, 4))


def _fresnel(x):
    y = abs(x)
    near = y * y < math.sqrt(6)
    z = where(near, y, 1)
    w = lax.square(lax.square(z))
    s = piecewise(FRESNEL_S, w) * (z * z * z)
    c = piecewise(FRESNEL_C, w) * z
    huge = 1e10 if x.dtype == np.float32 else 1e70
    z = where(near | ~(y < huge), 2, y)
    v = 1 / (z * z)
    f = piecewise(FRESNEL_F, v * v) / (math.pi * z)
    g = piecewise(FRESNEL_G, v * v) * v / (math.pi**2 * z)
    angle = 0.5 * math.pi * _quarter_turns(z)
    sin, cos = lax.sin(angle), lax.cos(angle)
    s = where(near, s, 0.5 - f * cos - g * sin)
    c = where(near, c, 0.5 + f * sin - g * cos)
    s, c = (where(y >= huge, 0.5, v) for v in (s, c))
    s, c = (where(x < 0, -v, v) for v in (s, c))
    return where(x == x, where(x == 0, x, s), np.nan), where(x == x, c, np.nan)


@custom_jvp
def _angle(x):
    """Returns pi / 2 x**2 modulo 2 pi, whose derivative is pi x."""
    return 0.5 * math.pi * _quarter_turns(x)


@_angle.defjvp
def _angle_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return _angle(x), math.pi * x * t


_fresnel.__name__ = "fresnel"
_fresnel_fun = elementwise(_fresnel, lambda out, x: (lax.sin(_angle(x)), lax.cos(_angle(x))))


@export
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Elementwise Fresnel integrals of sin(pi t**2 / 2) and of cos(pi t**2 / 2), from 0 to x.

    Args:
      x: real array.

    Returns:
      The integrals of the sine and of the cosine.

    Raises:
      NotImplementedError: if `x` is complex.

    >>> jax.scipy.special.fresnel(0.0)
    (Array(0., dtype=float32), Array(0., dtype=float32))
    """
    (x,) = inexact_args("fresnel", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise NotImplementedError(
            "jax.scipy.special.fresnel of complex numbers is not implemented. Pass real numbers."
        )
    return in_single_or_double(_fresnel_fun, x)


# ---------------------------------------------------------------------------------------------------
# The normal distribution


def _ndtr(x):
    s = x * math.sqrt(0.5)
    tail = 0.5 * erfcx_positive(abs(s)) * exp_minus_square(x, 0.5)
    out = where(x > 0, 1 - tail, tail)
    return where(abs(x) < 1, 0.5 + 0.5 * special.erf(s), out)


_ndtr.__name__ = "ndtr"
_ndtr_fun = elementwise(_ndtr, lambda out, x: normal_density(x))


def _normal_density(x):
    return exp_minus_square(x, 0.5) / _SQRT_2PI


normal_density = elementwise(_normal_density, lambda out, x: -x * out)


@export
def ndtr(x: ArrayLike) -> Array:
    """Elementwise distribution function of the normal distribution.

    Args:
      x: array of float32 or float64.

    Raises:
      TypeError: if `x` has another dtype.

    >>> jax.scipy.special.ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    return _ndtr_fun(only_single_or_double("ndtr", asarray(x)))


_ndtri_fun = elementwise(quantiles.ndtri, lambda out, p: _SQRT_2PI * lax.exp(0.5 * lax.square(out)))
_erfinv_fun = elementwise(quantiles.erfinv, lambda out, x: _SQRT_PI / 2 * lax.exp(lax.square(out)))


@export
def erfinv(x: ArrayLike) -> Array:
    """Elementwise inverse of the error function.

    It is more accurate near 1 and -1 than :func:`jax.lax.erf_inv`, of which random numbers are made.

    Args:
      x: real array, with values from -1 to 1.

    >>> jax.scipy.special.erfinv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = real_args("erfinv", x)
    return lax.convert_type(in_single_or_double(_erfinv_fun, x), x.dtype, x.aval.weak_type)


@export
def ndtri(p: ArrayLike) -> Array:
    """Elementwise quantile function of the normal distribution, the inverse of :func:`ndtr`.

    Args:
      p: array of float32 or float64, with values from 0 to 1.

    Raises:
      TypeError: if `p` has another dtype.

    >>> jax.scipy.special.ndtri(0.5)
    Array(0., dtype=float32)
    """
    check_arraylike("ndtri", p)
    return _ndtri_fun(only_single_or_double("ndtri", asarray(p)))


def _log_ndtr(x):
    half = 0.5 * erfcx_positive(abs(x) * math.sqrt(0.5))
    lower = lax.log(half) - 0.5 * x * x
    middle = abs(x) < 0.5
    error = special.erf(where(middle, x, 0) * math.sqrt(0.5))
    argument = where(middle, error, -half * exp_minus_square(x, 0.5))
    upper = accurate_log1p(argument)
    out = where(middle, upper - math.log(2), where(x < 0, lower, upper))
    return where(x == -np.inf, -np.inf, out)


def _log_ndtr_slope_value(x):
    # The density divided by the distribution function is sqrt(2 / pi) / erfcx(-x / sqrt(2)).
    return math.sqrt(2 / math.pi) / _erfcx(x * -math.sqrt(0.5))


_log_ndtr.__name__ = "log_ndtr"
_log_ndtr_slope = elementwise(_log_ndtr_slope_value, lambda out, x: -out * (out + x))
_log_ndtr_fun = elementwise(_log_ndtr, lambda out, x: _log_ndtr_slope(x))


@export
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Elementwise logarithm of the distribution function of the normal distribution.

    Args:
      x: array of float32 or float64.
      series_order: an integer from 0 to 30. All orders give the same result, which is accurate
        in the tails as well.

    Raises:
      TypeError: if `x` has another dtype, or `series_order` is no integer.
      ValueError: if `series_order` is out of range.

    >>> jax.scipy.special.log_ndtr(0.0)
    Array(-0.693..., dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError(
            f"jax.scipy.special.log_ndtr: series_order must be an integer, got {series_order!r}."
        )
    if not 0 <= series_order <= 30:
        raise ValueError(
            f"jax.scipy.special.log_ndtr: series_order must be from 0 to 30, got {series_order}."
        )
    return _log_ndtr_fun(only_single_or_double("log_ndtr", asarray(x)))


# ---------------------------------------------------------------------------------------------------
# Owen's T function


@functools.cache
def _gauss_legendre(n):
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return [(float(0.5 + 0.5 * x), float(0.5 * w)) for x, w in zip(nodes, weights)]


def _owens_quadrature(h, a):
    """Integrates exp(-h**2 (1 + x**2) / 2) / (1 + x**2) from 0 to a <= 1, for h >= 0."""
    # The normal density beyond `reach` is below the precision.
    reach, nodes = (6.0, 14) if h.dtype == np.float32 else (8.7, 24)
    upper = where(a * h > reach, reach / where(h == 0, 1, h), a)
    total = lax.full_like(h, 0)
    for x, weight in _gauss_legendre(nodes):
        u = lax.square(upper * x)
        total = total + weight * lax.exp(-0.5 * h * h * u) / (1 + u)
    return total * upper * exp_minus_square(h, 0.5) * (0.5 / math.pi)


def _owens_t(h, a):
    h, b = abs(h), abs(a)
    large = b > 1
    # The density is zero beyond, where products and squares could overflow.
    end = lax.full_like(h, 1e4)
    h_finite, finite = lax.min(h, end), where(b == np.inf, 0, lax.min(b * h, end))
    inner = _owens_quadrature(where(large, finite, h_finite), where(large, 1 / b, b))
    # T(h, a) = (ndtr(-h) ndtr(a h) + ndtr(h) ndtr(-a h)) / 2 - T(a h, 1 / a), the symmetry
    # of Owen (1956)
    k = where(large, finite, 0)
    other = 0.5 * (_ndtr(-h) * _ndtr(k) + _ndtr(h) * _ndtr(-k)) - inner
    out = where(large, other, inner)
    out = where(b == np.inf, 0.5 * _ndtr(-h), out)
    out = where(h == np.inf, 0, out)
    out = where(a < 0, -out, out)
    return where((h == h) & (a == a), out, np.nan)


def _owens_slope_h_value(h, a):
    return -_normal_density(h) * 0.5 * special.erf(a * h * math.sqrt(0.5))


_owens_t.__name__ = "owens_t"
_owens_slope_h = elementwise(
    _owens_slope_h_value,
    lambda out, h, a: -h * out - normal_density(h) * a * normal_density(a * h),
    lambda out, h, a: -normal_density(h) * h * normal_density(a * h),
)


def _owens_slope_a(out, h, a):
    return lax.exp(-0.5 * h * h * (1 + a * a)) / ((1 + a * a) * (2 * math.pi))


_owens_fun = elementwise(_owens_t, lambda out, h, a: _owens_slope_h(h, a), _owens_slope_a)


@export
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Elementwise Owen's T function: probability of X > h and 0 < Y < a X for normal X and Y.

    Args:
      h, a: real arrays; narrow floating-point numbers are converted to float32.

    >>> jax.scipy.special.owens_t(1.0, 1.0)
    Array(0.0667..., dtype=float32)
    """
    h, a = real_args("owens_t", h, a)
    if dtypes.itemsize_bits(h.dtype) < 32:
        h, a = (lax.convert_element_type(v, np.float32) for v in (h, a))
    return in_single_or_double(_owens_fun, h, a)
