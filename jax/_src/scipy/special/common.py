"""Argument handling, derivatives and numbers for `jax.scipy.special`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api, dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import SymbolicZero, custom_jvp
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.util import set_module

export = set_module("jax.scipy.special")


# ---------------------------------------------------------------------------------------------------
# Arguments


def inexact_args(name: str, *args: Any) -> list[Any]:
    """Converts arguments to arrays of one inexact dtype whose shapes broadcast.

    Raises:
      TypeError: if an argument is no array or number, or the shapes do not broadcast.
    """
    out = [util.to_array(x) for x in util.promote_args_inexact(name, *args)]
    try:
        lax.broadcast_shapes(*[x.shape for x in out])
    except ValueError:
        shapes = ", ".join(str(np.shape(x)) for x in args)
        raise TypeError(
            f"jax.scipy.special.{name} got incompatible shapes for broadcasting: {shapes}."
        ) from None
    return out


def real_args(name: str, *args: Any) -> list[Any]:
    """Converts like `inexact_args`, to floating-point numbers.

    Raises:
      ValueError: if an argument is complex.
    """
    out = inexact_args(name, *args)
    if dtypes.issubdtype(out[0].dtype, np.complexfloating):
        raise ValueError(
            f"jax.scipy.special.{name} does not support complex-valued inputs. Pass their real parts."
        )
    return out


def only_single_or_double(name: str, x: Any) -> Any:
    """Converts an array or (nested) list to an array, of float32 or float64.

    Raises:
      TypeError: if it has another dtype.
    """
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"jax.scipy.special.{name}: x.dtype={x.dtype} is not supported. Convert x to float32 or float64."
        )
    return lax.convert_type(x, x.dtype, False)


def in_single_or_double(fun: Callable[..., Any], *args: Any, broadcast: bool = True) -> Any:
    """Calls a function of strongly typed float32 or float64 arrays; narrower are converted.

    Without `broadcast` the arrays keep their shapes, for a compiled function that broadcasts them itself.
    """
    dtype = args[0].dtype
    wide = np.dtype(np.float32) if dtypes.itemsize_bits(dtype) < 32 else dtype
    args = [lax.convert_type(x, wide, False) for x in args]
    if broadcast and len(args) > 1:
        args = util.broadcast_arrays(*args)
    out = fun(*args)
    if wide == dtype:
        return out
    return api_map(lambda y: lax.convert_element_type(y, dtype), out)


def api_map(fun: Callable[[Any], Any], out: Any) -> Any:
    """Applies `fun` to an array or to each of a tuple of arrays."""
    return tuple(map(fun, out)) if isinstance(out, tuple) else fun(out)


# ---------------------------------------------------------------------------------------------------
# Derivatives


def elementwise(impl: Callable[..., Any], *slopes: Callable[..., Any] | None) -> Callable[..., Any]:
    """Makes a differentiable, compiled function of arrays of equal shape and dtype.

    Args:
      impl: function of arrays, which defines the values.
      slopes: of each argument, a function `(out, *args)` that returns the partial derivative, or
        None if that is zero. Without any, `impl` is differentiated in forward mode: it may
        have loops, which cannot be transposed, in any order and mode.
    """
    compiled = nested_jit(impl)

    @custom_jvp
    def fun(*args):
        return compiled(*args)

    def partial(i, out, args):
        if slopes:
            return None if slopes[i] is None else slopes[i](out, *args)
        return partial_derivative(impl, i)(*args)

    def rule(primals, tangents):
        out = fun(*primals)
        total = None
        for i, t in enumerate(tangents):
            if type(t) is SymbolicZero:
                continue
            slope = partial(i, out, primals)
            if slope is None:
                continue
            if isinstance(out, tuple):
                terms = tuple(lax.mul(t, s) for s in slope)
                total = terms if total is None else tuple(map(lax.add, total, terms))
            else:
                term = lax.mul(t, slope)
                total = term if total is None else lax.add(total, term)
        if total is None:
            total = api_map(lambda y: lax.full_like(y, 0), out)
        return out, total

    fun.defjvp(rule, symbolic_zeros=True)
    fun.__name__ = impl.__name__
    return fun


@functools.cache
def partial_derivative(impl: Callable[..., Any], i: int) -> Callable[..., Any]:
    """Returns the derivative of `impl` by argument `i`, a function of the same kind."""

    def slope(*args):
        along = lambda x: impl(*args[:i], x, *args[i + 1 :])
        return api.jvp(along, (args[i],), (lax.full_like(args[i], 1),))[1]

    slope.__name__ = f"{impl.__name__}_slope{i}"
    return elementwise(slope)


# ---------------------------------------------------------------------------------------------------
# Numbers


def const(x: Any, value: Any) -> Any:
    """Returns a scalar of the dtype of `x`."""
    return np.asarray(value, x.dtype)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Selects between two arrays, or an array and a constant, which takes its dtype."""
    assert isinstance(x, Array) or isinstance(y, Array), "one of x and y has to be an array"
    like = x if isinstance(x, Array) else y
    shape = condition.shape
    x, y = (v if isinstance(v, Array) else lax.full_like(like, v) for v in (x, y))
    x, y = (v if v.shape == shape else util.broadcast_to(v, shape) for v in (x, y))
    return lax.select(condition, x, y)


def infinite(x: Any) -> Any:
    """Tests for positive infinity."""
    return x == const(x, np.inf)
