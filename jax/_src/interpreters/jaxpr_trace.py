"""Partial evaluation of functions, some of whose arguments are known only by their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jax._src import core, source_info_util
from jax._src.core import (
    AbstractValue,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    Trace,
    Tracer,
    Var,
    trace_ctx,
    typeof,
)
from jax._src.core.jaxpr import is_literalable, unknown_debug_info
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.ad.tape import TapeTrace

if TYPE_CHECKING:
    from jax._src.core.jaxpr import DebugInfo

# `rule(trace, *args, **params)` returns the results of a primitive that has unknown operands.
custom_partial_eval_rules: dict[Primitive, Callable[..., Any]] = {}


class PartialVal(tuple[Any, Any]):
    """A known value, `(None, value)`, or an unknown value of a known type, `(aval, None)`.

    Args:
      xs: the pair.

    >>> from jax.interpreters.partial_eval import PartialVal
    >>> PartialVal.known(2.).is_known(), PartialVal.unknown(jax.typeof(2.)).is_known()
    (True, False)
    """

    def __new__(cls, xs: Sequence[Any]) -> PartialVal:
        aval, value = xs
        if aval is not None and not isinstance(aval, AbstractValue):
            raise TypeError(f"PartialVal takes a type or None first, got {aval!r}.")
        if aval is not None and value is not None:
            raise TypeError(f"PartialVal is known or unknown, got both {aval} and {value!r}.")
        return tuple.__new__(cls, (aval, value))

    @classmethod
    def known(cls, const: object) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: AbstractValue) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        """Return the value, or None if it is unknown."""
        return self[1]

    def get_aval(self) -> AbstractValue:
        """Return the type of a known or unknown value."""
        return typeof(self[1]) if self[0] is None else self[0]


class LambdaBinding:
    """The recipe of an argument."""

    def __repr__(self) -> str:
        return "LambdaBinding()"


class EqnRecipe(NamedTuple):
    """The recipe of an operation's result: the equation and its operands."""

    eqn: JaxprEqn
    in_tracers: tuple[Any, ...]


class JaxprTracer(Tracer):
    """A value of which only the type is known.

    Attributes:
      pval: the type, as a `PartialVal`.
      recipe: how the value is computed: a `LambdaBinding` or an `EqnRecipe`.
    """

    __slots__ = ("pval", "recipe", "var")
    _trace: JaxprTrace

    def __init__(self, trace: JaxprTrace, pval: PartialVal, recipe: Any = None):
        self._trace = trace
        self.aval = pval.get_aval()
        self.pval = pval
        self.recipe = recipe
        self.var = Var(self.aval)

    @property
    def parents(self) -> list[JaxprTracer]:
        """The unknown operands of the operation that computes this value."""
        if not isinstance(self.recipe, EqnRecipe):
            return []
        return [x for x in self.recipe.in_tracers if isinstance(x, JaxprTracer)]

    def is_known(self) -> bool:
        return self.pval.is_known()

    def __repr__(self) -> str:
        return f"Traced<{self.aval}:{self._trace}>"

    __str__ = __repr__


core.register_tracer_class(JaxprTracer)


class JaxprTrace(TapeTrace):
    """Evaluates operations on known values in the parent trace, and records the others."""

    __slots__ = ("jaxpr_eqns",)

    def __init__(self, parent: Trace):
        super().__init__(parent)
        self.jaxpr_eqns: list[tuple[JaxprEqn, tuple[Any, ...]]] = []

    def new_arg(self, pval: PartialVal) -> Any:
        """Return a tracer for an unknown argument; a known one is returned as its value."""
        if pval.is_known():
            return pval.get_known()
        return JaxprTracer(self, pval, LambdaBinding())

    def is_linear(self, x: object) -> bool:
        return type(x) is JaxprTracer and x._trace is self

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if not any(map(self.is_linear, args)):
            return self.parent.bind_here(primitive, args, params)
        rule = custom_partial_eval_rules.get(primitive)
        if rule is not None:
            return rule(self, *args, **params)
        return self.record(primitive, args, params)

    def record_eqn(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record an equation and return tracers for its unknown results."""
        out_avals, effects = primitive.eval_types([typeof(x) for x in args], params)
        many = primitive.multiple_results
        outs = [
            JaxprTracer(self, PartialVal.unknown(a)) for a in (out_avals if many else [out_avals])
        ]
        operands = [x.var if self.is_linear(x) else Var(typeof(x)) for x in args]
        eqn = core.new_jaxpr_eqn(
            operands, [x.var for x in outs], primitive, params, effects, source_info_util.current()
        )
        self.jaxpr_eqns.append((eqn, tuple(args)))
        for x in outs:
            x.recipe = EqnRecipe(eqn, tuple(args))
        return outs if many else outs[0]

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        return self._custom(primitive, (fun, jvp), args, dict(symbolic_zeros=symbolic_zeros))

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
        params = dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros)
        return self._custom(primitive, (fun, fwd, bwd), args, params)

    def _custom(
        self, primitive: Primitive, funs: Sequence[Any], args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Record a function with custom derivatives as an equation, to keep its rules."""
        if not any(map(self.is_linear, args)):
            return self.parent.bind_here(primitive, (*funs, *args), params)

        def call(*xs: object) -> Any:
            return primitive.bind_with_trace(trace_ctx.trace, (*funs, *xs), params)

        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(call, [typeof(x) for x in args])
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))
        for eqn in jaxpr.eqns:
            operands = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            env.update(zip(eqn.outvars, self.record_eqn(eqn.primitive, operands, eqn.params)))
        return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def __repr__(self) -> str:
        return "JaxprTrace"


