"""Functions that kernels are written with: conditions, loops, empty arrays, and arithmetic of sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import traceback_util
from jax._src.core import typeof
from jax._src.lax import lax
from jax._src.lax.control_flow import cond, fori_loop
from jax._src.numpy import util as numpy_util
from jax._src.tree_util import tree_map

traceback_util.register_exclusion(__file__)


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """Return a decorator that calls a function at once, if a condition holds.

    Args:
      condition: a boolean, which can be traced.

    >>> def kernel(o_ref):
    ...   o_ref[...] = jnp.zeros(4)
    ...   @pl.when(pl.num_programs(0) == 1)
    ...   def _():
    ...     o_ref[0] = 1.
    >>> pl.pallas_call(kernel, jax.ShapeDtypeStruct((4,), jnp.float32), grid=1, interpret=True)()
    Array([1., 0., 0., 0.], dtype=float32)
    """

    def decorate(f: Callable[[], None]) -> None:
        if isinstance(condition, (bool, np.bool_)):
            if condition:
                f()
        else:
            cond(condition, lambda: _without_result(f), lambda: None)

    return decorate


def _without_result(f: Callable[[], None]) -> None:
    f()


def loop(
    lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1, unroll: int | bool | None = None
) -> Callable[[Callable[..., Any]], Any]:  # fmt: skip
    """Return a decorator that calls a function at once for each integer of a range.

    Args:
      lower, upper: the first integer, and the end of the range, which is not part of it.
      init_carry: a tree; the function then takes the integer and the tree, and returns the next tree.
      step: the distance of two integers, positive.
      unroll: how many calls are traced as one, or whether all are; for bounds that are not traced.

    Returns:
      A decorator; what takes the function's name is the last tree, or None.

    >>> total = pl.loop(0, 10, init_carry=0, step=3)(lambda i, total: total + i)
    >>> print(total)
    18
    """

    def decorate(body: Callable[..., Any]) -> Any:
        def run(k: Any, carry: Any) -> Any:
            i = lax.add(_like(lower, k), lax.mul(k, _like(step, k)))
            if init_carry is None:
                body(i)
                return None
            return body(i, carry)

        if all(isinstance(x, (int, np.integer)) for x in (lower, upper, step)):
            if step <= 0:
                raise ValueError(f"pl.loop needs a positive step, got {step}")
            times = max(-(-(upper - lower) // step), 0)
        else:
            a, b, s = [lax.convert_element_type(x, np.int32) for x in (lower, upper, step)]
            times = lax.div(lax.add(lax.sub(b, a), lax.sub(s, np.int32(1))), s)
        if unroll is None:
            return fori_loop(0, times, run, init_carry)
        return fori_loop(0, times, run, init_carry, unroll=unroll)

    return decorate


def _like(x: Any, k: Any) -> Any:
    return lax.convert_element_type(x, typeof(k).dtype)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Any:
    """Return an array of elements without a value.

    Args:
      shape: its shape.
      dtype: the type of its elements.
      out_sharding: its sharding.

    >>> pl.empty((2, 3), jnp.float32).shape
    (2, 3)
    """
    return lax.empty(shape, dtype, out_sharding=out_sharding)


def empty_like(x: Any) -> Any:
    """Return arrays without values, of the shapes and dtypes of a tree of arrays.

    Args:
      x: a tree of arrays or `jax.ShapeDtypeStruct`.

    >>> pl.empty_like(jnp.ones((2, 3))).shape
    (2, 3)
    """
    from_leaf = lambda leaf: lax.empty(leaf.shape, leaf.dtype)
    return tree_map(from_leaf, x)


def cdiv(a: Any, b: Any) -> Any:
    """Return `a / b` rounded up.

    Args:
      a, b: integers, not negative, which can be traced.

    >>> pl.cdiv(7, 2)
    4
    """
    return (a + b - 1) // b


def align_to(a: Any, alignment: Any) -> Any:
    """Return the least multiple of `alignment` that is not less than `a`.

    Args:
      a, alignment: integers, not negative, which can be traced.

    >>> pl.align_to(7, 4)
    8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """Return the least power of two that is not less than `x`.

    Args:
      x: a positive integer.

    Raises:
      ValueError: if `x` is negative.

    >>> pl.next_power_of_2(5)
    8
    """
    if x < 0:
        raise ValueError(f"`next_power_of_2` requires a non-negative integer, got {x}")
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many elements lie between neighbours along each dimension of a row-major array.

    Args:
      shape: the array's shape.

    >>> pl.strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    strides, size = [], 1
    for d in reversed(shape):
        strides.append(size)
        size *= d
    return tuple(reversed(strides))


def broadcast_to(a: Any, shape: tuple[int, ...]) -> Any:
    """Return an array broadcast to a shape, by NumPy's rules.

    Args:
      a: the array.
      shape: the shape.

    >>> pl.broadcast_to(jnp.arange(3), (2, 3)).shape
    (2, 3)
    """
    return numpy_util.broadcast_to(a, shape)
