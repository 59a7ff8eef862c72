"""References to memory, and their parts: where each element is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.indexing import Slice
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.devices import check_all_axes
from jax._src.pallas.mosaic_gpu.lowering.devices import EVERYWHERE, Devices
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    from_elements,
    full_like,
    layout_of,
    like_operand,
    positions,
    register_shape,
    vector_axis,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    GpuKernel,
    asm,
    element_type,
    pointer_type,
)
from jax._src.pallas.mosaic_gpu.transforms import (
    ClusterRef,
    ExtractAliasedRef,
    MulticastRef,
    PeerMemRef,
    SwizzleTransform,
    TilingTransform,
    UnswizzleRef,
    UntilingTransform,
)
from jax._src.pallas.semaphores import DeviceId, DeviceIdType
from jax._src.state.indexing import NDIndexer
from jax._src.state.types import BitcastTransform, ReshapeTransform, TransposeTransform

_PIECE = 16  # bytes that swizzling keeps together


@dataclasses.dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of a view.

    Attributes:
      size: its size.
      start: where the view begins, in the dimension that it is part of.
      factors: that dimension as a product of sizes with strides, which count elements.
      step: how far neighbours are in it.
    """

    size: int
    start: Index
    factors: tuple[tuple[int, int], ...]
    step: int = 1

    def offset(self, at: Index) -> Index:
        """Return how many elements from the beginning of the memory a position is."""
        rest = self.start + at * self.step
        out = Index()
        for size, stride in reversed(self.factors[1:]):
            rest, remainder = rest.divmod(size)
            out += remainder * stride
        if self.factors:
            out += rest * self.factors[0][1]
        return out


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A part of memory.

    Attributes:
      pointer: where the memory begins.
      dims: the dimensions.
      dtype: that of the elements.
      space: the memory space.
      dropped: dimensions of size one that are not the view's any more.
      swizzle: how many bytes rows have whose pieces are permuted; None if they are not.
      operand: the number of the kernel's operand in global memory; None for other memory.
      is_large: whether positions need 64 bits.
      cluster: the blocks of the cluster, which have such memory at the same place; None for other memory.
      is_remote: whether it is that of another block.
      devices: the devices that have such memory; None for memory that others do not reach.
      device: the number of the device whose memory it is, or `EVERYWHERE`; None for this one.
    """

    pointer: Any
    dims: tuple[Dim, ...]
    dtype: Any
    space: MemorySpace
    dropped: tuple[Dim, ...] = ()
    swizzle: int | None = None
    operand: int | None = None
    is_large: bool = False
    cluster: Any = None
    is_remote: bool = False
    devices: Devices | None = None
    device: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([d.size for d in self.dims])

    def replace(self, **changes: Any) -> View:
        return dataclasses.replace(self, **changes)

    def at(self, index: Sequence[Index]) -> View:
        """Return the view of one element."""
        moved = [
            dataclasses.replace(d, size=1, start=d.start + i * d.step)
            for d, i in zip(self.dims, index, strict=True)
        ]
        return self.replace(dims=(), dropped=(*self.dropped, *moved))

    def part(self, axis: int, start: Index, size: int) -> View:
        """Return the view of some neighbours along an axis."""
        dims, d = list(self.dims), self.dims[axis]
        dims[axis] = dataclasses.replace(d, size=size, start=d.start + start * d.step)
        return self.replace(dims=tuple(dims))

    def element_offset(self, index: Sequence[Index]) -> Index:
        """Return how many elements from the beginning of the memory an element is, before swizzling."""
        out = Index()
        none = [Index()] * len(self.dropped)
        for d, i in zip((*self.dropped, *self.dims), (*none, *index), strict=True):
            if self.is_large:
                i, d = i.wide(), dataclasses.replace(d, start=d.start.wide())
            out += d.offset(i)
        return out

    def address(self, offset: Index) -> Any:
        """Return a pointer to an element whose offset is known."""
        kind = stored_type(self.dtype)
        together = 8 // min(8, dtypes.itemsize_bits(self.dtype))  # the elements of a byte
        if self.swizzle is not None:
            offset = Index(0, self._swizzled(offset.value()), math.gcd(offset.divisor, together))
        if offset.divisor % together:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have parts of memory of {dtypes.dtype_name(self.dtype)} that begin with a byte, which {together} elements share."
            )
        at = offset.divmod(together)[0].value()
        return pointer_at(self.pointer, at, kind)

    def _swizzled(self, at: Any) -> Any:
        assert self.swizzle is not None
        bits = dtypes.itemsize_bits(self.dtype)
        piece = _PIECE * 8 // bits
        row = 128 * 8 // bits  # the elements of 128 bytes
        pieces = self.swizzle // _PIECE
        # The order of pieces changes with the number of the group of 128 bytes.
        number = arith.remui(
            arith.divui(at, integer(row, at.type)), integer(pieces, at.type)
        )  # fmt: skip
        return arith.xori(at, arith.muli(number, integer(piece, at.type)))

    def contiguous(self, axis: int, n: int) -> bool:
        """Whether each `n` elements along an axis, from a multiple of `n`, are beside each other."""
        d = self.dims[axis]
        if d.step != 1 or d.start.divisor % n:
            return False
        run = 1
        for size, stride in reversed(d.factors):
            if size == 1:
                continue
            if stride != run:
                break
            run *= size
        if run % n:
            return False
        return self.swizzle is None or n * dtypes.itemsize_bits(self.dtype) <= _PIECE * 8


def stored_type(dtype: Any) -> Any:
    """Return MLIR's type of elements in memory."""
    if dtype == np.bool_:
        return ir.IntegerType.get_signless(8)
    # LLVM has no floats of eight bits. Of less, several share a byte.
    if dtypes.itemsize_bits(dtype) <= 8:
        return ir.IntegerType.get_signless(8)
    return element_type(dtype)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an array in row-major order."""
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


def whole(
    pointer: Any,
    shape: Sequence[int],
    dtype: Any,
    space: MemorySpace,
    operand: int | None = None,
    devices: Devices | None = None,
) -> View:
    """Return the view of an array in row-major order."""
    strides = row_major(shape)
    dims = tuple([Dim(n, Index(), ((n, s),)) for n, s in zip(shape, strides)])
    large = math.prod(shape) * dtypes.itemsize_bits(dtype) >= 8 * 2**31
    return View(
        pointer, dims, np.dtype(dtype), space, operand=operand, is_large=large, devices=devices
    )


def arranged(view: View, transforms: Sequence[Any]) -> View:
    """Return the view of an array that is stored with transforms in the memory of a view.

    Args:
      view: the array as if it were stored in row-major order.
      transforms: those of the reference's type.
    """
    shape = list(view.shape)
    factors = [[n] for n in shape]
    order: list[tuple[int, int]] = [(d, 0) for d in range(len(shape))]
    swizzle = None
    for t in transforms:
        if isinstance(t, TilingTransform):
            n = len(t.tiling)
            if len(order) != len(shape):
                raise NotImplementedError(f"Memory that is tiled twice: {tuple(transforms)}")
            first = len(shape) - n
            for k, tile in enumerate(t.tiling):
                d = first + k
                factors[d] = [shape[d] // tile, tile]
            order = [(d, 0) for d in range(len(shape))] + [(d, 1) for d in range(first, len(shape))]
        elif isinstance(t, SwizzleTransform):
            swizzle = t.swizzle
        else:
            raise NotImplementedError(f"Memory that is stored by {t}")
    strides = dict(zip(order, row_major([factors[d][k] for d, k in order])))
    dims = tuple(
        [
            Dim(shape[d], Index(), tuple([(n, strides[d, k]) for k, n in enumerate(parts)]))
            for d, parts in enumerate(factors)
        ]
    )
    return view.replace(dims=dims, swizzle=swizzle)


# Parts


def transformed(view: View, transforms: Sequence[Any]) -> View:
    """Return a view of a part.

    Raises:
      NotImplementedError: if there is no such view.
    """
    for t in transforms:
        view = _transformed(view, t)
    return view


def index_of(x: Any) -> Index:
    """Return an index of a kernel's operation as a position."""
    if isinstance(x, Fragment):
        x = x.scalar
        owner = x.owner
        if not isinstance(owner, ir.Block) and owner.name == "arith.constant":
            return Index(ir.IntegerAttr(owner.attributes["value"]).value)
        return Index(0, _int32(x), _known_divisor(x))
    if isinstance(x, (int, np.integer)):
        return Index(int(x))
    return Index(0, _int32(x))


