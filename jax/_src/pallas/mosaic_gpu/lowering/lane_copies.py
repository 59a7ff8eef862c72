"""Copies between global and shared memory by the lanes of a thread, of what the unit for tensors cannot copy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, scf
from jax._src.pallas.mosaic_gpu.layouts import WARPGROUP
from jax._src.pallas.mosaic_gpu.lowering import barriers
from jax._src.pallas.mosaic_gpu.lowering.fragments import splat
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, unraveled
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    WARP,
    GpuKernel,
    number,
    only,
    shared_memory_fence,
)
from jax._src.pallas.mosaic_gpu.lowering.multimem import store_everywhere
from jax._src.pallas.mosaic_gpu.lowering.views import View, load, store


def to_shared(kernel: GpuKernel, gmem: View, smem: View, barrier: barriers.Barriers) -> None:
    """Emit a copy to shared memory, and then the arrival of the thread at a barrier.

    Elements beyond the array become zeros, as where the unit for tensors copies.
    """
    with _each_element(kernel, gmem.shape) as at:
        source, target, inside = gmem.at(at), smem.at(at), _inside(gmem, at)
        if inside is None:
            store(kernel, target, load(kernel, source))
        else:
            choice = scf.IfOp(inside, has_else=True)
            with ir.InsertionPoint(choice.then_block):
                store(kernel, target, load(kernel, source))
                scf.yield_([])
            with ir.InsertionPoint(choice.else_block):
                store(kernel, target, splat(number(0, smem.dtype), (), smem.dtype))
                scf.yield_([])
    shared_memory_fence()
    barriers.arrive(kernel, barrier)


def to_global(kernel: GpuKernel, smem: View, gmem: View, predicate: Any) -> None:
    """Emit a copy to global memory, which is complete at once.

    Args:
      kernel: the kernel.
      smem, gmem: the source, and the target; elements beyond its array are left out.
      predicate: whether to copy; None to do so.
    """
    with only(predicate), _each_element(kernel, gmem.shape) as at, only(_inside(gmem, at)):
        store(kernel, gmem.at(at), load(kernel, smem.at(at)))


@contextlib.contextmanager
def _each_element(kernel: GpuKernel, shape: Sequence[int]) -> Iterator[list[Index]]:
    """Context manager of what a lane does for each of its elements, whose position it gives."""
    total = math.prod(shape)
    lanes = WARP if kernel.is_warp else WARPGROUP
    loop = scf.ForOp(integer(0), integer(total), integer(lanes))
    with ir.InsertionPoint(loop.body):
        at = arith.addi(loop.induction_variable, kernel.in_thread)
        with only(arith.cmpi(arith.CmpIPredicate.ult, at, integer(total))):
            yield unraveled(Index(0, at), shape)
        scf.yield_([])


def _inside(gmem: View, at: Sequence[Index]) -> Any:
    """Return whether an element is one of the array; None if all of the view are."""
    none = [Index()] * len(gmem.dropped)
    out = None
    for d, i in zip((*gmem.dims, *gmem.dropped), (*at, *none), strict=True):
        size = math.prod([n for n, _ in d.factors])
        if d.start.dynamic is None and d.start.static + (d.size - 1) * d.step < size:
            continue
        position = (d.start + i * d.step).value()
        test = arith.cmpi(arith.CmpIPredicate.ult, position, integer(size, position.type))
        out = test if out is None else arith.andi(out, test)
    return out


def to_all_devices(kernel: GpuKernel, smem: View, gmem: View, predicate: Any) -> None:
    """Emit a copy to global memory of all devices at once, which is complete when the lanes go on.

    Args:
      kernel: the kernel.
      smem, gmem: the source, and the target.
      predicate: whether to copy; None to do so.

    Raises:
      NotImplementedError: if lanes do not have 4 bytes beside each other.
    """
    with only(predicate):
        store_everywhere(kernel, gmem, load(kernel, smem))
