"""The beta function of positive numbers, of which that of all numbers and binomial coefficients are made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import config, core
from jax._src.interpreters import mlir
from jax._src.lax.lax.arithmetic import add, div, max, min, mul, neg, sub
from jax._src.lax.lax.convert import bitcast_convert_type, convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, sqrt
from jax._src.lax.lax.logical import shift_left, shift_right_arithmetic
from jax._src.lax.rules import FLOAT, binary_primitive
from jax._src.lax.special import scales
from jax._src.lax.special.basic import digamma, in_float32, same_shape
from jax._src.lax.special.polynomials import polynomial
from jax._src.lax.utils import const


def positive_beta(a: Any, b: Any) -> Any:
    """Return B(a, b) of positive finite numbers whose sum is finite, of equal shape and dtype.

    >>> float(positive_beta(2.0, 3.0))
    0.0833...
    """
    return positive_beta_p.bind(a, b)


# On CPU, float32 in float64: no doubled numbers are needed, and XLA makes one pass of it, where it keeps a dozen of
# intermediate arrays of the other one. Each quotient is a product with a reciprocal, as XLA would keep that, too.

_SHIFT = 4  # Stirling's formula is for parameters that are larger by so much
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_ROOT = int(np.float64(math.sqrt(0.5)).view(np.int64))


def _reciprocal(x):
    return div(full_like(x, 1), x)


def _rising(x):
    """Return x (x + 1) (x + 2) (x + 3) = gamma(x + 4) / gamma(x)."""
    product = mul(x, add(x, const(x, 3)))
    return mul(product, add(product, const(x, 2)))


def _stirling_error(x):
    """Return lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2 for x >= 4; DLMF 5.11.1."""
    inverse = _reciprocal(x)
    return mul(inverse, polynomial(mul(inverse, inverse), _STIRLING))


def _twice_atanh(x, terms):
    """Return log((1 + x) / (1 - x)) by so many terms of its series."""
    square = mul(x, x)
    return mul(add(x, x), polynomial(square, [1 / (2 * k + 1) for k in range(terms)]))


def _log(x):
    """Return the logarithm of normal numbers of float64, with an absolute error of 1e-12: half as long as XLA's."""
    bits = bitcast_convert_type(x, np.int64)
    fraction_bits = full_like(bits, 52)
    k = shift_right_arithmetic(sub(bits, full_like(bits, _ROOT)), fraction_bits)
    y = bitcast_convert_type(sub(bits, shift_left(k, fraction_bits)), np.float64)
    one = const(x, 1)
    s = mul(sub(y, one), _reciprocal(add(y, one)))
    return add(mul(convert_element_type(k, np.float64), const(x, math.log(2))), _twice_atanh(s, 7))


def _in_double(a, b):
    """Return B(a, b) in float64, with the accuracy of float32."""
    n = add(a, b)
    c, d = (add(x, const(x, _SHIFT)) for x in (min(a, b), max(a, b)))
    total = add(n, const(n, 2 * _SHIFT))
    # With p = c / (c + d), the logarithm of B(c, d) sqrt(d / (2 pi)) is this.
    p = mul(c, _reciprocal(total))
    log_rest = neg(_twice_atanh(mul(p, _reciprocal(sub(const(p, 2), p))), 10))  # log(1 - p)
    exponent = add(mul(sub(c, const(c, 0.5)), _log(p)), mul(d, log_rest))
    errors = sub(add(_stirling_error(c), _stirling_error(d)), _stirling_error(total))
    shifted = mul(exp(add(exponent, errors)), sqrt(mul(const(d, 2 * math.pi), _reciprocal(d))))
    # The factors are quotients one by one, as the products of all may overflow.
    first = mul(_rising(n), _reciprocal(_rising(a)))
    second = mul(_rising(add(n, const(n, _SHIFT))), _reciprocal(_rising(b)))
    return mul(shifted, mul(first, second))


def _on_cpu(a, b):
    if core.typeof(a).dtype == np.float64:
        return scales.beta(*same_shape(a, b))
    with config.enable_x64(True):
        dtype = core.typeof(a).dtype
        wide = [convert_element_type(x, np.float64) for x in same_shape(a, b)]
        return convert_element_type(_in_double(*wide), dtype)


positive_beta_p = binary_primitive(
    "positive_beta",
    FLOAT,
    lower={
        None: in_float32(lambda a, b: scales.beta(*same_shape(a, b))),
        "cpu": mlir.lower_fun(_on_cpu, multiple_results=False),
    },
    jvp=(
        lambda g, out, a, b: mul(g, mul(out, sub(digamma(a), digamma(add(a, b))))),
        lambda g, out, a, b: mul(g, mul(out, sub(digamma(b), digamma(add(a, b))))),
    ),
)
