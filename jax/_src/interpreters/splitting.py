"""Splitting equations by marks: what is known and what is not, what is needed and what is dead.

Everything that takes a jaxpr apart marks some of its variables and lets the marks spread, in one of two
ways:

- forwards, from operands to results (`split_by_unknown`): the equations that no mark reaches can run
  now; the others wait. Marked are the arguments that are unknown: tangents, values that differ from step
  to step of a loop, linear arguments of a function to transpose.
- backwards, from results to operands (`split_by_need`): the equations that a mark reaches are needed; the
  others are dead, or can wait. Marked are the results that are used.

An equation that calls functions can be split itself: by the rules in the slot `split` of its primitive.
`SplitRules` here are those of a primitive that is taken as a whole; `split_rules` has those of primitives
with jaxprs as parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jax._src import core
from jax._src.core import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    RuleView,
    Var,
    close_jaxpr,
)

if TYPE_CHECKING:
    from jax._src.interpreters.split_rules import Plan, TwoEqns

Marks = Sequence[bool]
# An equation for what the marks do not reach, and one for the rest; None where there is nothing to do.
TwoHalves = tuple[JaxprEqn | None, JaxprEqn | None]
SplitRule = Callable[[JaxprEqn, Marks], TwoHalves]


class SplitRules:
    """How applications of a primitive are taken apart; here: not at all.

    Attributes:
      depends_on_use: whether an application with fewer results is another one, which lowering asks for.
      partial_eval_custom: what a checkpoint policy stores, for primitives of outside code (None: `in_two`).
    """

    depends_on_use = False
    partial_eval_custom: Callable[..., Any] | None = None

    def dependence(self, marked: Marks, params: dict[str, Any]) -> Sequence[bool] | None:
        """Which results depend on the marked operands; None: every result on every operand."""
        return None

    def dce(self, used_outputs: Marks, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        """Which operands the used results need, and an equation with these results alone, or None."""
        return keep_or_drop(used_outputs, eqn)

    def is_whole(self, marked: Marks, params: dict[str, Any]) -> bool:
        """Whether nothing can be done before the marked operands are known."""
        outs = self.dependence(marked, params)
        return outs is None or all(outs)

    def divide(self, eqn: JaxprEqn, marked: Marks, hoisting: bool) -> TwoHalves:
        """An equation for what the marked operands do not reach, maybe inside, and one for the rest.

        The first may hand values to the second. With `hoisting` it moves out of a loop: nothing with effects
        does, and loops inside stay whole, since both halves of one may count and compute the same.
        """
        return (None, eqn) if hoisting else split_eqn(eqn, marked)

    def in_two(self, eqn: JaxprEqn, plan: Callable[[ClosedJaxpr], Plan]) -> TwoEqns | None:
        """Two applications of which the first stores what a plan for each jaxpr says; None: no jaxprs."""
        return None


_whole = SplitRules()


def split_rules_of(primitive: Primitive) -> core.SplitRules:
    return _whole if primitive.split is None else primitive.split


class SplitRuleView(RuleView):
    """A registry keyed by primitive that is really one of the primitives' rules for splitting."""

    def _find(self, primitive: object) -> Callable[..., Any] | None:
        return getattr(getattr(primitive, "split", None), self._slot, None)

    def _assign(self, primitive: Primitive, rule: Callable[..., Any] | None) -> None:
        if rule is None:
            vars(primitive.split).pop(self._slot, None)  # what the class has remains
            return
        if primitive.split is None:
            primitive.split = SplitRules()
        setattr(primitive.split, self._slot, rule)


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


def split_eqn(eqn: JaxprEqn, marked: Marks) -> TwoHalves:
    """Split an equation by whether its results depend on the marked operands.

    Returns:
      An equation for the results that do not (None if all do), and one for those that do.
    """
    rules = eqn.primitive.split
    outs = None if rules is None else rules.dependence(marked, eqn.params)
    if rules is None or outs is None or all(outs):
        return None, eqn
    _, known = rules.dce([not dep for dep in outs], eqn)
    _, rest = rules.dce(outs, eqn)
    if rest is not None:  # it may compute known results on the way
        dependent = {v for v, dep in zip(eqn.outvars, outs) if dep}
        rest = rest.replace(
            outvars=[v if v in dependent else DropVar(v.aval) for v in rest.outvars]
        )
    return known, rest


