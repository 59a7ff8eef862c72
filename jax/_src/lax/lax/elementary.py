"""Elementary functions: exponentials, logarithms, powers, roots, trigonometric, hyperbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax.lax.accuracy import (
    Accuracy,
    accuracy_attr,
    accuracy_attrs,
    check_accuracy,
    pp_accuracy,
)
from jax._src.lax.lax.arithmetic import add, div, integer_pow, mul, neg, square, sub
from jax._src.lax.lax.branch_cuts import mirrored, shifted
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.logical import eq
from jax._src.lax.lax.select import filled, replace_zero, select
from jax._src.lax.lax.shape import broadcast_in_dim
from jax._src.lax.rules import (
    FLOAT,
    INEXACT,
    binary_primitive,
    broadcast_operands,
    hlo_op,
    unary_primitive,
    with_sharding,
)
from jax._src.lax.utils import const
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike


def _accurate(
    name: str, accepts: frozenset, *, lower: Any, jvp: Callable[..., Any]
) -> core.Primitive:
    """Define a unary primitive with the parameter `accuracy`, which is printed only if set."""
    return unary_primitive(name, accepts, lower=lower, jvp=jvp, pp=pp_accuracy)


def _accurate_op(name: str) -> hlo_op:
    return hlo_op(name, attrs=accuracy_attrs)


# ---------------------------------------------------------------------------------------------------
# Exponentials and logarithms


def exp(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise exponential, :math:`e^x`.

    Args:
      x: real or complex array.
      accuracy: a `lax.AccuracyMode` or `lax.Tolerance`; None for the default implementation.

    Raises:
      TypeError: if `x` has another dtype.

    >>> lax.exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    check_accuracy("exp", accuracy)
    return exp_p.bind(x, accuracy=accuracy)


exp_p = _accurate(
    "exp", INEXACT, lower=_accurate_op("exponential"), jvp=lambda g, y, x, *, accuracy: mul(g, y)
)


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise power of two, :math:`2^x`; arguments as for :func:`exp`.

    >>> lax.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    check_accuracy("exp2", accuracy)
    return exp2_p.bind(x, accuracy=accuracy)


def lower_exp2(ctx, x, *, accuracy):
    (aval_out,) = ctx.avals_out
    log2 = mlir.full_like_aval(ctx, np.log(2), aval_out)
    out = hlo.exponential(hlo.multiply(log2, x), result_accuracy=accuracy_attr(accuracy))
    return [with_sharding(ctx, out, aval_out)]


exp2_p = _accurate(
    "exp2",
    INEXACT,
    lower=lower_exp2,
    jvp=lambda g, y, x, *, accuracy: mul(const(x, np.log(2)), mul(g, y)),
)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise :math:`e^{x} - 1`, accurate for small :math:`x`; arguments as for :func:`exp`.

    >>> lax.expm1(1e-10)
    Array(1.e-10, dtype=float32, weak_type=True)
    """
    check_accuracy("expm1", accuracy)
    return expm1_p.bind(x, accuracy=accuracy)


def _expm1_lower(ctx, x, *, accuracy):
    (aval_out,) = ctx.avals_out
    kwargs = accuracy_attrs(ctx, accuracy=accuracy)
    out = hlo.exponential_minus_one(x, **kwargs)
    if dtypes.issubdtype(aval_out.dtype, np.complexfloating):
        # Only exp is finite where a part is, although exp(real(x)) is not; the 1 is lost there.
        part = aval_out.update(dtype=np.finfo(aval_out.dtype).dtype)
        bound = mlir.full_like_aval(ctx, 60, part)
        large = mlir.compare_hlo(hlo.real(x), bound, "GT", "FLOAT")
        out = hlo.select(large, hlo.exponential(x, **kwargs), out)
    return [with_sharding(ctx, out, aval_out)]


