"""Split the primal computation of a linearized loop into parts that run once and in each step."""

from typing import NamedTuple

from jax._src import core
from jax._src.core import ClosedJaxpr, no_effects
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.splitting import divide_eqn, has_any_effect, split_by_unknown


class PrimalParts(NamedTuple):
    """The parts of a linearized loop's primal computation.

    Attributes:
      hoisted: jaxpr from the loop's constants to the values that depend only on them.
      body: body of the loop. It takes some of these values before its other arguments, and returns
        the values to stack for residuals after its other results.
      num_used: number of these values that the body takes, which are the first ones.
      used_consts: which of the loop's constants the body takes.
      once: maps residuals that are computed once to their positions among the hoisted values.
      where: maps residuals that are stacked to their positions among the results.
    """

    hoisted: ClosedJaxpr
    body: ClosedJaxpr
    num_used: int
    used_consts: list[bool]
    once: dict[int, int]
    where: dict[int, int]


def primal_parts(lin, num_consts: int, num_carry: int) -> PrimalParts:
    key = ("scan primal parts", num_consts, num_carry)
    parts = lin.primal._cache.get(key)
    if parts is None:
        parts = lin.primal._cache[key] = _split_primal(lin, num_consts, num_carry)
    return parts


def _split_primal(lin, num_consts: int, num_carry: int) -> PrimalParts:
    jaxpr = lin.primal.jaxpr
    n_out = len(lin.nonzero_outs)
    consts = jaxpr.invars[:num_consts]
    steps = set(jaxpr.invars[num_consts:])
    first, rest = split_by_unknown(jaxpr.eqns, steps, divide_eqn, has_any_effect)
    producers = {v: eqn for eqn in first for v in eqn.outvars}

    outvars = list(jaxpr.outvars[:n_out])
    once_vars: dict[int, core.Var] = {}
    where: dict[int, int] = {}
    for i, (kind, j) in enumerate(lin.residual_sources):
        if kind == "in" and (j < num_consts or j >= num_consts + num_carry):
            continue
        if kind == "out" and j >= num_carry:
            continue
        source = {"in": jaxpr.invars, "out": jaxpr.outvars}.get(kind)
        v = jaxpr.outvars[n_out + j] if source is None else source[j]
        if kind != "in" and v in producers:
            once_vars[i] = v
        else:
            where[i] = len(outvars)
            outvars.append(v)

    # Pass hoisted values to the body, except results of equations without operands, such as filled
    # arrays, which are cheaper to recompute than to read.
    wanted = [v for eqn in rest for v in eqn.invars] + outvars
    used, cheap = {}, {}
    for v in wanted:
        if type(v) is not core.Literal and v in producers:
            eqn = producers[v]
            if any(type(u) is not core.Literal for u in eqn.invars) or len(eqn.outvars) > 1:
                used[v] = None
            else:
                cheap[id(eqn)] = eqn
    computed = list(dict.fromkeys([*used, *once_vars.values()]))
    info = jaxpr.debug_info.with_unknown_names()
    hoisted, _ = pe.dce_jaxpr(
        jaxpr.replace(
            invars=consts, outvars=computed, eqns=first, effects=no_effects, debug_info=info
        ),
        [True] * len(computed), True,
    )  # fmt: skip
    body, kept = pe.dce_jaxpr(
        jaxpr.replace(
            invars=[*used, *jaxpr.invars], outvars=outvars, eqns=[*cheap.values(), *rest],
            effects=core.effects_of_eqns(jaxpr.constvars, [*used, *jaxpr.invars], rest),
            debug_info=info,
        ),
        [True] * len(outvars),
        [False] * (len(used) + num_consts) + [True] * (len(jaxpr.invars) - num_consts),
    )  # fmt: skip
    place = {v: k for k, v in enumerate(computed)}
    return PrimalParts(
        ClosedJaxpr(hoisted, lin.primal.consts),
        ClosedJaxpr(body, lin.primal.consts),
        len(used),
        kept[len(used) : len(used) + num_consts],
        {i: place[v] for i, v in once_vars.items()},
        where,
    )
