"""What the rules of Mosaic's lowering share: the table, types, constants, and references."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import AbstractRef, Literal
from jax._src.interpreters.mlir import dtype_to_ir_type
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, vector
from jax._src.lib.mosaic import tpu as tpu
from jax._src.pallas.kernel_rules import KernelContext, RuleContext, RuleTable
from jax._src.pallas.memory import MemorySpace as AnySpace
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.mosaic.meshes import CoreType
from jax._src.pallas.mosaic.semaphore_types import DMA_SEMAPHORE
from jax._src.pallas.semaphores import BARRIER_SEMAPHORE, SEMAPHORE
from jax._src.pallas.values import is_key
from jax._src.sharding_impls.concrete import SPMDAxisContext

TABLE = RuleTable("TPUs (Mosaic)")
rule = TABLE.rule


@dataclasses.dataclass(frozen=True, slots=True)
class MemRef:
    """A reference in a kernel.

    Attributes:
      value: the memref.
      shape: its shape, with the dimensions that the kernel does not see.
      dtype: that of its elements.
      space: Mosaic's name of its memory space: "vmem", "smem", "hbm", "any", "semaphore_mem" ...
      hidden: for each dimension whether the kernel does not see it; its size is then one.
    """

    value: Any
    shape: tuple[Any, ...]
    dtype: Any
    space: str
    hidden: tuple[bool, ...]

    @property
    def visible_shape(self) -> tuple[Any, ...]:
        return tuple([d for d, h in zip(self.shape, self.hidden) if not h])


_TRACE_LEVEL = 10  # of named scopes, in profiles

_SPACES = {
    AnySpace.DEFAULT: "vmem",
    AnySpace.ANY: "any",
    AnySpace.HOST: "host",
    AnySpace.INDEX: "smem",
    AnySpace.KEY: "smem",
    None: "vmem",
} | {space: space.value for space in MemorySpace}


def space_name(space: Any, what: str) -> str:
    """Return Mosaic's name of a memory space.

    Raises:
      ValueError: if TPUs have none like it.
    """
    name = _SPACES.get(space)
    if name is None:
        raise ValueError(
            f"{what} is in the memory space {space}, which TPUs do not have: use one of {[s.name for s in MemorySpace]} "
            "of pltpu."
        )
    return name


class TpuKernel(KernelContext):
    """What rules know of the function that is being made.

    Args:
      name: the kernel's name and line.
      module_context: that of the program which has the kernel.
      block: the function's entry block; constants are at its start.
      grid_ids: the position in the grid, along the dimensions that the kernel sees.
      grid_axes: the numbers of these dimensions in Mosaic's grid.
      grid: their sizes; what is no integer is known when the kernel runs.
      core_type: the kind of core that runs it.
      core_ids: the position in the mesh of cores, by the names of its axes.
    """

    def __init__(
        self, name: str, module_context: Any, block: Any, grid_ids: Sequence[Any] = (),
        grid_axes: Sequence[int] = (), grid: Sequence[Any] = (), core_type: CoreType = CoreType.TC,
        core_ids: Mapping[Any, Any] | None = None,
    ):  # fmt: skip
        self.rules = TABLE
        self.name = name
        self.core_type = core_type
        # Rules of SparseCores come before those of TensorCores.
        self.semantics = None if core_type is CoreType.TC else "SparseCore"
        self.core_ids = core_ids or {}
        self.traceback_caches = module_context.traceback_caches
        axes = module_context.axis_context
        self.mesh = axes.mesh if isinstance(axes, SPMDAxisContext) else None
        self.mesh_axes: set[Any] = set()  # those that the kernel names
        self.block = block
        self.grid_ids = grid_ids
        self.grid_axes = grid_axes
        self.grid = grid
        self._types: dict[Any, Any] = {}
        self._constants: dict[Any, Any] = {}

    # What profiles show

    def enter_scope(self, name: str) -> None:
        tpu.trace_start(name, _TRACE_LEVEL)

    def leave_scope(self) -> None:
        tpu.trace_stop()

    # Types

    def element_type(self, dtype: Any) -> Any:
        """The type of an element in a register."""
        found = self._types.get(dtype)
        if found is None:
            found = self._types[dtype] = _element_type(dtype)
        return found

    def type_of(self, aval: Any) -> Any:
        """The type of an array in registers."""
        key = aval.shape, aval.dtype
        found = self._types.get(key)
        if found is None:
            found = (
                self.vector_type(aval.shape, aval.dtype)
                if aval.shape
                else self.element_type(aval.dtype)
            )
            self._types[key] = found
        return found

    def vector_type(self, shape: Sequence[int], dtype: Any) -> Any:
        return ir.VectorType.get(shape, self.element_type(dtype))

    def memref_type(self, shape: Sequence[Any], dtype: Any, space: str) -> Any:
        """The type of an array in memory; sizes that are no integers are dynamic. Keys are their words."""
        dynamic = ir.ShapedType.get_dynamic_size()
        if is_key(dtype):
            shape, dtype = (*shape, *dtype._impl.key_shape), np.dtype(np.uint32)
        sizes = tuple([d if isinstance(d, (int, np.integer)) else dynamic for d in shape])
        key = sizes, dtype, space
        found = self._types.get(key)
        if found is None:
            stored = np.dtype(np.int32) if dtype == np.bool_ else dtype
            where = ir.Attribute.parse(f"#tpu.memory_space<{space}>")
            found = ir.MemRefType.get(sizes, self.element_type(stored), memory_space=where)
            self._types[key] = found
        return found

    # Constants

    def constant(self, value: Any, aval: Any) -> Any:
        if not aval.shape:
            return self.scalar(value, aval.dtype)
        array = np.asarray(value)
        if array.size and (array == array.flat[0]).all():
            return self.splat(array.flat[0], aval.shape, aval.dtype)
        if aval.dtype == np.bool_ or dtypes.itemsize_bits(aval.dtype) < 8:
            raise NotImplementedError(
                f"A constant of type {aval.str_short()} in {self.name}: pass it to the kernel as an argument."
            )
        signless = array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
        attribute = ir.DenseElementsAttr.get(
            np.ascontiguousarray(signless), type=self.element_type(aval.dtype), shape=aval.shape
        )
        return arith.ConstantOp(self.type_of(aval), attribute).result

    def scalar(self, value: Any, dtype: Any) -> Any:
        """A constant number."""
        dtype = np.dtype(dtype)
        return self._at_start(self.element_type(dtype), dtype, value)

    def i32(self, value: int) -> Any:
        return self.scalar(value, np.int32)

    def index(self, value: int) -> Any:
        """A constant of MLIR's type of indices."""
        return self._at_start(ir.IndexType.get(), None, value)

    def splat(self, value: Any, shape: Sequence[int], dtype: Any) -> Any:
        """A constant array of equal elements."""
        if not shape:
            return self.scalar(value, dtype)
        dtype = np.dtype(dtype)
        return self._at_start(self.vector_type(shape, dtype), dtype, value)

    def _at_start(self, ty: Any, dtype: Any, value: Any) -> Any:
        # Constants are made once, where all of the function sees them. 0.0 and -0.0 are not the same.
        key = ty, repr(value)
        found = self._constants.get(key)
        if found is None:
            attribute = number_attribute(ty, dtype, value)
            with ir.InsertionPoint.at_block_begin(self.block), ir.Location.unknown():
                found = self._constants[key] = arith.ConstantOp(ty, attribute).result
        return found


