"""Transposition of jaxprs: from cotangents of the results to cotangents of linear arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core, source_info_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Jaxpr, Literal, Var, cached_on_jaxpr, trace_ctx
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.ad.tape import Linearized, TapeTrace
from jax._src.interpreters.ad.values import UndefinedPrimal, is_undefined_primal
from jax._src.interpreters.splitting import split_by_unknown, split_eqn
from jax._src.late_binding import late


def backward_pass(
    jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any], primals_in: Sequence[Any],
    cotangents_in: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """Transpose a jaxpr at given values of its nonlinear arguments.

    Args:
      jaxpr: the jaxpr, linear in the arguments that are `UndefinedPrimal`.
      transform_stack: whether to mark the names of operations as transposed.
      consts: values of its constants.
      primals_in: values, or `UndefinedPrimal` for linear arguments.
      cotangents_in: cotangents of the results; may be `Zero`.

    Returns:
      Cotangents of all arguments: `Zero` for linear arguments that no result depends on, None for
      nonlinear arguments.
    """
    if all(type(ct) is Zero for ct in cotangents_in):
        return [
            Zero(v.aval.to_ct_aval()) if is_undefined_primal(p) else None
            for v, p in zip(jaxpr.invars, primals_in)
        ]
    if jaxpr.effects and core.has_ref_effects(jaxpr.effects):
        return _backward_pass_discharged(jaxpr, transform_stack, consts, primals_in, cotangents_in)
    return _backward_pass(jaxpr, transform_stack, consts, primals_in, cotangents_in)


def _backward_pass(
    jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any], primals_in: Sequence[Any],
    cotangents_in: Sequence[Any],
) -> list[Any]:  # fmt: skip
    tape = TapeTrace(trace_ctx.trace)
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    linear = [v for v, p in zip(jaxpr.invars, primals_in) if is_undefined_primal(p)]
    for v, p in zip(jaxpr.invars, primals_in):
        env[v] = tape.new_input(v.aval) if is_undefined_primal(p) else p
    base_stack = source_info_util.current_name_stack()
    known_eqns, linear_eqns = split_by_unknown(jaxpr.eqns, set(linear), split_eqn)
    for eqn in known_eqns:
        vals = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        params = eqn.primitive.get_bind_params(eqn.params)
        info = eqn.source_info
        with (
            source_info_util.user_context(info.traceback, name_stack=base_stack + info.name_stack),
            eqn.ctx.manager,
        ):
            out = eqn.primitive.bind(*vals, **params)
        env.update(
            zip(eqn.outvars, out) if eqn.primitive.multiple_results else [(eqn.outvars[0], out)]
        )

    for eqn in linear_eqns:
        inputs = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        outs = tape.add_eqn(
            eqn.primitive,
            inputs,
            eqn.params,
            [v.aval for v in eqn.outvars],
            eqn.source_info,
            eqn.ctx,
        )
        env.update(zip(eqn.outvars, outs))
    results = [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]
    lin = Linearized(tape, [v.aval for v in linear], results)
    cts = iter(lin.backward(cotangents_in, transform_stack))
    return [next(cts) if is_undefined_primal(p) else None for p in primals_in]


def _backward_pass_discharged(
    jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any], primals_in: Sequence[Any],
    cotangents_in: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """Transpose a jaxpr whose linear and internal references are replaced by arrays."""
    n = len(consts)
    closed = pe.close_jaxpr(pe.convert_constvars_jaxpr(jaxpr))
    primals = [*consts, *primals_in]
    which = [
        is_undefined_primal(p) and type(a) is core.AbstractRef
        for p, a in zip(primals, closed.in_avals)
    ]
    new, written = late.discharge(closed, which, False)
    primals = [
        UndefinedPrimal(a) if is_undefined_primal(p) else p for p, a in zip(primals, new.in_avals)
    ]
    cts = [*cotangents_in, *[Zero(a.to_ct_aval()) for a in new.out_avals[len(cotangents_in) :]]]
    cts_in = _backward_pass(new.jaxpr, transform_stack, new.consts, primals, cts)
    return cts_in[n:]


@cached_on_jaxpr
def transpose_jaxpr(
    closed: ClosedJaxpr, linear: tuple[Any, ...], ct_nonzero: tuple[Any, ...]
) -> Any:
    """Return the transpose of a jaxpr as a jaxpr.

    Args:
      closed: the jaxpr.
      linear: which arguments it is linear in.
      ct_nonzero: which results have a nonzero cotangent.

    Returns:
      A closed jaxpr from (nonlinear arguments, nonzero cotangents) to the nonzero cotangents of
      linear arguments, and which linear arguments have one.
    """
    out_nonzero: list[bool] = []
    num_nonlinear = len(linear) - sum(linear)

    def run(*args: object) -> Any:
        nonlinear, given = iter(args[:num_nonlinear]), iter(args[num_nonlinear:])
        primals = [
            UndefinedPrimal(a) if lin else next(nonlinear)
            for a, lin in zip(closed.in_avals, linear)
        ]
        cts = [
            next(given) if nz else Zero(a.to_ct_aval())
            for a, nz in zip(closed.out_avals, ct_nonzero)
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
