"""Differentiation: forward mode, linearization onto a tape, and transposition.

Forward mode (`JVPTrace`) pairs each value with its tangent. Reverse mode linearizes: `LinearizeTrace`
computes primal values at once, in the parent trace, while operations on tangents are recorded by a
`TapeTrace` as a list of linear operations (`TapeEqn`) with their residuals. Walking the tape backwards
gives cotangents. A tape becomes a jaxpr only where somebody needs one.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes, source_info_util
from jax._src.ad_util import (
    SymbolicZero,
    Zero,
    add_jaxvals,
    add_tangents,
    instantiate as instantiate_zero,
    replace_internal_symbolic_zeros,
    replace_rule_output_symbolic_zeros,
    zeros_like_aval,
)
from jax._src.core import (
    AbstractValue,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    RuleView,
    Trace,
    Tracer,
    Var,
    cached_on_jaxpr,
    eval_trace,
    is_literalable,
    trace_ctx,
    typeof,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.tree_util import register_pytree_node
from jax._src.util import safe_map, safe_zip, split_list, unzip2

primitive_jvps = RuleView("jvp")
primitive_linearizations = RuleView("linearize")
primitive_transposes = RuleView("transpose")


class UndefinedPrimal:
    """The place of a linear argument in a transpose rule: only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


register_pytree_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))
register_pytree_node(Zero, lambda z: ((), z.aval), lambda aval, _: Zero(aval))
register_pytree_node(SymbolicZero, lambda z: ((), z.aval), lambda aval, _: SymbolicZero(aval))


def is_undefined_primal(x: Any) -> bool:
    """Whether `x` stands for a linear argument in a transpose rule."""
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Any:
    """The tangent, as an array of zeros if it is a symbolic zero."""
    return zeros_like_aval(tangent.aval) if type(tangent) is Zero else tangent


def zero_of(x: Any) -> Zero:
    """The zero tangent of a value."""
    return Zero(typeof(x).to_tangent_aval())


p2tz = zero_of


def p2cz(x: Any) -> Zero:
    """The zero cotangent of a value."""
    return Zero(typeof(x).to_ct_aval())


# Forward mode


class _TangentTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace, primal, tangent):
        self._trace = trace
        self.aval = typeof(primal)
        self.primal = primal
        self.tangent = tangent

    def to_concrete_value(self):
        return core.to_concrete_value(self.primal)

    def get_referent(self):
        return core.get_referent(self.primal) if isinstance(self.primal, Tracer) else self

    def _origin_msg(self):
        return self.primal._origin_msg() if isinstance(self.primal, Tracer) else ""

    def _contents(self):
        return [("primal", self.primal), ("tangent", self.tangent)]


class _TangentTrace(Trace):
    """Pairs values with tangents: what forward mode and linearization share.

    They differ in the trace in which rules run (`rule_trace`), and so in what becomes of tangents.
    """

    __slots__ = ("parent", "rule_trace")
    tracer_class: type[_TangentTracer]

    @property
    def parent_trace(self) -> Trace:
        return self.parent

    def _rule(self, primitive) -> Callable:
        raise NotImplementedError

    def to_primal_tangent_pair(self, x: Any) -> tuple[Any, Any]:
        if type(x) is self.tracer_class and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(typeof(x).to_tangent_aval())

    def _unpack(self, args):
        primals, tangents, perturbed = [], [], False
        tracer_class = self.tracer_class
        for x in args:
            if type(x) is tracer_class and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                perturbed = True
            else:
                primals.append(x)
                tangents.append(None)
        if perturbed:
            for i, t in enumerate(tangents):
                if t is None:
                    tangents[i] = Zero(typeof(primals[i]).to_tangent_aval())
        return primals, tangents, perturbed

    def _pack(self, primals, tangents):
        make = self.tracer_class
        return [p if type(t) is Zero else make(self, p, t) for p, t in zip(primals, tangents)]

    def process_primitive(self, primitive, args, params):
        primals, tangents, perturbed = self._unpack(args)
        outer = trace_ctx.trace
        try:
            if not perturbed:
                trace_ctx.set_trace(self.parent)
                return primitive.bind_with_trace(self.parent, primals, params)
            rule = self._rule(primitive)
            if rule is None:
                raise _no_rule("Differentiation rule", primitive)
            trace_ctx.set_trace(self.rule_trace)
            out, tangent_out = rule(primals, tangents, **params)
            if primitive.multiple_results:
                return self._pack(self._known(primitive, primals, params, out), tangent_out)
        finally:
            trace_ctx.set_trace(outer)
        return out if type(tangent_out) is Zero else self.tracer_class(self, out, tangent_out)

    def _known(self, primitive, primals, params, outs):
        """The results of a rule, which must not depend on tangents."""
        return outs

    def process_custom_jvp_call(self, primitive, fun, jvp, args, *, symbolic_zeros):
        primals, tangents, perturbed = self._unpack(args)
        if not perturbed:
            with core.set_current_trace(self.parent):
                return primitive.bind_with_trace(
                    self.parent, (fun, jvp, *primals), dict(symbolic_zeros=symbolic_zeros)
                )
        with core.set_current_trace(self.rule_trace):
            prepare = replace_internal_symbolic_zeros if symbolic_zeros else instantiate_zeros
            outs = jvp(*primals, *map(prepare, tangents))
            primals_out, tangents_out = split_list(outs, [len(outs) // 2])
            tangents_out = [replace_rule_output_symbolic_zeros(t) for t in tangents_out]
        return self._pack(primals_out, tangents_out)

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, args, *, out_trees, symbolic_zeros):
        primals, tangents, perturbed = self._unpack(args)
        if not perturbed:
            with core.set_current_trace(self.parent):
                return primitive.bind_with_trace(
                    self.parent,
                    (fun, fwd, bwd, *primals),
                    dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros),
                )
        with core.set_current_trace(self.rule_trace):
            outs, tangents_out = custom_vjp_linearize(
                fwd, bwd, primals, tangents, out_trees, symbolic_zeros
            )
        return self._pack(outs, tangents_out)