def number_attribute(ty: Any, dtype: Any, value: Any) -> Any:
    """Return the attribute of a constant number, or of a vector of equal numbers."""
    element = ty.element_type if isinstance(ty, ir.VectorType) else ty
    if dtype is None or np.issubdtype(dtype, np.bool_) or dtypes.issubdtype(dtype, np.integer):
        value = int(value)
        bits = 64 if dtype is None else dtypes.itemsize_bits(dtype)
        if value >= 1 << (bits - 1) and bits > 1:
            value -= 1 << bits
        number = ir.IntegerAttr.get(element, value)
    else:
        number = ir.FloatAttr.get(element, float(np.asarray(value, dtype)))
    if element is ty or element == ty:
        return number
    return ir.DenseElementsAttr.get_splat(ty, number)


def _element_type(dtype: Any) -> Any:
    if isinstance(dtype, dtypes.ExtendedDType):
        name = _SEMAPHORES.get(dtype)
        if name is None:
            raise NotImplementedError(f"Arrays of type {dtype} in kernels for TPUs.")
        return ir.Type.parse(name)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return ir.IntegerType.get_signless(1)
    bits = dtypes.itemsize_bits(dtype)
    if bits > 32 or dtypes.issubdtype(dtype, np.complexfloating):
        raise NotImplementedError(
            f"TPUs have no elements of type {dtype} in kernels: use one of at most 32 bits, not complex."
        )
    if dtypes.issubdtype(dtype, np.integer):
        return ir.IntegerType.get_signless(bits)
    return dtype_to_ir_type(dtype)


_SEMAPHORES = {
    SEMAPHORE: "!tpu.semaphore",
    BARRIER_SEMAPHORE: "!tpu.semaphore",
    DMA_SEMAPHORE: "!tpu.dma_semaphore",
}


# Values


def broadcast(kernel: TpuKernel, x: Any, aval: Any, shape: Sequence[int]) -> Any:
    """Broadcast an array by NumPy's rules."""
    if tuple(aval.shape) == tuple(shape):
        return x
    return vector.broadcast(kernel.vector_type(shape, aval.dtype), x)


def reshaped(
    kernel: TpuKernel, x: Any, shape: Sequence[int], new: Sequence[int], dtype: Any
) -> Any:
    """Give an array another shape."""
    shape, new = tuple(shape), tuple(new)
    if shape == new:
        return x
    if not new:
        return vector.extract(x, [], [0] * len(shape))
    if not shape:
        return vector.broadcast(kernel.vector_type(new, dtype), x)
    return vector.shape_cast(kernel.vector_type(new, dtype), x)


def static_operands(ctx: RuleContext, args: Sequence[Any], start: int) -> list[Any]:
    """Return operands from number `start` on; those that are literal integers as Python's."""
    return [
        int(v.val) if type(v) is Literal and not v.aval.shape and _is_integer(v.aval) else x
        for v, x in zip(ctx.eqn.invars[start:], args)
    ]


def _is_integer(aval: Any) -> bool:
    return not isinstance(aval, AbstractRef) and dtypes.issubdtype(aval.dtype, np.integer)
