"""Elementwise arithmetic: sums, products, rounding, extrema, integer powers and complex parts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, mlir
from jax._src.late_binding import late
from jax._src.lax.lax.accuracy import RoundingMethod
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.logical import eq, ge
from jax._src.lax.lax.select import filled, replace_zero, select
from jax._src.lax.lax.shape import broadcast_in_dim
from jax._src.lax.rules import (
    ANY,
    BILINEAR,
    COMPLEX,
    FLOAT,
    INEXACT,
    INT,
    LINEAR,
    NUMERIC,
    SIGNED,
    ZERO,
    FullRule,
    bilinear_unreduced,
    binary_primitive,
    broadcast_operands,
    check_same_dtypes,
    hlo_op,
    linear_unreduced,
    unary_primitive,
    with_sharding,
)
from jax._src.lax.utils import const, unbroadcast
from jax._src.lib.mlir.dialects import chlo, hlo
from jax._src.typing import ArrayLike, DTypeLike

# ---------------------------------------------------------------------------------------------------
# Sums


def neg(x: ArrayLike) -> Array:
    r"""Elementwise negation, :math:`-x`; unsigned integers wrap.

    Args:
      x: numeric array.

    >>> lax.neg(3)
    Array(-3, dtype=int32, weak_type=True)
    """
    return neg_p.bind(x)


neg_p = unary_primitive(
    "neg",
    NUMERIC,
    lower=hlo_op("negate"),
    jvp=LINEAR,
    transpose=lambda ct, x: [Zero(x.aval) if type(ct) is Zero else neg(ct)],
    unreduced=linear_unreduced("neg"),
)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise sum, :math:`x + y`.

    Args:
      x, y: numeric arrays of one dtype. Their shapes are equal, or one is scalar, or dimensions of
        size 1 are broadcast.

    Returns:
      An array of the operands' dtype; integers wrap around.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.add(jnp.array([1, 2]), 10)
    Array([11, 12], dtype=int32)
    """
    return add_p.bind(x, y)


def _spread(g, out):
    """Broadcast the tangent `g` of an operand to the shape of the result."""
    shape = core.typeof(out).shape
    own = core.typeof(g).shape
    if own == shape:
        return g
    return broadcast_in_dim(g, shape, tuple(range(len(shape))) if own else ())


def _add_jvp(primals, tangents):
    (x, y), (gx, gy) = primals, tangents
    out = add_p.bind(x, y)
    if type(gx) is Zero:
        return out, Zero.from_primal_value(out) if type(gy) is Zero else _spread(gy, out)
    return out, _spread(gx, out) if type(gy) is Zero else add(gx, gy)


def _add_transpose(ct, x, y):
    return [_operand_ct(ct, x), _operand_ct(ct, y)]


def _operand_ct(ct, x):
    if not ad.is_undefined_primal(x):
        return None
    return Zero(x.aval) if type(ct) is Zero else unbroadcast(x.aval, ct)


add_p = binary_primitive(
    "add",
    NUMERIC,
    lower=hlo_op("add"),
    jvp=FullRule(_add_jvp),
    transpose=_add_transpose,
    unreduced=linear_unreduced("add"),
)

# Adds tangents or cotangents, of any dtype; jaxprs print it with another name than the user's
# `add`.
add_any_p = binary_primitive(
    "add_any",
    ANY,
    lower=hlo_op("add"),
    jvp=LINEAR,
    transpose=_add_transpose,
    unreduced=linear_unreduced("add_any"),
    extended=True,
)


def _add_any(x, y):
    return add_any_p.bind(x, y)


