"""Compiles applications of kernels by Triton: makes a module of the kernel, and a call of it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.core import Jaxpr
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.blocks import Blocked, BlockMapping, Element, Squeezed
from jax._src.pallas.gpu_call import call_kernel
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.kernel_rules import lower_jaxpr
from jax._src.pallas.triton import (
    control_flow,
    conversions,
    device,
    elementwise,
    products,
    reductions,
    shapes,
)
from jax._src.pallas.triton.core import CompilerParams
from jax._src.pallas.triton.kernel import Constant, Kernel, rules, unused_results
from jax._src.pallas.triton.memory import View, pointer_type, view_of_block

# Imported for their rules.
_RULES = (control_flow, conversions, device, elementwise, products, reductions, shapes)
_TARGET = "__gpu$xla.gpu.triton"
_MAX_X, _MAX_YZ = 2**31 - 1, 2**16 - 1
_int32 = np.dtype(np.int32)


def lower_call(
    ctx: Any, *args: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Any, debug: bool,
    compiler_params: Any, name: str | None, metadata: Any, **_: Any,
) -> Any:  # fmt: skip
    """Lower an application of a kernel: the rule of `pallas_call` for GPUs."""
    (platform,) = ctx.module_context.platforms
    where = jaxpr.debug_info.func_src_info
    grid = _checked_grid(grid_mapping, where)
    if grid_mapping.scratch_avals:
        raise NotImplementedError(
            f"Kernels for {rules.target} have no scratch arrays: in the call of {where}, leave scratch_shapes out. Nothing is "
            "kept from one point of the grid to the next; in one, keep values in carries of loops or by pl.run_scoped."
        )
    module_name = mlir.sanitize_name(name or jaxpr.debug_info.func_name)
    params = compiler_params or CompilerParams()
    with ir.Context() as context, ir.Location.unknown(context):
        tt.register_dialect(context)
        context.load_all_available_dialects()
        # The barrier is of one that is not available here.
        context.allow_unregistered_dialects = True
        kernel = Kernel(where, context, platform)
        module = _module(kernel, jaxpr, grid_mapping, module_name)
        if debug:
            print(f"\nThe Triton module for pallas_call {where}:\n{module.operation}")
        module.operation.verify()
        code = io.BytesIO()
        module.operation.write_bytecode(code)
    i32 = ir.IntegerType.get_signless(32)
    integer = lambda n: ir.IntegerAttr.get(i32, n)
    x, y, z = grid
    config = dict(
        name=ir.StringAttr.get(module_name),
        ir=ir.StringAttr.get(code.getvalue()),
        num_warps=integer(4 if params.num_warps is None else params.num_warps),
        num_stages=integer(3 if params.num_stages is None else params.num_stages),
        grid_x=integer(x),
        grid_y=integer(y),
        grid_z=integer(z),
        debug=ir.BoolAttr.get(debug),
    )
    if metadata:
        config["serialized_metadata"] = ir.StringAttr.get(json.dumps(dict(metadata)))
    results, _ = call_kernel(ctx, _TARGET, args, config, input_output_aliases)
    return results


def _checked_grid(mapping: GridMapping, where: str) -> tuple[int, int, int]:
    """Return the sizes of the device's grid, which has three dimensions: the last two are smaller."""
    if mapping.num_dynamic_grid_bounds:
        raise NotImplementedError(
            f"Kernels for {rules.target} have grids of known sizes: in the call of {where}, give integers, or a greater grid in "
            "which the kernel does nothing beyond a traced bound (pl.when)."
        )
    grid = list(mapping.grid)
    n = _dims_in_x(grid)
    x, last = math.prod(grid[:n]), grid[n:]
    if x > _MAX_X:
        raise ValueError(
            f"The grid {tuple(grid)} of {where} has {x} points, but GPUs run {_MAX_X} at most: take larger blocks, or loop in "
            "the kernel."
        )
    return (x, *last, *[1] * (2 - len(last)))  # type: ignore[return-value]


def _dims_in_x(grid: Sequence[int]) -> int:
    """Return how many of the grid's dimensions are together the device's first one."""
    n = max(len(grid) - 2, 1)
    return len(grid) if any([d > _MAX_YZ for d in grid[n:]]) else n


