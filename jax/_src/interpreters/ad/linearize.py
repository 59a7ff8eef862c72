"""Linearization: compute primal values immediately, and record the linear part on a tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import config, core, dtypes, source_info_util
from jax._src.ad_util import Zero
from jax._src.core import (
    ClosedJaxpr,
    Literal,
    Primitive,
    Trace,
    Tracer,
    Var,
    cached_on_jaxpr,
    trace_ctx,
    typeof,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.ad.forward import TangentTrace, TangentTracer
from jax._src.interpreters.ad.tape import Linearized, TapeTrace, TapeTracer
from jax._src.interpreters.ad.values import instantiate_zeros
from jax._src.late_binding import late


def linearize(fun: Callable[..., Any], primals: Sequence[Any]) -> tuple[list[Any], Linearized]:
    """Compute the results of a flat function, and its linear part at `primals`.

    All arguments are perturbed; those without a tangent space (integers) get `float0` tangents.
    """
    trace = linearize_trace(trace_ctx.trace)
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
    with (
        source_info_util.transform_name_stack("jvp"),
        core.set_current_trace(trace, check_leaks=True),
    ):
        outs = fun(*args)
        pairs = [trace.to_primal_tangent_pair(x) for x in outs]
        del args, outs
    trace.invalidate()
    primals_out = [p for p, _ in pairs]
    return primals_out, Linearized(tape, in_avals, [t for _, t in pairs])


def vjp(fun: Callable[..., Any], primals: Sequence[Any]) -> tuple[list[Any], Callable[..., Any]]:
    """Compute the results of a flat function, and a function from cotangents to cotangents."""
    outs, lin = linearize(fun, primals)
    return outs, lambda *cts: lin.backward(cts)


class LinearizeTracer(TangentTracer):
    """A value whose tangent is recorded on a tape."""

    __slots__ = ()

    def __repr__(self) -> str:
        tangent = self.tangent.aval.str_short(short_dtypes=True)
        return f"GradTracer(primal={core.repr_inside(self.primal)}, typeof(tangent)={tangent})"

    __str__ = __repr__


core.register_tracer_class(LinearizeTracer)


class LinearizeTrace(TangentTrace):
    """Computes values in the parent trace and records the linear part on a tape."""

    __slots__ = ("tape",)
    tracer_class = LinearizeTracer
    discharges_refs = True

    def __init__(self, parent: Trace):
        self._valid = True
        self.parent = parent
        self.tape = self.rule_trace = TapeTrace(parent)
        self.keeps_lines = config.check_tracer_leaks.value

    def _rule(self, primitive: Primitive) -> Callable[..., Any] | None:
        return primitive.linearize or primitive.jvp

    def _known(
        self,
        primitive: Primitive,
        primals: Sequence[Any],
        params: dict[str, Any],
        outs: Sequence[Any],
    ) -> Any:
        if any([type(x) is TapeTracer and x._trace is self.tape for x in outs]):
            # The rule computed results and tangents by a single recorded operation that cannot be
            # divided, so the results depend on the tape. Compute them again without tangents.
            trace_ctx.set_trace(self.parent)
            return primitive.bind_with_trace(self.parent, primals, params)
        return outs

    def new_arg(self, primal: object) -> LinearizeTracer:
        tangent = self.tape.new_input(typeof(primal).to_tangent_aval())
        return LinearizeTracer(self, primal, tangent)


def linearize_trace(parent: Trace) -> LinearizeTrace:
    """Return a new trace; under `jax.debug.nans(backward=True)`, one that adds checks."""
    if config.debug_backward_nans.value:
        trace: LinearizeTrace = late.checking_trace(parent)
        return trace
    return LinearizeTrace(parent)


class LinearizedJaxpr:
    """A jaxpr divided into a part that computes values and a part that is linear in tangents.

    Attributes:
      primal: from arguments to (results, residuals that are neither arguments nor results).
      tangent: from (residuals, nonzero tangents) to the nonzero tangents of results.
      residual_sources: for each residual `('in', i)`, `('out', i)` or `('res', i)`: an argument, a
        result, or an additional result of `primal`.
      num_outs: the number of results of the jaxpr.
      nonzero_outs: which results of the jaxpr have a tangent.
      residual_avals: types of the residuals.
    """

    __slots__ = (
        "primal", "tangent", "residual_sources", "num_outs", "nonzero_outs", "residual_avals",
    )  # fmt: skip

    def __init__(
        self,
        primal: ClosedJaxpr,
        tangent: ClosedJaxpr,
        residual_sources: list[tuple[str, int]],
        num_outs: int,
        nonzero_outs: list[bool],
    ) -> None:
        self.primal = primal
        self.tangent = tangent
        self.residual_sources = residual_sources
        self.num_outs = num_outs
        self.nonzero_outs = nonzero_outs
        self.residual_avals = tangent.in_avals[: len(residual_sources)]

    @property
    def num_residuals(self) -> int:
        return len(self.residual_sources)

    def residuals(self, args: Sequence[Any], outs_and_res: Sequence[Any]) -> list[Any]:
        """Return the values of the residuals, given the arguments and results of `primal`."""
        where = {"in": args, "out": outs_and_res, "res": outs_and_res[self.num_outs :]}
        return [where[kind][i] for kind, i in self.residual_sources]


def _residual_sources(
    trace: Trace, args: Sequence[Any], outs: Sequence[Any], constvars: Sequence[Var], residuals: Sequence[Any],
    forward: bool,
) -> Any:  # fmt: skip
    """Find where the residuals of a linear jaxpr come from: arguments, results or other values.

    Values that do not belong to `trace` become constants of the linear jaxpr. Without `forward`, a
    residual that is an argument or a result is returned again, except for array references, which
    cannot be results.

    Returns:
      Sources, variables of residuals, variables and values of constants, and additional results.
    """
    sources: list[tuple[str, int]] = []
    res_vars: list[Var] = []
    const_vars: list[Var] = []
    consts: list[Any] = []
    extra: list[Any] = []
    arg_index = {
        x.val: i for i, x in enumerate(args) if forward or type(x.aval) is core.AbstractRef
    }
    out_index: dict[Any, Any] = {}
    for i, x in enumerate(outs if forward else ()):
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
    closed: ClosedJaxpr,
    nonzeros: tuple[Any, ...],
    instantiate: tuple[Any, ...] = (),
    forward: bool = True,
) -> LinearizedJaxpr:
    """Divide a jaxpr into a primal part that returns residuals and a linear part.

    Args:
      closed: the jaxpr.
      nonzeros: which arguments are perturbed.
      instantiate: which results must have a tangent even if it is zero; () for none.
      forward: whether to take residuals that are arguments or results of the jaxpr from there,
        instead of returning them again.
    """
    instantiate = instantiate or (False,) * len(closed.out_avals)
    info = closed.debug_info
    parent = trace_ctx.trace
    trace = pe.DynamicJaxprTrace(info, parent)
    args = [trace.new_arg(a) for a in closed.in_aval_qdds]
    with source_info_util.reset_name_stack():
        lin = linearize_trace(trace)
    lin_args: list[Tracer] = []
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
    primal_outs = [p for p, _ in pairs]
    info = info.with_unknown_names()
    tangent, residuals = Linearized(lin.tape, tangent_avals, kept).to_jaxpr(info)
    sources, res_vars, const_vars, consts, extra = _residual_sources(
        trace, args, primal_outs, tangent.constvars, residuals, forward
    )
    primal, primal_consts = trace.to_jaxpr([*primal_outs, *extra], info)
    primal, _ = pe.dce_jaxpr(primal, [True] * len(primal.outvars), True)
    trace.finish()
    tangent = tangent.replace(constvars=const_vars, invars=res_vars + tangent.invars)
    return LinearizedJaxpr(
        ClosedJaxpr(primal, primal_consts), ClosedJaxpr(tangent, consts), sources, len(primal_outs),
        nonzero_outs,
    )  # fmt: skip
