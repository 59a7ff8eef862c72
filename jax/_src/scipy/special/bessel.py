"""Bessel functions and the zeta function."""

from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction

import numpy as np

from jax._src import api, dtypes, tree_util
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, special
from jax._src.lax.control_flow import scan
from jax._src.lax.lax.cumulative import cumprod
from jax._src.lax.special.doubled import (
    add_doubled,
    normalize,
    reciprocal,
    split,
    two_difference,
    two_product,
    two_sum,
)
from jax._src.lax.special.polynomials import polynomial
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.util import broadcast_to, promote_dtypes_inexact
from jax._src.scipy.special.common import (
    const,
    elementwise,
    export,
    in_single_or_double,
    inexact_args,
    where,
)
from jax._src.typing import ArrayLike


@export
def i0(x: ArrayLike) -> Array:
    """Elementwise modified Bessel function of the first kind and order 0.

    Args:
      x: real array.

    >>> jax.scipy.special.i0(1.0)
    Array(1.266..., dtype=float32, weak_type=True)
    """
    (x,) = inexact_args("i0", x)
    return _scaled(special.bessel_i0e(x), x)


@export
def i0e(x: ArrayLike) -> Array:
    """Elementwise exponentially scaled modified Bessel function exp(-abs(x)) * i0(x).

    Args:
      x: real array.

    >>> jax.scipy.special.i0e(1.0)
    Array(0.465..., dtype=float32, weak_type=True)
    """
    return special.bessel_i0e(*inexact_args("i0e", x))


@export
def i1(x: ArrayLike) -> Array:
    """Elementwise modified Bessel function of the first kind and order 1.

    Args:
      x: real array.

    >>> jax.scipy.special.i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact_args("i1", x)
    return _scaled(special.bessel_i1e(x), x)


@export
def i1e(x: ArrayLike) -> Array:
    """Elementwise exponentially scaled modified Bessel function exp(-abs(x)) * i1(x).

    Args:
      x: real array.

    >>> jax.scipy.special.i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return special.bessel_i1e(*inexact_args("i1e", x))


@nested_jit
def _scaled(value, x):
    # The absolute value, whose slope at zero has to be zero: there that of lax.abs is 1.
    y = lax.max(x, -x)
    # The exponential may overflow where the product does not; then it is a square.
    large = y > math.log(float(dtypes.finfo(x.dtype).max)) - 1
    power = lax.exp(where(large, 0.5 * y, y))
    return value * power * where(large, power, 1)


@export
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Elementwise Bessel functions of the first kind of orders 0 to v.

    Their relative errors are small, also near zeros, up to abs(z) = 37 (25 for float32) or, if it is larger,
    abs(z) = v. Beyond, errors are small beside the size of the oscillations, sqrt(2 / (pi z)).

    Args:
      z: real array, scalar or list.
      v: highest order, an integer.
      n_iter: least order at which the recurrence starts, an integer; the precision mostly needs higher
        ones.

    Returns:
      Array of shape (v + 1, *z.shape).

    Raises:
      TypeError: if an argument has another type.

    >>> jax.scipy.special.bessel_jn(jnp.array([0.0]), v=1)
    Array([[1.],
           [0.]], dtype=float32)
    """
    v, n_iter = operator.index(v), operator.index(n_iter)
    (z,) = promote_dtypes_inexact(asarray(z))
    if z.dtype.kind == "c":
        raise TypeError(
            f"jax.scipy.special.bessel_jn does not accept dtype {z.dtype}. Pass real numbers."
        )
    return _bessel_jn(z, v, n_iter)


def _bessel_jn_impl(z, *, v, n_iter):
    if v < 0:
        return lax.full((0, *z.shape), 0, z.dtype)
    if z.dtype.itemsize < 4:
        return lax.convert_element_type(
            _bessel_jn_impl(lax.convert_element_type(z, np.float32), v=v, n_iter=n_iter), z.dtype
        )
    single = z.dtype == np.float32
    y = abs(z)
    small = y < _SMALL
    # Above, expansions for large numbers have all digits, and all orders are in the range where they oscillate.
    bound = max(v + 1, 25 if single else 37)
    large = y > bound
    near = _orders_downwards(where(small | large, _SMALL, y), v, bound, n_iter)
    far = _orders_upwards(where(large, y, bound), v)
    wide = functools.partial(broadcast_to, shape=near.shape)
    out = where(wide(large), far, near)
    out = where(wide(small), _orders_of_small(where(small, y, 0), v), out)
    out = where(wide(y == np.inf), 0, where(wide(z != z), np.nan, out))
    sign = where(z < 0, -1, lax.full_like(z, 1))
    signs = broadcast_to(np.arange(v + 1).reshape(-1, *[1] * z.ndim) % 2 == 1, out.shape)
    return out * where(signs, wide(sign), 1)


# Below, the series has all digits.
_SMALL = 2.0


def _start(z, digits):
    """The first order whose value at z has so many digits after the point, by Debye's expansion, DLMF 10.19.3."""
    n = z + 1
    while n * math.acosh(n / z) - math.sqrt(n * n - z * z) < digits * math.log(10):
        n += 1
    return n


