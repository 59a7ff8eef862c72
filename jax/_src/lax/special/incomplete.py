"""Incomplete gamma and beta functions: power series and continued fractions, summed in loops.

A loop runs until every element has converged. Elements that have converged keep their values, so
that the result of an element does not depend on the rest of the array.
"""

from __future__ import annotations

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import ad
from jax._src.lax.control_flow import while_loop
from jax._src.lax.lax.arithmetic import abs, add, div, floor, max, min, mul, neg, sub
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, log, log1p, sqrt
from jax._src.lax.lax.logical import bitwise_and, bitwise_not, bitwise_or, eq, ge, gt, le, lt, ne
from jax._src.lax.lax.reductions import reduce_max, reduce_or
from jax._src.lax.lax.select import select
from jax._src.lax.rules import FLOAT, binary_primitive, nary_primitive
from jax._src.lax.special.basic import digamma, in_float32, lgamma, same_shape, wide_enough
from jax._src.lax.special.doubled import two_difference
from jax._src.lax.special.expansions import accurate_log1p
from jax._src.lax.special.large_gamma import has_expansion, large_gamma_tail
from jax._src.lax.special.polynomials import polynomial
from jax._src.lax.special.scales import (
    beta_scale,
    excess,
    gamma_scale,
    upper_gamma_of_small,
)
from jax._src.lax.utils import const
from jax._src.typing import ArrayLike

# ---------------------------------------------------------------------------------------------------
# The incomplete gamma functions

_MAX_SERIES_STEPS = 20_000
_MAX_FRACTION_STEPS = 2_000


def _loop_while_any(active, carry, body, steps: int):
    """Run `active, *carry = body(i, active, *carry)` for i = 1, 2, ... while any is active."""

    def go_on(state):
        i, active, *_ = state
        anywhere = reduce_or(active, tuple(range(core.typeof(active).ndim)))
        return bitwise_and(lt(i, np.int32(steps)), anywhere)

    def step(state):
        i, active, *carry = state
        i = add(i, np.int32(1))
        return (i, *body(i, active, *carry))

    _, _, *carry = while_loop(go_on, step, (np.int32(0), active, *carry))
    return carry


_UNROLLED = 8


def _backward(steps, start, body):
    """Run `total = body(n, total)` for n = steps, ..., 2, 1, where `steps` is of each element.

    Some steps are one, which keeps what lies between them out of memory.
    """
    axes = tuple(range(core.typeof(steps).ndim))
    last = convert_element_type(reduce_max(steps, axes), np.int32)
    chunks = div(add(last, np.int32(_UNROLLED)), np.int32(_UNROLLED))

    def step(state):
        chunk, total = state
        first = mul(sub(chunk, np.int32(1)), np.int32(_UNROLLED))
        for k in reversed(range(1, _UNROLLED + 1)):
            n = _as(start, add(first, np.int32(k)))
            total = select(le(n, steps), body(n, total), total)
        return sub(chunk, np.int32(1)), total

    _, total = while_loop(lambda state: gt(state[0], np.int32(0)), step, (chunks, start))
    return total


def _as(x, i):
    return convert_element_type(i, core.typeof(x).dtype)


def log1p_error(x):
    """Return log(1 + x) - x, without cancellation near 0."""
    # With s = x / (2 + x), log(1 + x) = 2 atanh(s), and x = 2 s / (1 - s).
    one, two = const(x, 1), const(x, 2)
    s = div(x, add(two, x))
    near = lt(abs(s), const(x, 0.25))
    t = select(near, s, full_like(x, 0))
    terms = 7 if dtypes.finfo(core.typeof(x).dtype).bits == 32 else 14
    series = mul(t, polynomial(mul(t, t), [1 / (2 * k + 3) for k in range(terms)]))
    close = mul(mul(two, mul(t, t)), sub(series, div(one, sub(one, t))))
    return select(near, close, sub(accurate_log1p(x), x))


