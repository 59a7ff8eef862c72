"""Rules of control flow: loops, branches, and calls of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.ad_checkpoint import remat_p
from jax._src.core import ClosedJaxpr, Jaxpr, Literal
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.custom_derivatives.vjp import custom_vjp_call_p
from jax._src.jit.primitive import jit_p
from jax._src.lax import lax
from jax._src.lax.composite import composite_p
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, scf
from jax._src.pallas.kernel_rules import RuleContext, lower_closed
from jax._src.pallas.memory import MemorySpace
from jax._src.pallas.primitives import run_scoped_p
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.kernel import Constant, Kernel, rules, unused_results
from jax._src.pallas.values import uninitialized_scalar
from jax._src.state.discharge import discharge_written

_int32 = np.dtype(np.int32)


# Calls are inlined.


def _inlined(primitive: Any, jaxpr_name: str) -> None:
    def lower(ctx: RuleContext, *args: Any, **params: Any) -> Any:
        return lower_closed(ctx.kernel, params[jaxpr_name], args)

    rules.rule(primitive)(lower)


_inlined(jit_p, "jaxpr")
_inlined(remat_p, "jaxpr")
_inlined(composite_p, "jaxpr")
_inlined(custom_jvp_call_p, "call_jaxpr")
_inlined(custom_vjp_call_p, "call_jaxpr")


# Scoped references


@rules.rule(run_scoped_p)
def _run_scoped(ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, collective_axes: Any) -> Any:
    """Keep what references hold in registers: they become values, which loops carry."""
    kernel, n = ctx.kernel, len(args)
    scoped = jaxpr.in_avals[n:]
    for a in scoped:
        if a.memory_space not in (MemorySpace.ANY, MemorySpace.DEFAULT):
            raise NotImplementedError(
                f"Kernels for {rules.target} keep what run_scoped makes in registers, of type pl.ANY(shape, dtype), not {a}."
            )
    if collective_axes:
        raise NotImplementedError(
            f"Kernels for {rules.target} have no meshes, along whose axes {collective_axes} references could be the same."
        )
    new, _ = discharge_written(jaxpr, [*[False] * n, *[True] * len(scoped)], True)
    kernel.unused |= unused_results(new.jaxpr)
    values = [kernel.constant(uninitialized_scalar(a.dtype), a) for a in scoped]
    try:
        outs = lower_closed(kernel, new, [*args, *values])
    except NotImplementedError as e:
        e.add_note(
            "What run_scoped makes is in registers: it is written as a whole, and read as a whole or in equal parts."
        )
        raise
    return outs[: len(ctx.avals_out)]


# Loops


def _counter(jaxpr: Jaxpr, first: int, last: int) -> int | None:
    """Return which of the values `first` to `last` that are carried is an integer that counts up by one."""
    steps = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns if eqn.primitive is lax.add_p}
    for i in range(first, last):
        carried, new = jaxpr.invars[i], jaxpr.outvars[i - first]
        eqn = steps.get(new) if not isinstance(new, Literal) else None
        if eqn is None or carried.aval.shape or carried.aval.dtype.kind != "i":
            continue
        x, one = eqn.invars
        if x is carried and isinstance(one, Literal) and int(one.val) == 1:
            return i - first
    return None


def _for(
    ctx: RuleContext, closed: ClosedJaxpr, consts: Sequence[Any], carry: Sequence[Any], counter: int | None,
    lower: Any, upper: Any, unroll: int = 1,
) -> list[Any]:  # fmt: skip
    """Emit a loop over integers, of which one that is carried may be the counter.

    Returns:
      What is carried at the end, with None for the counter.
    """
    kernel = ctx.kernel
    avals = [v.aval for v in closed.jaxpr.invars[len(consts) :]]
    kept = [i for i in range(len(carry)) if i != counter]
    one = kernel.full(1, (), _int32 if lower.type == kernel.i32 else np.dtype(np.int64))
    loop = scf.ForOp(lower, upper, one, [kernel.value(carry[i], avals[i]) for i in kept])
    if unroll > 1:
        loop.attributes["tt.loop_unroll_factor"] = ir.IntegerAttr.get(kernel.i32, unroll)
    with ir.InsertionPoint(loop.body):
        index, *now = loop.body.arguments
        args: list[Any] = [None] * len(carry)
        for i, x in zip(kept, now):
            args[i] = x
        if counter is not None:
            args[counter] = index
        outs = lower_closed(kernel, closed, [*consts, *args])
        scf.yield_([kernel.value(outs[i], avals[i]) for i in kept])
    results: list[Any] = [None] * len(carry)
    for i, x in zip(kept, loop.results):
        results[i] = x
    return results


@rules.rule(scan_p)
def _scan(
    ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int, unroll: Any, **_: Any
) -> Any:  # fmt: skip
    kernel = ctx.kernel
    if len(args) > num_consts + num_carry or len(jaxpr.jaxpr.outvars) > num_carry:
        raise NotImplementedError(
            f"Kernels for {rules.target} have loops over integers only, not over the rows of an array: read ref[i] in a "
            "jax.lax.fori_loop, and write results to a reference."
        )
    consts, carry = args[:num_consts], args[num_consts:]
    counter = _counter(jaxpr.jaxpr, num_consts, num_consts + num_carry)
    factor = length if unroll is True else int(unroll)
    if counter is None:
        zero, end = [kernel.full(n, (), _int32) for n in (0, length)]
        return _for(ctx, jaxpr, consts, carry, None, zero, end, factor)
    start, aval = carry[counter], ctx.avals_in[num_consts + counter]
    if type(start) is Constant:
        end = Constant(start.value + length, aval.dtype)
        lower, upper = kernel.value(start, aval), kernel.value(end, aval)
    else:
        lower = start
        end = upper = arith.addi(start, kernel.full(length, (), aval.dtype))
    outs = _for(ctx, jaxpr, consts, carry, counter, lower, upper, factor)
    outs[counter] = end
    return outs


def _bound(cond: ClosedJaxpr, body: ClosedJaxpr, num_cond: int, num_body: int) -> Any:
    """Return the counter of a while loop, and the operand of its condition that bounds it.

    Returns:
      The position of the counter in the carry, and the bound: a `Literal`, a number of an operand of the
      condition, or None if the loop is none over integers.
    """
    jaxpr = cond.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].primitive is not lax.lt_p or body.jaxpr.constvars:
        return None
    (eqn,) = jaxpr.eqns
    if eqn.outvars[0] is not jaxpr.outvars[0]:
        return None
    x, bound = eqn.invars
    invars = list(jaxpr.invars)
    counter = _counter(body.jaxpr, num_body, len(body.jaxpr.invars))
    if counter is None or invars[num_cond + counter] is not x:
        return None
    if isinstance(bound, Literal):
        return counter, bound
    if bound not in invars:
        return None
    i = invars.index(bound)
    if i >= num_cond:
        k = i - num_cond
        # What is carried must not change.
        if body.jaxpr.outvars[k] is not body.jaxpr.invars[num_body + k]:
            return None
    return counter, i


@rules.rule(while_p)
def _while(
    ctx: RuleContext, *args: Any, cond_nconsts: int, cond_jaxpr: ClosedJaxpr, body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> Any:  # fmt: skip
    kernel = ctx.kernel
    cond_consts = args[:cond_nconsts]
    body_consts = args[cond_nconsts : cond_nconsts + body_nconsts]
    carry = args[cond_nconsts + body_nconsts :]
    found = _bound(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    if found is None:
        return _general_while(ctx, cond_jaxpr, body_jaxpr, cond_consts, body_consts, carry)
    counter, bound = found
    aval = body_jaxpr.in_avals[body_nconsts + counter]
    if isinstance(bound, Literal):
        upper = kernel.full(int(bound.val), (), aval.dtype)
    else:
        upper = kernel.value([*cond_consts, *carry][bound], aval)
    lower = kernel.value(carry[counter], aval)
    outs = _for(ctx, body_jaxpr, body_consts, carry, counter, lower, upper)
    if kernel.is_used(ctx.eqn.outvars[counter]):
        outs[counter] = arith.maxsi(lower, upper)
    return outs


def _general_while(
    ctx: RuleContext, cond: ClosedJaxpr, body: ClosedJaxpr, cond_consts: Any, body_consts: Any, carry: Any
) -> Any:  # fmt: skip
    kernel = ctx.kernel
    avals = ctx.avals_out
    values = lambda xs: [kernel.value(x, a) for x, a in zip(xs, avals)]
    types = [kernel.type_of(a.shape, a.dtype) for a in avals]
    loop = scf.WhileOp(types, values(carry))
    locations = [ir.Location.current] * len(types)
    before = loop.before.blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(before):
        (go_on,) = lower_closed(kernel, cond, [*cond_consts, *before.arguments])
        scf.condition(kernel.value(go_on, cond.out_avals[0]), before.arguments)
    after = loop.after.blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(after):
        scf.yield_(values(lower_closed(kernel, body, [*body_consts, *after.arguments])))
    return list(loop.results)


# Branches


@rules.rule(cond_p)
def _cond(
    ctx: RuleContext, index: Any, *args: Any, branches: Sequence[ClosedJaxpr], **_: Any
) -> Any:
    if type(index) is Constant:
        i = min(max(int(index.value), 0), len(branches) - 1)
        return lower_closed(ctx.kernel, branches[i], args)
    index = convert(ctx.kernel, index, (), ctx.avals_in[0].dtype, _int32)
    return _branch(ctx.kernel, index, branches, args, ctx.avals_out)


def _branch(
    kernel: Kernel, index: Any, branches: Sequence[ClosedJaxpr], args: Sequence[Any], avals: Sequence[Any]
) -> list[Any]:  # fmt: skip
    """Emit the first branch for an index of zero, and the others otherwise."""
    zero = kernel.full(0, (), _int32)
    is_first = arith.cmpi(arith.CmpIPredicate.eq, index, zero)
    types = [kernel.type_of(a.shape, a.dtype) for a in avals]
    choice = scf.IfOp(is_first, types, has_else=True)
    values = lambda xs: [kernel.value(x, a) for x, a in zip(xs, avals)]
    with ir.InsertionPoint(choice.then_block):
        scf.yield_(values(lower_closed(kernel, branches[0], args)))
    with ir.InsertionPoint(choice.else_block):
        if len(branches) == 2:
            outs = lower_closed(kernel, branches[1], args)
        else:
            rest = arith.subi(index, kernel.full(1, (), _int32))
            outs = _branch(kernel, rest, branches[1:], args, avals)
        scf.yield_(values(outs))
    return list(choice.results)
