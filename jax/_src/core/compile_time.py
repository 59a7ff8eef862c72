"""Evaluation during tracing: operations on concrete values only are executed immediately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jax._src.core.trace import Trace, Tracer, eval_trace, set_current_trace, trace_ctx

if TYPE_CHECKING:
    from jax._src.core.primitive import Primitive


class CompileTimeTrace(Trace):
    """Executes operations on concrete values; the parent trace gets those with traced operands."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent

    @property
    def parent_trace(self) -> Trace:
        return self.parent

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        trace = self.parent if any([isinstance(x, Tracer) for x in args]) else eval_trace
        with set_current_trace(trace):
            return primitive.bind_with_trace(trace, args, params)

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        if not any([isinstance(x, Tracer) for x in args]):
            return fun(*args)
        with set_current_trace(self.parent):
            return primitive.bind_with_trace(
                self.parent, (fun, jvp, *args), dict(symbolic_zeros=symbolic_zeros)
            )

    def process_custom_vjp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        *,
        out_trees: Callable[[], Any],
        symbolic_zeros: bool,
    ) -> Any:
        if not any([isinstance(x, Tracer) for x in args]):
            return fun(*args)
        params = dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros)
        with set_current_trace(self.parent):
            return primitive.bind_with_trace(self.parent, (fun, fwd, bwd, *args), params)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Context manager: execute operations on concrete values immediately, even while tracing.

    Operations with a traced operand are traced as usual.

    >>> @jax.jit
    ... def f(x):
    ...   with jax.ensure_compile_time_eval():
    ...     n = int(jnp.arange(4).sum())
    ...   return x * n
    >>> f(2.)
    Array(12., dtype=float32, weak_type=True)
    """
    trace = trace_ctx.trace
    if trace is not eval_trace and type(trace) is not CompileTimeTrace:
        trace = CompileTimeTrace(trace)
    with set_current_trace(trace):
        yield
