"""Derivatives of eager `shard_map`s: the function runs in Python on values with tangents.

So Python sees the values of a function that is differentiated too. Tangents are pairs inside: in
forward mode they leave the body with the results. In reverse mode the residuals leave it, and the
linear part, which the tape inside has recorded, becomes the body of a second shard_map.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, Primitive, ShapedArray, Tracer, eval_trace, trace_ctx
from jax._src.interpreters import ad
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import eager
from jax._src.shard_map.residuals import spec_of, taking_residuals, with_dimension
from jax._src.shard_map.rules import apply, select, with_outer_zeros


def can_run(trace: Any, args: Sequence[Any], in_avals: Sequence[Any]) -> bool:
    """Whether a call in this trace differentiates an eager one, and its arguments are arrays."""
    return (
        isinstance(trace, ad.TangentTrace)
        and trace.parent is eval_trace
        and all([type(a) is ShapedArray for a in in_avals])
        and all([not isinstance(x, Tracer) or x._trace is trace for x in args])
    )


def run(
    body: Callable, args: Sequence[Any], in_avals: Sequence[Any], in_specs: Sequence[PartitionSpec],
    out_specs: list[PartitionSpec], params: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """Like `eager.run`, in the trace of a differentiation.

    Raises:
      eager.ClosesOverTracerError: the function closes over a tracer.
    """
    # The trace calls the rules of an operation. This one belongs to the call.
    call = Primitive("shard_map", multiple_results=True)
    rules = _Rules(body, in_avals, in_specs, out_specs, params)
    call.def_impl(lambda *args: eager.run(body, args, in_avals, in_specs, out_specs, params))
    call.jvp = rules.jvp
    call.linearize = rules.linearize
    outs: list[Any] = trace_ctx.trace.process_primitive(call, args, {})
    return outs


@dataclasses.dataclass(frozen=True)
class _Rules:
    """The derivatives of a call; the attributes are the parameters of `run`."""

    body: Callable
    in_avals: Sequence[Any]
    in_specs: Sequence[PartitionSpec]
    out_specs: list[PartitionSpec]
    params: dict[str, Any]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        nonzero = [type(t) is not ad.Zero for t in tangents]
        nonzero_outs: list[bool] = []
        n = len(primals)

        def with_tangents(*shards: Any) -> list[Any]:
            inner = ad.JVPTrace(trace_ctx.trace)
            ts = iter(shards[n:])
            ins = [ad.JVPTracer(inner, x, next(ts)) if nz else x for x, nz in zip(shards, nonzero)]
            with core.set_current_trace(inner):
                pairs = [inner.to_primal_tangent_pair(x) for x in self.body(*ins)]
            inner.invalidate()
            nonzero_outs[:] = [type(t) is not ad.Zero for _, t in pairs]
            self.out_specs.extend(select(self.out_specs, nonzero_outs))
            return [*[p for p, _ in pairs], *[t for _, t in pairs if type(t) is not ad.Zero]]

        results = eager.run(
            with_tangents, [*primals, *select(tangents, nonzero)],
            [*self.in_avals, *[a.to_tangent_aval() for a in select(self.in_avals, nonzero)]],
            [*self.in_specs, *select(self.in_specs, nonzero)], self.out_specs, self.params,
        )  # fmt: skip
        m = len(nonzero_outs)
        del self.out_specs[m:]
        return results[:m], with_outer_zeros(results[m:], nonzero_outs, results[:m])

    def linearize(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        nonzero = [type(t) is not ad.Zero for t in tangents]
        found: list[Any] = []

        def with_residuals(*shards: Any) -> list[Any]:
            base = trace_ctx.trace
            inner = ad.linearize_trace(base)
            ins = [inner.new_arg(x) if nz else x for x, nz in zip(shards, nonzero)]
            avals = [x.tangent.aval for x in select(ins, nonzero)]
            with core.set_current_trace(inner):
                pairs = [inner.to_primal_tangent_pair(x) for x in self.body(*ins)]
            inner.invalidate()
            nonzero_outs = [type(t) is not ad.Zero for _, t in pairs]
            kept = [t for _, t in pairs if type(t) is not ad.Zero]
            linear, values = ad.Linearized(inner.tape, avals, kept).to_jaxpr()
            stored = [isinstance(x, Tracer) and x._trace is base for x in values]
            residuals = select(values, stored)
            fixed = [not s for s in stored]
            linear = linear.replace(
                constvars=select(linear.constvars, fixed),
                invars=[*select(linear.constvars, stored), *linear.invars],
                debug_info=linear.debug_info.with_unknown_names(),
            )
            closed = ClosedJaxpr(linear, select(values, fixed))
            specs = [spec_of(x.aval, self.params) for x in residuals]
            self.out_specs.extend(specs)
            found[:] = [
                nonzero_outs,
                taking_residuals(closed, [True] * len(specs), self.params),
                specs,
            ]
            return [*[p for p, _ in pairs], *[with_dimension(x, self.params) for x in residuals]]

        results = eager.run(
            with_residuals, primals, self.in_avals, self.in_specs, self.out_specs, self.params
        )
        nonzero_outs, linear, specs = found
        n = len(nonzero_outs)
        del self.out_specs[n:]
        out_tangents: list[Any] = []
        if any(nonzero_outs):
            out_tangents = apply(
                self.params, linear, [*results[n:], *select(tangents, nonzero)],
                [*specs, *select(self.in_specs, nonzero)], select(self.out_specs, nonzero_outs),
            )  # fmt: skip
        return results[:n], with_outer_zeros(out_tangents, nonzero_outs, results[:n])