class JVPTracer(_TangentTracer):
    """A value and its tangent, in forward mode."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"

    __str__ = __repr__


core.register_tracer_class(JVPTracer)


class JVPTrace(_TangentTrace):
    """Pushes tangents forward beside the values."""

    __slots__ = ()
    tracer_class = JVPTracer

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent
        self.rule_trace = parent

    def _rule(self, primitive) -> Callable:
        return primitive.jvp


def custom_vjp_linearize(fwd, bwd, primals, tangents, out_trees, symbolic_zeros):
    """Results of a `custom_vjp` function, and tangents that only transposition can use.

    `fwd` gives (residuals, results); `out_trees()` tells of its last call what `bwd` needs to know, as
    its first argument.
    """
    perturbed = [type(t) is not Zero for t in tangents]
    if any(perturbed[: getattr(fwd, "num_consts", 0)]):
        raise CustomVJPException(
            "Detected differentiation of a custom_vjp function with respect to a closed-over value. "
            "Its rule gives cotangents of the explicit arguments only: make the value an argument "
            "of the function and of its fwd rule, and return its cotangent from the bwd rule."
        )
    outs_and_res = fwd(*perturbed, *primals) if symbolic_zeros else fwd(*primals)
    trees = out_trees()
    res, outs = split_list(outs_and_res, [trees.num_res])
    out_avals = [typeof(x).to_tangent_aval() for x in outs]
    tangents_out = custom_lin_p.bind(
        *res,
        *[t for t in tangents if type(t) is not Zero],
        num_res=len(res),
        bwd=functools.partial(bwd, trees),
        out_avals=tuple(out_avals),
        in_zeros=tuple(t.aval if type(t) is Zero else None for t in tangents),
        symbolic_zeros=symbolic_zeros,
    )
    tangents_out = [
        Zero(a) if getattr(a, "dtype", None) == dtypes.float0 else t
        for a, t in zip(out_avals, tangents_out)
    ]
    return outs, tangents_out


custom_lin_p = Primitive("custom_lin", multiple_results=True)
custom_lin_p.def_abstract_eval(lambda *_, out_avals, **__: list(out_avals))


def raise_custom_vjp_error_on_jvp(*args, **params):
    raise TypeError(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function: it defines only a "
        "reverse-mode rule. Define the function with jax.custom_jvp for both modes."
    )


custom_lin_p.def_impl(raise_custom_vjp_error_on_jvp)
custom_lin_p.jvp = raise_custom_vjp_error_on_jvp


class CustomVJPException(Exception):
    """A `custom_vjp` function was differentiated by a value it closes over."""


def _custom_lin_transpose(cts, *args, num_res, bwd, out_avals, in_zeros, symbolic_zeros):
    res = args[:num_res]
    if symbolic_zeros:
        cts = [replace_internal_symbolic_zeros(ct) for ct in cts]
    else:
        cts = [instantiate_zeros(ct) for ct in cts]
    cts_in = bwd(*res, *cts)
    cts_in = [replace_rule_output_symbolic_zeros(ct) for ct in cts_in]
    return [None] * num_res + [ct for ct, zero in zip(cts_in, in_zeros) if zero is None]


custom_lin_p.transpose = _custom_lin_transpose


def _custom_lin_pp(eqn, context, settings):
    params = dict(
        bwd=getattr(getattr(eqn.params["bwd"], "func", None), "name", "bwd"),
        in_zeros=[zero is not None for zero in eqn.params["in_zeros"]],
        num_res=eqn.params["num_res"],
        symbolic_zeros=eqn.params["symbolic_zeros"],
    )
    return core.default_pp_eqn(eqn.replace(params=params), context, settings)


custom_lin_p.pp = _custom_lin_pp


def _no_rule(what: str, primitive) -> NotImplementedError:
    return NotImplementedError(f"{what} for '{primitive.name}' not implemented")


def jvp(fun: Callable, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
    """Results and tangents of a flat function.

    Args:
      fun: function of flat arguments returning a sequence.
      primals: argument values.
      tangents: their tangents; may be `Zero`.

    Returns:
      Results, and their tangents (which may be `Zero`).
    """
    trace = JVPTrace(trace_ctx.trace)
    args = [
        p
        if type(t) is Zero or getattr(t, "dtype", None) == dtypes.float0
        else JVPTracer(trace, p, t)
        for p, t in zip(primals, tangents)
    ]
    with core.set_current_trace(trace, check_leaks=True):
        outs = fun(*args)
        pairs = [trace.to_primal_tangent_pair(x) for x in outs]
        del args, outs
    trace.invalidate()
    return unzip2(pairs) if pairs else ([], [])


# Linearization


class TapeEqn:
    """A recorded linear operation: transposing it needs its primitive, inputs and parameters."""

    __slots__ = ("primitive", "inputs", "params", "outs", "source_info")

    def __init__(self, primitive, inputs, params, outs, source_info):
        self.primitive: Primitive = primitive
        self.inputs: list = inputs  # TapeTracers of this tape, and residual values
        self.params: dict = params
        self.outs: list[TapeTracer] = outs
        self.source_info = source_info


class TapeTracer(Tracer):
    """A tangent, known by its type: a numbered slot of a tape."""

    __slots__ = ("index",)

    def __init__(self, trace, aval, index):
        self._trace = trace
        self.aval = aval
        self.index = index

    def __repr__(self) -> str:
        return f"TangentTracer({self.aval})"

    __str__ = __repr__


core.register_tracer_class(TapeTracer)


class TapeTrace(Trace):
    """Runs operations on known values in the parent trace; records those on tangents."""

    __slots__ = ("parent", "eqns", "num_slots", "num_inputs")

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent
        self.eqns: list[TapeEqn] = []
        self.num_slots = 0
        self.num_inputs = 0

    def new_input(self, aval: AbstractValue) -> TapeTracer:
        tracer = TapeTracer(self, aval, self.num_slots)
        self.num_slots += 1
        self.num_inputs += 1
        return tracer

    def is_linear(self, x: Any) -> bool:
        return type(x) is TapeTracer and x._trace is self

    def process_primitive(self, primitive, args, params):
        for x in args:
            if type(x) is TapeTracer and x._trace is self:
                return self.record(primitive, args, params)
        outer = trace_ctx.trace
        trace_ctx.set_trace(self.parent)
        try:
            return primitive.bind_with_trace(self.parent, args, params)
        finally:
            trace_ctx.set_trace(outer)

    def record(self, primitive, args, params):
        """Apply `primitive` to tangents, maybe among known values."""
        if primitive.record is not None:
            return primitive.record(self, args, params)
        if primitive.dependence is not None:
            return self.record_split(primitive, args, params)
        return self.record_eqn(primitive, args, params)

    def record_split(self, primitive, args, params):
        """Compute the results that no tangent reaches, and record the application for the others."""
        linear = [self.is_linear(x) for x in args]
        outs = list(primitive.dependence(linear, **params))
        if all(outs):
            return self.record_eqn(primitive, args, params)
        avals = [typeof(x) for x in args]
        out_avals, effects = primitive.eval_types(avals, params)
        eqn = core.new_jaxpr_eqn(
            [Var(a) for a in avals], [Var(a) for a in out_avals], primitive, params, effects
        )
        known, rest = pe.split_eqn(eqn, linear)
        env = dict(zip(eqn.invars, args))
        if known is not None:
            with core.set_current_trace(self.parent):
                values = primitive.bind(*[env[v] for v in known.invars], **known.params)
            env.update(zip(known.outvars, values))
        if rest is not None:
            recorded = self.record_eqn(primitive, [env[v] for v in rest.invars], rest.params)
            env.update(zip(rest.outvars, recorded))
        return [env[v] for v in eqn.outvars]

    def record_eqn(self, primitive, args, params):
        """Record an application all of whose results are tangents."""
        avals = tuple([typeof(x) for x in args])
        source_info = None if self.parent is eval_trace else source_info_util.current()
        if primitive.multiple_results:
            out_avals, _ = primitive.eval_types(avals, params)
            n = self.num_slots
            outs = [TapeTracer(self, a, n + i) for i, a in enumerate(out_avals)]
            self.num_slots = n + len(outs)
            self.eqns.append(TapeEqn(primitive, list(args), params, outs, source_info))
            return outs
        out_aval, _ = pe.cached_types(primitive, avals, params)
        out = TapeTracer(self, out_aval, self.num_slots)
        self.num_slots += 1
        self.eqns.append(TapeEqn(primitive, list(args), params, [out], source_info))
        return out

    def process_custom_jvp_call(self, primitive, fun, jvp, args, *, symbolic_zeros):
        if any(self.is_linear(x) for x in args):
            return fun(*args)  # a linear use: its operations are recorded as they come
        with core.set_current_trace(self.parent):
            return primitive.bind_with_trace(
                self.parent, (fun, jvp, *args), dict(symbolic_zeros=symbolic_zeros)
            )

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, args, *, out_trees, symbolic_zeros):
        if any(self.is_linear(x) for x in args):
            return fun(*args)
        with core.set_current_trace(self.parent):
            return primitive.bind_with_trace(
                self.parent,
                (fun, fwd, bwd, *args),
                dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros),
            )


class LinearizeTracer(_TangentTracer):
    """A value whose tangent is recorded on a tape."""

    __slots__ = ()

    def __repr__(self) -> str:
        tangent = self.tangent.aval.str_short(short_dtypes=True)
        return f"GradTracer(primal={self.primal}, typeof(tangent)={tangent})"

    __str__ = __repr__


core.register_tracer_class(LinearizeTracer)


class LinearizeTrace(_TangentTrace):
    """Computes values in the parent trace and records the linear part on a tape."""

    __slots__ = ("tape",)
    tracer_class = LinearizeTracer

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent
        self.tape = self.rule_trace = TapeTrace(parent)

    def _rule(self, primitive) -> Callable:
        return primitive.linearize or primitive.jvp

    def _known(self, primitive, primals, params, outs):
        if any([type(x) is TapeTracer and x._trace is self.tape for x in outs]):
            # The rule computes results and tangents by one operation of unknown structure.
            trace_ctx.set_trace(self.parent)
            return primitive.bind_with_trace(self.parent, primals, params)
        return outs

    def new_arg(self, primal) -> LinearizeTracer:
        tangent = self.tape.new_input(typeof(primal).to_tangent_aval())
        return LinearizeTracer(self, primal, tangent)


class Linearized:
    """The linear part of a function at a point: a tape, its inputs' types, and its outputs.

    Attributes:
      tape: recorded operations.
      in_avals: tangent types of the inputs; the first slots of the tape.
      outs: tangents of the results: slots, known values (constants) or `Zero`.
    """

    __slots__ = ("tape", "in_avals", "outs")

    def __init__(self, tape: TapeTrace, in_avals: list, outs: list):
        self.tape = tape
        self.in_avals = in_avals
        self.outs = outs

    def backward(self, cts: Sequence[Any]) -> list:
        """Cotangents of the inputs, from cotangents of the results (either may be `Zero`)."""
        tape = self.tape
        slots: list = [None] * tape.num_slots
        for out, ct in zip(self.outs, cts):
            if type(out) is TapeTracer and type(ct) is not Zero:
                _accumulate(slots, out.index, ct)
        if trace_ctx.trace is eval_trace:
            for eqn in reversed(tape.eqns):
                _backward_eqn(tape, eqn, slots)
        else:
            for eqn in reversed(tape.eqns):
                info = eqn.source_info
                if info is None:
                    _backward_eqn(tape, eqn, slots)
                else:
                    stack = info.name_stack.transform("transpose")
                    with source_info_util.user_context(info.traceback, name_stack=stack):
                        _backward_eqn(tape, eqn, slots)
        return [
            Zero(a.to_ct_aval()) if slots[i] is None else slots[i]
            for i, a in enumerate(self.in_avals)
        ]

    def apply(self, tangents: Sequence[Any]) -> list:
        """Tangents of the results from tangents of the inputs: run the tape forwards."""
        tape = self.tape
        slots: list = list(tangents) + [None] * (tape.num_slots - len(self.in_avals))
        for eqn in tape.eqns:
            args = [
                slots[x.index] if type(x) is TapeTracer and x._trace is tape else x
                for x in eqn.inputs
            ]
            out = eqn.primitive.bind(*args, **eqn.params)
            if eqn.primitive.multiple_results:
                for slot, o in zip(eqn.outs, out):
                    slots[slot.index] = o
            else:
                slots[eqn.outs[0].index] = out
        return [
            slots[o.index] if type(o) is TapeTracer and o._trace is tape else o for o in self.outs
        ]

    def to_jaxpr(self, debug_info=None, nonzero_outs: bool = False) -> tuple[Jaxpr, list]:
        """The linear function as a jaxpr with residuals as constants; without dead operations.

        With `nonzero_outs` the jaxpr leaves out results that are symbolic zeros.
        """
        tape = self.tape
        live = [False] * tape.num_slots
        for o in self.outs:
            if type(o) is TapeTracer and o._trace is tape:
                live[o.index] = True
        kept = []
        for eqn in reversed(tape.eqns):
            if any(live[o.index] for o in eqn.outs):
                kept.append(eqn)
                for x in eqn.inputs:
                    if type(x) is TapeTracer and x._trace is tape:
                        live[x.index] = True
        kept.reverse()
        builder = pe.DynamicJaxprTrace(debug_info)
        vars_: list = [None] * tape.num_slots
        for i, aval in enumerate(self.in_avals):
            vars_[i] = builder.new_arg(aval).val

        def atom(x):
            if type(x) is TapeTracer and x._trace is tape:
                return vars_[x.index]
            return builder.to_atom(x)

        for eqn in kept:
            for o in eqn.outs:
                vars_[o.index] = Var(o.aval)
            builder.eqns.append(
                core.new_jaxpr_eqn(
                    [atom(x) for x in eqn.inputs],
                    [vars_[o.index] for o in eqn.outs],
                    eqn.primitive,
                    eqn.params,
                    eqn.primitive.eval_types([typeof(x) for x in eqn.inputs], eqn.params)[1]
                    if eqn.primitive.effectful_abstract_eval
                    else core.no_effects,
                    eqn.source_info,
                )
            )
        outvars = []
        for o in self.outs:
            if type(o) is Zero:
                if nonzero_outs:
                    continue
                o = _zero_literal(o)
            outvars.append(atom(o))
        jaxpr = Jaxpr(
            builder.constvars, builder.invars, outvars, builder.eqns,
            core.join_effects(*[e.effects for e in builder.eqns]), debug_info,
        )  # fmt: skip
        return jaxpr, builder.consts


def _zero_literal(z: Zero):
    with core.eval_context():
        return zeros_like_aval(z.aval)


def _accumulate(slots: list, index: int, ct: Any) -> None:
    old = slots[index]
    slots[index] = ct if old is None else add_jaxvals(old, ct)


def _backward_eqn(tape: TapeTrace, eqn: TapeEqn, slots: list) -> None:
    primitive = eqn.primitive
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
        raise _no_rule("Transpose rule (for reverse-mode differentiation)", primitive)
    args = [
        UndefinedPrimal(x.aval) if type(x) is TapeTracer and x._trace is tape else x
        for x in eqn.inputs
    ]
    cts_in = rule(ct, *args, **eqn.params)
    for x, c in zip(eqn.inputs, cts_in):
        if c is not None and type(c) is not Zero and type(x) is TapeTracer and x._trace is tape:
            _accumulate(slots, x.index, c)


def linearize(fun: Callable, primals: Sequence[Any]) -> tuple[list, Linearized]:
    """Results of a flat function, and its linear part at `primals`.

    All arguments are perturbed; those without a tangent space (integers) get `float0` tangents.
    """
    trace = LinearizeTrace(trace_ctx.trace)
    tape = trace.tape
    args = []
    in_avals = []
    for p in primals:
        aval = typeof(p).to_tangent_aval()
        in_avals.append(aval)
        tangent = tape.new_input(aval)
        if getattr(aval, "dtype", None) == dtypes.float0:
            args.append(p)
        else:
            args.append(LinearizeTracer(trace, p, tangent))
    with core.set_current_trace(trace, check_leaks=True):
        outs = fun(*args)
        pairs = [trace.to_primal_tangent_pair(x) for x in outs]
        del args, outs
    trace.invalidate()
    primals_out = [p for p, _ in pairs]
    return primals_out, Linearized(tape, in_avals, [t for _, t in pairs])


def vjp(fun: Callable, primals: Sequence[Any]) -> tuple[list, Callable]:
    """Results of a flat function, and the function from cotangents to cotangents."""
    outs, lin = linearize(fun, primals)
    return outs, lambda *cts: lin.backward(cts)


# Transformations of jaxprs, cached on the jaxpr


@cached_on_jaxpr
def _jvp_jaxpr(closed: ClosedJaxpr, nonzeros: tuple, instantiate: tuple):
    info = closed.debug_info
    out_nonzeros: list[bool] = []

    def run(*args):
        primals = args[: len(nonzeros)]
        rest = iter(args[len(nonzeros) :])
        tangents = [next(rest) if nz else zero_of(p) for p, nz in zip(primals, nonzeros)]
        outs, tangents_out = jvp(core.jaxpr_as_fun(closed), primals, tangents)
        out_nonzeros[:] = [
            type(t) is not Zero or inst for t, inst in zip(tangents_out, instantiate)
        ]
        kept = [instantiate_zeros(t) for t, nz in zip(tangents_out, out_nonzeros) if nz]
        return [*outs, *kept]

    in_avals = list(closed.in_avals)
    tangent_avals = [a.to_tangent_aval() for a, nz in zip(in_avals, nonzeros) if nz]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, in_avals + tangent_avals, info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, consts), tuple(out_nonzeros)


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr that also pushes tangents forward.

    Args:
      closed: a jaxpr of n arguments.
      nonzeros: which arguments have a tangent.
      instantiate: results whose tangent must be there even if it is zero.

    Returns:
      A jaxpr from (arguments, nonzero tangents) to (results, nonzero tangents), and which results
      have a tangent.
    """
    if type(instantiate) is bool:
        instantiate = (instantiate,) * len(closed.out_avals)
    jaxpr, nz = _jvp_jaxpr(closed, tuple(nonzeros), tuple(instantiate))
    return jaxpr, list(nz)


