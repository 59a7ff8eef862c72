"""Splitting a `checkpoint` into values stored for the backward pass and recomputed values.

A function is linearized. Then the policy is consulted on each equation of the forward pass,
including those in functions that it calls. The splitting rules of primitives with jaxprs as
parameters carry out the plan (`in_two`). External primitives may have a rule in
`pe.partial_eval_jaxpr_custom_rules`: `rule(policy, unknown_inputs, instantiated_inputs, eqn)`
returns the equation (or a list) of the forward pass, the equation that recomputes, which results
are unknown, which results are recomputed, and the variables whose values are stored. Here all
inputs are known, and available in both passes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes, source_info_util
from jax._src.ad_checkpoint.names import name_p
from jax._src.ad_checkpoint.policies import (
    Offloadable,
    RecomputeType,
    SaveableType,
    nothing_saveable,
)
from jax._src.core import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var, cached_on_jaxpr
from jax._src.device_put import values as placing
from jax._src.device_put.primitive import device_put_p
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.split_rules import Plan
from jax._src.interpreters.splitting import (
    inlined_eqns,
    renamed,
    renamed_atom,
    split_rules_of,
    with_eqns,
)
from jax._src.lax.lax.convert import reduce_precision_p


class Split(NamedTuple):
    """A function split for differentiation.

    Attributes:
      primal: from arguments to (results, stored values).
      tangent: from (stored values, needed arguments, nonzero tangents) to nonzero tangents of
        results. It recomputes the values that are not stored.
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
    closed = _with_own_rules(closed, policy)
    lin = ad.linearize_jaxpr(closed, nonzeros)
    jaxpr, n, num_outs = lin.primal.jaxpr, len(closed.in_avals), len(closed.out_avals)
    plan = plan_of(lin.primal, policy or nothing_saveable)

    # Recompute what is not stored, then run the linear part on these residuals.
    linear = lin.tangent.jaxpr
    where = {"in": jaxpr.invars, "out": jaxpr.outvars, "res": jaxpr.outvars[num_outs:]}
    residuals = [where[kind][i] for kind, i in lin.residual_sources]
    env = dict(zip(linear.invars, residuals))
    eqns = [*map(_marked, plan.again), *[renamed(eqn, env) for eqn in linear.eqns]]
    tangent = with_eqns(
        linear,
        eqns,
        constvars=[*jaxpr.constvars, *linear.constvars],
        invars=[*plan.arrived, *jaxpr.invars, *linear.invars[len(residuals) :]],
        outvars=[renamed_atom(v, env) for v in linear.outvars],
    )
    m = len(plan.saved)
    kept = [False] * (m + n) + [True] * (len(tangent.invars) - m - n)
    tangent, used = pe.dce_jaxpr(tangent, [True] * len(tangent.outvars), kept)

    saved = [v for v, u in zip(plan.saved, used) if u]
    first = with_eqns(jaxpr, plan.first, outvars=[*jaxpr.outvars[:num_outs], *saved])
    first, _ = pe.dce_jaxpr(first, [True] * len(first.outvars), True)
    first = _rounded(first, set(saved))
    return Split(
        ClosedJaxpr(first, lin.primal.consts),
        ClosedJaxpr(tangent, [*lin.primal.consts, *lin.tangent.consts]),
        used[m : m + n],
        list(lin.nonzero_outs),
    )


_KEPT = "kept by the rule of an operation"  # the name of values that are stored by any policy


