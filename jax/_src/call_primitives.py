"""Primitives that call a function and keep the call as one equation.

`call_p` and `closed_call_p` have no meaning beyond the call. Libraries define others with
`CallPrimitive`, which their interpreters recognise in jaxprs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import Primitive, Trace, eval_trace, trace_ctx, typeof
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.interpreters.calls import CallRules
from jax._src.interpreters.jaxpr_trace import JaxprTrace


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """Calls `f`, a function or a `WrappedFun`, on `args` eagerly."""
    del params  # parameters of the primitive, which only affect staged calls
    with core.eval_context():
        return f.call_wrapped(*args) if hasattr(f, "call_wrapped") else f(*args)


class _Rules(CallRules):
    """Transformation rules of a call primitive: they produce equations with a `call_jaxpr`."""

    primitive: CallPrimitive

    def params_for(self, params, closed, ins, outs):
        return dict(params, call_jaxpr=closed if self.primitive.closed else closed.jaxpr)

    def application(self, args, params, closed, ins, outs):
        if not self.primitive.closed:  # a jaxpr without constants: they become operands
            args = (*closed.consts, *args)
            closed = pe.close_jaxpr(pe.convert_constvars_jaxpr(closed.jaxpr))
        return super().application(args, params, closed, ins, outs)

    def call(self, args, params, closed, ins, outs):
        operands, params = self.application(args, params, closed, ins, outs)
        return self.primitive.bind_with_trace(trace_ctx.trace, operands, params)


class CallPrimitive(Primitive):
    """A primitive that calls a function.

    It is bound to arrays and one function, `p.bind(*args, subfuns=(fun,), **params)`. The function,
    a `linear_util.WrappedFun` or any callable, takes flat arguments and returns a list. Equations
    have the function's jaxpr in the parameter `call_jaxpr`, and closed-over values as additional
    operands. Transformations of a call are calls of the same primitive. `def_impl` and a lowering
    rule define how it is executed; `jax.extend.core.call_impl` and
    `jax.interpreters.mlir.core_call_lowering` call the function and do nothing else.

    Args:
      name: the name printed in jaxprs.

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
        self.rules = _Rules(self, "call_jaxpr")
        self.rules.install()

    def _no_impl(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(
            f"Evaluation rule for '{self.name}' not implemented: give it one with `def_impl`, for example"
            " jax.extend.core.call_impl."
        )

    # Binding

    def bind(self, *args: Any, **params: Any) -> Any:
        return self.bind_with_trace(trace_ctx.trace, args, params)

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if "subfuns" not in params:  # bound with the parameters of an equation
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
        """Calls a function in a trace: eagerly, or as an equation if the trace stages out."""
        if trace is eval_trace:
            return self.impl(fun, *args, **params)
        flat = getattr(fun, "call_wrapped", fun)
        if not _is_staging(trace):
            with core.set_current_trace(trace):
                return flat(*args)
        info = getattr(fun, "debug_info", None)
        closed, consts = pe.trace_to_closed(flat, [typeof(x) for x in args], info)
        operands = [*consts, *args]
        ins, outs = range(len(operands)), range(len(closed.out_avals))
        return trace.process_primitive(
            self, *self.rules.application(operands, params, closed, ins, outs)
        )

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters for `bind`, given those of an equation: the jaxpr becomes a function."""
        params = dict(params)
        closed = self.rules.closed_jaxpr(params)
        del params["call_jaxpr"]
        return dict(params, subfuns=(core.jaxpr_as_fun(closed),))


class ClosedCallPrimitive(CallPrimitive):
    """A call primitive whose equations hold a closed jaxpr."""

    closed = True


def _is_staging(trace: Any) -> bool:
    while trace is not eval_trace:
        if trace is None or isinstance(trace, (pe.DynamicJaxprTrace, JaxprTrace)):
            return True
        trace = getattr(trace, "parent", None)
    return False


call_p = CallPrimitive("call")
closed_call_p = ClosedCallPrimitive("closed_call")


def _lowering(name: str) -> Callable[..., Any]:
    def rule(ctx: Any, *args: Any, call_jaxpr: Any, name: str = name, **_: Any) -> Any:
        return mlir.core_call_lowering(ctx, *args, name=name, call_jaxpr=call_jaxpr)

    return rule


for _primitive in (call_p, closed_call_p):
    _primitive.def_impl(call_impl)
    mlir.register_lowering(_primitive, _lowering(_primitive.name))
