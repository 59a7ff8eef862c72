"""What each operation does where kernels for GPUs are interpreted."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.checkify.errors import check_p
from jax._src.core import JaxprEqn
from jax._src.pallas.global_refs import get_global_p
from jax._src.pallas.mosaic_gpu import copies, memory_operations as ops, mma, mma_formats
from jax._src.pallas.mosaic_gpu.copies import OOBFillMode
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS, MemorySpace
from jax._src.pallas.mosaic_gpu.interpret.machine import RULES as rule, Block, Machine, Thread
from jax._src.pallas.mosaic_gpu.interpret.memory import (
    COMBINE,
    Barrier,
    Buffer,
    allocate,
    matmul,
)
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.pallas.mosaic_gpu.transforms import (
    ClusterRef,
    ExtractAliasedRef,
    MulticastRef,
    PeerMemRef,
)
from jax._src.pallas.mosaic_gpu.warps import warp_map_p
from jax._src.pallas.primitives import run_scoped_p
from jax._src.pallas.semaphores import (
    DeviceIdType,
    SemaphoreTy,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
)
from jax._src.pallas.threaded.control_flow import register_control_flow, register_positions
from jax._src.pallas.threaded.programs import run_jaxpr
from jax._src.pallas.threaded.threads import Run, Wait
from jax._src.pallas.threaded.views import (
    OutOfBounds,
    filled,
    int_of,
    read,
    read_with_padding,
    view_array,
    write,
    write_inside,
)
from jax._src.state.primitives import addupdate_p, get_p, swap_p
from jax._src.state.types import TransformedRef
from jax._src.tree_util import tree_unflatten

# Views


def _block_at(machine: Machine, block: Block, t: ClusterRef) -> Block:
    """Return the block of the same cluster that a transform names."""
    at = {**block.coordinates, **{a: int_of(p) for a, p in zip(t.axes, t.positions)}}
    position = tuple([at[n] for n in machine.cluster])
    if position not in block.cluster:
        raise OutOfBounds(f"a block at {dict(zip(machine.cluster, position))} of a cluster")
    return block.cluster[position]


def _target(
    machine: Machine, thread: Thread, ref: Any, transforms: Sequence[Any]
) -> tuple[Buffer, list[Any]]:
    """Return the buffer that a view is of, and the transforms of its array."""
    found, rest = _targets(machine, thread, ref, transforms)
    if len(found) > 1 or any([isinstance(t, MulticastRef) for t in transforms]):
        how = (
            "counted by plgpu.semaphore_signal_multicast"
            if found[0].is_semaphores
            else "written by plgpu.multimem_store or plgpu.copy_smem_to_gmem, and read by plgpu.multimem_load_reduce"
        )
        raise NotImplementedError(
            f"{found[0].name} on all devices (plgpu.multicast_ref) is {how}, not so."
        )
    return found[0], rest


def _targets(
    machine: Machine, thread: Thread, ref: Any, transforms: Sequence[Any]
) -> tuple[list[Buffer], list[Any]]:
    """Return the buffers on all devices that a view is of, and the transforms of their arrays."""
    buffers, rest = [ref], []
    block = thread.block
    for t in transforms:
        if isinstance(t, ExtractAliasedRef) and not rest:
            buffers = [b.member(t, machine.zero) for b in buffers]
        elif isinstance(t, ClusterRef):
            block = _block_at(machine, block, t)
            if block is not thread.block:
                buffers = [block.buffers[b.key] for b in buffers]
        elif isinstance(t, PeerMemRef):
            device = machine.device_at(block, t.device_id, t.device_id_type)
            buffers = [machine.same_buffer(b, device) for b in buffers]
        elif isinstance(t, MulticastRef):
            devices = machine.all_devices(t.collective_axes, "plgpu.multicast_ref")
            buffers = [machine.same_buffer(b, d) for b in buffers for d in devices]
        else:
            rest.append(t)
    return buffers, rest


def _operand(machine: Machine, thread: Thread, x: Any) -> tuple[Buffer, list[Any]]:
    return _target(machine, thread, x.ref, x.transforms)


def _view(buffer: Buffer, transforms: Sequence[Any]) -> np.ndarray:
    """Return the barriers or semaphores that a view is of."""
    found = view_array(buffer.array, transforms, buffer.name)
    assert found is not None  # they are chosen by integers and slices
    return found


def _read(machine: Machine, buffer: Buffer, transforms: Sequence[Any]) -> Any:
    try:
        return read(buffer.array, transforms, buffer.name)
    except OutOfBounds:
        if machine.params.out_of_bounds_reads == "raise":
            raise
        fill = filled((), buffer.array.dtype, machine.zero)
        return read_with_padding(buffer.array, transforms, fill)


def _value(machine: Machine, thread: Thread, x: Any) -> Any:
    """Return what a view holds, or a value."""
    if hasattr(x, "transforms"):
        return _read(machine, *_operand(machine, thread, x))
    return np.asarray(x)


@rule(get_p)
def _get(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    ref, *idx = values
    transforms = tree_unflatten(eqn.params["tree"], idx)
    return [_read(machine, *_target(machine, thread, ref, transforms))]


@rule(swap_p)
def _swap(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    ref, value, *idx = values
    buffer, rest = _target(machine, thread, ref, tree_unflatten(eqn.params["tree"], idx))
    old = read(buffer.array, rest, buffer.name)
    write(buffer.array, rest, value, buffer.name)
    return [old]


@rule(addupdate_p)
def _addupdate(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    ref, value, *idx = values
    buffer, rest = _target(machine, thread, ref, tree_unflatten(eqn.params["tree"], idx))
    write(buffer.array, rest, value, buffer.name, np.add)
    return []


@rule(ops.load_p, mma.async_load_tmem_p, mma.wgmma_accumulator_load_p)
def _load(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    (source,) = operands_of(eqn.params["tree"], values)
    return [_value(machine, thread, source)]


@rule(mma.async_store_tmem_p)
def _store(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    target, value = operands_of(eqn.params["tree"], values)
    buffer, rest = _operand(machine, thread, target)
    write(buffer.array, rest, value, buffer.name)
    return []


@rule(ops.atomic_p)
def _atomic(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    target, value = operands_of(eqn.params["tree"], values)
    buffer, rest = _operand(machine, thread, target)
    write(buffer.array, rest, value, buffer.name, COMBINE[eqn.params["op"]])
    return []


# Barriers


def _barrier(machine: Machine, thread: Thread, x: Any) -> Barrier:
    return _view(*_operand(machine, thread, x)).item()


def _wait(machine: Machine, thread: Thread, barrier: Barrier) -> Run:
    if not barrier.is_complete(thread):
        yield Wait(lambda: barrier.is_complete(thread), lambda: f"barrier {barrier}")
    barrier.waited(thread)


@rule(copies.barrier_wait_p)
def _barrier_wait(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    (x,) = operands_of(eqn.params["tree"], values)
    yield from _wait(machine, thread, _barrier(machine, thread, x))
    return []


@rule(copies.barrier_test_p)
def _barrier_test(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    (x,) = operands_of(eqn.params["tree"], values)
    barrier = _barrier(machine, thread, x)
    complete = barrier.is_complete(thread)
    if complete:
        barrier.waited(thread)
    else:  # lets others run before the next test
        yield Wait(lambda: True, lambda: f"barrier {barrier}")
    return [np.bool_(complete)]


@rule(copies.barrier_arrive_p)
def _barrier_arrive(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    (x,) = operands_of(eqn.params["tree"], values)
    buffer, rest = _operand(machine, thread, x)
    dtype = eqn.invars[0].aval.dtype
    if dtype.collective_axes is None:
        _barrier(machine, thread, x).arrive()
        return []
    blocks: dict[Any, None] = {}
    for axes in dtype.collective_axes:
        near = machine.neighbours(thread.block, axes)
        blocks.update(dict.fromkeys(near[:1] if dtype.leader_tracked else near))
    missing = lambda: [b for b in blocks if buffer.key not in b.buffers]
    if missing():
        yield Wait(lambda: not missing(), lambda: f"{buffer.name} of other blocks to be there")
    for block in blocks:
        _view(block.buffers[buffer.key], rest).item().arrive()
    return []


# Copies: each is complete when it is started.


@rule(copies.copy_gmem_to_smem_p)
def _copy_in(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    source, target, x = operands_of(eqn.params["tree"], values)
    axes, tracked = eqn.params["collective_axes"], eqn.params["leader_tracked"]
    buffer, rest = _operand(machine, thread, source)
    mode = eqn.params["oob_mode"]
    try:
        value = read(buffer.array, rest, buffer.name)
    except OutOfBounds:
        if mode is OOBFillMode.PROMISE_IN_BOUNDS:
            raise
        dtype = buffer.array.dtype
        fill = np.zeros((), dtype) if mode is OOBFillMode.ZEROS else filled((), dtype, machine.zero)
        value = read_with_padding(buffer.array, rest, fill)
    near = machine.neighbours(thread.block, axes) if axes else [thread.block]
    if tracked is not None and tracked is not copies.CopyPartition.REPLICATED:
        size = value.shape[tracked.axis] // len(near)
        start = near.index(thread.block) * size
        value = value.take(range(start, start + size), axis=tracked.axis)
    out, out_rest = _operand(machine, thread, target)
    write(out.array, out_rest, value, out.name)
    if tracked is None:
        _barrier(machine, thread, x).arrive()
        return []
    # Only the first block keeps count: its barrier's arrival is complete when all have copied.
    barriers, barrier_rest = _operand(machine, thread, x)
    leader = near[0]
    if barriers.key not in leader.buffers:
        yield Wait(
            lambda: barriers.key in leader.buffers, lambda: f"{barriers.name} of another block"
        )
    _view(leader.buffers[barriers.key], barrier_rest).item().arrive_in_part(len(near))
    return []


@rule(copies.copy_smem_to_gmem_p)
def _copy_out(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    source, target, predicate = operands_of(eqn.params["tree"], values)
    if predicate is not None and not np.asarray(predicate):
        return []
    value = _value(machine, thread, source)
    combine = COMBINE.get(eqn.params["reduction_op"])
    buffers, rest = _targets(machine, thread, target.ref, target.transforms)
    for buffer in buffers:
        try:
            write(buffer.array, rest, value, buffer.name, combine)
        except OutOfBounds:
            write_inside(buffer.array, rest, value, combine)
    return []


@rule(copies.async_store_smem_p)
def _store_in_block(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    value, target, x, position = operands_of(eqn.params["tree"], values)
    there = ClusterRef((eqn.params["cluster_dim"],), (position,))
    refs = [(v.ref, (*v.transforms, there)) for v in (target, x)]
    block = _block_at(machine, thread.block, there)
    keys = [v.ref.key for v in (target, x)]
    missing = lambda: [k for k in keys if k not in block.buffers]
    if missing():
        yield Wait(lambda: not missing(), lambda: "memory of another block to be there")
    buffer, rest = _target(machine, thread, *refs[0])
    write(buffer.array, rest, value, buffer.name, COMBINE.get(eqn.params["atomic"]))
    _view(*_target(machine, thread, *refs[1])).item().arrive()
    return []


@rule(
    copies.commit_smem_p, copies.commit_group_p, copies.wait_smem_to_gmem_p, copies.async_prefetch_p,
    mma.wgmma_wait_p, mma.wait_load_tmem_p, mma.commit_tmem_p, ops.set_max_registers_p,
    ops.griddepcontrol_wait_p, ops.griddepcontrol_launch_dependents_p, ops.print_layout_p,
)  # fmt: skip
def _nothing(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return []


@rule(ops.layout_cast_p)
def _layout_cast(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return values


# The tensor core


@rule(mma.wgmma_p)
def _wgmma(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    acc, a, b = operands_of(eqn.params["tree"], values)
    _accumulate(machine, thread, acc, a, b, True)
    return []


def _accumulate(
    machine: Machine, thread: Thread, acc: Any, a: Any, b: Any, accumulate: bool
) -> None:
    left, right = _value(machine, thread, a), _value(machine, thread, b)
    _add_product(machine, *_operand(machine, thread, acc), left, right, accumulate)


def _add_product(
    machine: Machine, buffer: Buffer, rest: Any, left: Any, right: Any, accumulate: bool
) -> None:
    dtype = buffer.array.dtype
    if machine.params.skip_floating_point_ops and not np.issubdtype(dtype, np.integer):
        product = np.zeros((left.shape[0], right.shape[1]), np.float32)
    else:
        product = matmul(left, right, dtype)
    if accumulate:
        product = read(buffer.array, rest, buffer.name).astype(product.dtype) + product
    write(buffer.array, rest, product.astype(dtype), buffer.name)


def _in_blocks(machine: Machine, thread: Thread, axis: Any, views: Sequence[Any]) -> Run:
    """Return where views are in each block along an axis, when all blocks have that memory; None for this block only."""
    if axis is None:
        return [[_operand(machine, thread, v) for v in views]]
    near = machine.neighbours(thread.block, axis)
    missing = lambda: [b for b in near for v in views if v.ref.key not in b.buffers]
    if missing():
        yield Wait(lambda: not missing(), lambda: "memory of another block to be there")
    out = []
    for i in range(len(near)):
        there = ClusterRef((axis,), (np.int32(i),))
        out.append([_target(machine, thread, v.ref, (there, *v.transforms)) for v in views])
    return out


@rule(mma.tcgen05_mma_p)
def _tcgen05_mma(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    acc, a, b, x, *more, accumulate = operands_of(eqn.params["tree"], values)
    adds, axis = bool(np.asarray(accumulate)), eqn.params["collective_axis"]
    given = [acc, a, b, *[v for v in more if v is not None]]
    blocks = yield from _in_blocks(machine, thread, axis, given)
    right = np.concatenate([_read(machine, *of_b) for _, _, of_b, *_ in blocks], axis=1)
    for of_acc, *others in blocks:
        left, _, *found = [_read(machine, *v) for v in others]
        operands = iter(found)
        a_scale, b_scale, positions = [None if v is None else next(operands) for v in more]
        block = 1 if a_scale is None else mma_formats.block_size(left.dtype, a_scale.dtype)
        if positions is not None:
            left = mma_formats.dense(left, positions)
            block *= 2
        own = right
        if a_scale is not None:
            left = mma_formats.scaled(left, a_scale, block)
            own = mma_formats.scaled(right.T, b_scale, block).T
        _add_product(machine, *of_acc, left, own, adds)
    if x is not None:
        yield from _arrive_on_axis(machine, thread, x, axis)
    return []


def _arrive_on_axis(machine: Machine, thread: Thread, x: Any, axis: Any) -> Run:
    """Arrive at a barrier, and at those of the other blocks along an axis."""
    for ((buffer, rest),) in (yield from _in_blocks(machine, thread, axis, [x])):
        _view(buffer, rest).item().arrive()


@rule(mma.tcgen05_commit_arrive_p)
def _commit_arrive(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    (x,) = operands_of(eqn.params["tree"], values)
    yield from _arrive_on_axis(machine, thread, x, eqn.params["collective_axis"])
    return []


@rule(mma.async_copy_to_tmem_p)
def _copy_to_tmem(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    operands = operands_of(eqn.params["tree"], values)
    kind, axis = eqn.params["kind"], eqn.params["collective_axis"]
    (_, target) = operands_of(eqn.params["tree"], eqn.invars)
    for source, (buffer, rest) in (yield from _in_blocks(machine, thread, axis, operands)):
        value = _read(machine, *source)
        if kind != "values":
            arrangement = mma_formats.arrangement_of(
                kind, mma.tmem_layout(target.ref.aval, target.transforms)
            )
            value = arrangement.from_shared_memory(value)
        write(buffer.array, rest, value, buffer.name)
    return []


# Semaphores


def _count(machine: Machine, thread: Thread, x: Any) -> tuple[np.ndarray, str]:
    buffer, rest = _operand(machine, thread, x)
    return _view(buffer, rest), buffer.name


def _add_to(machine: Machine, thread: Thread, x: Any, inc: Any, device: Any, kind: Any) -> None:
    transforms = x.transforms if device is None else (PeerMemRef(device, kind), *x.transforms)
    count, _ = _count(machine, thread, TransformedRef(x.ref, transforms))
    count[...] += int_of(inc)


@rule(ops.signal_p)
def _signal(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    x, inc, device = operands_of(eqn.params["tree"], values)
    _add_to(machine, thread, x, inc, device, DeviceIdType.MESH)
    return []


@rule(ops.signal_multicast_p)
def _signal_all(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    x, inc = operands_of(eqn.params["tree"], values)
    buffers, rest = _targets(machine, thread, x.ref, x.transforms)
    for buffer in buffers:
        _view(buffer, rest)[...] += int_of(inc)
    return []


def _wait_for(machine: Machine, thread: Thread, x: Any, value: Any, decrement: bool) -> Run:
    count, name = _count(machine, thread, x)
    least = int_of(value)
    if count < least:
        yield Wait(
            lambda: bool(count >= least),
            lambda: f"semaphore {name}, which is {int(count)}, to be {least}",
        )
    if decrement:
        count[...] -= least
    return []


@rule(ops.wait_p)
def _semaphore_wait(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    x, value = operands_of(eqn.params["tree"], values)
    return (yield from _wait_for(machine, thread, x, value, eqn.params["decrement"]))


@rule(semaphore_signal_p)
def _any_signal(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    ref, transforms, inc, device, core_index = tree_unflatten(eqn.params["args_tree"], values)
    if core_index is not None:
        raise NotImplementedError(
            "semaphore_signal with core_index, in kernels that are interpreted as those of a GPU, which have no cores: leave it out."
        )
    kind = eqn.params["device_id_type"]
    _add_to(machine, thread, TransformedRef(ref, transforms), inc, device, kind)
    return []


@rule(semaphore_wait_p)
def _any_wait(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    ref, transforms, value = tree_unflatten(eqn.params["args_tree"], values)
    x = TransformedRef(ref, transforms)
    return (yield from _wait_for(machine, thread, x, value, eqn.params["decrement"]))


@rule(semaphore_read_p)
def _semaphore_read(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    ref, transforms = tree_unflatten(eqn.params["args_tree"], values)
    count, _ = _count(machine, thread, TransformedRef(ref, transforms))
    return [np.array(count)]


# Clusters that have not been started


@rule(ops.try_cluster_cancel_p)
def _try_cancel(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    target, x = operands_of(eqn.params["tree"], values)
    times = thread.count(eqn)
    of_cluster = (eqn, id(thread.block.cluster), times)
    if of_cluster not in machine.cancelled:
        machine.cancelled[of_cluster] = machine.next_cluster(thread.block.device)
    of_block = (eqn, thread.block, times)
    if of_block not in machine.cancelled:  # the first of the block's threads
        machine.cancelled[of_block] = True
        at = machine.cancelled[of_cluster]
        answer = np.full(4, -1, np.int32)
        if at is not None:
            answer[: 1 + len(at)] = [1, *at.values()][:4]
        buffer, rest = _operand(machine, thread, target)
        write(buffer.array, rest, answer.view(np.int8), buffer.name)
    _barrier(machine, thread, x).arrive()
    return []


@rule(ops.query_cluster_cancel_p)
def _query_cancel(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    (source,) = operands_of(eqn.params["tree"], values)
    answer = np.ascontiguousarray(_value(machine, thread, source)).view(np.int32)
    at = dict(zip(machine.grid_names, answer[1:]))
    success = answer[0] == 1
    indices = [np.int32(at[n] if success else 0) for n in eqn.params["grid_names"]]
    return [*indices, np.bool_(success)]


# Checks


@rule(check_p)
def _check(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    check_p.bind(*values, err_tree=eqn.params["err_tree"], debug=False)  # raises what fails
    return []


# All devices at once


@rule(ops.multimem_store_p)
def _store_on_all(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    value, target = operands_of(eqn.params["tree"], values)
    buffers, rest = _targets(machine, thread, target.ref, target.transforms)
    for buffer in buffers:
        write(buffer.array, rest, value, buffer.name)
    return []


@rule(ops.multimem_load_reduce_p)
def _reduce_of_all(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    (source,) = operands_of(eqn.params["tree"], values)
    everywhere = (MulticastRef(eqn.params["collective_axes"]), *source.transforms)
    buffers, rest = _targets(machine, thread, source.ref, everywhere)
    parts = [_read(machine, b, rest) for b in buffers]
    dtype = parts[0].dtype
    if dtypes.issubdtype(dtype, np.floating):  # sums are rounded once
        parts = [x.astype(np.float32) for x in parts]
    out = functools.reduce(COMBINE[eqn.params["reduction_op"]], parts)
    return [out.astype(dtype)]


# Operations that only GPUs can do


@rule(ops.inline_mgpu_p)
def _inline(machine: Machine, thread: Thread, eqn: JaxprEqn, values: Any) -> Run:
    yield from ()
    raise NotImplementedError(
        "Code of the back end (inline_mgpu), in kernels that are interpreted as those of a GPU: run the kernel on a GPU."
    )


# Functions


@rule(get_global_p)
def _get_global(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    place = thread.block.device.buffers
    if eqn not in place:
        place[eqn] = allocate(
            eqn.params["what"], "a reference of the kernel", eqn, machine.zero, len
        )
    return [place[eqn]]


@rule(run_scoped_p)
def _run_scoped(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    closed = eqn.params["jaxpr"]
    names = closed.jaxpr.debug_info.arg_names
    types = closed.in_avals[len(values) :]
    shared = machine.mesh is not None and machine.mesh.thread_name in eqn.params["collective_axes"]
    times = thread.count(eqn)
    buffers = []
    for k, aval in enumerate(types):
        name = (names[len(values) + k] if names else None) or f"scratch {k}"
        place: dict[Any, Buffer] = thread.block.buffers
        key: Any = (eqn, times, k)
        if aval.memory_space is MemorySpace.GMEM:
            place = thread.block.device.buffers
            if isinstance(aval.dtype, SemaphoreTy):  # of the block, or of the thread
                owner = None if shared else thread.number(machine.mesh)
                key = (*key, tuple(thread.block.coordinates.items()), owner)
        elif not shared or aval.memory_space is MemorySpace.REGS:
            key = (*key, tuple(thread.positions.items()))
            if aval.memory_space is not MemorySpace.REGS and machine.mesh is not None:
                # The same key in all blocks of a cluster.
                key = (eqn, times, k, thread.number(machine.mesh))
        if key not in place:
            sizes = lambda axes: len(
                {b: None for a in axes for b in machine.neighbours(thread.block, a)}
            )
            place[key] = allocate(aval, name, key, machine.zero, sizes)
        buffers.append(place[key])
    return (yield from run_jaxpr(machine, thread, closed.jaxpr, closed.consts, [*values, *buffers]))


register_control_flow(rule, Buffer)
register_positions(rule)


@rule(warp_map_p)
def _warp_map(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    closed, name = eqn.params["jaxpr"], eqn.params["mesh"].axis_name
    running = set(range(NUM_WARPS))

    def run(i: int, warp: Thread) -> Run:
        yield from run_jaxpr(machine, warp, closed.jaxpr, closed.consts, values)
        running.discard(i)

    for i in range(NUM_WARPS):
        warp = thread.warp(i, name)
        machine.spawn(warp, run(i, warp))
    yield Wait(lambda: not running, lambda: f"its warps {sorted(running)}")
    return []
