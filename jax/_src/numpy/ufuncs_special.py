"""Composite elementwise functions: float representation, divisors, and special functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import control_flow, lax, special
from jax._src.numpy.checks import checked
from jax._src.numpy.ufuncs_binary import composite, dtype_kind, dtype_of, floor_divide, op
from jax._src.numpy.ufuncs_unary import is_inf, signbit, strong
from jax._src.numpy.util import (
    broadcast_arrays,
    check_arraylike,
    ensure_arraylike,
    export,
    promote_args,
    promote_args_inexact,
    promote_inexact,
    reject_out,
    select_where,
)
from jax._src.typing import ArrayLike

# Extrema that ignore NaN


@composite
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise maximum, ignoring a NaN in one operand; takes the arguments of `add`.

    >>> jnp.fmax(jnp.array([1., jnp.nan]), 2.)
    Array([2., 2.], dtype=float32)
    """
    x1, x2 = promote_args("fmax", x1, x2)
    return select_where(lax.bitwise_or(_greater(x1, x2), lax.ne(x2, x2)), x1, x2)


@composite
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise minimum, ignoring a NaN in one operand; takes the arguments of `add`.

    >>> jnp.fmin(jnp.array([1., jnp.nan]), 2.)
    Array([1., 2.], dtype=float32)
    """
    x1, x2 = promote_args("fmin", x1, x2)
    return select_where(lax.bitwise_or(_greater(x2, x1), lax.ne(x2, x2)), x1, x2)


def _greater(x, y):
    if dtype_kind(x) != "c":
        return lax.gt(x, y)
    rx, ry = lax.real(x), lax.real(y)
    return select_where(lax.eq(rx, ry), lax.gt(lax.imag(x), lax.imag(y)), lax.gt(rx, ry))


# Signs and magnitudes


@composite
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise magnitude of `x1` with the sign of `x2`.

    Args:
      x1, x2: real arrays or scalars; see `add`. Integers are converted to floating point.

    Raises:
      TypeError: if an argument is complex.

    >>> jnp.copysign(2., jnp.array([1., -0.]))
    Array([ 2., -2.], dtype=float32)
    """
    x1, x2 = promote_args_inexact("copysign", x1, x2)
    if dtype_kind(x1) == "c":
        raise TypeError("copysign does not support complex-valued inputs")
    return select_where(signbit(x2), lax.neg(lax.abs(x1)), lax.abs(x1))


