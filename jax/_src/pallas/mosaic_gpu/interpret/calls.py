"""Applications of interpreted kernels: arrays in and out of global memory, and the grid."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jax._src.callback import pure_callback
from jax._src.core import Jaxpr, ShapeDtypeStruct
from jax._src.indexing import Slice
from jax._src.lax.parallel import axis_index
from jax._src.pallas.blocks import BlockMapping, Element, Squeezed
from jax._src.pallas.grid_values import axes_from_outside
from jax._src.pallas.grids import GridMapping, dynamic_grid_dim
from jax._src.pallas.memory import MemorySpace as AnySpace
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.devices import reaches_other_devices
from jax._src.pallas.mosaic_gpu.interpret import rules
from jax._src.pallas.mosaic_gpu.interpret.machine import RULES, Device, Machine, Thread
from jax._src.pallas.mosaic_gpu.interpret.memory import Buffer, allocate
from jax._src.pallas.threaded.devices import device_axes, run_together
from jax._src.pallas.threaded.host import programs_in_this_thread
from jax._src.pallas.threaded.programs import run_index_map, run_jaxpr
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import filled, int_of, read_with_padding, write_inside
from jax._src.state.indexing import NDIndexer

del rules  # imported for the rules that it registers
_ARRAY = "array"  # in the key of an argument or a result in global memory


def run_call(
    interpret_params: Any, *args: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, out_avals: Any,
    input_output_aliases: Any, mesh: Any = None, **_: Any,
) -> list[Any]:  # fmt: skip
    """Run a kernel in a callback of the program that applies it.

    Args:
      interpret_params: options.
      *args: the operands of `pallas_call`.
      jaxpr, grid_mapping, out_avals, input_output_aliases, mesh: its parameters.

    Returns:
      The results.
    """
    devices = device_axes() if reaches_other_devices(jaxpr) else {}
    outer = axes_from_outside(jaxpr, grid_mapping, mesh, devices)
    call = _Call(
        interpret_params, jaxpr, grid_mapping, tuple(out_avals), tuple(input_output_aliases), mesh, outer, devices
    )  # fmt: skip
    args = (*args, *[axis_index(n) for n in outer])
    if devices:
        return run_together(call.run, devices, args, out_avals)
    results = [ShapeDtypeStruct(a.shape, a.dtype) for a in out_avals]
    return list(pure_callback(call.run_alone, results, *args))


@dataclasses.dataclass(frozen=True)
class _Call:
    """An application of a kernel, which can be run with arrays.

    Attributes:
      params: the interpreter's options.
      jaxpr, mapping, out_avals, aliases, mesh: the application's parameters.
      outer: the axes along which positions are given after the operands.
      device_axes: the sizes of the axes of the mesh of devices that run it together.
    """

    params: Any
    jaxpr: Jaxpr
    mapping: GridMapping
    out_avals: tuple[Any, ...]
    aliases: tuple[tuple[int, int], ...]
    mesh: Any
    outer: Sequence[Any]
    device_axes: Mapping[Any, int]

    @property
    def zero(self) -> bool:
        return self.params.uninitialized_memory == "zero"

    def run_alone(self, *args: Any) -> list[Any]:
        """Run the kernel on one device, and return its results."""
        with programs_in_this_thread():
            (outs,) = self.run([args])
        return outs

    def run(self, args_of_devices: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Run the kernel on all devices, and return the results of each."""
        points = itertools.product(*[range(n) for n in self.device_axes.values()])
        coordinates = [dict(zip(self.device_axes, at)) for at in points]
        given = [_Given(self, at, args) for at, args in zip(coordinates, args_of_devices)]
        if self.mesh is not None:
            _run_on_mesh(self, given)
        else:
            _run_over_grid(self, given)
        return [g.outs for g in given]

    def run_threads(self, devices: Sequence[Device]) -> None:
        """Run the threads of the mesh, or of one point of the grid, on all devices."""

        def start(thread: Thread) -> Run:
            device = thread.block.device
            thread.positions.update(device.coordinates | device.positions)
            return run_jaxpr(machine, thread, self.jaxpr, (), device.refs)

        where = self.jaxpr.debug_info.func_src_info
        machine = Machine(self.params, self.mesh, where, start, devices, self.device_axes)
        machine.run()


class _Given:
    """What a device is given, and its results.

    Attributes:
      coordinates: its position along the axes of the mesh of devices.
      positions: those along other axes that the kernel asks for.
      grid: the sizes of the grid.
      scalars, arrays: operands of index maps, and arguments and results.
      outs: the results.
    """

    def __init__(self, call: _Call, coordinates: dict[Any, int], args: Sequence[Any]):
        mapping = call.mapping
        args = tuple([np.array(a) for a in args])
        n, d = len(args) - len(call.outer), mapping.num_dynamic_grid_bounds
        self.coordinates = coordinates
        self.positions = {name: int_of(x) for name, x in zip(call.outer, args[n:])}
        sizes, operands = iter(args[:d]), args[d:n]
        self.grid = [int_of(next(sizes)) if s is dynamic_grid_dim else s for s in mapping.grid]
        self.outs = [filled(a.shape, a.dtype, call.zero) for a in call.out_avals]
        for i, o in call.aliases:
            self.outs[o] = operands[i]
        k = mapping.num_index_operands
        self.scalars, self.arrays = operands[:k], [*operands[k:], *self.outs]

    def index_operands(self) -> list[Buffer]:
        return [Buffer(s, "an operand of index maps") for s in self.scalars]

    def device(self, refs: Sequence[Buffer], positions: Mapping[Any, int] | None = None) -> Device:
        """Return the device, which has references and knows positions in the grid."""
        out = Device(self.coordinates, self.positions | dict(positions or {}), refs)
        for r in refs:
            if r.key is not None and (r.is_semaphores or r.key[0] == _ARRAY):
                out.buffers[r.key] = r
        return out


