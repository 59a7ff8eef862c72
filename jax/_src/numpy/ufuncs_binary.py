"""Elementwise functions of two arrays: arithmetic, powers, comparisons, bits and logic."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import Programs, inline_jit, nested_jit
from jax._src.lax import lax
from jax._src.numpy.checks import checked
from jax._src.numpy.util import (
    check_arraylike,
    check_no_float0s,
    convert,
    export,
    lower_jax_array,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_numeric,
    promote_pair,
    promote_shapes,
    select_where,
)
from jax._src.typing import ArrayLike

_bool = np.dtype("bool")


# For functions of one primitive: traced calls are inlined.
def op(fun):
    return inline_jit(export(fun))


# For functions of several primitives: a traced call is one jit equation.
def composite(fun):
    return nested_jit(export(fun))


def dtype_of(x: Any) -> Any:
    """Returns the dtype of an array, or the default one of a Python scalar."""
    return getattr(x, "dtype", None) or dtypes.dtype(x)


# Arithmetic


@op
@checked
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise sum.

    Args:
      x, y: arrays or scalars, broadcast against each other and promoted to a common dtype.

    Returns:
      An array. Booleans are added by logical OR; integers wrap around.

    Raises:
      TypeError: if an argument is not an array, or shapes or dtypes are incompatible.

    >>> jnp.add(jnp.arange(3), 10)
    Array([10, 11, 12], dtype=int32)
    """
    x, y = promote_pair("add", x, y)
    return lax.bitwise_or(x, y) if dtype_of(x) == _bool else lax.add(x, y)


@op
@checked
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise difference `x - y`; takes the arguments of `add`, except booleans.

    >>> jnp.subtract(jnp.arange(3), 10)
    Array([-10,  -9,  -8], dtype=int32)
    """
    return lax.sub(*promote_pair("subtract", x, y))


@op
@checked
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise product; takes the arguments of `add`. Booleans are multiplied by logical AND.

    >>> jnp.multiply(jnp.arange(3), 10)
    Array([ 0, 10, 20], dtype=int32)
    """
    x, y = promote_pair("multiply", x, y)
    return lax.bitwise_and(x, y) if dtype_of(x) == _bool else lax.mul(x, y)


