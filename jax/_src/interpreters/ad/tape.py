"""Tapes: the linear part of a function, recorded while the function runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import config, core, source_info_util
from jax._src.ad_util import Zero, add_cotangents, zeros_like_aval
from jax._src.core import (
    AbstractValue,
    DebugInfo,
    Jaxpr,
    Primitive,
    Trace,
    Tracer,
    Var,
    eval_trace,
    trace_ctx,
    typeof,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.ad.values import UndefinedPrimal, as_cotangent, no_rule


class TapeEqn:
    """A recorded linear operation, with all that is needed to transpose it."""

    __slots__ = ("primitive", "inputs", "params", "outs", "source_info", "ctx")

    def __init__(
        self,
        primitive: Primitive,
        inputs: list[Any],
        params: dict[str, Any],
        outs: list[TapeTracer],
        source_info: source_info_util.SourceInfo,
        ctx: core.JaxprEqnContext,
    ) -> None:
        self.primitive = primitive
        self.inputs = (
            inputs  # TapeTracers of this tape, residuals, or `Zero` as contents of a new ref
        )
        self.params = params
        self.outs = outs
        self.source_info = source_info
        self.ctx = ctx


class TapeTracer(Tracer):
    """A tangent, represented by its type and a slot number on a tape."""

    __slots__ = ("index",)

    def __init__(self, trace: Trace, aval: AbstractValue, index: int) -> None:
        self._trace = trace
        self.aval = aval
        self.index = index

    def __repr__(self) -> str:
        return f"TangentTracer({self.aval})"

    __str__ = __repr__


core.register_tracer_class(TapeTracer)


class TapeTrace(Trace):
    """Evaluates operations on known values in the parent trace, and records those on tangents.

    The names of recorded operations are relative to the name scopes around the tape. When the tape
    is replayed elsewhere, they are nested in the scopes of that place.
    """

    __slots__ = (
        "parent", "eqns", "num_slots", "num_inputs", "_base", "_seen", "_info", "_keeps_lines",
    )  # fmt: skip

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent
        self.eqns: list[TapeEqn] = []
        self.num_slots = 0
        self.num_inputs = 0
        self._base = self._seen = source_info_util.current_name_stack()
        self._info = source_info_util.new_source_info()
        # Errors about NaNs in the backward pass name lines of the forward pass.
        self._keeps_lines = (
            config.debug_nans.value or config.debug_infs.value or config.debug_backward_nans.value
        )

    def source_info(self) -> source_info_util.SourceInfo:
        """Return source information for a recorded operation, without traceback in eager mode."""
        stack = source_info_util.current_name_stack()
        if stack is not self._seen:
            self._seen = stack
            self._info = source_info_util.SourceInfo(None, stack.relative_to(self._base))
        if self.parent is eval_trace and not self._keeps_lines:
            return self._info
        return source_info_util.SourceInfo(
            source_info_util.current_traceback(), self._info.name_stack
        )

    def new_input(self, aval: AbstractValue) -> TapeTracer:
        tracer = TapeTracer(self, aval, self.num_slots)
        self.num_slots += 1
        self.num_inputs += 1
        return tracer

    def cur_qdd(self, x: Any) -> Any:
        return self.parent.cur_qdd(x)

    def is_linear(self, x: object) -> bool:
        return type(x) is TapeTracer and x._trace is self

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        for x in args:
            if type(x) is TapeTracer and x._trace is self:
                return self.record(primitive, args, params)
        outer = trace_ctx.trace
        trace_ctx.set_trace(self.parent)
        try:
            return primitive.bind_with_trace(self.parent, args, params)
        finally:
            trace_ctx.set_trace(outer)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply `primitive` to operands of which at least one is a tangent."""
        rules = primitive.split
        if rules is not None:
            linear = [self.is_linear(x) for x in args]
            if not rules.is_whole(linear, params):
                return self.record_split(primitive, rules, linear, args, params)
        return self.record_eqn(primitive, args, params)

    def record_split(
        self,
        primitive: Primitive,
        rules: core.SplitRules,
        linear: Sequence[bool],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Any:
        """Compute the part that is independent of tangents, and record the rest."""
        avals = [typeof(x) for x in args]
        out_avals, effects = primitive.eval_types(avals, params)
        eqn = core.new_jaxpr_eqn(
            [Var(a) for a in avals], [Var(a) for a in out_avals], primitive, params, effects
        )
        known, rest = rules.divide(eqn, linear, hoisting=False)
        env = dict(zip(eqn.invars, args))
        if known is not None:
            with core.set_current_trace(self.parent):
                values = known.primitive.bind(*[env[v] for v in known.invars], **known.params)
            env.update(zip(known.outvars, values))
        if rest is not None:
            recorded = self.record_eqn(rest.primitive, [env[v] for v in rest.invars], rest.params)
            env.update(zip(rest.outvars, recorded))
        return [env[v] for v in eqn.outvars]

    def record_eqn(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record an application whose results are all tangents."""
        avals = tuple([typeof(x) for x in args])
        source_info = self.source_info()
        ctx = core.current_jaxpr_eqn_context()
        if primitive.multiple_results:
            out_avals, _ = primitive.eval_types(avals, params)
            return self.add_eqn(primitive, list(args), params, out_avals, source_info, ctx)
        out_aval, _ = pe.cached_types(primitive, avals, params)
        out = TapeTracer(self, out_aval, self.num_slots)
        self.num_slots += 1
        self.eqns.append(TapeEqn(primitive, list(args), params, [out], source_info, ctx))
        return out

    def add_eqn(
        self,
        primitive: Primitive,
        inputs: list[Any],
        params: dict[str, Any],
        out_avals: Sequence[AbstractValue],
        source_info: source_info_util.SourceInfo,
        ctx: core.JaxprEqnContext,
    ) -> list[TapeTracer]:
        """Append an operation and return tracers for its results."""
        n = self.num_slots
        outs = [TapeTracer(self, a, n + i) for i, a in enumerate(out_avals)]
        self.num_slots = n + len(outs)
        self.eqns.append(TapeEqn(primitive, inputs, params, outs, source_info, ctx))
        return outs

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        if any(self.is_linear(x) for x in args):
            return fun(*args)  # linear in the tangents, so its operations can be recorded directly
        params = dict(symbolic_zeros=symbolic_zeros)
        return self.parent.bind_here(primitive, (fun, jvp, *args), params)

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
        if any(self.is_linear(x) for x in args):
            return fun(*args)
        params = dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros)
        return self.parent.bind_here(primitive, (fun, fwd, bwd, *args), params)


class Linearized:
    """The linear part of a function at a point: recorded operations, inputs and outputs.

    Attributes:
      tape: the trace that recorded the operations. Its list is emptied, since the operations refer
        back to it, which would make a reference cycle.
      eqns: the operations.
      in_avals: tangent types of the inputs, which are the first slots of the tape.
      outs: tangents of the results: slots, known values (constants) or `Zero`.
    """

    __slots__ = ("tape", "eqns", "in_avals", "outs")

    def __init__(self, tape: TapeTrace, in_avals: list[Any], outs: list[Any]):
        self.tape = tape
        self.eqns = tape.eqns
        tape.eqns = []
        self.in_avals = in_avals
        self.outs = outs

    def backward(self, cts: Sequence[Any], transform_stack: bool = True) -> list[Any]:
        """Compute cotangents of the inputs from cotangents of the results (either may be `Zero`).

        `transform_stack` adds `transpose` to the names of operations.
        """
        tape = self.tape
        slots: list[Any] = [None] * tape.num_slots
        for out, ct in zip(self.outs, cts):
            if ct is None or type(ct) is Zero:
                continue
            if type(out) is TapeTracer and out._trace is tape:
                _accumulate(slots, out.index, ct)
        ctx = core.current_jaxpr_eqn_context()
        if trace_ctx.trace is eval_trace and not tape._keeps_lines:
            for eqn in reversed(self.eqns):
                _backward_in_context(tape, eqn, slots, ctx)
        else:
            base = source_info_util.current_name_stack()
            if transform_stack:
                base = base.transform("transpose")
            names = stack = None
            for eqn in reversed(self.eqns):
                info = eqn.source_info
                if info.name_stack is not names:
                    names = info.name_stack
                    stack = base + names
                with source_info_util.user_context(info.traceback, name_stack=stack):
                    _backward_in_context(tape, eqn, slots, ctx)
        return [
            Zero(_ct_aval(a)) if slots[i] is None else _ct_value(slots[i], a)
            for i, a in enumerate(self.in_avals)
        ]

    def apply(self, tangents: Sequence[Any]) -> list[Any]:
        """Compute tangents of the results from tangents of the inputs."""
        tape = self.tape
        slots: list[Any] = list(tangents) + [None] * (tape.num_slots - len(self.in_avals))
        ctx = core.current_jaxpr_eqn_context()
        for eqn in self.eqns:
            args = [
                slots[x.index]
                if type(x) is TapeTracer and x._trace is tape
                else zeros_like_aval(x.aval)
                if type(x) is Zero
                else x
                for x in eqn.inputs
            ]
            if eqn.ctx is ctx:
                out = eqn.primitive.bind(*args, **eqn.params)
            else:
                with eqn.ctx.manager:
                    out = eqn.primitive.bind(*args, **eqn.params)
            if eqn.primitive.multiple_results:
                for slot, o in zip(eqn.outs, out):
                    slots[slot.index] = o
            else:
                slots[eqn.outs[0].index] = out
        return [
            slots[o.index] if type(o) is TapeTracer and o._trace is tape else o for o in self.outs
        ]

    def to_jaxpr(
        self, debug_info: DebugInfo | None = None, nonzero_outs: bool = False
    ) -> tuple[Jaxpr, list[Any]]:
        """Return the linear function as a jaxpr without dead operations; residuals are constants.

        With `nonzero_outs`, the jaxpr omits results that are symbolic zeros.
        """
        tape = self.tape
        live = [i < len(self.in_avals) for i in range(tape.num_slots)]
        for o in self.outs:
            if type(o) is TapeTracer and o._trace is tape:
                live[o.index] = True
        kept = []
        partly_dead = False
        for eqn in reversed(self.eqns):
            used = [live[o.index] for o in eqn.outs]
            if any(used) or (
                eqn.primitive.ref_primitive and eqn.inputs and _is_live(eqn.inputs[0], tape, live)
            ):
                kept.append(eqn)
                partly_dead = partly_dead or not all(used)
                for x in eqn.inputs:
                    if type(x) is TapeTracer and x._trace is tape:
                        live[x.index] = True
        kept.reverse()
        builder = pe.DynamicJaxprTrace(debug_info)
        vars_: list[Any] = [None] * tape.num_slots
        for i, aval in enumerate(self.in_avals):
            vars_[i] = builder.new_arg(aval).val

        def atom(x: object) -> Any:
            if type(x) is TapeTracer and x._trace is tape:
                return vars_[x.index]
            return builder.to_atom(_zero_literal(x) if type(x) is Zero else x)

        for eqn in kept:
            for o in eqn.outs:
                vars_[o.index] = Var(o.aval)
            builder.eqns.append(
                core.new_jaxpr_eqn(
                    [atom(x) for x in eqn.inputs],
                    [vars_[o.index] for o in eqn.outs],
                    eqn.primitive,
                    eqn.params,
                    eqn.primitive.eval_types([_type_of(x) for x in eqn.inputs], eqn.params)[1]
                    if eqn.primitive.effectful_abstract_eval
                    else core.no_effects,
                    eqn.source_info,
                    eqn.ctx,
                )
            )
        outvars = []
        for o in self.outs:
            if type(o) is Zero:
                if nonzero_outs:
                    continue
                o = _zero_literal(o)
            outvars.append(atom(o))
        effects = core.effects_of_eqns(builder.constvars, builder.invars, builder.eqns)
        jaxpr = Jaxpr(builder.constvars, builder.invars, outvars, builder.eqns, effects, debug_info)
        if not partly_dead:
            return jaxpr, builder.consts
        # Remove unused results of loops and calls, and so the residuals that only they need.
        jaxpr, used, _ = pe.dce_jaxpr_consts(jaxpr, [True] * len(outvars), True)
        return jaxpr, [x for x, u in zip(builder.consts, used) if u]


def _ct_aval(aval: AbstractValue) -> AbstractValue:
    if type(aval) is core.AbstractRef:
        aval = aval.inner_aval
    return aval.to_ct_aval()


def _ct_value(ct: Any, aval: AbstractValue) -> Any:
    """Return a cotangent; if it is in a reference, its value."""
    return ct[...] if type(aval) is core.AbstractRef else ct


def _type_of(x: object) -> AbstractValue:
    return x.aval if type(x) is Zero else typeof(x)


def _is_live(x: object, tape: TapeTrace, live: list[bool]) -> bool:
    return type(x) is TapeTracer and x._trace is tape and live[x.index]


def _zero_literal(z: Zero) -> Any:
    with core.eval_context():
        return zeros_like_aval(z.aval)


def _accumulate(slots: list[Any], index: int, ct: object) -> None:
    old = slots[index]
    slots[index] = ct if old is None else add_cotangents(old, ct)


def _backward_in_context(tape: TapeTrace, eqn: TapeEqn, slots: list[Any], ctx: object) -> None:
    if eqn.ctx is ctx:
        _backward_eqn(tape, eqn, slots)
    else:
        with eqn.ctx.manager:
            _backward_eqn(tape, eqn, slots)


def _backward_eqn(tape: TapeTrace, eqn: TapeEqn, slots: list[Any]) -> None:
    primitive = eqn.primitive
    if primitive.ref_transpose is not None:
        _backward_ref_eqn(tape, eqn, slots)
        return
    outs = eqn.outs
    if primitive.multiple_results:
        ct: Any = []
        used = False
        for o in outs:
            c = slots[o.index]
            slots[o.index] = None
            if c is None:
                c = Zero(o.aval.to_ct_aval())
            else:
                used = True
            ct.append(c)
        if not used:
            return
    else:
        index = outs[0].index
        ct = slots[index]
        if ct is None:
            return
        slots[index] = None
    rule = primitive.transpose
    if rule is None:
        raise no_rule("Transpose rule (for reverse-mode differentiation)", primitive)
    args = [
        UndefinedPrimal(x.aval) if type(x) is TapeTracer and x._trace is tape else x
        for x in eqn.inputs
    ]
    cts_in = rule(ct, *args, **eqn.params)
    for x, c in zip(eqn.inputs, cts_in):
        if c is not None and type(c) is not Zero and type(x) is TapeTracer and x._trace is tape:
            if getattr(x.aval, "_sharding", None) is not None:
                c = as_cotangent(c, x.aval)
            _accumulate(slots, x.index, c)


def _backward_ref_eqn(tape: TapeTrace, eqn: TapeEqn, slots: list[Any]) -> None:
    """Transpose an operation on a reference, whose cotangent is a reference as well."""
    primitive, inputs = eqn.primitive, eqn.inputs
    makes_ref = bool(eqn.outs) and type(eqn.outs[0].aval) is core.AbstractRef
    tracer = eqn.outs[0] if makes_ref else inputs[0]
    if not (type(tracer) is TapeTracer and tracer._trace is tape):
        raise NotImplementedError(
            f"'{primitive.name}' of a tangent on a reference of type {tracer.aval} that was made without "
            "one: make the reference from a tangent"
        )
    ct: Any = None
    if eqn.outs and not makes_ref:
        ct = slots[eqn.outs[0].index]
        slots[eqn.outs[0].index] = None
        if ct is None:
            ct = Zero(eqn.outs[0].aval.to_ct_aval())

    def ct_ref(make: bool) -> Any:
        if slots[tracer.index] is None and make:
            slots[tracer.index] = zeros_like_aval(tracer.aval.to_ct_aval())
        return slots[tracer.index]

    rule: Any = primitive.ref_transpose
    ct_in = rule(ct_ref, ct, *inputs, **eqn.params)
    if ct_in is not None and type(ct_in) is not Zero:
        x = inputs[0] if makes_ref else inputs[1]
        if type(x) is TapeTracer and x._trace is tape:
            _accumulate(slots, x.index, ct_in)
    if makes_ref:
        slots[tracer.index] = None