def _known_divisor(x: Any, depth: int = 8) -> int:
    """Return a divisor of a value that is a product, or a sum of such."""
    owner = x.owner
    if depth == 0 or isinstance(owner, ir.Block):
        return 1
    if owner.name == "arith.constant":
        return abs(ir.IntegerAttr(owner.attributes["value"]).value)
    if owner.name in ("arith.muli", "arith.addi", "arith.subi"):
        a, b = [_known_divisor(v, depth - 1) for v in owner.operands]
        out = a * b if owner.name == "arith.muli" else math.gcd(a, b)
        return max(1, math.gcd(out, 2**16))
    return 1


def _int32(x: Any) -> Any:
    i32 = ir.IntegerType.get_signless(32)
    if x.type == i32:
        return x
    if ir.IntegerType(x.type).width > 32:
        return arith.trunci(i32, x)
    return arith.extui(i32, x)


def _transformed(view: View, t: Any) -> View:
    if isinstance(t, NDIndexer):
        return _indexed(view, t)
    if isinstance(t, TransposeTransform):
        return view.replace(dims=tuple([view.dims[p] for p in t.permutation]))
    if isinstance(t, ReshapeTransform):
        return _reshaped(view, t.shape)
    if isinstance(t, (UnswizzleRef, SwizzleTransform)):
        return view  # which pieces are where is part of the view
    if isinstance(t, UntilingTransform):
        return _untiled(view, t.tiling)
    if isinstance(t, TilingTransform):
        return _tiled(view, t.tiling)
    if isinstance(t, ExtractAliasedRef):
        member = whole(pointer_at(view.pointer, t.offset), t.shape, t.dtype, view.space)
        member = member.replace(cluster=view.cluster, is_remote=view.is_remote)
        return arranged(member, t.transforms)
    if isinstance(t, ClusterRef):
        return _of_block(view, t)
    if isinstance(t, PeerMemRef):
        return of_device(view, t.device_id, t.device_id_type)
    if isinstance(t, MulticastRef):
        return everywhere(view, t.collective_axes, "plgpu.multicast_ref")
    what = "with another dtype" if isinstance(t, BitcastTransform) else f"through {t}"
    raise NotImplementedError(f"Kernels for {TABLE.target} cannot view a reference {what}.")


