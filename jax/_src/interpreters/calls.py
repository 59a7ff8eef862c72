"""The rules of primitives that call a jaxpr: `jit`, `checkpoint`, `call` and those of outside code.

A transformation of a call is a call of the transformed jaxpr. What differs between these primitives is
how an application to another jaxpr is written; `CallRules` asks for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, JaxprEqn, Primitive, Var
from jax._src.interpreters import ad, batching, partial_eval as pe
from jax._src.interpreters.splitting import (
    Marks,
    all_dependent,
    dependent_outs,
    divide_jaxpr,
    has_effects,
)

Params = dict[str, Any]
# Positions of arguments or results among those of the call that is transformed; None for new ones.
Positions = Sequence[int | None]


def positions(marks: Sequence[Any]) -> list[int]:
    """The indices of what is marked."""
    return [i for i, m in enumerate(marks) if m]


class CallRules:
    """The rules of a primitive that calls the closed jaxpr in one of its parameters.

    Args:
      primitive: the primitive; its slots are assigned where it is defined.
      name: the parameter.
    """

    def __init__(self, primitive: Primitive, name: str = "jaxpr"):
        self.primitive = primitive
        self.name = name

    # What may be different for a primitive

    def closed_jaxpr(self, params: Params) -> ClosedJaxpr:
        closed: ClosedJaxpr = params[self.name]
        return closed

    def params_for(
        self, params: Params, closed: ClosedJaxpr, ins: Positions, outs: Positions
    ) -> Params:
        """Parameters of a call of another jaxpr, whose arguments and results are `ins` and `outs`."""
        return dict(params, **{self.name: closed})

    def application(
        self,
        args: Sequence[Any],
        params: Params,
        closed: ClosedJaxpr,
        ins: Positions,
        outs: Positions,
    ) -> tuple[Sequence[Any], Params]:
        """Operands and parameters of an equation that calls another jaxpr, which may close over tracers."""
        closed, tracers = pe.hoist_tracers(closed)
        params = self.params_for(params, closed, [*[None] * len(tracers), *ins], outs)
        return (*tracers, *args), params

    def call(
        self,
        args: Sequence[Any],
        params: Params,
        closed: ClosedJaxpr,
        ins: Positions,
        outs: Positions,
    ) -> list[Any]:
        results: list[Any] = self.primitive.bind(
            *args, **self.params_for(params, closed, ins, outs)
        )
        return results

    def keeping_args(self, params: Params, kept: Sequence[int] | None = None) -> Params:
        """Parameters of a call after which the arguments at these positions (None: all) are needed."""
        return params

    def transposed_params(self, params: Params) -> Params:
        """Parameters whose arguments are arguments, then results; and whose results are arguments."""
        return params

    def batched_params(
        self,
        params: Params,
        axis_data: batching.AxisData,
        dims: Sequence[Any],
        out_dims: Sequence[Any],
    ) -> Params:
        return params

    # The rules

    def types(self, *avals: object, **params: object) -> tuple[Sequence[Any], core.Effects]:
        closed = self.closed_jaxpr(params)
        return closed.out_avals, closed.effects

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        closed = self.closed_jaxpr(params)
        nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
        jvp, nonzero_outs = ad.jvp_jaxpr(closed, nonzeros)
        n = len(closed.out_avals)
        args = [*primals, *[t for t in tangents if type(t) is not ad.Zero]]
        ins = [*range(len(primals)), *positions(nonzeros)]
        results = self.call(args, params, jvp, ins, [*range(n), *positions(nonzero_outs)])
        return results[:n], with_zeros(results[n:], nonzero_outs, closed)

    def linearize(self, primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> Any:
        closed = self.closed_jaxpr(params)
        nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
        lin = ad.linearize_jaxpr(closed, nonzeros)
        n = len(closed.out_avals)
        extra = [None] * (len(lin.primal.out_avals) - n)
        params = self.keeping_args(params, [i for kind, i in lin.residual_sources if kind == "in"])
        ins = range(len(primals))
        results = self.call(primals, params, lin.primal, ins, [*range(n), *extra])
        out_tangents: list[Any] = []
        if any(lin.nonzero_outs):
            residuals = lin.residuals(primals, results)
            kept = positions(nonzeros)
            out_tangents = self.call(
                [*residuals, *[tangents[i] for i in kept]], self.keeping_args(params), lin.tangent,
                [*[None] * len(residuals), *kept], positions(lin.nonzero_outs),
            )  # fmt: skip
        return results[:n], with_zeros(out_tangents, lin.nonzero_outs, closed)

    def record(self, tape: ad.TapeTrace, args: Sequence[Any], params: Params) -> list[Any]:
        """Record a call with tangents among its arguments: what is known is computed by a call now."""
        closed = self.closed_jaxpr(params)
        linear = tuple([tape.is_linear(x) for x in args])
        if all_dependent(closed, linear):
            recorded: list[Any] = tape.record_eqn(self.primitive, args, params)
            return recorded
        split = ad.split_jaxpr(closed, linear)
        params = self.keeping_args(params)
        known_ins, linear_ins = positions([not m for m in linear]), positions(linear)
        known_outs = positions([not dep for dep in split.nonzero_outs])
        linear_outs = positions(split.nonzero_outs)
        known_args = [args[i] for i in known_ins]
        results: list[Any] = []
        if split.primal.out_avals or split.primal.effects:
            outs = [*known_outs, *[None] * (len(split.primal.out_avals) - len(known_outs))]
            with core.set_current_trace(tape.parent):
                results = self.call(known_args, params, split.primal, known_ins, outs)
        recorded = []
        if linear_outs:
            residuals = split.residuals(known_args, results)
            ins = [*[None] * len(residuals), *linear_ins]
            operands = [*residuals, *[args[i] for i in linear_ins]]
            recorded = tape.record_eqn(
                self.primitive, *self.application(operands, params, split.tangent, ins, linear_outs)
            )
        known, dependent = iter(results), iter(recorded)
        return [next(dependent) if dep else next(known) for dep in split.nonzero_outs]

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        linear = tuple([ad.is_undefined_primal(x) for x in args])
        ct_nonzero = tuple([type(ct) is not ad.Zero for ct in cts])
        transposed, nonzero_outs = ad.transpose_jaxpr(self.closed_jaxpr(params), linear, ct_nonzero)
        known_ins, linear_ins = positions([not m for m in linear]), positions(linear)
        results = iter(
            self.call(
                [*[args[i] for i in known_ins], *[ct for ct in cts if type(ct) is not ad.Zero]],
                self.transposed_params(params),
                transposed,
                [*known_ins, *[len(args) + i for i in positions(ct_nonzero)]],
                [i for i, nz in zip(linear_ins, nonzero_outs) if nz],
            )
        )
        nonzero = iter(nonzero_outs)
        return [
            (next(results) if next(nonzero) else ad.Zero(x.aval.to_ct_aval())) if lin else None
            for x, lin in zip(args, linear)
        ]

    def batch(
        self,
        axis_data: batching.AxisData,
        args: Sequence[Any],
        dims: Sequence[Any],
        **params: object,
    ) -> tuple[list[Any], list[Any]]:
        batched, out_dims = batching.batch_jaxpr2(self.closed_jaxpr(params), axis_data, dims)
        params = self.batched_params(params, axis_data, dims, out_dims)
        results = self.call(args, params, batched, range(len(args)), range(len(out_dims)))
        return results, list(out_dims)

    def dependence(self, marked: Marks, **params: object) -> Marks:
        return dependent_outs(self.closed_jaxpr(params), tuple(marked))

    def dce(self, used_outputs: Marks, eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        if not any(used_outputs) and not has_effects(eqn):
            return [False] * len(eqn.invars), None
        closed = self.closed_jaxpr(eqn.params)
        jaxpr, used_inputs = pe.dce_jaxpr(closed.jaxpr, used_outputs)
        if jaxpr is closed.jaxpr:
            return used_inputs, eqn
        if jaxpr.constvars:
            key = ("dce closed", jaxpr)
            smaller = closed._cache.get(key)
            if smaller is None:
                smaller = closed._cache[key] = ClosedJaxpr(jaxpr, closed.consts)
        else:
            smaller = pe.close_jaxpr(jaxpr)
        ins, outs = positions(used_inputs), positions(used_outputs)
        new_eqn = eqn.replace(
            invars=[eqn.invars[i] for i in ins],
            outvars=[eqn.outvars[i] for i in outs],
            params=self.params_for(eqn.params, smaller, ins, outs),
            effects=jaxpr.effects,
        )
        return used_inputs, new_eqn

    def divide(self, eqn: JaxprEqn, known: Marks) -> tuple[JaxprEqn | None, JaxprEqn]:
        parts = divide_jaxpr(self.closed_jaxpr(eqn.params), tuple(known))
        if parts is None:
            return None, eqn
        params = self.keeping_args(eqn.params)
        known_ins, known_outs = positions(known), positions(parts.known_outs)
        rest_ins, rest_outs = (
            positions(parts.rest_ins),
            positions([not k for k in parts.known_outs]),
        )
        handed = [Var(a) for a in parts.known.out_avals[len(known_outs) :]]
        new = [None] * len(handed)
        before = eqn.replace(
            invars=[eqn.invars[i] for i in known_ins],
            outvars=[*[eqn.outvars[i] for i in known_outs], *handed],
            params=self.params_for(params, parts.known, known_ins, [*known_outs, *new]),
        )
        rest = eqn.replace(
            invars=[*handed, *[eqn.invars[i] for i in rest_ins]],
            outvars=[eqn.outvars[i] for i in rest_outs],
            params=self.params_for(params, parts.rest, [*new, *rest_ins], rest_outs),
        )
        return before, rest


def with_zeros(tangents: Sequence[Any], nonzero: Marks, closed: ClosedJaxpr) -> list[Any]:
    """Tangents of all results of a jaxpr, from those that are not zero."""
    live = iter(tangents)
    return [
        next(live) if nz else ad.Zero(a.to_tangent_aval())
        for a, nz in zip(closed.out_avals, nonzero)
    ]