def _with_own_rules(closed: ClosedJaxpr, policy: Callable | None) -> ClosedJaxpr:
    """Apply the rules `remat` of primitives, which say what is computed again, and from what.

    The results are computed from what is kept in the first pass, too: where a rule keeps them, the
    computation that it repeats is dead.
    """
    if all(eqn.primitive.remat is None for eqn in closed.jaxpr.eqns):
        return closed
    env: dict[Var, Atom] = {}
    eqns, constvars, consts = [], list(closed.jaxpr.constvars), list(closed.consts)
    for eqn in closed.jaxpr.eqns:
        eqn = renamed(eqn, env)
        if (rule := eqn.primitive.remat) is None or (made := _by_rule(rule, eqn, policy)) is None:
            eqns.append(eqn)
            continue
        body, values = made
        new = [Var(core.typeof(x)) for x in values]
        constvars += new
        consts += values
        inlined, outs = inlined_eqns(body.jaxpr, [*new, *eqn.invars])
        eqns += inlined
        env.update(zip(eqn.outvars, outs))
    outvars = [renamed_atom(v, env) for v in closed.jaxpr.outvars]
    return ClosedJaxpr(with_eqns(closed.jaxpr, eqns, constvars=constvars, outvars=outvars), consts)


def _by_rule(rule: Callable, eqn: JaxprEqn, policy: Callable | None) -> Any:
    """What a rule makes of an equation, as a jaxpr and the constants it takes; None if nothing."""
    has_rule = False

    def body(*args):
        nonlocal has_rule
        found = rule(policy, args, eqn.params)
        if found is None:
            return []
        has_rule = True
        again, kept = pe.trace_to_closed(found[1], [v.aval for v in eqn.invars])
        kept = [name_p.bind(x, name=_KEPT) for x in kept]
        return core.eval_jaxpr(again.jaxpr, again.consts, *kept, *args)

    with source_info_util.user_context(eqn.source_info.traceback), eqn.ctx.manager:
        made = pe.trace_to_closed(body, [v.aval for v in eqn.invars])
    return made if has_rule else None


def _rounded(jaxpr: Jaxpr, saved: set[Var]) -> Jaxpr:
    """Round saved values to their dtype before the function uses them.

    The compiler may compute with more precision than the dtype has. Without rounding, the function
    would use other values than those stored for the backward pass, so its derivatives would not
    match its results.
    """
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if isinstance(v, Var)}
    env: dict[Var, Atom] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        eqns.append(renamed(eqn, env) if env else eqn)
        for v in eqn.outvars:
            dtype = getattr(v.aval, "dtype", None)
            if v in saved and v in used and dtype is not None:
                if not dtypes.issubdtype(dtype, np.floating):
                    continue
                out = env[v] = Var(v.aval)
                eqns.append(
                    core.new_jaxpr_eqn(
                        [v],
                        [out],
                        reduce_precision_p,
                        _bits_of(dtype),
                        core.no_effects,
                        eqn.source_info,
                        eqn.ctx,
                    )
                )
    if not env:
        return jaxpr
    return with_eqns(jaxpr, eqns, outvars=[renamed_atom(v, env) for v in jaxpr.outvars])


def _bits_of(dtype: Any) -> dict[str, int]:
    info = dtypes.finfo(dtype)
    return dict(exponent_bits=info.nexp, mantissa_bits=info.nmant)


def origin(v: Any, producers: Mapping[Any, JaxprEqn]) -> JaxprEqn:
    """Return the equation that computes a saved value, before `split` rounds it to its dtype."""
    eqn = producers[v]
    if eqn.primitive is reduce_precision_p and eqn.params == _bits_of(eqn.outvars[0].aval.dtype):
        return producers.get(eqn.invars[0], eqn)
    return eqn


