"""Rules of loops, branches, calls, scopes, and of the position of a thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.ad_checkpoint.primitive import remat_p
from jax._src.call_primitives import call_p, closed_call_p
from jax._src.core import AbstractRef, ClosedJaxpr
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.custom_derivatives.vjp import custom_vjp_call_p
from jax._src.jit.primitive import jit_p
from jax._src.lax.composite import composite_p
from jax._src.lax.control_flow import cond_p, scan_p, while_p
from jax._src.lax.control_flow.common import split_at
from jax._src.lax.parallel import axis_index_p
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, scf
from jax._src.pallas.kernel_rules import RuleContext, lower_closed, lower_jaxpr
from jax._src.pallas.mosaic_gpu.core import BarrierType, MemorySpace, WGMMAAbstractAccumulatorRef
from jax._src.pallas.mosaic_gpu.lowering import barriers
from jax._src.pallas.mosaic_gpu.lowering.clusters import reaches_other_blocks
from jax._src.pallas.mosaic_gpu.lowering.exchange import in_layout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    flat_registers,
    from_registers,
    layout_of,
    register_shape,
    splat,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    SHARED_ALIGNMENT,
    TABLE,
    GpuKernel,
    element_type,
    rule,
)
from jax._src.pallas.mosaic_gpu.lowering.mma import Accumulator
from jax._src.pallas.mosaic_gpu.lowering.semaphores import is_semaphores
from jax._src.pallas.mosaic_gpu.lowering.tensor_memory import TensorView
from jax._src.pallas.mosaic_gpu.lowering.views import View, arranged, whole
from jax._src.pallas.mosaic_gpu.transforms import nbytes
from jax._src.pallas.primitives import num_programs_p, program_id_p, run_scoped_p
from jax._src.state.discharge import run_state_p

_int32 = np.dtype(np.int32)

# Positions


@rule(axis_index_p)
def _axis_index(ctx: RuleContext, *, axis_name: Any) -> Any:
    kernel = ctx.kernel
    if axis_name not in kernel.axes:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} do not know the position along {axis_name!r}, which is no axis of their mesh: give them "
            "jax.lax.axis_index as an argument."
        )
    return splat(kernel.axes[axis_name], (), _int32)


@rule(program_id_p)
def _program_id(ctx: RuleContext, *, axis: int) -> Any:
    return splat(ctx.kernel.program[axis][0], (), _int32)


@rule(num_programs_p)
def _num_programs(ctx: RuleContext, *, axis: int) -> Any:
    return splat(integer(ctx.kernel.program[axis][1]), (), _int32)


# Calls


@rule(jit_p, closed_call_p, call_p, remat_p, composite_p)
def _call(ctx: RuleContext, *args: Any, **params: Any) -> list[Any]:
    jaxpr = params.get("jaxpr", params.get("call_jaxpr"))
    lower = lower_closed if isinstance(jaxpr, ClosedJaxpr) else lower_jaxpr
    return lower(ctx.kernel, jaxpr, args)


@rule(custom_jvp_call_p, custom_vjp_call_p)
def _custom_call(ctx: RuleContext, *args: Any, call_jaxpr: Any, **_: Any) -> list[Any]:
    return lower_closed(ctx.kernel, call_jaxpr, args)


# What is carried by loops and returned by branches: arrays, whose registers are values of MLIR


def _prepared(kernel: GpuKernel, values: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Return values in the layouts of variables."""
    out = []
    for x, v in zip(values, variables):
        if isinstance(x, Fragment):
            layout = kernel.layouts.get(v)
            x = in_layout(kernel, x, layout)
        out.append(x)
    return out


def _flat(values: Sequence[Any]) -> list[Any]:
    return [r for x in values for r in flat_registers(x)]


def _accumulators(args: Sequence[Any]) -> list[Accumulator]:
    """Return the accumulators among operands, whose values are carried like arrays."""
    return list({id(x): x for x in args if isinstance(x, Accumulator)}.values())


def _with_accumulators(
    accumulators: Sequence[Accumulator], like: Sequence[Any], registers: Sequence[Any],
    run: Callable[[list[Any]], list[Any]],
) -> list[Any]:  # fmt: skip
    """Run a function of arrays in a block, and return registers of what it and accumulators are then.

    Args:
      accumulators: the accumulators.
      like: arrays like those that the function is given, then like the accumulators.
      registers: the block's arguments.
      run: the function; it returns arrays.
    """
    before = [a.value for a in accumulators]
    n = len(like) - len(accumulators)
    now = _unflat(like, registers)
    for a, x in zip(accumulators, now[n:]):
        a.value = x
    outs = [*run(now[:n]), *[a.value for a in accumulators]]
    for a, x in zip(accumulators, before):
        a.value = x
    return outs


def _take_results(
    accumulators: Sequence[Accumulator], like: Sequence[Any], results: Sequence[Any]
) -> list[Any]:
    """Return the arrays of results, and give accumulators theirs."""
    n = len(like) - len(accumulators)
    out = _unflat(like, results)
    for a, x in zip(accumulators, out[n:]):
        a.value = x
    return out[:n]