class _Gamma:
    """State shared by P(a, x), Q(a, x) and their derivatives: masks and the common scale."""

    def __init__(self, a, x):
        self.a, self.x = a, x
        zero, one = const(x, 0), const(x, 1)
        info = dtypes.finfo(core.typeof(x).dtype)
        self.eps = const(x, info.eps)
        self.is_nan = bitwise_or(ne(a, a), ne(x, x))
        self.x_is_zero = eq(x, zero)
        self.outside = bitwise_or(
            bitwise_or(lt(x, zero), lt(a, zero)), bitwise_and(self.x_is_zero, eq(a, zero))
        )
        # The continued fraction converges fast for large x, the series for small x.
        self.by_fraction = bitwise_and(gt(x, one), gt(x, a))
        # The fraction's derivative loses digits near 1, the series' in the upper tail.
        limit = min(add(a, one), const(x, 2.5))
        self.slope_by_fraction = bitwise_and(self.by_fraction, gt(x, limit))
        infinite = bitwise_or(eq(a, const(a, np.inf)), eq(x, const(x, np.inf)))
        bad = bitwise_or(
            bitwise_or(self.is_nan, self.outside), bitwise_or(self.x_is_zero, infinite)
        )
        self.inside = bitwise_not(bad)
        ready = bitwise_and(self.inside, gt(a, zero))
        ones = full_like(x, 1)
        scale, log_scale = gamma_scale(select(ready, a, ones), select(ready, x, ones))
        self.scale = select(ready, scale, full_like(x, 0))
        self.log_scale = select(ready, log_scale, full_like(x, -np.inf))
        # Here neither the series nor the fraction converges fast.
        self.is_large = bitwise_and(ready, has_expansion(a, x))
        # Here P(a, x) is close to 1, and Q(a, x) is computed by itself.
        self.is_small = bitwise_and(bitwise_and(ready, lt(a, const(a, 0.5))), le(x, one))
        half = full_like(x, 0.5)
        small_a, small_x = (select(self.is_small, v, half) for v in (a, x))
        self.small_upper = upper_gamma_of_small(small_a, small_x)
        self.underflow = lt(self.log_scale, const(x, -np.log(float(info.max))))

    def other_tail(self, tail):
        """Return 1 - tail, accurate also where that is Q(a, x) for a small `a`."""
        return select(self.is_small, self.small_upper, sub(const(tail, 1), tail))

    def sums(self, active):
        """Return the series and the continued fraction's denominator, each where it applies.

        The series is the sum of x**n / ((a + 1) ... (a + n)). The fraction is the even part of DLMF
        8.9.2: its denominators are x - a + 2 n + 1, its numerators n (a - n). Both are evaluated from
        the last term to the first, by one division a step. Near a large `a` an expansion replaces them.
        """
        a, x, by_fraction = self.a, self.x, self.by_fraction
        one = full_like(x, 1)
        steps = select(by_fraction, self._fraction_steps(), self._series_steps())
        steps = select(
            bitwise_and(active, bitwise_not(self.is_large)), floor(steps), full_like(x, 0)
        )
        base = select(by_fraction, sub(sub(x, a), one), one)
        slope = select(by_fraction, full_like(x, 2), full_like(x, 0))

        def body(n, total):
            above = select(by_fraction, mul(n, sub(a, n)), mul(x, total))
            below = select(by_fraction, total, add(a, n))
            return add(add(base, mul(slope, n)), div(above, below))

        # Step n yields the denominator of number n - 1, and the last one is that of number 0.
        start = add(base, mul(slope, add(steps, one)))
        total = _backward(steps, start, body)
        tail = large_gamma_tail(a, x, by_fraction)
        tail = select(self.is_large, select(by_fraction, div(one, tail), mul(a, tail)), one)
        return select(self.is_large, tail, total)

    def _series_steps(self):
        """Return how many terms the series needs.

        The logarithm of the term with x**n is below -g(n), where g is the integral of log((a + t) / x)
        over t from 0 to n. g(n) >= n**2 / (2 a + 2 n / 3) for x <= a gives a start for Newton's
        method, which does not go below the root as g is convex.
        """
        a, x = self.a, self.x
        bits = full_like(x, -np.log(float(self.eps)) + 1)
        a = max(a, x)
        third, zero = mul(bits, const(x, 1 / 3)), const(x, 0)
        n = add(third, sqrt(add(mul(third, third), mul(mul(const(x, 2), a), bits))))
        n = add(n, const(x, 1))
        log_x = log(x)
        log_ratio = sub(log(a), log_x)
        for _ in range(2):
            slope = sub(log(add(a, n)), log_x)
            excess = sub(sub(mul(add(a, n), slope), add(mul(a, log_ratio), n)), bits)
            # Where the numbers of a large difference are rounded it says nothing.
            n = select(gt(excess, zero), sub(n, div(excess, slope)), n)
        return min(add(n, const(x, 2)), const(x, _MAX_SERIES_STEPS))

    def _fraction_steps(self):
        """Return how many terms the fraction needs: a bound of what was found for x > max(a, 1)."""
        a, x = self.a, self.x
        bits = -np.log(float(self.eps)) + 1
        steps = add(const(x, 4), div(const(x, 1.5 * (bits / 4) ** 2), x))
        steps = add(steps, mul(mul(const(x, 0.9 * bits**0.5), sqrt(a)), div(a, x)))
        return min(steps, const(x, _MAX_SERIES_STEPS))

    def series_and_slope(self, active):
        """Return the series and its derivative with respect to a."""
        a, x, eps = self.a, self.x, self.eps

        def body(i, active, term, slope, total, total_slope):
            n = add(a, _as(x, i))
            ratio = div(x, n)
            slope = mul(ratio, sub(slope, div(term, n)))
            term = mul(ratio, term)
            none = full_like(term, 0)
            total = add(total, select(active, term, none))
            total_slope = add(total_slope, select(active, slope, none))
            more = bitwise_or(gt(term, mul(eps, total)), gt(abs(slope), mul(eps, abs(total_slope))))
            return bitwise_and(active, more), term, slope, total, total_slope

        one, zero = full_like(x, 1), full_like(x, 0)
        _, _, total, slope = _loop_while_any(
            active, (one, zero, one, zero), body, _MAX_SERIES_STEPS
        )
        return total, slope

    def fraction_and_slope(self, active):
        """Return the continued fraction, which is Q(a, x) / `scale`, and its derivative by a."""
        a, x, eps = self.a, self.x, self.eps
        one, two, zero = const(x, 1), const(x, 2), const(x, 0)
        # Numerators p and denominators q of the last two convergents; u and v are their
        # derivatives.
        p0, q0 = full_like(x, 1), x
        p1 = add(x, one)
        q1 = mul(add(sub(x, a), two), x)
        value = div(p1, q1)
        nothing = full_like(x, 0)
        v1 = neg(x)
        slope = neg(div(mul(value, v1), q1))
        carry = [value, p0, q0, p1, q1, slope, nothing, nothing, nothing, v1]

        def body(i, active, value, p0, q0, p1, q1, old_slope, u0, v0, u1, v1):
            c = _as(x, i)
            yc = mul(add(sub(one, a), c), c)
            z = add(sub(x, a), add(two, mul(two, c)))
            p2 = sub(mul(p1, z), mul(p0, yc))
            q2 = sub(mul(q1, z), mul(q0, yc))
            usable = ne(q2, zero)
            new = select(usable, div(p2, q2), value)
            error = select(usable, abs(div(sub(value, new), new)), full_like(new, 1))
            u2 = add(sub(sub(mul(u1, z), p1), mul(u0, yc)), mul(p0, c))
            v2 = add(sub(sub(mul(v1, z), q1), mul(v0, yc)), mul(q0, c))
            slope = select(usable, div(sub(u2, mul(new, v2)), q2), old_slope)
            change = abs(sub(slope, old_slope))
            more = bitwise_or(gt(error, eps), gt(change, mul(eps, max(one, abs(slope)))))
            # Numerators and denominators grow: rescale them together before they overflow.
            large = gt(abs(p2), div(one, eps))
            terms = [p1, q1, p2, q2, u1, v1, u2, v2]
            terms = [select(large, mul(t, eps), t) for t in terms]
            out = [select(active, new, value), *terms[:4], select(active, slope, old_slope)]
            return (bitwise_and(active, more), *out, *terms[4:])

        out = _loop_while_any(active, carry, body, _MAX_FRACTION_STEPS)
        return out[0], out[5]

    def finish(self, out, at_zero, a_infinite, x_infinite):
        """Fill in the limits at 0 and infinity, and NaN where the function is undefined."""
        x = self.x
        out = select(self.x_is_zero, full_like(x, at_zero), out)
        out = select(eq(x, const(x, np.inf)), full_like(x, x_infinite), out)
        out = select(eq(self.a, const(x, np.inf)), full_like(x, a_infinite), out)
        both = bitwise_and(eq(self.a, const(x, np.inf)), eq(x, const(x, np.inf)))
        undefined = bitwise_or(bitwise_or(self.outside, self.is_nan), both)
        return select(undefined, full_like(x, np.nan), out)


