"""Bessel functions and the zeta function."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from jax._src import api, dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, special
from jax._src.lax.control_flow import scan
from jax._src.lax.lax.cumulative import cumprod
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
    y = x * lax.sign(x)
    # The exponential may overflow where the product does not; then it is a square.
    large = y > math.log(float(dtypes.finfo(x.dtype).max)) - 1
    power = lax.exp(where(large, 0.5 * y, y))
    return value * power * where(large, power, 1)


@export
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Elementwise Bessel functions of the first kind of orders 0 to v, by Miller's algorithm.

    The recurrence goes downwards from an order above `n_iter` and above abs(z) for the numbers
    that `n_iter` is meant for; see DLMF 3.6(iii), 10.74(iv).

    Args:
      z: real array, scalar or list, of magnitudes below about `n_iter`.
      v: highest order, an integer.
      n_iter: order at which the recurrence starts, an integer.

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
    # Of smaller numbers only orders 0 and 1 are not below all numbers; they would overflow here.
    least, large = (1e-19, 1e10) if z.dtype == np.float32 else (1e-154, 1e100)
    small = abs(z) < least
    safe = where(small, 1, z)

    def down(state, n):
        """Goes from orders n and n + 1 to n - 1 and n; returns order n and by what all is scaled then."""
        here, above, total = state
        weight = lax.select(lax.eq(lax.rem(n, np.int32(2)), np.int32(0)), const(z, 2), const(z, 0))
        total = total + weight * here
        size = abs(here)
        factor = where(size > large, 1 / size, lax.full_like(z, 1))
        below = (2 * lax.convert_element_type(n, z.dtype) / safe) * (here * factor) - above * factor
        return (below, here * factor, total * factor), (here, factor)

    start = (lax.full_like(safe, 1), lax.full_like(safe, 0), lax.full_like(safe, 0))
    first = max(n_iter, v)
    unused = np.arange(first, v, -1, dtype=np.int32)
    state, _ = scan(lambda state, n: (down(state, n)[0], None), start, unused)
    (zeroth, _, total), (higher, factors) = scan(down, state, np.arange(v, 0, -1, dtype=np.int32))
    factors = cumprod(factors, axis=0, reverse=True)
    orders = lax.rev(lax.concatenate([higher * factors, zeroth[None]], 0), (0,))
    out = orders / (total + zeroth)
    at_0 = [lax.full_like(z, 1), 0.5 * z, *[lax.full_like(z, 0)] * (v - 1)][: v + 1]
    at_0 = lax.concatenate([o[None] for o in at_0], 0)
    return where(broadcast_to(small, out.shape), at_0, out)


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
    return special.zeta(x, q)


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
