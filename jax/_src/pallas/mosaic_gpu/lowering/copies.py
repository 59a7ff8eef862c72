"""Copies between global and shared memory, by the unit for tensors (TMA)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, func, llvm, nvvm
from jax._src.pallas.element_types import is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.copies import (
    CopyPartition,
    async_prefetch_p,
    commit_group_p,
    commit_smem_p,
    copy_gmem_to_smem_p,
    copy_smem_to_gmem_p,
    wait_smem_to_gmem_p,
)
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.lowering import barriers, lane_copies
from jax._src.pallas.mosaic_gpu.lowering.clusters import narrow
from jax._src.pallas.mosaic_gpu.lowering.devices import EVERYWHERE
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    GpuKernel,
    asm,
    is_first,
    only,
    rule,
    shared_memory_fence,
)
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.lowering.views import View, whole
from jax._src.pallas.mosaic_gpu.operations import operands_of

_MOST_DIMS = 5
_MOST_IN_BOX = 256
_PIECE = 16  # bytes
_SLOWEST = 2**62


@dataclasses.dataclass(frozen=True)
class Box:
    """A part of an array in global memory that one instruction copies.

    Attributes:
      operand: the number of the kernel's operand.
      dtype: its dtype.
      sizes, strides: of the array, as the unit for tensors sees it.
      box: the size of the part.
      swizzle: how many bytes of rows have permuted pieces in shared memory.
      signed: whether the unit reads integers with their signs, as only comparisons must.
      of_others: whether the array is one of other devices, with a descriptor for each.
    """

    operand: int
    dtype: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int | None
    signed: bool = False
    of_others: bool = False


class _NotByUnit(NotImplementedError):
    """The unit for tensors cannot copy so, but the lanes of one block can."""


def _refused(
    why: str, error: type[NotImplementedError] = NotImplementedError
) -> NotImplementedError:
    return error(f"Kernels for {TABLE.target} cannot copy so: {why}.")


def plan(gmem: View, smem: View) -> tuple[Box, list[Index]]:
    """Return what is copied between a part of global memory and one of shared memory, and where it begins.

    The unit copies a box of the array in row-major order: where shared memory is tiled, it is given an array
    that has been divided into tiles.

    Raises:
      NotImplementedError: if the unit cannot do it; `_NotByUnit` if lanes can.
    """
    if smem.is_remote:
        raise _refused(
            "the reference in shared memory is one to another block: give collective_axes"
        )
    if gmem.device is EVERYWHERE:
        raise _refused("from all devices at once: read by plgpu.multimem_load_reduce")
    if gmem.operand is None:
        raise _refused("the reference in global memory is no operand of the kernel")
    if not gmem.dims:
        raise _refused(
            "an array without dimensions: read it in global memory, for a block of a grid with memory_space=plgpu.GMEM"
        )
    # The order of dimensions in shared memory, the slowest first.
    parts: list[tuple[int, int, int, int, Index]] = []
    for g in gmem.dropped:
        if len(g.factors) != 1:
            raise _refused("from a view that has been reshaped")
        (n, stride) = g.factors[0]
        parts.append((_SLOWEST, n, stride, 1, g.start))
    for g, s in zip(gmem.dims, smem.dims):
        if g.step != 1 or s.step != 1 or len(g.factors) != 1:
            raise _refused("with strides, or from a view that has been reshaped")
        size, stride = g.factors[0]
        inner = 1
        start = g.start
        for n, smem_stride in reversed(s.factors[1:]):
            if size % n or start.divisor % n or s.size % (inner * n):
                raise _refused(
                    f"a part that is not one of tiles of {n} elements along a dimension of {size}",
                    _NotByUnit,
                )
            outer_start, inner_start = start.divmod(n)
            parts.append((smem_stride, n, stride * inner, n, inner_start))
            start, size, inner = outer_start, size // n, inner * n
        count = s.size // inner
        parts.append((s.factors[0][1], size, stride * inner, count, start))
    dims = sorted(parts, key=lambda p: -p[0])
    expected = 1
    for smem_stride, _, _, count, _ in reversed(dims):
        if count > 1 and smem_stride != expected:
            raise _refused("shared memory that is not all of a buffer")
        expected *= count
    # Dimensions of size one are left out, but for the last one.
    kept = [_Dim(*d[1:]) for d in dims[:-1] if d[1] > 1] + [_Dim(*d[1:]) for d in dims[-1:]]
    box = _box(gmem, smem, kept)
    if smem.swizzle is None and not _in_pieces(box):
        merged = _merged(kept)
        other = _box(gmem, smem, merged)
        if _in_pieces(other) and not _is_too_long(other):
            kept, box = merged, other
    _check(box)
    return box, [d.start for d in kept]


def _by_unit(gmem: View, smem: View) -> tuple[Box, list[Index]] | None:
    """Return what the unit for tensors copies, as `plan` does; None if lanes have to."""
    try:
        return plan(gmem, smem)
    except _NotByUnit:
        return None


class _Dim(NamedTuple):
    """A dimension of an array as the unit for tensors sees it, and which elements along it are copied."""

    size: int
    stride: int
    count: int
    start: Index


def _box(gmem: View, smem: View, dims: Sequence[_Dim]) -> Box:
    assert gmem.operand is not None
    return Box(
        gmem.operand, gmem.dtype,
        tuple([d.size for d in dims]), tuple([d.stride for d in dims]), tuple([d.count for d in dims]), smem.swizzle,
        of_others=gmem.device is not None,
    )  # fmt: skip


def _merged(dims: Sequence[_Dim]) -> list[_Dim]:
    """Return dimensions of which those are one whose elements are beside each other, and all of which are copied."""
    out = [dims[-1]]
    for d in reversed(dims[:-1]):
        inner = out[0]
        if inner.count == inner.size and d.stride == inner.stride * inner.size:
            n = inner.size
            out[0] = _Dim(d.size * n, inner.stride, d.count * n, d.start * n)
        else:
            out.insert(0, d)
    return out


def _in_pieces(box: Box) -> bool:
    """Whether rows are pieces of 16 bytes, as the unit for tensors copies them."""
    bits = dtypes.itemsize_bits(box.dtype)
    if box.strides[-1] != 1 or box.box[-1] * bits % (8 * _PIECE):
        return False
    return all([s * bits % (8 * _PIECE) == 0 for s in box.strides[:-1]])


def _is_too_long(box: Box) -> bool:
    return any([n > _MOST_IN_BOX for n in box.box])


def _check(box: Box) -> None:
    if not _in_pieces(box):
        raise _refused(
            f"a part of {box.box} elements, whose rows are no multiples of {_PIECE} bytes beside each other, or do not begin at such",
            _NotByUnit,
        )
    if len(box.sizes) > _MOST_DIMS:
        raise _refused(f"arrays of more than {_MOST_DIMS} dimensions, with those of tiles")
    if _is_too_long(box):
        raise _refused(
            f"parts of more than {_MOST_IN_BOX} elements along a dimension, of {box.box}"
        )


# What the runtime calls elements of bits, of floating-point numbers, and of integers with signs. Elements that are
# only copied are bits.
_CODES = {2: 8, 4: 0, 8: 1, 16: 2, 32: 3, 64: 4}
_FLOATS = {"float16": 5, "float32": 6, "bfloat16": 7}
_SIGNED = {32: 9, 64: 10}


def initialize_descriptor(pointer: Any, operand: Any, box: Box) -> None:
    """Emit, on the host, the initialization of a descriptor."""
    i64 = ir.IntegerType.get_signless(64)
    constant = lambda n: integer(n, i64)

    def array(values: Sequence[int]) -> Any:
        out = llvm.alloca(pointer.type, constant(len(values)), i64)
        for i, n in enumerate(values):
            at = pointer_at(out, i, i64)
            llvm.StoreOp(constant(n), at)
        return out

    func.CallOp(
        [], "mosaic_gpu_init_tma_desc",
        [
            pointer, operand, constant(_type_code(box)), constant(len(box.sizes)),
            array(box.sizes), array(box.strides), constant(box.swizzle or 16), array(box.box),
        ],
    )  # fmt: skip


def _type_code(box: Box) -> int:
    bits, name = dtypes.itemsize_bits(box.dtype), dtypes.dtype_name(box.dtype)
    return _SIGNED[bits] if box.signed else _FLOATS.get(name) or _CODES[bits]


_OF_FLOATS = {
    "float16": ("add", "min", "max"),
    "bfloat16": ("add", "min", "max"),
    "float32": ("add",),
}
_OF_INTEGERS = {
    32: ("add", "min", "max", "inc", "dec", "and", "or", "xor"), 64: ("add", "min", "max", "and", "or", "xor"),
}  # fmt: skip


def _for_reduction(box: Box, op: str) -> Box:
    """Return what is copied so that it is combined with what is there.

    Raises:
      NotImplementedError: if the unit cannot combine elements of the dtype so.
    """
    name = dtypes.dtype_name(box.dtype)
    is_integer = bool(dtypes.issubdtype(box.dtype, np.integer))
    bits = dtypes.itemsize_bits(box.dtype)
    if op not in (_OF_INTEGERS.get(bits, ()) if is_integer else _OF_FLOATS.get(name, ())):
        raise _refused(f"with reduction_op='{op}' of {name}, which GPUs do not have")
    signed = op in ("min", "max") and is_signed(box.dtype)
    return dataclasses.replace(box, signed=signed)


@rule(copy_gmem_to_smem_p)
def _to_shared(
    ctx: RuleContext,
    *flat: Any,
    tree: Any,
    collective_axes: Any,
    leader_tracked: Any,
    oob_mode: Any,
) -> Any:
    source, target, barrier = operands_of(tree, flat)
    kernel = ctx.kernel
    gmem, smem = resolved(source), resolved(target)
    if leader_tracked is not None:
        there = barriers.barriers_of(barrier)
        _to_pair(kernel, gmem, smem, there, collective_axes, leader_tracked)
        return []
    alone = collective_axes is None or len(kernel.cluster.numbers(collective_axes)) == 1
    planned = _by_unit(gmem, smem) if alone else plan(gmem, smem)
    there = barriers.barriers_of(barrier)
    if there.dtype.collective_axes is not None:
        raise _refused("with a barrier of the cluster: take plgpu.Barrier()")
    if not kernel.params.unsafe_no_auto_barriers:
        kernel.thread_barrier()
    if planned is None:
        lane_copies.to_shared(kernel, gmem, smem, there)
        return []
    box, start = planned
    size = math.prod(box.box) * dtypes.itemsize_bits(box.dtype) // 8
    barriers.arrive_expecting(kernel, there, size)
    box, start, offset, mask = _shared(kernel, box, start, collective_axes)
    descriptor = kernel.descriptors.get(box, gmem.device)
    nvvm.cp_async_bulk_tensor_shared_cluster_global(
        _beginning(smem, offset), descriptor, _coordinates(start), there.pointer(kernel), [],
        multicast_mask=mask, predicate=kernel.one_lane(),
    )  # fmt: skip
    return []


# A copy of one block of a pair, which completes at the barrier of the first one.
_COPY_OF_PAIR = """{{
    .reg .b32 leader;
    @$0 mapa.shared::cluster.u32 leader, $1, $2;
    @$0 cp.async.bulk.tensor.{n}d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [$3], [$4, {{{at}}}], [leader];
}}"""


def _to_pair(
    kernel: GpuKernel, gmem: View, smem: View, barrier: barriers.Barriers, axes: Any, tracked: Any
) -> None:
    """Emit the copies of both blocks of a pair, of which only the first keeps count."""
    kernel.require(
        "copies with leader_tracked", "leave it out, for a barrier in each block", 10, 11
    )
    position = kernel.cluster.pair(axes)
    box, start = plan(_part_of_pair(gmem, smem, position, tracked), smem)
    size = math.prod(box.box) * dtypes.itemsize_bits(box.dtype) // 8
    if not kernel.params.unsafe_no_auto_barriers:
        kernel.thread_barrier()
    with only(is_first(position.value(kernel.i32))):
        barriers.arrive_expecting(kernel, barrier, 2 * size)
    at = _coordinates(start)
    names = ", ".join([f"${5 + i}" for i in range(len(at))])
    operands = [kernel.one_lane(), barrier.pointer(kernel), kernel.cluster.first(axes).value()]
    operands += [_beginning(smem, Index()), kernel.descriptors.get(box, gmem.device), *at]
    code = _COPY_OF_PAIR.format(n=len(at), at=names)
    asm(code, ",".join(["b,r,r,r,l", *["r"] * len(at)]), operands)


def _part_of_pair(gmem: View, smem: View, position: Index, tracked: Any) -> View:
    """Return what one block of a pair copies."""
    if tracked is CopyPartition.REPLICATED:
        return gmem
    axis, shape = tracked.axis, list(gmem.shape)
    shape[axis] //= 2
    if tuple(shape) != smem.shape or gmem.shape[axis] % 2:
        raise ValueError(
            f"A copy of {list(gmem.shape)} that two blocks divide along axis {axis} (leader_tracked) has parts of shape {shape}, but the reference in "
            f"shared memory has {list(smem.shape)}."
        )
    return gmem.part(axis, position * shape[axis], shape[axis])


def _shared(
    kernel: GpuKernel, box: Box, start: list[Index], axes: Any
) -> tuple[Box, list[Index], Index, Any]:
    """Return the part of a copy that this block starts for all along some axes of the cluster.

    Returns:
      The part, where it begins, how many elements of shared memory are before it, and the set of the blocks;
      None if this block is the only one.
    """
    blocks = 1 if axes is None else len(kernel.cluster.numbers(axes))
    if blocks == 1:
        return box, start, Index(), None
    part = _share(box, start, kernel.cluster.position(axes), blocks)
    return *part, narrow(kernel.cluster.mask([axes]))


def _share(
    box: Box, start: Sequence[Index], position: Index, blocks: int
) -> tuple[Box, list[Index], Index]:
    """Return the part of a copy that one of several blocks starts for all of them.

    Args:
      box, start: the whole.
      position: which one this block is.
      blocks: how many they are.

    Returns:
      The part, where it begins, and how many elements of shared memory are before it.
    """
    sizes, starts, offset = list(box.box), list(start), Index()
    rest, inner = blocks, math.prod(box.box)
    for d, n in enumerate(box.box):
        inner //= n
        parts = math.gcd(n, rest)
        if rest > 1 and parts < min(n, rest):
            break
        rest //= parts
        mine, position = position.divmod(rest)
        sizes[d] = n // parts
        starts[d] += mine * sizes[d]
        offset += mine * (sizes[d] * inner)
        if rest == 1:
            break
    bits = dtypes.itemsize_bits(box.dtype)
    whole_rows = 8 * box.swizzle if box.swizzle else 128
    part = dataclasses.replace(box, box=tuple(sizes))
    if rest > 1 or math.prod(sizes) * bits // 8 % whole_rows:
        raise _refused(
            f"a part of {box.box} elements in {blocks} shares for the blocks of a cluster, each of a multiple of {whole_rows} "
            "bytes beside each other"
        )
    _check(part)
    return part, starts, offset


def _beginning(smem: View, offset: Index) -> Any:
    first = [Index()] * len(smem.dims)
    return smem.replace(swizzle=None).address(smem.element_offset(first) + offset)


def _coordinates(start: Sequence[Index]) -> list[Any]:
    i32 = ir.IntegerType.get_signless(32)
    return [i.value(i32) for i in reversed(start)]


@rule(copy_smem_to_gmem_p)
def _to_global(
    ctx: RuleContext, *flat: Any, tree: Any, commit_group: bool, reduction_op: str | None
) -> Any:
    source, target, predicate = operands_of(tree, flat)
    kernel = ctx.kernel
    gmem, smem = resolved(target), resolved(source)
    if gmem.device is EVERYWHERE:
        if reduction_op is not None:
            raise _refused(
                "with reduction_op, to all devices at once: reduce on one, and copy then"
            )
        lane_copies.to_all_devices(
            kernel, smem, gmem, None if predicate is None else predicate.scalar
        )
        return _committed(commit_group)
    planned = _by_unit(gmem, smem) if reduction_op is None else plan(gmem, smem)
    wanted = None if predicate is None else predicate.scalar
    if planned is None:
        lane_copies.to_global(kernel, smem, gmem, wanted)
        return _committed(commit_group)
    box, start = planned
    if reduction_op is not None:
        box = _for_reduction(box, reduction_op)
    descriptor = kernel.descriptors.get(box, gmem.device)
    lane = kernel.one_lane()
    if wanted is not None:
        lane = arith.andi(lane, wanted)
    if reduction_op is None:
        nvvm.cp_async_bulk_tensor_global_shared_cta(
            descriptor, _beginning(smem, Index()), _coordinates(start), predicate=lane
        )
    else:
        with only(lane):
            kind = ir.Attribute.parse(f"#nvvm.tma_redux_kind<{reduction_op}>")
            nvvm.cp_async_bulk_tensor_reduce(
                descriptor, _beginning(smem, Index()), kind, _coordinates(start)
            )
    return _committed(commit_group)


def _committed(commit_group: bool) -> list[Any]:
    if commit_group:
        nvvm.cp_async_bulk_commit_group()
    return []


@rule(async_prefetch_p)
def _prefetch(
    ctx: RuleContext, *flat: Any, tree: Any, collective_axes: Any, leader_tracked: Any
) -> Any:
    (source,) = operands_of(tree, flat)
    kernel, gmem = ctx.kernel, resolved(source)
    if leader_tracked is CopyPartition.REPLICATED:
        collective_axes = None  # each fetches all
    like = whole(gmem.pointer, gmem.shape, gmem.dtype, MemorySpace.SMEM)
    box, start, _, _ = _shared(kernel, *plan(gmem, like), collective_axes)
    descriptor = kernel.descriptors.get(box, gmem.device)
    with only(kernel.one_lane()):
        nvvm.cp_async_bulk_tensor_prefetch(descriptor, _coordinates(start), [])
    return []


@rule(commit_smem_p)
def _commit(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    shared_memory_fence()
    ctx.kernel.thread_barrier()
    return []


@rule(commit_group_p)
def _commit_group(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    nvvm.cp_async_bulk_commit_group()
    return []


@rule(wait_smem_to_gmem_p)
def _wait(ctx: RuleContext, *flat: Any, tree: Any, wait_read_only: bool) -> Any:
    (n,) = operands_of(tree, flat)
    count = ir.IntegerAttr(n.scalar.owner.attributes["value"]).value
    nvvm.cp_async_bulk_wait_group(count, read=wait_read_only or None)
    ctx.kernel.thread_barrier()
    return []