late.add_any = _add_any


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise difference, :math:`x - y`; the operands are as for :func:`add`.

    >>> lax.sub(jnp.array([1, 2]), 10)
    Array([-9, -8], dtype=int32)
    """
    return sub_p.bind(x, y)


def _sub_jvp(primals, tangents):
    (x, y), (gx, gy) = primals, tangents
    out = sub_p.bind(x, y)
    if type(gx) is Zero:
        return out, Zero.from_primal_value(out) if type(gy) is Zero else _spread(neg(gy), out)
    return out, _spread(gx, out) if type(gy) is Zero else sub(gx, gy)


def _sub_transpose(ct, x, y):
    ct_y = _operand_ct(ct, y)
    return [_operand_ct(ct, x), ct_y if ct_y is None or type(ct_y) is Zero else neg(ct_y)]


sub_p = binary_primitive(
    "sub",
    NUMERIC,
    lower=hlo_op("subtract"),
    jvp=FullRule(_sub_jvp),
    transpose=_sub_transpose,
    unreduced=linear_unreduced("sub"),
)

# ---------------------------------------------------------------------------------------------------
# Products


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    r"""Elementwise product, :math:`x \times y`.

    Args:
      x, y: numeric arrays, of one dtype unless `out_dtype` is given; shapes as for :func:`add`.
      out_dtype: dtype to which the operands are converted, and the result's dtype; None for theirs.

    Returns:
      An array of that dtype.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.mul(jnp.array([1, 2]), 10)
    Array([10, 20], dtype=int32)
    """
    if out_dtype is None:
        return mul_p.bind(x, y)
    out_dtype = dtypes.check_and_canonicalize_user_dtype(out_dtype, "mul")
    return mul_p.bind(x, y, out_dtype=out_dtype)


def _mul_transpose(ct, x, y, *, out_dtype=None):
    # Keep the order of the operands, so that the printed program is as expected.
    if ad.is_undefined_primal(x):
        return [_mul_ct(ct, x.aval, out_dtype, lambda dtype: mul(ct, y, out_dtype=dtype)), None]
    return [None, _mul_ct(ct, y.aval, out_dtype, lambda dtype: mul(x, ct, out_dtype=dtype))]


def _mul_ct(ct, aval, out_dtype, product):
    if type(ct) is Zero:
        return Zero(aval)
    return unbroadcast(aval, product(None if out_dtype is None else aval.dtype))


def _mul_dtype(x, y, out_dtype=None):
    if out_dtype is not None:
        return out_dtype
    check_same_dtypes("mul", x, y)
    return x


def _mul_lower(ctx, x, y, *, out_dtype=None):
    (aval_out,) = ctx.avals_out
    x, y = broadcast_operands(ctx, (x, y), aval_out)
    if out_dtype is not None:
        x, y = [
            v
            if a.dtype == aval_out.dtype
            else mlir.convert_hlo(ctx, v, aval_out.update(dtype=a.dtype), aval_out)
            for v, a in zip((x, y), ctx.avals_in)
        ]
    return [with_sharding(ctx, mlir.emit("stablehlo.multiply", (x, y)), aval_out)]


mul_p = binary_primitive(
    "mul",
    NUMERIC,
    lower=_mul_lower,
    jvp=BILINEAR,
    transpose=_mul_transpose,
    out_dtype=_mul_dtype,
    same_dtypes=False,
    unreduced=bilinear_unreduced("mul"),
)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise quotient, :math:`x \over y`.

    Integer division rounds towards zero. Integer division by zero returns -1 (all bits set), and
    the minimum divided by -1 is itself.

    Args:
      x, y: numeric arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.div(jnp.array([7, -7]), 2)
    Array([ 3, -3], dtype=int32)
    """
    return div_p.bind(x, y)


def _div_transpose(ct, x, y):
    if type(ct) is Zero:
        return [Zero(x.aval), None]
    return [unbroadcast(x.aval, div(ct, y)), None]


div_p = binary_primitive(
    "div",
    NUMERIC,
    lower=hlo_op("divide"),
    jvp=(
        lambda g, out, x, y: div(g, y),
        lambda g, out, x, y: mul(mul(neg(g), x), integer_pow(y, -2)),
    ),
    transpose=_div_transpose,
)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise remainder, :math:`x \bmod y`, with the sign of `x` and less magnitude than `y`.

    The remainder of integers by zero is `x`.

    Args:
      x, y: integer or real arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.rem(jnp.array([7, -7]), 4)
    Array([ 3, -3], dtype=int32)
    """
    return rem_p.bind(x, y)


rem_p = binary_primitive(
    "rem",
    INT | FLOAT,
    lower=hlo_op("remainder"),
    jvp=(
        lambda g, out, x, y: _spread(g, out),
        lambda g, out, x, y: mul(neg(g), mul(sign(div(x, y)), floor(abs(div(x, y))))),
    ),
)


def reciprocal(x: ArrayLike) -> Array:
    r"""Elementwise reciprocal, :math:`1 \over x`, of real or complex numbers.

    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return integer_pow(x, -1)