class LinearizedJaxpr:
    """A jaxpr taken apart into a primal and a linear one (see `linearize_jaxpr`).

    Attributes:
      primal: from arguments to (results, residuals that are not forwarded).
      tangent: from (residuals, nonzero tangents) to the nonzero tangents of results.
      num_residuals: how many residuals `tangent` takes, forwarded ones included.
      residual_sources: for each residual `('in', i)`, `('out', i)` or `('res', i)`: an argument, a
        result, or an extra result of `primal`.
      nonzero_outs: which results have a tangent.
    """

    __slots__ = (
        "primal", "tangent", "num_residuals", "residual_sources", "nonzero_outs", "residual_avals",
    )  # fmt: skip

    def __init__(self, primal, tangent, residual_sources, nonzero_outs, residual_avals):
        self.primal: ClosedJaxpr = primal
        self.tangent: ClosedJaxpr = tangent
        self.residual_sources = residual_sources
        self.num_residuals = len(residual_sources)
        self.nonzero_outs: list[bool] = nonzero_outs
        self.residual_avals = residual_avals

    def residuals(self, args: Sequence[Any], outs_and_res: Sequence[Any]) -> list:
        """Values of the residuals, from arguments and from results of `primal`."""
        num_outs = len(self.nonzero_outs)
        where = {"in": args, "out": outs_and_res, "res": outs_and_res[num_outs:]}
        return [where[kind][i] for kind, i in self.residual_sources]


