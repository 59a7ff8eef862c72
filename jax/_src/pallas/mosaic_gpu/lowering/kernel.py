"""What the rules of Mosaic GPU share: the table, types, constants, and the position of a lane."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, gpu, llvm, nvvm, scf
from jax._src.pallas.element_types import gpu_element_type, gpu_number_attribute
from jax._src.pallas.kernel_rules import KernelContext, RuleTable
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS, CompilerParams
from jax._src.pallas.mosaic_gpu.layouts import WARPGROUP
from jax._src.pallas.mosaic_gpu.lowering.devices import Devices
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at

TABLE = RuleTable("GPUs (Mosaic)")
rule = TABLE.rule

WARP = 32
SHARED_ALIGNMENT = 1024  # which swizzled memory needs

_INTEGERS = ("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8")


def element_type(dtype: Any) -> Any:
    """Return MLIR's type of elements in registers."""
    return gpu_element_type(dtype, TABLE.target, _INTEGERS)


def number(value: Any, dtype: Any) -> Any:
    """Return a constant of a dtype."""
    kind = element_type(dtype)
    return arith.constant(kind, gpu_number_attribute(value, dtype, kind))


class SharedMemory:
    """The shared memory of a block: what is allocated is released in the opposite order.

    Args:
      keeps: whether nothing is released, since several threads can be in different parts of the kernel.
    """

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps
        self.used = 0
        self.most = 0

    def allocate(self, size: int, alignment: int = SHARED_ALIGNMENT) -> int:
        """Return where a part begins."""
        start = -(-self.used // alignment) * alignment
        self.used = start + size
        self.most = max(self.most, self.used)
        return start

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Release at its end what is allocated in it."""
        before = self.used
        yield
        if not self.keeps:
            self.used = before


class GpuKernel(KernelContext):
    """A kernel that is being compiled.

    Args:
      name: its name and line, for errors.
      context: the MLIR context.
      threads: how many warpgroups a block has.
      params: options.

    Attributes:
      axes, sizes: the position along each axis of the mesh, and its size.
      grid: the sizes of the axes of the grid by name, without those that `vmap` has added.
      program: the position and the size of each dimension that `program_id` numbers.
      thread_axis: the axis of threads.
      architecture: the compute capability that is needed at least.
      devices: the devices that run it together; None if it does not refer to others.
      device: a device that the kernel is compiled for; None if that is not known.
      layouts: the layouts of variables.
      used: the variables that something uses.
      descriptors: those of copies.
      cluster: the blocks of the cluster.
      semaphores: the counters in global memory.
      tensor: the tensor memory of the block; None if it has none.
      profiler: what records the scopes of the kernel; None if nothing does.
      is_warp: whether the threads of what is being lowered are single warps, and not warpgroups.
      in_thread: the number of the lane in its thread.
    """

    def __init__(self, name: str, context: Any, threads: int, params: CompilerParams):
        super().__init__(TABLE, name, context, params.lowering_semantics)
        self.params = params
        self.threads = threads
        self.thread_axis: Any = None
        self.axes: dict[Any, Any] = {}
        self.sizes: dict[Any, int] = {}
        self.grid: dict[Any, int] = {}
        self.program: list[tuple[Any, int]] = []
        self.architecture = (9, 0)
        self.devices: Devices | None = None
        self.device: Any = None
        self.layouts: Any = None
        self.used: set[Any] = set()
        self.shared = SharedMemory(threads > 1)
        self.scratch_size = 0
        self.descriptors: Any = None
        self.cluster: Any = None
        self.is_warp = False
        self.semaphores: Any = None
        self.tensor: Any = None
        self.profiler: Any = None
        self.i32 = ir.IntegerType.get_signless(32)
        self.i64 = ir.IntegerType.get_signless(64)

    def start(self) -> None:
        """Emit the position of the lane, and where shared memory is, at the beginning of the kernel."""
        i32 = self.i32
        self.thread_id = arith.index_cast(i32, gpu.thread_id(gpu.Dimension.x))
        self.lane = arith.remui(self.thread_id, integer(WARP))
        # All lanes of a warp have the same numbers of the warp: the compiler must see that.
        warp = uniform(arith.divui(self.thread_id, integer(WARP)))
        self.warp = arith.remui(warp, integer(NUM_WARPS))
        self.warpgroup = arith.divui(warp, integer(NUM_WARPS))
        self.in_warpgroup = arith.remui(self.thread_id, integer(WARPGROUP))
        self.in_thread = self.in_warpgroup
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        i8 = ir.IntegerType.get_signless(8)
        memory = gpu.dynamic_shared_memory(
            ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], i8, memory_space=space)
        )
        from_index = ir.Operation.create(
            "memref.extract_aligned_pointer_as_index",
            results=[ir.IndexType.get()],
            operands=[memory],
        )
        self.shared_base = llvm.inttoptr(
            pointer_type(3), arith.index_cast(self.i64, from_index.result)
        )
        # Known when the kernel has been lowered: where scratch memory is, and how much each thread has.
        self._scratch = [integer(0), integer(0)]
        mine = arith.addi(self._scratch[0], arith.muli(self.warpgroup, self._scratch[1]))
        self._scratch_pointer = self.shared_pointer(Index(0, mine))
        first = integer(0)
        self.at_start = ir.InsertionPoint(first.owner)

    def require(self, what: str, remedy: str, *generations: int) -> None:
        """Note that the kernel has what not all GPUs have.

        Args:
          what: what that is, for errors.
          remedy: what others have.
          generations: the major numbers of the compute capabilities of GPUs that have it.

        Raises:
          ValueError: if the kernel is compiled for another GPU.
        """
        self.architecture = max(self.architecture, (generations[0], 0))
        capability = getattr(self.device, "compute_capability", None)
        if capability is not None and int(str(capability).partition(".")[0]) not in generations:
            known = " and ".join([f"{n}.x" for n in generations])
            raise ValueError(
                f"{self.name} has {what}, which GPUs of compute capability {known} have, but is compiled for {self.device.device_kind} of "
                f"{capability}: {remedy}."
            )

    def scratch_pointer(self, size: int) -> Any:
        """Return a pointer to bytes of shared memory that the thread uses only for a moment."""
        self.scratch_size = max(self.scratch_size, size)
        return self._scratch_pointer

    def finish(self) -> int:
        """Return how much shared memory a block has, after the kernel has been lowered."""
        aligned = lambda n: -(-n // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
        size = aligned(self.scratch_size) if self.threads > 1 else self.scratch_size
        start = aligned(self.shared.most) if size else self.shared.most
        for constant, value in zip(self._scratch, (start, size)):
            constant.owner.attributes["value"] = ir.IntegerAttr.get(self.i32, value)
        end = start + size * self.threads
        if self.profiler is not None:
            end = self.profiler.finish(-(-end // 8) * 8)
        if self.tensor is None:
            return end
        slot = -(-end // 8) * 8
        self.tensor.finish(self, slot)
        return slot + 8

    def shared_pointer(self, offset: Index) -> Any:
        """Return a pointer to shared memory at an offset of bytes."""
        return pointer_at(self.shared_base, offset.value())

    # What the profiler records

    def enter_scope(self, name: str) -> None:
        if self.profiler is not None:
            self.profiler.enter(name)

    def leave_scope(self) -> None:
        if self.profiler is not None:
            self.profiler.leave()

    # Synchronization

    def warpgroup_barrier(self) -> None:
        """Emit a point that all lanes of the warpgroup reach before any of them goes on."""
        name = arith.addi(self.warpgroup, integer(1))
        asm(f"bar.sync $0, {WARPGROUP};", "r", [name])

    def thread_barrier(self) -> None:
        """Emit a point that all lanes of the thread reach before any of them goes on."""
        if self.is_warp:
            nvvm.bar_warp_sync(integer(-1))
        else:
            self.warpgroup_barrier()

    @contextlib.contextmanager
    def between_barriers(self) -> Iterator[None]:
        """Context manager of stores that barriers keep apart from accesses of other lanes, unless the kernel has its own."""
        automatic = not self.params.unsafe_no_auto_barriers
        if automatic:
            self.thread_barrier()
        yield
        if automatic:
            self.thread_barrier()

    @contextlib.contextmanager
    def single_warps(self, axis: Any) -> Iterator[None]:
        """Context manager in which each warp is a thread of its own, whose number is that along an axis."""
        before = self.axes, self.sizes
        self.axes, self.sizes = self.axes | {axis: self.warp}, self.sizes | {axis: NUM_WARPS}
        self.is_warp, self.in_thread = True, self.lane
        yield
        self.axes, self.sizes = before
        self.is_warp, self.in_thread = False, self.in_warpgroup

    def synchronize(self, shared: bool, clusters: bool = False) -> None:
        """Emit a point that threads reach before any of them goes on.

        Args:
          shared: whether these are all of a block, or the lanes of the warpgroup.
          clusters: whether these are all of a cluster.
        """
        if clusters:
            nvvm.cluster_arrive(aligned=True)
            nvvm.cluster_wait(aligned=True)
        elif shared:
            gpu.barrier()
        else:
            self.warpgroup_barrier()

    def one_lane(self) -> Any:
        """Return whether this is the one lane of the thread that does what is done once."""
        if self.is_warp:
            return nvvm.elect_sync()
        return arith.andi(is_first(self.warp), nvvm.elect_sync())


def is_first(number: Any) -> Any:
    """Return whether this is the lane or the warp that has the number 0."""
    return arith.cmpi(arith.CmpIPredicate.eq, number, integer(0))


@contextlib.contextmanager
def only(condition: Any) -> Iterator[None]:
    """Context manager of what only those lanes do for which a condition holds; all if it is None."""
    if condition is None:
        yield
        return
    choice = scf.IfOp(condition)
    with ir.InsertionPoint(choice.then_block):
        yield
        scf.yield_([])


def uniform(x: Any) -> Any:
    """Return a value that is the same in all lanes of a warp, as one that the compiler knows to be."""
    kind = nvvm.ShflKind.idx
    return nvvm.shfl_sync(integer(-1), x, integer(0), integer(31), kind, results=[x.type])


def shared_memory_fence() -> None:
    """Emit what orders this lane's accesses of shared memory before those of the units for tensors and products."""
    kind = ir.Attribute.parse("#nvvm.proxy_kind<async.shared>")
    nvvm.fence_proxy(kind, space=ir.Attribute.parse("#nvvm.shared_space<cta>"))


def tensor_core_fence(before: bool) -> None:
    """Emit what orders operations of Blackwell's tensor core with a point where threads wait for each other.

    Args:
      before: whether they come before that point.
    """
    asm(f"tcgen05.fence::{'before' if before else 'after'}_thread_sync;", "", [])


def pointer_type(space: int = 0) -> Any:
    """Return the type of pointers to global (0) or shared (3) memory."""
    return ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")


def library_call(name: str, *operands: Any) -> Any:
    """Emit a call of a function of CUDA's library whose operands and result have one type."""
    kind, block = operands[0].type, ir.InsertionPoint.current.block
    module = block.owner
    while module.name != "builtin.module":
        module = module.parent
    body = module.regions[0].blocks[0]
    declared = [
        ir.StringAttr(op.attributes["sym_name"]).value for op in body if "sym_name" in op.attributes
    ]
    if name not in declared:
        types = ", ".join([str(kind)] * len(operands))
        body.append(ir.Operation.parse(f"llvm.func @{name}({types}) -> {kind}"))
    callee = ir.FlatSymbolRefAttr.get(name)
    return llvm.CallOp(kind, list(operands), [], [], callee=callee).result


def asm(code: str, constraints: str, operands: Any, result: Any = None) -> Any:
    """Emit instructions of PTX that have effects."""
    if result is None:
        result = ir.Type.parse("!llvm.void")
        llvm.InlineAsmOp(result, operands, code, constraints, has_side_effects=True)
        return None
    return llvm.InlineAsmOp(result, operands, code, constraints, has_side_effects=True).result
