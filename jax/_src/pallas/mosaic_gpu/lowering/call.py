"""Applications of kernels to GPUs by Mosaic: the custom call that has the kernel's module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.core import Jaxpr, ShapedArray, Var, subjaxprs
from jax._src.indexing import Slice
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, gpu
from jax._src.pallas.blocks import Squeezed
from jax._src.pallas.element_types import only_number
from jax._src.pallas.global_refs import with_global_refs_as_arguments
from jax._src.pallas.gpu_call import call_kernel
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.kernel_rules import lower_jaxpr
from jax._src.pallas.mosaic_gpu.core import CompilerParams, MemorySpace
from jax._src.pallas.mosaic_gpu.lowering import (
    barriers as _barriers,
    block_stores as _block_stores,
    composed as _composed,
    control_flow,
    copies as _copies,
    cumulative as _cumulative,
    debugging as _debugging,
    elementwise as _elementwise,
    inline as _inline,
    memory as _memory,
    mma as _mma,
    multimem as _multimem,
    operations as _operations,
    products as _products,
    reductions as _reductions,
    scheduling as _scheduling,
    semaphores as _semaphores,
    shapes as _shapes,
    tcgen05 as _tcgen05,
    tensor_memory as _tensor_memory,
    warps as _warps,
)
from jax._src.pallas.mosaic_gpu.lowering.clusters import Cluster
from jax._src.pallas.mosaic_gpu.lowering.devices import Devices
from jax._src.pallas.mosaic_gpu.lowering.fragments import splat
from jax._src.pallas.mosaic_gpu.lowering.grid import over_grid
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, unraveled
from jax._src.pallas.mosaic_gpu.lowering.inference import Layouts
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, GpuKernel, number
from jax._src.pallas.mosaic_gpu.lowering.launch import make_module, new_context, serialized
from jax._src.pallas.mosaic_gpu.lowering.profiler import Profiler
from jax._src.pallas.mosaic_gpu.lowering.runtime import find_runtime
from jax._src.pallas.mosaic_gpu.lowering.semaphores import Counters, is_semaphores
from jax._src.pallas.mosaic_gpu.lowering.tensor_memory import tensor_memory
from jax._src.pallas.mosaic_gpu.lowering.views import View, transformed, whole
from jax._src.state.indexing import NDIndexer

# Imported for their rules.
_RULES = (
    _barriers,
    _block_stores,
    _composed,
    control_flow,
    _copies,
    _cumulative,
    _debugging,
    _elementwise,
    _inline,
    _memory,
    _mma,
    _multimem,
    _operations,
    _products,
    _reductions,
    _scheduling,
    _semaphores,
    _shapes,
    _tcgen05,
    _tensor_memory,
    _warps,
)
_TARGET = "mosaic_gpu_v2"
_MOST_BLOCKS = 2**31 - 1


class Kernel(GpuKernel):
    """A kernel that is being compiled."""

    def constant(self, value: Any, aval: Any) -> Any:
        x = only_number(value, aval, TABLE.target, "plgpu.broadcasted_iota")
        return splat(number(x, aval.dtype), aval.shape, aval.dtype)


def lower_call(
    ctx: Any, *args: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Any,
    out_avals: Sequence[ShapedArray], debug: bool, mesh: Any, compiler_params: CompilerParams | None,
    name: str | None, **_: Any,
) -> Any:  # fmt: skip
    """Lower an application of a kernel: the rule of `pallas_call` for GPUs and these options."""
    find_runtime()
    params = CompilerParams() if compiler_params is None else compiler_params
    where = jaxpr.debug_info.func_src_info
    _check(grid_mapping, where)
    jaxpr, more = with_global_refs_as_arguments(jaxpr)
    if mesh is None:
        jaxpr, grid_mapping, mesh = over_grid(jaxpr, grid_mapping, more, params, where)
    elif grid_mapping.scratch_avals:
        raise NotImplementedError(f"Scratch memory of a mesh, in the call of {where}.")
    kernel_name = mlir.sanitize_name(name or jaxpr.debug_info.func_name).replace(".", "_")
    with new_context() as context, ir.Location.unknown(context):
        kernel = Kernel(where, context, mesh.num_threads or 1, params)
        devices = getattr(ctx.module_context.axis_context, "device_assignment", None)
        kernel.device = devices[0] if devices else None
        kernel.layouts = Layouts(jaxpr)
        kernel.used = _used(jaxpr)
        kernel.semaphores = Counters.find(
            jaxpr, sum([math.prod(a.shape) for a in more]), kernel.threads
        )
        blocks = _blocks(kernel, grid_mapping, mesh)
        zeros = []
        if counters := kernel.semaphores.total(blocks):
            zeros.append(ShapedArray((counters,), np.dtype(np.int32)))
        if params.profile_space:
            kernel.profiler = Profiler(kernel)
            zeros.append(kernel.profiler.type_of_records(blocks))
        operands = len(args) + len(out_avals) + 2 * len(zeros)
        kernel.devices = Devices.of(
            ctx.module_context.axis_context, jaxpr, mesh.shape, operands, where
        )
        kernel.semaphores.devices = kernel.devices
        module = _module(
            kernel, jaxpr, grid_mapping, mesh, kernel_name, blocks, len(args), len(out_avals), bool(counters), len(zeros)
        )  # fmt: skip
        if debug:
            print(f"\nThe Mosaic GPU module for pallas_call {where}:\n{module.operation}")
        module.operation.verify()
        code, digest = serialized(module)
    config = _config(code, digest, kernel.devices)
    results, changed = call_kernel(ctx, _TARGET, args, config, input_output_aliases, zeros)
    if kernel.profiler is not None:
        write = kernel.profiler.writer(kernel_name)
        mlir.emit_python_callback(
            ctx, write, None, changed[-1:], zeros[-1:], [], has_side_effect=True
        )
    return results


def _config(code: bytes, digest: bytes, devices: Devices | None) -> dict[str, Any]:
    """Return what the compiler is told: the module, and for which devices it wants to know where arrays are."""
    out = dict(
        kernel_hash=ir.StringAttr.get(digest),
        module=ir.StringAttr.get(code),
        use_custom_barrier=ir.BoolAttr.get(False),
        uses_xla_collective_metadata=ir.BoolAttr.get(devices is not None),
    )
    if devices is None:
        return out
    out["xla_replica_ids"] = ir.StringAttr.get(",".join(map(str, range(devices.count))))
    if devices.at_once:
        marks = [str(int(i in devices.at_once)) for i in range(devices.operands)]
        out["multimem_parameters"] = ir.StringAttr.get(",".join(marks))
    return out


def _check(mapping: GridMapping, where: str) -> None:
    if mapping.num_dynamic_grid_bounds or mapping.num_index_operands:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have grids of known sizes, and index maps of the grid's indices only, in the call of "
            f"{where}: use plgpu.emit_pipeline in plgpu.kernel, whose grid can be traced."
        )


def _blocks(kernel: GpuKernel, mapping: GridMapping, mesh: Any) -> int:
    """Return how many blocks run the kernel."""
    blocks = math.prod([mapping.grid[i] for i in mapping.vmapped_dims])
    blocks *= math.prod(mesh.grid) * math.prod(mesh.cluster)
    if not 0 < blocks <= _MOST_BLOCKS:
        raise ValueError(
            f"The grid {mesh.grid} of {kernel.name} has {blocks} blocks, but GPUs run 1 to {_MOST_BLOCKS}."
        )
    return blocks


def _module(
    kernel: GpuKernel, jaxpr: Jaxpr, mapping: GridMapping, mesh: Any, name: str, blocks: int, inputs: int,
    outputs: int, counts: bool, zeros: int,
) -> Any:  # fmt: skip
    """Return the module, whose operands are arguments and results, and after either arrays of zeros.

    These are the semaphores, if it counts any, and what the profiler records.
    """
    mapped = [mapping.grid[i] for i in mapping.vmapped_dims]
    avals: list[Any] = [v.aval for v in jaxpr.invars]
    n = inputs + outputs
    for i, a in enumerate(avals):
        if a.memory_space is not MemorySpace.GMEM or is_semaphores(a) != (i >= n):
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have operands in global memory, and of references of the whole kernel semaphores "
                f"only, not {a}, in {kernel.name}."
            )
    numbers = [*range(inputs), *[i + zeros for i in range(inputs, n)]]

    def body(pointers: list[Any]) -> None:
        if kernel.profiler is not None:
            kernel.profiler.start(pointers[-1])
        at = _positions(kernel, mesh, mapped)
        refs = []
        for i, m in zip(numbers, mapping.block_mappings):
            array = m.array_aval
            view = whole(pointers[i], array.shape, array.dtype, MemorySpace.GMEM, i, kernel.devices)
            refs.append(_mapped(kernel, mapping, m, view, at))
        if counts:
            kernel.semaphores.pointer, kernel.semaphores.operand = pointers[n + zeros], n + zeros
        with tensor_memory(kernel, jaxpr):
            lower_jaxpr(kernel, jaxpr, [*refs, *kernel.semaphores.of_kernel(avals[n:])])
        if kernel.profiler is not None:
            kernel.profiler.end()

    return make_module(kernel, name, n + 2 * zeros, blocks, math.prod(mesh.cluster), body)


def _mapped(
    kernel: GpuKernel, mapping: GridMapping, m: Any, view: View, at: Sequence[Index]
) -> View:
    """Return the part of an array that a kernel gets that `vmap` has mapped."""
    if not at:
        return view
    int32 = np.dtype(np.int32)
    index = [Index()] * len(mapping.grid)
    for i, x in zip(mapping.vmapped_dims, at):
        index[i] = x
    given = [splat(x.value(kernel.i32), (), int32) for x in index]
    chosen = lower_jaxpr(kernel, m.index_map_jaxpr.jaxpr, given)
    squeezed = [isinstance(d, Squeezed) for d in m.block_shape]
    indices = [i if s else Slice(0, n) for i, s, n in zip(chosen, squeezed, view.shape)]
    return transformed(view, [NDIndexer(indices, view.shape)])


def _positions(kernel: GpuKernel, mesh: Any, mapped: Sequence[int]) -> list[Index]:
    """Emit the position along each axis, and return that along axes which `vmap` added.

    Blocks are numbered in row-major order, those of a cluster together.
    """
    block = Index(0, arith.index_cast(kernel.i32, gpu.block_id(gpu.Dimension.x)))
    kernel.semaphores.first = block * kernel.semaphores.of_block + kernel.semaphores.shared
    outer, inner = block.divmod(math.prod(mesh.cluster))
    at = unraveled(outer, [*mapped, *mesh.grid])
    in_cluster = dict(zip(mesh.cluster_names, unraveled(inner, mesh.cluster)))
    kernel.cluster = Cluster(dict(zip(mesh.cluster_names, mesh.cluster)), in_cluster)
    found = [*zip(mesh.grid_names, at[len(mapped) :]), *in_cluster.items()]
    kernel.axes = {n: i.value(kernel.i32) for n, i in found}
    kernel.sizes = dict(mesh.shape)
    kernel.grid = dict(zip(mesh.grid_names, mesh.grid))
    kernel.program = [(kernel.axes[n], kernel.sizes[n]) for n in kernel.axes]
    if kernel.devices is not None:
        kernel.axes |= {n: i.value(kernel.i32) for n, i in kernel.devices.at.items()}
    if mesh.thread_name is not None:
        kernel.axes[mesh.thread_name] = kernel.warpgroup
        kernel.thread_axis = mesh.thread_name
    return at[: len(mapped)]


def _used(jaxpr: Jaxpr) -> set[Any]:
    """Return the variables that something uses, of a jaxpr and of those in it."""
    used = {v for v in jaxpr.outvars if type(v) is Var}
    for eqn in jaxpr.eqns:
        used.update([v for v in eqn.invars if type(v) is Var])
    return used.union(*map(_used, subjaxprs(jaxpr)))