def _tails(a, x):
    """Return P(a, x) where the series applies, and Q(a, x) where the continued fraction does."""
    a, x = same_shape(a, x)
    g = _Gamma(a, x)
    active = bitwise_and(g.inside, bitwise_not(g.underflow))
    total = g.sums(active)
    upper = div(g.scale, total)
    lower = div(mul(total, g.scale), a)
    return g, lower, upper


def _igamma(a, x):
    g, lower, upper = _tails(a, x)
    out = select(g.by_fraction, sub(const(lower, 1), upper), lower)
    out = select(eq(g.a, const(lower, 0)), full_like(lower, 1), out)
    return g.finish(out, at_zero=0, a_infinite=0, x_infinite=1)


def _igammac(a, x):
    g, lower, upper = _tails(a, x)
    out = select(g.by_fraction, upper, g.other_tail(lower))
    out = select(eq(g.a, const(lower, 0)), full_like(lower, 0), out)
    return g.finish(out, at_zero=1, a_infinite=1, x_infinite=0)


def _igamma_grad_a(a, x):
    a, x = same_shape(a, x)
    g = _Gamma(a, x)
    active = bitwise_and(g.inside, bitwise_not(g.underflow))
    log_x = log(x)
    q, q_slope = g.fraction_and_slope(bitwise_and(active, g.slope_by_fraction))
    upper = mul(g.scale, add(q_slope, mul(q, sub(log_x, digamma(a)))))
    p, p_slope = g.series_and_slope(bitwise_and(active, bitwise_not(g.slope_by_fraction)))
    slope = add(p_slope, mul(p, sub(log_x, digamma(add(a, const(a, 1))))))
    lower = div(mul(g.scale, slope), a)
    out = select(g.slope_by_fraction, neg(upper), lower)
    out = select(g.underflow, full_like(out, 0), out)
    return g.finish(out, at_zero=0, a_infinite=0, x_infinite=0)


