"""Primitives that call a function, and keep the call as one equation.

`call_p` and `closed_call_p` mean nothing but the call; outside code makes others with `CallPrimitive`,
whose equations its interpreters recognise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, Jaxpr, Primitive, Trace, eval_trace, trace_ctx, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.partial_values import JaxprTrace, dce_jaxpr_call_rule
from jax._src.trace_queries import call_impl


class CallPrimitive(Primitive):
    """A primitive that calls a function.

    It is bound to arrays and one function, `p.bind(*args, subfuns=(fun,), **params)`; the function, a
    `linear_util.WrappedFun` or any callable, takes flat arguments and returns a list. Its equations have
    the function's jaxpr in the parameter `call_jaxpr`, and values that the function closes over as further
    operands. Every transformation makes calls of the same primitive. `def_impl` and a lowering rule say
    how to run it; `jax.extend.core.call_impl` and `jax.interpreters.mlir.core_call_lowering` just call.

    Args:
      name: as printed in jaxprs.

    >>> from jax.extend.core import CallPrimitive, call_impl
    >>> from jax.extend.linear_util import wrap_init
    >>> block_p = CallPrimitive('block')
    >>> _ = block_p.def_impl(call_impl)
    >>> def f(x):
    ...   return block_p.bind(x, subfuns=(wrap_init(lambda x: [x * 2]),), tag=1)[0]
    >>> f(3), jax.make_jaxpr(f)(3).eqns[0].primitive
    (6, block)
    """

    call_primitive = True
    closed = False  # whether `call_jaxpr` is a ClosedJaxpr

    def __init__(self, name: str):
        super().__init__(name, multiple_results=True)
        self.impl = self._no_impl
        self.effectful_abstract_eval = self._types
        self.jvp = self._jvp
        self.linearize = self._linearize
        self.record = self._record
        self.transpose = self._transpose
        self.axis_batch = self._batch
        self.dce = pe.dce_jaxpr_closed_call_rule if self.closed else dce_jaxpr_call_rule
        self.dependence = lambda marked, **params: pe.dependent_outs(
            self.closed_jaxpr(params), tuple(marked)
        )

    def _no_impl(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(
            f"Evaluation rule for '{self.name}' not implemented: give it one with `def_impl`, for example"
            " jax.extend.core.call_impl."
        )

    # Binding

    def bind(self, *args: Any, **params: Any) -> Any:
        return self.bind_with_trace(trace_ctx.trace, args, params)

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if "subfuns" not in params:  # as in an equation
            if "call_jaxpr" not in params:
                raise TypeError(
                    f"{self.name} is bound to arrays and one function, subfuns=(fun,): got parameters"
                    f" {', '.join(params) or 'none'}."
                )
            if trace is not eval_trace:
                return trace.process_primitive(self, args, params)
            params = self.get_bind_params(params)
        params = dict(params)
        (fun,) = params.pop("subfuns")
        return trace.process_call(self, fun, args, params)

    def call_in(self, trace: Trace, fun: Callable, args: Sequence[Any], params: dict) -> Any:
        """Calls a function in a trace: at once, or as an equation of what is being staged."""
        if trace is eval_trace:
            return self.impl(fun, *args, **params)
        flat = getattr(fun, "call_wrapped", fun)
        if not _is_staging(trace):
            with core.set_current_trace(trace):
                return flat(*args)
        info = getattr(fun, "debug_info", None)
        closed, consts = pe.trace_to_closed(flat, [typeof(x) for x in args], info)
        return trace.process_primitive(self, *self._as_eqn([*consts, *args], closed, params))

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters to `bind` with, from those of an equation: the jaxpr as a function."""
        params = dict(params)
        closed = self.closed_jaxpr(params)
        del params["call_jaxpr"]
        return dict(params, subfuns=(core.jaxpr_as_fun(closed),))

    def closed_jaxpr(self, params: dict[str, Any]) -> ClosedJaxpr:
        """The function of an equation with these parameters."""
        jaxpr = params["call_jaxpr"]
        return pe.close_jaxpr(jaxpr) if isinstance(jaxpr, Jaxpr) else jaxpr

    def _as_eqn(self, args: Sequence[Any], closed: ClosedJaxpr, params: dict) -> Any:
        """Operands and parameters of a call of a jaxpr."""
        if self.closed:
            closed, consts = pe.hoist_tracers(closed)
            return (*consts, *args), dict(params, call_jaxpr=closed)
        jaxpr = pe.convert_constvars_jaxpr(closed.jaxpr)
        return (*closed.consts, *args), dict(params, call_jaxpr=jaxpr)

    def _call(self, args: Sequence[Any], closed: ClosedJaxpr, params: dict) -> Any:
        operands, params = self._as_eqn(args, closed, params)
        return self.bind_with_trace(trace_ctx.trace, operands, params)

    # Rules

    def _types(self, *avals: Any, **params: Any) -> Any:
        closed = self.closed_jaxpr(params)
        return closed.out_avals, closed.effects

    def _jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        closed = self.closed_jaxpr(params)
        live = [t for t in tangents if type(t) is not ad.Zero]
        jvp, nonzero = ad.jvp_jaxpr(closed, tuple([type(t) is not ad.Zero for t in tangents]))
        outs = self._call([*primals, *live], jvp, params)
        n = len(closed.out_avals)
        return outs[:n], _fill_in(outs[n:], nonzero, closed.out_avals)

    def _linearize(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        closed = self.closed_jaxpr(params)
        live = [t for t in tangents if type(t) is not ad.Zero]
        lin = ad.linearize_jaxpr(closed, tuple([type(t) is not ad.Zero for t in tangents]))
        outs = self._call(primals, lin.primal, params)
        n = len(closed.out_avals)
        out_tangents: Any = ()
        if any(lin.nonzero_outs):
            residuals = lin.residuals(primals, outs)
            out_tangents = self._call([*residuals, *live], lin.tangent, params)
        return outs[:n], _fill_in(out_tangents, lin.nonzero_outs, closed.out_avals)

    def _record(self, tape: Any, args: Sequence[Any], params: dict) -> Any:
        closed = self.closed_jaxpr(params)
        linear = tuple([tape.is_linear(x) for x in args])
        if pe.all_dependent(closed, linear):
            return tape.record_eqn(self, args, params)
        split = ad.split_jaxpr(closed, linear)
        known_args = [x for x, lin in zip(args, linear) if not lin]
        known: Any = []
        if split.known.out_avals or split.known.effects:
            with core.set_current_trace(tape.parent):
                known = self._call(known_args, split.known, params)
        where = {"in": known_args, "res": known[len(split.depends) - sum(split.depends) :]}
        residuals = [where[kind][i] for kind, i in split.residual_sources]
        recorded: Any = ()
        if any(split.depends):
            operands = [*residuals, *[x for x, lin in zip(args, linear) if lin]]
            recorded = tape.record_eqn(self, *self._as_eqn(operands, split.tangent, params))
        values, dependent = iter(known), iter(recorded)
        return [next(dependent) if dep else next(values) for dep in split.depends]

    def _transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> Any:
        closed = self.closed_jaxpr(params)
        linear = tuple([ad.is_undefined_primal(x) for x in args])
        live = [ct for ct in cts if type(ct) is not ad.Zero]
        transposed, nonzero = ad.transpose_jaxpr(
            closed, linear, tuple([type(ct) is not ad.Zero for ct in cts])
        )
        others = [x for x, lin in zip(args, linear) if not lin]
        results = iter(self._call([*others, *live], transposed, params))
        nonzero = iter(nonzero)
        return [
            (next(results) if next(nonzero) else ad.Zero(x.aval.to_ct_aval())) if lin else None
            for x, lin in zip(args, linear)
        ]

    def _batch(self, axis_data: Any, args: Sequence[Any], dims: Sequence[Any], **params: Any):
        closed = self.closed_jaxpr(params)
        batched, out_dims = batching.batch_jaxpr2(closed, axis_data, dims)
        return self._call(args, batched, params), list(out_dims)


class ClosedCallPrimitive(CallPrimitive):
    """A call primitive whose equations have a closed jaxpr."""

    closed = True


def _is_staging(trace: Any) -> bool:
    while trace is not eval_trace:
        if trace is None or isinstance(trace, (pe.DynamicJaxprTrace, JaxprTrace)):
            return True
        trace = getattr(trace, "parent", None)
    return False


def _fill_in(tangents: Sequence[Any], nonzero: Sequence[bool], avals: Sequence[Any]) -> list[Any]:
    live = iter(tangents)
    return [next(live) if nz else ad.Zero(a.to_tangent_aval()) for a, nz in zip(avals, nonzero)]


call_p = CallPrimitive("call")
closed_call_p = ClosedCallPrimitive("closed_call")


def _lowering(name: str) -> Callable[..., Any]:
    def rule(ctx: Any, *args: Any, call_jaxpr: Any, name: str = name, **_: Any) -> Any:
        return mlir.core_call_lowering(ctx, *args, name=name, call_jaxpr=call_jaxpr)

    return rule


for _primitive in (call_p, closed_call_p):
    _primitive.def_impl(call_impl)
    mlir.register_lowering(_primitive, _lowering(_primitive.name))
