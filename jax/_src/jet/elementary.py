"""Taylor-mode rules of products and elementary functions, as recurrences of coefficients."""

import math
from collections.abc import Callable
from typing import Any

from jax._src import traceback_util
from jax._src.core import Primitive
from jax._src.jet.trace import (
    derivative,
    jet_rules,
    over,
    product,
    rule_for,
    times,
    total,
    zero_series,
)
from jax._src.lax import lax
from jax._src.lax.convolution import conv_general_dilated_p

traceback_util.register_exclusion(__file__)

# Products and quotients


def _bilinear(prim: Primitive) -> None:
    @rule_for(prim)
    def rule(primals, series, **params):
        (x0, y0), (x, y) = primals, series
        mul = lambda a, b: prim.bind(a, b, **params)
        out = mul(x0, y0)
        if y is zero_series:
            return out, [mul(t, y0) for t in x]
        if x is zero_series:
            return out, [mul(x0, t) for t in y]
        x, y = [x0, *x], [y0, *y]
        return out, [product(x, y, k, mul) for k in range(1, len(x))]


for _prim in (lax.mul_p, lax.dot_general_p, conv_general_dilated_p):
    _bilinear(_prim)


@rule_for(lax.div_p)
def _div(primals, series):
    (x0, y0), (x, y) = primals, series
    out = lax.div(x0, y0)
    if y is zero_series:
        return out, [lax.div(t, y0) for t in x]
    z = [out]
    for k in range(1, len(y) + 1):
        used = total([lax.mul(y[j - 1], z[k - j]) for j in range(1, k + 1)])
        rest = lax.neg(used) if x is zero_series else lax.sub(x[k - 1], used)
        z.append(lax.div(rest, y0))
    return out, z[1:]


@rule_for(lax.square_p)
def _square(primals, series):
    ((x0,), (terms,)) = primals, series
    x = [x0, *terms]
    return lax.square(x0), [product(x, x, k) for k in range(1, len(x))]


@rule_for(lax.integer_pow_p)
def _integer_pow(primals, series, *, y):
    ((x0,), (terms,)) = primals, series
    out = lax.integer_pow(x0, y)
    if y == 0:
        return out, zero_series
    base, power, exponent = [x0, *terms], None, abs(y)
    while exponent:
        if exponent & 1:
            power = base if power is None else _series_product(power, base)
        exponent >>= 1
        if exponent:
            base = _series_product(base, base)
    if y < 0:
        one = lax.full_like(x0, 1)
        return out, _div((one, power[0]), (zero_series, power[1:]))[1]
    return out, power[1:]


def _series_product(x, y):
    return [product(x, y, k) for k in range(len(x))]


# Functions given by differential equations


def _solve(x, y0, right_side: Callable[[list], Any]) -> list:
    """Returns the terms of y with y' = g x'; `right_side(y)` computes the next coefficient of g."""
    rates = derivative(x)
    y, g = [y0], []
    for k in range(1, len(x) + 1):
        g.append(right_side(y))
        y.append(over(total([lax.mul(rates[j], g[k - 1 - j]) for j in range(k)]), k))
    return y[1:]


def _polynomial(c0, c1, c2):
    """Returns a function that computes the next coefficient of c0 + c1 y + c2 y**2."""

    def right_side(y):
        k = len(y) - 1
        terms = [times(product(y, y, k), c2)] if c2 else []
        if c1:
            terms.append(times(y[k], c1))
        if c0 and not k:
            terms.append(lax.full_like(y[0], c0))
        return total(terms)

    return right_side


def _def_autonomous(prim: Primitive, c0, c1, c2) -> None:
    @rule_for(prim)
    def rule(primals, series, **params):
        out = prim.bind(*primals, **params)
        return out, _solve(series[0], out, _polynomial(c0, c1, c2))


_def_autonomous(lax.exp_p, 0, 1, 0)
_def_autonomous(lax.expm1_p, 1, 1, 0)
_def_autonomous(lax.tan_p, 1, 0, 1)
_def_autonomous(lax.tanh_p, 1, 0, -1)
_def_autonomous(lax.logistic_p, 0, 1, -1)


@rule_for(lax.exp2_p)
def _exp2(primals, series, **params):
    out = lax.exp2_p.bind(*primals, **params)
    terms = [times(t, math.log(2)) for t in series[0]]
    return out, _solve(terms, out, _polynomial(0, 1, 0))


@rule_for(lax.log_p)
def _log(primals, series, **params):
    ((x0,), (x,)) = primals, series
    y: list = []
    for k in range(1, len(x) + 1):
        # Coefficient k of x y' = x', solved for y[k].
        used = [times(lax.mul(y[j - 1], x[k - j - 1]), j) for j in range(1, k)]
        rest = lax.sub(x[k - 1], over(total(used), k)) if used else x[0]
        y.append(lax.div(rest, x0))
    return lax.log_p.bind(x0, **params), y


def _def_root(prim: Primitive, exponent: float) -> None:
    @rule_for(prim)
    def rule(primals, series, **params):
        """Computes y = x ** exponent from x y' = exponent y x'."""
        ((x0,), (x,)) = primals, series
        y = [prim.bind(x0, **params)]
        for k in range(1, len(x) + 1):
            parts = [
                times(lax.mul(x[j - 1], y[k - j]), exponent * j - (k - j)) for j in range(1, k + 1)
            ]
            y.append(lax.div(over(total(parts), k), x0))
        return y[0], y[1:]


_def_root(lax.rsqrt_p, -0.5)
_def_root(lax.cbrt_p, 1 / 3)


@rule_for(lax.sqrt_p)
def _sqrt(primals, series, **params):
    ((x0,), (x,)) = primals, series
    y = [lax.sqrt_p.bind(x0, **params)]
    twice = times(y[0], 2)
    for k in range(1, len(x) + 1):
        used = [lax.mul(y[j], y[k - j]) for j in range(1, k)]
        y.append(lax.div(lax.sub(x[k - 1], total(used)) if used else x[k - 1], twice))
    return y[0], y[1:]


def _def_sine(prim: Primitive, partner: Primitive, sign: int, is_sine: bool) -> None:
    """Registers the rule of a sine or cosine, which are each other's derivative up to a sign."""

    @rule_for(prim)
    def rule(primals, series, **params):
        ((x0,), (x,)) = primals, series
        rates = derivative(x)
        s_prim, c_prim = (prim, partner) if is_sine else (partner, prim)
        s, c = [s_prim.bind(x0, **params)], [c_prim.bind(x0, **params)]
        for k in range(1, len(x) + 1):
            new_s = total([lax.mul(rates[j], c[k - 1 - j]) for j in range(k)])
            new_c = total([lax.mul(rates[j], s[k - 1 - j]) for j in range(k)])
            s.append(over(new_s, k))
            c.append(over(new_c, sign * k))
        return (s[0], s[1:]) if is_sine else (c[0], c[1:])


_def_sine(lax.sin_p, lax.cos_p, -1, True)
_def_sine(lax.cos_p, lax.sin_p, -1, False)
_def_sine(lax.sinh_p, lax.cosh_p, 1, True)
_def_sine(lax.cosh_p, lax.sinh_p, 1, False)


# Names that outside code imports


def logistic_taylor(primals_in, series_in, **params):
    """The rule of the logistic function."""
    return jet_rules[lax.logistic_p](primals_in, series_in, **{"accuracy": None, **params})
