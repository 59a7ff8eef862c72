"""Tensor memory of Blackwell GPUs: how it is allocated, and what registers are copied from and to it.

An address has the number of a lane in its high 16 bits and that of a column of 32 bits in its low ones. Each
warp of a warpgroup reaches 32 of the 128 lanes, which it counts from zero.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import Jaxpr, subjaxprs
from jax._src.indexing import Slice
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, gpu, llvm, vector
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.core import GPUAbstractRef, MemorySpace
from jax._src.pallas.mosaic_gpu.layouts import (
    FragmentedLayout,
    TiledLayout,
    TMEMArrangement,
    TMEMTiledLayout,
    tmem_arrangement,
    tmem_register_layouts,
)
from jax._src.pallas.mosaic_gpu.lowering.exchange import in_layout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    register_shape,
    tiled_dims,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    WARP,
    GpuKernel,
    SharedMemory,
    asm,
    element_type,
    only,
    rule,
    tensor_core_fence,
    uniform,
)
from jax._src.pallas.mosaic_gpu.lowering.views import index_of, row_major
from jax._src.pallas.mosaic_gpu.mma import (
    async_load_tmem_p,
    async_store_tmem_p,
    commit_tmem_p,
    wait_load_tmem_p,
)
from jax._src.pallas.mosaic_gpu.mma_formats import ARRANGEMENTS, Arrangement
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.pallas.mosaic_gpu.transforms import ExtractAliasedRef
from jax._src.pallas.primitives import run_scoped_p
from jax._src.state.indexing import NDIndexer

_LANES_SHIFT = 16
_HALF = 16  # lanes
_LEAST_COLUMNS, _MOST_COLUMNS = 32, 512
_MOST_REGISTERS = 32  # of one instruction
COPIED_COLUMNS = 4  # in which what is copied of scales at once is beside each other

# The memory of a block


class TensorMemory:
    """The tensor memory of a block: allocated where the kernel begins, released where it ends.

    Args:
      kernel: the kernel.
      is_collective: whether the two blocks of a pair work on it together.
    """

    def __init__(self, kernel: GpuKernel, is_collective: bool):
        self.is_collective = is_collective
        self.columns = SharedMemory(kernel.threads > 1)
        # Known when the kernel has been lowered: how many columns, and where their address is in shared memory.
        self._count = integer(_LEAST_COLUMNS)
        self._slot = integer(0)

    @property
    def group(self) -> str:
        """The number of blocks that work on it together, in the names of instructions."""
        return f"cta_group::{1 + self.is_collective}"

    def start(self, kernel: GpuKernel) -> None:
        """Emit the allocation, by one warp for all of the block."""
        pointer = kernel.shared_pointer(Index(0, self._slot))
        with only(self._is_first_warp(kernel)):
            asm(
                f"tcgen05.alloc.{self.group}.sync.aligned.shared::cta.b32 [$0], $1;",
                "r,r",
                [pointer, self._count],
            )
            asm(f"tcgen05.relinquish_alloc_permit.{self.group}.sync.aligned;", "", [])
        gpu.barrier()
        self.base = llvm.load(kernel.i32, pointer)

    def _is_first_warp(self, kernel: GpuKernel) -> Any:
        warp = uniform(arith.divui(kernel.thread_id, integer(WARP)))
        return arith.cmpi(arith.CmpIPredicate.eq, warp, integer(0))

    def end(self, kernel: GpuKernel) -> None:
        """Emit the release, when no thread uses it any more."""
        kernel.synchronize(shared=True)
        if self.is_collective:
            kernel.synchronize(shared=True, clusters=True)
        with only(self._is_first_warp(kernel)):
            asm(
                f"tcgen05.dealloc.{self.group}.sync.aligned.b32 $0, $1;",
                "r,r",
                [self.base, self._count],
            )

    def finish(self, kernel: GpuKernel, slot: int) -> None:
        """Set what is known now.

        Args:
          kernel: the kernel.
          slot: where the address is in shared memory.

        Raises:
          ValueError: if there is not so much tensor memory.
        """
        most = self.columns.most
        count = max(_LEAST_COLUMNS, 2 ** math.ceil(math.log2(max(1, most))))
        if count > _MOST_COLUMNS:
            raise ValueError(
                f"{kernel.name} has {most} columns of tensor memory, but a block of a GPU at most {_MOST_COLUMNS}: take smaller "
                "arrays, or plgpu.RefUnion of those that are not used at the same time."
            )
        for constant, value in ((self._count, count), (self._slot, slot)):
            constant.owner.attributes["value"] = ir.IntegerAttr.get(kernel.i32, value)


@contextlib.contextmanager
def tensor_memory(kernel: GpuKernel, jaxpr: Jaxpr) -> Iterator[None]:
    """Context manager of what uses the tensor memory that scopes of a kernel ask for.

    Raises:
      ValueError: if pairs of blocks have some of it together and single blocks some, or there are no pairs.
    """
    kinds = {bool(a.collective) for a in _scoped(jaxpr)}
    if len(kinds) > 1:
        raise ValueError(
            f"{kernel.name} has tensor memory with and without collective=True: give it to all plgpu.TMEM(...), or to none."
        )
    if not kinds:
        yield
        return
    kernel.require("tensor memory", "take plgpu.wgmma, and plgpu.ACC for its results", 10, 11)
    (is_collective,) = kinds
    if is_collective and kernel.cluster.size % 2:
        raise ValueError(
            f"{kernel.name} has tensor memory that two blocks work on together (collective=True), but clusters of {kernel.cluster.size} "
            "blocks: give plgpu.kernel cluster=(2,) and cluster_names."
        )
    kernel.tensor = TensorMemory(kernel, is_collective)
    kernel.tensor.start(kernel)
    yield
    kernel.tensor.end(kernel)


def _scoped(jaxpr: Jaxpr) -> Iterator[GPUAbstractRef]:
    for eqn in jaxpr.eqns:
        if eqn.primitive is run_scoped_p:
            avals: list[Any] = [v.aval for v in eqn.params["jaxpr"].jaxpr.invars]
            for a in avals[len(eqn.invars) :]:
                if isinstance(a, GPUAbstractRef) and a.memory_space is MemorySpace.TMEM:
                    yield a
    for inner in subjaxprs(jaxpr):
        yield from _scoped(inner)


# Parts of it


@dataclasses.dataclass(frozen=True)
class TensorView:
    """A part of tensor memory.

    Attributes:
      address: where it begins.
      shape: its shape; dimensions but the last two are arrays beside each other.
      strides: how many columns of memory are between these.
      dtype: that of the elements.
      layout: how the array is arranged of which it is a part.
      is_collective: whether two blocks work on it together.
    """

    address: Index
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    layout: TMEMTiledLayout
    is_collective: bool

    @classmethod
    def create(
        cls, address: Index, shape: Sequence[int], dtype: Any, layout: Any, is_collective: bool
    ) -> TensorView:
        """Return the whole of an array.

        Raises:
          NotImplementedError: if it is in a layout that has no rows and columns of its elements.
        """
        shape = tuple(shape)
        each = layout.columns(shape[-2:])
        strides = tuple([n * each for n in row_major(shape[:-2])])
        return cls(address, shape, strides, np.dtype(dtype), layout, is_collective)

    @property
    def arrangement(self) -> tuple[TMEMArrangement, int]:
        """How it is arranged, and how many elements share 32 bits of a lane."""
        out = tmem_arrangement(self.layout)
        if out is None:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} do not read and write tensor memory that is arranged as {self.layout} yet."
            )
        return out

    def part(self, transforms: Sequence[Any]) -> TensorView:
        """Return a part of it.

        Raises:
          NotImplementedError: if there is no such part.
        """
        out = self
        for t in transforms:
            if isinstance(t, ExtractAliasedRef):
                at = out.address + t.offset
                out = TensorView.create(at, t.shape, t.dtype, t.layout, out.is_collective)
            elif isinstance(t, NDIndexer) and not t.has_arrays:
                out = out._indexed(t.indices)
            else:
                raise NotImplementedError(
                    f"Kernels for {TABLE.target} have of tensor memory only parts that integers and slices choose, not views through {t}."
                )
        return out

    def _indexed(self, indices: Sequence[Any]) -> TensorView:
        *outer, rows, columns = indices
        address, shape, strides = self.address, [], []
        for i, n in zip(outer, self.strides):
            if isinstance(i, Slice):
                address += index_of(i.start) * n
                shape.append(i.size)
                strides.append(n * i.stride)
            else:
                address += index_of(i) * n
        if (
            not isinstance(rows, Slice)
            or not isinstance(columns, Slice)
            or rows.size != self.shape[-2]
        ):
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have all {self.shape[-2]} rows of an array in tensor memory: slice its columns only."
            )
        if columns.size != self.shape[-1] or columns.stride != 1:
            address += self._column(columns)
        return dataclasses.replace(
            self, address=address, shape=(*shape, rows.size, columns.size), strides=tuple(strides)
        )

    def _column(self, columns: Slice) -> Index:
        start = index_of(columns.start)
        known = [a for kinds in ARRANGEMENTS.values() for a in kinds if a.layout == self.layout]
        if known:
            return self._copied_column(known[0], columns)
        arrangement, packing = self.arrangement
        if arrangement is not TMEMArrangement.LANES:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have all {self.shape[-1]} columns of an array of 64 rows in tensor memory, whose left and right "
                "columns are in different lanes: take several arrays."
            )
        if columns.stride != 1 or start.divisor % packing or columns.size % packing:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have columns of tensor memory that are beside each other, and all {packing} that share 32 "
                f"bits: not {columns.size} from a position on that is no multiple."
            )
        return start.divmod(packing)[0]

    def _copied_column(self, arrangement: Arrangement, columns: Slice) -> Index:
        """Return where a part of scales, or of positions, begins: what is copied at once has four columns."""
        start, n = index_of(columns.start), arrangement.columns
        if columns.stride != 1 or start.divisor % n or columns.size % n:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have parts of this tensor memory of a multiple of {n} columns that begin at one, not {columns.size} from "
                "another position on."
            )
        return start.divmod(n)[0] * (self.shape[-2] // arrangement.rows * COPIED_COLUMNS)


def tensor_view(x: Any) -> TensorView:
    """Return the part of tensor memory that an operand is."""
    return x if isinstance(x, TensorView) else x.ref.part(x.transforms)


# Copies of registers


@dataclasses.dataclass(frozen=True)
class _Instruction:
    """An instruction that copies registers of each lane of a warp.

    Attributes:
      shape: its shape and number of repetitions.
      is_narrow: whether columns of memory have 16 bits of the array each, and registers two of them.
      address: where in tensor memory.
      registers: the positions of the vectors that it copies, in order.
    """

    shape: str
    is_narrow: bool
    address: Index
    registers: list[tuple[int, ...]]


def _checked(view: TensorView) -> TensorView:
    if len(view.shape) != 2:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} read and write matrices of tensor memory: choose one of shape {view.shape[-2:]} of {view.shape}."
        )
    if not _layouts(view):
        raise NotImplementedError(
            f"Kernels for {TABLE.target} cannot read and write {dtypes.dtype_name(view.dtype)}{list(view.shape)} in tensor memory: give elements of "
            "less than 16 bits packed=True, and arrays a multiple of 8 columns, or of 16 if they have 64 rows."
        )
    return view


def _layouts(view: TensorView) -> tuple[TiledLayout, ...]:
    return tmem_register_layouts(view.layout, view.shape[-1], view.dtype)


def _offsets(layout: TiledLayout, shape: Sequence[int]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return which register begins how many rows and columns after a lane's first."""
    counts, _ = register_shape(layout, shape)
    dims = tiled_dims(layout, shape)
    out = {}
    for at in np.ndindex(counts):
        position = [0, 0]
        for i, d in zip(at, dims):
            position[d.origin] += i * d.stride
        out[position[0], position[1]] = at
    return out


