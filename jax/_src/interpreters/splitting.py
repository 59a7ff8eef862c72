"""Splitting equations by marks: what is known and what is not, what is needed and what is dead.

Everything that takes a jaxpr apart marks some of its variables and lets the marks spread, in one of two
ways:

- forwards, from operands to results (`split_by_unknown`): the equations that no mark reaches can run
  now; the others wait. Marked are the arguments that are unknown: tangents, values that differ from step
  to step of a loop, linear arguments of a function to transpose.
- backwards, from results to operands (`split_by_need`): the equations that a mark reaches are needed; the
  others are dead, or can wait. Marked are the results that are used.

An equation that calls functions can be split itself, by the rules of its primitive: `dependence` says
which results a marked operand reaches, `dce` makes an equation with fewer results, `divide` takes out
what known operands determine inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jax._src import core
from jax._src.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var

Marks = Sequence[bool]
# An equation for what the marks do not reach, and one for the rest; None where there is nothing to do.
SplitRule = Callable[[JaxprEqn, Marks], tuple[JaxprEqn | None, JaxprEqn | None]]


# Forwards: from unknown operands to unknown results


def split_by_unknown(
    eqns: Iterable[JaxprEqn],
    unknown: set[Var],
    split: SplitRule,
    waits: Callable[[JaxprEqn], bool] | None = None,
) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Equations that can run now, and those that wait for unknown values; both in order.

    Args:
      eqns: the equations.
      unknown: the unknown variables; results of equations that wait are added.
      split: what becomes of an equation some of whose operands are unknown.
      waits: whether an equation waits though all its operands may be known.
    """
    known, rest = [], []
    for eqn in eqns:
        marks = [type(v) is not Literal and v in unknown for v in eqn.invars]
        now: JaxprEqn | None = None
        later: JaxprEqn | None = eqn
        if waits is None or not waits(eqn):
            now, later = split(eqn, marks) if any(marks) else (eqn, None)
        if now is not None:
            known.append(now)
        if later is not None:
            rest.append(later)
            unknown.update(later.outvars)
    return known, rest


def split_eqn(eqn: JaxprEqn, marked: Marks) -> tuple[JaxprEqn | None, JaxprEqn | None]:
    """Split an equation by whether its results depend on the marked operands.

    Returns:
      An equation for the results that do not (None if all do), and one for those that do.
    """
    rule = eqn.primitive.dependence
    if rule is None:
        return None, eqn
    outs = list(rule(marked, **eqn.params))
    if all(outs):
        return None, eqn
    dce = eqn.primitive.dce or keep_or_drop
    _, known = dce([not dep for dep in outs], eqn)
    _, rest = dce(outs, eqn)
    if rest is not None:  # it may compute known results on the way
        dependent = {v for v, dep in zip(eqn.outvars, outs) if dep}
        rest = rest.replace(
            outvars=[v if v in dependent else DropVar(v.aval) for v in rest.outvars]
        )
    return known, rest


def divide_eqn(eqn: JaxprEqn, marked: Marks) -> tuple[JaxprEqn | None, JaxprEqn | None]:
    """Split an equation inside: what the operands that are not marked determine there comes first.

    Unlike with `split_eqn`, the first equation hands values to the second one.
    """
    rule = eqn.primitive.divide
    if rule is None:
        return None, eqn
    parts: tuple[JaxprEqn | None, JaxprEqn | None] = rule(eqn, [not m for m in marked])
    return parts


def has_any_effect(eqn: JaxprEqn) -> bool:
    return bool(eqn.effects)


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


@core.cached_on_jaxpr
def divide_jaxpr(closed: ClosedJaxpr, known: tuple[bool, ...]) -> KnownPart | None:
    """Divide a jaxpr without effects; None where known arguments determine nothing."""
    jaxpr = closed.jaxpr
    unknown = {v for v, k in zip(jaxpr.invars, known) if not k}
    first, rest = split_by_unknown(jaxpr.eqns, unknown, divide_eqn, has_any_effect)
    if not first:
        return None
    made = {v for eqn in first for v in eqn.outvars}
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


@core.cached_on_jaxpr
def dependent_outs(jaxpr: Jaxpr | ClosedJaxpr, marked: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which results of a jaxpr depend on the marked arguments."""
    found = {v for v, m in zip(jaxpr.invars, marked) if m}
    for eqn in jaxpr.eqns:
        ins = [type(v) is not Literal and v in found for v in eqn.invars]
        if any(ins):
            rule = eqn.primitive.dependence
            outs = rule(ins, **eqn.params) if rule else (True,) * len(eqn.outvars)
            found.update([v for v, dep in zip(eqn.outvars, outs) if dep])
    return tuple([type(v) is not Literal and v in found for v in jaxpr.outvars])


@core.cached_on_jaxpr
def all_dependent(jaxpr: Jaxpr | ClosedJaxpr, marked: tuple[bool, ...]) -> bool:
    """Whether every equation and every result depends on the marked arguments alone, or constants."""
    unknown = {v for v, m in zip(jaxpr.invars, marked) if m}
    known, _ = split_by_unknown(jaxpr.eqns, unknown, lambda eqn, _: (None, eqn))
    return not known and all(type(v) is not Literal and v in unknown for v in jaxpr.outvars)


def dependence_of(name: str) -> Callable[..., Marks]:
    """The `dependence` rule of a primitive that calls the jaxpr in its parameter `name`."""
    return lambda marked, **params: dependent_outs(params[name], tuple(marked))


# Backwards: from results that are used to operands


def split_by_need(
    eqns: Sequence[JaxprEqn],
    needed: set[Var],
    shrink: Callable[[JaxprEqn, list[bool]], JaxprEqn | None],
) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Equations that used values need, and the others; both in order.

    Args:
      eqns: the equations.
      needed: the variables that are used; operands of needed equations are added.
      shrink: makes of an equation, and of which of its results are used, the one that is needed; None if
        there is none.
    """
    first, others = [], []
    for eqn in reversed(eqns):
        kept = shrink(eqn, [v in needed for v in eqn.outvars])
        if kept is None:
            others.append(eqn)
        else:
            first.append(kept)
            needed.update([v for v in kept.invars if type(v) is not Literal])
    first.reverse()
    others.reverse()
    return first, others


def whole_if_used(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn | None:
    """For `split_by_need`: an equation is needed as it is, if a result is used or it has effects."""
    return eqn if eqn.effects or any(used) else None


def has_effects(eqn: JaxprEqn) -> bool:
    """Whether an equation must stay though nothing reads its results."""
    return any(not isinstance(e, (core.NamedAxisEffect, core.ReadEffect)) for e in eqn.effects)


def keep_or_drop(used_outs: Marks, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """The `dce` rule of primitives without one: which operands are used, and the equation or None."""
    if not any(used_outs) and not has_effects(eqn):
        return [False] * len(eqn.invars), None
    return [True] * len(eqn.invars), eqn
