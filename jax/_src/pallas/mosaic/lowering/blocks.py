"""Blocks in Mosaic's modules: what is checked of them, and the windows that say where they are."""

from __future__ import annotations

from typing import Any

from jax._src import dtypes
from jax._src.core import AbstractRef
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func
from jax._src.pallas.blocks import BlockMapping, Element, Squeezed
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.kernel_rules import lower_closed
from jax._src.pallas.mosaic.lowering.kernel import MemRef, TpuKernel, space_name
from jax._src.pallas.mosaic.lowering.memory import as_i32
from jax._src.pallas.values import is_key

# Spaces in which references are whole arrays, which the kernel copies itself.
WHOLE = ("any", "hbm", "host", "semaphore_mem")


def space_of(m: BlockMapping) -> str:
    """Return the name of the memory space of a block."""
    return space_name(m.block_aval.memory_space, f"the block of {m.origin}")


def described(m: BlockMapping, where: str) -> str:
    """Return what there is to say of a block in an error."""
    return (
        f"Block spec for {m.origin} in {where} has block shape {m.block_shape}, array shape {tuple(m.array_aval.shape)}, and "
        f"index_map {m.index_map_jaxpr.jaxpr}, in memory space {space_of(m)}."
    )


def check_block(m: BlockMapping, has_grid: bool, where: str) -> None:
    """Check that TPUs can have a block.

    Raises:
      ValueError, NotImplementedError: if they cannot.
    """
    shape, sizes, space = tuple(m.array_aval.shape), m.sizes, space_of(m)
    if space in WHOLE:
        if not m.has_trivial_window():
            raise ValueError(
                f"The Pallas TPU lowering currently supports in memory space {space.upper()} only blocks having the same block "
                f"shape as the array shape and a trivial index_map (returning all 0s): give no block shape. {described(m, where)}"
            )
        return
    if is_key(m.array_aval.dtype):
        if space != "smem" or not m.has_trivial_window():
            raise ValueError(
                f"Kernels for TPUs have keys in pltpu.SMEM, and arrays of keys whole. {described(m, where)}"
            )
        return
    if not sizes:
        raise ValueError(
            "The Pallas TPU lowering currently supports only blocks of rank >= 1: pass a number as an array of one element, or "
            f"in pltpu.SMEM with a shape. {described(m, where)}"
        )
    if not has_grid and not m.has_trivial_window():
        raise NotImplementedError(
            f"Non-trivial windowing is not supported for grid-free pallas_call: give it a grid, such as (1,). {described(m, where)}"
        )
    if not has_grid:
        return
    if len(sizes) == 1:
        unit = 128 * max(32 // dtypes.itemsize_bits(m.array_aval.dtype), 1)
        if sizes[0] != shape[0] and sizes[0] % unit:
            raise ValueError(
                f"The Pallas TPU lowering currently requires that rank 1 block shapes are equal to the array's, or divisible by {unit} "
                f"for {m.array_aval.str_short()}. {described(m, where)}"
            )
        return
    for size, dim, unit in zip(sizes[-2:], shape[-2:], (8, 128)):
        if size != dim and size % unit:
            raise ValueError(
                "The Pallas TPU lowering currently requires that the last two dimensions of your block shape are divisible by 8 and "
                f"128 respectively, or be equal to the respective dimensions of the overall array. {described(m, where)}"
            )


def argument(kernel_types: TpuKernel, m: BlockMapping) -> Any:
    """Return the type of the kernel's argument for a block."""
    return kernel_types.memref_type(m.sizes, m.array_aval.dtype, space_of(m))


def as_ref(m: BlockMapping, value: Any) -> MemRef:
    """Return the argument for a block as a reference."""
    hidden = tuple([type(d) is Squeezed for d in m.block_shape])
    return MemRef(value, m.sizes, m.array_aval.dtype, space_of(m), hidden)


def window(m: BlockMapping, name: str, where: str) -> Any:
    """Return the attribute that says what a block's window is; `name` is that of its index map."""
    if space_of(m) in WHOLE:
        return ir.DictAttr.get({})
    attributes = {
        "transform_indices": ir.FlatSymbolRefAttr.get(name),
        "window_bounds": ir.DenseI64ArrayAttr.get([*m.sizes, *_words(m)]),
    }
    if any([isinstance(d, Element) for d in m.block_shape]):
        # A window is of elements in all dimensions: the index map gives the first in each.
        paddings = [d.padding if isinstance(d, Element) else (0, 0) for d in m.block_shape]
        low, high = [", ".join([str(p[k]) for p in paddings]) for k in (0, 1)]
        attributes["window_kind"] = ir.Attribute.parse(f"#tpu.element_window<[{low}], [{high}]>")
    mode = m.pipeline_mode
    if mode is not None:
        if (
            mode.use_lookahead
            or mode.buffer_count not in (1, 2)
            or mode.revisit is not None
            and mode.revisit.value == "any"
        ):
            raise NotImplementedError(
                f"Only single (1) and double (2) buffering are supported in the pipeline of pallas_call for TPUs, without lookahead, got {mode}: "
                f"use pltpu.emit_pipeline. {described(m, where)}"
            )
        if mode.buffer_count == 1:
            attributes["pipeline_mode"] = ir.Attribute.parse("#tpu.pipeline_mode<synchronous>")
    return ir.DictAttr.get(attributes)


def whole_window(num_grid_dims: int, rank: int) -> Any:
    """Return the attribute of a whole array in the kernel of a SparseCore."""
    zeros = [ir.AffineConstantExpr.get(0)] * rank
    maps = ir.AffineMapAttr.get(ir.AffineMap.get(num_grid_dims, 0, zeros))
    return ir.DictAttr.get({"transform_indices": maps})


def _words(m: BlockMapping) -> tuple[int, ...]:
    """Return the shape of an element in memory: that of the words of a key."""
    dtype = m.array_aval.dtype
    return tuple(dtype._impl.key_shape) if is_key(dtype) else ()


def index_map(module_context: Any, mapping: GridMapping, m: BlockMapping, name: str) -> None:
    """Emit the function from the grid's indices to a block's."""
    i32 = ir.IntegerType.get_signless(32)
    avals = m.index_map_jaxpr.in_avals
    scalars = [a for a in avals if isinstance(a, AbstractRef)]
    types_of = TpuKernel(name, module_context, None)
    refs = [types_of.memref_type(a.shape, a.dtype, "smem") for a in scalars]
    op = func.FuncOp(
        name, ([*[i32] * len(mapping.grid), *refs], [i32] * (len(m.sizes) + len(_words(m))))
    )
    block = op.add_entry_block()
    kernel = TpuKernel(f"index map of {m.origin}", module_context, block)
    ids, values = (
        list(block.arguments)[: len(mapping.grid)],
        list(block.arguments)[len(mapping.grid) :],
    )
    references = [
        MemRef(v, tuple(a.shape), a.dtype, "smem", (False,) * len(a.shape))
        for v, a in zip(values, scalars)
    ]
    with ir.InsertionPoint(block):
        index = lower_closed(kernel, m.index_map_jaxpr, [*ids, *references])
        func.return_([as_i32(kernel, x) for x in [*index, *[0] * len(_words(m))]])