class SplitJaxpr:
    """A jaxpr split into what is known and what depends on tangents (see `split_jaxpr`).

    Attributes:
      known: from known arguments to (known results, residuals that are not known arguments).
      tangent: from (residuals, tangents) to the results that depend on tangents.
      residual_sources: for each residual `('in', i)`, a known argument, or `('res', i)`.
      depends: which results depend on tangents.
    """

    __slots__ = ("known", "tangent", "residual_sources", "depends")

    def __init__(self, known, tangent, residual_sources, depends):
        self.known: ClosedJaxpr = known
        self.tangent: ClosedJaxpr = tangent
        self.residual_sources = residual_sources
        self.depends = depends


@cached_on_jaxpr
def split_jaxpr(closed: ClosedJaxpr, linear: tuple) -> SplitJaxpr:
    """Split a jaxpr, linear in some arguments once the others are known, into known and linear parts."""
    info = closed.debug_info.with_unknown_names()
    trace = pe.DynamicJaxprTrace(info, trace_ctx.trace)
    tape = TapeTrace(trace)
    args = [
        tape.new_input(a) if lin else trace.new_arg(a) for a, lin in zip(closed.in_avals, linear)
    ]
    with source_info_util.reset_name_stack(), core.set_current_trace(tape):
        outs = core.eval_jaxpr(closed.jaxpr, closed.consts, *args)
    tape.invalidate()
    depends = tuple([tape.is_linear(x) for x in outs])
    lin = Linearized(
        tape,
        [a for a, is_lin in zip(closed.in_avals, linear) if is_lin],
        [x for x, dep in zip(outs, depends) if dep],
    )
    tangent_jaxpr, residuals = lin.to_jaxpr(info)
    known_args = [x for x, is_lin in zip(args, linear) if not is_lin]
    sources, res_vars, const_vars, consts, extra = _residual_sources(
        trace, known_args, (), tangent_jaxpr.constvars, residuals
    )
    known_outs = [x for x, dep in zip(outs, depends) if not dep]
    known_jaxpr, known_consts = trace.to_jaxpr([*known_outs, *extra], info)
    known_jaxpr, _ = pe.dce_jaxpr(known_jaxpr, [True] * len(known_jaxpr.outvars), True)
    trace.finish()
    tangent_jaxpr = tangent_jaxpr.replace(
        constvars=const_vars, invars=res_vars + tangent_jaxpr.invars
    )
    return SplitJaxpr(
        ClosedJaxpr(known_jaxpr, known_consts), ClosedJaxpr(tangent_jaxpr, consts), sources, depends
    )