@op
@functools.partial(checked, divides=True)
def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise quotient; integers and booleans are converted to floating point first.

    Takes the arguments of `add`.

    >>> jnp.true_divide(jnp.arange(3), 2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.div(*promote_args_inexact("true_divide", x1, x2))


@op
def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise quotient: alias of `true_divide`.

    >>> jnp.divide(1, 2)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _true_divide(x1, x2)


_true_divide = true_divide.__wrapped__


@composite
@functools.partial(checked, divides=True)
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise quotient, rounded down.

    Args:
      x1, x2: real arrays or scalars; see `add`.

    Returns:
      An array of the common dtype. Division of integers by zero gives an unspecified result.

    Raises:
      TypeError: if an argument is complex.

    >>> jnp.floor_divide(jnp.array([-7, 7]), 2)
    Array([-4,  3], dtype=int32)
    """
    x1, x2 = promote_args_numeric("floor_divide", x1, x2)
    kind = dtype_kind(x1)
    if kind == "u":
        return lax.div(x1, x2)
    if kind == "i":
        q = lax.div(x1, x2)
        # lax.div truncates: subtract one where the quotient is negative and inexact.
        inexact = lax.ne(lax.rem(x1, x2), lax.zero(x1))
        down = lax.bitwise_and(lax.ne(lax.sign(x1), lax.sign(x2)), inexact)
        return select_where(down, lax.sub(q, _one_like(q)), q)
    if kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs")
    return _float_divmod(x1, x2)[0]


@composite
@functools.partial(checked, divides=True)
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise remainder, with the sign of the divisor: `x1 - floor_divide(x1, x2) * x2`.

    Args:
      x1, x2: real arrays or scalars; see `add`.

    Returns:
      An array of the common dtype. By zero, it is 0 for integers and NaN for floats.

    >>> jnp.remainder(jnp.array([-7, 7]), 4)
    Array([1, 3], dtype=int32)
    """
    x1, x2 = promote_args_numeric("remainder", x1, x2)
    if dtype_kind(x1) in "iu":
        x2 = _one_for_zero(x2)
    rem = lax.rem(x1, x2)
    zero = lax.zero(rem)
    nonzero = lax.ne(rem, zero)
    signs_differ = lax.ne(lax.lt(rem, zero), lax.lt(x2, lax.zero(x2)))
    return select(lax.bitwise_and(signs_differ, nonzero), lax.add(rem, x2), rem)


@op
def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise remainder: alias of `remainder`.

    >>> jnp.mod(-7, 4)
    Array(1, dtype=int32, weak_type=True)
    """
    return remainder(x1, x2)


@composite
@checked
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise remainder, with the sign of the dividend.

    Like that of NumPy, it is 0 where integers or booleans are divided by zero.

    Args:
      x1, x2: real arrays or scalars; see `add`.

    >>> jnp.fmod(jnp.array([-7, 7]), 4)
    Array([-3,  3], dtype=int32)
    """
    check_arraylike("fmod", x1, x2)
    x1, x2 = promote_args_numeric("fmod", x1, x2)
    if dtype_kind(x1) in "iu":
        x2 = _one_for_zero(x2)
    return lax.rem(x1, x2)


@composite
@functools.partial(checked, divides=True)
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Elementwise quotient, rounded down, and remainder.

    Args:
      x1, x2: real arrays or scalars; see `add`.

    Returns:
      A tuple `(floor_divide(x1, x2), remainder(x1, x2))`.

    >>> jnp.divmod(jnp.array([-7, 7]), 2)
    (Array([-4,  3], dtype=int32), Array([1, 1], dtype=int32))
    """
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if dtype_kind(x1) in "iu":
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def dtype_kind(x):
    """Returns the kind of the elements' dtype: b, i, u, f or c, also for ml_dtypes' types."""
    dtype = dtype_of(x)
    kind = getattr(dtype, "kind", "O")  # extended dtypes, such as that of keys, have no kind
    if kind != "V":
        return kind
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return "u"
    return "i" if dtypes.issubdtype(dtype, np.signedinteger) else "f"


def _one_for_zero(x):
    return select_where(lax.eq(x, lax.zero(x)), lax.ones_like_array(x), x)


def select(pred, on_true, on_false):
    """Selects like `lax.select`, but allows scalar operands."""
    shape = np.shape(on_true)
    if np.shape(pred) != shape or np.shape(on_false) != shape:
        return select_where(pred, on_true, on_false)
    return lax.select_n(pred, on_false, on_true)


def _one_like(x):
    """Returns the number one in the dtype and weak type of `x`."""
    return convert(1, x.dtype, x.weak_type)


def _float_divmod(x1, x2):
    # As in CPython, compute the quotient from the remainder, so that the two are consistent.
    rem = lax.rem(x1, x2)
    exact = select_where(
        lax.eq(x2, lax.zero(x2)), x1, lax.sub(x1, rem)
    )  # inf or NaN for zero divisors
    quotient = lax.div(exact, x2)
    down = lax.bitwise_and(lax.ne(rem, lax.zero(rem)), lax.ne(lax.sign(x2), lax.sign(rem)))
    rem = select(down, lax.add(rem, x2), rem)
    quotient = select(down, lax.sub(quotient, _one_like(quotient)), quotient)
    return lax.round(quotient), rem


# Powers


@export
def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise power `x1 ** x2`.

    A static integer exponent gives repeated multiplication, which is precise and differentiable
    everywhere.

    Args:
      x1, x2: arrays or scalars; see `add`. Booleans are converted to integers.

    Returns:
      An array of the common dtype.

    Raises:
      TypeError: if the base is an integer array and the exponent a static negative integer.
        Negative exponents in an integer array give an unspecified result.

    >>> jnp.power(jnp.array([1., 2., 3.]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    exponent = _known_integer(x2)
    if exponent is not None:
        check_arraylike("power", x1, x2)
        if isinstance(x1, core.Tracer):
            return _integer_pow(x1, exponent)
        return integer_powers[exponent](x1)
    return _power(x1, x2)


def _integer_pow(x: Any, exponent: int) -> Array:
    check_no_float0s("power", x)
    (x,) = promote_dtypes_numeric(lower_jax_array(x))
    return lax.integer_pow(x, exponent)


def _power_of(exponent: int) -> Any:
    return lambda x: _integer_pow(x, exponent)


integer_powers = Programs(_power_of)  # by exponent


@export
def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise power: alias of `power`.

    >>> jnp.pow(2., 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return power(x1, x2)


def _known_integer(x: Any) -> int | None:
    kind = type(x)
    if kind is int or kind is bool:
        return int(x)
    if kind is float:
        return None
    if isinstance(x, (int, np.integer)):
        return int(x)
    if kind is np.ndarray or kind is ArrayImpl:
        if x.shape == () and dtypes.issubdtype(x.dtype, np.integer):
            return int(x)
    elif isinstance(x, core.Tracer) and x.shape == ():
        value = x.to_concrete_value()
        if value is not None:
            return _known_integer(value)
    return None


@inline_jit
@checked
def _power(x1, x2):
    check_arraylike("power", x1, x2)
    check_no_float0s("power", x1, x2)
    base, exponent = promote_args_numeric("power", x1, x2)
    if dtype_kind(base) in "iu":
        return _integer_power(base, exponent)
    if dtype_kind(lower_jax_array(x2)) in "iu" and dtype_kind(lower_jax_array(x1)) in "fc":
        # lax.pow accepts an integer exponent for any base, which is more precise than a converted
        # one.
        base, exponent = promote_shapes("power", base, lower_jax_array(x2))
        if type(exponent) is not int or np.shape(base):
            return lax.pow(base, exponent)
    return lax.pow(base, exponent)


@nested_jit
def _integer_power(x1, x2):
    # Exponentiation by squaring. Six bits are enough: larger exponents overflow 64 bits anyway.
    dtype = dtype_of(x1)
    zero, one = np.zeros((), dtype)[()], np.ones((), dtype)[()]
    out = select_where(lax.bitwise_and(lax.eq(x1, zero), lax.ne(x2, zero)), zero, one)
    for bit in range(6):
        out = select_where(lax.bitwise_and(x2, one), lax.mul(out, x1), out)
        if bit < 5:
            x1 = lax.mul(x1, x1)
            x2 = lax.shift_right_logical(x2, one)
    return out


@op
@checked
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise power in floating point; takes the arguments of `add`.

    Differs from NumPy, which computes in float64: the dtype is that of `jnp.true_divide(x, y)`.

    >>> jnp.float_power(2, -1)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.pow(*promote_args_inexact("float_power", x, y))


@op
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise `log(exp(x1) + exp(x2))` without overflow.

    Args:
      x1, x2: arrays or scalars; see `add`. Integers are converted to floating point.

    >>> jnp.logaddexp(1000., 1000.)
    Array(1000.6932, dtype=float32, weak_type=True)
    """
    return _logaddexp(*promote_args_inexact("logaddexp", x1, x2))


@custom_jvp
def _logaddexp(x1, x2):
    return _log_add(x1, x2, lax.exp, 1.0)


@_logaddexp.defjvp
def _logaddexp_jvp(primals, tangents):
    return _log_add_jvp(_logaddexp, lax.exp, primals, tangents)


@op
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise `log2(2**x1 + 2**x2)` without overflow; see `logaddexp`.

    >>> jnp.logaddexp2(1000., 1000.)
    Array(1001., dtype=float32, weak_type=True)
    """
    return _logaddexp2(*promote_args_inexact("logaddexp2", x1, x2))


@custom_jvp
def _logaddexp2(x1, x2):
    return _log_add(x1, x2, lax.exp2, float(np.log2(np.e)))


@_logaddexp2.defjvp
def _logaddexp2_jvp(primals, tangents):
    return _log_add_jvp(_logaddexp2, lax.exp2, primals, tangents)


_logaddexp.__name__ = "logaddexp"
_logaddexp2.__name__ = "logaddexp2"


def _log_add(x1, x2, exp, scale):
    """Returns log(exp(x1) + exp(x2)); `scale` converts natural logarithms to exp's base."""
    dtype = dtype_of(x1)
    if dtypes.itemsize_bits(dtype) < 32:
        # The result may be much closer to zero than its parts, whose rounding would count.
        wide = [lax.convert_element_type(x, np.float32) for x in (x1, x2)]
        return lax.convert_element_type(_log_add(*wide, exp, scale), dtype)
    top = lax.max(x1, x2)
    if dtype_kind(top) == "c":
        delta = lax.sub(lax.add(x1, x2), lax.mul(top, lax.const(top, 2)))
        out = lax.add(top, _scaled(lax.log1p(exp(delta)), scale))
        return lax.complex(lax.real(out), _wrap_angle(lax.imag(out), np.pi * scale))
    delta = lax.sub(x1, x2)
    out = lax.add(top, _scaled(lax.log1p(exp(lax.neg(lax.abs(delta)))), scale))
    # The difference is NaN if an operand is, or for equal infinities; the sum is right for both.
    return select(lax.ne(delta, delta), lax.add(x1, x2), out)


def _scaled(x, scale):
    return x if scale == 1.0 else lax.mul(lax.const(x, scale), x)


def _wrap_angle(x, half):
    """Reduces an angle modulo `2 * half` to the range from -half to half."""
    period, half = lax.const(x, 2 * half), lax.const(x, half)
    rem = lax.rem(lax.add(x, half), period)
    rem = select(lax.lt(rem, lax.zero(rem)), lax.add(rem, period), rem)
    return lax.sub(rem, half)


def _log_add_jvp(fun, exp, primals, tangents):
    x1, x2 = primals
    t1, t2 = tangents
    primal = fun(x1, x2)
    weights = [exp(lax.sub(_inf_to_zero(x), _inf_to_zero(primal))) for x in (x1, x2)]
    tangent = lax.add(lax.mul(t1, weights[0]), lax.mul(t2, weights[1]))
    return primal, tangent


def _inf_to_zero(x):
    return select_where(lax.eq(x, lax.const(x, np.inf)), lax.zero(x), x)


# Extrema


@op
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise maximum; NaN where either is NaN. Complex numbers compare lexicographically.

    Takes the arguments of `add`.

    >>> jnp.maximum(jnp.arange(4), 2)
    Array([2, 2, 2, 3], dtype=int32)
    """
    return lax.max(*promote_pair("maximum", x, y))


@op
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise minimum; NaN where either is NaN. Complex numbers compare lexicographically.

    Takes the arguments of `add`.

    >>> jnp.minimum(jnp.arange(4), 2)
    Array([0, 1, 2, 2], dtype=int32)
    """
    return lax.min(*promote_pair("minimum", x, y))


# Angles and neighbouring numbers


@op
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise angle in radians of the point with coordinates `(x2, x1)`.

    Args:
      x1, x2: real arrays or scalars; see `add`.

    Returns:
      A floating-point array with values from -pi to pi.

    >>> jnp.arctan2(1., -1.)
    Array(2.3561945, dtype=float32, weak_type=True)
    """
    return lax.atan2(*promote_args_inexact("arctan2", x1, x2))


@op
def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise angle of a point: `arctan2`, after promotion to a common dtype.

    Unlike `arctan2`, it thus wraps a Python integer to the dtype of an array of integers.

    >>> jnp.atan2(0., 1.)
    Array(0., dtype=float32, weak_type=True)
    """
    return arctan2(*promote_args("atan2", x1, x2))


@op
def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise next floating-point number from `x` towards `y`.

    Args:
      x, y: real arrays or scalars; see `add`.

    >>> jnp.nextafter(jnp.float32(1), 2) > 1
    Array(True, dtype=bool)
    """
    return lax.nextafter(*promote_args_inexact("nextafter", x, y))


# Comparisons


def _comparison(name, compare, doc):
    def fun(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = promote_pair(name, x, y)
        if dtypes.issubdtype(dtype_of(x), np.complexfloating):
            rx, ry = lax.real(x), lax.real(y)
            return select(lax.eq(rx, ry), compare(lax.imag(x), lax.imag(y)), compare(rx, ry))
        return compare(x, y)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return op(fun)


@op
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise `x == y`, as booleans; takes the arguments of `add`.

    >>> jnp.equal(jnp.arange(3), 1)
    Array([False,  True, False], dtype=bool)
    """
    return lax.eq(*promote_pair("equal", x, y))


@op
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise `x != y`, as booleans; takes the arguments of `add`.

    >>> jnp.not_equal(jnp.arange(3), 1)
    Array([ True, False,  True], dtype=bool)
    """
    return lax.ne(*promote_pair("not_equal", x, y))


_COMPARISON_DOC = """Elementwise `x {op} y`, as booleans; takes the arguments of `add`.

    Complex numbers compare lexicographically.

    >>> jnp.{name}(jnp.arange(3), 1)
    Array([{example}], dtype=bool)
    """

greater = _comparison(
    "greater", lax.gt, _COMPARISON_DOC.format(op=">", name="greater", example="False, False,  True")
)
greater_equal = _comparison(
    "greater_equal",
    lax.ge,
    _COMPARISON_DOC.format(op=">=", name="greater_equal", example="False,  True,  True"),
)
less = _comparison(
    "less", lax.lt, _COMPARISON_DOC.format(op="<", name="less", example=" True, False, False")
)
less_equal = _comparison(
    "less_equal",
    lax.le,
    _COMPARISON_DOC.format(op="<=", name="less_equal", example=" True,  True, False"),
)


# Bits


@op
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise bitwise AND of integers or booleans; takes the arguments of `add`.

    >>> jnp.bitwise_and(jnp.array([1, 2, 3]), 2)
    Array([0, 2, 2], dtype=int32)
    """
    return lax.bitwise_and(*promote_pair("bitwise_and", x, y))


@op
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise bitwise OR of integers or booleans; takes the arguments of `add`.

    >>> jnp.bitwise_or(jnp.array([1, 2, 3]), 2)
    Array([3, 2, 3], dtype=int32)
    """
    return lax.bitwise_or(*promote_pair("bitwise_or", x, y))


@op
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise bitwise XOR of integers or booleans; takes the arguments of `add`.

    >>> jnp.bitwise_xor(jnp.array([1, 2, 3]), 2)
    Array([3, 0, 1], dtype=int32)
    """
    return lax.bitwise_xor(*promote_pair("bitwise_xor", x, y))


@op
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise left shift `x << y` of integers; takes the arguments of `add`.

    >>> jnp.left_shift(1, jnp.arange(4))
    Array([1, 2, 4, 8], dtype=int32)
    """
    return lax.shift_left(*promote_args_numeric("left_shift", x, y))


@op
def bitwise_left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise left shift: alias of `left_shift`.

    >>> jnp.bitwise_left_shift(1, 3)
    Array(8, dtype=int32, weak_type=True)
    """
    return lax.shift_left(*promote_args_numeric("bitwise_left_shift", x, y))


@op
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise right shift `x1 >> x2` of integers; takes the arguments of `add`.

    Signed integers keep their sign.

    >>> jnp.right_shift(jnp.array([8, -8]), 1)
    Array([ 4, -4], dtype=int32)
    """
    return _shift_right("right_shift", x1, x2)


@op
def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise right shift: alias of `right_shift`.

    >>> jnp.bitwise_right_shift(8, 3)
    Array(1, dtype=int32, weak_type=True)
    """
    return _shift_right("bitwise_right_shift", x1, x2)


def _shift_right(name, x1, x2):
    x1, x2 = promote_args_numeric(name, x1, x2)
    unsigned = dtypes.issubdtype(dtype_of(x1), np.unsignedinteger)
    shift = lax.shift_right_logical if unsigned else lax.shift_right_arithmetic
    return shift(x1, x2)


# Logic


def as_bool(x):
    return x if dtype_of(x) == _bool else lax.ne(x, lax.zero(x))


@op
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise logical AND, as booleans; takes the arguments of `add`. Only zero is False.

    >>> jnp.logical_and(jnp.arange(3), True)
    Array([False,  True,  True], dtype=bool)
    """
    return lax.bitwise_and(*map(as_bool, promote_args("logical_and", x, y)))


@op
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise logical OR, as booleans; takes the arguments of `add`. Only zero is False.

    >>> jnp.logical_or(jnp.arange(3), False)
    Array([False,  True,  True], dtype=bool)
    """
    return lax.bitwise_or(*map(as_bool, promote_args("logical_or", x, y)))


@op
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise logical XOR, as booleans; takes the arguments of `add`. Only zero is False.

    >>> jnp.logical_xor(jnp.arange(3), True)
    Array([ True, False, False], dtype=bool)
    """
    return lax.bitwise_xor(*map(as_bool, promote_args("logical_xor", x, y)))