def _orders_of_small(z, v):
    """The series DLMF 10.2.2."""
    shape = (v + 1, *z.shape)
    order = lax.broadcasted_iota(z.dtype, shape, 0)
    half = broadcast_to(0.5 * z, shape)
    one = lax.full_like(z, 1)
    grow = lambda power, n: (power * (0.5 * z) / n,) * 2
    _, powers = scan(grow, one, np.arange(1, v + 1).astype(z.dtype))
    power = lax.concatenate([one[None], powers], 0)
    square = half * half
    tail = lax.full_like(square, 1)
    for k in range(6 if z.dtype == np.float32 else 11, 1, -1):
        tail = 1 - square / (k * (order + k)) * tail
    return power * (1 - square / (order + 1) * tail)


def _orders_downwards(z, v, bound, n_iter):
    """Orders 0 to v by Miller's algorithm, DLMF 3.6(iii) and 10.74(iv), accurate also near zeros.

    The rounding errors of the recurrence are found exactly and follow it in numbers of their own (a compensated
    recurrence; compare Graillat, Langlois and Louvet 2009), unless the order is so high that they do not count:
    they shrink with the square of its value.
    """
    digits = 15 if z.dtype == np.float32 else 33
    first = max(n_iter, _start(bound, digits / 2))
    middle = max(v, _start(bound, digits / 4))
    info = np.finfo(z.dtype)
    # The start is a number whose rounding errors are above the smallest ones. From there, by the first term of the
    # series, values may grow beyond the largest number.
    start = float(info.tiny) ** 0.75
    growth = math.lgamma(first + 1) - first * math.log(_SMALL / 2)
    rescaled = growth + math.log(start) > math.log(float(info.max)) - 3
    zero, start = lax.full_like(z, 0), lax.full_like(z, 1 if rescaled else start)
    inverse, rest = reciprocal(z)
    inverse, rest = 2 * inverse, 2 * rest
    high, low = split(inverse)  # products of the parts and orders are exact

    def plain(state, x):
        (here, _), (above, _), (total, _) = state
        n, weight = x
        new = (n * inverse * here - above, zero), (here, zero), (total + weight * here, zero)
        return rescale(new) if rescaled else (new, None)

    def down(state, x):
        """Goes from orders n and n + 1 to n - 1 and n; returns order n and the root of what all is scaled by."""
        (here, here_rest), (above, above_rest), (total, total_rest) = state
        n, weight = x
        factor = n * inverse
        factor_rest = (n * high - factor) + n * low + n * rest
        product, error = two_product(factor, here)
        below, lost = two_difference(product, above)
        below_rest = (factor * here_rest - above_rest) + (factor_rest * here + (error + lost))
        total, lost = two_sum(total, weight * here)
        total_rest = total_rest + (lost + weight * here_rest)
        new = (below, below_rest), (here, here_rest), (total, total_rest)
        new, root = rescale(new) if rescaled else (new, None)
        return new, ((here, here_rest), root)

    def rescale(state):
        # By a power of two, which leaves all digits.
        root = where(abs(state[0][0]) > 2.0**33, 2.0**-24, lax.full_like(z, 1))
        return tree_util.tree_map(lambda y: y * root * root, state), root

    def orders(low, high):
        n = np.arange(high, low, -1)
        return n.astype(z.dtype), np.where(n % 2, 0, 2).astype(z.dtype)

    state = (start, zero), (zero, zero), (zero, zero)
    state, _ = scan(lambda *args: (plain(*args)[0], None), state, orders(middle, first))
    state, _ = scan(lambda *args: (down(*args)[0], None), state, orders(v, middle))
    # In the order of the results: a loop that turns them around is not vectorized.
    upwards = [x[::-1] for x in orders(0, v)]
    (zeroth, _, total), (higher, roots) = scan(down, state, upwards, reverse=True)
    high, low = [lax.concatenate([o[None], h], 0) for h, o in zip(higher, zeroth)]
    high, low = normalize(high, low)
    total = add_doubled(normalize(*total), zeroth)
    out = (high + (low - high / total[0] * total[1])) / total[0]
    if rescaled:
        # The product of what orders are scaled by can be below the normal numbers where the result is not.
        one = lax.full_like(z, 1)[None]
        roots = lax.concatenate([one, cumprod(roots, axis=0)], 0)
        out = out * roots * roots
    return out


