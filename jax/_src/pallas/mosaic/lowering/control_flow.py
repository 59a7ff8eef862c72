"""Rules of Mosaic's lowering: conditions, loops, calls, scopes, and the position in the grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.ad_checkpoint.primitive import remat_p
from jax._src.call_primitives import call_p, closed_call_p
from jax._src.core import AbstractRef, ClosedJaxpr, Jaxpr, Literal
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.custom_derivatives.vjp import custom_vjp_call_p
from jax._src.jit.primitive import jit_p
from jax._src.lax import lax
from jax._src.lax.control_flow import cond_p, scan_p, while_p
from jax._src.lax.control_flow.common import split_at
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, memref, scf
from jax._src.lib.mosaic import tpu
from jax._src.pallas.kernel_rules import RuleContext, lower_closed, lower_jaxpr
from jax._src.pallas.mosaic.lowering.kernel import MemRef, TpuKernel, rule, space_name
from jax._src.pallas.primitives import num_programs_p, program_id_p, run_scoped_p

# The grid


@rule(program_id_p)
def _program_id(ctx: RuleContext, *, axis: int) -> Any:
    if not ctx.kernel.grid_ids:
        raise ValueError(
            f"program_id({axis}) outside of a kernel with a grid, in {ctx.kernel.name}."
        )
    return ctx.kernel.grid_ids[axis]


@rule(num_programs_p)
def _num_programs(ctx: RuleContext, *, axis: int) -> Any:
    size = ctx.kernel.grid[axis]
    if isinstance(size, int):
        return ctx.kernel.i32(size)
    return tpu.iteration_bound(ctx.kernel.grid_axes[axis])


# Calls


@rule(jit_p, closed_call_p, call_p, remat_p)
def _call(ctx: RuleContext, *args: Any, **params: Any) -> list[Any]:
    jaxpr = params.get("jaxpr", params.get("call_jaxpr"))
    return _lower_nested(ctx.kernel, jaxpr, args)


@rule(custom_jvp_call_p, custom_vjp_call_p)
def _custom_call(ctx: RuleContext, *args: Any, call_jaxpr: Any, **_: Any) -> list[Any]:
    return _lower_nested(ctx.kernel, call_jaxpr, args)


def _lower_nested(kernel: TpuKernel, jaxpr: Any, args: Sequence[Any]) -> list[Any]:
    if isinstance(jaxpr, ClosedJaxpr):
        return lower_closed(kernel, jaxpr, args)
    return lower_jaxpr(kernel, jaxpr, args)


# Conditions


@rule(cond_p)
def _cond(
    ctx: RuleContext, index: Any, *args: Any, branches: Sequence[ClosedJaxpr], **_: Any
) -> Any:
    kernel, types = ctx.kernel, [ctx.kernel.type_of(a) for a in ctx.avals_out]
    literal = ctx.eqn.invars[0]
    if type(literal) is Literal:
        chosen = branches[min(max(int(literal.val), 0), len(branches) - 1)]
        return lower_closed(kernel, chosen, args)
    if ctx.avals_in[0].dtype == np.bool_:
        index = arith.extui(kernel.element_type(np.dtype(np.int32)), index)
    return _choose(kernel, index, branches, args, types)


def _choose(
    kernel: TpuKernel, index: Any, branches: Sequence[ClosedJaxpr], args: Any, types: Any
) -> list[Any]:
    """Run the branch of a number, the last one for greater numbers."""
    if len(branches) == 1:
        return lower_closed(kernel, branches[0], args)
    later = arith.cmpi(arith.CmpIPredicate.ne, index, kernel.i32(0))
    op = scf.IfOp(later, types, has_else=True)
    with ir.InsertionPoint(op.then_block):
        if len(branches) > 2:
            index = arith.subi(index, kernel.i32(1))
        scf.yield_(_choose(kernel, index, branches[1:], args, types))
    with ir.InsertionPoint(op.else_block):
        scf.yield_(lower_closed(kernel, branches[0], args))
    return list(op.results)


# Loops

_Body = Callable[[Any, list[Any]], list[Any]]


def _for(
    kernel: TpuKernel, start: Any, stop: Any, step: int, body: _Body, carry: Sequence[Any]
) -> list[Any]:
    """Run a body for each integer of a range, which takes the integer and the carried arrays."""
    op = scf.ForOp(start, stop, kernel.i32(step), list(carry))
    with ir.InsertionPoint(op.body):
        scf.yield_(body(op.induction_variable, list(op.inner_iter_args)))
    return list(op.results)


def _counts(jaxpr: Jaxpr, invar: Any, outvar: Any) -> bool:
    """Whether a carried integer is one more after each round."""
    if (
        outvar is invar
        or isinstance(outvar, Literal)
        or getattr(invar.aval, "dtype", None) != np.int32
    ):
        return False
    eqn = next((e for e in jaxpr.eqns if outvar in e.outvars), None)
    if eqn is None or eqn.primitive is not lax.add_p or eqn.invars[0] is not invar:
        return False
    one = eqn.invars[1]
    return isinstance(one, Literal) and not one.aval.shape and one.val == 1


@rule(scan_p)
def _scan(
    ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int,
    unroll: int, **_: Any,
) -> list[Any]:  # fmt: skip
    kernel = ctx.kernel
    if len(args) > num_consts + num_carry or len(ctx.avals_out) > num_carry:
        raise NotImplementedError(
            "Kernels for TPUs have no scans over arrays, and none that stack results: use lax.fori_loop, and index references "
            "in its body."
        )
    consts, carry = split_at(args, num_consts)
    invars, outvars = jaxpr.jaxpr.invars[num_consts:], jaxpr.jaxpr.outvars
    counting = num_carry > 0 and _counts(jaxpr.jaxpr, invars[0], outvars[0])
    first: Any = kernel.i32(0)
    if counting:
        first, *carry = carry
    literal = ctx.eqn.invars[num_consts] if counting else None
    known = int(literal.val) if isinstance(literal, Literal) else None if counting else 0

    def at(i: int) -> Any:
        return kernel.i32(known + i) if known is not None else arith.addi(first, kernel.i32(i))

    def once(i: Any, carried: list[Any]) -> list[Any]:
        given = [*consts, i, *carried] if counting else [*consts, *carried]
        out = lower_closed(kernel, jaxpr, given)
        return out[1:] if counting else out

    def several(i: Any, carried: list[Any]) -> list[Any]:
        for k in range(unroll):
            carried = once(arith.addi(i, kernel.i32(k)) if k else i, carried)
        return carried

    whole = length - length % max(unroll, 1)
    if whole == unroll or length <= 1:
        whole = 0
    elif whole:
        carry = _for(kernel, at(0), at(whole), unroll, several, carry)
    for i in range(whole, length):
        carry = once(at(i), carry)
    return [at(length), *carry] if counting else list(carry)


@rule(while_p)
def _while(
    ctx: RuleContext, *args: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr,
    cond_nconsts: int, body_nconsts: int,
) -> list[Any]:  # fmt: skip
    kernel = ctx.kernel
    cond_consts, body_consts, carry = split_at(args, cond_nconsts, body_nconsts)
    counted = _counted(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    if counted is not None:
        i, limit = counted
        stop = limit.val if isinstance(limit, Literal) else [*cond_consts, *carry][limit]
        stop = kernel.i32(int(stop)) if isinstance(limit, Literal) else stop
        others = [k for k in range(len(carry)) if k != i]

        def body(count: Any, carried: list[Any]) -> list[Any]:
            values = dict(zip(others, carried)) | {i: count}
            given = [values[k] for k in range(len(carry))]
            out = lower_closed(kernel, body_jaxpr, [*body_consts, *given])
            return [out[k] for k in others]

        results = _for(kernel, carry[i], stop, 1, body, [carry[k] for k in others])
        values = dict(zip(others, results)) | {i: arith.maxsi(carry[i], stop)}
        return [values[k] for k in range(len(carry))]

    types = [x.type for x in carry]
    op = scf.WhileOp(types, carry)
    places = [ir.Location.unknown()] * len(types)
    before = op.before.blocks.append(*types, arg_locs=places)
    with ir.InsertionPoint(before):
        (go_on,) = lower_closed(kernel, cond_jaxpr, [*cond_consts, *before.arguments])
        scf.condition(go_on, list(before.arguments))
    after = op.after.blocks.append(*types, arg_locs=places)
    with ir.InsertionPoint(after):
        scf.yield_(lower_closed(kernel, body_jaxpr, [*body_consts, *after.arguments]))
    return list(op.results)


def _counted(cond: ClosedJaxpr, body: ClosedJaxpr, cond_nconsts: int, body_nconsts: int) -> Any:
    """Return the count's and the bound's place if the loop runs while a count is less than a bound."""
    if len(cond.jaxpr.eqns) != 1 or cond.consts:
        return None
    (eqn,) = cond.jaxpr.eqns
    if eqn.primitive is not lax.lt_p or cond.jaxpr.outvars[0] is not eqn.outvars[0]:
        return None
    count, limit = eqn.invars
    variables = cond.jaxpr.invars
    if isinstance(count, Literal) or getattr(limit.aval, "dtype", None) != np.int32:
        return None
    i = variables.index(count) - cond_nconsts
    invars, outvars = body.jaxpr.invars[body_nconsts:], body.jaxpr.outvars
    if i < 0 or not _counts(body.jaxpr, invars[i], outvars[i]):
        return None
    if isinstance(limit, Literal):
        return i, limit
    k = variables.index(limit)
    if k >= cond_nconsts and outvars[k - cond_nconsts] is not invars[k - cond_nconsts]:
        return None  # the bound changes
    return i, k


# Scopes


@rule(run_scoped_p)
def _run_scoped(
    ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, collective_axes: Any
) -> list[Any]:
    if collective_axes:
        raise NotImplementedError(
            f"Kernels for TPUs run on one core each, so that run_scoped has no collective_axes, here {collective_axes}."
        )
    kernel = ctx.kernel
    op = tpu.RegionOp([kernel.type_of(a) for a in ctx.avals_out])
    with ir.InsertionPoint(op.body):
        scoped = [_allocated(kernel, a) for a in jaxpr.in_avals[len(args) :]]
        tpu.yield_(lower_closed(kernel, jaxpr, [*args, *scoped]))
    return list(op.results)


def _allocated(kernel: TpuKernel, aval: AbstractRef) -> MemRef:
    space = space_name(aval.memory_space, "a reference of run_scoped")
    ty = kernel.memref_type(aval.shape, aval.dtype, space)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        value = tpu.sem_alloc(ty)
    else:
        value = memref.alloca(ty, [], [])
    return MemRef(value, tuple(aval.shape), aval.dtype, space, (False,) * len(aval.shape))