def log_igamma_tails(a, x):
    """Return the logarithms of P(a, x) and of Q(a, x), also where the smaller one underflows.

    Args:
      a, x: arrays of one shape and dtype, float32 or float64; see `igamma`.
    """
    g = _Gamma(a, x)
    direct, other = _log_tails(g.scale, g.log_scale, _rest_of_tail(g))
    other = select(g.is_small, log(g.small_upper), other)
    # Where P(a, x) is close to 1 only the other tail tells how close.
    most = bitwise_and(g.is_small, lt(g.small_upper, const(x, 0.5)))
    direct = select(most, log1p(neg(select(most, g.small_upper, full_like(direct, 0)))), direct)
    return (
        g.finish(select(g.by_fraction, other, direct), -np.inf, -np.inf, 0),
        g.finish(select(g.by_fraction, direct, other), 0, 0, -np.inf),
    )


def log_igamma_tails_grad_a(a, x):
    """Return the derivatives of both results of `log_igamma_tails` with respect to `a`."""
    g = _Gamma(a, x)
    log_x = log(x)
    q, q_slope = g.fraction_and_slope(bitwise_and(g.inside, g.by_fraction))
    p, p_slope = g.series_and_slope(bitwise_and(g.inside, bitwise_not(g.by_fraction)))
    upper = add(div(q_slope, q), sub(log_x, digamma(a)))
    lower = add(div(p_slope, p), sub(log_x, digamma(add(a, const(a, 1)))))
    rest = select(g.by_fraction, q, div(p, a))
    return _log_gamma_slopes(g, rest, select(g.by_fraction, upper, lower))


