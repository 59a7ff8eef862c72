"""Special functions computed by single ops or short series: gamma, zeta, erf, Bessel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax.lax.arithmetic import (
    abs,
    add,
    div,
    floor,
    mul,
    neg,
    reciprocal,
    sign,
    square,
    sub,
)
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, sqrt
from jax._src.lax.lax.logical import bitwise_and, eq, ge, gt, le, lt
from jax._src.lax.lax.select import filled, select
from jax._src.lax.rules import FLOAT, binary_primitive, hlo_op, unary_primitive
from jax._src.lax.special import expansions, normal
from jax._src.lax.utils import const
from jax._src.typing import ArrayLike


def same_shape(*args):
    """Broadcast the operands to their common shape."""
    zero = full_like(args[0], 0)
    for a in args[1:]:
        zero = add(zero, full_like(a, 0))
    shape = core.typeof(zero).shape
    return [a if core.typeof(a).shape == shape else add(a, zero) for a in args]


def wide_enough(impl: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to compute in float32 for narrower dtypes."""

    def wide(*args):
        dtype = core.typeof(args[0]).dtype
        if dtypes.itemsize_bits(dtype) >= 32:
            return impl(*args)
        out = impl(*[convert_element_type(a, np.float32) for a in args])
        return convert_element_type(out, dtype)

    return wide


def in_float32(impl: Callable[..., Any]) -> Any:
    """Return a lowering rule for a function, which computes in float32 for narrower dtypes."""
    return mlir.lower_fun(wide_enough(impl), multiple_results=False)


class _chlo_or_wider:
    """Lower to a chlo op; 8-bit dtypes are converted to float32, as XLA cannot expand them."""

    __slots__ = ("op", "wide")

    def __init__(self, name: str, bind: Callable[..., Any]):
        self.op = hlo_op(name, "chlo")
        self.wide = in_float32(bind)

    def __call__(self, ctx, *args):
        narrow = dtypes.itemsize_bits(ctx.avals_in[0].dtype) < 16
        return (self.wide if narrow else self.op)(ctx, *args)


# ---------------------------------------------------------------------------------------------------
# Gamma functions


def lgamma(x: ArrayLike) -> Array:
    r"""Elementwise log of the absolute value of the gamma function, :math:`\log|\Gamma(x)|`.

    Args:
      x: real array.

    Raises:
      TypeError: if `x` has another dtype.

    >>> lax.lgamma(3.0)
    Array(0.6931..., dtype=float32, weak_type=True)
    """
    return lgamma_p.bind(x)


lgamma_p = unary_primitive(
    "lgamma", FLOAT, lower=in_float32(expansions.lgamma), jvp=lambda g, y, x: mul(g, digamma(x))
)


def digamma(x: ArrayLike) -> Array:
    r"""Elementwise digamma function, :math:`\psi(x)`: derivative of :func:`lgamma`, NaN at poles.

    Args:
      x: real array.

    >>> lax.digamma(2.0)
    Array(0.42278..., dtype=float32, weak_type=True)
    """
    return digamma_p.bind(x)


digamma_p = unary_primitive(
    "digamma",
    FLOAT,
    lower=in_float32(expansions.digamma),
    jvp=lambda g, y, x: mul(g, polygamma(const(x, 1), x)),
)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    r"""Elementwise polygamma function, :math:`\psi^{(m)}(x)`, derivative `m` of :func:`digamma`.

    It is differentiable with respect to `x`.

    Args:
      m: order, a real array of non-negative integers (otherwise the result is NaN).
      x: real array of the same dtype; the shapes are equal, or one is scalar, or size 1 broadcasts.

    >>> lax.polygamma(1.0, 1.0)
    Array(1.6449..., dtype=float32, weak_type=True)
    """
    return polygamma_p.bind(m, x)


def _polygamma_jvp_m(g, out, m, x):
    raise ValueError(
        "polygamma gradient with respect to m is not supported: orders are integers. Close over m, or "
        "use jax.lax.stop_gradient."
    )


