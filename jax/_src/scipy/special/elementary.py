"""Functions of logarithms and exponentials: entropies, Box-Cox transforms, logistic functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import SymbolicZero, custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.lax.special.expansions import accurate_log1p
from jax._src.lax.special.polynomials import polynomial
from jax._src.nn import functions as nn
from jax._src.numpy.util import broadcast_arrays, to_array
from jax._src.scipy.special.common import export, inexact_args, real_args, where
from jax._src.typing import ArrayLike


def _differentiable(slope_x, slope_y):
    """Decorates a function of two arrays; the slopes are functions `(x, y)` or None for zero."""

    def decorate(impl):
        compiled = nested_jit(impl)

        @custom_jvp
        def fun(x, y):
            return compiled(x, y)

        def rule(primals, tangents):
            primals = tuple(map(to_array, primals))  # not Python numbers, which fail at poles
            out = fun(*primals)
            terms = [
                lax.mul(t, slope(*primals))
                for t, slope in zip(tangents, (slope_x, slope_y))
                if type(t) is not SymbolicZero
            ]
            return out, sum(terms[1:], terms[0]) if terms else lax.full_like(out, 0)

        fun.defjvp(rule, symbolic_zeros=True)
        fun.__name__ = impl.__name__
        return fun

    return decorate


# ---------------------------------------------------------------------------------------------------
# Logarithms


@_differentiable(lambda x, y: lax.log(y), lambda x, y: x / y)
def _xlogy(x, y):
    zero = (x == 0) & (y == y)
    return where(zero, 0, x * lax.log(where(zero, 1, y)))


@_differentiable(lambda x, y: lax.log1p(y), lambda x, y: x / (1 + y))
def _xlog1py(x, y):
    zero = (x == 0) & (y == y)
    return where(zero, 0, x * lax.log1p(where(zero, 0, y)))


@export
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x * log(y), zero where x is zero.

    Args:
      x, y: real or complex arrays.

    >>> jax.scipy.special.xlogy(jnp.array([0.0, 2.0]), jnp.array([0.0, 1.0]))
    Array([0., 0.], dtype=float32)
    """
    return _xlogy(*broadcast_arrays(*inexact_args("xlogy", x, y)))