def square(x: ArrayLike) -> Array:
    r"""Elementwise square, :math:`x^2`.

    Args:
      x: numeric array.

    >>> lax.square(-3)
    Array(9, dtype=int32, weak_type=True)
    """
    return square_p.bind(x)


def _square_lower(ctx, x):
    (aval_out,) = ctx.avals_out
    if dtypes.issubdtype(aval_out.dtype, np.integer):
        out = hlo.multiply(x, x)
    else:
        out = chlo.square(x)
    return [with_sharding(ctx, out, aval_out)]


square_p = unary_primitive(
    "square",
    NUMERIC,
    lower=_square_lower,
    jvp=lambda g, out, x: mul(g, mul(const(x, 2), x)),
)


def integer_pow(x: ArrayLike, y: int) -> Array:
    r"""Elementwise power, :math:`x^y`, with a static integer `y`.

    Args:
      x: numeric array.
      y: integer, which must be concrete at trace time.

    Raises:
      TypeError: if `y` is not an integer, or `y` is negative and `x` has an integer dtype.

    >>> lax.integer_pow(jnp.array([1., 2., 3.]), -2)
    Array([1.        , 0.25      , 0.11111111], dtype=float32)
    """
    y = core.concrete_or_error(operator.index, y, "y argument of lax.integer_pow")
    return integer_pow_p.bind(x, y=y)


def _integer_pow_dtype(dtype, *, y):
    if y < 0 and dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({dtype.name}, {y})"
        )
    return dtype


def _integer_pow_jvp(g, out, x, *, y):
    if y == 0:
        return None
    if y == 1:
        return g
    return mul(g, mul(const(x, y), x if y == 2 else integer_pow(x, y - 1)))


def _integer_pow_lower(ctx, x, *, y):
    (aval_out,) = ctx.avals_out
    if y == 0:
        return [mlir.full_like_aval(ctx, 1, aval_out)]
    out, power, n = None, x, y if y > 0 else -y
    while True:  # exponentiation by squaring
        if n & 1:
            out = power if out is None else hlo.multiply(out, power)
        n >>= 1
        if not n:
            break
        power = hlo.multiply(power, power)
    if y < 0:
        out = hlo.divide(mlir.full_like_aval(ctx, 1, aval_out), out)
    return [with_sharding(ctx, out, aval_out)]


integer_pow_p = unary_primitive(
    "integer_pow",
    NUMERIC,
    lower=_integer_pow_lower,
    jvp=_integer_pow_jvp,
    out_dtype=_integer_pow_dtype,
)

# ---------------------------------------------------------------------------------------------------
# Signs and rounding


def sign(x: ArrayLike) -> Array:
    r"""Elementwise sign: -1, 0 (keeping its sign) or 1; NaN for NaN; :math:`x / |x|` if complex.

    Args:
      x: numeric array.

    >>> lax.sign(jnp.array([-2, 0, 3]))
    Array([-1,  0,  1], dtype=int32)
    """
    return sign_p.bind(x)


def _sign_lower(ctx, x):
    (aval_out,) = ctx.avals_out
    if dtypes.issubdtype(aval_out.dtype, np.unsignedinteger):
        zero = mlir.full_like_aval(ctx, 0, aval_out)
        one = mlir.full_like_aval(ctx, 1, aval_out)
        out = hlo.select(mlir.compare_hlo(x, zero, "EQ", "UNSIGNED"), zero, one)
    else:
        out = hlo.sign(x)
    return [with_sharding(ctx, out, aval_out)]


sign_p = unary_primitive("sign", NUMERIC, lower=_sign_lower, jvp=ZERO)


def abs(x: ArrayLike) -> Array:
    r"""Elementwise absolute value, :math:`|x|`.

    The derivative at 0 is 1 for real numbers, and 0 for complex ones.

    Args:
      x: array of a signed integer, real or complex dtype.

    Returns:
      An array of the operand's dtype, or of the corresponding real dtype if that is complex.

    Raises:
      TypeError: if `x` has an unsigned or boolean dtype.

    >>> lax.abs(jnp.array([-2.0, 3.0]))
    Array([2., 3.], dtype=float32)
    """
    return abs_p.bind(x)


