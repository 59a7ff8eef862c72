"""Barriers in shared memory, and their rules.

Each lane of a warpgroup arrives, and four times each lane of a single warp: a barrier counts 128 times the
arrivals that a kernel asks for. At barriers of clusters, and at those that order the tensor core, which itself
arrives once, one lane arrives for all. Which
phase a thread waits for next is a bit of a local variable for each barrier.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.lib.mlir.dialects import arith, llvm, nvvm
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.copies import barrier_arrive_p, barrier_test_p, barrier_wait_p
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS, BarrierType
from jax._src.pallas.mosaic_gpu.layouts import WARPGROUP
from jax._src.pallas.mosaic_gpu.lowering.clusters import groups_of
from jax._src.pallas.mosaic_gpu.lowering.fragments import splat
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    WARP,
    GpuKernel,
    asm,
    is_first,
    only,
    pointer_type,
    rule,
    tensor_core_fence,
    uniform,
)
from jax._src.pallas.mosaic_gpu.lowering.views import Dim, index_of, row_major
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.state.indexing import NDIndexer

_BYTES = 8
_MOST = 32
_TICKS = 10_000_000  # how long one attempt to wait takes at most


@dataclasses.dataclass(frozen=True)
class Barriers:
    """Barriers beside each other.

    Attributes:
      start: where they are in shared memory, in bytes.
      dims: their dimensions.
      dtype: their type.
      phases: pointer to the local variable, with a bit for each barrier.
      chosen: the number of the first of them.
    """

    start: Index
    dims: tuple[Dim, ...]
    dtype: BarrierType
    phases: Any
    chosen: Index = Index()

    @classmethod
    def create(
        cls, kernel: GpuKernel, start: Index, shape: Sequence[int], dtype: BarrierType
    ) -> Barriers:
        count = math.prod(shape)
        if count > _MOST:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have at most {_MOST} barriers in one reference, not {count}: take several references."
            )
        with kernel.at_start:
            phases = llvm.alloca(pointer_type(), integer(1, kernel.i64), kernel.i32)
        strides = row_major(shape)
        dims = tuple([Dim(n, Index(), ((n, s),)) for n, s in zip(shape, strides)])
        return cls(start, dims, dtype, phases)

    @property
    def count(self) -> int:
        return math.prod([d.size for d in self.dims])

    def part(self, transforms: Sequence[Any]) -> Barriers:
        """Return some of them."""
        out = self
        for t in transforms:
            if not isinstance(t, NDIndexer) or t.has_arrays:
                raise NotImplementedError("Barriers are chosen by integers and slices only.")
            dims, chosen = [], out.chosen
            for d, i in zip(out.dims, t.indices):
                if hasattr(i, "size") and hasattr(i, "stride"):
                    start = d.start + index_of(i.start) * d.step
                    dims.append(Dim(i.size, start, d.factors, d.step * i.stride))
                else:
                    chosen += d.offset(index_of(i))
            out = dataclasses.replace(out, dims=tuple(dims), chosen=chosen)
        return out

    def number(self) -> Index:
        """Return the number of the one barrier that they are."""
        out = self.chosen
        for d in self.dims:
            out += d.offset(Index())
        return out

    def pointer(self, kernel: GpuKernel) -> Any:
        """Return where the one barrier is that they are."""
        return kernel.shared_pointer(self.start + self.number() * _BYTES)


def barriers_of(x: Any) -> Barriers:
    """Return the barrier that an operand is."""
    return x if isinstance(x, Barriers) else x.ref.part(x.transforms)


def _arrivals(kernel: GpuKernel, dtype: BarrierType) -> int:
    """Return how many lanes arrive in a phase: one of each block at barriers of clusters, otherwise all, or one."""
    if dtype.collective_axes is None:
        return dtype.num_arrivals * (1 if dtype.orders_tensor_core else WARPGROUP)
    return dtype.num_arrivals * kernel.cluster.count(groups_of(dtype.collective_axes))


def initialize(
    kernel: GpuKernel, created: Sequence[Barriers], shared: bool, clusters: bool
) -> None:
    """Emit the initialization of new barriers.

    Args:
      kernel: the kernel.
      created: the barriers.
      shared: whether all threads of a block have them, and run this.
      clusters: whether other blocks of the cluster arrive at them.
    """
    if clusters and not shared:
        raise ValueError(
            f"Barriers at which other blocks arrive are those of all threads of a block, in {kernel.name}: give run_scoped "
            f"collective_axes={kernel.thread_axis!r}."
        )
    who = kernel.thread_id if shared else kernel.in_warpgroup
    with only(is_first(who)):
        for barriers in created:
            count = integer(_arrivals(kernel, barriers.dtype))
            for i in range(barriers.count):
                at = kernel.shared_pointer(barriers.start + i * _BYTES)
                nvvm.mbarrier_init(at, count)
    for barriers in created:
        llvm.StoreOp(integer(0), barriers.phases)
    nvvm.fence_mbarrier_init()
    kernel.synchronize(shared, clusters)


def invalidate(
    kernel: GpuKernel, created: Sequence[Barriers], shared: bool, clusters: bool
) -> None:
    """Emit the end of barriers, whose memory is used otherwise from then on."""
    kernel.synchronize(shared, clusters)
    who = kernel.thread_id if shared else kernel.in_warpgroup
    with only(is_first(who)):
        for barriers in created:
            for i in range(barriers.count):
                nvvm.mbarrier_inval(kernel.shared_pointer(barriers.start + i * _BYTES))
    kernel.synchronize(shared)


@rule(barrier_arrive_p)
def _arrive(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    (operand,) = operands_of(tree, flat)
    arrive(ctx.kernel, barriers_of(operand))
    return []


def arrive(kernel: GpuKernel, barrier: Barriers) -> None:
    """Emit an arrival of the thread."""
    if barrier.dtype.orders_tensor_core:
        tensor_core_fence(before=True)
    if barrier.dtype.collective_axes is not None:
        _arrive_in_cluster(kernel, barrier)
    elif barrier.dtype.orders_tensor_core:
        kernel.thread_barrier()
        with only(kernel.one_lane()):
            nvvm.mbarrier_arrive(barrier.pointer(kernel), results=[kernel.i64])
    elif kernel.is_warp:
        _arrive_often(kernel, barrier, NUM_WARPS)
    else:
        nvvm.mbarrier_arrive(barrier.pointer(kernel), results=[kernel.i64])


def _arrive_often(kernel: GpuKernel, barrier: Barriers, n: int) -> None:
    """Emit several arrivals of each lane: those of a warp are as many as those of a warpgroup."""
    asm(f"mbarrier.arrive.shared::cta.b64 _, [$0], {n};", "r", [barrier.pointer(kernel)])


# The barrier is at the same place in the shared memory of each block.
_ARRIVE_AT_BLOCK = """{
    .reg .b32 there;
    @$0 mapa.shared::cluster.u32 there, $1, $2;
    @$0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];
}"""


def _arrive_in_cluster(kernel: GpuKernel, barrier: Barriers) -> None:
    """Emit an arrival of the warpgroup at the barriers of several blocks, one lane for each."""
    kernel.thread_barrier()
    groups = groups_of(barrier.dtype.collective_axes)
    mask = kernel.cluster.mask(groups, only_first=barrier.dtype.leader_tracked)
    lane = kernel.in_thread
    is_block = arith.cmpi(arith.CmpIPredicate.ult, lane, integer(kernel.cluster.size))
    number = arith.select(is_block, lane, integer(0))
    bit = arith.andi(arith.shrui(mask, number), integer(1))
    chosen = arith.andi(is_block, arith.cmpi(arith.CmpIPredicate.ne, bit, integer(0)))
    asm(_ARRIVE_AT_BLOCK, "b,r,r", [chosen, barrier.pointer(kernel), number])


def arrive_expecting(kernel: GpuKernel, barrier: Barriers, size: int) -> None:
    """Emit an arrival of the thread that is complete when bytes have been copied."""
    if barrier.dtype.orders_tensor_core:
        with only(kernel.one_lane()):
            pointer = barrier.pointer(kernel)
            nvvm.mbarrier_arrive_expect_tx(pointer, integer(size), results=[kernel.i64])
        return
    share, rest = divmod(size, WARP if kernel.is_warp else WARPGROUP)
    expected: Any = integer(share)
    if rest:
        expected = arith.select(is_first(kernel.in_thread), integer(share + rest), expected)
    nvvm.mbarrier_arrive_expect_tx(barrier.pointer(kernel), expected, results=[kernel.i64])
    if kernel.is_warp:
        _arrive_often(kernel, barrier, NUM_WARPS - 1)


@rule(barrier_wait_p)
def _wait(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    (operand,) = operands_of(tree, flat)
    kernel = ctx.kernel
    barrier = barriers_of(operand)
    parity, phases, bit = _phase(kernel, barrier)
    llvm.StoreOp(arith.xori(phases, bit), barrier.phases)
    nvvm.mbarrier_try_wait_parity(barrier.pointer(kernel), parity, integer(_TICKS))
    _order(barrier)
    return []


def _phase(kernel: GpuKernel, barrier: Barriers) -> tuple[Any, Any, Any]:
    """Return the parity of the phase to wait for, and all phases with the bit that it has in them."""
    bit = arith.shli(integer(1), barrier.number().value())
    phases = llvm.load(kernel.i32, barrier.phases)
    is_odd = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(phases, bit), integer(0))
    return arith.extui(kernel.i32, is_odd), phases, bit


def _order(barrier: Barriers) -> None:
    """Emit what orders the doings of other blocks and of the tensor core with a wait, which itself orders those of the block's threads."""
    if barrier.dtype.collective_axes is not None:
        asm("fence.acq_rel.cluster;", "", [])
    if barrier.dtype.orders_tensor_core:
        tensor_core_fence(before=False)


_TEST = """{
    .reg .pred complete;
    mbarrier.test_wait.parity.shared::cta.b64 complete, [$1], $2;
    selp.b32 $0, 1, 0, complete;
}"""


@rule(barrier_test_p)
def _test(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    (operand,) = operands_of(tree, flat)
    kernel, barrier = ctx.kernel, barriers_of(operand)
    if not kernel.is_warp:
        raise NotImplementedError(
            "barrier_test is for functions of single warps: call it in one given to plgpu.warp_map, or wait by barrier_wait."
        )
    parity, phases, bit = _phase(kernel, barrier)
    # All lanes go on with what the first one has found, and see what it sees.
    found = uniform(asm(_TEST, "=r,r,r", [barrier.pointer(kernel), parity], kernel.i32))
    kernel.thread_barrier()
    is_complete = arith.cmpi(arith.CmpIPredicate.ne, found, integer(0))
    passed = arith.select(is_complete, bit, integer(0))
    llvm.StoreOp(arith.xori(phases, passed), barrier.phases)
    _order(barrier)
    return splat(is_complete, (), np.bool_)