def _run_on_mesh(call: _Call, given: Sequence[_Given]) -> None:
    """Run a kernel over a mesh, once for each position along dimensions that `vmap` added."""
    m = call.mapping
    hidden = set(m.vmapped_dims)
    ranges = [range(d) if i in hidden else range(1) for i, d in enumerate(given[0].grid)]
    for at in itertools.product(*ranges):
        devices = []
        for g in given:
            refs = g.index_operands()
            for i, (b, array) in enumerate(zip(m.block_mappings, g.arrays)):
                index = [
                    slice(None) if not isinstance(d, Squeezed) else i
                    for d, i in zip(b.block_shape, _block_index(b, at, g.scalars))
                ]
                refs.append(Buffer(array[(*index, ...)], b.origin, (_ARRAY, i)))
            devices.append(g.device([*refs, *_scratch(call)]))
        call.run_threads(devices)


def _scratch(call: _Call) -> list[Buffer]:
    avals = call.mapping.scratch_avals
    return [
        allocate(a, f"scratch {i}", ("scratch", i), call.zero, lambda axes: 1)
        for i, a in enumerate(avals)
    ]


def _block_index(b: BlockMapping, at: Sequence[int], scalars: Sequence[Any]) -> list[int]:
    closed = b.index_map_jaxpr
    args = [*[np.int32(i) for i in at], *[Buffer(s, "an operand of index maps") for s in scalars]]
    taken = args[: len(closed.jaxpr.invars)]
    return [int_of(x) for x in run_index_map(RULES, closed.jaxpr, closed.consts, taken)]


def _run_over_grid(call: _Call, given: Sequence[_Given]) -> None:
    """Run a kernel for each point of a grid, with blocks in shared memory."""
    m = call.mapping
    scratch = [_scratch(call) for _ in given]
    grid = given[0].grid
    seen = [d for i, d in enumerate(grid) if i not in m.vmapped_dims]
    for at in itertools.product(*map(range, grid)):
        own = [i for k, i in enumerate(at) if k not in m.vmapped_dims]
        positions: dict[Any, int] = {("program_id", k): i for k, i in enumerate(own)}
        positions |= {("num_programs", k): d for k, d in enumerate(seen)}
        devices, results = [], []
        for g, of_device in zip(given, scratch):
            refs = g.index_operands()
            for i, (b, array) in enumerate(zip(m.block_mappings, g.arrays)):
                ref, transforms = _block(call, b, array, _block_index(b, at, g.scalars), i)
                refs.append(ref)
                if transforms is not None and i >= m.num_inputs:
                    results.append((ref, array, transforms))
            devices.append(g.device([*refs, *of_device], positions))
        call.run_threads(devices)
        for block, array, transforms in results:
            write_inside(array, transforms, block.array)


def _block(
    call: _Call, b: BlockMapping, array: Any, index: Sequence[int], i: int
) -> tuple[Buffer, Any]:
    """Return what the reference to a block refers to, and of a block that is a copy which part of the array it is."""
    part = _part(b, array, index)
    if part is not None:
        return Buffer(part, b.origin, (_ARRAY, i)), None
    transforms = _block_transforms(b, index)
    fill = filled((), array.dtype, call.zero)
    return Buffer(read_with_padding(array, transforms, fill), b.origin), transforms


def _part(b: BlockMapping, array: Any, index: Sequence[int]) -> Any:
    """Return the part of an array in global memory that a block is; None for a block that is a copy."""
    if b.block_aval.memory_space not in (MemorySpace.GMEM, AnySpace.ANY):
        return None
    entries: list[Any] = []
    for d, i, n in zip(b.block_shape, index, array.shape):
        if isinstance(d, Squeezed):
            entries.append(i)
            continue
        size = getattr(d, "block_size", None)
        start = i if isinstance(d, Element) else i * (size or 0)
        if size is None or getattr(d, "padding", (0, 0)) != (0, 0) or not 0 <= start <= n - size:
            return None
        entries.append(slice(start, start + size))
    return array[(*entries, ...)]


def _block_transforms(b: BlockMapping, index: Sequence[int]) -> tuple[Any, ...]:
    entries: list[Any] = []
    for d, i in zip(b.block_shape, index):
        if isinstance(d, Squeezed):
            entries.append(i)
        elif isinstance(d, Element):
            entries.append(Slice(np.int32(i - d.padding[0]), d.block_size))
        else:
            size = d.block_size
            entries.append(Slice(np.int32(i * size), size))
    return (NDIndexer(entries, b.array_aval.shape),) if entries else ()
