"""What is stored for the backward pass of a `checkpoint`, and what is computed again, by its policy.

A function is linearized; then the policy is asked about the equations of the forward pass, also those
within functions that it calls. Primitives with jaxprs as parameters have rules for that, in the slot
`partial_eval_custom`: `rule(policy, unknown_inputs, instantiated_inputs, eqn)` gives the equation (or a list)
of the forward pass, the one that computes again, which results are unknown, which are computed again, and
variables whose values are stored. Here all inputs are known, and at hand in both passes.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, source_info_util
from jax._src.ad_checkpoint.policies import (
    Offloadable,
    RecomputeType,
    SaveableType,
    nothing_saveable,
)
from jax._src.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, cached_on_jaxpr
from jax._src.device_put import values as placing
from jax._src.device_put.primitive import device_put_p
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.splitting import has_any_effect, split_by_unknown
from jax._src.jit.primitive import jit_p, with_jaxpr
from jax._src.lax.control_flow.conditionals import (
    cond_p,
    share_residuals,
    with_padded_residuals,
    with_selected_residuals,
)
from jax._src.lax.control_flow.scan_primitive import scan_p


class Split(NamedTuple):
    """A function made ready for differentiation.

    Attributes:
      primal: from arguments to (results, stored values).
      tangent: from (stored values, needed arguments, nonzero tangents) to nonzero tangents of results: it
        computes again what is not stored.
      needed: which arguments `tangent` takes.
      nonzero_outs: which results have a tangent.
    """

    primal: ClosedJaxpr
    tangent: ClosedJaxpr
    needed: list[bool]
    nonzero_outs: list[bool]


@cached_on_jaxpr
def split(closed: ClosedJaxpr, nonzeros: tuple, policy: Callable | None) -> Split:
    """Split a function by a policy; `nonzeros` says which arguments have a tangent."""
    lin = ad.linearize_jaxpr(closed, nonzeros)
    jaxpr, n, num_outs = lin.primal.jaxpr, len(closed.in_avals), len(closed.out_avals)
    plan = _plan(lin.primal, policy or nothing_saveable)

    # What is not stored is computed again, then comes the linear part, on these residuals.
    linear = lin.tangent.jaxpr
    where = {"in": jaxpr.invars, "out": jaxpr.outvars, "res": jaxpr.outvars[num_outs:]}
    residuals = [where[kind][i] for kind, i in lin.residual_sources]
    env = dict(zip(linear.invars, residuals))
    eqns = [*map(_marked, plan.again), *[_renamed(eqn, env) for eqn in linear.eqns]]
    tangent = _with_eqns(
        linear,
        eqns,
        constvars=[*jaxpr.constvars, *linear.constvars],
        invars=[*plan.arrived, *jaxpr.invars, *linear.invars[len(residuals) :]],
        outvars=[_rename(v, env) for v in linear.outvars],
    )
    m = len(plan.saved)
    kept = [False] * (m + n) + [True] * (len(tangent.invars) - m - n)
    tangent, used = pe.dce_jaxpr(tangent, [True] * len(tangent.outvars), kept)

    saved = [v for v, u in zip(plan.saved, used) if u]
    first = _with_eqns(jaxpr, plan.first, outvars=[*jaxpr.outvars[:num_outs], *saved])
    first, _ = pe.dce_jaxpr(first, [True] * len(first.outvars), True)
    return Split(
        ClosedJaxpr(first, lin.primal.consts),
        ClosedJaxpr(tangent, [*lin.primal.consts, *lin.tangent.consts]),
        used[m : m + n],
        list(lin.nonzero_outs),
    )


class _Plan:
    """What a policy makes of the equations of a jaxpr.

    Attributes:
      first: equations of the forward pass.
      again: equations that compute everything again from stored values.
      saved: variables of the forward pass whose values are stored.
      arrived: for each of these the variable that `again` has for it.
    """

    def __init__(self, jaxpr: Jaxpr, policy: Callable):
        self.jaxpr, self.policy = jaxpr, policy
        self.first: list[JaxprEqn] = []
        self.again: list[JaxprEqn] = []
        self.saved: list[Var] = []
        self.arrived: list[Var] = []
        for eqn in jaxpr.eqns:
            if eqn.primitive.partial_eval_custom is not None:
                self._add_by_rule(eqn.primitive.partial_eval_custom, eqn)
            elif any(isinstance(e, core.RefEffect) for e in eqn.effects) or _makes_ref(eqn):
                self._add_ref_operation(eqn)
            else:
                self._add(eqn)

    def first_jaxpr(self, closed: ClosedJaxpr, extra: Sequence[Var]) -> ClosedJaxpr:
        """The forward pass, with further results."""
        outvars = [*self.jaxpr.outvars, *extra]
        return ClosedJaxpr(_with_eqns(self.jaxpr, self.first, outvars=outvars), closed.consts)

    def again_jaxpr(
        self, closed: ClosedJaxpr, before: Sequence[Var], after: Sequence[Var] = ()
    ) -> ClosedJaxpr:
        """What is computed again, with further arguments."""
        invars = [*before, *self.jaxpr.invars, *after]
        return ClosedJaxpr(_with_eqns(self.jaxpr, self.again, invars=invars), closed.consts)

    def _store(self, v: Var) -> None:
        self.saved.append(v)
        self.arrived.append(v)

    def _add_by_rule(self, rule: Callable, eqn: JaxprEqn) -> None:
        n = len(eqn.invars)
        first, again, _, computed_again, stored = rule(self.policy, [False] * n, [True] * n, eqn)
        self.first.extend(first if isinstance(first, list) else [first] if first else [])
        if again is not None:
            self.again.append(again)
        for v in dict.fromkeys(stored):
            if not any(v is x for x in eqn.invars):
                self._store(v)
        for v, done in zip(eqn.outvars, computed_again):
            if not done and not any(v is x for x in stored):
                self._store(v)

    def _add_ref_operation(self, eqn: JaxprEqn) -> None:
        self.first.append(eqn)
        if any(type(v.aval) is core.AbstractRef and v.aval.kind is not None for v in eqn.invars):
            for v in eqn.outvars:  # the reference must not see the operation again
                self._store(v)
        else:  # what it leaves matters to later operations
            self.again.append(eqn)

    def _add(self, eqn: JaxprEqn) -> None:
        self.first.append(eqn)
        avals = [v.aval for v in eqn.invars]
        decision = self.policy(eqn.primitive, *avals, **eqn.params)
        if isinstance(decision, Offloadable):
            for v in eqn.outvars:
                away, put = _transfer(v, decision.dst)
                back = Var(away.aval)
                _, fetch = _transfer(back, decision.src, v)
                self.first.append(put)
                self.again.append(fetch)
                self.saved.append(away)
                self.arrived.append(back)
        elif not isinstance(decision, (bool, np.bool_, RecomputeType, SaveableType)):
            raise TypeError(
                "A checkpoint policy must return a bool, or Recompute, Saveable or an Offloadable of"
                f" jax.ad_checkpoint; for {eqn.primitive} it returned {decision!r} of type"
                f" {type(decision)}."
            )
        elif decision:
            for v in eqn.outvars:
                self._store(v)
        else:
            self.again.append(eqn)


@cached_on_jaxpr
def _plan(closed: ClosedJaxpr, policy: Callable) -> _Plan:
    return _Plan(closed.jaxpr, policy)


def _makes_ref(eqn: JaxprEqn) -> bool:
    return any(type(v.aval) is core.AbstractRef for v in eqn.outvars)


def _with_eqns(jaxpr: Jaxpr, eqns: list[JaxprEqn], **changes) -> Jaxpr:
    info = jaxpr.debug_info.with_unknown_names()
    new = jaxpr.replace(eqns=eqns, debug_info=info, **changes)
    new.effects = core.effects_of_eqns(new.constvars, new.invars, eqns)
    return new


def _transfer(v: Var, kind: str, to: Var | None = None) -> tuple[Var, JaxprEqn]:
    """An equation that moves a value to another memory: into a new variable, or the given one."""
    space = placing.memory_kind_to_space(kind)
    params = dict(devices=(space,), srcs=(None,), copy_semantics=(placing.ALWAYS_COPY,))
    (aval,), effects = device_put_p.eval_types([v.aval], params)
    to = Var(aval) if to is None else to
    return to, core.new_jaxpr_eqn([v], [to], device_put_p, params, effects)


def _rename(v, env: dict):
    return v if type(v) is Literal else env.get(v, v)


def _renamed(eqn: JaxprEqn, env: dict) -> JaxprEqn:
    return eqn.replace(invars=[_rename(v, env) for v in eqn.invars])


_scope = source_info_util.new_name_stack("rematted_computation")


def _marked(eqn: JaxprEqn) -> JaxprEqn:
    """The equation with a name that tells profilers that it is computed again."""
    info = eqn.source_info
    return eqn.replace(source_info=info.replace(name_stack=_scope + info.name_stack))


# Rules of primitives that call functions. What these store are further results of the forward pass and
# further arguments of the other one; a result that is stored is not returned twice.


def _positions(vs: Sequence[Var], outvars: Sequence[Any], start: int = 0) -> list[int | None]:
    """For each variable which result it is, from `start` on; or None."""
    index: dict[Any, int] = {}
    for i, v in enumerate(outvars):
        if i >= start and type(v) is not Literal:
            index.setdefault(v, i)
    return [index.get(v) for v in vs]


def _not_results(vs: Sequence[Var], results: Sequence[int | None]) -> list[Var]:
    return [v for v, i in zip(vs, results) if i is None]


def _outvars(eqn: JaxprEqn, avals: Sequence[Any], results: Sequence[int | None]) -> Any:
    """Variables for stored values of these types, and the results of the equations of both passes."""
    first: list[Var] = [
        Var(v.aval) if i in results and type(v) is DropVar else v for i, v in enumerate(eqn.outvars)
    ]
    again = [DropVar(v.aval) if i in results else v for i, v in enumerate(eqn.outvars)]
    stored = [Var(a) if i is None else first[i] for a, i in zip(avals, results)]
    return stored, [*first, *_not_results(stored, results)], again


@cached_on_jaxpr
def _call_parts(closed: ClosedJaxpr, policy: Callable) -> Any:
    plan = _plan(closed, policy)
    results = _positions(plan.saved, closed.jaxpr.outvars)
    first = plan.first_jaxpr(closed, _not_results(plan.saved, results))
    return first, plan.again_jaxpr(closed, plan.arrived), [v.aval for v in plan.saved], results


def split_call(name: str, params_of: Callable) -> Callable:
    """The rule of a primitive that calls the jaxpr in its parameter `name`.

    `params_of(params, jaxpr, inputs, outputs)` gives parameters for another jaxpr, whose arguments and
    results are those at these positions, or new ones (None).
    """

    def rule(policy, unknown, instantiated, eqn):
        first, again, avals, results = _call_parts(eqn.params[name], policy)
        stored, first_outs, again_outs = _outvars(eqn, avals, results)
        ins, outs = range(len(eqn.invars)), range(len(eqn.outvars))
        new_outs, new_ins = [None] * (len(first_outs) - len(outs)), [None] * len(stored)
        eqn_first = eqn.replace(
            outvars=first_outs,
            params=params_of(eqn.params, first, ins, [*outs, *new_outs]),
            effects=first.effects,
        )
        eqn_again = eqn.replace(
            invars=[*stored, *eqn.invars],
            outvars=again_outs,
            params=params_of(eqn.params, again, [*new_ins, *ins], outs),
            effects=again.effects,
        )
        return eqn_first, eqn_again, [False] * len(outs), [True] * len(outs), stored

    return rule


def _jit_params(params, jaxpr, ins, outs):
    # Both passes need the arguments.
    return with_jaxpr(dict(params, donated_invars=(False,) * len(ins)), jaxpr, ins, outs)


jit_p.partial_eval_custom = split_call("jaxpr", _jit_params)


def _split_cond(policy, unknown, instantiated, eqn):
    branches = eqn.params["branches"]
    index, *ops = eqn.invars
    n = len(eqn.outvars)
    plans = [_plan(b, policy) for b in branches]
    # Results that are stored whichever branch is taken; the others share slots for what they store.
    as_results = [
        i
        for i in range(n)
        if all(type(p.jaxpr.outvars[i]) is Literal or p.jaxpr.outvars[i] in p.saved for p in plans)
    ]
    results = [_positions(p.saved, [p.jaxpr.outvars[i] for i in as_results]) for p in plans]
    extra = [_not_results(p.saved, rs) for p, rs in zip(plans, results)]
    layout, total = share_residuals([[v.aval.strip_weak_type() for v in vs] for vs in extra])
    types = tuple(total)
    first = tuple(
        with_padded_residuals(p.first_jaxpr(b, vs), n, slots, types)
        for p, b, vs, slots in zip(plans, branches, extra, layout)
    )
    stored = [*[eqn.outvars[i] for i in as_results], *[Var(a) for a in types]]
    stored = [Var(v.aval) if type(v) is DropVar else v for v in stored]
    m = len(as_results)
    again = []
    for p, b, rs, slots in zip(plans, branches, results, layout):
        rest = iter(slots)
        where = tuple([m + next(rest) if i is None else i for i in rs])
        all_types = tuple([v.aval for v in stored])
        again.append(with_selected_residuals(p.again_jaxpr(b, p.arrived), where, all_types))

    def replaced(branches, invars, outvars):
        _, effects = cond_p.eval_types([v.aval for v in invars], dict(branches=branches))
        params = dict(eqn.params, branches=branches)
        return eqn.replace(invars=invars, outvars=outvars, params=params, effects=effects)

    place = dict(zip(as_results, stored))
    first_outs = [place.get(i, v) for i, v in enumerate(eqn.outvars)]
    again_outs = [DropVar(v.aval) if i in place else v for i, v in enumerate(eqn.outvars)]
    eqn_first = replaced(first, eqn.invars, [*first_outs, *stored[m:]])
    eqn_again = replaced(tuple(again), [index, *stored, *ops], again_outs)
    return eqn_first, eqn_again, [False] * n, [True] * n, stored


cond_p.partial_eval_custom = _split_cond


class _ScanParts(NamedTuple):
    """A loop's body for both passes, and what is stored: once, or for each step.

    Attributes:
      once: a jaxpr that computes from the loop's constants what is stored once.
      first, again: the bodies.
      avals: types of what is stored for each step.
      results: which results of the body these values are, or None.
    """

    once: Jaxpr
    first: ClosedJaxpr
    again: ClosedJaxpr
    avals: list[Any]
    results: list[int | None]


@cached_on_jaxpr
def _scan_parts(
    closed: ClosedJaxpr, policy: Callable, num_consts: int, num_carry: int
) -> _ScanParts:
    plan, body = _plan(closed, policy), closed.jaxpr
    # The values that are the same in all steps.
    differ = {*body.constvars, *body.invars[num_consts:]}
    known, _ = split_by_unknown(plan.first, differ, lambda eqn, _: (None, eqn), has_any_effect)
    same = {*body.invars[:num_consts], *[v for eqn in known for v in eqn.outvars]}
    once = [v for v in plan.saved if v in same]
    each = [v for v in plan.saved if v not in same]
    results = _positions(each, body.outvars, num_carry)
    before, _ = pe.dce_jaxpr(
        plan.first_jaxpr(closed, once).jaxpr,
        [False] * len(body.outvars) + [True] * len(once),
        [True] * num_consts + [False] * (len(body.invars) - num_consts),
    )
    arrived_once = [w for v, w in zip(plan.saved, plan.arrived) if v in same]
    arrived_each = [w for v, w in zip(plan.saved, plan.arrived) if v not in same]
    invars = [
        *body.invars[:num_consts], *arrived_once, *body.invars[num_consts:], *arrived_each
    ]  # fmt: skip
    again = ClosedJaxpr(_with_eqns(body, plan.again, invars=invars), closed.consts)
    first = plan.first_jaxpr(closed, _not_results(each, results))
    return _ScanParts(before, first, again, [v.aval for v in each], results)


def _split_scan(policy, unknown, instantiated, eqn):
    num_consts, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    parts = _scan_parts(eqn.params["jaxpr"], policy, num_consts, num_carry)
    n = len(eqn.outvars)
    stacked_avals = [core.unmapped_aval(eqn.params["length"], 0, a) for a in parts.avals]
    stacked, first_outs, again_outs = _outvars(eqn, stacked_avals, parts.results)
    consts, rest = eqn.invars[:num_consts], eqn.invars[num_consts:]
    env: dict = dict(zip(parts.once.invars, consts))
    before = []
    for e in parts.once.eqns:
        e = _renamed(e, env)
        new = [Var(v.aval) for v in e.outvars]
        env.update(zip(e.outvars, new))
        before.append(e.replace(outvars=new))
    once = [env[v] for v in parts.once.outvars]
    eqn_first = eqn.replace(
        outvars=first_outs, params=dict(eqn.params, jaxpr=parts.first), effects=parts.first.effects
    )
    eqn_again = eqn.replace(
        invars=[*consts, *once, *rest, *stacked],
        outvars=again_outs,
        params=dict(eqn.params, jaxpr=parts.again, num_consts=num_consts + len(once)),
        effects=parts.again.effects,
    )
    return [*before, eqn_first], eqn_again, [False] * n, [True] * n, [*once, *stacked]


scan_p.partial_eval_custom = _split_scan
