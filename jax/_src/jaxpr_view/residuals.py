"""Which values a function's forward pass keeps for its backward pass, and which equation computes each."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes, source_info_util
from jax._src.ad_checkpoint.split import origin
from jax._src.core import ClosedJaxpr, Jaxpr, ShapedArray, Tracer, typeof
from jax._src.core.jaxpr import Literal
from jax._src.interpreters import ad, partial_eval as pe

_MARK = "jaxpr_view:"

# Of an equation, by its path (indices of the equations around it and its own), or of the argument or
# constant with a number: the types of what is kept of it.
Residuals = dict[tuple[Any, ...], list[Any]]


def find_residuals(closed: ClosedJaxpr) -> tuple[Residuals, str | None]:
    """The residuals of reverse-mode differentiation in all floating-point arguments.

    Returns:
      Types of what is kept: of equation `i` of the equation `j` at `(j, i)`, of argument `i` at
      `("argument", i)`, of constant `i` at `("constant", i)`. And the reason if it has no derivative.
    """
    try:
        return _find(closed)
    except Exception as err:  # rules of users' functions raise errors of any class
        return {}, f"it cannot be differentiated ({type(err).__name__}: {err})"


def _find(closed: ClosedJaxpr) -> tuple[Residuals, str | None]:
    jaxpr = closed.jaxpr
    moving = [i for i, a in enumerate(jaxpr.in_avals) if _has_tangent(a)]
    if not moving or not any(map(_has_tangent, jaxpr.out_avals)):
        return {}, "it has no arguments or no results of floating-point types"
    trace = pe.DynamicJaxprTrace(jaxpr.debug_info)
    tracers = [trace.new_arg(a) for a in jaxpr.in_avals]

    def run(*args: Any) -> list[Any]:
        full: list[Any] = list(tracers)
        for i, x in zip(moving, args):
            full[i] = x
        outs = _run_marked(jaxpr, closed.consts, full, ())
        return [x for x in outs if _has_tangent(typeof(x))]

    with core.set_current_trace(trace):
        _, linear = ad.linearize(run, [tracers[i] for i in moving])
        _, residuals = linear.to_jaxpr()
    arguments = {t.val: i for i, t in enumerate(tracers)}
    producers = {v: eqn for eqn in trace.eqns for v in eqn.outvars}
    constants = {id(c): i for i, c in enumerate(closed.consts)}
    found: Residuals = {}
    for r in residuals:
        val = getattr(r, "val", None) if isinstance(r, Tracer) else None
        key: tuple[Any, ...]
        if val in arguments:
            key = ("argument", arguments[val])
        elif val in producers:
            key = _path(producers[val]) or _path(origin(val, producers)) or ("constant", -1)
        else:
            key = ("constant", constants.get(id(r), -1))
        found.setdefault(key, []).append(typeof(r))
    trace.finish()
    return found, None


def _has_tangent(aval: Any) -> bool:
    return isinstance(aval, ShapedArray) and dtypes.issubdtype(aval.dtype, np.inexact)


def _run_marked(jaxpr: Jaxpr, consts: Any, args: Any, path: tuple[int, ...]) -> list[Any]:
    """Evaluates a jaxpr, with the path of the equation in the name stack of what it becomes."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]))
    read = lambda v: v.val if type(v) is Literal else env[v]
    for i, eqn in enumerate(jaxpr.eqns):
        here = (*path, i)
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            outs = _run_marked(inner.jaxpr, inner.consts, [read(v) for v in eqn.invars], here)
        else:
            mark = source_info_util.new_name_stack(_MARK + ".".join(map(str, here)))
            with (
                source_info_util.user_context(eqn.source_info.traceback, name_stack=mark),
                eqn.ctx.manager,
            ):
                params = eqn.primitive.get_bind_params(eqn.params)
                outs = eqn.primitive.bind(*[read(v) for v in eqn.invars], **params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env.update(zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


def _path(eqn: Any) -> tuple[int, ...] | None:
    names = str(eqn.source_info.name_stack)
    _, mark, rest = names.partition(_MARK)
    digits = rest.partition("/")[0].rstrip(")")
    return tuple(map(int, digits.split("."))) if mark else None