_PRODUCTS = (
    20  # up to this order, factorials are products, which have no logarithm's rounding errors
)


def _polygamma_impl(m, x):
    m, x = same_shape(m, x)
    # (-1)**(m + 1) m! zeta(m + 1, x), DLMF 5.15.1 and 25.11.12
    one = const(m, 1)
    factorial = full_like(m, 1)
    for k in range(2, _PRODUCTS + 1):
        factorial = select(ge(m, const(m, k)), mul(factorial, const(m, k)), factorial)
    large = gt(m, const(m, _PRODUCTS))
    factorial = select(large, exp(lgamma(add(m, one))), factorial)
    half = mul(m, const(m, 0.5))
    factorial = select(eq(half, floor(half)), neg(factorial), factorial)
    out = mul(factorial, zeta(add(m, one), x))
    out = select(eq(x, const(x, np.inf)), mul(sign(factorial), const(x, 0)), out)
    out = select(eq(m, const(m, 0)), digamma(x), out)
    is_order = bitwise_and(eq(m, floor(m)), ge(m, const(m, 0)))
    return select(is_order, out, full_like(out, np.nan))


polygamma_p = binary_primitive(
    "polygamma",
    FLOAT,
    lower=in_float32(_polygamma_impl),
    jvp=(
        _polygamma_jvp_m,
        lambda g, out, m, x: mul(g, polygamma(add(m, const(m, 1)), x)),
    ),
)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    r"""Elementwise Hurwitz zeta function, :math:`\zeta(x, q) = \sum_{n \geq 0} (n + q)^{-x}`.

    It is differentiable with respect to `q`.

    Args:
      x: real array, greater than 1 (the result is infinite at 1, and NaN below).
      q: real array of the same dtype; the shapes are equal, or one is scalar, or size 1 broadcasts.

    >>> lax.zeta(2.0, 1.0)
    Array(1.6449..., dtype=float32, weak_type=True)
    """
    return zeta_p.bind(x, q)


zeta_p = binary_primitive(
    "zeta",
    FLOAT,
    lower=hlo_op("zeta", "chlo"),
    jvp=(None, lambda g, out, x, q: mul(g, mul(neg(x), zeta(add(x, const(x, 1)), q)))),
)


# ---------------------------------------------------------------------------------------------------
# Error functions


def erf(x: ArrayLike) -> Array:
    r"""Elementwise error function, :math:`\frac{2}{\sqrt\pi} \int_0^x e^{-t^2} dt`.

    Args:
      x: real array.

    >>> lax.erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return erf_p.bind(x)


_2_SQRTPI = 2.0 / np.sqrt(np.pi)

erf_p = unary_primitive(
    "erf",
    FLOAT,
    lower=hlo_op("erf", "chlo"),
    jvp=lambda g, y, x: mul(const(x, _2_SQRTPI), mul(g, exp(neg(square(x))))),
)


def erfc(x: ArrayLike) -> Array:
    r"""Elementwise complementary error function, :math:`\mathrm{erfc}(x) = 1 - \mathrm{erf}(x)`.

    It is accurate also for large `x`.

    Args:
      x: real array.

    >>> lax.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return erfc_p.bind(x)


def _erfc_impl(x):
    out = normal.erfc(x)
    if core.typeof(x).dtype == np.float64:
        out = select(lt(x, const(x, 0.5)), sub(const(x, 1), erf(x)), out)
    return out


_lower_erfc = in_float32(_erfc_impl)


def _lower_erfc_by_name(ctx, x):
    """Lower to the function; in exported programs to a call, by whose name converters know it."""
    if not ctx.module_context.lowering_parameters.for_export:
        return _lower_erfc(ctx, x)
    jaxpr = _lower_erfc.trace(ctx.avals_in, {})
    outs, _ = mlir.call_lowering(
        "jax.erfc", jaxpr, None, ctx.module_context, ctx.avals_in, ctx.avals_out, ctx.tokens_in, x,
        dim_var_values=ctx.dim_var_values,
    )  # fmt: skip
    return outs


