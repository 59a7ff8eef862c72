"""Rules for splitting applications of primitives with jaxprs as parameters.

Such a primitive describes how values flow through its jaxprs (`flow`), and the parameters of an
application to other jaxprs (`with_jaxprs`). Dependence and dead code elimination follow from these.
`in_two` makes two applications, the first of which stores residuals for the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax._src import core
from jax._src.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, cached_on_jaxpr
from jax._src.interpreters.splitting import (
    Marks,
    SplitRules,
    TwoHalves,
    dce_closed_jaxpr,
    dce_jaxpr,
    dependent_outs,
    divide_jaxpr,
    has_effects,
    with_eqns,
)

Params = dict[str, Any]
# Positions of arguments or results in the original application; None for added ones.
Positions = Sequence[int | None]


def positions(marks: Sequence[object]) -> list[int]:
    """Return the indices of the marked elements."""
    return [i for i, m in enumerate(marks) if m]


class Flow(NamedTuple):
    """How values flow through the jaxprs of an application.

    Attributes:
      jaxprs: the jaxprs.
      num_results: the number of results of the application.
      operands: for each jaxpr, the operands that its arguments are in the first iteration.
      results: for each jaxpr, the results of the application that its results are. None for a
        result that controls the whole application, such as the condition of a loop.
      carried: pairs (result, operand), where the result takes the operand's place in the next
        iteration.
      deciding: operands that every result depends on.
    """

    jaxprs: Sequence[ClosedJaxpr]
    num_results: int
    operands: Sequence[Sequence[int]]
    results: Sequence[Sequence[int | None]]
    carried: Sequence[tuple[int, int]] = ()
    deciding: Sequence[int] = ()


class Plan:
    """How to divide a jaxpr into a part that stores values and a part that uses them.

    Attributes:
      jaxpr: the jaxpr.
      first: the equations of the first part, which computes the results.
      again: equations that compute the results again, from the arguments and stored values.
      saved: variables of the first part whose values are stored.
      arrived: for each of these, the corresponding variable of `again`.
    """

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.first: list[JaxprEqn] = []
        self.again: list[JaxprEqn] = []
        self.saved: list[Var] = []
        self.arrived: list[Var] = []

    def store(self, v: Var) -> None:
        self.saved.append(v)
        self.arrived.append(v)

    def first_jaxpr(self, closed: ClosedJaxpr, extra: Sequence[Var]) -> ClosedJaxpr:
        """Return the jaxpr of the first part, with the results `extra` added."""
        outvars = [*self.jaxpr.outvars, *extra]
        return ClosedJaxpr(with_eqns(self.jaxpr, self.first, outvars=outvars), closed.consts)

    def again_jaxpr(self, closed: ClosedJaxpr, before: Sequence[Var]) -> ClosedJaxpr:
        """Return the jaxpr of the second part, with the arguments `before` added in front."""
        invars = [*before, *self.jaxpr.invars]
        return ClosedJaxpr(with_eqns(self.jaxpr, self.again, invars=invars), closed.consts)


# Returns the plan of a jaxpr. Planners for the same purpose must be equal, since results are
# cached.
Planner = Callable[[ClosedJaxpr], Plan]


class TwoEqns(NamedTuple):
    """Two applications that replace one.

    Attributes:
      first: the equations of the first part; the last one computes the results.
      again: the application that computes again the results that are not stored.
      stored: variables that `first` defines and `again` uses.
    """

    first: list[JaxprEqn]
    again: JaxprEqn
    stored: list[Var]


class JaxprSplitRules(SplitRules):
    """The rules of a primitive with jaxprs as parameters.

    Subclasses define `flow` and `with_jaxprs`.
    """

    def flow(self, params: Params) -> Flow:
        raise NotImplementedError

    def with_jaxprs(
        self, params: Params, jaxprs: Sequence[ClosedJaxpr], ins: Positions, outs: Positions
    ) -> Params:
        """Return the parameters for other jaxprs in an application.

        The application has those operands and results of the original one that `ins` and `outs`
        name.
        """
        raise NotImplementedError

    def effects(self, eqn: JaxprEqn, params: Params, operands: Sequence[Any]) -> core.Effects:
        effects: core.Effects = eqn.primitive.eval_types([v.aval for v in operands], params)[1]
        return effects

    def dependence(self, marked: Marks, params: Params) -> Sequence[bool] | None:
        flow = self.flow(params)
        if any([marked[i] for i in flow.deciding]):
            return None
        operands = list(marked)
        found: set[int] = set()
        while True:
            for jaxpr, ins, outs in zip(flow.jaxprs, flow.operands, flow.results):
                depends = dependent_outs(jaxpr, tuple([operands[i] for i in ins]))
                for i, dep in zip(outs, depends):
                    if dep:
                        if i is None:
                            return None
                        found.add(i)
            grown = False
            for out, operand in flow.carried:
                if operands[operand]:
                    found.add(out)
                elif out in found:
                    operands[operand] = grown = True
            if not grown:
                return [i in found for i in range(flow.num_results)]

    def dce(self, used_outputs: Marks, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        used_ins = [False] * len(eqn.invars)
        if not any(used_outputs) and not has_effects(eqn):
            return used_ins, None
        flow = self.flow(eqn.params)
        used_outs = list(used_outputs)
        for i in flow.deciding:
            used_ins[i] = True
        while True:
            for jaxpr, ins, outs in zip(flow.jaxprs, flow.operands, flow.results):
                kept = [False] * len(ins)
                _, used = dce_jaxpr(jaxpr.jaxpr, [i is None or used_outs[i] for i in outs], kept)
                for i, u in zip(ins, used):
                    if u:
                        used_ins[i] = True
            grown = False
            for out, operand in flow.carried:
                if used_outs[out]:
                    used_ins[operand] = True
                elif used_ins[operand]:
                    used_outs[out] = grown = True
            if not grown:
                break
        smaller = [
            dce_closed_jaxpr(
                jaxpr,
                tuple([i is None or used_outs[i] for i in outs]),
                tuple([used_ins[i] for i in ins]),
            )
            for jaxpr, ins, outs in zip(flow.jaxprs, flow.operands, flow.results)
        ]
        if all([new is old for new, old in zip(smaller, flow.jaxprs)]):
            return used_ins, eqn
        ins, outs = positions(used_ins), positions(used_outs)
        params = self.with_jaxprs(eqn.params, smaller, ins, outs)
        operands = [eqn.invars[i] for i in ins]
        new_eqn = eqn.replace(
            invars=operands,
            outvars=[
                eqn.outvars[i] if used_outputs[i] else DropVar(eqn.outvars[i].aval) for i in outs
            ],
            params=params,
            effects=self.effects(eqn, params, operands),
        )
        return used_ins, new_eqn


class CallSplitRules(JaxprSplitRules):
    """The rules of a primitive that calls a jaxpr.

    Args:
      name: the parameter that contains the jaxpr.
      hands_on: whether the first part of a divided call may pass residuals to the second part. If
        not, the call is divided only by its results, and the second part recomputes what it needs.
    """

    def __init__(self, name: str, hands_on: bool = True):
        self.name = name
        self.hands_on = hands_on

    def closed_jaxpr(self, params: Params) -> ClosedJaxpr:
        jaxpr: Jaxpr | ClosedJaxpr = params[self.name]
        return core.close_jaxpr(jaxpr) if isinstance(jaxpr, Jaxpr) else jaxpr

    def params_for(
        self, params: Params, closed: ClosedJaxpr, ins: Positions, outs: Positions
    ) -> Params:
        """Return the parameters of a call of `closed`, with arguments `ins` and results `outs`."""
        plain = isinstance(params[self.name], Jaxpr)
        return dict(params, **{self.name: closed.jaxpr if plain else closed})

    def keeping_args(self, params: Params, kept: Sequence[int] | None = None) -> Params:
        """Return the parameters of a call whose arguments at positions `kept` are needed later.

        None stands for all arguments.
        """
        return params

    def flow(self, params: Params) -> Flow:
        closed = self.closed_jaxpr(params)
        n, m = len(closed.in_avals), len(closed.out_avals)
        return Flow((closed,), m, (range(n),), (range(m),))

    def with_jaxprs(
        self, params: Params, jaxprs: Sequence[ClosedJaxpr], ins: Positions, outs: Positions
    ) -> Params:
        return self.params_for(params, jaxprs[0], ins, outs)

    def effects(self, eqn: JaxprEqn, params: Params, operands: Sequence[Any]) -> core.Effects:
        effects: core.Effects = self.closed_jaxpr(params).effects
        return effects

    def is_whole(self, marked: Marks, params: Params) -> bool:
        if not self.hands_on:
            return super().is_whole(marked, params)
        known = tuple([not m for m in marked])
        return divide_jaxpr(self.closed_jaxpr(params), known, False) is None

    def divide(self, eqn: JaxprEqn, marked: Marks, hoisting: bool) -> TwoHalves:
        if not self.hands_on:
            return super().divide(eqn, marked, hoisting)
        known = tuple([not m for m in marked])
        parts = divide_jaxpr(self.closed_jaxpr(eqn.params), known, hoisting)
        if parts is None:
            return None, eqn
        known_ins, known_outs = positions(known), positions(parts.known_outs)
        rest_ins = positions(parts.rest_ins)
        rest_outs = positions([not k for k in parts.known_outs])
        stored = [Var(a) for a in parts.known.out_avals[len(known_outs) :]]
        outs = [*[eqn.outvars[i] for i in known_outs], *stored]
        first = rest = None
        if outs or parts.known.effects:
            first = self._call(eqn, parts.known, known_ins, known_outs, (), outs)
        if rest_outs or parts.rest.effects:
            outs = [eqn.outvars[i] for i in rest_outs]
            rest = self._call(eqn, parts.rest, rest_ins, rest_outs, stored, outs)
        return first, rest

    def in_two(self, eqn: JaxprEqn, plan: Planner) -> TwoEqns | None:
        first, again, avals, results = _planned_call(self.closed_jaxpr(eqn.params), plan)
        stored, first_outs, again_outs = stored_outs(eqn, avals, results)
        ins, outs = range(len(eqn.invars)), range(len(eqn.outvars))
        eqn_first = self._call(eqn, first, ins, outs, (), first_outs)
        eqn_again = self._call(eqn, again, ins, outs, stored, again_outs)
        return TwoEqns([eqn_first], eqn_again, stored)

    def _call(
        self, eqn: JaxprEqn, closed: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int],
        stored: Sequence[Var], outvars: Sequence[Var],
    ) -> JaxprEqn:  # fmt: skip
        """Call another jaxpr with the stored values, then the operands `ins` of `eqn`."""
        new_ins, new_outs = [None] * len(stored), [None] * (len(outvars) - len(outs))
        params = self.params_for(
            self.keeping_args(eqn.params), closed, [*new_ins, *ins], [*outs, *new_outs]
        )
        return eqn.replace(
            invars=[*stored, *[eqn.invars[i] for i in ins]],
            outvars=outvars,
            params=params,
            effects=closed.effects,
        )


@cached_on_jaxpr
def _planned_call(closed: ClosedJaxpr, planner: Planner) -> Any:
    plan = planner(closed)
    results = result_positions(plan.saved, closed.jaxpr.outvars)
    first = plan.first_jaxpr(closed, not_results(plan.saved, results))
    return first, plan.again_jaxpr(closed, plan.arrived), [v.aval for v in plan.saved], results


# Stored values are added to the results of the first part and to the arguments of the second part.
# A stored value that already is a result is not returned twice.


def result_positions(
    vs: Sequence[Var], outvars: Sequence[core.Atom], start: int = 0
) -> list[int | None]:
    """Return which result each variable is, from `start` on; None if it is no result."""
    index: dict[core.Atom, int] = {}
    for i, v in enumerate(outvars):
        if i >= start and type(v) is not Literal:
            index.setdefault(v, i)
    return [index.get(v) for v in vs]


def not_results(vs: Sequence[Var], results: Positions) -> list[Var]:
    return [v for v, i in zip(vs, results) if i is None]


def stored_outs(
    eqn: JaxprEqn, avals: Sequence[core.AbstractValue], results: Positions
) -> tuple[list[Var], list[Var], list[Var]]:
    """Return variables for stored values of these types, and the results of both parts."""
    first: list[Var] = [
        Var(v.aval) if i in results and type(v) is DropVar else v for i, v in enumerate(eqn.outvars)
    ]
    again: list[Var] = [DropVar(v.aval) if i in results else v for i, v in enumerate(eqn.outvars)]
    stored = [Var(a) if i is None else first[i] for a, i in zip(avals, results)]
    return stored, [*first, *not_results(stored, results)], again


def dce_jaxpr_closed_call_rule(
    used_outputs: list[bool], eqn: JaxprEqn
) -> tuple[list[bool], JaxprEqn | None]:
    """Remove dead code from a call of the jaxpr in the parameter `call_jaxpr` or `jaxpr`.

    Args:
      used_outputs: which results of the equation are wanted.
      eqn: the equation.

    Returns:
      Which operands are then used, and the smaller equation, or None if nothing is needed.
    """
    name = "call_jaxpr" if "call_jaxpr" in eqn.params else "jaxpr"
    return CallSplitRules(name).dce(used_outputs, eqn)


# An alias for primitives whose jaxpr is not closed; the rule handles both.
dce_jaxpr_call_rule = dce_jaxpr_closed_call_rule
