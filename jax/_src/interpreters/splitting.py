"""Splitting jaxprs and equations: into known and unknown parts, or needed and dead parts.

Each of these transformations marks some variables of a jaxpr and propagates the marks, in one of
two directions:

- forwards, from operands to results (`split_by_unknown`): equations that no mark reaches can run
  now, and the others must wait. The marks start at the unknown arguments: tangents, values that
  change from step to step of a loop, or the linear arguments of a function to transpose.
- backwards, from results to operands (`split_by_need`): equations that a mark reaches are needed,
  and the others are dead or can wait. The marks start at the results that are used.

An equation that calls jaxprs can itself be split, by the rules in the slot `split` of its
primitive. `SplitRules` in this module treat an equation as a unit; the module `split_rules` has the
rules of primitives with jaxprs as parameters.
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
# The part of an equation that the marks do not reach, and the rest. A part is None if it is empty.
TwoHalves = tuple[JaxprEqn | None, JaxprEqn | None]
SplitRule = Callable[[JaxprEqn, Marks], TwoHalves]


class SplitRules:
    """How to split applications of a primitive. This base class treats them as a unit.

    Attributes:
      depends_on_use: whether the lowering of an application depends on which results are used.
      repeats_effects: whether a checkpoint computes an application that has effects again, whatever
        its policy says.
      partial_eval_custom: the rule of an external primitive that decides what a checkpoint policy
        stores. If None, `in_two` decides.
    """

    depends_on_use = False
    repeats_effects = False
    partial_eval_custom: Callable[..., Any] | None = None

    def dependence(self, marked: Marks, params: dict[str, Any]) -> Sequence[bool] | None:
        """Return which results depend on the marked operands; None if all may depend on all."""
        return None

    def dce(self, used_outputs: Marks, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        """Return which operands the used results need, and the smaller equation.

        The equation has only the used results. It is None if nothing is needed.
        """
        return keep_or_drop(used_outputs, eqn)

    def is_whole(self, marked: Marks, params: dict[str, Any]) -> bool:
        """Whether no part can be computed before the marked operands are known."""
        outs = self.dependence(marked, params)
        return outs is None or all(outs)

    def divide(self, eqn: JaxprEqn, marked: Marks, hoisting: bool) -> TwoHalves:
        """Return the part of the equation that is independent of the marked operands, and the rest.

        Unlike results of `split_eqn`, the first equation can pass residuals to the second. With
        `hoisting`, the first equation moves out of a loop. Then equations with effects are not
        split, nor are inner loops, since both halves would repeat the loop's own bookkeeping.
        """
        return (None, eqn) if hoisting else split_eqn(eqn, marked)

    def in_two(self, eqn: JaxprEqn, plan: Callable[[ClosedJaxpr], Plan]) -> TwoEqns | None:
        """Split into two applications, where the first stores what the plan of each jaxpr says.

        Returns None if the primitive has no jaxprs.
        """
        return None


_whole = SplitRules()


def split_rules_of(primitive: Primitive) -> core.SplitRules:
    return _whole if primitive.split is None else primitive.split


class SplitRuleView(RuleView):
    """A registry keyed by primitive that stores its rules in the primitives' slot `split`."""

    def _find(self, primitive: object) -> Callable[..., Any] | None:
        return getattr(getattr(primitive, "split", None), self._slot, None)

    def _assign(self, primitive: Primitive, rule: Callable[..., Any] | None) -> None:
        if rule is None:
            vars(primitive.split).pop(self._slot, None)  # falls back to the rule of the class
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
    """Separate equations that can run now from those that need unknown values; keep their order.

    Args:
      eqns: the equations.
      unknown: the unknown variables; the results of waiting equations are added.
      split: splits an equation that has unknown operands.
      waits: whether an equation must wait even if all its operands are known.
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
    """Split an equation by which of its results depend on the marked operands.

    Returns:
      An equation for the independent results (None if there are none), and one for the others.
    """
    rules = eqn.primitive.split
    outs = None if rules is None else rules.dependence(marked, eqn.params)
    if rules is None or outs is None or all(outs):
        return None, eqn
    _, known = rules.dce([not dep for dep in outs], eqn)
    _, rest = rules.dce(outs, eqn)
    if rest is not None:  # it may compute independent results too, which must not be defined twice
        dependent = {v for v, dep in zip(eqn.outvars, outs) if dep}
        rest = rest.replace(
            outvars=[v if v in dependent else DropVar(v.aval) for v in rest.outvars]
        )
    return known, rest


def divide_eqn(eqn: JaxprEqn, marked: Marks, hoisting: bool = True) -> TwoHalves:
    """Split an equation, including the jaxprs in it, by what the unmarked operands determine.

    Unlike with `split_eqn`, the first equation may pass residuals to the second one.
    """
    return split_rules_of(eqn.primitive).divide(eqn, marked, hoisting)


def has_any_effect(eqn: JaxprEqn) -> bool:
    return bool(eqn.effects)


class Divided(NamedTuple):
    """A jaxpr divided by which of its arguments are known.

    Attributes:
      known: takes the known arguments; returns the known results, then residuals for `rest`.
      rest: takes these residuals, then the arguments in `rest_ins`; returns the other results.
      known_outs: which results are known.
      rest_ins: which arguments `rest` takes: the unknown ones, and known ones that it needs.
    """

    known: ClosedJaxpr
    rest: ClosedJaxpr
    known_outs: list[bool]
    rest_ins: list[bool]


@core.cached_on_jaxpr
def divide_jaxpr(closed: ClosedJaxpr, known: tuple[bool, ...], hoisting: bool) -> Divided | None:
    """Divide a jaxpr; return None if the known arguments determine nothing."""
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
    """Return a jaxpr with other equations, and optionally other arguments and results."""
    info = jaxpr.debug_info.with_unknown_names()
    new = jaxpr.replace(eqns=eqns, debug_info=info, **changes)
    new.effects = core.effects_of_eqns(new.constvars, new.invars, eqns)
    return new


def renamed(eqn: JaxprEqn, env: dict[Var, Atom]) -> JaxprEqn:
    """Replace the equation's operands as `env` says."""
    return eqn.replace(invars=[renamed_atom(v, env) for v in eqn.invars])


