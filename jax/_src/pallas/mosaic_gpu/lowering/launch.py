"""The module of a kernel: the function of the host that starts it, and the program of a lane."""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jax._src.lib import jax_mlir_ext
from jax._src.lib.mlir import ir, passmanager
from jax._src.lib.mlir.dialects import arith, builtin, func, gpu, llvm
from jax._src.pallas.mosaic_gpu.layouts import WARPGROUP
from jax._src.pallas.mosaic_gpu.lowering.copies import Box, initialize_descriptor
from jax._src.pallas.mosaic_gpu.lowering.devices import Devices
from jax._src.pallas.mosaic_gpu.lowering.indices import integer, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, pointer_type

_DESCRIPTOR_BYTES, _DESCRIPTOR_ALIGNMENT = 128, 64
_MOST_PARAMETERS = 32 * 1024 - 512  # bytes of descriptors, besides pointers
_MOST_SHARED = 227 * 1024  # bytes, of a block on Hopper and Blackwell GPUs
_DIALECTS = ("arith", "builtin", "cf", "func", "gpu", "llvm", "math", "memref", "nvvm", "scf", "vector")  # fmt: skip


def new_context() -> Any:
    """Return an MLIR context with the dialects of kernels' modules."""
    registry = ir.DialectRegistry()
    jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    for name in _DIALECTS:
        context.get_dialect_descriptor(name)
    return context


class Descriptors:
    """The descriptors of copies, which the host makes and the kernel is given.

    While the kernel is lowered, an undefined pointer stands for each. Boxes of other devices have a descriptor for each
    device, beside each other.

    Args:
      at_start: where the kernel begins.
      devices: the devices that run it together; None if it does not refer to others.
    """

    def __init__(self, at_start: Any, devices: Devices | None):
        self.at_start = at_start
        self.devices = devices
        self.found: dict[Box, Any] = {}

    def get(self, box: Box, device: Any = None) -> Any:
        """Return a pointer to the descriptor of a box, of one of other devices to that of a device's number."""
        if box not in self.found:
            with self.at_start:
                self.found[box] = llvm.mlir_undef(pointer_type())
        first = self.found[box]
        if device is None:
            return first
        return pointer_at(first, arith.muli(device, integer(_DESCRIPTOR_BYTES)))

    def _of(self, box: Box, operands: Sequence[Any], metadata: Any) -> list[Any]:
        """Return pointers to the arrays of the descriptors of a box."""
        own = operands[box.operand]
        if not box.of_others:
            return [own]
        assert self.devices is not None
        numbers = range(self.devices.count)
        return [self.devices.pointer_on_host(metadata, box.operand, own, i) for i in numbers]

    def emit(self, before: Any, operands: Sequence[Any], metadata: Any) -> None:
        """Emit the descriptors.

        Args:
          before: the operation of the host that starts the kernel.
          operands: pointers to the kernel's operands.
          metadata: pointer to what XLA says of other devices; None if nothing.
        """
        if not self.found:
            return
        i64 = ir.IntegerType.get_signless(64)
        assert self.devices is not None or not any([b.of_others for b in self.found])
        counts = [self.devices.count if b.of_others and self.devices else 1 for b in self.found]
        starts = [_DESCRIPTOR_BYTES * n for n in itertools.accumulate(counts, initial=0)]
        if starts[-1] > _MOST_PARAMETERS:
            raise ValueError(
                f"The kernel copies from or to so many parts of the memory of other devices that the descriptors of copies have {starts[-1]} bytes, but "
                f"kernels have at most {_MOST_PARAMETERS} bytes of parameters: copy parts of the same shape, or exchange less by copies."
            )
        kind = ir.Type.parse(f"!llvm.array<{starts[-1]} x i8>")
        with ir.InsertionPoint(before):
            memory = llvm.alloca(
                pointer_type(), integer(1, i64), kind, alignment=_DESCRIPTOR_ALIGNMENT
            )
            for start, box in zip(starts, self.found):
                for i, array in enumerate(self._of(box, operands, metadata)):
                    at = pointer_at(memory, start + i * _DESCRIPTOR_BYTES)
                    initialize_descriptor(at, array, box)
            given = llvm.load(kind, memory)
        with self.at_start:
            pointer = builtin.unrealized_conversion_cast([pointer_type()], [given])
            for start, placeholder in zip(starts, self.found.values()):
                placeholder.replace_all_uses_with(pointer_at(pointer, start))
                placeholder.owner.erase()


