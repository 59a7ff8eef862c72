"""Dividing jaxprs: equations of values that are known, or never change, and the others."""

from __future__ import annotations

from typing import NamedTuple

from jax._src import core
from jax._src.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var


class KnownPart(NamedTuple):
    """A jaxpr divided by which of its arguments are known.

    Attributes:
      known: from known arguments to known results, then values that the rest needs.
      rest: from these values, then all arguments that are not known or that it needs, to the other results.
      known_outs: which results are known.
      rest_ins: which arguments the rest takes.
    """

    known: ClosedJaxpr
    rest: ClosedJaxpr
    known_outs: list[bool]
    rest_ins: list[bool]


def divide(jaxpr: Jaxpr, known: set[Var]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Equations without effects that known variables determine, and the others, both in order.

    Args:
      jaxpr: the jaxpr.
      known: the variables; those of the results of the first equations are added.
    """
    first, rest = [], []
    for eqn in jaxpr.eqns:
        if not eqn.effects:
            marks = [type(v) is Literal or v in known for v in eqn.invars]
            if all(marks):
                known.update(eqn.outvars)
                first.append(eqn)
                continue
            rule = eqn.primitive.divide
            if rule is not None:
                before, eqn = rule(eqn, marks)
                if before is not None:
                    known.update(before.outvars)
                    first.append(before)
        rest.append(eqn)
    return first, rest


@core.cached_on_jaxpr
def divide_closed(closed: ClosedJaxpr, known: tuple[bool, ...]) -> KnownPart | None:
    """Divide a jaxpr without effects; None where known arguments determine nothing."""
    jaxpr = closed.jaxpr
    variables = {*jaxpr.constvars, *[v for v, k in zip(jaxpr.invars, known) if k]}
    arguments = {*jaxpr.invars, *jaxpr.constvars}
    first, rest = divide(jaxpr, variables)
    if not first:
        return None
    made = variables - arguments
    known_outs = [type(v) is Var and v in made for v in jaxpr.outvars]
    wanted = [v for eqn in rest for v in eqn.invars if type(v) is Var]
    handed = list(dict.fromkeys([v for v in wanted if v in made]))
    needed = {*wanted, *[v for v, k in zip(jaxpr.outvars, known_outs) if not k and type(v) is Var]}
    rest_ins = [v in needed or not k for v, k in zip(jaxpr.invars, known)]
    info = jaxpr.debug_info.with_unknown_names()
    before = jaxpr.replace(
        invars=[v for v, k in zip(jaxpr.invars, known) if k],
        outvars=[*[v for v, k in zip(jaxpr.outvars, known_outs) if k], *handed], eqns=first, debug_info=info,
    )  # fmt: skip
    after = jaxpr.replace(
        invars=[*handed, *[v for v, used in zip(jaxpr.invars, rest_ins) if used]],
        outvars=[v for v, k in zip(jaxpr.outvars, known_outs) if not k], eqns=rest, debug_info=info,
    )  # fmt: skip
    return KnownPart(
        ClosedJaxpr(before, closed.consts), ClosedJaxpr(after, closed.consts), known_outs, rest_ins
    )
