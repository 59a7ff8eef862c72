"""`custom_gradient`, and closures over differentiated values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api_util, core, dtypes, traceback_util
from jax._src.ad_util import SymbolicZero
from jax._src.api_util import flatten_fun_nokwargs
from jax._src.core import Tracer, typeof
from jax._src.custom_derivatives.common import copy_metadata
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.tree_util import (
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

traceback_util.register_exclusion(__file__)


def custom_gradient(fun: Callable) -> custom_vjp:
    """Define a custom derivative by a function that returns the result and a VJP function.

    Args:
      fun: function returning (result, vjp_fun).

    Returns:
      A function that returns the result and is differentiated with `vjp_fun`.

    >>> @jax.custom_gradient
    ... def f(x):
    ...   return x ** 2, lambda g: (g * x,)
    >>> print(f(3.), jax.grad(f)(3.))
    9.0 3.0
    """

    @custom_vjp
    def wrapped(*args, **kwargs):
        result, _ = fun(*args, **kwargs)
        return result

    def fwd(*args, **kwargs):
        result, rule = fun(*args, **kwargs)
        _, out_tree = tree_flatten(result)
        out_avals = [typeof(x).to_ct_aval() for x in tree_leaves(result)]
        flat_rule, in_tree = flatten_fun_nokwargs(lambda ct: rule(ct), tree_structure((result,)))
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_rule, out_avals)
        return result, _Residuals(jaxpr, in_tree(), out_tree, consts)

    def bwd(res, ct):
        cts = core.eval_jaxpr(res.jaxpr, res.consts, *tree_leaves(ct))
        out = tree_unflatten(res.in_tree, cts)
        return (
            out if isinstance(out, tuple) else (out,) if not isinstance(out, list) else tuple(out)
        )

    wrapped.defvjp(fwd, bwd)
    copy_metadata(wrapped, fun)
    wrapped.__wrapped__ = wrapped.fun
    return wrapped


class _Residuals:
    """A traced backward function, as a pytree of its constants."""

    def __init__(self, jaxpr, in_tree, out_tree, consts):
        self.jaxpr, self.in_tree, self.out_tree, self.consts = jaxpr, in_tree, out_tree, consts


register_pytree_node(
    _Residuals,
    lambda r: (r.consts, (r.jaxpr, r.in_tree, r.out_tree)),
    lambda aux, consts: _Residuals(*aux, list(consts)),
)


def closure_convert(fun: Callable, *example_args) -> tuple[Callable, list]:
    """Convert the traced values that a function closes over to explicit arguments.

    Args:
      fun: function of arrays and pytrees, which may close over values that are differentiated.
      *example_args: arguments of the types that `fun` will be called with.

    Returns:
      (converted, consts): `converted(*args, *consts)` equals `fun(*args)`; `consts` are the
      floating-point tracers that `fun` closes over.
    """
    flat, in_tree = tree_flatten(example_args)
    flat_fun, out_tree_fn = flatten_fun_nokwargs(fun, in_tree)
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        flat_fun,
        [typeof(x) for x in flat],
        api_util.debug_info("closure_convert", fun, example_args, {}),
    )
    out_tree = out_tree_fn()
    hoist = [
        isinstance(c, Tracer) and dtypes.issubdtype(typeof(c).dtype, np.inexact) for c in consts
    ]
    hoisted = [c for c, h in zip(consts, hoist) if h]
    kept = [c for c, h in zip(consts, hoist) if not h]
    n = len(hoisted)

    def converted(*args_and_consts):
        args = args_and_consts[: len(args_and_consts) - n]
        given = iter(args_and_consts[len(args_and_consts) - n :])
        fixed = iter(kept)
        values = [next(given) if h else next(fixed) for h in hoist]
        leaves, tree = tree_flatten(tuple(args))
        if tree != in_tree:
            raise TypeError(
                f"The inputs to the closure produced by closure_convert must have the structure of the "
                f"example arguments, {in_tree}, but got {tree}."
            )
        return tree_unflatten(out_tree, core.eval_jaxpr(jaxpr, values, *leaves))

    return converted, hoisted


def zero_from_primal(val: Any, symbolic_zeros: bool = False):
    """The zero tangent of a tree of values: arrays, or (with `symbolic_zeros`) `SymbolicZero`s.

    >>> jax.custom_derivatives.zero_from_primal({'a': jnp.ones(2)})
    {'a': Array([0., 0.], dtype=float32)}
    """
    if symbolic_zeros:
        return tree_map(SymbolicZero.from_primal_value, val)
    return tree_map(lambda x: ad.instantiate_zeros(ad.zero_of(x)), val)
