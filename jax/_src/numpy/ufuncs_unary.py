"""Elementwise functions of one array: exponentials, trigonometry, rounding, predicates and more."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy.checks import checked
from jax._src.numpy.ufuncs_binary import as_bool, composite, dtype_kind, dtype_of, op
from jax._src.numpy.util import (
    check_arraylike,
    check_no_float0s,
    ensure_arraylike,
    export,
    promote_args,
    promote_args_numeric,
    promote_inexact,
    reject_out,
    select_where,
    to_array,
)
from jax._src.typing import ArrayLike

_NUMBER_DOC = """{summary}

    Args:
      x: array or scalar. Integers and booleans are converted to floating point.

    Returns:
      An array of the shape of `x`.{more}

    >>> jnp.{name}({arg})
    {value}
    """


def _inexact(name: str, fun: Any, summary: str, arg: str, value: str, more: str = "") -> Any:
    """Makes the ufunc `jnp.name`: `fun` of the operand as a floating-point or complex array."""

    def ufunc(x: ArrayLike, /) -> Array:
        return fun(promote_inexact(name, x))

    ufunc.__name__ = ufunc.__qualname__ = name
    if not value.startswith(("Array", "(")):
        value = f"Array({value}, dtype=float32, weak_type=True)"
    if more:
        more = "\n\n    " + more
    ufunc.__doc__ = _NUMBER_DOC.format(summary=summary, name=name, arg=arg, value=value, more=more)
    return op(checked(ufunc) if name in _MAKE_NAN else ufunc)


# Functions whose results can be NaN where their operands are not.
_MAKE_NAN = frozenset(
    [
        "log",
        "log1p",
        "log2",
        "log10",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "asin",
        "arccos",
        "acos",
        "arctanh",
        "atanh",
        "arccosh",
        "acosh",
    ]
)


# Exponentials, logarithms and roots

exp = _inexact("exp", lax.exp, "Elementwise exponential.", "1.", "2.7182817")
exp2 = _inexact("exp2", lax.exp2, "Elementwise power of two.", "3.", "8.")
expm1 = _inexact(
    "expm1", lax.expm1, "Elementwise `exp(x) - 1`, precise for small `x`.", "1e-5", "1.000005e-05"
)
log = _inexact("log", lax.log, "Elementwise natural logarithm.", "10.", "2.3025851")
log1p = _inexact(
    "log1p", lax.log1p, "Elementwise `log(1 + x)`, precise for small `x`.", "1e-5", "9.99995e-06"
)
sqrt = _inexact("sqrt", lax.sqrt, "Elementwise non-negative square root.", "9", "3.")
cbrt = _inexact("cbrt", lax.cbrt, "Elementwise cube root of real numbers.", "27", "3.")


def _scaled_log(divide):
    def fun(x):
        out = lax.log(x)
        if dtypes.issubdtype(dtype_of(out), np.complexfloating):
            return lax.complex(divide(lax.real(out)), divide(lax.imag(out)))
        return divide(out)

    return fun


log2 = _inexact(
    "log2",
    _scaled_log(lambda x: lax.div(x, lax.log(strong(x, 2)))),
    "Elementwise logarithm with base 2.",
    "8.",
    "Array(3., dtype=float32)",
)
log10 = _inexact(
    "log10",
    _scaled_log(lambda x: lax.mul(x, strong(x, np.log10(np.e)))),
    "Elementwise logarithm with base 10.",
    "100.",
    "Array(2., dtype=float32)",
)

# Trigonometric and hyperbolic functions

sin = _inexact("sin", lax.sin, "Elementwise sine, of radians.", "1.", "0.84147096")
cos = _inexact("cos", lax.cos, "Elementwise cosine, of radians.", "1.", "0.5403023")
tan = _inexact("tan", lax.tan, "Elementwise tangent, of radians.", "1.", "1.5574077")
sinh = _inexact("sinh", lax.sinh, "Elementwise hyperbolic sine.", "0.", "0.")
cosh = _inexact("cosh", lax.cosh, "Elementwise hyperbolic cosine.", "0.", "1.")
tanh = _inexact("tanh", lax.tanh, "Elementwise hyperbolic tangent.", "0.", "0.")

_NAN_OUTSIDE = "Real numbers outside the domain give NaN."


def _inverse(name, alias, fun, summary, arg, value, more=_NAN_OUTSIDE):
    other = summary.rstrip(".") + f": alias of `{name}`."
    return (
        _inexact(name, fun, summary, arg, value, more),
        _inexact(alias, fun, other, arg, value),
    )


arcsin, asin = _inverse(
    "arcsin", "asin", lax.asin, "Elementwise inverse of the sine, in radians.", "0.", "0."
)
arccos, acos = _inverse(
    "arccos", "acos", lax.acos, "Elementwise inverse of the cosine, in radians.", "1.", "0."
)
arctan, atan = _inverse(
    "arctan", "atan", lax.atan, "Elementwise inverse of the tangent, in radians.", "0.", "0.", ""
)
arcsinh, asinh = _inverse(
    "arcsinh", "asinh", lax.asinh, "Elementwise inverse of the hyperbolic sine.", "0.", "0.", ""
)
arctanh, atanh = _inverse(
    "arctanh", "atanh", lax.atanh, "Elementwise inverse of the hyperbolic tangent.", "0.", "0."
)


def _acosh(x):
    out = lax.acosh(x)
    if dtypes.issubdtype(dtype_of(out), np.complexfloating):
        # Choose the branch with a non-negative real part, as NumPy does.
        negative = lax.lt(lax.real(out), lax.zero(lax.real(out)))
        out = select_where(negative, lax.neg(out), out)
    return out


arccosh, acosh = _inverse(
    "arccosh", "acosh", _acosh, "Elementwise inverse of the hyperbolic cosine.", "1.", "0."
)

deg2rad = _inexact(
    "deg2rad",
    lambda x: lax.mul(x, lax.const(x, np.pi / 180)),
    "Convert angles from degrees to radians, elementwise.",
    "180.",
    "3.1415927",
)
rad2deg = _inexact(
    "rad2deg",
    lambda x: lax.mul(x, lax.const(x, 180 / np.pi)),
    "Convert angles from radians to degrees, elementwise.",
    "jnp.pi",
    "180.",
)
radians = _inexact(
    "radians",
    lambda x: lax.mul(x, lax.const(x, np.pi / 180)),
    "Convert angles from degrees to radians: alias of `deg2rad`.",
    "180.",
    "3.1415927",
)
degrees = _inexact(
    "degrees",
    lambda x: lax.mul(x, lax.const(x, 180 / np.pi)),
    "Convert angles from radians to degrees: alias of `rad2deg`.",
    "jnp.pi",
    "180.",
)


# Signs and simple powers


@op
def negative(x: ArrayLike, /) -> Array:
    """Elementwise negation; unsigned integers wrap around.

    >>> jnp.negative(jnp.arange(3))
    Array([ 0, -1, -2], dtype=int32)
    """
    return lax.neg(*promote_args("negative", x))


@export
def positive(x: ArrayLike, /) -> Array:
    """Returns the elements unchanged, as an array.

    >>> jnp.positive(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    check_arraylike("positive", x)
    check_no_float0s("positive", x)
    return to_array(x)


@op
def absolute(x: ArrayLike, /) -> Array:
    """Elementwise absolute value; the result is real for complex numbers.

    >>> jnp.absolute(jnp.array([-2, 3]))
    Array([2, 3], dtype=int32)
    """
    (x,) = promote_args("absolute", x)
    return to_array(x) if dtype_kind(x) in "bu" else lax.abs(x)


@op
def abs(x: ArrayLike, /) -> Array:
    """Elementwise absolute value: alias of `absolute`.

    >>> jnp.abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    (x,) = promote_args("abs", x)
    return to_array(x) if dtype_kind(x) in "bu" else lax.abs(x)


def _real_abs(x):
    if dtype_kind(x) == "c":
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return lax.abs(x)


fabs = _inexact(
    "fabs", _real_abs, "Elementwise absolute value of real numbers, in floating point.", "-2", "2."
)


@op
def sign(x: ArrayLike, /) -> Array:
    """Elementwise sign: -1, 0 or 1; NaN for NaN; `x / abs(x)` for complex numbers.

    >>> jnp.sign(jnp.array([-2., 0., 3.]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return lax.sign(*promote_args("sign", x))


@op
def square(x: ArrayLike, /) -> Array:
    """Elementwise square; booleans are converted to integers.

    >>> jnp.square(jnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    return lax.square(*promote_args_numeric("square", x))


reciprocal = _inexact(
    "reciprocal",
    lambda x: lax.integer_pow(x, -1),
    "Elementwise `1 / x`.",
    "4.",
    "0.25",
    "Differs from NumPy: integers are converted to floating point.",
)

# Rounding


def _rounding(name, fun, summary, arg, value):
    def ufunc(x: ArrayLike, /) -> Array:
        check_arraylike(name, x)
        (x,) = promote_args(name, x)
        return to_array(x) if dtype_kind(x) in "biu" else fun(x)

    ufunc.__name__ = ufunc.__qualname__ = name
    ufunc.__doc__ = f"""{summary} Integers and booleans are returned unchanged.

    >>> jnp.{name}({arg})
    {value}
    """
    return ufunc


floor = op(
    _rounding(
        "floor",
        lax.floor,
        "Elementwise floor of real numbers: the greatest integer less than or equal to each.",
        "jnp.array([-1.5, 1.5])",
        "Array([-2.,  1.], dtype=float32)",
    )
)
ceil = op(
    _rounding(
        "ceil",
        lax.ceil,
        "Elementwise ceiling of real numbers: the least integer greater than or equal to each.",
        "jnp.array([-1.5, 1.5])",
        "Array([-1.,  2.], dtype=float32)",
    )
)


@composite
def trunc(x: ArrayLike) -> Array:
    """Elementwise integer part of real numbers, rounded towards zero. Integers are unchanged.

    >>> jnp.trunc(jnp.array([-1.5, 1.5]))
    Array([-1.,  1.], dtype=float32)
    """
    x = ensure_arraylike("trunc", x)
    if dtype_kind(x) in "biu":
        return x
    return select_where(lax.lt(x, lax.zero(x)), lax.ceil(x), lax.floor(x))


@op
def rint(x: ArrayLike, /) -> Array:
    """Elementwise nearest integer, as a floating-point number; halves round to even.

    >>> jnp.rint(jnp.array([0.5, 1.4, 1.5]))
    Array([0., 1., 2.], dtype=float32)
    """
    x = ensure_arraylike("rint", x)
    if dtype_kind(x) in "biu":
        x = lax.convert_element_type(x, dtypes.default_float_dtype())
    return _by_parts(x, lambda v: lax.round(v, lax.RoundingMethod.TO_NEAREST_EVEN))


def _by_parts(x, fun):
    if dtypes.issubdtype(dtype_of(x), np.complexfloating):
        return lax.complex(fun(lax.real(x)), fun(lax.imag(x)))
    return fun(x)


@export
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Elementwise rounding to `decimals` places; halves round to the even digit.

    Args:
      a: array or scalar. Integers are returned unchanged.
      decimals: static number of decimal places; negative for places left of the decimal point.
      out: must be None.

    Raises:
      NotImplementedError: if `a` has an integer dtype and `decimals` is negative.

    >>> jnp.round(jnp.array([1.234, 2.5]), 1)
    Array([1.2, 2.5], dtype=float32)
    """
    check_arraylike("round", a)
    reject_out("round", out)
    decimals = core.concrete_or_error(operator.index, decimals, "'decimals' argument of jnp.round")
    return _round(a, decimals=decimals)


@export
def around(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Elementwise rounding: alias of `round`.

    >>> jnp.around(2.5)
    Array(2., dtype=float32, weak_type=True)
    """
    return round(a, decimals, out)


def _round_impl(a, *, decimals=0):
    a = ensure_arraylike("round", a)
    dtype = a.dtype
    if dtypes.issubdtype(dtype, np.integer):
        if decimals < 0:
            raise NotImplementedError("integer np.round not implemented for decimals < 0")
        return a
    if dtype == np.bool_:
        raise ValueError("jnp.round takes numbers, got an array of booleans: convert it first.")
    return _by_parts(a, lambda x: _round_real(x, decimals))


def _round_real(x, decimals):
    even = lax.RoundingMethod.TO_NEAREST_EVEN
    if decimals == 0:
        return lax.round(x, even)
    dtype, weak = x.dtype, x.weak_type
    if dtypes.finfo(dtype).bits < 32:  # the scaled numbers could overflow such dtypes
        x = lax.convert_element_type(x, np.float32)
    factor = lax.const(x, 10**decimals)
    out = lax.div(lax.round(lax.mul(x, factor), even), factor)
    return lax.convert_type(out, dtype, weak)


_round_impl.__name__ = _round_impl.__qualname__ = "round"
_round = nested_jit(_round_impl, static_argnames=("decimals",))


# Parts of complex numbers


@export
def real(val: ArrayLike, /) -> Array:
    """Elementwise real part; real arrays are returned unchanged.

    >>> jnp.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    val = ensure_arraylike("real", val)
    return lax.real(val) if dtype_kind(val) == "c" else val


@export
def imag(val: ArrayLike, /) -> Array:
    """Elementwise imaginary part; zero for real numbers.

    >>> jnp.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    val = ensure_arraylike("imag", val)
    return lax.imag(val) if dtype_kind(val) == "c" else lax.full_like(val, 0)


@export
def conjugate(x: ArrayLike, /) -> Array:
    """Elementwise complex conjugate; real arrays are returned unchanged.

    >>> jnp.conjugate(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    x = ensure_arraylike("conjugate", x)
    return lax.conj(x) if dtype_kind(x) == "c" else x


@export
def conj(x: ArrayLike, /) -> Array:
    """Elementwise complex conjugate: alias of `conjugate`.

    >>> jnp.conj(1j)
    Array(0.-1.j, dtype=complex64, weak_type=True)
    """
    return conjugate(x)


def _angle_impl(z, *, deg=False):
    z = ensure_arraylike("angle", z)
    if dtype_kind(z) == "c":
        out = lax.atan2(lax.imag(z), lax.real(z))
    else:
        # atan2 of a zero and a negative number is pi; the zero must be positive.
        if dtype_kind(z) != "f" or z.ndim == 0:
            z = lax.convert_element_type(z, dtypes.default_float_dtype())
        out = lax.atan2(lax.full_like(z, 0), z)
    return lax.mul(out, lax.const(out, 180 / np.pi)) if deg else out


_angle_impl.__name__ = _angle_impl.__qualname__ = "angle"
_angle = nested_jit(_angle_impl, static_argnames=("deg",))


@export
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Elementwise argument (polar angle) of complex numbers.

    Args:
      z: array or scalar.
      deg: whether to return degrees instead of radians.

    >>> jnp.angle(1j)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    return _angle(z, deg=bool(deg))


# Predicates


def strong(x, value):
    """Converts a number to a scalar of the dtype of `x` that is not weakly typed."""
    return np.asarray(value, dtype_of(x))[()]


def _predicate(of_real, combine, of_integer):
    def fun(x):
        kind = dtype_kind(x)
        if kind == "c":
            return combine(of_real(lax.real(x)), of_real(lax.imag(x)))
        if kind == "f":
            return of_real(x)
        return lax.full_like(x, of_integer, dtype=np.bool_)

    return fun


_is_finite = _predicate(lax.is_finite, lax.bitwise_and, True)
is_inf = _predicate(lambda x: lax.eq(lax.abs(x), strong(x, np.inf)), lax.bitwise_or, False)


@op
def isfinite(x: ArrayLike, /) -> Array:
    """Tests elementwise whether a number is neither infinite nor NaN.

    >>> jnp.isfinite(jnp.array([1., jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return _is_finite(*promote_args("isfinite", x))


@op
def isinf(x: ArrayLike, /) -> Array:
    """Tests elementwise whether a number, or either part of a complex one, is infinite.

    >>> jnp.isinf(jnp.array([1., jnp.inf, jnp.nan]))
    Array([False,  True, False], dtype=bool)
    """
    return is_inf(*promote_args("isinf", x))


@op
def isnan(x: ArrayLike, /) -> Array:
    """Tests elementwise whether a number, or either part of a complex one, is NaN.

    >>> jnp.isnan(jnp.array([1., jnp.inf, jnp.nan]))
    Array([False, False,  True], dtype=bool)
    """
    (x,) = promote_args("isnan", x)
    return lax.ne(x, x)


def _is_signed_inf(name, value, x, out):
    reject_out(name, out)
    (x,) = promote_args(name, x)
    kind = dtype_kind(x)
    if kind == "c":
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    if kind == "f":
        return lax.eq(x, strong(x, value))
    return lax.full_like(x, False, dtype=np.bool_)


@export
def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Tests elementwise whether a real number is positive infinity; `out` must be None.

    >>> jnp.isposinf(jnp.array([1., jnp.inf, -jnp.inf]))
    Array([False,  True, False], dtype=bool)
    """
    return _is_signed_inf("isposinf", np.inf, x, out)


@export
def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Tests elementwise whether a real number is negative infinity; `out` must be None.

    >>> jnp.isneginf(jnp.array([1., jnp.inf, -jnp.inf]))
    Array([False, False,  True], dtype=bool)
    """
    return _is_signed_inf("isneginf", -np.inf, x, out)


@op
def isreal(x: ArrayLike) -> Array:
    """Tests elementwise whether the imaginary part is zero.

    >>> jnp.isreal(jnp.array([1., 1j]))
    Array([ True, False], dtype=bool)
    """
    i = imag(x)
    return lax.eq(i, lax.zero(i))


@op
def iscomplex(x: ArrayLike) -> Array:
    """Tests elementwise whether the imaginary part is nonzero.

    >>> jnp.iscomplex(jnp.array([1., 1j]))
    Array([False,  True], dtype=bool)
    """
    i = imag(x)
    return lax.ne(i, lax.zero(i))


@composite
def signbit(x: ArrayLike, /) -> Array:
    """Tests elementwise whether the sign bit is set, as for negative numbers and -0.

    >>> jnp.signbit(jnp.array([-1., -0., 0.]))
    Array([ True,  True, False], dtype=bool)
    """
    (x,) = promote_args("signbit", x)
    kind = dtype_kind(x)
    dtype = dtype_of(x)
    if kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {dtype}")
    if kind in "bu":
        return lax.full_like(x, False, dtype=np.bool_)
    if kind == "i":
        return lax.lt(x, strong(x, 0))
    bits = dtypes.finfo(dtype).bits
    if bits < 8:
        x, bits = lax.convert_element_type(x, np.float32), 32
    as_int = lax.bitcast_convert_type(x, np.dtype(f"int{bits}"))
    shifted = lax.shift_right_arithmetic(as_int, lax.const(as_int, bits - 1))
    return lax.convert_element_type(shifted, np.bool_)


# Bits and logic


@op
def logical_not(x: ArrayLike, /) -> Array:
    """Elementwise logical NOT, as booleans; only zero is False.

    >>> jnp.logical_not(jnp.arange(3))
    Array([ True, False, False], dtype=bool)
    """
    (x,) = promote_args("logical_not", x)
    return lax.bitwise_not(as_bool(x))


@op
def invert(x: ArrayLike, /) -> Array:
    """Elementwise bitwise NOT of integers or booleans.

    >>> jnp.invert(jnp.arange(3))
    Array([-1, -2, -3], dtype=int32)
    """
    return lax.bitwise_not(*promote_args("invert", x))


@op
def bitwise_not(x: ArrayLike, /) -> Array:
    """Elementwise bitwise NOT: alias of `invert`.

    >>> jnp.bitwise_not(True)
    Array(False, dtype=bool)
    """
    return lax.bitwise_not(*promote_args("bitwise_not", x))


@op
def bitwise_invert(x: ArrayLike, /) -> Array:
    """Elementwise bitwise NOT: alias of `invert`.

    >>> jnp.bitwise_invert(True)
    Array(False, dtype=bool)
    """
    return lax.bitwise_not(*promote_args("bitwise_invert", x))


@op
def bitwise_count(x: ArrayLike, /) -> Array:
    """Elementwise number of bits set in the absolute value of an integer, as uint8.

    >>> jnp.bitwise_count(jnp.array([7, -8]))
    Array([3, 1], dtype=uint8)
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    if dtypes.issubdtype(dtype_of(x), np.signedinteger):
        x = lax.abs(x)
    return lax.convert_element_type(lax.population_count(x), np.uint8)