@export
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x * log(1 + y), accurate for small y, and zero where x is zero.

    Args:
      x, y: real or complex arrays.

    >>> jax.scipy.special.xlog1py(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(*broadcast_arrays(*inexact_args("xlog1py", x, y)))


@custom_jvp
def xlogx(x):
    x = to_array(x)
    return where(x == 0, 0, x * lax.log(where(x == 0, 1, x)))


@xlogx.defjvp
def _xlogx_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return xlogx(x), t * (lax.log(x) + 1)


@nested_jit
def _entr(x):
    return where(x < 0, -np.inf, -xlogx(x))


@export
def entr(x: ArrayLike) -> Array:
    """Elementwise entropy -x * log(x), zero at zero and -inf for negative numbers.

    Args:
      x: real array.

    >>> jax.scipy.special.entr(1.0)
    Array(-0., dtype=float32, weak_type=True)
    """
    return _entr(*real_args("entr", x))


@nested_jit
def _rel_entr(p, q):
    both = (p > 0) & (q > 0)
    zero = (p == 0) & (q >= 0)
    undefined = (p != p) | (q != q)
    p, q = where(both, p, 1), where(both, q, 1)
    # The logarithm of the quotient is accurate where p and q are close; the quotient may overflow.
    ratio = p / q
    small = (ratio > 0.5) & (ratio < 2)
    log_ratio = where(small, lax.log1p((p - q) / q), lax.log(p) - lax.log(q))
    out = where(both, p * log_ratio, where(zero, lax.full_like(p, 0), np.inf))
    return where(undefined, np.nan, out)


@export
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Elementwise relative entropy p * log(p / q).

    It is zero where p is zero and q is not negative, and infinite where one of them is negative, or
    q is zero and p is not.

    Args:
      p, q: real arrays.

    >>> jax.scipy.special.rel_entr(1.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _rel_entr(*broadcast_arrays(*real_args("rel_entr", p, q)))


@nested_jit
def _kl_div(p, q):
    both = (p > 0) & (q > 0)
    zero = (p == 0) & (q >= 0)
    p_or_1, q_or_1 = where(both, p, 1), where(both, q, 1)
    out = _rel_entr.__wrapped__(p_or_1, q_or_1) - p_or_1 + q_or_1
    # Where p and q are close the terms cancel. With s = (p - q) / (p + q), log(p / q) = 2 atanh(s).
    scale = where(p_or_1 > 1, 0.5, lax.full_like(p, 1))  # The sum may overflow.
    s = (scale * p_or_1 - scale * q_or_1) / (scale * p_or_1 + scale * q_or_1)
    near = abs(s) < 0.25
    s = where(near, s, 0)
    terms = 7 if dtypes.finfo(p.dtype).bits <= 32 else 14
    series = polynomial(s * s, [1 / (2 * k + 3) for k in range(terms)])
    series = q_or_1 * (2 * s * s) * (1 + (1 + s) * s * series) / (1 - s)
    out = where(both, where(near, series, out), where(zero, q, np.inf))
    return where((p != p) | (q != q), np.nan, out)


@export
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """Elementwise Kullback-Leibler divergence p * log(p / q) - p + q.

    It is q where p is zero and q is not negative, and infinite where one of them is negative, or q
    is zero and p is not.

    Args:
      p, q: real arrays.

    >>> jax.scipy.special.kl_div(1.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _kl_div(*broadcast_arrays(*real_args("kl_div", p, q)))


# ---------------------------------------------------------------------------------------------------
# Box-Cox transforms


def _expm1_ratio(u):
    """Returns (exp(u) - 1) / u, smooth at 0."""
    small = abs(u) < 0.1
    safe = where(small, 1, u)
    series = lax.full_like(u, 1)
    for n in range(13, 1, -1):
        series = 1 + series * u / n
    return where(small, series, lax.expm1(safe) / safe)


def _box_cox(log_x, lmbda):
    # At -inf the transform is -1 / lmbda for positive lmbda; the product of a zero is not used.
    zero = lmbda == 0
    u = where(zero, 0, lmbda * where(zero, 0, log_x))
    small = (abs(u) < 0.1) | zero
    divisor = where(small, 1, lmbda)
    return where(small, log_x * _expm1_ratio(u), lax.expm1(u) / divisor)


@nested_jit
def _boxcox(x, lmbda):
    return _box_cox(lax.log(x), lmbda)


@nested_jit
def _boxcox1p(x, lmbda):
    return _box_cox(lax.log1p(x), lmbda)


@export
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Elementwise Box-Cox transform (x**lmbda - 1) / lmbda, log(x) where lmbda is zero.

    Args:
      x, lmbda: real or complex arrays.

    >>> jax.scipy.special.boxcox(1.0, 0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _boxcox(*broadcast_arrays(*inexact_args("boxcox", x, lmbda)))


@export
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Elementwise Box-Cox transform of 1 + x, accurate for small x; see :func:`boxcox`.

    >>> jax.scipy.special.boxcox1p(0.0, 0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _boxcox1p(*broadcast_arrays(*inexact_args("boxcox1p", x, lmbda)))


# ---------------------------------------------------------------------------------------------------
# Logistic functions


@nested_jit
def _logit_value(x):
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        middle = abs(x - 0.5) < 0.25
        near = 2 * lax.atanh(2 * where(middle, x, 0.5) - 1)
        return where(middle, near, lax.log(x / (1 - x)))
    # Of the smaller of x and 1 - x: the argument of log1p is not negative, so its error does not grow.
    above = x >= 0.5
    least = where(above, 1 - x, where(x == 0, 0, x))  # without the sign of -0
    out = accurate_log1p((1 - 2 * least) / least)
    return where(above, out, -out)


@custom_jvp
def _logit(x):
    return _logit_value(x)


@_logit.defjvp
def _logit_jvp(primals, tangents):
    (x,), (t,) = map(to_array, primals), tangents
    return _logit(x), t / (x * (1 - x))


@export
def logit(x: ArrayLike) -> Array:
    """Elementwise logit log(x / (1 - x)), the inverse of :func:`expit`.

    Args:
      x: real or complex array.

    >>> jax.scipy.special.logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _logit(*inexact_args("logit", x))


@export
def expit(x: ArrayLike) -> Array:
    """Elementwise logistic function 1 / (1 + exp(-x)).

    Args:
      x: real or complex array.

    >>> jax.scipy.special.expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(*inexact_args("expit", x))


@export
def softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """Computes exp(x) / sum(exp(x)) without overflow.

    Args:
      x: array.
      axis: axis or axes to sum over; None for all.

    >>> print(jax.scipy.special.softmax(jnp.array([0.0, 0.0])))
    [0.5 0.5]
    """
    return nn.softmax(*inexact_args("softmax", x), axis=axis)


@export
def log_softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """Computes the logarithm of :func:`softmax`, accurate where that is tiny.

    Args:
      x: array.
      axis: axis or axes to sum over; None for all.

    >>> print(jax.scipy.special.log_softmax(jnp.array([0.0])))
    [0.]
    """
    return nn.log_softmax(*inexact_args("log_softmax", x), axis=axis)