def _unflat(like: Sequence[Any], registers: Sequence[Any]) -> list[Any]:
    rest = iter(registers)
    return [from_registers(x, rest) for x in like]


def _same_layouts(kernel: GpuKernel, like: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    return [in_layout(kernel, x, a.layout) for a, x in zip(like, values)]


# Loops


@rule(scan_p)
def _scan(
    ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int, reverse: bool,
    unroll: Any, **_: Any,
) -> Any:  # fmt: skip
    kernel = ctx.kernel
    if len(args) > num_consts + num_carry or len(jaxpr.jaxpr.outvars) > num_carry:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have loops over integers only, not over the rows of an array: read ref[i] in a "
            "jax.lax.fori_loop, and write results to a reference."
        )
    consts, carry = list(args[:num_consts]), list(args[num_consts:])
    if unroll is True or int(unroll) >= length:
        for _i in range(length):
            carry = lower_closed(kernel, jaxpr, [*consts, *carry])
        return carry
    carry = _prepared(kernel, carry, jaxpr.jaxpr.invars[num_consts:])
    accumulators = _accumulators(args)
    like = [*carry, *[a.value for a in accumulators]]
    loop = scf.ForOp(integer(0), integer(length), integer(1), _flat(like))
    with ir.InsertionPoint(loop.body):
        outs = _with_accumulators(
            accumulators, like, loop.inner_iter_args,
            lambda now: lower_closed(kernel, jaxpr, [*consts, *now]),
        )  # fmt: skip
        scf.yield_(_flat(_same_layouts(kernel, like, outs)))
    return _take_results(accumulators, like, loop.results)


@rule(while_p)
def _while(
    ctx: RuleContext, *args: Any, cond_nconsts: int, cond_jaxpr: ClosedJaxpr, body_nconsts: int,
    body_jaxpr: ClosedJaxpr,
) -> Any:  # fmt: skip
    kernel = ctx.kernel
    cond_consts, body_consts, carry = split_at(args, cond_nconsts, body_nconsts)
    carry = _prepared(kernel, carry, body_jaxpr.jaxpr.invars[body_nconsts:])
    accumulators = _accumulators(args)
    like = [*carry, *[a.value for a in accumulators]]
    flat = _flat(like)
    types = [x.type for x in flat]
    loop = scf.WhileOp(types, flat)
    locations = [ir.Location.current] * len(types)
    before = loop.before.blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(before):
        now = _unflat(like, before.arguments)[: len(carry)]
        (go_on,) = lower_closed(kernel, cond_jaxpr, [*cond_consts, *now])
        scf.condition(go_on.scalar, before.arguments)
    after = loop.after.blocks.append(*types, arg_locs=locations)
    with ir.InsertionPoint(after):
        outs = _with_accumulators(
            accumulators, like, after.arguments,
            lambda now: lower_closed(kernel, body_jaxpr, [*body_consts, *now]),
        )  # fmt: skip
        scf.yield_(_flat(_same_layouts(kernel, like, outs)))
    return _take_results(accumulators, like, loop.results)


# Branches


@rule(cond_p)
def _cond(
    ctx: RuleContext, index: Fragment, *args: Any, branches: Sequence[ClosedJaxpr], **_: Any
) -> Any:
    x = index.scalar
    if index.dtype == np.bool_:
        x = arith.extui(ctx.kernel.i32, x)
    elif x.type != ctx.kernel.i32:
        x = arith.trunci(ctx.kernel.i32, x)
    return _branch(ctx, x, branches, args)


def _branch(ctx: RuleContext, x: Any, branches: Sequence[ClosedJaxpr], args: Sequence[Any]) -> Any:
    """Emit the first branch for an index below one, and the others otherwise."""
    kernel = ctx.kernel
    if len(branches) == 1:
        return lower_closed(kernel, branches[0], args)
    is_first = arith.cmpi(arith.CmpIPredicate.sle, x, integer(0))

    accumulators = _accumulators(args)
    own = [a.value for a in accumulators]
    like = [*[_planned(kernel, v) for v in ctx.eqn.outvars], *own]
    types = [_register_type(x) for x in like for _ in range(x.registers.size)]
    choice = scf.IfOp(is_first, types, has_else=True)

    def emit(block: Any, run: Callable[[], list[Any]]) -> None:
        with ir.InsertionPoint(block):
            outs = _with_accumulators(accumulators, own, _flat(own), lambda _: run())
            scf.yield_(_flat(_same_layouts(kernel, like, outs)))

    emit(choice.then_block, lambda: lower_closed(kernel, branches[0], args))
    rest = lambda: _branch(ctx, arith.subi(x, integer(1)), branches[1:], args)
    emit(choice.else_block, rest)
    return _take_results(accumulators, like, choice.results)


