"""Argument handling and numbers for the distributions of `jax.scipy.stats`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np

from jax._src import dtypes
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.lax.special.doubled import split
from jax._src.lax.special.expansions import accurate_log1p
from jax._src.numpy import util
from jax._src.scipy.special.common import in_single_or_double, where
from jax._src.util import set_module

F = TypeVar("F", bound=Callable[..., Any])


def elementwise(
    distribution: str,
    *,
    analytic: Callable[..., Any] | None = None,
    weak: Literal["array", "scalar", "never"] = "scalar",
    broadcast: bool = True,
) -> Callable[[F], F]:
    """Decorates a formula, which then takes numbers and arrays of any real dtypes, as SciPy's functions do.

    The formula gets strongly typed arrays of one shape, all float32 or all float64: narrower ones
    are computed in float32. It is compiled as one program.

    Args:
      distribution: the module that has the function.
      analytic: the formula for complex arrays, which are errors without it.
      weak: whether the result of weakly typed arguments is weakly typed: yes, only if the first one is
        a scalar, or never.
      broadcast: whether the arrays are broadcast to one shape; the formula has to do it otherwise.
    """

    def decorate(formula):
        name = f"{distribution}.{formula.__name__}"
        signature = inspect.signature(formula)
        count = len(signature.parameters)
        compiled = nested_jit(_named(formula, name, broadcast))
        compiled_analytic = analytic and nested_jit(_named(analytic, name, broadcast))

        @functools.wraps(formula)
        def fun(*args, **kwargs):
            if kwargs or len(args) != count:
                try:
                    bound = signature.bind(*args, **kwargs)
                except TypeError as err:
                    raise TypeError(f"jax.scipy.stats.{name}: {err}.") from None
                bound.apply_defaults()
                args = bound.args
            arrays = broadcastable(name, *args)
            dtype = arrays[0].dtype
            weakly = weak != "never" and all(x.aval.weak_type for x in arrays)
            if weak == "scalar":
                weakly = weakly and arrays[0].ndim == 0
            if dtypes.issubdtype(dtype, np.complexfloating):
                if compiled_analytic is None:
                    raise TypeError(
                        f"jax.scipy.stats.{name} does not accept dtype {dtype}. Pass real numbers."
                    )
                strongly = [lax.convert_type(x, dtype, False) for x in arrays]
                out = compiled_analytic(*strongly)
            else:
                out = in_single_or_double(compiled, *arrays, broadcast=False)
            return lax.convert_type(out, dtype, weakly)

        return set_module(f"jax.scipy.stats.{distribution}")(fun)

    return decorate


def _named(fun, name, broadcast):
    @functools.wraps(fun)
    def named(*args):
        return fun(*util.broadcast_arrays(*args)) if broadcast else fun(*args)

    named.__name__ = named.__qualname__ = name.replace(".", "_")
    return named


def broadcastable(name: str, *args: Any) -> list[Any]:
    """Converts arguments to arrays of one inexact dtype whose shapes broadcast.

    Raises:
      TypeError: if an argument is no array or number, or the shapes do not broadcast.
    """
    try:
        arrays = [util.to_array(x) for x in util.promote_args_inexact(name, *args)]
        lax.broadcast_shapes(*[x.shape for x in arrays])
    except ValueError:
        shapes = ", ".join(str(np.shape(x)) for x in args)
        raise TypeError(
            f"jax.scipy.stats.{name} got incompatible shapes for broadcasting: {shapes}. Reshape them."
        ) from None
    return arrays


# ---------------------------------------------------------------------------------------------------
# Location and scale


def standardized(x: Any, loc: Any, scale: Any) -> Any:
    """Computes (x - loc) / scale, or NaN unless the scale is positive."""
    # The compiler divides by a broadcast scale by multiplying with its reciprocal, but only if nothing
    # else uses the scale as broadcast. If the caller has not broadcast it, neither does the test, and
    # the quotient is rounded as in a program that divides only.
    return (x - loc) / scale * where(scale > 0, lax.full_like(scale, 1), np.nan)


def exponential_correction(z: Any, x: Any, loc: Any, scale: Any) -> Any:
    """Computes by how much z = (x - loc) / scale, as rounded, is too small.

    An exponential of z multiplies this error by z: exp(-z) is better times 1 minus the result.
    """
    # The error of the difference by Knuth's sum of two, that of the quotient by exact products.
    d = x - loc
    negative = d - x
    rounding = (x - (d - negative)) - (loc + negative)
    (z1, z2), (s1, s2) = split(z), split(scale)
    remainder = (((d - z1 * s1) - z1 * s2) - z2 * s1) - z2 * s2
    rest = (remainder + rounding) / scale
    return lax.stop_gradient(where(lax.is_finite(rest), rest, 0))


def tail_exponential(z: Any, x: Any, loc: Any, scale: Any) -> Any:
    """Computes exp(-abs(z)) of z = (x - loc) / scale, corrected by the rounding error of z."""
    rest = exponential_correction(z, x, loc, scale)
    below = z < 0
    return lax.exp(where(below, z, -z)) * (1 + where(below, rest, -rest))


def scaled_up(z: Any, loc: Any, scale: Any) -> Any:
    """Computes loc + scale * z, or NaN unless the scale is positive."""
    return loc + where(scale > 0, scale, np.nan) * z


def log_per_scale(log_density: Any, scale: Any) -> Any:
    """Subtracts log(scale); not outside of the support, where no derivative depends on the scale."""
    return where(log_density == -np.inf, -np.inf, log_density - lax.log(scale))


# ---------------------------------------------------------------------------------------------------
# Formulas that are safe to differentiate


def probability(q: Any) -> Any:
    """Returns q, or NaN outside of [0, 1]."""
    return where((q >= 0) & (q <= 1), q, np.nan)


def log1mexp(x: Any, tail: Any = None) -> Any:
    """Computes log(1 - exp(-x)) for x >= 0; unlike `jax.nn.log1mexp` also for subnormal x.

    Args:
      x: array.
      tail: exp(-x), if it is known to more digits than x gives.
    """
    small = x < 0.693
    # Near zero 1 - exp(-x) is x, whose subnormal numbers expm1 would lose.
    tiny = x < 1e-20
    near = where(tiny, x, -lax.expm1(-where(small & ~tiny, x, 0.5)))
    tail = lax.exp(-where(small, 1, x)) if tail is None else where(small, 0.5, tail)
    far = accurate_log1p(-tail)
    return where(small, lax.log(where(small, near, 1)), far)


def log1p_square(x: Any) -> Any:
    """Computes log(1 + x**2) for numbers whose square may overflow."""
    large = abs(x) > 1e9
    y = where(large, 1, x)
    return where(large, 2 * lax.log(where(large, abs(x), 1)), accurate_log1p(y * y))


def power_of_complement(q: Any, exponent: Any, exponent_rest: Any) -> Any:
    """Computes (1 - q) ** (exponent + rest) for 0 <= q <= 1, also where 1 - q is rounded."""
    # A difference from a constant would be simplified.
    one = where((q >= 0) & (q <= 1), lax.full_like(q, 1), np.nan)
    base = one - q
    log_base = lax.log(base)
    log_rest = exponent * (((one - base) - q) / base) + exponent_rest * log_base
    # Where the rest is this large, the result underflows.
    log_rest = lax.min(log_rest, lax.full_like(q, 0.99 * np.log(np.finfo(q.dtype).max)))
    rest = lax.exp(where(lax.is_finite(log_rest), log_rest, 0))
    # The power may underflow where its product with the rest does not.
    deep = exponent * log_base < 0.8 * float(np.log(np.finfo(q.dtype).tiny))
    power = lax.pow(base, where(deep, 0.5 * exponent, exponent))
    return power * rest * where(deep, power, 1)


def x_log_y(x: Any, y: Any, y_minus_1: Any = None) -> Any:
    """Computes x * log(y) for y >= 0, zero where both are zero; y - 1 may be given for more accuracy."""
    zero = (x == 0) & (y == 0)
    if y_minus_1 is None:
        log_y = lax.log(where(zero, 1, y))
    else:
        log_y = lax.log1p(where(zero, 0, y_minus_1))
    return where(zero, 0, x * log_y)