def _residual_sources(trace, args, outs, constvars, residuals):
    """Where residuals of a linear jaxpr come from: arguments, results, or extra results.

    Values that are not of `trace` are constants of the linear jaxpr.

    Returns:
      Sources, variables of residuals, variables and values of constants, and the extra results.
    """
    sources: list[tuple[str, int]] = []
    res_vars, const_vars, consts, extra = [], [], [], []
    arg_index = {x.val: i for i, x in enumerate(args)}
    out_index: dict = {}
    for i, x in enumerate(outs):
        if type(x) is pe.DynamicJaxprTracer and x._trace is trace and type(x.val) is Var:
            out_index.setdefault(x.val, i)
    for var, value in zip(constvars, residuals):
        if not (type(value) is pe.DynamicJaxprTracer and value._trace is trace):
            const_vars.append(var)
            consts.append(value)
            continue
        if type(value.val) is Literal:
            const_vars.append(var)
            consts.append(value.val.val)
            continue
        res_vars.append(var)
        if value.val in arg_index:
            sources.append(("in", arg_index[value.val]))
        elif value.val in out_index:
            sources.append(("out", out_index[value.val]))
        else:
            sources.append(("res", len(extra)))
            extra.append(value)
    return sources, res_vars, const_vars, consts, extra


@cached_on_jaxpr
def linearize_jaxpr(
    closed: ClosedJaxpr, nonzeros: tuple, instantiate: tuple = (), forward: bool = True
) -> LinearizedJaxpr:
    """Take a jaxpr apart into a primal part with residuals and a linear part.

    Args:
      closed: the jaxpr.
      nonzeros: which arguments are perturbed.
      instantiate: which results must have a tangent even if it is zero; () for none.
      forward: whether residuals that are arguments or results are not returned again.
    """
    instantiate = instantiate or (False,) * len(closed.out_avals)
    info = closed.debug_info
    parent = trace_ctx.trace
    trace = pe.DynamicJaxprTrace(info, parent)
    args = [trace.new_arg(a) for a in closed.in_avals]
    lin = LinearizeTrace(trace)
    lin_args = []
    tangent_avals = []
    for x, nz in zip(args, nonzeros):
        if nz:
            tracer = lin.new_arg(x)
            tangent_avals.append(tracer.tangent.aval)
            lin_args.append(tracer)
        else:
            lin_args.append(x)
    with source_info_util.reset_name_stack():
        with core.set_current_trace(lin):
            outs = core.eval_jaxpr(closed.jaxpr, closed.consts, *lin_args)
        pairs = [lin.to_primal_tangent_pair(x) for x in outs]
        tangents = [t for _, t in pairs]
        nonzero_outs = [type(t) is not Zero or inst for t, inst in zip(tangents, instantiate)]
        with core.set_current_trace(trace):
            kept = [instantiate_zeros(t) for t, nz in zip(tangents, nonzero_outs) if nz]
    lin.invalidate()
    tape = Linearized(lin.tape, tangent_avals, kept)
    tangent_jaxpr, residuals = tape.to_jaxpr(info.with_unknown_names())
    primal_outs = [p for p, _ in pairs]

    sources, res_vars, const_vars, consts, extra = _residual_sources(
        trace, args if forward else (), primal_outs if forward else (), tangent_jaxpr.constvars,
        residuals,
    )  # fmt: skip
    primal_jaxpr, primal_consts = trace.to_jaxpr([*primal_outs, *extra], info.with_unknown_names())
    primal_jaxpr, _ = pe.dce_jaxpr(primal_jaxpr, [True] * len(primal_jaxpr.outvars), True)
    trace.finish()
    tangent_jaxpr = tangent_jaxpr.replace(
        constvars=const_vars, invars=res_vars + tangent_jaxpr.invars
    )
    return LinearizedJaxpr(
        ClosedJaxpr(primal_jaxpr, primal_consts),
        ClosedJaxpr(tangent_jaxpr, consts),
        sources,
        nonzero_outs,
        [v.aval for v in res_vars],
    )