def divide_eqn(eqn: JaxprEqn, marked: Marks, hoisting: bool = True) -> TwoHalves:
    """Split an equation inside: what the operands that are not marked determine there comes first.

    Unlike with `split_eqn`, the first equation may hand values to the second one.
    """
    return split_rules_of(eqn.primitive).divide(eqn, marked, hoisting)


def has_any_effect(eqn: JaxprEqn) -> bool:
    return bool(eqn.effects)


class Divided(NamedTuple):
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
def divide_jaxpr(closed: ClosedJaxpr, known: tuple[bool, ...], hoisting: bool) -> Divided | None:
    """Divide a jaxpr; None where known arguments determine nothing."""
    jaxpr = closed.jaxpr
    unknown = {v for v, k in zip(jaxpr.invars, known) if not k}
    split = functools.partial(divide_eqn, hoisting=hoisting)
    waits = has_any_effect if hoisting else None
    first, rest = split_by_unknown(jaxpr.eqns, unknown, split, waits)
    known_outs = [type(v) is Literal or v not in unknown for v in jaxpr.outvars]
    if not first and not any(known_outs):
        return None
    made = {v for eqn in first for v in eqn.outvars}
    first_outs = [v for v, k in zip(jaxpr.outvars, known_outs) if k]
    rest_outs = [v for v in jaxpr.outvars if type(v) is not Literal and v in unknown]
    inputs = {*jaxpr.constvars, *jaxpr.invars}
    rest = needed_eqns(rest, set(rest_outs), inputs)
    wanted = dict.fromkeys([v for eqn in rest for v in eqn.invars if type(v) is not Literal])
    wanted.update(dict.fromkeys(rest_outs))
    handed = [v for v in wanted if v in made]
    first = needed_eqns(
        first, {v for v in (*first_outs, *handed) if type(v) is not Literal}, inputs
    )
    rest_ins = [v in wanted or not k for v, k in zip(jaxpr.invars, known)]
    first_args = [v for v, k in zip(jaxpr.invars, known) if k]
    rest_args = [*handed, *[v for v, used in zip(jaxpr.invars, rest_ins) if used]]
    return Divided(
        ClosedJaxpr(with_eqns(jaxpr, first, invars=first_args, outvars=[*first_outs, *handed]), closed.consts),
        ClosedJaxpr(with_eqns(jaxpr, rest, invars=rest_args, outvars=rest_outs), closed.consts),
        known_outs,
        rest_ins,
    )  # fmt: skip


def with_eqns(jaxpr: Jaxpr, eqns: list[JaxprEqn], **changes: Sequence[Any]) -> Jaxpr:
    """A jaxpr of other equations, and maybe of other arguments and results."""
    info = jaxpr.debug_info.with_unknown_names()
    new = jaxpr.replace(eqns=eqns, debug_info=info, **changes)
    new.effects = core.effects_of_eqns(new.constvars, new.invars, eqns)
    return new


def renamed(eqn: JaxprEqn, env: dict[Var, Atom]) -> JaxprEqn:
    """The equation with other operands."""
    return eqn.replace(invars=[renamed_atom(v, env) for v in eqn.invars])


def renamed_atom(v: Atom, env: dict[Var, Atom]) -> Atom:
    return v if type(v) is Literal else env.get(v, v)


def inlined_eqns(jaxpr: Jaxpr, args: Sequence[Atom]) -> tuple[list[JaxprEqn], list[Atom]]:
    """The equations of a jaxpr on other arguments, with results of their own; and the jaxpr's results."""
    env: dict[Var, Atom] = dict(zip(jaxpr.invars, args))
    eqns = []
    for eqn in jaxpr.eqns:
        outvars = [Var(v.aval) for v in eqn.outvars]
        eqns.append(renamed(eqn, env).replace(outvars=outvars))
        env.update(zip(eqn.outvars, outvars))
    return eqns, [renamed_atom(v, env) for v in jaxpr.outvars]


