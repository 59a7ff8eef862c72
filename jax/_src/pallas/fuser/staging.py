"""Functions as jaxprs without calls, of which rules read one equation after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, core
from jax._src.core import Jaxpr, JaxprEqn, Literal, typeof
from jax._src.interpreters import partial_eval as pe
from jax._src.tree_util import PyTreeDef, tree_flatten, tree_unflatten

# Calls that add nothing but a derivative, a name or a limit of what is saved.
_calls = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}


@dataclasses.dataclass(frozen=True)
class Staged:
    """A function as a jaxpr.

    Attributes:
      jaxpr: takes the values that the function closes over, then the leaves of its arguments.
      consts: the values that it closes over.
      in_tree: structure of `(args, kwargs)`.
      out_tree: structure of the result.
    """

    jaxpr: Jaxpr
    consts: tuple[Any, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef


def type_of(x: Any) -> Any:
    """Return the type of an array, of a `jax.ShapeDtypeStruct`, or of what has one."""
    if isinstance(x, core.AbstractValue):
        return x
    if core.valid_jaxtype(x) or isinstance(x, core.Tracer):
        return typeof(x)
    return api_util.shaped_abstractify(x)


def stage(f: Callable[..., Any], args: Any, kwargs: Any, inline: bool = True) -> Staged:
    """Stage a function for arguments, or types of such.

    Args:
      f: the function.
      args, kwargs: its arguments.
      inline: whether to put what nested functions do in place of their calls.
    """
    flat, in_tree = tree_flatten((tuple(args), dict(kwargs)))
    out_trees: list[PyTreeDef] = []

    def run(*xs: Any) -> Any:
        a, k = tree_unflatten(in_tree, xs)
        outs, tree = tree_flatten(f(*a, **k))
        out_trees.append(tree)
        return outs

    info = api_util.debug_info("fuse", f, (), {})
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, [type_of(x) for x in flat], info)
    if inline and any([e.primitive.name in _calls for e in jaxpr.eqns]):
        n = len(consts)
        avals = [v.aval for v in [*jaxpr.constvars, *jaxpr.invars]]
        old = jaxpr
        jaxpr, _, more = pe.trace_to_jaxpr_dynamic(
            lambda *xs: eval_inlined(old, xs[:n], xs[n:]), avals, info
        )
        consts = [*more, *consts]
    jaxpr = pe.convert_constvars_jaxpr(jaxpr)
    n_args = len(flat)
    keep = [False] * len(consts) + [True] * n_args
    jaxpr, used = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), keep)
    consts = [c for c, u in zip(consts, used) if u]
    return Staged(jaxpr, tuple(consts), in_tree, out_trees[0])


def called_jaxpr(eqn: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]] | None:
    """Return the jaxpr that an equation calls and its constants; None if it is no call."""
    name = _calls.get(eqn.primitive.name)
    if name is None or name not in eqn.params:
        return None
    inner = eqn.params[name]
    return (inner.jaxpr, inner.consts) if isinstance(inner, core.ClosedJaxpr) else (inner, ())


def eval_inlined(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr; what nested functions do is put in place of their calls."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    read = lambda v: v.val if type(v) is Literal else env[v]
    for eqn in jaxpr.eqns:
        xs = [read(v) for v in eqn.invars]
        inner = called_jaxpr(eqn)
        with eqn.ctx.manager:
            outs = bind(eqn, xs) if inner is None else eval_inlined(*inner, xs)
        env.update(zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


def bind(eqn: JaxprEqn, xs: Sequence[Any], **changes: Any) -> Sequence[Any]:
    """Apply the primitive of an equation to other operands, with some parameters replaced."""
    p = eqn.primitive
    out = p.bind(*xs, **p.get_bind_params({**eqn.params, **changes}))
    return out if p.multiple_results else [out]
