"""Applications of kernels on TPUs: the module of a kernel, and the custom call that has it."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.core import Jaxpr, ShapedArray, physical_aval
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir, passmanager
from jax._src.lib.mlir.dialects import func, hlo
from jax._src.lib.mosaic import tpu
from jax._src.pallas.cost_estimate import CostEstimate
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.kernel_rules import lower_jaxpr
from jax._src.pallas.memory import MemorySpace as AnyMemorySpace
from jax._src.pallas.mosaic.core import (
    CompilerParams,
    GridDimensionSemantics,
    LoweringException,
    MemorySpace,
    SideEffectType,
)
from jax._src.pallas.mosaic.lowering import (
    arithmetic as _arithmetic,
    blocks,
    contraction as _contraction,
    control_flow as _control_flow,
    copies as _copies,
    memory as _memory,
    operations as _operations,
    random as _random,
    reductions as _reductions,
    shapes as _shapes,
    sparse_core as _sparse_core,
)
from jax._src.pallas.mosaic.lowering.kernel import MemRef, TpuKernel, space_name
from jax._src.pallas.mosaic.meshes import CoreType
from jax._src.sharding_impls.concrete import ShardingContext, SPMDAxisContext

_RULES = (
    _arithmetic, _contraction, _control_flow, _copies, _memory, _operations, _random, _reductions, _shapes,
    _sparse_core,
)  # fmt: skip

# The dialects of a kernel's module, which have to be loaded before operations of them are made.
_DIALECTS = ("arith", "cf", "func", "math", "memref", "scf", "vector")


def lower_call(
    ctx: Any, *args: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Any,
    out_avals: Sequence[ShapedArray], debug: bool, mesh: Any, compiler_params: CompilerParams | None,
    cost_estimate: CostEstimate | None, metadata: Any, name: str | None,
) -> Any:  # fmt: skip
    """Lower an application of a kernel to a custom call with its module."""
    params = CompilerParams() if compiler_params is None else compiler_params
    where = f"pallas_call {jaxpr.debug_info.func_src_info}"
    _check_devices(ctx.module_context.axis_context, where)
    kernel_name = _symbol(name or jaxpr.debug_info.func_src_info.split(" ")[0])
    context = ctx.module_context.context
    _load_dialects(context)
    module, kernel = make_module(ctx, jaxpr, grid_mapping, params, kernel_name, where, mesh)
    if debug:
        print(
            f"The Mosaic module for {where}:\n{module.operation.get_asm(enable_debug_info=False)}"
        )
    communication = tpu.private_has_communication(module.operation)
    body = _serialized(module, context, where)
    sizes = grid_mapping.num_dynamic_grid_bounds
    config = _backend_config(params, cost_estimate, body, communication, where, kernel.core_type)
    config["custom_call_config"] |= _colors(ctx.avals_in, out_avals)
    side_effects = params.has_side_effects
    attributes: dict[str, str] = {"kernel_metadata": _metadata(metadata, kernel)}
    if side_effects is SideEffectType.DATAFLOW_SIDE_EFFECTING:
        attributes["xla_allow_dce_side_effecting_op"] = "true"
    operands = [_to_memory(ctx, x, a) for x, a in zip(args, ctx.avals_in)]
    results = [mlir.aval_to_ir_type(ctx.module_context, _in_memory(a)) for a in out_avals]
    op = mlir.custom_call(
        "tpu_custom_call",
        result_types=results,
        operands=operands,
        backend_config=json.dumps(config),
        has_side_effect=side_effects not in (False, SideEffectType.PURE),
        api_version=1,
        operand_output_aliases={i + sizes: o for i, o in input_output_aliases},
        operand_layouts=[_row_major(a) for a in ctx.avals_in],
        result_layouts=[_row_major(a) for a in out_avals],
        extra_attributes={
            "kernel_name": ir.StringAttr.get(kernel_name),
            "mhlo.frontend_attributes": ir.DictAttr.get(
                {k: ir.StringAttr.get(v) for k, v in attributes.items()}
            ),
        },
    )
    return [_from_memory(ctx, x, a) for x, a in zip(op.results, out_avals)]


def _check_devices(axis_context: Any, where: str) -> None:
    """Check that the kernel is applied to the arrays of one device."""
    several = isinstance(axis_context, ShardingContext) and axis_context.num_devices > 1
    if isinstance(axis_context, SPMDAxisContext):
        several = axis_context.manual_axes != frozenset(axis_context.mesh.axis_names)
    if several:
        raise NotImplementedError(
            f"Mosaic kernels cannot be automatically partitioned. Please wrap the call in a shard_map: {where}."
        )


def _symbol(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_.\-]", "_", name)


def _load_dialects(context: Any) -> None:
    tpu.register_dialect(context)
    for name in _DIALECTS:
        context.get_dialect_descriptor(name)


# The module


def make_module(
    ctx: Any, jaxpr: Jaxpr, mapping: GridMapping, params: CompilerParams, name: str, where: str,
    mesh: Any = None,
) -> tuple[Any, TpuKernel]:  # fmt: skip
    """Make the module of a kernel: its function, and those of its index maps."""
    for m in mapping.block_mappings:
        blocks.check_block(m, bool(mapping.grid), where)
    location = ir.Location.unknown(ctx.module_context.context)
    with location:
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            kernel = _emit_function(ctx, jaxpr, mapping, params, name, where, mesh)
            for i, m in enumerate(mapping.block_mappings if mapping.grid else ()):
                if blocks.space_of(m) not in blocks.WHOLE:
                    blocks.index_map(ctx.module_context, mapping, m, f"transform_{i}")
    return module, kernel


def _emit_function(
    ctx: Any, jaxpr: Jaxpr, mapping: GridMapping, params: CompilerParams, name: str, where: str,
    mesh: Any,
) -> TpuKernel:  # fmt: skip
    i32 = ir.IntegerType.get_signless(32)
    types = TpuKernel(where, ctx.module_context, None)
    n, k = len(mapping.grid), mapping.num_index_operands
    scalars = [v.aval for v in jaxpr.invars[:k]]
    scratch = [(a, space_name(a.memory_space, "a scratch array")) for a in mapping.scratch_avals]
    arguments = [
        *[i32] * n,
        *[types.memref_type(a.shape, a.dtype, "smem") for a in scalars],
        *[blocks.argument(types, m) for m in mapping.block_mappings],
        *[types.memref_type(a.shape, a.dtype, space) for a, space in scratch],
    ]
    op = func.FuncOp(name, (arguments, []))
    block = op.add_entry_block()
    values = list(block.arguments)
    ids, values = values[:n], values[n:]
    visible = lambda v, a, space: MemRef(v, tuple(a.shape), a.dtype, space, (False,) * len(a.shape))
    refs = [visible(v, a, "smem") for v, a in zip(values, scalars)]
    refs += [blocks.as_ref(m, v) for v, m in zip(values[k:], mapping.block_mappings)]
    rest = values[k + len(mapping.block_mappings) :]
    refs += [visible(v, a, space) for v, (a, space) in zip(rest, scratch)]
    axes = mapping.kernel_axes
    kernel = TpuKernel(
        where,
        ctx.module_context,
        block,
        [ids[i] for i in axes],
        axes,
        [mapping.grid[i] for i in axes],
        getattr(mesh, "core_type", CoreType.TC),
        {} if mesh is None else dict(zip(mesh.shape, ids[n - len(mesh.shape) :])),
    )
    with ir.InsertionPoint(block):
        lower_jaxpr(kernel, jaxpr, refs)
        func.return_([])
    i64 = ir.IntegerType.get_signless(64)
    attributes = op.attributes
    attributes["dimension_semantics"] = ir.ArrayAttr.get(_semantics(mapping, params, where, mesh))
    attributes["scalar_prefetch"] = ir.IntegerAttr.get(i64, k)
    attributes["scratch_operands"] = ir.IntegerAttr.get(i64, len(scratch))
    attributes["tpu.core_type"] = ir.Attribute.parse(f"#tpu.core_type<{kernel.core_type}>")
    if mapping.grid:
        dynamic = ir.ShapedType.get_dynamic_size()
        bounds = [d if isinstance(d, int) else dynamic for d in mapping.grid]
        attributes["iteration_bounds"] = ir.DenseI64ArrayAttr.get(bounds)
        if kernel.core_type is CoreType.TC:
            windows = [
                blocks.window(m, f"transform_{i}", where)
                for i, m in enumerate(mapping.block_mappings)
            ]
        else:
            windows = [blocks.whole_window(n, len(m.sizes)) for m in mapping.block_mappings]
        attributes["window_params"] = ir.ArrayAttr.get(windows)
    return kernel


def _semantics(mapping: GridMapping, params: CompilerParams, where: str, mesh: Any) -> list[Any]:
    """Return the attributes that say how the points along each dimension of the grid are run."""
    given = params.dimension_semantics
    if getattr(mesh, "core_type", CoreType.TC) is not CoreType.TC:
        if given is not None:
            raise ValueError(
                f"Kernels on SparseCores do not support dimension_semantics in compiler_params, in {where}."
            )
        given = mesh.dimension_semantics
    if given is None:
        given = [GridDimensionSemantics.ARBITRARY] * len(mapping.kernel_axes)
    if len(given) != len(mapping.kernel_axes):
        raise ValueError(
            f"Length of grid does not match length of dimension semantics. len(grid)={len(mapping.kernel_axes)}, "
            f"len(dimension_semantics)={len(given)}, in {where}."
        )
    names = iter([GridDimensionSemantics(s).value for s in given])
    # What vmap adds is independent of each other.
    all_names = [
        "parallel" if i in mapping.vmapped_dims else next(names) for i in range(len(mapping.grid))
    ]
    return [ir.Attribute.parse(f"#tpu.dimension_semantics<{name}>") for name in all_names]


def _serialized(module: Any, context: Any, where: str) -> bytes:
    """Return a module in the format that all versions of the compiler read."""
    allowed = context.allow_unregistered_dialects
    context.allow_unregistered_dialects = True  # the stable form has operations of no dialect
    try:
        with context:
            passmanager.PassManager.parse("builtin.module(mosaic-serde{serialize=true})").run(
                module.operation
            )
        out = io.BytesIO()
        module.operation.write_bytecode(out, desired_version=0)
    except ir.MLIRError as e:
        raise LoweringException(f"Mosaic refuses the module of {where}: {e}") from e
    finally:
        context.allow_unregistered_dialects = allowed
    return out.getvalue()


# The custom call


def _backend_config(
    params: CompilerParams,
    cost: CostEstimate | None,
    body: bytes,
    communication: tuple[bool, bool],
    where: str,
    core_type: CoreType,
) -> dict[str, Any]:
    """Return what XLA is told of a kernel."""
    if params.use_tc_tiling_on_sc is not None and core_type is CoreType.TC:
        raise ValueError(
            f"use_tc_tiling_on_sc is not supported for kernels of TensorCores, in {where}."
        )
    communicates, barrier = communication
    if params.collective_id is None and barrier:
        raise ValueError(
            f"collective_id has to be specified when using a custom barrier, in {where}."
        )
    unused = not barrier and not params.allow_collective_id_without_custom_barrier
    if params.collective_id is not None and unused:
        raise ValueError(
            f"collective_id has to be unspecified or None when not using a custom barrier, in {where}."
        )
    call: dict[str, Any] = {"body": base64.b64encode(body).decode("ascii")}
    if communicates:
        call["has_communication"] = True
    if params.collective_id is not None:
        call["collective_id"] = params.collective_id
    if cost is not None:
        call["cost_estimate"] = json.loads(cost.to_json())
    call["serialization_format"] = params.serialization_format
    if core_type is CoreType.TC or params.needs_layout_passes:
        call["needs_layout_passes"] = True
    if params.internal_scratch_in_bytes is not None:
        call["internal_scratch_in_bytes"] = params.internal_scratch_in_bytes
    if params.allow_input_fusion is not None:
        call["allow_input_fusion"] = list(params.allow_input_fusion)
    for flag in ("disable_bounds_checks", "disable_semaphore_checks", "skip_device_barrier"):
        if getattr(params, flag):
            call[flag] = True
    if not params.shape_invariant_numerics:
        call["shape_invariant_numerics"] = False
    config: dict[str, Any] = {"custom_call_config": call}
    if core_type is not CoreType.TC:
        own = params.use_tc_tiling_on_sc is False
        tiling = "TILING_SPARSE_CORE" if own else "TILING_COMPACT"
        config["sparse_core_config"] = {"tiling": tiling}
        config["device_type"] = "DEVICE_TYPE_SPARSECORE"
    if params.vmem_limit_bytes is not None:
        limit = {"memory_space": 1, "offset": 0, "size": params.vmem_limit_bytes}
        config["scoped_memory_configs"] = [limit]
    if params.flags is not None:
        config["flag_configs"] = [_flag(k, v) for k, v in params.flags.items()]
    return config


# The numbers of memory spaces in which XLA may be told to have operands and results.
_OPERAND_COLORS = {MemorySpace.HBM: 0, MemorySpace.VMEM: 1}
_RESULT_COLORS = _OPERAND_COLORS | {
    MemorySpace.SEMAPHORE: 2,
    MemorySpace.SMEM: 4,
    AnyMemorySpace.HOST: 5,
}


def _colors(avals_in: Sequence[Any], out_avals: Sequence[Any]) -> dict[str, Any]:
    """Return where XLA must have the operands and results whose types say it."""
    found: dict[str, Any] = {}
    operands = [
        {"operand_index": i, "color": _OPERAND_COLORS[a.memory_space]}
        for i, a in enumerate(avals_in)
        if a.memory_space in _OPERAND_COLORS
    ]
    if operands:
        found["input_memory_space_colors"] = operands
    several = len(out_avals) > 1
    results = [
        {"color": _RESULT_COLORS[a.memory_space]} | ({"shape_index": [i]} if several else {})
        for i, a in enumerate(out_avals)
        if a.memory_space in _RESULT_COLORS
    ]
    if results:
        found["output_memory_space_colors"] = results
    return found


def _flag(name: str, value: Any) -> dict[str, Any]:
    for kind, types in _FLAG_KINDS:
        if isinstance(value, types):
            return {"flag_type": name, "value": {kind: value}}
    raise ValueError(
        f"invalid flag value: {name}={value!r}. Flags are booleans, integers or floats."
    )


_FLAG_KINDS = (("boolean_value", bool), ("integer_value", int), ("double_value", float))


def _metadata(metadata: Any, kernel: TpuKernel) -> str:
    """Return what is said of a kernel to those who read programs, as JSON."""
    given = dict(metadata or ())
    if kernel.mesh_axes:
        given["mesh_axes"] = json.dumps(sorted(kernel.mesh_axes))
    if not given:
        return "{}"
    items = ",".join([f"\n{json.dumps(k)}:{json.dumps(v)}" for k, v in given.items()])
    return "{" + items + "\n}"


def _row_major(aval: Any) -> list[int]:
    return list(range(len(physical_aval(aval).shape) - 1, -1, -1))


def _in_memory(aval: Any) -> Any:
    return aval.update(dtype=np.dtype(np.int32)) if aval.dtype == np.bool_ else aval


def _to_memory(ctx: Any, x: Any, aval: Any) -> Any:
    if aval.dtype != np.bool_:
        return x
    return hlo.convert(mlir.aval_to_ir_type(ctx.module_context, _in_memory(aval)), x)


def _from_memory(ctx: Any, x: Any, aval: Any) -> Any:
    if aval.dtype != np.bool_:
        return x
    stored = _in_memory(aval)
    zero = mlir.full_like_aval(ctx, 0, stored)
    return mlir.compare_hlo(x, zero, "NE", "SIGNED")
