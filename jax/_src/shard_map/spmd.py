"""Bodies whose batched arguments also vary over the mesh axes that the batch is sharded over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core, source_info_util
from jax._src.core import ClosedJaxpr, Jaxpr, Literal, ShapedArray, cached_on_jaxpr
from jax._src.core.primitive import sorted_axes
from jax._src.interpreters import partial_eval as pe
from jax._src.lax import parallel


def vary_over(x: Any, axes: Sequence[Any] | frozenset[Any]) -> Any:
    """`x` with a type that varies over `axes` too."""
    aval = core.typeof(x)
    if not isinstance(aval, ShapedArray):
        return x
    missing = sorted_axes([n for n in axes if n not in aval.vma])
    return parallel.pvary(x, missing) if missing else x


_NONE: frozenset[Any] = frozenset()


@cached_on_jaxpr
def varying_body(
    closed: ClosedJaxpr, ins: tuple[bool, ...], outs: tuple[bool, ...], axes: frozenset[Any]
) -> ClosedJaxpr:
    """A jaxpr whose marked arguments and results vary over `axes` too.

    Operations on such values make their other operands vary. The arguments and results of a jaxpr
    in an equation vary either all or not at all.
    """
    avals = [
        a.update(vma=a.vma | axes) if isinstance(a, ShapedArray) and varies else a
        for varies, a in zip(ins, closed.in_avals)
    ]

    def run(*args: Any) -> list[Any]:
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
        env.update(zip(jaxpr.invars, args))
        for eqn in jaxpr.eqns:
            vals = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            params = eqn.params
            inner = any(True for _ in core.jaxprs_in_params(params))
            if inner and any([axes <= getattr(core.typeof(x), "vma", _NONE) for x in vals]):
                vals = [vary_over(x, axes) for x in vals]
                params = {k: _varying_param(v, axes) for k, v in params.items()}
            if eqn.primitive is parallel.pvary_p:  # which may vary already
                env[eqn.outvars[0]] = vary_over(vals[0], params["axes"])
                continue
            params = eqn.primitive.get_bind_params(params)
            info = eqn.source_info
            with (
                source_info_util.user_context(info.traceback, name_stack=info.name_stack),
                eqn.ctx.manager,
            ):
                out = eqn.primitive.bind(*vals, **params)
            env.update(
                zip(eqn.outvars, out) if eqn.primitive.multiple_results else [(eqn.outvars[0], out)]
            )
        results = [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]
        return [vary_over(x, axes) if varies else x for varies, x in zip(outs, results)]

    info = closed.debug_info.with_unknown_names()
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, avals, info)
    return ClosedJaxpr(jaxpr, consts)


def _varying_param(value: Any, axes: frozenset[Any]) -> Any:
    if isinstance(value, ClosedJaxpr):
        ins, outs = (True,) * len(value.in_avals), (True,) * len(value.out_avals)
        return varying_body(value, ins, outs, axes)
    if isinstance(value, Jaxpr):
        new = _varying_param(core.close_jaxpr(value), axes)
        return pe.convert_constvars_jaxpr(new.jaxpr) if new.consts else new.jaxpr
    if isinstance(value, (tuple, list)):
        return type(value)(_varying_param(v, axes) for v in value)
    return value