def _instructions(view: TensorView, layout: TiledLayout) -> Iterator[_Instruction]:
    """Return what copies an array between registers in a layout and tensor memory."""
    arrangement, packing = view.arrangement
    bits = dtypes.itemsize_bits(view.dtype)
    at = _offsets(layout, view.shape)
    _, size = register_shape(layout, view.shape)
    columns = view.shape[1] // (1 if arrangement is TMEMArrangement.LANES else 2)
    if (
        8,
        0,
    ) in at:  # two registers have the same columns of two rows, and four lanes the columns of a row
        shape, words, step = ("16x256b", 4, 8) if bits == 32 else ("16x128b", 2, 8)
        repeated, halves = 1, (0, _HALF)
    else:  # a lane has the columns of a row
        shape, words, step = "32x32b", size * bits // 32, size
        repeated, halves = words, (0,)
    for lane in halves:
        rows, first = ([lane, lane + 8] if len(halves) > 1 else [0]), 0
        if arrangement is TMEMArrangement.HALVES:
            rows, first = [0, 8], columns if lane else 0
        column = 0
        while column < columns:
            times = 2 ** int(math.log2(min((columns - column) // step, _MOST_REGISTERS // words)))
            found = [at[r, first + column + k * step] for k in range(times) for r in rows]
            address = view.address + column // packing + (lane << _LANES_SHIFT)
            yield _Instruction(f"{shape}.x{times * repeated}", packing * bits < 32, address, found)
            column += times * step


def load_tensor(kernel: GpuKernel, view: TensorView, layout: FragmentedLayout | None) -> Fragment:
    """Return what a part of tensor memory has, in a layout; None for any."""
    known = _layouts(_checked(view))
    own = layout if isinstance(layout, TiledLayout) and layout in known else known[0]
    counts, n = register_shape(own, view.shape)
    registers = np.empty(counts, dtype=object)
    words = n * dtypes.itemsize_bits(view.dtype) // 32
    kind = ir.VectorType.get([n], element_type(view.dtype))
    for i in _instructions(view, own):
        values = _loaded(i, words * len(i.registers))
        for k, at in enumerate(i.registers):
            registers[at] = _from_words(values[k * words : (k + 1) * words], kind)
    return in_layout(kernel, Fragment(own, view.shape, view.dtype, registers), layout)


def _loaded(i: _Instruction, n: int) -> list[Any]:
    i32 = ir.IntegerType.get_signless(32)
    packed = ".pack::16b" if i.is_narrow else ""
    names = ", ".join([f"${i}" for i in range(n)])
    code = f"tcgen05.ld.sync.aligned.{i.shape}{packed}.b32 {{{names}}}, [${n}];"
    kind = ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * n)})>") if n > 1 else i32
    out = asm(code, ",".join([*["=r"] * n, "r"]), [i.address.value()], kind)
    return [llvm.extractvalue(i32, out, [k]) for k in range(n)] if n > 1 else [out]


