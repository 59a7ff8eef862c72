"""Prints programs for FileCheck: what a function is traced to, and what that is lowered to.

    @print_ir("float32[2,3]", "float32[3]")
    def add(x, y):
        return x + y

prints the line `TEST: add float32[2,3] float32[3]` and the StableHLO module.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# The names of the primitives in all programs that were printed, for filecheck_test.py.
seen: set[str] = set()


def print_jaxpr(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Prints the jaxpr of the decorated function.

    Args:
      *args: its arguments, of which texts such as `"float32[2,3]"` are arrays' types.

    Returns:
      A decorator, which returns the function.
    """

    def show(fun):
        _title(fun, args)
        jaxpr = jax.make_jaxpr(fun)(*_types(args))
        _note(jaxpr)
        print(jaxpr)
        return fun

    return show


def print_ir(*args: Any, platform: str = "cpu", **options: Any) -> Callable[..., Any]:
    """Prints the StableHLO module of the decorated function.

    Args:
      *args: its arguments, of which texts such as `"float32[2,3]"` are arrays' types.
      platform: that of the devices that it is lowered for.
      **options: those of `jax.jit`.

    Returns:
      A decorator, which returns the function.
    """

    def show(fun):
        _title(fun, args)
        traced = jax.jit(fun, **options).trace(*_types(args))
        _note(traced.jaxpr)
        print(traced.lower(lowering_platforms=(platform,)).as_text())
        return fun

    return show


def _title(fun, args):
    print("\nTEST:", fun.__name__, *map(str, args))


def _types(args):
    return jax.tree.map(_type, args)


def _type(text):
    if not isinstance(text, str):
        return text
    dtype, shape = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()
    return jax.ShapeDtypeStruct([int(n) for n in shape.split(",") if n], jnp.dtype(dtype))


def _note(jaxpr):
    for eqn in jaxpr.eqns:
        seen.add(eqn.primitive.name)
        for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                _note(value)


def _is_jaxpr(value):
    return hasattr(value, "eqns")