def _planned(kernel: GpuKernel, v: Any) -> Fragment:
    """Return an array of a variable's type, in its layout, without values."""
    shape, dtype = v.aval.shape, v.aval.dtype
    layout = kernel.layouts.get(v) or layout_of(shape, dtype)
    counts, _ = register_shape(layout, shape)
    return Fragment(layout, shape, np.dtype(dtype), np.empty(counts, dtype=object))


def _register_type(x: Fragment) -> Any:
    kind = element_type(x.dtype)
    if x.is_splat:
        return kind
    return ir.VectorType.get([register_shape(x.layout, x.shape)[1]], kind)


# Scopes


@rule(run_scoped_p)
def _run_scoped(ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, collective_axes: Any) -> Any:
    kernel = ctx.kernel
    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)
    shared = kernel.threads == 1 or kernel.thread_axis in axes
    types = [v.aval for v in jaxpr.jaxpr.invars[len(args) :]]
    counters = [a for a in types if is_semaphores(a)]
    counted = iter(
        kernel.semaphores.of_scope(kernel, jaxpr.jaxpr, counters, shared) if counters else ()
    )
    # Other blocks of the cluster use the memory from after its scope has begun in all until it ends in all.
    memory = [a for a in types if a.memory_space is MemorySpace.SMEM]
    clusters = bool(memory) and reaches_other_blocks(jaxpr.jaxpr)
    with kernel.shared.scope(), kernel.tensor.columns.scope() if kernel.tensor else nullcontext():
        refs = [next(counted) if is_semaphores(a) else allocate(kernel, a, shared) for a in types]
        created = [r for r in refs if isinstance(r, barriers.Barriers)]
        if created or clusters:
            barriers.initialize(kernel, created, shared, clusters)
        outs = lower_closed(kernel, jaxpr, [*args, *refs])
        if created or clusters:
            barriers.invalidate(kernel, created, shared, clusters)
    return outs


@rule(run_state_p)
def _run_state(ctx: RuleContext, *args: Any, jaxpr: ClosedJaxpr, **_: Any) -> Any:
    kernel = ctx.kernel
    avals = jaxpr.in_avals
    taken = []
    for x, a in zip(args, avals):
        if isinstance(x, Fragment) and isinstance(a, AbstractRef):
            if not isinstance(a, WGMMAAbstractAccumulatorRef):
                raise NotImplementedError(
                    f"Kernels for {TABLE.target} have run_state for accumulators of wgmma only, not for {a}: use pl.run_scoped."
                )
            x = Accumulator.of(kernel, x)
        taken.append(x)
    lower_closed(kernel, jaxpr, taken)
    return [
        t.final() if isinstance(t, Accumulator) and t is not x else x for x, t in zip(args, taken)
    ]


def allocate(kernel: GpuKernel, aval: Any, shared: bool) -> Any:
    """Return new memory of a reference's type.

    Args:
      kernel: the kernel.
      aval: the type.
      shared: whether the threads of a block have it together, or each has its own.
    """
    if isinstance(aval, WGMMAAbstractAccumulatorRef):
        return Accumulator.zeros(aval.inner_aval.shape, aval.inner_aval.dtype)
    if aval.memory_space is MemorySpace.TMEM:
        return _allocate_tensor(kernel, aval, shared)
    if aval.memory_space is not MemorySpace.SMEM:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} cannot allocate {aval.memory_space} memory yet, only shared and tensor memory, barriers and "
            "accumulators of wgmma."
        )
    inner = aval.inner_aval
    copies = 1 if shared else kernel.threads
    if isinstance(inner.dtype, BarrierType):
        count = math.prod(inner.shape)
        start = kernel.shared.allocate(8 * count * copies, 8)
        mine = _mine(kernel, start, 8 * count, shared)
        return barriers.Barriers.create(kernel, mine, inner.shape, inner.dtype)
    if isinstance(inner.dtype, dtypes.ExtendedDType):
        raise NotImplementedError(f"Kernels for {TABLE.target} cannot allocate {aval} yet.")
    size = nbytes(inner.shape, inner.dtype)
    size = -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT if copies > 1 else size
    start = kernel.shared.allocate(size * copies)
    pointer = kernel.shared_pointer(_mine(kernel, start, size, shared))
    view: View = whole(pointer, inner.shape, inner.dtype, MemorySpace.SMEM)
    view = view.replace(cluster=kernel.cluster)
    return arranged(view, getattr(aval, "transforms", ()))


def _allocate_tensor(kernel: GpuKernel, aval: Any, shared: bool) -> TensorView:
    inner = aval.inner_aval
    *outer, rows, columns = inner.shape
    size = math.prod(outer) * aval.layout.columns((rows, columns))
    start = kernel.tensor.columns.allocate(size * (1 if shared else kernel.threads), 1)
    at = Index(0, kernel.tensor.base) + _mine(kernel, start, size, shared)
    return TensorView.create(at, inner.shape, inner.dtype, aval.layout, aval.collective)


def _mine(kernel: GpuKernel, start: int, size: int, shared: bool) -> Index:
    return Index(start) if shared else Index(start) + Index(0, kernel.warpgroup) * size