def in_block(pointer: Any, number: Any) -> Any:
    """Return a pointer to the same place in the shared memory of a block of the cluster."""
    i64 = ir.IntegerType.get_signless(64)
    at = [llvm.ptrtoint(i64, pointer), number]
    address = asm("mapa.shared::cluster.u64 $0, $1, $2;", "=l,l,r", at, i64)
    return llvm.inttoptr(pointer_type(7), address)


def _of_block(view: View, t: ClusterRef) -> View:
    if view.cluster is None or view.is_remote:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have references to other blocks (plgpu.cluster_ref) of their own shared memory only."
        )
    number = view.cluster.number({a: index_of(p) for a, p in zip(t.axes, t.positions)})
    i32 = ir.IntegerType.get_signless(32)
    return view.replace(pointer=in_block(view.pointer, number.value(i32)), is_remote=True)


def of_device(view: View, device_id: DeviceId, kind: DeviceIdType) -> View:
    """Return the same part of another device's memory."""
    return _on(view, _devices_of(view).number_of(device_id, kind, index_of))


def everywhere(view: View, axes: Sequence[Hashable], what: str) -> View:
    """Return the same part of the memory of all devices along axes at once."""
    check_all_axes(axes, _devices_of(view).sizes, what)
    return _on(view, EVERYWHERE)


def _devices_of(view: View) -> Devices:
    if view.devices is None or view.operand is None:
        raise ValueError(
            "References to other devices are to arguments, results and semaphores of the kernel, in global memory: copy by plgpu.copy_smem_to_gmem "
            "to one of these."
        )
    if view.device is not None:
        raise ValueError("The reference is one to other devices already.")
    return view.devices


