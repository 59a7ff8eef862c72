"""Quantiles of the normal distribution, and the inverse of the error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import core
from jax._src.interpreters import mlir
from jax._src.lax import native_calls
from jax._src.lax.lax.arithmetic import abs, add, div, mul, neg, sub
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, log, sqrt
from jax._src.lax.lax.logical import bitwise_and, eq, ge, gt, le, lt
from jax._src.lax.lax.select import select
from jax._src.lax.rules import FLOAT, unary_primitive
from jax._src.lax.special.basic import wide_enough
from jax._src.lax.special.expansions import log2_single
from jax._src.lax.special.normal_tables import (
    ERFINV_RATIO,
    NDTRI_CENTRAL,
    NDTRI_RATIO,
    NDTRI_TAIL,
)
from jax._src.lax.special.polynomials import even_odd, piecewise
from jax._src.lax.utils import const


def erfinv(x: Any) -> Any:
    """Return the inverse of the error function: infinite at 1 and -1, NaN beyond."""
    return erfinv_p.bind(x)


def ndtri(p: Any) -> Any:
    """Return the quantiles of the normal distribution, of float32 or float64."""
    distance = sub(p, const(p, 0.5))
    if core.typeof(p).dtype == np.float32:
        product = mul(mul(const(p, 4), p), sub(const(p, 1), p))
        inside = gt(product, const(p, 0))
        out = mul(_ratio(NDTRI_RATIO, select(inside, product, full_like(p, 1))), distance)
        out = select(inside, out, mul(distance, const(p, np.inf)))
    else:
        out = _quantile(distance, select(lt(p, const(p, 0.5)), p, sub(const(p, 1), p)))
    possible = bitwise_and(ge(p, const(p, 0)), le(p, const(p, 1)))
    return select(possible, out, full_like(p, np.nan))


def _ratio(table, product):
    """Return a quotient of polynomials in -log2(product), of float32."""
    above, below = table
    u = neg(log2_single(product))
    return div(even_odd(u, above), even_odd(u, below))


def _quantile(distance, tail):
    """Return the quantile of p, given p - 1/2 and the smaller of p and 1 - p, of float64."""
    zero = const(distance, 0)
    central = le(abs(distance), const(distance, 0.375))
    middle = select(central, distance, full_like(distance, 0))
    out = mul(piecewise(NDTRI_CENTRAL, mul(middle, middle)), middle)
    least = select(central, full_like(tail, 0.125), tail)
    inside = gt(least, zero)
    r = sqrt(mul(const(tail, -2), log(select(inside, least, full_like(tail, 0.125)))))
    far = select(inside, mul(piecewise(NDTRI_TAIL, r), r), full_like(tail, np.inf))
    return select(central, out, select(lt(distance, zero), neg(far), far))


def _erfinv(x):
    zero, one, nan = const(x, 0), const(x, 1), full_like(x, np.nan)
    if core.typeof(x).dtype == np.float32:
        product = mul(sub(one, x), add(one, x))
        at_end = select(eq(product, zero), full_like(x, np.inf), nan)
        return mul(x, select(gt(product, zero), _ratio(ERFINV_RATIO, product), at_end))
    half = const(x, 0.5)
    out = _quantile(mul(half, x), sub(half, mul(half, abs(x))))
    return select(le(abs(x), one), mul(const(x, math.sqrt(0.5)), out), nan)


_lower_erfinv = mlir.lower_fun(wide_enough(_erfinv), multiple_results=False)

erfinv_p = unary_primitive(
    "erfinv",
    FLOAT,
    lower={
        None: _lower_erfinv,
        # The kernel needs no logarithm of most numbers.
        "cpu": native_calls.lowering_of_float32("jaxlib_ext_erf_inv", _lower_erfinv, 1 << 12),
    },
    jvp=lambda g, out, x: mul(g, mul(const(x, math.sqrt(math.pi) / 2), exp(mul(out, out)))),
)
