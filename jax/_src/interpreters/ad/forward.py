"""Forward mode: each value is paired with its tangent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import config, core, dtypes, source_info_util
from jax._src.ad_util import (
    Zero,
    replace_internal_symbolic_zeros,
    replace_rule_output_symbolic_zeros,
)
from jax._src.core import (
    ClosedJaxpr,
    Primitive,
    Trace,
    Tracer,
    cached_on_jaxpr,
    trace_ctx,
    typeof,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.ad.custom_linear import custom_vjp_linearize
from jax._src.interpreters.ad.values import instantiate_zeros, no_rule, zero_of
from jax._src.late_binding import late
from jax._src.tree_util import tree_map
from jax._src.util import split_list


def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
    instantiate: bool | Sequence[bool] = True,
    transform_stack: bool = True,
) -> Any:
    """Compute the results and tangents of a flat function.

    Args:
      fun: function of flat arguments that returns a sequence.
      primals: argument values.
      tangents: their tangents; may be `Zero`.
      has_aux: whether `fun` returns a pair of the sequence and auxiliary data.
      instantiate: for which results to replace a `Zero` tangent by an array of zeros; True for all.
      transform_stack: whether to add `jvp` to the names of operations.

    Returns:
      The results, their tangents (which may be `Zero`), and with `has_aux` the auxiliary data
      without tangents.
    """
    if has_aux or instantiate:
        return _jvp_with_options(fun, primals, tangents, has_aux, instantiate, transform_stack)
    if transform_stack:
        with source_info_util.transform_name_stack("jvp"):
            return jvp(fun, primals, tangents, instantiate=False, transform_stack=False)
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
    return [p for p, _ in pairs], [t for _, t in pairs]


def _jvp_with_options(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool,
    instantiate: bool | Sequence[bool],
    transform_stack: bool,
) -> Any:
    aux = []

    def without_aux(*args: Any) -> Any:
        outs, data = fun(*args)
        aux.append(tree_map(lambda x: x.primal if isinstance(x, JVPTracer) else x, data))
        return outs

    outs, tangents = jvp(
        without_aux if has_aux else fun, primals, tangents, False, False, transform_stack
    )
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(outs)
    tangents = [
        instantiate_zeros(t) if i else t for t, i in zip(tangents, instantiate, strict=True)
    ]
    return (outs, tangents, *aux)


class TangentTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent", "source_info")

    def __init__(self, trace: TangentTrace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = typeof(primal)
        self.primal = primal
        self.tangent = tangent
        if trace.keeps_lines:
            self.source_info = source_info_util.current()

    def to_concrete_value(self) -> Any:
        return core.to_concrete_value(self.primal)

    def _to_scalar(self, cast: type) -> Any:
        if cast is not int and self.to_concrete_value() is not None:
            self._refuse_scalar(
                cast,
                " The value is being differentiated, and a Python number has no derivative: "
                "jax.lax.stop_gradient(x) makes it a constant.",
            )
        return super()._to_scalar(cast)

    def get_referent(self) -> Any:
        return self.primal.get_referent() if isinstance(self.primal, Tracer) else self

    def _origin_msg(self) -> str:
        info = getattr(self, "source_info", None)  # there to find leaks
        if info is not None:
            return self._created_on(info)
        return self.primal._origin_msg() if isinstance(self.primal, Tracer) else ""

    def _contents(self) -> Sequence[tuple[str, Any]]:
        return [("primal", self.primal), ("tangent", self.tangent)]


class TangentTrace(Trace):
    """Pairs values with tangents; the base class of forward mode and linearization.

    The subclasses differ in the trace in which rules run (`rule_trace`), and so in how they compute
    tangents.
    """

    __slots__ = ("parent", "rule_trace", "keeps_lines")
    tracer_class: type[TangentTracer]
    discharges_refs = (
        False  # operations with jaxprs see values in place of references with tangents
    )
    parent: Trace
    rule_trace: Trace
    keeps_lines: bool  # whether tracers have the lines where they were made

    @property
    def parent_trace(self) -> Trace:
        return self.parent

    def _rule(self, primitive: Primitive) -> Callable[..., Any] | None:
        raise NotImplementedError

    def to_primal_tangent_pair(self, x: object) -> tuple[Any, Any]:
        if type(x) is self.tracer_class and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(typeof(x).to_tangent_aval())

    def _unpack(self, args: Sequence[Any]) -> Any:
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

    def cur_qdd(self, x: Any) -> Any:
        primal = x.primal if type(x) is self.tracer_class and x._trace is self else x
        return self.parent.cur_qdd(primal)

    def _pack(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        make = self.tracer_class
        return [p if type(t) is Zero else make(self, p, t) for p, t in zip(primals, tangents)]

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        primals, tangents, perturbed = self._unpack(args)
        outer = trace_ctx.trace
        try:
            if not perturbed:
                if not primitive.ref_primitive:
                    trace_ctx.set_trace(self.parent)
                    return primitive.bind_with_trace(self.parent, primals, params)
                tangents = [zero_of(p) for p in primals]
            elif primitive.ref_boundary and self.discharges_refs:
                refs = [
                    type(t) is not Zero and type(typeof(p)) is core.AbstractRef
                    for p, t in zip(primals, tangents)
                ]
                outs = late.functionalize(primitive, args, params, refs, True)
                if outs is not None:
                    return outs
            rule = self._rule(primitive)
            if rule is None:
                raise no_rule("Differentiation rule", primitive)
            trace_ctx.set_trace(self.rule_trace)
            out, tangent_out = rule(tuple(primals), tuple(tangents), **params)
            if primitive.multiple_results:
                return self._pack(self._known(primitive, primals, params, out), tangent_out)
        finally:
            trace_ctx.set_trace(outer)
        return out if type(tangent_out) is Zero else self.tracer_class(self, out, tangent_out)

    def _known(
        self,
        primitive: Primitive,
        primals: Sequence[Any],
        params: dict[str, Any],
        outs: Sequence[Any],
    ) -> Any:
        """Return the results of a rule, which must not depend on tangents."""
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
        primals, tangents, perturbed = self._unpack(args)
        if not perturbed:
            params = dict(symbolic_zeros=symbolic_zeros)
            return self.parent.bind_here(primitive, (fun, jvp, *primals), params)
        with core.set_current_trace(self.rule_trace):
            prepare = replace_internal_symbolic_zeros if symbolic_zeros else instantiate_zeros
            outs = jvp(*primals, *map(prepare, tangents))
            primals_out, tangents_out = split_list(outs, [len(outs) // 2])
            tangents_out = [replace_rule_output_symbolic_zeros(t) for t in tangents_out]
        return self._pack(primals_out, tangents_out)

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
        primals, tangents, perturbed = self._unpack(args)
        if not perturbed:
            params = dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros)
            return self.parent.bind_here(primitive, (fun, fwd, bwd, *primals), params)
        with core.set_current_trace(self.rule_trace):
            outs, tangents_out = custom_vjp_linearize(
                fwd, bwd, primals, tangents, out_trees, symbolic_zeros
            )
        return self._pack(outs, tangents_out)


class JVPTracer(TangentTracer):
    """A value and its tangent, in forward mode."""

    __slots__ = ()

    def __repr__(self) -> str:
        primal, tangent = core.repr_inside(self.primal), core.repr_inside(self.tangent)
        return f"JVPTracer(primal={primal}, tangent={tangent})"

    __str__ = __repr__


core.register_tracer_class(JVPTracer)


class JVPTrace(TangentTrace):
    """Computes tangents together with the values."""

    __slots__ = ()
    tracer_class = JVPTracer

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent
        self.rule_trace = parent
        self.keeps_lines = config.check_tracer_leaks.value

    def _rule(self, primitive: Primitive) -> Callable[..., Any] | None:
        return primitive.jvp


@cached_on_jaxpr
def _jvp_jaxpr(closed: ClosedJaxpr, nonzeros: tuple[Any, ...], instantiate: tuple[Any, ...]) -> Any:
    info = closed.debug_info
    out_nonzeros: list[bool] = []

    def run(*args: object) -> Any:
        primals = args[: len(nonzeros)]
        rest = iter(args[len(nonzeros) :])
        tangents = [next(rest) if nz else zero_of(p) for p, nz in zip(primals, nonzeros)]
        outs, tangents_out = jvp(
            core.jaxpr_as_fun(closed), primals, tangents, instantiate=False, transform_stack=False
        )
        out_nonzeros[:] = [
            type(t) is not Zero or inst for t, inst in zip(tangents_out, instantiate)
        ]
        kept = [instantiate_zeros(t) for t, nz in zip(tangents_out, out_nonzeros) if nz]
        return [*outs, *kept]

    in_avals = list(closed.in_aval_qdds)
    tangent_avals = [a.to_tangent_aval() for a, nz in zip(in_avals, nonzeros) if nz]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, in_avals + tangent_avals, info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, consts), tuple(out_nonzeros)


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """Return a jaxpr that also computes tangents.

    Args:
      closed: the jaxpr.
      nonzeros: which arguments have a tangent.
      instantiate: which results must have a tangent even if it is zero; True for all.

    Returns:
      A jaxpr from (arguments, nonzero tangents) to (results, nonzero tangents), and which results
      have a tangent.
    """
    if type(instantiate) is bool:
        instantiate = (instantiate,) * len(closed.out_avals)
    jaxpr, nz = _jvp_jaxpr(closed, tuple(nonzeros), tuple(instantiate))
    return jaxpr, list(nz)