def trace_to_jaxpr_nounits(
    fun: Callable[..., Any], pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluate a function partially: compute what depends on known arguments only.

    Args:
      fun: a function of flat arguments that returns a sequence, or a `linear_util.WrappedFun`.
      pvals: the arguments, known or unknown.
      instantiate: which results to treat as unknown even if they are known; True for all.

    Returns:
      A jaxpr from the unknown arguments to the unknown results; all results, known or unknown; and
      the values of the jaxpr's constants.

    >>> from jax.interpreters.partial_eval import PartialVal, trace_to_jaxpr_nounits
    >>> pvals = [PartialVal.known(2.), PartialVal.unknown(jax.typeof(1.))]
    >>> jaxpr, outs, consts = trace_to_jaxpr_nounits(lambda x, y: [x * 2, x * y], pvals)
    >>> print(jaxpr, outs[0])
    { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) } (None, 4.0)
    """
    flat = getattr(fun, "call_wrapped", fun)
    info = getattr(fun, "debug_info", None) or unknown_debug_info
    trace = JaxprTrace(trace_ctx.trace)
    args = [trace.new_arg(p) for p in pvals]
    with core.set_current_trace(trace):
        outs = list(flat(*args))
    wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
    if len(wanted) != len(outs):
        raise ValueError(
            f"instantiate has {len(wanted)} entries for a function with {len(outs)} results."
        )
    out_pvals = []
    for i, x in enumerate(outs):
        unknown = trace.is_linear(x) or wanted[i]
        out_pvals.append(PartialVal.unknown(typeof(x)) if unknown else PartialVal.known(x))
    jaxpr, consts = _to_jaxpr(
        trace,
        [x for x in args if trace.is_linear(x)],
        [x for x, p in zip(outs, out_pvals) if not p.is_known()],
        info.with_unknown_names(),
    )
    trace.invalidate()
    return jaxpr, out_pvals, consts


def stage_wrapped_fun(
    fun: Callable[..., Any],
    in_avals: Sequence[AbstractValue],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[AbstractValue], list[Any]]:
    """Stage a function of flat arguments out to a jaxpr.

    Args:
      fun: the function, returning a sequence; a `linear_util.WrappedFun` also has debug
        information.
      in_avals: types of the arguments.
      keep_inputs: which arguments to pass to the function and keep in the jaxpr; None for all.
      lower: whether to lower types that are represented by other types; without effect, since there
        are no such types.
      auto_dce: whether to remove equations that no result needs.

    Returns:
      The jaxpr, the types of its results, and the values of its constants.

    >>> from jax.interpreters import partial_eval as pe
    >>> aval = jax.typeof(1.)
    >>> print(pe.trace_to_jaxpr_dynamic(lambda x: [x * 2], [aval, aval], keep_inputs=[True, False])[0])
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    """
    if keep_inputs is not None:
        in_avals = [a for a, keep in zip(in_avals, keep_inputs, strict=True) if keep]
    flat = getattr(fun, "call_wrapped", fun)
    info = getattr(fun, "debug_info", None)
    jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat, in_avals, info)
    if auto_dce:
        jaxpr, used_consts, _ = pe.dce_jaxpr_consts(jaxpr, [True] * len(out_avals), True)
        consts = [c for c, used in zip(consts, used_consts) if used]
    return jaxpr, out_avals, consts


def _to_jaxpr(trace: JaxprTrace, args: Sequence[Any], outs: Sequence[Any], info: DebugInfo) -> Any:
    """Return the jaxpr of unknown results, without dead equations, and its constants.

    Known values are its constants.
    """
    constvars: dict[int, Var] = {}
    consts: list[Any] = []

    def atom(x: Any) -> Any:
        if trace.is_linear(x):
            return x.var
        aval = typeof(x)
        if not isinstance(x, Tracer) and is_literalable(x):
            return Literal(x, aval)
        var = constvars.get(id(x))
        if var is None:
            var = constvars[id(x)] = Var(aval)
            consts.append(x)
        return var

    live = {x.var for x in outs if trace.is_linear(x)}
    kept = []
    for eqn, operands in reversed(trace.jaxpr_eqns):
        if eqn.effects or any(v in live for v in eqn.outvars):
            kept.append((eqn, operands))
            live.update(x.var for x in operands if trace.is_linear(x))
    eqns = [
        eqn.replace(
            invars=[atom(x) for x in operands],
            outvars=[v if v in live else core.DropVar(v.aval) for v in eqn.outvars],
        )
        for eqn, operands in reversed(kept)
    ]
    outvars = [atom(x) for x in outs]
    effects = frozenset().union(*[eqn.effects for eqn in eqns])
    invars = [x.var for x in args]
    return Jaxpr(list(constvars.values()), invars, outvars, eqns, effects, info), consts