@composite
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise step function: 0 where `x1 < 0`, `x2` where `x1 == 0`, 1 where `x1 > 0`.

    Args:
      x1, x2: real arrays or scalars; see `add`. Integers are converted to floating point.

    >>> jnp.heaviside(jnp.array([-1., 0., 1.]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("heaviside", x1, x2)
    x1, x2 = promote_args_inexact("heaviside", x1, x2)
    zero, one = lax.zero(x1), lax.one(x1)
    out = select_where(lax.ne(x1, x1), x1, x2)
    out = select_where(lax.gt(x1, zero), one, out)
    return select_where(lax.lt(x1, zero), zero, out)


@composite
@checked
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise `sqrt(x1**2 + x2**2)` without intermediate overflow.

    Args:
      x1, x2: real arrays or scalars; see `add`. Integers are converted to floating point.

    Raises:
      ValueError: if an argument is complex.

    >>> jnp.hypot(3., 4.)
    Array(5., dtype=float32, weak_type=True)
    """
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    if dtype_kind(x1) == "c":
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. Convert them to real values "
            "first, such as by jnp.hypot(jnp.abs(x1), jnp.abs(x2))."
        )
    x1, x2 = lax.abs(x1), lax.abs(x2)
    infinite = lax.bitwise_or(lax.eq(x1, lax.const(x1, np.inf)), lax.eq(x2, lax.const(x2, np.inf)))
    # Factor out the larger operand, so that squares do not overflow.
    large, small = lax.max(x1, x2), lax.min(x1, x2)
    is_zero = lax.eq(large, lax.zero(large))
    ratio = lax.div(small, select_where(is_zero, lax.one(large), large))
    out = lax.mul(large, lax.sqrt(lax.add(lax.one(ratio), lax.square(ratio))))
    out = select_where(is_zero, large, out)
    return select_where(infinite, lax.const(out, np.inf), out)


# Special functions


@composite
@checked
def sinc(x: ArrayLike, /) -> Array:
    """Elementwise normalized sinc function `sin(pi x) / (pi x)`, 1 at 0; differentiable there too.

    Args:
      x: array or scalar. Integers are converted to floating point.

    >>> jnp.sinc(jnp.array([0., 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    check_arraylike("sinc", x)
    x = promote_inexact("sinc", x)
    is_zero = lax.eq(x, lax.zero(x))
    pi_x = lax.mul(lax.const(x, np.pi), x)
    # Avoid 0 / 0, whose derivative would be NaN although it is not selected.
    safe = select_where(is_zero, lax.const(x, 1), pi_x)
    return select_where(is_zero, _sinc_maclaurin(0, pi_x), lax.div(_sin_pi(x, safe), safe))


def _sin_pi(x, pi_x):
    # The sine of pi x, which the rounding of pi x would spoil close to a zero. What is left of x
    # beside the nearest integer is exact. Up to 1/2 it is x itself.
    is_complex = np.issubdtype(x.dtype, np.complexfloating)
    n = lax.round(lax.real(x) if is_complex else x, lax.RoundingMethod.TO_NEAREST_EVEN)
    half = lax.mul(n, lax.const(n, 0.5))
    sign = select_where(lax.eq(half, lax.floor(half)), lax.const(n, 1), lax.const(n, -1))
    if is_complex:
        sign, n = lax.convert_element_type(sign, x.dtype), lax.convert_element_type(n, x.dtype)
    rest = lax.mul(lax.const(x, np.pi), lax.sub(x, n))
    is_near = lax.eq(n, lax.const(n, 0))
    return lax.mul(sign, lax.sin(select_where(is_near, pi_x, rest)))


@partial(custom_jvp, nondiff_argnums=(0,))
def _sinc_maclaurin(k, x):
    # The k-th derivative of sin(x) / x at 0. Its JVP rule raises k, so derivatives of any order
    # work.
    value = 0.0 if k % 2 else (-1) ** (k // 2) / (k + 1)
    return lax.add(lax.mul(x, lax.zero(x)), lax.const(x, value))


@_sinc_maclaurin.defjvp
def _sinc_maclaurin_jvp(k, primals, tangents):
    (x,), (t,) = primals, tangents
    return _sinc_maclaurin(k, x), lax.mul(_sinc_maclaurin(k + 1, x), t)


@composite
@checked
def i0(x: ArrayLike) -> Array:
    """Elementwise modified Bessel function of the first kind and order zero, of real numbers.

    Args:
      x: real array or scalar. Integers are converted to floating point.

    Raises:
      ValueError: if `x` is complex.

    >>> jnp.i0(1.)
    Array(1.266066, dtype=float32, weak_type=True)
    """
    x = promote_inexact("i0", x)
    if dtype_kind(x) != "f":
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {dtype_of(x)}")
    return _i0(x)


@custom_jvp
def _i0(x):
    x = lax.abs(x)
    return lax.mul(lax.exp(x), special.bessel_i0e(x))


@_i0.defjvp
def _i0_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    slope = lax.mul(lax.exp(lax.abs(x)), special.bessel_i1e(x))
    return _i0(x), lax.mul(t, slope)


# Representation of floating-point numbers


def _float_format(dtype: Any) -> tuple[int, int, int]:
    """Returns the total bits, the mantissa bits and the exponent bias of a floating-point dtype."""
    info = dtypes.finfo(dtype)
    return info.bits, info.nmant, 2 ** (info.bits - info.nmant - 2) - 1


@composite
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Elementwise decomposition into mantissa and exponent: `x = mantissa * 2**exponent`.

    Args:
      x: real array or scalar. Integers are converted to floating point.

    Returns:
      A tuple of mantissas, with magnitudes from 0.5 to 1, and int32 exponents. Zeros, infinities
      and NaNs are returned as their own mantissa.

    Raises:
      TypeError: if `x` is complex.

    >>> jnp.frexp(6.)
    (Array(0.75, dtype=float32), Array(3, dtype=int32))
    """
    check_arraylike("frexp", x)
    x = promote_inexact("frexp", x)
    if dtype_kind(x) == "c":
        raise TypeError("frexp does not support complex-valued inputs")
    return _frexp(x)


@custom_jvp
def _frexp(x):
    bits, mantissa_bits, bias = _float_format(dtype_of(x))
    int_type = np.dtype(f"int{bits}")
    one = int_type.type(1)

    # Scale subnormal numbers up first, so that they have an implicit leading bit.
    subnormal = lax.lt(lax.abs(x), lax.const(x, dtypes.finfo(dtype_of(x)).tiny))
    scaled = select_where(subnormal, lax.mul(x, lax.const(x, 2**mantissa_bits)), x)
    shift = select_where(subnormal, int_type.type(-mantissa_bits), int_type.type(0))

    as_int = lax.bitcast_convert_type(scaled, int_type)
    exponent_mask = int_type.type(2 ** (bits - mantissa_bits - 1) - 1)
    exponent = lax.bitwise_and(
        lax.shift_right_arithmetic(as_int, int_type.type(mantissa_bits)), exponent_mask
    )
    exponent = lax.add(lax.sub(exponent, int_type.type(bias)), one)
    exponent = lax.add(shift, exponent)
    with np.errstate(over="ignore"):
        rest = np.bitwise_not(np.left_shift(exponent_mask, mantissa_bits, dtype=int_type))
        half = np.left_shift(int_type.type(bias - 1), mantissa_bits, dtype=int_type)
    mantissa = lax.bitcast_convert_type(
        lax.bitwise_or(lax.bitwise_and(as_int, rest), half), dtype_of(x)
    )
    itself = lax.bitwise_or(lax.bitwise_or(is_inf(x), lax.ne(x, x)), lax.eq(x, lax.zero(x)))
    exponent = select_where(itself, int_type.type(0), exponent)
    mantissa = select_where(itself, x, mantissa)
    return mantissa, lax.convert_element_type(exponent, np.int32)


@_frexp.defjvp
def _frexp_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    power = lax.neg(lax.convert_type(exponent, dtype_of(x), core.typeof(x).weak_type))
    scale = lax.pow(lax.const(x, 2), power)
    no_tangent = np.zeros(exponent.shape, dtypes.float0)
    t = lax.convert_type(t, dtype_of(t), False)  # as the type of the mantissa
    return (mantissa, exponent), (
        lax.mul(t, lax.convert_type(scale, dtype_of(t), False)),
        no_tangent,
    )


@composite
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise `x1 * 2**x2`, the inverse of `frexp`.

    Args:
      x1: real array or scalar. Integers are converted to floating point.
      x2: array or scalar of integers.

    Raises:
      ValueError: if `x1` is complex or `x2` is not an integer array.

    >>> jnp.ldexp(0.75, 3)
    Array(6., dtype=float32)
    """
    x1, x2 = broadcast_arrays(x1, x2)
    d1, d2 = x1.dtype, x2.dtype
    if dtypes.issubdtype(d1, np.complexfloating) or not (
        dtypes.issubdtype(d2, np.integer) or d2 == np.bool_
    ):
        raise ValueError(f"ldexp not supported for input types {(d1, d2)}")
    # The dtype is that of the first argument, however wide the exponents are.
    x1 = promote_inexact("ldexp", x1)
    x1, x2 = [lax.convert_type(x, x1.dtype, False) for x in (x1, x2)]
    mantissa, exponent = frexp(x1)
    exponent = lax.add(lax.convert_type(exponent, x1.dtype, False), x2)
    # With a mantissa between 1 and 2, 2**exponent does not overflow for the largest results.
    positive = lax.gt(exponent, lax.zero(exponent))
    mantissa = select_where(positive, lax.mul(mantissa, lax.const(mantissa, 2)), mantissa)
    exponent = select_where(positive, lax.sub(exponent, lax.one(exponent)), exponent)
    out = lax.mul(mantissa, lax.pow(lax.const(exponent, 2), exponent))
    return select_where(lax.bitwise_or(is_inf(x1), lax.eq(x1, lax.zero(x1))), x1, out)


@checked
@nested_jit
def _modf(x):
    check_arraylike("modf", x)
    x = promote_inexact("modf", x)
    whole = select_where(lax.ge(x, lax.zero(x)), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole


@export
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Elementwise fractional and integral parts, both with the sign of `x`; `out` must be None.

    Args:
      x: real array or scalar. Integers are converted to floating point.
      out: must be None.

    Returns:
      A tuple of fractional and integral parts, arrays of the shape of `x`.

    >>> jnp.modf(jnp.array([-1.25, 2.5]))
    (Array([-0.25,  0.5 ], dtype=float32), Array([-1.,  2.], dtype=float32))
    """
    reject_out("modf", out)
    return _modf(x)


@op
@checked
def spacing(x: ArrayLike, /) -> Array:
    """Elementwise distance to the next floating-point number away from zero.

    Args:
      x: real array or scalar. Integers are converted to floating point.

    >>> jnp.spacing(jnp.float32(1)) == jnp.finfo('float32').eps
    Array(True, dtype=bool)
    """
    check_arraylike("spacing", x)
    x = promote_inexact("spacing", x)
    if dtype_kind(x) == "c":
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    dtype = dtype_of(x)
    if dtype == np.float16:  # always positive, as in NumPy
        return lax.sub(lax.nextafter(x, strong(x, np.inf)), x)
    distance = lax.sub(lax.nextafter(x, copysign(strong(x, np.inf), x)), x)
    # Where subnormal numbers are flushed to zero, the difference from zero would be zero.
    smallest = strong(x, dtypes.finfo(dtype).smallest_subnormal)
    return select_where(lax.eq(distance, lax.zero(distance)), copysign(smallest, x), distance)


# Divisors


@composite
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise greatest common divisor of integers, by the Euclidean algorithm.

    Args:
      x1, x2: arrays or scalars of integers; see `add`.

    Raises:
      ValueError: if an argument is not of integers.

    >>> jnp.gcd(12, jnp.array([8, 9]))
    Array([4, 3], dtype=int32)
    """
    x1, x2 = _integers("gcd", x1, x2)
    x1, x2 = broadcast_arrays(x1, x2)
    init = tuple(core.vary_alike([_magnitude(x1), _magnitude(x2)]))
    return control_flow.while_loop(_gcd_goes_on, _gcd_step, init)[0]


def _gcd_goes_on(pair):
    _, x2 = pair
    return lax.reduce_or(lax.ne(x2, lax.zero(x2)), tuple(range(x2.ndim)))


def _gcd_step(pair):
    x1, x2 = pair
    zero = lax.zero(x2)
    going = lax.ne(x2, zero)
    return select_where(going, x2, x1), select_where(going, lax.rem(x1, x2), zero)


@composite
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise least common multiple of integers.

    Args:
      x1, x2: arrays or scalars of integers; see `add`.

    Raises:
      ValueError: if an argument is not of integers.

    >>> jnp.lcm(12, jnp.array([8, 9]))
    Array([24, 36], dtype=int32)
    """
    x1, x2 = _integers("lcm", x1, x2)
    x1, x2 = _magnitude(x1), _magnitude(x2)
    divisor = gcd(x1, x2)
    zero = lax.zero(divisor)
    is_zero = lax.eq(divisor, zero)
    return select_where(is_zero, zero, lax.mul(*broadcast_arrays(x1, floor_divide(x2, divisor))))


def _magnitude(x):
    return lax.abs(x) if dtype_kind(x) == "i" else x


def _integers(name, x1, x2):
    check_arraylike(name, x1, x2)
    x1, x2 = ensure_arraylike(name, x1, x2)
    x1, x2 = promote_args(name, x1, x2)
    if dtype_kind(x1) not in "iu":
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    return x1, x2
