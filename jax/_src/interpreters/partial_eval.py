"""Staging functions out to jaxprs, and transforming finished jaxprs.

`trace_to_jaxpr_dynamic` runs a function on tracers and records its operations. The other functions
here transform finished jaxprs: they move constants and arguments and remove dead code. `splitting`
has the functions that divide a jaxpr into a known and an unknown part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jax._src import config, core, source_info_util
from jax._src.core import (
    AbstractValue,
    Atom,
    ClosedJaxpr,
    Effect,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    Trace,
    Tracer,
    Var,
    close_jaxpr as close_jaxpr,
    current_jaxpr_eqn_context,
    no_effects,
    trace_ctx,
    typeof,
)
from jax._src.core.jaxpr import DebugInfo, is_literalable, unknown_debug_info
from jax._src.interpreters.splitting import (
    SplitRuleView,
    dce_jaxpr as dce_jaxpr,
    dependent_outs as dependent_outs,
    has_effects as has_effects,
)
from jax._src.lazy_names import lazy_names

if TYPE_CHECKING:
    from jax._src.core.jaxpr import JaxprEqnContext
    from jax._src.source_info_util import SourceInfo

dce_rules = SplitRuleView("dce")
partial_eval_jaxpr_custom_rules = SplitRuleView("partial_eval_custom")
# Rules for primitives that may be staged as something other than an equation of the primitive.
# `rule(trace, source_info, *args, **params)` returns the results, or NotImplemented to stage the
# application unchanged.
custom_staging_rules: dict[core.Primitive, Callable[..., Any]] = {}

_MAX_CACHED_TYPES = 4096


class DynamicJaxprTracer(Tracer):
    """A value in a function that is being staged: a variable of the jaxpr under construction."""

    __slots__ = ("val", "source_info")
    _trace: DynamicJaxprTrace
    val: Atom

    def __init__(
        self, trace: DynamicJaxprTrace, aval: AbstractValue, val: Atom, source_info: Any
    ) -> None:
        self._trace = trace
        self.aval = aval
        self.val = val
        self.source_info = source_info

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"

    __str__ = __repr__

    def _short_repr(self) -> str:
        return repr(self)

    @property
    def parent(self) -> JaxprEqn | None:
        """The equation that computes the value; None for an argument or a constant."""
        for eqn in reversed(self._trace.eqns):
            if self.val in eqn.outvars:
                return eqn
        return None

    def get_const(self) -> Any:
        """The value, if it is a constant of the function; otherwise None."""
        return self._trace.const_value(self.val)

    @property
    def mutable_qdd(self) -> Any:
        """The quasi-dynamic data of a mutable value, which operations change."""
        return self._trace.mutable_qdd(self.val)

    @property
    def aval_mutable_qdd(self) -> Any:
        """The type, of a mutable value with its quasi-dynamic data."""
        return self._trace.aval_mutable_qdd(self.val)

    def _origin_msg(self) -> str:
        trace = self._trace
        if not trace.is_valid():
            return self._leak_description()
        info = trace.debug_info
        origin = (
            f"\nThe error occurred while tracing the function {info.func_src_info or '<unknown>'}"
        )
        if info.traced_for:
            origin += f" for {info.traced_for}. "
        progenitors, seen = trace.progenitors(self.val)
        names = info.safe_arg_names(len(trace.invars))
        args = [names[i] or f"number {i}" for i in progenitors]
        if len(args) == 1:
            return origin + (
                "This concrete value was not available in Python because it depends on the value of "
                f"the argument {args[0]}."
            )
        if args:
            return origin + (
                "This concrete value was not available in Python because it depends on the values of "
                f"the arguments {', '.join(args[:-1])} and {args[-1]}."
            )
        if seen:
            lines = "\n".join(f"  operation {line}" for line in seen[:5])
            return origin + (
                "This value became a tracer due to JAX operations on these lines:\n\n" + lines
            )
        return origin

    def _leak_description(self) -> str:
        info = self._trace.debug_info
        where = source_info_util.summarize(self.source_info)
        count = config.tracer_error_num_traceback_frames.value or 0
        frames = source_info_util.summarize(self.source_info, num_frames=count)
        return (
            f"\nThe function being traced when the value leaked was {info.func_src_info} traced for "
            f"{info.traced_for or 'staging'}."
            "\n------------------------------"
            f"\nThe leaked intermediate value was created on line {where}. "
            "\n------------------------------"
            f"\nWhen the value was created, the final {count} stack frames (most recent last) "
            f"excluding JAX-internal frames were:\n{frames}"
            "\n------------------------------"
        )


core.register_tracer_class(DynamicJaxprTracer)


class DynamicJaxprTrace(Trace):
    """A trace that records operations as equations of a jaxpr."""

    __slots__ = (
        "debug_info", "invars", "constvars", "consts", "_const_ids", "eqns", "effects", "parent",
        "tag", "_qdds",
    )  # fmt: skip

    def __init__(self, debug_info: DebugInfo | None = None, parent: Trace | None = None):
        self._valid = True
        self.debug_info = debug_info or unknown_debug_info
        self.parent = parent
        self.invars: list[Var] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self._const_ids: dict[int, Var] = {}
        self.eqns: list[JaxprEqn] = []
        self.effects: set[Any] = set()
        self.tag = None
        self._qdds: dict[Any, core.MutableQuasiDynamicData] | None = None

    def new_arg(
        self, aval: AbstractValue | core.AvalQDD, source_info: SourceInfo | None = None
    ) -> DynamicJaxprTracer:
        """Return a tracer for a new argument of type `aval`, of a mutable one an `AvalQDD`."""
        var = self.new_mutable(aval) if isinstance(aval, core.AvalQDD) else Var(aval)
        aval = var.aval
        self.invars.append(var)
        return DynamicJaxprTracer(self, aval, var, source_info)

    def new_const(self, x: object) -> DynamicJaxprTracer:
        atom = self.to_atom(x)
        return DynamicJaxprTracer(self, atom.aval, atom, None)

    def to_atom(self, x: object) -> Var | Literal:
        """Return the variable or literal that stands for `x` in this trace."""
        if type(x) is DynamicJaxprTracer and x._trace is self:
            return x.val
        if is_literalable(x):
            return Literal(x, typeof(x))
        var = self._const_ids.get(id(x))
        if var is None:
            if core.is_symbolic_dim(x):
                with core.set_current_trace(self):
                    return self.to_atom(x.dimension_as_value())  # type: ignore[attr-defined]
            aval = typeof(x)
            if isinstance(x, Tracer):
                check_valid_tracer(x)
            var = Var(aval) if not aval.has_qdd else self.new_mutable(self.qdd_of_const(aval, x))
            self._const_ids[id(x)] = var
            self.constvars.append(var)
            self.consts.append(x)  # keeps x alive, so that no other object gets its id
        return var

    # Quasi-dynamic data: see `core.high`

    def new_mutable(self, aval: Any) -> Var:
        """A variable for a mutable value, given its type and its data."""
        var = Var(aval.aval)
        self.declare_mutable(var, aval.qdd)
        return var

    def declare_mutable(self, var: Var, qdd: Any) -> None:
        """Declare that the mutable value `var` has the data `qdd` at first."""
        var.initial_qdd = qdd
        if self._qdds is None:
            self._qdds = {}
        self._qdds[var] = core.MutableQuasiDynamicData(qdd)

    def qdd_of_const(self, aval: AbstractValue, x: Any) -> Any:
        parent = core.eval_trace if self.parent is None else self.parent
        with core.set_current_trace(parent):
            return core.AvalQDD(aval, parent.cur_qdd(x))

    def mutable_qdd(self, atom: Atom) -> Any:
        found = (self._qdds or {}).get(atom)
        if found is None:
            raise TypeError(f"values of type {atom.aval} have no quasi-dynamic data")
        return found

    def aval_mutable_qdd(self, atom: Atom) -> Any:
        if not atom.aval.has_qdd:
            return atom.aval
        return core.AvalMutableQDD(atom.aval, self.mutable_qdd(atom))

    def cur_qdd(self, x: Any) -> Any:
        return self.mutable_qdd(self.to_atom(x)).cur_val

    def update_qdds(self, invars: Sequence[Atom], finals: Sequence[Any]) -> None:
        """After an equation: its mutable operands are in the states of these arguments' types."""
        for atom, final in zip(invars, finals, strict=True):
            if type(final) is core.AvalQDD:
                self.mutable_qdd(atom).update(final.qdd)

    def const_value(self, atom: Atom) -> Any:
        if type(atom) is Literal:
            return atom.val
        return dict(zip(self.constvars, self.consts)).get(atom)

    def to_jaxpr_tracer(
        self, x: object, source_info: SourceInfo | None = None
    ) -> DynamicJaxprTracer:
        if type(x) is DynamicJaxprTracer and x._trace is self:
            return x
        return self.new_const(x)

    full_raise = stage_value = to_jaxpr_tracer  # type: ignore[assignment]

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if config.eager_constant_folding.value and _can_fold(primitive, args, params):
            with core.set_current_trace(core.eval_trace):
                return primitive.bind(*args, **params)
        if custom_staging_rules:
            rule = custom_staging_rules.get(primitive)
            if rule is not None:
                out = rule(self, source_info_util.current(), *args, **params)
                if out is not NotImplemented:
                    return out
        invars = []
        avals = []
        for x in args:
            if type(x) is DynamicJaxprTracer and x._trace is self:
                invars.append(x.val)
                avals.append(x.aval)
            else:
                atom = self.to_atom(x)
                invars.append(atom)
                avals.append(atom.aval)
        if primitive.multiple_results:
            out_avals, effects = primitive.eval_types(avals, params)
            return self.add_eqn(primitive, invars, out_avals, params, effects)
        out_aval, effects = cached_types(primitive, tuple(avals), params)
        source_info = source_info_util.current()
        var = Var(out_aval)
        if effects:
            effects = frozenset(effects)
            self.effects.update(effects)
        self.eqns.append(
            JaxprEqn(
                invars, [var], primitive, params, effects, source_info, current_jaxpr_eqn_context()
            )
        )
        return DynamicJaxprTracer(self, out_aval, var, source_info)

    def add_eqn(
        self,
        primitive: Primitive,
        invars: list[Atom],
        out_avals: Sequence[AbstractValue],
        params: dict[str, Any],
        effects: Iterable[Effect] = no_effects,
    ) -> list[Any]:
        """Append an equation and return tracers for its results."""
        source_info = source_info_util.current()
        outvars = [Var(a) for a in out_avals]
        if effects:
            self.effects.update(effects)
        if self._qdds is not None and primitive.mutates is not None:
            self.update_qdds(invars, primitive.mutates(**params))
        self.eqns.append(
            JaxprEqn(
                invars, outvars, primitive, params, frozenset(effects), source_info,
                current_jaxpr_eqn_context(),
            )
        )  # fmt: skip
        return [DynamicJaxprTracer(self, v.aval, v, source_info) for v in outvars]

    @property
    def frame(self) -> Frame:
        """The equations, for staging rules of outside code."""
        return Frame(self)

    def make_eqn(
        self,
        in_tracers: Sequence[Any],
        out_avals: Sequence[AbstractValue],
        primitive: Primitive,
        params: dict[str, Any],
        effects: Iterable[Effect],
        source_info: SourceInfo | None = None,
        ctx: JaxprEqnContext | None = None,
    ) -> tuple[TracingEqn, list[DynamicJaxprTracer]]:
        """Return an equation that is not yet added, and its results, for staging rules of outside code."""
        source_info = source_info or source_info_util.current()
        operands = [self.to_jaxpr_tracer(x) for x in in_tracers]
        outvars = [Var(a) for a in out_avals]
        eqn = TracingEqn(
            operands, outvars, primitive, params, frozenset(effects), source_info,
            ctx or current_jaxpr_eqn_context(),
        )  # fmt: skip
        return eqn, [DynamicJaxprTracer(self, v.aval, v, source_info) for v in outvars]

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        params = dict(jvp_jaxpr_fun=jvp, symbolic_zeros=symbolic_zeros)
        return self._stage_custom(primitive, fun, args, params)

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
        params = dict(
            fwd_jaxpr_thunk=fwd, bwd=bwd, out_trees=out_trees, symbolic_zeros=symbolic_zeros
        )
        return self._stage_custom(primitive, fun, args, params)

    def _stage_custom(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> list[Any]:
        """Append an equation that calls a function with custom derivatives."""
        in_avals = [typeof(x) for x in args]
        closed, consts = trace_to_closed(fun, in_avals, getattr(fun, "debug_info", None))
        params = dict(call_jaxpr=closed, num_consts=len(consts), **params)
        invars = [self.to_atom(x) for x in (*consts, *args)]
        return self.add_eqn(primitive, invars, closed.out_avals, params, closed.effects)

    def progenitors(self, var: Atom) -> tuple[list[int], list[str]]:
        """Return the arguments that `var` depends on, and descriptions of the operations."""
        producers = {v: eqn for eqn in self.eqns for v in eqn.outvars}
        arg_index = {v: i for i, v in enumerate(self.invars)}
        found: set[int] = set()
        lines: list[str] = []
        seen: set[Var] = set()
        todo = [var]
        while todo:
            v = todo.pop()
            if type(v) is Literal or v in seen:
                continue
            seen.add(v)
            if v in arg_index:
                found.add(arg_index[v])
            elif v in producers:
                eqn = producers[v]
                todo.extend(eqn.invars)
                lines.append(f"{eqn}\n    from line {source_info_util.summarize(eqn.source_info)}")
        return sorted(found), lines

    def to_jaxpr(
        self, outs: Sequence[Any], debug_info: DebugInfo | None = None
    ) -> tuple[Jaxpr, list[Any]]:
        """Return the finished jaxpr with results `outs`, and its constants."""
        outvars = [self.to_atom(x) for x in outs]
        for var, qdd in (self._qdds or {}).items():
            var.final_qdd = qdd.cur_val
        jaxpr = Jaxpr(
            self.constvars, self.invars, outvars, self.eqns, self._all_effects(),
            debug_info or self.debug_info,
        )  # fmt: skip
        return jaxpr, self.consts

    def _all_effects(self) -> core.Effects:
        for e in self.effects:
            if isinstance(e, core.JaxprInputEffect):
                return core.effects_of_eqns(self.constvars, self.invars, self.eqns)
        return frozenset(self.effects)

    def finish(self) -> None:
        """Mark the trace as ended; tracers that are used from now on have leaked."""
        self._valid = False
        self._const_ids = {}


def _can_fold(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an operation can be evaluated now.

    Its operands must be constants, and it must have no effects and be outside of mapped axes.
    """
    if trace_ctx.axis_env.sizes or any(isinstance(x, Tracer) for x in args):
        return False
    return not primitive.eval_types([typeof(x) for x in args], params)[1]


def check_valid_tracer(x: Tracer) -> None:
    """Raise the documented error if `x` has escaped the transformation that created it."""
    if not x._trace.is_valid():
        raise core.escaped_tracer_error(x)


def cached_types(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Return the type and effects of a single-result primitive, memoized on the primitive."""
    mesh = config.abstract_mesh_context_manager.value
    if mesh is not None and mesh._any_axis_explicit:
        return primitive.eval_types(avals, params)  # the result may be sharded over the mesh
    try:
        key: Any = (avals, tuple(params.items()) if params else ())
        if mesh is not None:
            key = (*key, mesh, config.check_vma.value)
        if primitive.effectful_abstract_eval is not None:
            key = (*key, trace_ctx.axis_env.key())
        cached = primitive.aval_cache.get(key)
    except TypeError:
        raise_unhashable_params(primitive, params)
        return primitive.eval_types(avals, params)
    if cached is None:
        cached = primitive.eval_types(avals, params)
        if all(getattr(a, "_sharding", 0) is None for a in avals):
            if len(primitive.aval_cache) > _MAX_CACHED_TYPES:
                primitive.aval_cache.clear()
            if all([type(e) is core.NamedAxisEffect for e in cached[1]]):
                primitive.aval_cache[key] = cached
    return cached


def raise_unhashable_params(primitive: Primitive, params: dict[str, Any]) -> None:
    for name, value in params.items():
        try:
            hash(value)
        except TypeError:
            raise TypeError(
                f"parameter {name!r} of the primitive '{primitive.name}' must be hashable, got "
                f"{type(value).__name__}: {value!r}"
            ) from None


def trace_to_jaxpr_dynamic(
    fun: Callable[..., Any],
    in_avals: Sequence[AbstractValue],
    debug_info: DebugInfo | None = None,
    trace_type: type[DynamicJaxprTrace] = DynamicJaxprTrace,
) -> tuple[Jaxpr, list[AbstractValue], list[Any]]:
    """Stage a flat function out to a jaxpr.

    Args:
      fun: function of flat arguments, returning a sequence of results.
      in_avals: types of the arguments, of mutable ones as `AvalQDD`.
      debug_info: names of the function and its arguments, and what it is traced for.
      trace_type: the class of the trace.

    Returns:
      The jaxpr, the types of its results, and the values of its constants (which may be tracers of
      enclosing traces).
    """
    parent = trace_ctx.trace
    trace = trace_type(debug_info, parent)
    with source_info_util.reset_name_stack():
        source_info = source_info_util.current()
        args = [trace.new_arg(aval, source_info) for aval in in_avals]
        trace_ctx.set_trace(trace)
        try:
            outs = fun(*args)
        finally:
            trace_ctx.set_trace(parent)
            del args
    outs = list(outs)
    x = None
    for i, x in enumerate(outs):
        check_returned_value(x, trace, i)
    jaxpr, consts = trace.to_jaxpr(outs)
    trace.finish()
    del outs, trace.parent
    if config.enable_checks.value:
        core.check_jaxpr(jaxpr)
    if config.check_tracer_leaks.value:
        ref = weakref.ref(trace)
        del x, trace
        core.check_leaks(ref)
    return jaxpr, jaxpr.out_avals, consts


trace_to_jaxpr = trace_to_jaxpr_dynamic


def check_returned_value(x: object, trace: DynamicJaxprTrace, index: int) -> None:
    info = trace.debug_info
    if type(x) is DynamicJaxprTracer and x._trace is trace:
        aval = x.aval
    else:
        try:
            aval = typeof(x)
        except TypeError:
            path = (info.result_paths or ("",) * (index + 1))[index].removeprefix("result")
            where = f" at output component {path}" if path else ""
            raise TypeError(
                f"function {info.func_src_info} traced for {info.traced_for} returned a value of type "
                f"{type(x)}{where}, which is not a valid JAX type: return arrays, numbers or pytrees of"
                " them."
            ) from None
    if type(aval) is core.AbstractRef:
        raise _returned_ref_error(x, trace, index)
    if aval.has_qdd:
        raise TypeError(
            f"function {info.func_src_info} traced for {info.traced_for} returned a mutable value of"
            f" type {aval}: return what it holds, or give the function a mutable value to write to."
        )


def _returned_ref_error(x: Any, trace: DynamicJaxprTrace, index: int) -> ValueError:
    info = trace.debug_info
    path = (info.result_paths or ("",) * (index + 1))[index].removeprefix("result")
    where = f" at output tree path result{path}" if path else ""
    origin = ""
    if type(x) is DynamicJaxprTracer:
        if x.val in trace.invars:
            i = trace.invars.index(x.val)
            name = info.safe_arg_names(len(trace.invars))[i] or f"number {i}"
            origin = f"\n\nThe returned mutable array was passed in as the argument {name}."
        elif x.source_info is not None:
            line = source_info_util.summarize(x.source_info)
            origin = f"\n\nThe returned mutable array was created on line {line}."
    return ValueError(
        f"function {info.func_src_info} traced for {info.traced_for} returned a mutable array reference "
        f"of type {typeof(x)}{where}, but mutable array references cannot be returned. Return what it "
        f"holds (ref[...], or jax.freeze(ref) of one made inside).{origin}"
    )


def check_ref_aliasing(
    kind: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    consts: Sequence[Any],
    names: Callable[[], Sequence[str | None]],
) -> None:
    """Raise ValueError if a function receives the same reference twice.

    It can receive one as an argument or by closing over it. `names()` returns the names of the
    arguments; it is called only to report an error.
    """
    seen: dict[int, int] = {}
    for i, x in enumerate(args):
        if isinstance(x, core.Ref):
            j = seen.setdefault(id(x.get_referent() if isinstance(x, Tracer) else x), i)
            if j != i:
                name = [n or f"argument number {k}" for k, n in enumerate(names())]
                raise ValueError(
                    "only one reference to a mutable array may be passed as an argument to a function, "
                    f"but when tracing {core.fun_source_info(fun)} for {kind} the mutable array "
                    f"reference of type {typeof(x)} appeared at both {name[j]} and {name[i]}."
                )
    if seen:
        for x in consts:
            if isinstance(x, core.Ref):
                where = seen.get(id(x.get_referent() if isinstance(x, Tracer) else x))
                if where is not None:
                    raise ValueError(
                        f"when tracing {core.fun_source_info(fun)} for {kind}, a mutable array reference "
                        f"of type {typeof(x)} was both closed over and passed as the argument "
                        f"{names()[where] or f'number {where}'}: use it by one of the two."
                    )


def trace_to_closed(
    fun: Callable[..., Any], in_avals: Sequence[AbstractValue], debug_info: DebugInfo | None = None
) -> tuple[ClosedJaxpr, list[Any]]:
    """Stage `fun`, turning the values that it closes over into leading arguments.

    Returns:
      A closed jaxpr that takes the closed-over values, then the arguments; and these values.
    """
    jaxpr, _, consts = trace_to_jaxpr_dynamic(fun, in_avals, debug_info)
    return close_jaxpr(convert_constvars_jaxpr(jaxpr)), consts


def abstract_eval_fun(
    fun: Callable[..., Any], *avals: Any, debug_info: DebugInfo | None = None, **params: Any
) -> list[AbstractValue]:
    """Return the types of the results of a flat function."""
    _, out_avals, _ = trace_to_jaxpr_dynamic(lambda *xs: fun(*xs, **params), avals, debug_info)
    return out_avals


# Converting between constants and arguments


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Turn the constants of the jaxpr into leading arguments."""
    if not jaxpr.constvars:
        return jaxpr
    converted = jaxpr._cache.get(convert_constvars_jaxpr)
    if converted is None:
        n = len(jaxpr.constvars)
        info = jaxpr.debug_info
        names = (None,) * n + info.safe_arg_names(len(jaxpr.invars))
        converted = jaxpr.replace(
            constvars=(),
            invars=jaxpr.constvars + jaxpr.invars,
            debug_info=info._replace(arg_names=names),
        )
        jaxpr._cache[convert_constvars_jaxpr] = converted
    return converted


def convert_invars_to_constvars(jaxpr: Jaxpr, n: int) -> Jaxpr:
    """Turn the first `n` arguments of the jaxpr into constants."""
    if n == 0:
        return jaxpr
    info = jaxpr.debug_info
    names = info.safe_arg_names(len(jaxpr.invars))[n:]
    return jaxpr.replace(
        constvars=jaxpr.invars[:n],
        invars=jaxpr.invars[n:],
        debug_info=info._replace(arg_names=names),
    )


def hoist_tracers(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Turn constants that are tracers or array references into leading arguments.

    A rule of a custom derivative may close over tracers, which become constants of the jaxpr that
    its application is traced to. An equation that calls the jaxpr must take them as operands, so
    that enclosing traces see them.

    Returns:
      The new jaxpr, and the values of the new arguments.
    """
    is_tracer = [core.is_tracer_or_ref(c) for c in closed.consts]
    if not any(is_tracer):
        return closed, []
    tracers = [c for c, t in zip(closed.consts, is_tracer) if t]
    hoisted = closed._cache.get(hoist_tracers)
    if hoisted is None:
        jaxpr = closed.jaxpr
        moved = [v for v, t in zip(jaxpr.constvars, is_tracer) if t]
        hoisted = ClosedJaxpr(
            jaxpr.replace(
                constvars=[v for v, t in zip(jaxpr.constvars, is_tracer) if not t],
                invars=moved + jaxpr.invars,
                debug_info=jaxpr.debug_info.with_unknown_names(),
            ),
            [c for c, t in zip(closed.consts, is_tracer) if not t],
        )
        closed._cache[hoist_tracers] = hoisted
    return hoisted, tracers


def def_hoisting(primitive: Primitive, hoist: Callable[..., Any]) -> None:
    """Make `bind` of a primitive turn tracers that are constants of its jaxprs into operands.

    `hoist(args, params)` returns the new operands and parameters.
    """

    def bind_with_trace(trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return trace.process_primitive(primitive, *hoist(args, params))

    primitive.def_bind_with_trace(bind_with_trace)


# Dead code elimination


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> Any:
    """Apply `dce_jaxpr` to constants too; return the jaxpr, used constants and used arguments."""
    n = len(jaxpr.constvars)
    inst = [False] * n + (
        [instantiate] * len(jaxpr.invars) if type(instantiate) is bool else list(instantiate)
    )
    new, used = dce_jaxpr(convert_constvars_jaxpr(jaxpr), used_outputs, inst)
    used_consts, used_inputs = used[:n], used[n:]
    if sum(used_consts):
        new = convert_invars_to_constvars(new, sum(used_consts))
    return new, used_consts, used_inputs


def prune_closed_jaxpr_outputs(closed: ClosedJaxpr, used_outputs: Sequence[bool]) -> ClosedJaxpr:
    """Remove unwanted results from the jaxpr, but keep all its arguments."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, used_outputs, True)
    return ClosedJaxpr(jaxpr, closed.consts)


# Names that outside code imports, to stage equations by its own rules (`custom_staging_rules`)

__getattr__, __dir__ = lazy_names(__name__, {"jax._src.interpreters.jaxpr_trace": ("PartialVal",)})


class TracingEqn:
    """An equation whose operands are tracers: what `DynamicJaxprTrace.frame.add_eqn` takes."""

    __slots__ = (
        "in_tracers", "outvars", "primitive", "params", "effects", "source_info", "ctx",
    )  # fmt: skip

    def __init__(
        self, in_tracers: Sequence[DynamicJaxprTracer], outvars: list[Var], primitive: Primitive,
        params: dict[str, Any], effects: Iterable[Effect], source_info: SourceInfo, ctx: JaxprEqnContext,
    ):  # fmt: skip
        self.in_tracers = in_tracers
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.effects = effects
        self.source_info = source_info
        self.ctx = ctx

    @property
    def invars(self) -> list[Atom]:
        return [x.val for x in self.in_tracers]


class Frame:
    """The equations of a trace: `DynamicJaxprTrace.frame`."""

    __slots__ = ("_trace",)

    def __init__(self, trace: DynamicJaxprTrace):
        self._trace = trace

    @property
    def invars(self) -> list[Var]:
        return self._trace.invars

    def get_eqns(self) -> list[JaxprEqn]:
        return self._trace.eqns

    def newvar(self, aval: AbstractValue) -> Var:
        return Var(aval)

    def add_eqn(self, eqn: TracingEqn | JaxprEqn) -> None:
        """Append an equation; its results are the tracers of its `outvars`."""
        effects = frozenset(eqn.effects)
        self._trace.effects.update(effects)
        self._trace.eqns.append(
            JaxprEqn(
                list(eqn.invars), list(eqn.outvars), eqn.primitive, eqn.params, effects,
                eqn.source_info, eqn.ctx,
            )
        )  # fmt: skip
