"""What back ends that compile kernels share: a table of rules for primitives, and the walk over a jaxpr.

A back end has one `RuleTable`. A rule turns an application of a primitive into operations of the back
end's dialects; what its operands and results are (values of MLIR, references, registers) is the back
end's affair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from jax._src import source_info_util
from jax._src.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.mlir.locations import TracebackCaches, source_info_to_location

Rule = Callable[..., Any]


class RuleTable:
    """The rules of a back end, by primitive and by semantics.

    Semantics are the ways in which one back end reads a kernel, such as those of a lane and of a group
    of warps; None stands for all that have no rule of their own.

    Args:
      target: what the back end compiles for, as errors name it: "TPUs (Mosaic)".
    """

    def __init__(self, target: str):
        self.target = target
        self._rules: dict[tuple[Primitive, Hashable], Rule] = {}

    def rule(self, *primitives: Primitive, semantics: Hashable = None) -> Callable[[Rule], Rule]:
        """Return a decorator that makes a function the rule of primitives.

        The function is called with a `RuleContext`, the operands, and the parameters by name. It returns
        a sequence of results, or the result of a primitive that has one.
        """

        def register(rule: Rule) -> Rule:
            for p in primitives:
                self._rules[p, semantics] = rule
            return rule

        return register

    def find(self, primitive: Primitive, semantics: Hashable = None) -> Rule | None:
        """Return the rule of a primitive; None if there is none."""
        return self._rules.get((primitive, semantics)) or self._rules.get((primitive, None))

    def primitives(self, semantics: Hashable = None) -> frozenset[Primitive]:
        """Return the primitives that have a rule."""
        return frozenset([p for p, s in self._rules if s is None or s == semantics])


class KernelContext:
    """What rules know of the kernel that is being compiled. Back ends derive from it.

    Args:
      rules: the back end's rules.
      name: the kernel's name and line, for errors.
      context: MLIR's context of the kernel's module.
      semantics: how the kernel is read.
    """

    def __init__(self, rules: RuleTable, name: str, context: Any, semantics: Hashable = None):
        self.rules = rules
        self.name = name
        self.semantics = semantics
        self.traceback_caches = TracebackCaches(context)

    def enter_scope(self, name: str) -> None:
        """Emit the start of a part that `jax.named_scope` names. Back ends without such do nothing."""

    def leave_scope(self) -> None:
        """Emit the end of the part that started last."""

    def constant(self, value: Any, aval: Any) -> Any:
        """Return a literal or a constant of a nested jaxpr as what rules take."""
        raise NotImplementedError


@dataclasses.dataclass(slots=True)
class RuleContext:
    """What a rule knows of the application that it compiles.

    Attributes:
      kernel: the kernel's.
      eqn: the equation.
      avals_in, avals_out: types of operands and results.
    """

    kernel: Any
    eqn: JaxprEqn
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]

    def replace(self, **changes: Any) -> RuleContext:
        return dataclasses.replace(self, **changes)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Rule:
    """Make a rule of a function that JAX can trace.

    Args:
      fun: function of arrays, and of the parameters by name.
      multiple_results: whether it returns a sequence of arrays instead of one array.
    """

    def rule(ctx: RuleContext, *args: Any, **params: Any) -> list[Any]:
        def run(*xs: Any) -> Any:
            out = fun(*xs, **params)
            return out if multiple_results else [out]

        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, ctx.avals_in)
        return lower_closed(ctx.kernel, ClosedJaxpr(jaxpr, consts), args)

    return rule


def lower_closed(kernel: KernelContext, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Emit the operations of a nested jaxpr, and return its results."""
    constants = [kernel.constant(c, v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars)]
    return lower_jaxpr(kernel, closed.jaxpr, args, constants)


def lower_jaxpr(
    kernel: KernelContext, jaxpr: Jaxpr, args: Sequence[Any], constants: Sequence[Any] = ()
) -> list[Any]:
    """Emit the operations of a jaxpr, each with its location, and return its results.

    Raises:
      NotImplementedError: if the back end has no rule for a primitive.
    """
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, constants))
    values.update(zip(jaxpr.invars, args))

    def read(v: Any) -> Any:
        return kernel.constant(v.val, v.aval) if type(v) is Literal else values[v]

    scopes: list[str] = []
    for eqn in jaxpr.eqns:
        _move(kernel, scopes, eqn.source_info.name_stack)
        rule = kernel.rules.find(eqn.primitive, kernel.semantics)
        if rule is None:
            raise NotImplementedError(_no_rule(kernel, eqn))
        ctx = RuleContext(kernel, eqn, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars])
        info = eqn.source_info
        location = source_info_to_location(kernel, eqn.primitive, info.name_stack, info.traceback)
        try:
            with eqn.ctx.manager, location:
                outs = rule(ctx, *map(read, eqn.invars), **eqn.params)
        except Exception as e:
            _say_where(e, kernel, eqn)
            raise
        outs = outs if eqn.primitive.multiple_results or isinstance(outs, (list, tuple)) else [outs]
        values.update(zip(eqn.outvars, outs, strict=True))
    _move(kernel, scopes, source_info_util.NameStack())
    return [read(v) for v in jaxpr.outvars]


def _move(kernel: KernelContext, scopes: list[str], name_stack: Any) -> None:
    """Leave the scopes, of those that have been entered, that an equation is not in, and enter its own."""
    names = [s.name for s in name_stack.stack if isinstance(s, source_info_util.Scope)]
    same = 0
    while same < min(len(scopes), len(names)) and scopes[same] == names[same]:
        same += 1
    for _ in scopes[same:]:
        kernel.leave_scope()
    for name in names[same:]:
        kernel.enter_scope(name)
    scopes[:] = names


def _no_rule(kernel: KernelContext, eqn: JaxprEqn) -> str:
    types = ", ".join([v.aval.str_short() for v in eqn.invars])
    return (
        f"Kernels for {kernel.rules.target} cannot have {eqn.primitive.name} of ({types}), at "
        f"{source_info_util.summarize(eqn.source_info)}, in {kernel.name}. Compute it outside of the kernel, or "
        "give pallas_call interpret=True."
    )


def _say_where(e: Exception, kernel: KernelContext, eqn: JaxprEqn) -> None:
    """Add the innermost line of the kernel to an error, once."""
    if getattr(e, "__notes__", None):
        return
    line = source_info_util.summarize(eqn.source_info)
    e.add_note(f"In {kernel.name}: {eqn.primitive.name} at {line}.")