class _PolicyPlan(Plan):
    """The plan for a jaxpr that follows from a policy."""

    def __init__(self, closed: ClosedJaxpr, policy: Callable):
        super().__init__(closed.jaxpr)
        self.policy = policy
        for eqn in closed.jaxpr.eqns:
            rules = split_rules_of(eqn.primitive)
            if eqn.primitive is name_p and eqn.params["name"] is _KEPT:
                self.first.append(eqn)
                self._store_new(eqn.outvars, eqn)
            elif rules.partial_eval_custom is not None:
                self._add_by_rule(rules.partial_eval_custom, eqn)
            elif (two := rules.in_two(eqn, _Planner(policy))) is not None:
                self.first.extend(two.first)
                self.again.append(two.again)
                self._store_new(two.stored, eqn)
            elif any(isinstance(e, core.RefEffect) for e in eqn.effects) or _makes_ref(eqn):
                self._add_ref_operation(eqn)
            else:
                self._add(eqn)

    def _store_new(self, stored: Sequence[Var], eqn: JaxprEqn) -> None:
        """Store values that are not operands of the equation, which are available anyway."""
        for v in dict.fromkeys(stored):
            if not any(v is x for x in eqn.invars):
                self.store(v)

    def _add_by_rule(self, rule: Callable, eqn: JaxprEqn) -> None:
        n = len(eqn.invars)
        first, again, _, computed_again, stored = rule(self.policy, [False] * n, [True] * n, eqn)
        self.first.extend(first if isinstance(first, list) else [first] if first else [])
        if again is not None:
            self.again.append(again)
        self._store_new(stored, eqn)
        for v, done in zip(eqn.outvars, computed_again):
            if not done and not any(v is x for x in stored):
                self.store(v)

    def _add_ref_operation(self, eqn: JaxprEqn) -> None:
        self.first.append(eqn)
        if any(type(v.aval) is core.AbstractRef and v.aval.kind is not None for v in eqn.invars):
            # Store, since a repeated operation would change the reference twice
            for v in eqn.outvars:
                self.store(v)
        else:  # the reference is recomputed too, and later operations depend on its contents
            self.again.append(eqn)

    def _add(self, eqn: JaxprEqn) -> None:
        self.first.append(eqn)
        avals = [v.aval for v in eqn.invars]
        decision = self.policy(eqn.primitive, *avals, **eqn.params)
        if isinstance(decision, Offloadable):
            for v in eqn.outvars:
                away, put = _transfer(v, decision.dst, eqn)
                back = Var(away.aval)
                _, fetch = _transfer(back, decision.src, eqn, v)
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
        elif eqn.effects and not eqn.outvars and decision is not False:
            # What prints and stores nothing is repeated where that needs no stored values.
            if not any(v in self.saved for v in eqn.invars):
                self.again.append(eqn)
        elif eqn.effects and split_rules_of(eqn.primitive).repeats_effects:
            self.again.append(eqn)
        elif decision or (eqn.effects and eqn.outvars):
            # Functions with rules of their own that print do so once, since results are stored.
            for v in eqn.outvars:
                self.store(v)
        else:
            self.again.append(eqn)


@cached_on_jaxpr
def plan_of(closed: ClosedJaxpr, policy: Callable) -> Plan:
    return _PolicyPlan(closed, policy)


class _Planner(NamedTuple):
    """Returns plans by a policy, as an argument of `in_two`."""

    policy: Callable

    def __call__(self, closed: ClosedJaxpr) -> Plan:
        return plan_of(closed, self.policy)


def _makes_ref(eqn: JaxprEqn) -> bool:
    return any(type(v.aval) is core.AbstractRef for v in eqn.outvars)


def _transfer(v: Var, kind: str, producer: JaxprEqn, to: Var | None = None) -> tuple[Var, JaxprEqn]:
    """Return an equation that moves a value to another memory space, and its output variable."""
    space = placing.memory_kind_to_space(kind)
    params = dict(devices=(space,), srcs=(None,), copy_semantics=(placing.ALWAYS_COPY,))
    (aval,), effects = device_put_p.eval_types([v.aval], params)
    to = Var(aval) if to is None else to
    source = producer.source_info
    return to, core.new_jaxpr_eqn([v], [to], device_put_p, params, effects, source)


_scope = source_info_util.new_name_stack("rematted_computation")


def _marked(eqn: JaxprEqn) -> JaxprEqn:
    """Add a name to the equation that tells profilers that it is recomputed."""
    info = eqn.source_info
    return eqn.replace(source_info=info.replace(name_stack=_scope + info.name_stack))