def _real_dtype(dtype, **_):
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def _abs_jvp(g, out, x):
    if dtypes.issubdtype(core.typeof(x).dtype, np.complexfloating):
        norm = replace_zero(convert_element_type(out, core.typeof(x).dtype))
        return real(mul(g, div(conj(x), norm)))
    return select(ge(x, const(x, 0)), g, neg(g))


abs_p = unary_primitive(
    "abs",
    SIGNED | INEXACT,
    lower=hlo_op("abs"),
    jvp=_abs_jvp,
    out_dtype=_real_dtype,
)


def floor(x: ArrayLike) -> Array:
    r"""Elementwise floor, :math:`\left\lfloor x \right\rfloor`, of real numbers.

    >>> lax.floor(jnp.array([-1.5, 1.5]))
    Array([-2.,  1.], dtype=float32)
    """
    return floor_p.bind(x)


floor_p = unary_primitive("floor", FLOAT, lower=hlo_op("floor"), jvp=ZERO)


def ceil(x: ArrayLike) -> Array:
    r"""Elementwise ceiling, :math:`\left\lceil x \right\rceil`, of real numbers.

    >>> lax.ceil(jnp.array([-1.5, 1.5]))
    Array([-1.,  2.], dtype=float32)
    """
    return ceil_p.bind(x)


ceil_p = unary_primitive("ceil", FLOAT, lower=hlo_op("ceil"), jvp=ZERO)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round real numbers to the nearest integer, elementwise.

    Args:
      x: real array.
      rounding_method: how to round halves: away from zero, or to the nearest even integer.

    Raises:
      ValueError: if `rounding_method` is not a `lax.RoundingMethod`.

    >>> lax.round(jnp.array([0.5, 1.4, -2.5]))
    Array([ 1.,  1., -3.], dtype=float32)
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def _round_lower(ctx, x, *, rounding_method):
    even = rounding_method is RoundingMethod.TO_NEAREST_EVEN
    out = hlo.round_nearest_even(x) if even else hlo.round_nearest_afz(x)
    return [with_sharding(ctx, out, ctx.avals_out[0])]


round_p = unary_primitive("round", FLOAT, lower=_round_lower, jvp=ZERO)


def is_finite(x: ArrayLike) -> Array:
    r"""Elementwise :math:`\mathrm{isfinite}`: false for infinities and NaN.

    Args:
      x: real array.

    >>> lax.is_finite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return is_finite_p.bind(x)


is_finite_p = unary_primitive(
    "is_finite", FLOAT, lower=hlo_op("is_finite"), jvp=ZERO, out_dtype=np.bool_
)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise next representable number after `x1` towards `x2`; `x2` if they are equal.

    Args:
      x1, x2: real arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.nextafter(1.0, 2.0)
    Array(1.0000001, dtype=float32, weak_type=True)
    """
    return nextafter_p.bind(x1, x2)


nextafter_p = binary_primitive("nextafter", FLOAT, lower=hlo_op("next_after", "chlo"))

# ---------------------------------------------------------------------------------------------------
# Extrema


