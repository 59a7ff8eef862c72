"""The rules of primitives that call a jaxpr: `jit`, `checkpoint`, `call` and external primitives.

To transform a call is to call the transformed jaxpr. These primitives differ only in the parameters
of the equation that calls the new jaxpr; subclasses of `CallRules` supply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, Primitive
from jax._src.interpreters import ad, batching, lojax, partial_eval as pe
from jax._src.interpreters.split_rules import CallSplitRules, Params, Positions, positions
from jax._src.interpreters.splitting import Marks


class CallRules(CallSplitRules):
    """The rules of a primitive that calls a closed jaxpr.

    Args:
      primitive: the primitive; `install` assigns its slots.
      name: the parameter that contains the jaxpr.
      hands_on: see `CallSplitRules`.
    """

    def __init__(self, primitive: Primitive, name: str = "jaxpr", hands_on: bool = True):
        super().__init__(name, hands_on)
        self.primitive = primitive

    def install(self) -> None:
        """Assign these rules to the primitive."""
        p = self.primitive
        p.def_effectful_abstract_eval(self.types)
        p.jvp = self.jvp
        p.linearize = self.linearize
        p.transpose = self.transpose
        p.axis_batch = self.batch
        p.split = self
        p.to_lojax = self.to_lojax  # type: ignore[method-assign]
        p.mutates = lambda **params: self.closed_jaxpr(params).final_aval_qdds

    # Methods that subclasses may override, besides those of `CallSplitRules`

    def application(
        self,
        args: Sequence[Any],
        params: Params,
        closed: ClosedJaxpr,
        ins: Positions,
        outs: Positions,
    ) -> tuple[Sequence[Any], Params]:
        """Return the operands and parameters of an equation that calls `closed`.

        `closed` may have tracers among its constants; they become operands.
        """
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

    def transposed_params(self, params: Params) -> Params:
        """Return the parameters of the transposed call.

        Its arguments are the known arguments, then the cotangents of results; its results are the
        cotangents of the linear arguments.
        """
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

    def to_lojax(self, *args: Any, **params: Any) -> list[Any]:
        low = lojax.lower_jaxpr(self.closed_jaxpr(params))
        arrays = low.lower_args(args)
        outs = self.call(arrays, params, low.closed, low.in_sources, low.result_sources())
        return low.raise_outs(args, outs)

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


def with_zeros(tangents: Sequence[Any], nonzero: Marks, closed: ClosedJaxpr) -> list[Any]:
    """Return tangents of all results of a jaxpr, given those that are not zero."""
    live = iter(tangents)
    return [
        next(live) if nz else ad.Zero(a.to_tangent_aval())
        for a, nz in zip(closed.out_avals, nonzero)
    ]
