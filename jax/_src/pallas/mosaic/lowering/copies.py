"""Rules of Mosaic's lowering: copies and semaphores."""

from __future__ import annotations

import math
from typing import Any

from jax._src.indexing import Slice
from jax._src.lax.parallel.index import axis_index_p
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.mosaic import tpu
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.copies import dma_start_p, dma_wait_p, get_barrier_semaphore_p
from jax._src.pallas.mosaic.lowering.kernel import MemRef, TpuKernel, rule, static_operands
from jax._src.pallas.mosaic.lowering.memory import as_i32, squeezed, view
from jax._src.pallas.mosaic.meshes import CoreType
from jax._src.pallas.mosaic.sparse_core.indices import positions_and_ignored
from jax._src.pallas.semaphores import (
    DeviceIdType,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
)
from jax._src.state.indexing import NDIndexer
from jax._src.tree_util import tree_unflatten


def _operands(ctx: RuleContext, tree: Any, args: Any) -> Any:
    return tree_unflatten(tree, static_operands(ctx, args, 0))


def _view(kernel: TpuKernel, pair: Any) -> Any:
    return squeezed(kernel, view(kernel, *pair)).value


# Devices


def device_number(ctx: RuleContext, device_id: Any, kind: DeviceIdType) -> Any:
    """Return the number of a device as a value.

    Raises:
      ValueError: if the kernel is not applied on the devices of a mesh, or the mesh has no such axes.
    """
    kernel = ctx.kernel
    mesh = kernel.mesh
    if mesh is None:
        raise ValueError(
            f"Cannot use communication in pallas_call without shard_map: apply it in a function given to jax.shard_map, in {kernel.name}."
        )
    if kind is DeviceIdType.LOGICAL:
        if isinstance(device_id, (tuple, list)):
            (device_id,) = device_id
        return as_i32(kernel, device_id)
    sizes = dict(mesh.shape)
    coordinates = _coordinates(kernel, device_id, sizes)
    number = None
    for i, size in zip(coordinates, sizes.values()):
        i = as_i32(kernel, i)
        number = i if number is None else arith.addi(arith.muli(number, kernel.i32(size)), i)
    return kernel.i32(0) if number is None else number


def _coordinates(kernel: TpuKernel, device_id: Any, sizes: dict[Any, int]) -> list[Any]:
    if isinstance(device_id, dict):
        unknown = [n for n in device_id if n not in sizes]
        if unknown:
            raise ValueError(
                f"device_id {device_id} has axes {unknown}, the mesh has {list(sizes)}."
            )
        kernel.mesh_axes.update(device_id)
        return [device_id[n] if n in device_id else position_on(kernel, n) for n in sizes]
    coordinates = list(device_id) if isinstance(device_id, (tuple, list)) else [device_id]
    if len(coordinates) != len(sizes):
        raise ValueError(
            f"device_id has {len(coordinates)} coordinates, but the mesh has {len(sizes)} axes: {list(sizes)}."
        )
    return coordinates


def position_on(kernel: TpuKernel, name: Any) -> Any:
    """Return this device's position along an axis of the mesh."""
    sizes = dict(kernel.mesh.shape)
    names = list(sizes)
    after = math.prod([sizes[n] for n in names[names.index(name) + 1 :]])
    position = tpu.device_id()
    if after != 1:
        position = arith.divsi(position, kernel.i32(after))
    return arith.remsi(position, kernel.i32(sizes[name]))


@rule(axis_index_p)
def _axis_index(ctx: RuleContext, *, axis_name: Any, **_: Any) -> Any:
    if axis_name in ctx.kernel.core_ids:
        return ctx.kernel.core_ids[axis_name]
    if ctx.kernel.mesh is None:
        raise ValueError(
            f"axis_index({axis_name!r}) in a kernel that is not applied by jax.shard_map, {ctx.kernel.name}."
        )
    ctx.kernel.mesh_axes.add(axis_name)
    return position_on(ctx.kernel, axis_name)


# Copies