def log_igamma_tails_grad_x(a, x):
    """Return the derivatives of both results of `log_igamma_tails` with respect to `x`."""
    g = _Gamma(a, x)
    rest = _rest_of_tail(g)
    slope = div(const(x, 1), mul(x, rest))
    return _log_gamma_slopes(g, rest, select(g.by_fraction, neg(slope), slope))


def _rest_of_tail(g):
    """Return Q(a, x) / `scale` where the continued fraction applies, P(a, x) / `scale` elsewhere."""
    total = g.sums(g.inside)
    return select(g.by_fraction, div(const(g.x, 1), total), div(total, g.a))


def _log_gamma_slopes(g, rest, slope):
    tail = mul(g.scale, rest)
    other = neg(mul(slope, div(tail, g.other_tail(tail))))
    return (
        g.finish(select(g.by_fraction, other, slope), 0, 0, 0),
        g.finish(select(g.by_fraction, slope, other), 0, 0, 0),
    )


def _log_tails(scale, log_scale, rest):
    """Return the logarithms of t = scale * rest, also where that underflows, and of 1 - t."""
    tail = mul(scale, rest)
    # Near 1 the sum of logarithms would cancel; near 0 it is as good as the logarithm of t.
    small = lt(tail, const(tail, 1e-3))
    log_tail = select(small, add(log_scale, log(rest)), log(tail))
    return log_tail, log1p(neg(tail))


def _random_gamma_grad(a, x):
    # The derivatives of P with respect to a and to x share the factor `scale`, which cancels.
    # Leaving it out keeps samples far in the tails precise.
    a, x = same_shape(a, x)
    g = _Gamma(a, x)
    log_x = log(x)
    q, q_slope = g.fraction_and_slope(bitwise_and(g.inside, g.slope_by_fraction))
    above = mul(add(q_slope, mul(q, sub(log_x, digamma(a)))), x)
    p, p_slope = g.series_and_slope(bitwise_and(g.inside, bitwise_not(g.slope_by_fraction)))
    slope = add(p_slope, mul(p, sub(log_x, digamma(add(a, const(a, 1))))))
    below = neg(div(mul(slope, x), a))
    out = select(g.slope_by_fraction, above, below)
    return g.finish(out, at_zero=0, a_infinite=np.nan, x_infinite=np.nan)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    r"""Elementwise regularized lower incomplete gamma function.

    It is :math:`P(a, x) = \frac{1}{\Gamma(a)} \int_0^x t^{a-1} e^{-t} dt`.

    Args:
      a: real array, not negative (otherwise the result is NaN).
      x: real array of the same dtype, not negative (otherwise the result is NaN); the shapes are
        equal, or one is scalar, or size 1 broadcasts.

    >>> lax.igamma(1.0, 2.0)
    Array(0.86466..., dtype=float32, weak_type=True)
    """
    return igamma_p.bind(a, x)


def _gamma_density(a, x):
    """Return the gamma density, which is the derivative of `igamma` with respect to `x`."""
    a, x = same_shape(a, x)
    one = const(a, 1)
    power = mul(sub(a, one), log(x))
    exponential = bitwise_and(eq(a, one), ge(x, const(x, 0)))  # at 0, too
    power = select(exponential, full_like(x, 0), power)
    return exp(sub(add(neg(x), power), lgamma(a)))


