"""Semaphores: counters in global memory, in an array of zeros that is an operand of the kernel's own."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from jax._src.core import Jaxpr, subjaxprs
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm, scf
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.lowering.devices import EVERYWHERE, Devices
from jax._src.pallas.mosaic_gpu.lowering.fragments import splat
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    GpuKernel,
    asm,
    is_first,
    only,
    rule,
)
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.lowering.views import View, of_device, transformed, whole
from jax._src.pallas.mosaic_gpu.memory_operations import signal_multicast_p, signal_p, wait_p
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.pallas.primitives import run_scoped_p
from jax._src.pallas.semaphores import (
    BARRIER_SEMAPHORE,
    SEMAPHORE,
    DeviceIdType,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
)
from jax._src.tree_util import tree_unflatten

_int32 = np.dtype(np.int32)
_BYTES = 4


def is_semaphores(aval: Any) -> bool:
    """Whether a reference is one to semaphores in global memory."""
    return getattr(aval, "dtype", None) in (SEMAPHORE, BARRIER_SEMAPHORE)


@dataclasses.dataclass
class Counters:
    """The semaphores of a kernel: those of the whole, then those of each block.

    Attributes:
      shared: how many the whole kernel has.
      of_block: how many each block has.
      starts: where those of each scope begin among those of a block, by the scope's jaxpr.
      pointer: where they are.
      first: the number of the block's first one.
      operand: the number of the operand that they are.
      devices: the devices whose kernels signal them; None for this one only.
    """

    shared: int = 0
    of_block: int = 0
    starts: dict[int, int] = dataclasses.field(default_factory=dict)
    pointer: Any = None
    first: Index = Index()
    operand: int | None = None
    devices: Devices | None = None

    @classmethod
    def find(cls, jaxpr: Jaxpr, shared: int, threads: int) -> Counters:
        """Count the semaphores of a kernel.

        Args:
          jaxpr: the kernel.
          shared: how many semaphores the whole kernel has.
          threads: how many threads each block has, which may have their own.
        """
        out = cls(shared)
        out._visit(jaxpr, threads)
        return out

    def _visit(self, jaxpr: Jaxpr, threads: int) -> None:
        for eqn in jaxpr.eqns:
            if eqn.primitive is run_scoped_p:
                inner = eqn.params["jaxpr"].jaxpr
                types = [v.aval for v in inner.invars[len(eqn.invars) :]]
                count = sum([math.prod(a.shape) for a in types if is_semaphores(a)])
                if id(inner) not in self.starts:
                    self.starts[id(inner)] = self.of_block
                    self.of_block += count * threads
        for nested in subjaxprs(jaxpr):
            self._visit(nested, threads)

    def total(self, blocks: int) -> int:
        """Return how many there are."""
        return self.shared + self.of_block * blocks

    def view(self, shape: tuple[int, ...], start: Index) -> View:
        """Return semaphores beside each other, of which the first has a number."""
        i32 = ir.IntegerType.get_signless(32)
        at = pointer_at(self.pointer, start.wide().value(), i32)
        return whole(at, shape, _int32, MemorySpace.GMEM, self.operand, self.devices)

    def of_kernel(self, avals: list[Any]) -> list[View]:
        """Return the semaphores of the whole kernel."""
        out, start = [], 0
        for a in avals:
            out.append(self.view(a.shape, Index(start)))
            start += math.prod(a.shape)
        return out

    def of_scope(
        self, kernel: GpuKernel, jaxpr: Jaxpr, avals: list[Any], shared: bool
    ) -> list[View]:
        """Return new semaphores of a block, or of a thread, which count from zero.

        The threads that have them run this before any of them uses them. Those that other devices may have signaled
        already are left as they are: zero where the kernel begins.
        """
        count = sum([math.prod(a.shape) for a in avals])
        start = self.first + self.starts[id(jaxpr)]
        if not shared:
            start += Index(0, kernel.warpgroup) * count
        out = []
        if self.devices is None:
            with only(is_first(kernel.thread_id if shared else kernel.in_warpgroup)):
                for i in range(count):
                    view = self.view((), start + i)
                    llvm.StoreOp(integer(0), view.pointer, alignment=_BYTES)
        for a in avals:
            out.append(self.view(a.shape, start))
            start += math.prod(a.shape)
        if self.devices is None:
            kernel.synchronize(shared)
        return out


# Rules. One lane of the warpgroup counts: what the others have done before, or do after, is ordered by barriers.


def _pointer(view: View) -> Any:
    """Emit where the count of one semaphore is, on one device."""
    if view.device is EVERYWHERE:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} count semaphores on all devices at once (plgpu.multicast_ref) by plgpu.semaphore_signal_multicast, not so."
        )
    return view.address(view.element_offset([]))


def _signal(kernel: GpuKernel, view: View, inc: Any, scope: str) -> None:
    kernel.thread_barrier()
    with only(is_first(kernel.in_thread)):
        asm(f"red.release.{scope}.add.u32 [$0], $1;", "l,r", [_pointer(view), inc])


def _wait(kernel: GpuKernel, view: View, value: Any, decrement: bool, scope: str) -> None:
    with only(is_first(kernel.in_thread)):
        pointer = _pointer(view)
        loop = scf.WhileOp([], [])
        with ir.InsertionPoint(loop.before.blocks.append()):
            count = asm(f"ld.acquire.{scope}.b32 $0, [$1];", "=r,l", [pointer], kernel.i32)
            again = arith.cmpi(arith.CmpIPredicate.slt, count, value)
            if decrement:
                again = _taken(kernel, pointer, count, value, again, scope)
            scf.condition(again, [])
        with ir.InsertionPoint(loop.after.blocks.append()):
            scf.yield_([])
    kernel.thread_barrier()
    if kernel.devices is not None:
        # Copies that come after it see what other devices have stored before they signaled.
        asm("fence.proxy.async.global;", "", [])


def _taken(
    kernel: GpuKernel, pointer: Any, count: Any, value: Any, too_few: Any, scope: str
) -> Any:
    """Emit the subtraction of a value if the count is enough and no other thread changes it; return if not."""
    choice = scf.IfOp(too_few, [too_few.type], has_else=True)
    with ir.InsertionPoint(choice.then_block):
        scf.yield_([too_few])
    with ir.InsertionPoint(choice.else_block):
        code = f"atom.acquire.{scope}.cas.b32 $0, [$1], $2, $3;"
        found = asm(code, "=r,l,r,r", [pointer, count, arith.subi(count, value)], kernel.i32)
        scf.yield_([arith.cmpi(arith.CmpIPredicate.ne, found, count)])
    return choice.results[0]


@rule(semaphore_signal_p)
def _any_signal(ctx: RuleContext, *flat: Any, args_tree: Any, device_id_type: Any) -> Any:
    ref, transforms, inc, device_id, core_index = tree_unflatten(args_tree, flat)
    if core_index is not None:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have no cores (core_index of semaphore_signal): leave it out."
        )
    view = transformed(ref, transforms)
    if device_id is not None:
        view = of_device(view, device_id, device_id_type)
    _signal(ctx.kernel, view, inc.scalar, "sys")
    return []


@rule(signal_p)
def _own_signal(ctx: RuleContext, *flat: Any, tree: Any, memory_scope: str) -> Any:
    ref, inc, device_id = operands_of(tree, flat)
    view = resolved(ref)
    if device_id is not None:
        view = of_device(view, device_id, DeviceIdType.MESH)
    _signal(ctx.kernel, view, inc.scalar, memory_scope)
    return []


@rule(signal_multicast_p)
def _signal_everywhere(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    ref, inc = operands_of(tree, flat)
    kernel, view = ctx.kernel, resolved(ref)
    kernel.thread_barrier()
    with only(is_first(kernel.in_thread)):
        pointer = view.address(view.element_offset([]))
        # This device's count is reached at another address, too: the fence orders both.
        code = "multimem.red.release.sys.global.add.u32 [$0], $1; fence.proxy.alias;"
        asm(code, "l,r", [pointer, inc.scalar])
    return []


@rule(semaphore_wait_p)
def _any_wait(ctx: RuleContext, *flat: Any, args_tree: Any, decrement: bool) -> Any:
    ref, transforms, value = tree_unflatten(args_tree, flat)
    _wait(ctx.kernel, transformed(ref, transforms), value.scalar, decrement, "sys")
    return []


@rule(wait_p)
def _own_wait(ctx: RuleContext, *flat: Any, tree: Any, decrement: bool, memory_scope: str) -> Any:
    ref, value = operands_of(tree, flat)
    _wait(ctx.kernel, resolved(ref), value.scalar, decrement, memory_scope)
    return []


@rule(semaphore_read_p)
def _read(ctx: RuleContext, *flat: Any, args_tree: Any) -> Any:
    """All lanes get what one of them reads, since the kernel may branch on it."""
    ref, transforms = tree_unflatten(args_tree, flat)
    kernel, view = ctx.kernel, transformed(ref, transforms)
    there = kernel.scratch_pointer(_BYTES)
    kernel.thread_barrier()
    with only(is_first(kernel.in_thread)):
        pointer = _pointer(view)
        count = asm("ld.relaxed.sys.b32 $0, [$1];", "=r,l", [pointer], kernel.i32)
        llvm.StoreOp(count, there, alignment=_BYTES)
    kernel.thread_barrier()
    out = llvm.load(kernel.i32, there, alignment=_BYTES)
    kernel.thread_barrier()
    return splat(out, (), _int32)
