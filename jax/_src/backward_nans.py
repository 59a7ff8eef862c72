"""NaNs and infinities that arise in backward passes: `jax.debug.nans(backward=True)`.

While the option is set, linearization wraps the linear part of each operation in an application of
`checked_linear`, which keeps the operands of the operation. Its transpose computes the same
cotangents, and compares them with what they were computed from: if those numbers are finite and a
cotangent is not, it is the derivative of this operation that is at fault. Compiled programs do so
on the device, and call the host only to report an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import config, core, dtypes, effects, source_info_util
from jax._src.ad_util import Zero, add_tangents
from jax._src.backward_remedies import SUM, element, remedy
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.device_reports import Report, Reports, define_check
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.ad.linearize import LinearizeTrace
from jax._src.interpreters.ad.tape import Linearized, TapeTrace, TapeTracer
from jax._src.interpreters.ad.values import UndefinedPrimal
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.control_flow.common import split_at
from jax._src.lax.control_flow.conditionals import cond
from jax._src.util import fun_name


def nans(*, backward: bool = False) -> Any:
    """Context manager: look for NaNs, in results or in backward passes.

    Args:
      backward: False for what `jax.debug_nans(True)` does: an error names the first operation that
        gives a NaN. True for an error that names the operation whose derivative makes a NaN or an
        infinity of finite numbers, with its line in the forward pass, the values that it did so
        for, and a remedy. It looks at derivatives that are taken while the context is entered,
        eagerly and in compiled programs, loops, batches and shards.

    Raises:
      FloatingPointError: such a value was found. For a compiled program it is raised no later than
        at the end of the context.

    >>> f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)
    >>> try:
    ...     with jax.debug.nans(backward=True):
    ...         jax.grad(f)(0.0)
    ... except FloatingPointError as err:
    ...     print(str(err).splitlines()[0])
    the backward pass of sqrt makes nan from finite numbers
    """
    if backward:
        return _reports.raised(lambda: config.debug_backward_nans(True))
    return config.debug_nans(True)


# Linearization


class _Operation(NamedTuple):
    """An operation of the forward pass, for errors."""

    name: str
    line: str

    def __repr__(self) -> str:
        return self.name


class _CheckingTrace(LinearizeTrace):
    """Linearizes so that the transpose of each operation's linear part is checked."""

    __slots__ = ()

    def _rule(self, primitive: Primitive) -> Callable[..., Any] | None:
        rule = super()._rule(primitive)
        if rule is None or primitive.ref_primitive or primitive is checked_linear_p:
            return rule

        def checked_rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
            if any(core.jaxprs_in_params(params)):  # the operations inside are checked
                return rule(primals, tangents, **params)
            if primitive.multiple_results:
                run = lambda tangents: rule(primals, tangents, **params)
                return self._checked(primitive.name, run, primals, tangents)
            run = lambda tangents: [[x] for x in rule(primals, tangents, **params)]
            (out,), (t_out,) = self._checked(primitive.name, run, primals, tangents)
            return out, t_out

        return checked_rule

    def process_custom_jvp_call(self, primitive, fun, jvp, args, *, symbolic_zeros):
        def bind(trace, args):
            return LinearizeTrace.process_custom_jvp_call(
                trace, primitive, fun, jvp, args, symbolic_zeros=symbolic_zeros
            )

        return self._custom("custom_jvp", fun, bind, args)

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, args, *, out_trees, symbolic_zeros):
        def bind(trace, args):
            return LinearizeTrace.process_custom_vjp_call(
                trace, primitive, fun, fwd, bwd, args, out_trees=out_trees,
                symbolic_zeros=symbolic_zeros,
            )  # fmt: skip

        return self._custom("custom_vjp", fun, bind, args)

    def _custom(self, kind: str, fun: Any, bind: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Apply a function with a rule of its own as one operation."""
        primals, tangents, perturbed = self._unpack(args)
        if not perturbed:
            return bind(self, args)

        def run(tangents: Sequence[Any]) -> Any:
            trace = LinearizeTrace(self.parent)  # records on the tape of this operation
            trace.tape = trace.rule_trace = core.trace_ctx.trace
            outs = bind(trace, trace._pack(primals, tangents))
            pairs = [trace.to_primal_tangent_pair(x) for x in outs]
            return [p for p, _ in pairs], [t for _, t in pairs]

        name = f"{kind} {fun_name(getattr(fun, 'original', fun))}"
        with core.set_current_trace(self.tape):
            outs, t_outs = self._checked(name, run, primals, tangents)
        return self._pack(outs, t_outs)

    def _checked(
        self, name: str, run: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> Any:
        """Return the results and tangents of an operation; the tape gets one checked operation.

        `run(tangents)` returns them and records the linear part on the current tape.
        """
        tape = TapeTrace(self.parent)
        given = [t for t in tangents if type(t) is not Zero]
        avals = [typeof(t) for t in given]
        fresh = iter([tape.new_input(a) for a in avals])
        with core.set_current_trace(tape):
            outs, t_outs = run([t if type(t) is Zero else next(fresh) for t in tangents])
        if any(type(x) is TapeTracer for x in outs) or all(type(t) is Zero for t in t_outs):
            return run(tangents)
        jaxpr, residuals = Linearized(tape, avals, list(t_outs)).to_jaxpr(
            core.DebugInfo(f"jvp of {name}", name), nonzero_outs=True
        )
        closed = ClosedJaxpr(pe.convert_constvars_jaxpr(jaxpr), ())
        shown = [x for x in primals if _is_inexact(typeof(x))]
        line = source_info_util.summarize(source_info_util.current())
        results = iter(
            checked_linear_p.bind(
                *residuals, *shown, *given, jaxpr=closed, num_residuals=len(residuals),
                num_operands=len(shown), operation=_Operation(name, line),
            )
        )  # fmt: skip
        return outs, [t if type(t) is Zero else next(results) for t in t_outs]


late.checking_trace = _CheckingTrace


def _is_inexact(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return (
        isinstance(aval, core.ShapedArray)
        and not isinstance(dtype, dtypes.ExtendedDType)
        and dtypes.issubdtype(dtype, np.inexact)
    )


# The linear part of an operation. The operands are (residuals, operands of the operation, tangents).

checked_linear_p = Primitive("checked_linear", multiple_results=True)


def _apply(*args, jaxpr, num_residuals, num_operands, **_):
    residuals, _, tangents = split_at(args, num_residuals, num_operands)
    return core.jaxpr_as_fun(jaxpr)(*residuals, *tangents)


def _jvp(primals, tangents, **params):
    return ad.jvp(lambda *args: _apply(*args, **params), primals, tangents, instantiate=False)


def _batch(axis_data, args, dims, *, jaxpr, num_residuals, num_operands, operation):
    args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    batched = [d is not None for d in dims]
    residuals_b, _, tangents_b = split_at(batched, num_residuals, num_operands)
    body, out_b = batching.batch_jaxpr(jaxpr, axis_data, (*residuals_b, *tangents_b))
    outs = checked_linear_p.bind(
        *args,
        jaxpr=body,
        num_residuals=num_residuals,
        num_operands=num_operands,
        operation=operation,
    )
    return outs, [0 if b else None for b in out_b]


def _transpose(cts, *args, jaxpr, num_residuals, num_operands, operation):
    residuals, operands, tangents = split_at(args, num_residuals, num_operands)
    linear = [x if ad.is_undefined_primal(x) else UndefinedPrimal(typeof(x)) for x in tangents]
    with config.debug_backward_nans(False):  # sums inside count as parts of the operation
        cts_in = ad.backward_pass(jaxpr.jaxpr, False, jaxpr.consts, [*residuals, *linear], cts)
    cts_in = cts_in[num_residuals:]
    given = [ct for ct in cts if type(ct) is not Zero and _is_inexact(typeof(ct))]
    made = [ct for ct in cts_in if type(ct) is not Zero and _is_inexact(typeof(ct))]
    if made:
        backward_check_p.bind(
            *operands, *given, *made, num_operands=len(operands), num_given=len(given),
            operation=operation,
        )  # fmt: skip
    none = [None] * (num_residuals + num_operands)
    return [*none, *[ct if ad.is_undefined_primal(x) else None for x, ct in zip(tangents, cts_in)]]


def _checked_sum(x: Any, y: Any) -> Any:
    """The sum of two cotangents of a value that is used several times."""
    total = add_tangents(x, y)
    if _is_inexact(typeof(total)):
        line = source_info_util.summarize(source_info_util.current())
        backward_check_p.bind(
            x, y, total, num_operands=0, num_given=2, operation=_Operation(SUM, line)
        )
    return total


late.checked_sum = _checked_sum


checked_linear_p.def_impl(_apply)
checked_linear_p.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals)
checked_linear_p.jvp = _jvp
checked_linear_p.transpose = _transpose
checked_linear_p.axis_batch = _batch
mlir.register_lowering(checked_linear_p, mlir.lower_fun(_apply, multiple_results=True))


# The check. The operands are those of the operation, cotangents of its results, and those of its
# operands, which were computed from the former two.


class BackwardCheckEffect(effects.Effect):
    """An error if a derivative is not finite."""

    __slots__ = ()
    __str__ = lambda _: "BackwardCheck"


_effect = BackwardCheckEffect()
effects.allow_everywhere(BackwardCheckEffect)

backward_check_p = Primitive("backward_check", multiple_results=True)
_reports = Reports(FloatingPointError)


def _check_on_device(*args, num_operands, num_given, operation):
    operands, given, made = split_at(args, num_operands, num_given)
    fails = lax.bitwise_not(_all([lax.is_finite(x) for x in _parts(made)]))
    for x in _parts(given):
        fails = lax.bitwise_and(fails, _all([lax.is_finite(x)]))
    for x in _parts(operands):
        fails = lax.bitwise_and(fails, _all([lax.eq(x, x)]))
    report = lambda: _report_p.bind(
        *args, num_operands=num_operands, num_given=num_given, operation=operation
    )
    cond(fails, report, list)
    return []


def _parts(values: Sequence[Any]) -> list[Any]:
    """Real arrays that have the values of real and complex ones."""
    parts = []
    for x in values:
        is_complex = dtypes.issubdtype(typeof(x).dtype, np.complexfloating)
        parts.extend([lax.real(x), lax.imag(x)] if is_complex else [x])
    return parts


def _all(conditions: Sequence[Any]) -> Any:
    result = None
    for c in conditions:
        c = lax.reduce_and(c, tuple(range(typeof(c).ndim)))
        result = c if result is None else lax.bitwise_and(result, c)
    return result


mlir.register_lowering(backward_check_p, mlir.lower_fun(_check_on_device, multiple_results=True))

# Calls the host.
_report_p = Primitive("backward_check_report", multiple_results=True)
_report_p.def_effectful_abstract_eval(lambda *_, **__: ([], {_effect}))


def _lower_report(ctx, *args, **params):
    report = Report(_reports, _problem, tuple(params.items()))
    mlir.emit_python_callback(ctx, report, None, args, ctx.avals_in, [], has_side_effect=True)
    return []


mlir.register_lowering(_report_p, _lower_report)


# Messages


def _problem(*args: np.ndarray, num_operands: int, num_given: int, operation: Any) -> str | None:
    """Return the text of the error if a cotangent is not finite although what it comes from is."""
    operands, given, made = split_at(args, num_operands, num_given)
    bad = next((i for i, x in enumerate(made) if not np.isfinite(x).all()), None)
    if bad is None or not all(np.isfinite(x).all() for x in given):
        return None
    if any(np.isnan(x).any() for x in operands):
        return None
    value = made[bad]
    places = np.argwhere(~np.isfinite(value))
    index = tuple(places[0])
    kind = "nan" if np.isnan(value[index]) else "inf"
    finite = all(np.isfinite(x).all() for x in operands)
    source = "finite numbers" if finite else "infinite operands"
    types = ", ".join(map(_type_of, operands))
    where = f" at {operation.line}" if operation.line else ""
    lines = [
        f"the backward pass of {operation.name} makes {kind} from {source}",
        f"  forward{where}: {f'{operation.name}({types})' if operands else 'one of the uses'}",
    ]
    if value.shape:
        at = f"[{', '.join(map(str, index))}]"
        lines.append(
            f"  {len(places)} of {value.size} elements of a cotangent {_type_of(value)}, the first at {at}, where"
        )
    else:
        lines.append("  where")
    for i, x in enumerate(operands):
        lines.append(f"    operand {i} is {_value_at(x, value.shape, index)}")
    for x in given:
        what = "the result" if operands else "a use"
        lines.append(f"    the cotangent of {what} is {_value_at(x, value.shape, index)}")
    lines.append(remedy(operation.name, operands, given, value, index))
    return "\n".join(lines)


def _type_of(x: np.ndarray) -> str:
    return core.ShapedArray(x.shape, x.dtype).str_short()


def _value_at(x: np.ndarray, shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    """The element of `x` at an index in an array of this shape, or the range of `x`."""
    value = element(x, shape, index)
    if value is not None:
        return str(value)
    if not x.size or np.iscomplexobj(x):
        return f"of type {_type_of(x)}"
    return f"of type {_type_of(x)}, with elements from {x.min()} to {x.max()}"


define_check(backward_check_p, _effect, _reports, _problem)