igamma_p = binary_primitive(
    "igamma",
    FLOAT,
    lower=in_float32(_igamma),
    jvp=(
        lambda g, out, a, x: mul(g, igamma_grad_a(a, x)),
        lambda g, out, a, x: mul(g, _gamma_density(a, x)),
    ),
)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    r"""Elementwise regularized upper incomplete gamma function, :math:`Q(a, x) = 1 - P(a, x)`.

    Args:
      a, x: see :func:`igamma`.

    >>> lax.igammac(1.0, 2.0)
    Array(0.13533..., dtype=float32, weak_type=True)
    """
    return igammac_p.bind(a, x)


igammac_p = binary_primitive(
    "igammac",
    FLOAT,
    lower=in_float32(_igammac),
    jvp=(
        lambda g, out, a, x: neg(mul(g, igamma_grad_a(a, x))),
        lambda g, out, a, x: neg(mul(g, _gamma_density(a, x))),
    ),
)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative of :func:`igamma` with respect to `a`; it takes the same operands.

    >>> lax.igamma_grad_a(1.0, 2.0)
    Array(-0.22082..., dtype=float32, weak_type=True)
    """
    return igamma_grad_a_p.bind(a, x)


def _derivative_by_a(impl):
    """Return a jvp rule that multiplies the tangent by a derivative computed in forward mode.

    Loops cannot be transposed, but the product is linear in the tangent.
    """

    def rule(g, out, a, x):
        def derivative(a, x):
            fun = lambda a: [impl(a, x)]
            return ad.jvp(fun, [a], [full_like(a, 1)])[1][0]

        return mul(g, wide_enough(derivative)(*same_shape(a, x)))

    return rule


def _density_slope(a, x):
    """Return the derivative of the gamma distribution's log density with respect to `a`."""
    return sub(log(x), digamma(a))


igamma_grad_a_p = binary_primitive(
    "igamma_grad_a",
    FLOAT,
    lower=in_float32(_igamma_grad_a),
    jvp=(
        _derivative_by_a(_igamma_grad_a),
        lambda g, out, a, x: mul(g, mul(_gamma_density(a, x), _density_slope(a, x))),
    ),
)


def random_gamma_grad(*args: ArrayLike) -> Array:
    r"""Elementwise derivative of gamma distributed samples with respect to the shape `a`.

    It is the implicit derivative of a sample that keeps :math:`P(a, x)` constant; see
    :func:`igamma`.

    Args:
      args: `a` and `x`: a real array, the shape parameter of the distribution, and one of the same
        dtype, the sample; the shapes are equal, or one is scalar, or size 1 broadcasts.

    Raises:
      TypeError: if the number of arguments is not two.

    >>> lax.random_gamma_grad(1.0, 2.0)
    Array(1.6316..., dtype=float32, weak_type=True)
    """
    if len(args) != 2:
        raise TypeError(f"random_gamma_grad takes two arguments, a and x, but got {len(args)}")
    return random_gamma_grad_p.bind(*args)


def _random_gamma_grad_slope(g, out, a, x):
    # The result is dP/da / dP/dx up to its sign, and dP/dx is the density.
    by_log_density = mul(out, sub(div(sub(a, const(a, 1)), x), const(x, 1)))
    return neg(mul(g, add(_density_slope(a, x), by_log_density)))


random_gamma_grad_p = binary_primitive(
    "random_gamma_grad",
    FLOAT,
    lower=in_float32(_random_gamma_grad),
    jvp=(_derivative_by_a(_random_gamma_grad), _random_gamma_grad_slope),
)


# ---------------------------------------------------------------------------------------------------
# The incomplete beta function

_MAX_BETA_STEPS = 10_000