expm1_p = _accurate(
    "expm1",
    INEXACT,
    lower=_expm1_lower,
    jvp=lambda g, y, x, *, accuracy: mul(g, add(y, const(y, 1))),
)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise natural logarithm, :math:`\mathrm{log}(x)`; arguments as for :func:`exp`.

    >>> lax.log(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    check_accuracy("log", accuracy)
    return log_p.bind(x, accuracy=accuracy)


log_p = _accurate(
    "log", INEXACT, lower=mirrored(_accurate_op("log")), jvp=lambda g, y, x, *, accuracy: div(g, x)
)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise :math:`\log(1 + x)`, accurate for small `x`; arguments as for :func:`exp`.

    >>> lax.log1p(1e-10)
    Array(1.e-10, dtype=float32, weak_type=True)
    """
    check_accuracy("log1p", accuracy)
    return log1p_p.bind(x, accuracy=accuracy)


lower_log1p = mirrored(_accurate_op("log_plus_one"))
log1p_p = _accurate(
    "log1p",
    INEXACT,
    lower=lower_log1p,
    jvp=lambda g, y, x, *, accuracy: div(g, add(x, const(x, 1))),
)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise logistic (sigmoid) function, :math:`\frac{1}{1 + e^{-x}}`.

    The arguments are as for :func:`exp`.

    >>> lax.logistic(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    check_accuracy("logistic", accuracy)
    return logistic_p.bind(x, accuracy=accuracy)


def _logistic_lower(ctx, x, *, accuracy):
    (aval_out,) = ctx.avals_out
    one = mlir.full_like_aval(ctx, 1, aval_out)
    e = hlo.exponential(hlo.negate(x), result_accuracy=accuracy_attr(accuracy))
    return [with_sharding(ctx, hlo.divide(one, hlo.add(one, e)), aval_out)]


logistic_p = _accurate(
    "logistic",
    INEXACT,
    lower=_logistic_lower,
    jvp=lambda g, y, x, *, accuracy: mul(g, mul(y, sub(const(y, 1), y))),
)

# ---------------------------------------------------------------------------------------------------
# Powers and roots


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise power, :math:`x^y`.

    Args:
      x: real or complex array.
      y: array of the same dtype, or of an integer dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.pow(jnp.array([1.0, 2.0, 3.0]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    return pow_p.bind(x, y)


def _pow_dtype(x, y):
    if dtypes.issubdtype(y, np.inexact) and x != y:
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), and the second "
            "argument must have an inexact or integer dtype, and two inexact dtypes must match, but got "
            f"{x.name} and {y.name} respectively."
        )
    return x


def _pow_jvp_x(g, out, x, y):
    if dtypes.issubdtype(core.typeof(y).dtype, np.integer):
        # The derivative of x**0 is 0, also at x = 0, where 0 * x**-1 is NaN.
        x_dtype = core.typeof(x).dtype
        if not core.typeof(y).shape and core.typeof(x).shape:
            y = broadcast_in_dim(y, core.typeof(x).shape, ())
        is_zero = eq(y, const(y, 0))
        y = convert_element_type(y, x_dtype)
        slope = mul(replace_zero(y), pow(_not_weak(x), sub(y, const(y, 1))))
        slope = select(is_zero, filled(slope, 0), slope)
    else:
        x, y = _not_weak(x), _not_weak(y)
        slope = mul(y, pow(x, sub(y, const(y, 1))))
    return mul(g, slope)


def _pow_jvp_y(g, out, x, y):
    return _not_weak(mul(g, mul(log(replace_zero(x)), out)))


def _not_weak(x):
    aval = core.typeof(x)
    return convert_element_type(x, aval.dtype) if aval.weak_type else x


def _pow_lower(ctx, x, y):
    x_aval, y_aval = ctx.avals_in
    (aval_out,) = ctx.avals_out
    x, y = broadcast_operands(ctx, (x, y), aval_out)
    if y_aval.dtype != x_aval.dtype:
        y = mlir.convert_hlo(ctx, y, aval_out.update(dtype=y_aval.dtype), aval_out)
    return [with_sharding(ctx, hlo.power(x, y), aval_out)]


pow_p = binary_primitive(
    "pow",
    (INEXACT, INEXACT | frozenset({np.integer})),
    lower=_pow_lower,
    jvp=(_pow_jvp_x, _pow_jvp_y),
    out_dtype=_pow_dtype,
    same_dtypes=False,
)


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise square root, :math:`\sqrt{x}`; arguments as for :func:`exp`.

    >>> lax.sqrt(4.0)
    Array(2., dtype=float32, weak_type=True)
    """
    check_accuracy("sqrt", accuracy)
    return sqrt_p.bind(x, accuracy=accuracy)


sqrt_p = _accurate(
    "sqrt",
    INEXACT,
    lower=mirrored(_accurate_op("sqrt")),
    jvp=lambda g, y, x, *, accuracy: mul(g, div(const(x, 0.5), y)),
)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise reciprocal square root, :math:`1 \over \sqrt{x}`; arguments as for :func:`exp`.

    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    check_accuracy("rsqrt", accuracy)
    return rsqrt_p.bind(x, accuracy=accuracy)


rsqrt_p = _accurate(
    "rsqrt",
    INEXACT,
    lower=mirrored(_accurate_op("rsqrt"), falling=True),
    jvp=lambda g, y, x, *, accuracy: mul(g, mul(const(x, -0.5), div(y, x))),
)


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise cube root, :math:`\sqrt[3]{x}`, of real numbers; arguments as for :func:`exp`.

    >>> lax.cbrt(-8.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    check_accuracy("cbrt", accuracy)
    return cbrt_p.bind(x, accuracy=accuracy)


cbrt_p = _accurate(
    "cbrt",
    FLOAT,
    lower=_accurate_op("cbrt"),
    jvp=lambda g, y, x, *, accuracy: mul(g, mul(const(x, 1 / 3), integer_pow(y, -2))),
)

# ---------------------------------------------------------------------------------------------------
# Trigonometric functions


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise sine, :math:`\mathrm{sin}(x)`; arguments as for :func:`exp`.

    >>> lax.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    check_accuracy("sin", accuracy)
    return sin_p.bind(x, accuracy=accuracy)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise cosine, :math:`\mathrm{cos}(x)`; arguments as for :func:`exp`.

    >>> lax.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    check_accuracy("cos", accuracy)
    return cos_p.bind(x, accuracy=accuracy)


class _sine_or_cosine:
    """Lower sin and cos; complex ones by real functions, such that the imaginary axis is exact."""

    __slots__ = ("real_op", "is_sine")

    def __init__(self, real_op: str, is_sine: bool):
        self.real_op = _accurate_op(real_op)
        self.is_sine = is_sine

    def __call__(self, ctx, x, *, accuracy):
        (aval_out,) = ctx.avals_out
        if not dtypes.issubdtype(aval_out.dtype, np.complexfloating):
            return self.real_op(ctx, x, accuracy=accuracy)
        part = aval_out.update(dtype=np.finfo(aval_out.dtype).dtype)
        zero, two = mlir.full_like_aval(ctx, 0, part), mlir.full_like_aval(ctx, 2, part)
        kwargs = accuracy_attrs(ctx, accuracy=accuracy)
        a, b = hlo.real(x), hlo.imag(x)
        sin_a, cos_a = hlo.sine(a, **kwargs), hlo.cosine(a, **kwargs)
        # Compute sinh(b) and cosh(b) by expm1, which keeps precision for small b.
        up = hlo.exponential_minus_one(b, **kwargs)
        down = hlo.exponential_minus_one(hlo.negate(b), **kwargs)
        sinh_b = hlo.divide(hlo.subtract(up, down), two)
        cosh_b = hlo.divide(hlo.add(hlo.add(up, down), two), two)
        # Where they would overflow, both are exp(b / 2)**2 / 2 but for the sign. One of the factors
        # is left for last, since the products with sin(a) and cos(a) may be finite.
        one = mlir.full_like_aval(ctx, 1, part)
        bound = mlir.full_like_aval(ctx, np.log(np.finfo(part.dtype).max) - 1, part)
        large = mlir.compare_hlo(hlo.abs(b), bound, "GT", "FLOAT")
        root = hlo.exponential(hlo.divide(hlo.abs(b), two), **kwargs)
        half = hlo.divide(root, two)
        cosh_b = hlo.select(large, half, cosh_b)
        sinh_b = hlo.select(large, hlo.multiply(hlo.sign(b), half), sinh_b)
        scale = hlo.select(large, root, one)
        on_axis = mlir.compare_hlo(a, zero, "EQ", "FLOAT")
        if self.is_sine:
            re, im = hlo.multiply(sin_a, cosh_b), hlo.multiply(cos_a, sinh_b)
        else:
            re, im = hlo.multiply(cos_a, cosh_b), hlo.multiply(hlo.negate(sin_a), sinh_b)
        re, im = hlo.multiply(re, scale), hlo.multiply(im, scale)
        # If a is 0, sin(a) cosh(b) is 0 even if cosh(b) is infinite.
        if self.is_sine:
            re = hlo.select(on_axis, zero, re)
        else:
            im = hlo.select(on_axis, zero, im)
        return [with_sharding(ctx, hlo.complex(re, im), aval_out)]


sin_p = _accurate(
    "sin",
    INEXACT,
    lower=_sine_or_cosine("sine", True),
    jvp=lambda g, y, x, *, accuracy: mul(g, cos(x, accuracy=accuracy)),
)
cos_p = _accurate(
    "cos",
    INEXACT,
    lower=_sine_or_cosine("cosine", False),
    jvp=lambda g, y, x, *, accuracy: neg(mul(g, sin(x, accuracy=accuracy))),
)


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise tangent, :math:`\mathrm{tan}(x)`; arguments as for :func:`exp`.

    >>> lax.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    check_accuracy("tan", accuracy)
    return tan_p.bind(x, accuracy=accuracy)


tan_p = _accurate(
    "tan",
    INEXACT,
    lower=_accurate_op("tan"),
    jvp=lambda g, y, x, *, accuracy: mul(g, add(const(x, 1), square(y))),
)


def asin(x: ArrayLike) -> Array:
    r"""Elementwise arc sine, :math:`\mathrm{asin}(x)`, of real or complex numbers.

    >>> lax.asin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return asin_p.bind(x)


def _one_minus_square(x):
    if dtypes.issubdtype(core.typeof(x).dtype, np.complexfloating):
        return neg(shifted(square(x), -1))
    return sub(const(x, 1), square(x))


lower_asin = mirrored(hlo_op("asin", "chlo"), odd=True)
asin_p = unary_primitive(
    "asin",
    INEXACT,
    lower=lower_asin,
    jvp=lambda g, y, x: mul(g, rsqrt(_one_minus_square(x))),
)


def acos(x: ArrayLike) -> Array:
    r"""Elementwise arc cosine, :math:`\mathrm{acos}(x)`, of real or complex numbers.

    >>> lax.acos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return acos_p.bind(x)


acos_p = unary_primitive(
    "acos",
    INEXACT,
    lower=mirrored(hlo_op("acos", "chlo"), falling=True),
    jvp=lambda g, y, x: mul(g, neg(rsqrt(_one_minus_square(x)))),
)


def atan(x: ArrayLike) -> Array:
    r"""Elementwise arc tangent, :math:`\mathrm{atan}(x)`, of real or complex numbers.

    >>> lax.atan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return atan_p.bind(x)


atan_p = unary_primitive(
    "atan",
    INEXACT,
    lower=mirrored(hlo_op("atan", "chlo"), odd=True),
    jvp=lambda g, y, x: div(g, add(const(x, 1), square(x))),
)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise arc tangent of :math:`x \over y`, in the quadrant given by both signs.

    Args:
      x, y: real or complex arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.atan2(0.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return atan2_p.bind(x, y)


atan2_p = binary_primitive(
    "atan2",
    INEXACT,
    lower=hlo_op("atan2"),
    jvp=(
        lambda g, out, x, y: mul(g, div(y, add(square(x), square(y)))),
        lambda g, out, x, y: mul(g, div(neg(x), add(square(x), square(y)))),
    ),
)

# ---------------------------------------------------------------------------------------------------
# Hyperbolic functions


def sinh(x: ArrayLike) -> Array:
    r"""Elementwise hyperbolic sine, :math:`\mathrm{sinh}(x)`, of real or complex numbers.

    >>> lax.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return sinh_p.bind(x)


sinh_p = unary_primitive(
    "sinh", INEXACT, lower=hlo_op("sinh", "chlo"), jvp=lambda g, y, x: mul(g, cosh(x))
)


def cosh(x: ArrayLike) -> Array:
    r"""Elementwise hyperbolic cosine, :math:`\mathrm{cosh}(x)`, of real or complex numbers.

    >>> lax.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return cosh_p.bind(x)


cosh_p = unary_primitive(
    "cosh", INEXACT, lower=hlo_op("cosh", "chlo"), jvp=lambda g, y, x: mul(g, sinh(x))
)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    r"""Elementwise hyperbolic tangent, :math:`\mathrm{tanh}(x)`; arguments as for :func:`exp`.

    >>> lax.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    check_accuracy("tanh", accuracy)
    return tanh_p.bind(x, accuracy=accuracy)


tanh_p = _accurate(
    "tanh",
    INEXACT,
    lower=_accurate_op("tanh"),
    # (1 + y) (1 - y) is precise where y is near 1; 1 - y**2 is not.
    jvp=lambda g, y, x, *, accuracy: mul(add(g, mul(g, y)), sub(const(x, 1), y)),
)


def asinh(x: ArrayLike) -> Array:
    r"""Elementwise inverse hyperbolic sine, :math:`\mathrm{asinh}(x)`, of real or complex numbers.

    >>> lax.asinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return asinh_p.bind(x)


asinh_p = unary_primitive(
    "asinh",
    INEXACT,
    lower=mirrored(hlo_op("asinh", "chlo"), odd=True),
    jvp=lambda g, y, x: mul(g, rsqrt(shifted(square(x), 1))),
)


def acosh(x: ArrayLike) -> Array:
    r"""Elementwise inverse hyperbolic cosine, :math:`\mathrm{acosh}(x)`, of real or complex `x`.

    >>> lax.acosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return acosh_p.bind(x)


def _acosh_slope(x):
    if dtypes.issubdtype(core.typeof(x).dtype, np.complexfloating):
        # The root of the square is the other one where the real part is negative.
        return mul(rsqrt(shifted(x, -1)), rsqrt(shifted(x, 1)))
    return rsqrt(sub(square(x), const(x, 1)))


acosh_p = unary_primitive(
    "acosh",
    INEXACT,
    lower=mirrored(hlo_op("acosh", "chlo")),
    jvp=lambda g, y, x: mul(g, _acosh_slope(x)),
)


def atanh(x: ArrayLike) -> Array:
    r"""Elementwise inverse hyperbolic tangent, :math:`\mathrm{atanh}(x)`, of real or complex `x`.

    >>> lax.atanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return atanh_p.bind(x)


lower_atanh = mirrored(hlo_op("atanh", "chlo"), odd=True)
atanh_p = unary_primitive(
    "atanh",
    INEXACT,
    lower=lower_atanh,
    jvp=lambda g, y, x: mul(integer_pow(add(const(x, 1), x), -1), div(g, sub(const(x, 1), x))),
)