def renamed_atom(v: Atom, env: dict[Var, Atom]) -> Atom:
    return v if type(v) is Literal else env.get(v, v)


def inlined_eqns(jaxpr: Jaxpr, args: Sequence[Atom]) -> tuple[list[JaxprEqn], list[Atom]]:
    """Inline a jaxpr: return its equations on `args`, with new variables, and its results."""
    env: dict[Var, Atom] = dict(zip(jaxpr.invars, args))
    eqns = []
    for eqn in jaxpr.eqns:
        outvars = [Var(v.aval) for v in eqn.outvars]
        eqns.append(renamed(eqn, env).replace(outvars=outvars))
        env.update(zip(eqn.outvars, outvars))
    return eqns, [renamed_atom(v, env) for v in jaxpr.outvars]


@core.cached_on_jaxpr
def dependent_outs(jaxpr: Jaxpr | ClosedJaxpr, marked: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return which results of a jaxpr depend on the marked arguments."""
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


# Backwards: from used results to needed operands


def split_by_need(
    eqns: Sequence[JaxprEqn],
    needed: set[Var],
    shrink: Callable[[JaxprEqn, list[bool]], JaxprEqn | None],
) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """Separate equations that the needed variables depend on from the others; keep their order.

    Args:
      eqns: the equations.
      needed: the needed variables; the operands of needed equations are added.
      shrink: given an equation and which of its results are used, returns the part of it that is
        needed, or None if nothing is.
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
    """Keep a whole equation if a result is used or it has effects (for `split_by_need`)."""
    return eqn if eqn.effects or any(used) else None


def has_effects(eqn: JaxprEqn) -> bool:
    """Whether an equation must be kept even if none of its results is used."""
    return any(not isinstance(e, (core.NamedAxisEffect, core.ReadEffect)) for e in eqn.effects)


def keep_or_drop(used_outs: Marks, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """The `dce` rule of primitives without their own: keep or drop the whole equation."""
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
      instantiate: which arguments to keep even if they are unused (True for all).

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
    """Return the equations that live variables need, each reduced to its needed part.

    The operands of these equations are added to `live`. `inputs` are the variables of references
    that come from outside, whose contents may be read later.
    """

    def shrink(eqn: JaxprEqn, used_outs: list[bool]) -> JaxprEqn | None:
        if eqn.effects and not any(used_outs) and _only_dead_refs(eqn, live, inputs):
            return None
        rules = eqn.primitive.split
        return (keep_or_drop if rules is None else rules.dce)(used_outs, eqn)[1]

    return split_by_need(eqns, live, shrink)[0]


def _only_dead_refs(eqn: JaxprEqn, live: set[Var], inputs: set[Var]) -> bool:
    """Whether an equation's only effects are on references, none of which is read after a write."""
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