def backward_pass(
    jaxpr: Jaxpr, transform_stack: Any, consts: Sequence[Any], primals_in: Sequence[Any],
    cotangents_in: Sequence[Any],
) -> list:  # fmt: skip
    """Transpose a jaxpr at given values of its nonlinear arguments.

    Args:
      jaxpr: the jaxpr, linear in the arguments that are `UndefinedPrimal`.
      transform_stack: whether to mark names as transposed.
      consts: values of its constants.
      primals_in: values, or `UndefinedPrimal` for linear arguments.
      cotangents_in: cotangents of the results; may be `Zero`.

    Returns:
      Cotangents of all arguments: `Zero` where there is none, None for nonlinear arguments.
    """
    if all(type(ct) is Zero for ct in cotangents_in):
        return [
            Zero(v.aval.to_ct_aval()) if is_undefined_primal(p) else None
            for v, p in zip(jaxpr.invars, primals_in)
        ]
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    linear: set[Var] = set()
    for v, p in zip(jaxpr.invars, primals_in):
        if is_undefined_primal(p):
            linear.add(v)
        else:
            env[v] = p
    base_stack = source_info_util.current_name_stack()
    linear_eqns = []
    for eqn in jaxpr.eqns:
        marked = [type(v) is not Literal and v in linear for v in eqn.invars]
        if any(marked):
            eqn, rest = pe.split_eqn(eqn, marked)
            if rest is not None:
                linear_eqns.append(rest)
                linear.update(rest.outvars)
            if eqn is None:
                continue
        vals = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        funs, params = eqn.primitive.get_bind_params(eqn.params)
        info = eqn.source_info
        with (
            source_info_util.user_context(info.traceback, name_stack=base_stack + info.name_stack),
            eqn.ctx.manager,
        ):
            out = eqn.primitive.bind(*funs, *vals, **params)
        env.update(
            zip(eqn.outvars, out) if eqn.primitive.multiple_results else [(eqn.outvars[0], out)]
        )

    cts: dict[Var, Any] = {}

    def add_ct(v, ct):
        if ct is None or type(ct) is Zero or type(v) is Literal:
            return
        cts[v] = add_jaxvals(cts[v], ct) if v in cts else ct

    for v, ct in zip(jaxpr.outvars, cotangents_in):
        if type(v) is not Literal and v in linear:
            add_ct(v, ct)
    for eqn in reversed(linear_eqns):
        outs = [cts.pop(v, None) for v in eqn.outvars]
        if all(c is None for c in outs):
            continue
        outs = [Zero(v.aval.to_ct_aval()) if c is None else c for v, c in zip(eqn.outvars, outs)]
        rule = eqn.primitive.transpose
        if rule is None:
            raise _no_rule("Transpose rule (for reverse-mode differentiation)", eqn.primitive)
        args = [
            v.val if type(v) is Literal else UndefinedPrimal(v.aval) if v in linear else env[v]
            for v in eqn.invars
        ]
        info = eqn.source_info
        stack = (
            base_stack + info.name_stack.transform("transpose") if transform_stack else base_stack
        )
        with source_info_util.user_context(info.traceback, name_stack=stack), eqn.ctx.manager:
            cts_in = rule(outs if eqn.primitive.multiple_results else outs[0], *args, **eqn.params)
        for v, ct in zip(eqn.invars, cts_in):
            if type(v) is not Literal and v in linear:
                add_ct(v, ct)
    return [cts.get(v, Zero(v.aval.to_ct_aval())) if v in linear else None for v in jaxpr.invars]