def _program_ids(kernel: Kernel, grid: Sequence[int]) -> list[Any]:
    """Emit the position in the grid."""
    axis = lambda i: tt.get_program_id(tt.ProgramIDDim(i))
    if not grid:
        return []
    n = _dims_in_x(grid)
    ids = []
    rest = axis(0)
    for i, size in enumerate(grid[:n]):
        if i == n - 1:
            ids.append(rest)
        elif size == 1:
            ids.append(kernel.full(0, (), _int32))
        else:
            size_value = kernel.full(size, (), _int32)
            ids.append(arith.remui(rest, size_value))
            rest = arith.divui(rest, size_value)
    return [*ids, *[axis(1 + i) for i in range(len(grid) - n)]]


def _module(kernel: Kernel, jaxpr: Jaxpr, mapping: GridMapping, name: str) -> Any:
    module = ir.Module.create()
    module.operation.attributes["sym_name"] = ir.StringAttr.get(name)
    avals = [v.aval for v in jaxpr.invars]
    pointers = [pointer_type(kernel, a.inner_aval.dtype) for a in avals]
    divisible = ir.DictAttr.get({"tt.divisibility": ir.IntegerAttr.get(kernel.i32, 32)})
    with ir.InsertionPoint(module.body):
        function = tt.FuncOp(
            name,
            ir.TypeAttr.get(ir.FunctionType.get(pointers, [])),
            sym_visibility="public",
            arg_attrs=ir.ArrayAttr.get([divisible] * len(pointers)),
            res_attrs=ir.ArrayAttr.get([]),
        )
    block = function.regions[0].blocks.append(*pointers)
    kernel.start(block)
    kernel.unused = unused_results(jaxpr)
    with ir.InsertionPoint(block):
        ids = _program_ids(kernel, mapping.grid)
        refs = _references(kernel, mapping, ids, block.arguments, avals)
        kernel.program_ids = [ids[i] for i in mapping.kernel_axes]
        kernel.grid = tuple([mapping.grid[i] for i in mapping.kernel_axes])
        lower_jaxpr(kernel, jaxpr, refs)
        tt.return_([])
    return module


def _references(
    kernel: Kernel, mapping: GridMapping, ids: Sequence[Any], pointers: Sequence[Any], avals: Sequence[Any]
) -> list[View]:  # fmt: skip
    n = mapping.num_index_operands
    scalars = []
    for i, (pointer, aval) in enumerate(zip(pointers[:n], avals)):
        shape = aval.shape
        whole = view_of_block(
            kernel, pointer, aval.inner_aval, shape, [0] * len(shape), f"args[{i}]"
        )
        scalars.append(whole)
    blocks = [
        _block(kernel, m, pointer, [*ids, *scalars])
        for m, pointer in zip(mapping.block_mappings, pointers[n:])
    ]
    return [*scalars, *blocks]


def _block(kernel: Kernel, m: BlockMapping, pointer: Any, index: Sequence[Any]) -> View:
    """Emit where the block of an array starts, which the kernel's accesses add to."""
    closed = m.index_map_jaxpr
    position = lower_jaxpr(kernel, closed.jaxpr, index)
    sizes: list[int | None] = []
    starts = []
    for d, i in zip(m.block_shape, position):
        size = getattr(d, "block_size", 1)
        if isinstance(d, Element) and d.padding != (0, 0):
            raise NotImplementedError(
                f"Kernels for {rules.target} cannot read the padding of {m.origin}, {d}: leave it out, and mask what is beyond the "
                "array (plgpu.load)."
            )
        sizes.append(None if isinstance(d, Squeezed) else size)
        if type(i) is Constant:
            i = int(i.value)
        if isinstance(d, Blocked) and size != 1:
            if isinstance(i, int):
                i *= size
            else:
                i = arith.muli(i, kernel.full(size, (), _int32))
        starts.append(i)
    view = view_of_block(kernel, pointer, m.array_aval, sizes, starts, m.origin)
    return view.replace(pointer=view.first(kernel), start=0, starts=())