def _on(view: View, number: Any) -> View:
    assert view.devices is not None and view.operand is not None
    pointer = view.devices.pointer(view.operand, view.pointer, number)
    return view.replace(pointer=pointer, device=number)


def _indexed(view: View, indexer: NDIndexer) -> View:
    if indexer.has_arrays:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} cannot index a reference by arrays of integers: read it whole, or loop over its rows."
        )
    dims: list[Dim] = []
    dropped = list(view.dropped)
    for d, i in zip(view.dims, indexer.indices):
        if isinstance(i, Slice):
            start = d.start + index_of(i.start) * d.step
            dims.append(Dim(i.size, start, d.factors, d.step * i.stride))
        else:
            dropped.append(Dim(1, d.start + index_of(i) * d.step, d.factors))
    return view.replace(dims=tuple(dims), dropped=tuple(dropped))


def _is_whole(d: Dim) -> bool:
    start = d.start
    size = math.prod([n for n, _ in d.factors])
    return d.step == 1 and start.dynamic is None and start.static == 0 and d.size == size


def _reshaped(view: View, shape: Sequence[int]) -> View:
    """Return a view whose dimensions are products or factors of those of another."""
    old, new = list(view.dims), [n for n in shape]
    dims: list[Dim] = []
    while old or new:
        if old and new and old[0].size == new[0]:
            dims.append(old.pop(0))
            new.pop(0)
            continue
        if new and new[0] == 1:
            dims.append(Dim(1, Index(), ((1, 0),)))
            new.pop(0)
            continue
        if old and old[0].size == 1:
            view = view.replace(dropped=(*view.dropped, old.pop(0)))
            continue
        # As many of each as have the same product.
        a, b = [old.pop(0)], [new.pop(0)]
        while (x := math.prod([d.size for d in a])) != (y := math.prod(b)):
            if x < y:
                a.append(old.pop(0))
            else:
                b.append(new.pop(0))
        dims += _regrouped(a, b)
    return view.replace(dims=tuple(dims))