@core.cached_on_jaxpr
def dependent_outs(jaxpr: Jaxpr | ClosedJaxpr, marked: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which results of a jaxpr depend on the marked arguments."""
    found = {v for v, m in zip(jaxpr.invars, marked) if m}
    for eqn in jaxpr.eqns:
        ins = [type(v) is not Literal and v in found for v in eqn.invars]
        if any(ins):
            rules = eqn.primitive.split
            outs = None if rules is None else rules.dependence(ins, eqn.params)
            found.update(
                eqn.outvars if outs is None else [v for v, dep in zip(eqn.outvars, outs) if dep]
            )
    return tuple([type(v) is not Literal and v in found for v in jaxpr.outvars])


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


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """Remove the equations that the used results do not need.

    Args:
      jaxpr: the jaxpr.
      used_outputs: which results are wanted.
      instantiate: arguments to keep though unused (True for all).

    Returns:
      The smaller jaxpr (the same one if nothing is dead), and which arguments it keeps.
    """
    if type(instantiate) is bool:
        instantiate = (instantiate,) * len(jaxpr.invars)
    key = (dce_jaxpr, tuple(used_outputs), tuple(instantiate))
    cached = jaxpr._cache.get(key)
    if cached is None:
        new_jaxpr, used_inputs = _dce_jaxpr(jaxpr, *key[1:])
        jaxpr._cache[key] = None if new_jaxpr is jaxpr else new_jaxpr, used_inputs
    else:
        new_jaxpr, used_inputs = cached
    return new_jaxpr or jaxpr, list(used_inputs)


def _dce_jaxpr(jaxpr: Jaxpr, used_outputs: tuple[bool, ...], instantiate: tuple[bool, ...]) -> Any:
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs) if used]
    live: set[Var] = {v for v in outvars if type(v) is not Literal}
    inputs: set[Var] = {*jaxpr.constvars, *jaxpr.invars} if jaxpr.effects else set()
    eqns = needed_eqns(jaxpr.eqns, live, inputs)
    used_inputs = tuple([v in live or inst for v, inst in zip(jaxpr.invars, instantiate)])
    if all(used_inputs) and all(used_outputs) and eqns == jaxpr.eqns:
        return jaxpr, used_inputs  # nothing is dead
    invars = [v for v, used in zip(jaxpr.invars, used_inputs) if used]
    effects = core.effects_of_eqns(jaxpr.constvars, invars, eqns)
    info = jaxpr.debug_info
    info = info._replace(
        arg_names=tuple(
            n for n, used in zip(info.safe_arg_names(len(jaxpr.invars)), used_inputs) if used
        ),
        result_paths=tuple(
            p for p, used in zip(info.safe_result_paths(len(jaxpr.outvars)), used_outputs) if used
        ),
    )
    return Jaxpr(jaxpr.constvars, invars, outvars, eqns, effects, info), used_inputs


def needed_eqns(eqns: Sequence[JaxprEqn], live: set[Var], inputs: set[Var]) -> list[JaxprEqn]:
    """The equations that live variables need, made smaller where they can be; operands become live.

    `inputs` are variables that stand for references from outside, which somebody may read later.
    """

    def shrink(eqn: JaxprEqn, used_outs: list[bool]) -> JaxprEqn | None:
        if eqn.effects and not any(used_outs) and _only_dead_refs(eqn, live, inputs):
            return None
        rules = eqn.primitive.split
        return (keep_or_drop if rules is None else rules.dce)(used_outs, eqn)[1]

    return split_by_need(eqns, live, shrink)[0]


def _only_dead_refs(eqn: JaxprEqn, live: set[Var], inputs: set[Var]) -> bool:
    """Whether an equation does nothing but use references, and write none that is read later."""
    for e in eqn.effects:
        if isinstance(e, core.RefEffect):
            if type(e) is not core.ReadEffect:
                v = eqn.invars[e.input_index]
                if v in live or v in inputs:
                    return False
        elif not isinstance(e, (core.InternalMutableArrayEffect, core.NamedAxisEffect)):
            return False
    return True


@core.cached_on_jaxpr
def dce_closed_jaxpr(
    closed: ClosedJaxpr, used_outputs: tuple[bool, ...], instantiate: tuple[bool, ...]
) -> ClosedJaxpr:
    """`dce_jaxpr` of a closed jaxpr; the same one if nothing is dead."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, used_outputs, instantiate)
    if jaxpr is closed.jaxpr:
        return closed
    return ClosedJaxpr(jaxpr, closed.consts) if jaxpr.constvars else close_jaxpr(jaxpr)
