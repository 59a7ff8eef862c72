"""The tails of gamma distributions with large parameters, near the mean, by Temme's uniform expansion."""

from __future__ import annotations

import math
from typing import Any

from jax._src import core, dtypes
from jax._src.lax.lax.arithmetic import abs, add, div, mul, neg, sub
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import sqrt
from jax._src.lax.lax.logical import bitwise_and, ge, lt
from jax._src.lax.lax.select import select
from jax._src.lax.special.normal import erfcx_positive
from jax._src.lax.special.polynomials import polynomial
from jax._src.lax.special.scales import shrunk
from jax._src.lax.utils import const

_LARGE = 1e4
_NEAR = 0.4

# DLMF 8.12.9 and 8.12.10: the coefficients of powers of eta, for each power of 1 / a
_TEMME = (
    (-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11, -5.830772132550426e-11, 2.4361948020667415e-11, -5.0276692801141755e-12),
    (-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08, 1.1951628599778148e-08, -1.7543241719747647e-11),
    (0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06),
    (0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885, -7.561801671883977e-05),
)  # fmt: skip
_SINGLE = (9, 4)  # terms for float32
# gamma(a) by that of Stirling's formula, in powers of 1 / a; DLMF 5.11.3
_STIRLING = (1.0, 1 / 12, 1 / 288, -139 / 51840)


def has_expansion(a: Any, x: Any) -> Any:
    """Return whether `large_gamma_tail` holds at positive finite numbers."""
    near = lt(abs(sub(x, a)), mul(const(a, _NEAR), a))
    return bitwise_and(ge(a, const(a, _LARGE)), near)


def large_gamma_tail(a: Any, x: Any, above: Any) -> Any:
    """Return Q(a, x) where x is `above` a, and P(a, x) elsewhere, over x**a exp(-x) / gamma(a).

    It is DLMF 8.12.3 and 8.12.4, where a power series replaces the logarithm in eta**2 / 2 = d - log(1 + d), with d = x / a - 1.
    """
    one, zero = full_like(a, 1), full_like(a, 0)
    single = dtypes.finfo(core.typeof(a).dtype).bits == 32
    inside = has_expansion(a, x)
    a, x = shrunk(*(select(inside, v, full_like(v, _LARGE)) for v in (a, x)))
    d = div(sub(x, a), a)
    # log(1 + d) = 2 atanh(s)
    s = div(d, add(const(d, 2), d))
    rest = sub(one, s)
    series = polynomial(mul(s, s), [1 / (2 * k + 3) for k in range(6 if single else 13)])
    eta = mul(d, sqrt(mul(rest, sub(one, mul(mul(s, rest), series)))))
    sign = select(above, one, neg(one))
    inverse = div(one, a)
    total = zero
    for row, count in reversed(list(zip(_TEMME, _SINGLE if single else map(len, _TEMME)))):
        total = add(mul(total, inverse), polynomial(eta, row[:count]))
    z = mul(mul(sign, eta), sqrt(mul(a, const(a, 0.5))))
    normal = mul(erfcx_positive(z), sqrt(mul(inverse, const(a, 0.5 * math.pi))))
    rest = mul(mul(sign, total), inverse)
    return mul(polynomial(inverse, _STIRLING), add(normal, rest))