def _beta_fraction(active, a, b, x, rest, above):
    """Return the continued fraction DLMF 8.17.22 for x below the mean, from the last term to the first.

    Args:
      active: mask of the elements that matter.
      a, b, x, rest: arrays; `rest` is 1 - x.
      above: a * rest - b * x, which is small near the mean.
    """
    one, two = const(x, 1), const(x, 2)
    bits = 1 - np.log(float(dtypes.finfo(core.typeof(x).dtype).eps))
    # A bound of how many pairs of terms were found to be needed. The first term is that of the limit
    # for many terms, the second that of the incomplete gamma function, where b is small.
    steps = min(
        div(const(x, bits / 4), sqrt(rest)),
        div(const(x, 1.5 * (bits / 4) ** 2), mul(a, rest)),
    )
    steps = add(add(steps, const(x, 6)), mul(const(x, 0.4 * bits**0.5), sqrt(a)))
    steps = floor(min(steps, const(x, _MAX_BETA_STEPS)))
    steps = select(active, steps, full_like(x, 0))

    # The fraction's denominators are 1 + t - odd / (c (c + 1)), with t = even / ... and c = a + 2 m. As t and 1 - odd
    # cancel 1 if x is close to 1, both are computed without it. Some factors are divided by a, so that none overflows.
    unit = div(one, max(a, one))

    def body(m, t):
        am2 = add(a, mul(two, m))
        c = add(am2, one)
        even = mul(mul(mul(m, unit), sub(b, m)), x)
        rest_of_odd = add(add(mul(two, m), one), add(mul(m, rest), above))
        rest_of_odd = add(mul(mul(add(a, m), unit), rest_of_odd), mul(mul(m, unit), add(m, one)))
        below = add(mul(mul(am2, unit), mul(c, t)), rest_of_odd)
        numerator = mul(mul(even, mul(c, unit)), add(one, t))
        return div(numerator, mul(mul(sub(am2, one), unit), below))

    t = _backward(steps, full_like(x, 0), body)
    return div(add(one, t), add(t, div(add(one, above), add(a, one))))


class _Beta:
    """The fraction of I_x(a, b), or of 1 - I_x(a, b) where `mirrored`; its scale; and the limits."""

    def __init__(self, a, b, x):
        self.a, self.b, self.x = a, b, x
        zero, one, two = const(x, 0), const(x, 1), const(x, 2)
        negative = bitwise_or(lt(a, zero), lt(b, zero))
        outside = bitwise_or(negative, bitwise_or(lt(x, zero), gt(x, one)))
        is_nan = bitwise_or(bitwise_or(ne(a, a), ne(b, b)), ne(x, x))
        at_end = bitwise_or(eq(x, zero), eq(x, one))
        inf = const(x, np.inf)
        # The distribution's mass is all at 1 for infinite a or no b, and all at 0 for infinite b or no a.
        self.all_at_one = bitwise_or(eq(a, inf), eq(b, zero))
        self.all_at_zero = bitwise_or(eq(b, inf), eq(a, zero))
        limit = bitwise_or(self.all_at_one, self.all_at_zero)
        bad = bitwise_or(bitwise_or(outside, is_nan), limit)
        both = bitwise_and(self.all_at_one, self.all_at_zero)
        self.undefined = bitwise_or(bitwise_or(outside, is_nan), both)
        active = bitwise_not(bitwise_or(bad, at_end))
        # The fraction converges fast for x below the mean; otherwise compute 1 - I_{1-x}(b, a).
        mirrored = gt(x, div(add(a, one), add(add(a, b), two)))
        self.mirrored = mirrored
        p, q = select(mirrored, b, a), select(mirrored, a, b)
        ones, half = full_like(x, 1), full_like(x, 0.5)
        u, v, x = select(active, p, ones), select(active, q, ones), select(active, x, half)
        lower, upper = (x, full_like(x, 0)), two_difference(select(active, ones, half), x)
        lower, upper = (
            tuple(select(mirrored, *parts) for parts in zip(*pair))
            for pair in ((upper, lower), (lower, upper))
        )
        scale, log_scale = beta_scale(u, v, lower, upper)
        self.scale = select(active, scale, full_like(x, 0))
        self.log_scale = select(active, log_scale, full_like(x, -np.inf))
        above = excess(u, v, lower, upper)[0]
        self.rest = (_beta_fraction(active, u, v, lower[0], upper[0], above), u)

    def finish(self, out, at_zero, at_one):
        """Fill in the values at x = 0 and 1, and NaN where the function is undefined."""
        x = self.x
        zero, one = const(x, 0), const(x, 1)
        out = select(eq(x, zero), full_like(x, at_zero), out)
        out = select(eq(x, one), full_like(x, at_one), out)
        out = select(bitwise_and(self.all_at_one, lt(x, one)), full_like(x, at_zero), out)
        out = select(bitwise_and(self.all_at_zero, gt(x, zero)), full_like(x, at_one), out)
        return select(self.undefined, full_like(x, np.nan), out)