erfc_p = unary_primitive(
    "erfc",
    FLOAT,
    lower=_lower_erfc_by_name,
    jvp=lambda g, y, x: mul(const(x, -_2_SQRTPI), mul(g, exp(neg(square(x))))),
)


def erf_inv(x: ArrayLike) -> Array:
    r"""Elementwise inverse error function, :math:`\mathrm{erf}^{-1}(x)`; infinite at -1 and 1.

    Args:
      x: real array with values in [-1, 1] (otherwise the result is NaN).

    >>> lax.erf_inv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return erf_inv_p.bind(x)


erf_inv_p = unary_primitive(
    "erf_inv",
    FLOAT,
    lower=hlo_op("erf_inv", "chlo"),  # random numbers are made of it, to the last bit
    jvp=lambda g, y, x: mul(const(x, 1.0 / _2_SQRTPI), mul(g, exp(square(y)))),
)

# ---------------------------------------------------------------------------------------------------
# Bessel functions

# Chebyshev coefficients of exp(-x) I0(x) in x / 4 - 1 for x in [0, 8], and of sqrt(x) exp(-x) I0(x)
# in 16 / x - 1 for larger x; leading terms first.
_I0E_SMALL = (
    0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13,
    7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
_I0E_LARGE = (
    0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18,
)  # fmt: skip


def _chebyshev(t: Array, coefficients: Sequence[float]) -> Array:
    """Sum a Chebyshev series in `t / 2`, first coefficient halved, by Clenshaw's recurrence."""
    b0 = b1 = b2 = const(t, 0)
    for c in reversed(coefficients):
        b0, b1, b2 = add(sub(mul(t, b0), b1), const(t, c)), b0, b1
    return mul(const(t, 0.5), sub(b0, b2))


def _bessel_i0e_impl(x):
    small, large = _I0E_SMALL, _I0E_LARGE
    if core.typeof(x).dtype == np.float32:  # further terms are below float32 precision
        small, large = small[:18], large[:7]
    x = abs(x)
    half, two = const(x, 0.5), const(x, 2)
    below = _chebyshev(sub(mul(half, x), two), small)
    above = div(_chebyshev(sub(div(const(x, 32), x), two), large), sqrt(x))
    return select(le(x, const(x, 8)), below, above)


def bessel_i0e(x: ArrayLike) -> Array:
    r"""Elementwise exponentially scaled modified Bessel function, :math:`e^{-|x|} I_0(x)`.

    Args:
      x: real array.

    >>> lax.bessel_i0e(1.0)
    Array(0.46575..., dtype=float32, weak_type=True)
    """
    return bessel_i0e_p.bind(x)


bessel_i0e_p = unary_primitive(
    "bessel_i0e",
    FLOAT,
    lower=in_float32(_bessel_i0e_impl),
    jvp=lambda g, y, x: mul(g, sub(bessel_i1e(x), mul(sign(x), y))),
)


def bessel_i1e(x: ArrayLike) -> Array:
    r"""Elementwise exponentially scaled modified Bessel function, :math:`e^{-|x|} I_1(x)`.

    Args:
      x: real array.

    >>> lax.bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return bessel_i1e_p.bind(x)


def _bessel_i1e_jvp(g, y, x):
    # Near 0, y / x loses precision; the derivative there is 1/2.
    eps = dtypes.finfo(core.typeof(x).dtype).eps
    away = gt(abs(x), const(x, eps))
    safe = select(away, x, filled(x, eps))
    slope = sub(bessel_i0e(safe), mul(y, add(sign(safe), reciprocal(safe))))
    return mul(g, select(away, slope, filled(x, 0.5)))


bessel_i1e_p = unary_primitive(
    "bessel_i1e",
    FLOAT,
    lower=_chlo_or_wider("bessel_i1e", bessel_i1e),
    jvp=_bessel_i1e_jvp,
)