@cached_on_jaxpr
def transpose_jaxpr(closed: ClosedJaxpr, linear: tuple, ct_nonzero: tuple):
    """The transpose of a jaxpr as a jaxpr.

    Args:
      closed: the jaxpr.
      linear: which arguments it is linear in.
      ct_nonzero: which results have a cotangent that is not zero.

    Returns:
      A closed jaxpr from (nonlinear arguments, nonzero cotangents) to the nonzero cotangents of linear
      arguments, and which linear arguments have one.
    """
    out_nonzero: list[bool] = []
    num_nonlinear = len(linear) - sum(linear)

    def run(*args):
        nonlinear, cts = iter(args[:num_nonlinear]), iter(args[num_nonlinear:])
        primals = [
            UndefinedPrimal(a) if lin else next(nonlinear)
            for a, lin in zip(closed.in_avals, linear)
        ]
        cts = [
            next(cts) if nz else Zero(a.to_ct_aval()) for a, nz in zip(closed.out_avals, ct_nonzero)
        ]
        cts_in = backward_pass(closed.jaxpr, False, closed.consts, primals, cts)
        cts_in = [ct for ct, lin in zip(cts_in, linear) if lin]
        out_nonzero[:] = [type(ct) is not Zero for ct in cts_in]
        return [ct for ct in cts_in if type(ct) is not Zero]

    in_avals = [a for a, lin in zip(closed.in_avals, linear) if not lin]
    in_avals += [a.to_ct_aval() for a, nz in zip(closed.out_avals, ct_nonzero) if nz]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, in_avals, closed.debug_info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, consts), tuple(out_nonzero)


