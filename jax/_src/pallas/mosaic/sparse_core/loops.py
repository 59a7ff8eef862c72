"""Loops of SparseCores whose rounds may run together."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, typeof
from jax._src.debugging import debug_effect
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lax.control_flow.loops import fori_loop

traceback_util.register_exclusion(__file__)

# Says of the loop around it that its rounds are independent.
parallel_rounds_p = Primitive("parallel_rounds", multiple_results=True)
parallel_rounds_p.def_effectful_abstract_eval(lambda *, unroll: ([], {debug_effect}))
parallel_rounds_p.def_impl(lambda *, unroll: [])
mlir.register_lowering(parallel_rounds_p, lambda ctx, *, unroll: [])


def parallel_loop(
    lower: Any, upper: Any, step: Any = 1, *, unroll: int = 1, carry: Any = None
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that runs a function in a loop at once, whose rounds the compiler may run together.

    A round must not depend on what others write to references; it may depend on what is carried.

    Args:
      lower, upper: the first index, and the end; they can be traced.
      step: by how much the index grows.
      unroll: how many rounds the compiler puts into one.
      carry: what the first round is given: a tree of arrays, or None. The function then takes the index and
        the tree, and returns another such tree.

    Returns:
      A decorator of the function, which returns what the last round does; None if there is no `carry`.

    Raises:
      TypeError, ValueError: if bounds are no integers, or `step` or `unroll` is not positive.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> int(plsc.parallel_loop(0, 10, 3, carry=jnp.int32(0))(lambda i, total: total + i))
    18
    """
    for name, x in (("lower", lower), ("upper", upper), ("step", step)):
        aval: Any = typeof(x)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"parallel_loop: {name} must be an integer, got {aval.str_short()}.")
    known = all([isinstance(x, (int, np.integer)) for x in (lower, upper, step)])
    if isinstance(step, (int, np.integer)) and step < 1:
        raise ValueError(f"parallel_loop: step must be positive, got {step}.")
    unroll = operator.index(unroll)
    if unroll < 1:
        raise ValueError(f"parallel_loop: unroll must be positive, got {unroll}.")
    if known:
        rounds: Any = max(-(-(int(upper) - int(lower)) // int(step)), 0)
    else:
        extent = _int32(upper) - _int32(lower)
        rounds = lax.max(lax.div(extent + (_int32(step) - np.int32(1)), _int32(step)), np.int32(0))

    def run(body: Callable[..., Any]) -> Any:
        def round_(i: Any, carried: Any) -> Any:
            parallel_rounds_p.bind(unroll=unroll)
            index = i if type(step) is int and step == 1 else i * _int32(step)
            index = index if type(lower) is int and lower == 0 else _int32(lower) + index
            if carry is None:
                body(index)
                return None
            return body(index, carried)

        return fori_loop(np.int32(0), rounds if not known else np.int32(rounds), round_, carry)

    return run


def _int32(x: Any) -> Any:
    return (
        np.int32(x) if isinstance(x, (int, np.integer)) else lax.convert_element_type(x, np.int32)
    )