def make_module(
    kernel: GpuKernel, name: str, operands: int, blocks: int, cluster: int, body: Callable[[list[Any]], None]
) -> Any:  # fmt: skip
    """Return the module of a kernel.

    Args:
      kernel: the kernel.
      name: its name.
      operands: how many arrays it has, arguments and results. If the kernel refers to other devices, what XLA says of
        them is given after these, in the memory of the device and in that of the host.
      blocks, cluster: how many blocks there are, and how many of them a cluster has.
      body: function that emits the program of a lane, given pointers to the arrays.
    """
    module = ir.Module.create()
    attributes = module.operation.attributes
    attributes["sym_name"] = ir.StringAttr.get(name)
    pointer, i64 = pointer_type(), kernel.i64
    with ir.InsertionPoint(module.body):
        made = [pointer, pointer, i64, i64, pointer, pointer, i64, pointer]
        func.FuncOp("mosaic_gpu_init_tma_desc", (made, []), visibility="private")
        llvm.GlobalOp(
            ir.Type.parse("!llvm.array<0 x i8>"),
            "global_scratch",
            ir.Attribute.parse("#llvm.linkage<external>"),
            addr_space=4,
        )
        host = func.FuncOp(f"{name}_mosaic_gpu", ([pointer, pointer], []))
        host.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        entry = host.add_entry_block()
    with ir.InsertionPoint(entry):
        stream, buffers = entry.arguments
        token = builtin.unrealized_conversion_cast([gpu.AsyncTokenType.get()], [stream])
        arrays = []
        for i in range(operands + (2 if kernel.devices else 0)):
            arrays.append(llvm.load(pointer, pointer_at(buffers, i, pointer)))
        _launch(kernel, token, arrays[:operands], arrays[operands:], blocks, cluster, body)
        func.ReturnOp([])
    for key, value in zip(("arch_major", "arch_minor"), kernel.architecture):
        attributes[f"mosaic_gpu.{key}"] = ir.IntegerAttr.get(kernel.i32, value)
    if kernel.devices:
        attributes["mosaic_gpu.collective_metadata_used"] = ir.UnitAttr.get()
    return module


def _launch(
    kernel: GpuKernel, token: Any, arrays: list[Any], metadata: list[Any], blocks: int, cluster: int,
    body: Callable[[list[Any]], None],
) -> None:  # fmt: skip
    index = ir.IndexType.get()
    one = arith.constant(index, 1)
    threads = arith.constant(index, kernel.threads * WARPGROUP)
    grid = [arith.constant(index, blocks), one, one]
    clusters = [arith.constant(index, cluster), one, one] if cluster > 1 else []
    shared = integer(0)
    sizes = [1, 1, 1, 1, 1, 1, 1, *[len(clusters) // 3] * 3, 1]
    sizes += [0] * (len(gpu.LaunchOp._ODS_OPERAND_SEGMENTS) - len(sizes))  # later ones have more
    launch = ir.Operation.create(
        "gpu.launch",
        results=[gpu.AsyncTokenType.get()],
        operands=[token, *grid, threads, one, one, *clusters, shared],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get(sizes)},
        regions=1,
    )
    n = 18 if clusters else 12
    block = launch.regions[0].blocks.append(*[index] * n, arg_locs=[ir.Location.current] * n)
    with ir.InsertionPoint(block):
        kernel.start()
        kernel.descriptors = Descriptors(kernel.at_start, kernel.devices)
        if kernel.devices:
            kernel.devices.start(metadata[0])
        body(arrays)
        gpu.terminator()
    kernel.descriptors.emit(launch, arrays, metadata[1] if metadata else None)
    most = kernel.finish()
    if most > _MOST_SHARED:
        less = (
            ", or fewer concurrent steps"
            if kernel.profiler is None
            else ", fewer concurrent steps, or less profile_space"
        )
        raise ValueError(
            f"{kernel.name} has {most} bytes of shared memory, but a block of a GPU at most {_MOST_SHARED}: take smaller buffers{less}."
        )
    shared.owner.attributes["value"] = ir.IntegerAttr.get(kernel.i32, most)


def serialized(module: Any) -> tuple[bytes, bytes]:
    """Return a module in the format that all versions of the compiler read, and its hash."""
    context = module.context
    context.allow_unregistered_dialects = True  # the stable form has operations of no dialect
    with context:
        passmanager.PassManager.parse("builtin.module(mosaic_gpu-serde{serialize=true})").run(
            module.operation
        )
    out = io.BytesIO()
    module.operation.write_bytecode(out, desired_version=0)
    code = out.getvalue()
    return code, hashlib.sha256(code).digest()