# Ways to give a primitive its rules


def deflinear(primitive: Primitive, transpose_rule: Callable) -> None:
    """A primitive linear in all its arguments: `transpose_rule(ct, **params) -> cts`."""
    primitive.jvp = functools.partial(linear_jvp, primitive)
    primitive.transpose = functools.partial(_linear_transpose, transpose_rule)


def deflinear2(primitive: Primitive, transpose_rule: Callable) -> None:
    """As `deflinear`, with `transpose_rule(ct, *args, **params)`."""
    primitive.jvp = functools.partial(linear_jvp, primitive)
    primitive.transpose = transpose_rule


def _linear_transpose(transpose_rule, ct, *args, **params):
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined_primal(x) else None for x in args]
    return transpose_rule(ct, **params)


def linear_jvp(primitive, primals, tangents, **params):
    """The JVP rule of a linear primitive: apply it to the tangents."""
    out = primitive.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        if primitive.multiple_results:
            return out, [zero_of(x) for x in out]
        return out, zero_of(out)
    return out, primitive.bind(*map(instantiate_zeros, tangents), **params)


def defjvp(primitive: Primitive, *jvprules: Callable | None) -> None:
    """JVP from one rule per operand: `rule(tangent, *primals, **params) -> tangent of the result`."""
    primitive.jvp = functools.partial(standard_jvp, jvprules, primitive)


def standard_jvp(rules, primitive, primals, tangents, **params):
    out = primitive.bind(*primals, **params)
    total = None
    for rule, t in zip(rules, tangents):
        if rule is not None and type(t) is not Zero:
            contribution = rule(t, *primals, **params)
            total = contribution if total is None else add_tangents(total, contribution)
    return out, zero_of(out) if total is None else total


def defjvp2(primitive: Primitive, *jvprules: Callable | None) -> None:
    """As `defjvp`; the rules get the result too: `rule(tangent, result, *primals, **params)`."""
    primitive.jvp = functools.partial(standard_jvp2, jvprules, primitive)


def standard_jvp2(rules, primitive, primals, tangents, **params):
    out = primitive.bind(*primals, **params)
    total = None
    for rule, t in zip(rules, tangents):
        if rule is not None and type(t) is not Zero:
            contribution = rule(t, out, *primals, **params)
            total = contribution if total is None else add_tangents(total, contribution)
    return out, zero_of(out) if total is None else total


def defjvp_zero(primitive: Primitive) -> None:
    """A primitive whose results do not vary with its arguments."""
    primitive.jvp = functools.partial(zero_jvp, primitive)


def zero_jvp(primitive, primals, tangents, **params):
    out = primitive.bind(*primals, **params)
    if primitive.multiple_results:
        return out, [zero_of(x) for x in out]
    return out, zero_of(out)


def defbilinear(prim: Primitive, lhs_rule: Callable, rhs_rule: Callable) -> None:
    """A primitive linear in each of two arguments.

    `lhs_rule(ct, x, y, **params)` and `rhs_rule(ct, x, y, **params)` give the cotangent of one
    argument, which is then an `UndefinedPrimal`.
    """
    prim.jvp = functools.partial(
        standard_jvp,
        (
            lambda g, x, y, **kw: prim.bind(g, y, **kw),
            lambda g, x, y, **kw: prim.bind(x, g, **kw),
        ),
        prim,
    )
    prim.transpose = functools.partial(bilinear_transpose, lhs_rule, rhs_rule)


def bilinear_transpose(lhs_rule, rhs_rule, ct, x, y, **params):
    if is_undefined_primal(x) == is_undefined_primal(y):
        raise TypeError("a bilinear operation is transposed in exactly one of its arguments")
    if type(ct) is Zero:
        return (Zero(x.aval), None) if is_undefined_primal(x) else (None, Zero(y.aval))
    if is_undefined_primal(x):
        out = lhs_rule(ct, x, y, **params)
        return (Zero(x.aval) if out is Zero else out), None
    out = rhs_rule(ct, x, y, **params)
    return None, (Zero(y.aval) if out is Zero else out)


def get_primitive_transpose(p: Primitive) -> Callable:
    if p.transpose is None:
        raise _no_rule("Transpose rule (for reverse-mode differentiation)", p)
    return p.transpose


__all__ = [name for name in dir() if not name.startswith("_")]
