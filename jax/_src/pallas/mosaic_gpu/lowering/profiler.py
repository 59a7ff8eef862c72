"""The profiler of kernels: when each thread enters and leaves the scopes of `jax.named_scope`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.core import ShapedArray
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, gpu, llvm, nvvm, scf
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS, CompilerParams, TraceScope
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    WARP,
    GpuKernel,
    asm,
    is_first,
    only,
    pointer_type,
    uniform,
)
from jax._src.pallas.mosaic_gpu.traces import (
    COUNT,
    END,
    EVENT_WORDS,
    FIRST_CLOCK,
    HEADER_WORDS,
    LAST_CLOCK,
    LEFT,
    MULTIPROCESSOR,
    START,
    row_words,
    trace_events,
    write_trace,
)

_WORD = 4  # bytes
# Compilers move no access of memory over it: what is measured is what the scope has.
_RECORD = """{
.reg .u32 now;
mov.u32 now, %clock;
@$0 st.shared.v2.u32 [$1], {$2, now};
}"""


class Profiler:
    """Records events in the shared memory of a block, and copies them to an array where the kernel ends.

    The first lane of a recorder records. Events for which there is no space are counted.

    Args:
      kernel: the kernel.

    Attributes:
      scopes: the names of scopes, by their numbers.
    """

    def __init__(self, kernel: GpuKernel):
        params: CompilerParams = kernel.params
        self._kernel = kernel
        self._space = params.profile_space
        self._of_warps = params.profile_trace_scope is TraceScope.WARP
        self.scopes: dict[str, int] = {}
        self._entered: list[str] = []

    @property
    def recorders(self) -> list[str]:
        """The names of the recorders of a block."""
        threads = [f"thread {i}" for i in range(self._kernel.threads)]
        return (
            [f"{t}, warp {i}" for t in threads for i in range(NUM_WARPS)]
            if self._of_warps
            else threads
        )

    def type_of_records(self, blocks: int) -> ShapedArray:
        """Return the type of the array that events are copied to."""
        shape = (blocks * len(self.recorders), row_words(self._space))
        return ShapedArray(shape, np.dtype(np.uint32))

    def start(self, records: Any) -> None:
        """Emit what comes first in the kernel, given a pointer to the array."""
        kernel = self._kernel
        self._records = records
        self._first_time = _time(kernel)
        self._first_clock = _clock(kernel)
        self._number = kernel.warpgroup
        if self._of_warps:
            self._number = arith.addi(arith.muli(self._number, integer(NUM_WARPS)), kernel.warp)
        self._is_recorder = is_first(kernel.lane if self._of_warps else kernel.in_warpgroup)
        # Known when the kernel has been lowered: where events are in shared memory.
        self._slot = integer(0)
        size = 2 * self._space * EVENT_WORDS * _WORD
        at = arith.addi(self._slot, arith.muli(self._number, integer(size)))
        self._events = kernel.shared_pointer(Index(0, at))
        self._count = llvm.alloca(pointer_type(), integer(1, kernel.i64), kernel.i32)
        llvm.StoreOp(integer(0), self._count)

    def enter(self, name: str) -> None:
        """Emit the record that a scope is entered."""
        self._entered.append(name)
        self._record(self.scopes.setdefault(name, len(self.scopes)))

    def leave(self) -> None:
        """Emit the record that the scope is left that was entered last."""
        self._record(self.scopes[self._entered.pop()] - LEFT)

    def _record(self, event: int) -> None:
        count = llvm.load(self._kernel.i32, self._count)
        below = arith.CmpIPredicate.ult
        has_space = arith.cmpi(below, count, integer(2 * self._space))
        at = self._event(count)
        chosen = arith.andi(self._is_recorder, has_space)
        asm(_RECORD, "b,r,r,~{memory}", [chosen, at, integer(event)])
        llvm.StoreOp(arith.addi(count, integer(1)), self._count)

    def _event(self, number: Any) -> Any:
        """Return a pointer to an event in shared memory."""
        return _word(self._events, arith.muli(number, integer(EVENT_WORDS)))

    def end(self) -> None:
        """Emit what comes last in the kernel: the header, and the copy, by all lanes of the warp."""
        kernel = self._kernel
        last_clock, last_time = _clock(kernel), _time(kernel)
        block = arith.index_cast(kernel.i64, gpu.block_id(gpu.Dimension.x))
        row = arith.muli(block, integer(len(self.recorders), kernel.i64))
        row = arith.addi(row, arith.extui(kernel.i64, self._number))
        row = _word(self._records, arith.muli(row, integer(row_words(self._space), kernel.i64)))
        count = llvm.load(kernel.i32, self._count)
        with only(self._is_recorder):
            header = {
                START: self._first_time,
                END: last_time,
                FIRST_CLOCK: self._first_clock,
                LAST_CLOCK: last_clock,
                MULTIPROCESSOR: asm("mov.u32 $0, %smid;", "=r", [], kernel.i32),
                COUNT: count,
            }
            for i, x in header.items():
                llvm.StoreOp(x, _word(row, integer(i)))
        if self._of_warps:
            self._copy(row, count)
        else:
            with only(is_first(kernel.warp)):
                self._copy(row, count)

    def _copy(self, row: Any, count: Any) -> None:
        """Emit the copy of a warp's events."""
        kernel = self._kernel
        count = uniform(count)
        nvvm.bar_warp_sync(integer(-1))
        loop = scf.ForOp(integer(0), integer(2 * self._space), integer(WARP))
        with ir.InsertionPoint(loop.body):
            i = arith.addi(loop.induction_variable, kernel.lane)
            recorded = arith.cmpi(arith.CmpIPredicate.ult, i, count)
            has_space = arith.cmpi(arith.CmpIPredicate.ult, i, integer(2 * self._space))
            with only(arith.andi(recorded, has_space)):
                event = llvm.load(kernel.i64, self._event(i))
                at = arith.addi(arith.muli(i, integer(EVENT_WORDS)), integer(HEADER_WORDS))
                llvm.StoreOp(event, _word(row, at))
            scf.yield_([])

    def finish(self, slot: int) -> int:
        """Set where in shared memory events are, and return where they end."""
        self._slot.owner.attributes["value"] = ir.IntegerAttr.get(self._kernel.i32, slot)
        return slot + len(self.recorders) * 2 * self._space * EVENT_WORDS * _WORD

    def writer(self, name: str) -> Callable[[Any], tuple[()]]:
        """Return the function of the host that writes the trace of records."""
        scopes, recorders = list(self.scopes), self.recorders
        directory = self._kernel.params.profile_dir

        def write(records: Any) -> tuple[()]:
            events = trace_events(np.asarray(records), name, scopes, recorders)
            write_trace(directory, name, events)
            return ()

        return write


def _word(pointer: Any, number: Any) -> Any:
    """Return a pointer to one of the words that begin at a pointer."""
    return pointer_at(pointer, number, ir.IntegerType.get_signless(32))


def _time(kernel: GpuKernel) -> Any:
    """Return the time of the device, in nanoseconds."""
    return asm("mov.u64 $0, %globaltimer;", "=l,~{memory}", [], kernel.i64)


def _clock(kernel: GpuKernel) -> Any:
    """Return the clock of the multiprocessor."""
    return asm("mov.u32 $0, %clock;", "=r,~{memory}", [], kernel.i32)