def _regrouped(old: Sequence[Dim], new: Sequence[int]) -> list[Dim]:
    if len(new) == 1 and len(old) > 1 and not all(map(_is_whole, old[1:])):
        raise NotImplementedError("Views that reshape a part of a reference.")
    if len(new) > 1 and not all(map(_is_whole, old)):
        raise NotImplementedError("Views that reshape a part of a reference.")
    first = old[0]
    factors = [f for d in old for f in d.factors]
    if len(new) == 1:
        if first.step != 1:
            raise NotImplementedError("Views that reshape a part of a reference.")
        inner = math.prod([d.size for d in old[1:]])
        return [Dim(new[0], first.start * inner, tuple(factors))]
    out = []
    for n in reversed(new):
        taken: list[tuple[int, int]] = []
        while n > 1:
            size, stride = factors.pop()
            if n % size == 0:
                taken.append((size, stride))
                n //= size
            elif size % n == 0:
                taken.append((n, stride))
                factors.append((size // n, stride * n))
                n = 1
            else:
                raise NotImplementedError("Views that reshape memory that is tiled otherwise.")
        taken = taken or [(1, 0)]
        out.append(Dim(math.prod([s for s, _ in taken]), Index(), tuple(reversed(taken))))
    return out[::-1]


def _tiled(view: View, tiling: Sequence[int]) -> View:
    n = len(tiling)
    head, tail = view.dims[: len(view.dims) - n], view.dims[len(view.dims) - n :]
    outer, inner = [], []
    for d, t in zip(tail, tiling):
        a, b = _regrouped([d], [d.size // t, t])
        outer.append(a)
        inner.append(b)
    return view.replace(dims=(*head, *outer, *inner))


def _untiled(view: View, tiling: Sequence[int]) -> View:
    n = len(tiling)
    k = len(view.dims) - 2 * n
    merged = [
        _regrouped([view.dims[k + i], view.dims[k + n + i]], [view.dims[k + i].size * t])[0]
        for i, t in enumerate(tiling)
    ]
    return view.replace(dims=(*view.dims[:k], *merged))


# Loads and stores


def load(
    kernel: GpuKernel,
    view: View,
    layout: Any = None,
    read: Callable[[View, Index, int], Any] | None = None,
) -> Fragment:
    """Return what a view has.

    Args:
      kernel: the kernel.
      view: the view.
      layout: the layout of the array; None for any.
      read: what reads elements beside each other; None for `load_vector`.
    """
    read, shape = load_vector if read is None else read, view.shape
    if not shape:
        value = read(view, view.element_offset([]), 1)
        registers = np.empty((), dtype=object)
        registers[()] = value
        return Fragment(layout_of((), view.dtype), (), view.dtype, registers)
    if layout is None or not hasattr(layout, "vec_size") and not hasattr(layout, "tiling"):
        layout = layout_of(shape, view.dtype)
    counts, n = register_shape(layout, shape)
    registers = np.empty(counts, dtype=object)
    axis = vector_axis(layout, shape)
    together = view.contiguous(axis, n)
    for at, index in positions(kernel, layout, shape):
        if n == 1 or together:
            x = read(view, view.element_offset(index), n)
            registers[at] = x if n > 1 else from_elements([x])
        else:
            each = [view.element_offset(_moved(index, axis, k)) for k in range(n)]
            registers[at] = from_elements([read(view, o, 1) for o in each])
    return Fragment(layout, shape, view.dtype, registers)


def _moved(index: Sequence[Index], axis: int, k: int) -> list[Index]:
    out = list(index)
    out[axis] += k
    return out


def alignment(view: View, offset: Index, n: int) -> int:
    """Return of how many bytes the address of some elements is known to be a multiple."""
    bits = dtypes.itemsize_bits(view.dtype)
    return max(1, math.gcd(offset.divisor, n) * bits // 8)


def load_vector(view: View, offset: Index, n: int) -> Any:
    """Return elements beside each other from an offset on: a vector, or a scalar if it is one."""
    kind = stored_type(view.dtype)
    if n > 1:
        kind = ir.VectorType.get([n], kind)
    x = llvm.load(kind, view.address(offset), alignment=alignment(view, offset, n))
    return from_stored(x, view.dtype)


def from_stored(x: Any, dtype: Any) -> Any:
    """Return elements in memory as they are in registers."""
    if dtype == np.bool_:
        zero = full_like(x, integer(0, ir.IntegerType.get_signless(8)))
        return arith.cmpi(arith.CmpIPredicate.ne, x, zero)
    kind = like_operand(element_type(dtype), x)
    return x if x.type == kind else arith.bitcast(kind, x)


def to_stored(x: Any, dtype: Any) -> Any:
    """Return elements as they are in memory."""
    kind = like_operand(stored_type(dtype), x)
    if dtype == np.bool_:
        return arith.extui(kind, x)
    return x if x.type == kind else arith.bitcast(kind, x)


def store(kernel: GpuKernel, view: View, x: Fragment) -> None:
    """Write an array to a view."""
    for address, value, alignment in stores(kernel, view, x):
        llvm.StoreOp(value, address, alignment=alignment)


def stores(kernel: GpuKernel, view: View, x: Fragment, one_by_one: bool = False) -> Any:
    """Return the address, value and alignment of each store of an array to a view."""
    if not x.shape:
        offset = view.element_offset([])
        yield view.address(offset), to_stored(x.scalar, x.dtype), alignment(view, offset, 1)
        return
    if x.is_splat:
        x = x.with_layout(layout_of(x.shape, x.dtype))
    _, n = register_shape(x.layout, x.shape)
    axis = vector_axis(x.layout, x.shape)
    together = n > 1 and not one_by_one and view.contiguous(axis, n)
    for at, index in positions(kernel, x.layout, x.shape):
        value = to_stored(x.registers[at], x.dtype)
        if together:
            offset = view.element_offset(index)
            yield view.address(offset), value, alignment(view, offset, n)
            continue
        for k, element in enumerate(elements(value)):
            offset = view.element_offset(_moved(index, axis, k))
            yield view.address(offset), element, alignment(view, offset, 1)