def _indirect(kernel: TpuKernel, src: Any, dst: Any) -> Any:
    """Return source and target of a copy from or to positions, the positions, and those that are ignored.

    None for other copies.

    Raises:
      NotImplementedError, ValueError: if SparseCores cannot copy so.
    """
    found = [
        (i, transforms[-1])
        for i, (_, transforms) in enumerate((src, dst))
        if transforms and isinstance(transforms[-1], NDIndexer) and transforms[-1].int_indexer_shape
    ]
    if not found:
        return None
    if kernel.core_type is not CoreType.SC_VECTOR_SUBCORE:
        raise NotImplementedError(
            "Copies from and to positions are for vector subcores of SparseCores: copy slices in a loop."
        )
    if len(found) > 1:
        raise ValueError("A copy at positions has them on one side only.")
    ((side, indexer),) = found
    entries = list(indexer.indices)
    at = [i for i, e in enumerate(entries) if type(e) is not Slice]
    if at != [0]:
        raise NotImplementedError(
            f"Copies at positions have them in the first dimension, and slices in the others: {indexer}."
        )
    values, ignored = positions_and_ignored(entries[0])
    sliced = NDIndexer([Slice(0, indexer.shape[0]), *entries[1:]], indexer.shape)
    views = []
    for i, (ref, transforms) in enumerate((src, dst)):
        if i == side:
            before = view(kernel, ref, transforms[:-1])
            transforms = () if sliced.is_trivial else (sliced,)
            ref = before
        views.append(_view(kernel, (ref, transforms)))
    offsets = _view(kernel, (values, ())) if isinstance(values, MemRef) else values
    return (*views, offsets, ignored)


@rule(dma_start_p)
def _dma_start(
    ctx: RuleContext, *args: Any, tree: Any, device_id_type: Any, priority: int, add: bool
) -> list[Any]:
    kernel = ctx.kernel
    src, dst, recv, send, device_id = _operands(ctx, tree, args)
    indirect = _indirect(kernel, src, dst)
    if indirect is not None:
        source, target, offsets, ignored = indirect
        ignored = None if ignored is None else kernel.i32(ignored)
        tpu.enqueue_indirect_dma(
            source, target, offsets, _view(kernel, recv), offset_filter=ignored, add=add
        )
        return []
    if add:
        raise NotImplementedError(
            "Copies that add are for SparseCores, at positions: copy to scratch memory, and add there."
        )
    device = None if send is None else device_number(ctx, device_id, device_id_type)
    recv = _view(kernel, recv)
    source_semaphore = None if send is None else _view(kernel, send)
    target, source = _view(kernel, dst), _view(kernel, src)
    tpu.enqueue_dma(
        source, target, source_semaphore=source_semaphore, target_semaphore=recv, device_id=device,
        priority=priority or None,
    )  # fmt: skip
    return []


@rule(dma_wait_p)
def _dma_wait(
    ctx: RuleContext, *args: Any, tree: Any, device_id_type: Any, sent: bool
) -> list[Any]:
    kernel = ctx.kernel
    src, dst, sem, _, device_id = _operands(ctx, tree, args)
    indirect = _indirect(kernel, src, dst)
    if indirect is not None:
        tpu.wait_indirect_dma(_view(kernel, sem), *indirect[:2])
        return []
    # What is sent is waited for here, but as for a copy between devices.
    core = kernel.i32(0) if sent else None
    device = core
    if device_id is not None and not sent:
        device = device_number(ctx, device_id, device_id_type)
    semaphore = _view(kernel, sem)
    target, source = _view(kernel, dst), _view(kernel, src)
    tpu.wait_dma2(semaphore, source, target, device_id=device, core_id=core)
    return []


# Semaphores


@rule(semaphore_read_p)
def _read(ctx: RuleContext, *args: Any, args_tree: Any) -> Any:
    return tpu.sem_read(_view(ctx.kernel, _operands(ctx, args_tree, args)))


@rule(semaphore_signal_p)
def _signal(ctx: RuleContext, *args: Any, args_tree: Any, device_id_type: Any) -> list[Any]:
    kernel = ctx.kernel
    ref, transforms, inc, device_id, core = _operands(ctx, args_tree, args)
    device = None if device_id is None else device_number(ctx, device_id, device_id_type)
    tpu.sem_signal(
        _view(kernel, (ref, transforms)), as_i32(kernel, inc), device_id=device,
        core_id=None if core is None else as_i32(kernel, core),
    )  # fmt: skip
    return []


@rule(semaphore_wait_p)
def _wait(ctx: RuleContext, *args: Any, args_tree: Any, decrement: bool) -> list[Any]:
    kernel = ctx.kernel
    if not decrement:
        raise NotImplementedError(
            "Kernels for TPUs have no semaphore_wait that does not decrement."
        )
    ref, transforms, value = _operands(ctx, args_tree, args)
    tpu.sem_wait(_view(kernel, (ref, transforms)), as_i32(kernel, value))
    return []


@rule(get_barrier_semaphore_p)
def _barrier(ctx: RuleContext) -> MemRef:
    kernel, aval = ctx.kernel, ctx.avals_out[0]
    ty = kernel.memref_type((), aval.dtype, "semaphore_mem")
    return MemRef(tpu.sem_barrier(ty), (), aval.dtype, "semaphore_mem", ())