def max(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise maximum, :math:`\mathrm{max}(x, y)`; NaN if an operand is NaN.

    Complex numbers are compared by real parts, then by imaginary parts. Equal operands each get
    half of the derivative.

    Args:
      x, y: arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.max(jnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """
    return max_p.bind(x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise minimum, :math:`\mathrm{min}(x, y)`; like :func:`max`.

    >>> lax.min(jnp.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """
    return min_p.bind(x, y)


def _share(x, out, y):
    """Return the share of an extremum's derivative for `x`: 0, 1, or 1/2 for equal operands."""
    one = filled(out, 1)
    chosen = select(eq(x, out), one, filled(out, 0))
    return div(chosen, select(eq(y, out), filled(out, 2), one))


def _extremum(name: str, emit: str) -> Any:
    def lower(ctx, x, y):
        (aval_out,) = ctx.avals_out
        x, y = broadcast_operands(ctx, (x, y), aval_out)
        return [with_sharding(ctx, getattr(mlir, emit)(x, y), aval_out)]

    return binary_primitive(
        name,
        ANY,
        lower=lower,
        jvp=(
            lambda g, out, x, y: mul(g, _share(x, out, y)),
            lambda g, out, x, y: mul(g, _share(y, out, x)),
        ),
    )


max_p = _extremum("max", "max_hlo")
min_p = _extremum("min", "min_hlo")

# ---------------------------------------------------------------------------------------------------
# Parts of complex numbers


def real(x: ArrayLike) -> Array:
    r"""Elementwise real part, :math:`\mathrm{Re}(x)`, of complex numbers.

    Raises:
      TypeError: if `x` is not complex.

    >>> lax.real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    return real_p.bind(x)


def _strong_zero(ct):
    """Return zero in the dtype of `ct`, not weakly typed, as the cotangent must not be either."""
    return core.typeof(ct).dtype.type(0)


def _real_transpose(ct, x):
    return [Zero(x.aval) if type(ct) is Zero else complex(ct, _strong_zero(ct))]


real_p = unary_primitive(
    "real",
    COMPLEX,
    lower=hlo_op("real"),
    jvp=LINEAR,
    transpose=_real_transpose,
    out_dtype=_real_dtype,
    unreduced=linear_unreduced("real"),
)


def imag(x: ArrayLike) -> Array:
    r"""Elementwise imaginary part, :math:`\mathrm{Im}(x)`, of complex numbers.

    Raises:
      TypeError: if `x` is not complex.

    >>> lax.imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    return imag_p.bind(x)


def _imag_transpose(ct, x):
    return [Zero(x.aval) if type(ct) is Zero else complex(_strong_zero(ct), neg(ct))]


imag_p = unary_primitive(
    "imag",
    COMPLEX,
    lower=hlo_op("imag"),
    jvp=LINEAR,
    transpose=_imag_transpose,
    out_dtype=_real_dtype,
    unreduced=linear_unreduced("imag"),
)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise complex number :math:`x + jy`, from its real and imaginary part.

    Args:
      x: real part, of dtype float32 or float64.
      y: imaginary part, of the same dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.complex(1.0, 2.0)
    Array(1.+2.j, dtype=complex64, weak_type=True)
    """
    return complex_p.bind(x, y)


def _complex_dtype(dtype, *_, **__):
    return np.dtype(np.complex64 if dtype == np.float32 else np.complex128)


def _complex_transpose(ct, x, y):
    ct_x = ct_y = None
    if ad.is_undefined_primal(x):
        ct_x = Zero(x.aval) if type(ct) is Zero else unbroadcast(x.aval, real(ct))
    if ad.is_undefined_primal(y):
        ct_y = Zero(y.aval) if type(ct) is Zero else unbroadcast(y.aval, imag(neg(ct)))
    return [ct_x, ct_y]


_PARTS = frozenset({np.float32, np.float64})

complex_p = binary_primitive(
    "complex",
    _PARTS,
    lower=hlo_op("complex"),
    jvp=LINEAR,
    transpose=_complex_transpose,
    out_dtype=_complex_dtype,
    unreduced=linear_unreduced("complex"),
)


def conj(x: ArrayLike) -> Array:
    r"""Elementwise complex conjugate, :math:`\overline{x}`.

    Args:
      x: complex array, or array of dtype float32 or float64, which is converted to complex.

    Raises:
      TypeError: if `x` has another dtype.

    >>> lax.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return conj_p.bind(x, input_dtype=dtypes.dtype(x))


def _conj_transpose(ct, x, *, input_dtype):
    if type(ct) is Zero:
        return [Zero(x.aval)]
    is_complex = dtypes.issubdtype(input_dtype, np.complexfloating)
    return [conj(ct) if is_complex else real(ct)]


def _conj_lower(ctx, x, **_):  # the operand says its type
    (aval_in,), (aval_out,) = ctx.avals_in, ctx.avals_out
    if dtypes.issubdtype(aval_in.dtype, np.complexfloating):
        out = hlo.complex(hlo.real(x), hlo.negate(hlo.imag(x)))
    else:
        out = hlo.complex(x, mlir.full_like_aval(ctx, 0, aval_in))
    return [with_sharding(ctx, out, aval_out)]


conj_p = unary_primitive(
    "conj",
    COMPLEX | _PARTS,
    lower=_conj_lower,
    jvp=LINEAR,
    transpose=_conj_transpose,
    out_dtype=lambda dtype, **_: dtype if dtype.kind == "c" else _complex_dtype(dtype),
    unreduced=linear_unreduced("conj"),
)