def _from_words(words: Sequence[Any], kind: Any) -> Any:
    i32 = ir.IntegerType.get_signless(32)
    whole = vector.from_elements(ir.VectorType.get([len(words)], i32), list(words))
    return vector.bitcast(kind, whole)


def _to_words(register: Any, n: int) -> list[Any]:
    words = vector.bitcast(ir.VectorType.get([n], ir.IntegerType.get_signless(32)), register)
    return [vector.extract(words, [], [i]) for i in range(n)]


def store_tensor(kernel: GpuKernel, view: TensorView, x: Fragment) -> None:
    """Write an array to a part of tensor memory."""
    known = _layouts(_checked(view))
    x = in_layout(kernel, x, x.layout if x.layout in known else known[0])
    _, n = register_shape(x.layout, x.shape)
    words = n * dtypes.itemsize_bits(view.dtype) // 32
    for i in _instructions(view, x.layout):
        unpacked = ".unpack::16b" if i.is_narrow else ""
        values = [w for at in i.registers for w in _to_words(x.registers[at], words)]
        names = ", ".join([f"${k + 1}" for k in range(len(values))])
        code = f"tcgen05.st.sync.aligned.{i.shape}{unpacked}.b32 [$0], {{{names}}};"
        asm(code, ",".join(["r"] * (1 + len(values))), [i.address.value(), *values])


# Rules


@rule(async_load_tmem_p)
def _load(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    (source,) = operands_of(tree, flat)
    return load_tensor(ctx.kernel, tensor_view(source), ctx.kernel.layouts.get(ctx.eqn.outvars[0]))


@rule(async_store_tmem_p)
def _store(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    target, x = operands_of(tree, flat)
    store_tensor(ctx.kernel, tensor_view(target), x)
    return []


def _wait_for(kernel: GpuKernel, what: str) -> None:
    asm(f"tcgen05.wait::{what}.sync.aligned;", "", [])
    tensor_core_fence(before=True)
    kernel.thread_barrier()
    tensor_core_fence(before=False)


@rule(wait_load_tmem_p)
def _wait_load(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    _wait_for(ctx.kernel, "ld")
    return []


@rule(commit_tmem_p)
def _commit(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    _wait_for(ctx.kernel, "st")
    return []