def _betainc(a, b, x):
    state = _Beta(*same_shape(a, b, x))
    fraction, p = state.rest
    part = div(mul(state.scale, fraction), p)
    out = select(state.mirrored, sub(const(part, 1), part), part)
    return state.finish(out, at_zero=0, at_one=1)


def log_betainc_tails(a, b, x):
    """Return the logarithms of I_x(a, b) and of 1 - I_x(a, b), also where the smaller one underflows.

    Args:
      a, b, x: arrays of one shape and dtype, float32 or float64; see `betainc`.
    """
    state = _Beta(a, b, x)
    direct, other = _log_tails(state.scale, state.log_scale, div(*state.rest))
    log_lower = select(state.mirrored, other, direct)
    log_upper = select(state.mirrored, direct, other)
    return (
        state.finish(log_lower, at_zero=-np.inf, at_one=0),
        state.finish(log_upper, at_zero=0, at_one=-np.inf),
    )


def log_betainc_tails_grad_x(a, b, x):
    """Return the derivatives of both results of `log_betainc_tails` with respect to `x`."""
    state = _Beta(a, b, x)
    rest = div(*state.rest)
    slope = div(const(x, 1), mul(mul(x, sub(const(x, 1), x)), rest))
    slope = select(state.mirrored, neg(slope), slope)
    tail = mul(state.scale, rest)
    other = neg(mul(slope, div(tail, sub(const(x, 1), tail))))
    return (
        state.finish(select(state.mirrored, other, slope), 0, 0),
        state.finish(select(state.mirrored, slope, other), 0, 0),
    )


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    r"""Elementwise regularized incomplete beta function.

    It is :math:`I_x(a, b) = \frac{1}{B(a, b)} \int_0^x t^{a-1} (1-t)^{b-1} dt`, and differentiable
    with respect to `x`.

    Args:
      a, b: real arrays, not negative (otherwise the result is NaN, as where both are 0 or both infinite).
      x: real array of the same dtype, with values in [0, 1] (otherwise the result is NaN); the
        shapes are equal, or scalar, or size 1 broadcasts.

    >>> lax.betainc(1.0, 2.0, 0.5)
    Array(0.75..., dtype=float32, weak_type=True)
    """
    return regularized_incomplete_beta_p.bind(a, b, x)


def betainc_slope_ab(*args):
    """Stand for the derivatives by `a` and `b`, which are not implemented."""
    raise ValueError(
        "Betainc gradient with respect to a and b not supported. Close over them, or use "
        "jax.lax.stop_gradient."
    )


def _betainc_jvp_x(g, out, a, b, x):
    one = const(x, 1)
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    power = add(mul(sub(b, one), log1p(neg(x))), mul(sub(a, one), log(x)))
    return mul(exp(sub(power, log_beta)), g)


regularized_incomplete_beta_p = nary_primitive(
    "regularized_incomplete_beta",
    (FLOAT, FLOAT, FLOAT),
    lower=in_float32(_betainc),
    jvp=(betainc_slope_ab, betainc_slope_ab, _betainc_jvp_x),
)