# pi as a sum of three numbers, by the bits of the dtype
_PI = {
    32: (3.1415927410125732, -8.742277657347586e-08, -3.430249e-15),
    64: (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
_HANKEL_TERMS = 12


@functools.cache
def _hankel(order):
    """Coefficients of modulus and phase for large z, DLMF 10.18(iii).

    Returns:
      Those of pi z / 2 times the squared modulus in powers of 1 / z**2, and those of the phase's
      difference from z - (2 order + 1) pi / 4 in odd powers of 1 / z.
    """
    modulus = [Fraction(1)]
    for k in range(1, _HANKEL_TERMS):
        factor = Fraction(2 * k - 1, 2 * k) * (4 * order**2 - (2 * k - 1) ** 2)
        modulus.append(modulus[-1] * factor / 4)
    # The derivative of the phase is 2 / (pi z) over the squared modulus.
    slope = [Fraction(1)]
    for k in range(1, _HANKEL_TERMS):
        slope.append(-sum(modulus[i] * slope[k - i] for i in range(1, k + 1)))
    phase = [-slope[k] / (2 * k - 1) for k in range(1, _HANKEL_TERMS)]
    return [float(c) for c in modulus], [float(c) for c in phase]


def _order_of_large(z, order):
    """Order 0 or 1: the modulus times the sine of the phase's distance from a multiple of pi."""
    modulus, phase = _hankel(order)
    inverse = reciprocal(z)
    w = inverse[0] * inverse[0]
    size = lax.sqrt(2 / math.pi * inverse[0] * polynomial(w, modulus))
    later = polynomial(w, phase[1:]) * w * inverse[0]
    high, low = two_product(lax.full_like(z, phase[0]), inverse[0])
    shift = high, low + phase[0] * inverse[1] + later
    quarter = 0.25 - 0.5 * order
    turns = lax.round(z * (1 / math.pi) + quarter)
    total = z, lax.full_like(z, 0)
    first, second, third = _PI[dtypes.finfo(z.dtype).bits]
    for part in (first, second):
        high, low = two_product(lax.full_like(z, part), quarter - turns)
        total = add_doubled(
            add_doubled(total, (high, lax.full_like(z, 0))), (low, lax.full_like(z, 0))
        )
    total = add_doubled(total, shift)
    rest = total[1] + third * (quarter - turns)
    # So large that not all multiples of pi are numbers
    huge = z > (1e7 if z.dtype == np.float32 else 1e15)
    angle = where(huge, z, total[0])
    sin, cos = lax.sin(angle), lax.cos(angle)
    odd = lax.rem(abs(turns), const(z, 2)) == 1
    sine = sin + rest * cos
    plain = (sin + (1 - 2 * order) * cos) * math.sqrt(0.5)
    return size * where(huge, plain, where(odd, -sine, sine))


def _orders_upwards(z, v):
    """Orders 0 to v of numbers above v, for which the recurrence upwards keeps errors small."""
    state = _order_of_large(z, 0), _order_of_large(z, 1)

    def up(state, n):
        below, here = state
        return (here, 2 * lax.convert_element_type(n, z.dtype) / z * here - below), here

    if v == 0:
        return state[0][None]
    _, higher = scan(up, state, np.arange(1, v + 1, dtype=np.int32))
    return lax.concatenate([state[0][None], higher], 0)


_bessel_jn_impl.__name__ = "bessel_jn"
_bessel_jn_value = nested_jit(_bessel_jn_impl, static_argnames=("v", "n_iter"))


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _bessel_jn(z, v, n_iter):
    return _bessel_jn_value(z, v=v, n_iter=n_iter)


@_bessel_jn.defjvp
def _bessel_jn_jvp(v, n_iter, primals, tangents):
    (z,), (t,) = primals, tangents
    orders = _bessel_jn(z, v + 1, n_iter)
    # DLMF 10.6.1; the order below 0 is minus that above.
    below = lax.concatenate([-orders[1:2], orders[:-2]], 0)
    return orders[:-1], 0.5 * (below - orders[1:]) * t


# ---------------------------------------------------------------------------------------------------
# The Hurwitz zeta function

# B_2k / (2k)!
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000,
)  # fmt: skip


def _zeta_sum(x, q):
    """Sums by the Euler-Maclaurin formula, DLMF 25.11.7: differentiable by `x`."""
    total = lax.full_like(q, 0)
    for k in range(12):
        total = total + lax.exp(-x * lax.log(q + k))
    n = q + 12
    power = lax.exp(-x * lax.log(n))
    total = total + power * n / (x - 1) + 0.5 * power
    factor, term = x, power / n
    for k, c in enumerate(_EULER_MACLAURIN):
        total = total + c * factor * term
        term = term / (n * n)
        factor = factor * (x + (2 * k + 1)) * (x + (2 * k + 2))
    return total


def _zeta_value(x, q):
    first_term = where(q > 1, 0, where(q < 1, np.inf, lax.full_like(q, 1)))  # of infinite x
    out = where((x == np.inf) & (q > 0), first_term, special.zeta(x, q))
    return where((q == np.inf) & (x > 1), 0, out)


def _zeta_slope_x(x, q):
    valid = (x > 1) & (q > 0)
    x, q = where(valid, x, 2), where(valid, q, 1)
    return where(valid, _zeta_sum_slope(x, q), np.nan)


def _sum_slope(x, q):
    return api.jvp(lambda x: _zeta_sum(x, q), (x,), (lax.full_like(x, 1),))[1]


_zeta_sum_slope = elementwise(_sum_slope)
_zeta = elementwise(
    _zeta_value,
    lambda out, x, q: _zeta_slope_x(x, q),
    lambda out, x, q: -x * _zeta(x + 1, q),
)


@export
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Elementwise Hurwitz zeta function: the sum of (k + q)**-x for k = 0, 1, ...

    Args:
      x: real array, greater than 1.
      q: real array.

    Raises:
      NotImplementedError: if `q` is not given.

    >>> jax.scipy.special.zeta(2.0, 1.0)
    Array(1.6449..., dtype=float32, weak_type=True)
    """
    if q is None:
        raise NotImplementedError(
            "The Riemann zeta function is not implemented; pass q=1 to jax.scipy.special.zeta, whose Hurwitz "
            "zeta function it then is."
        )
    x, q = inexact_args("zeta", x, q)
    if x.dtype.kind == "c":
        raise TypeError(
            f"jax.scipy.special.zeta does not accept dtype {x.dtype}. Pass real numbers."
        )
    weak = x.aval.weak_type and q.aval.weak_type
    return lax.convert_type(in_single_or_double(_zeta, x, q), x.dtype, weak)
