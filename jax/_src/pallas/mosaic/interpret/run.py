"""Applications of kernels that are interpreted as those of a TPU."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import core as jax_core, source_info_util
from jax._src.core import Jaxpr
from jax._src.lax.parallel import axis_index
from jax._src.pallas.blocks import Squeezed
from jax._src.pallas.grid_values import axes_from_outside
from jax._src.pallas.grids import GridMapping, dynamic_grid_dim
from jax._src.pallas.mosaic.copies import get_barrier_semaphore_p
from jax._src.pallas.mosaic.interpret import dma, matrix_units, random, rules, sparse_core
from jax._src.pallas.mosaic.interpret.machine import RULES, Core, Machine
from jax._src.pallas.mosaic.interpret.memory import Buffer, is_far
from jax._src.pallas.mosaic.interpret.params import InterpretParams
from jax._src.pallas.mosaic.interpret.pipeline import (
    Window,
    check_semantics,
    index_of_block,
    points_of_cores,
)
from jax._src.pallas.mosaic.packing import masked_load_p, masked_store_p
from jax._src.pallas.mosaic.tpu_info import TpuInfo, get_tpu_info
from jax._src.pallas.primitives import run_scoped_p
from jax._src.pallas.threaded.devices import device_axes, run_together
from jax._src.pallas.threaded.programs import run_jaxpr
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import int_of
from jax._src.state.primitives import addupdate_p, get_p, swap_p

del dma, matrix_units, random, rules, sparse_core  # imported for the rules that they register

# The axis of the cores among which the points of a grid are divided.
_CORE = ("core of a grid",)


def run_call(
    interpret_params: InterpretParams, *args: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, out_avals: Any,
    input_output_aliases: Any, compiler_params: Any = None, mesh: Any = None, **_: Any,
) -> list[Any]:  # fmt: skip
    """Run a kernel in a callback of the program that applies it.

    Args:
      interpret_params: options.
      *args: the operands of `pallas_call`.
      jaxpr, grid_mapping, out_avals, input_output_aliases, compiler_params, mesh: its parameters.

    Returns:
      The results.
    """
    where = jaxpr.debug_info.func_src_info
    _check(jaxpr, interpret_params, where)
    _check_options(jaxpr, grid_mapping, compiler_params, where)
    devices = device_axes()
    outer = axes_from_outside(jaxpr, grid_mapping, mesh, devices)
    call = _Call(
        interpret_params, jaxpr, grid_mapping, tuple(out_avals), tuple(input_output_aliases),
        compiler_params, mesh, where, devices, outer,
        get_tpu_info() if interpret_params.buffer_bounds == "padded" else None,
    )  # fmt: skip
    positions = [axis_index(n) for n in outer]
    return run_together(call.run, devices, [*positions, *args], out_avals)


def _check_options(jaxpr: Jaxpr, mapping: GridMapping, compiler_params: Any, where: str) -> None:
    """Check the options for the compiler that say how a kernel runs.

    Raises:
      ValueError: if parallel dimensions come after others, or a barrier has no number.
    """
    check_semantics(getattr(compiler_params, "dimension_semantics", None), where)
    if getattr(compiler_params, "collective_id", None) is None and _uses_barrier(jaxpr):
        raise ValueError(
            f"get_barrier_semaphore in {where} needs a collective_id, which says whose barrier it is: give the kernel "
            "compiler_params=pltpu.CompilerParams(collective_id=...)."
        )


def _uses_barrier(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive is get_barrier_semaphore_p
        or any(_uses_barrier(getattr(j, "jaxpr", j)) for j in jax_core.jaxprs_in_params(eqn.params))
        for eqn in jaxpr.eqns
    )


# Primitives that read or write what a core can reach, by the name that errors give them.
_DIRECT = {get_p: "get_p", swap_p: "swap_p", addupdate_p: "addupdate_p", masked_load_p: "load", masked_store_p: "store"}  # fmt: skip


def _check(jaxpr: Jaxpr, params: InterpretParams, where: str) -> None:
    """Check that a TPU could run a kernel's operations on memory.

    Raises:
      ValueError: if it reads or writes HBM otherwise than by copies, or makes references in HBM.
    """
    for eqn in jaxpr.eqns:
        line = source_info_util.summarize(eqn.source_info)
        if eqn.primitive in _DIRECT and is_far(eqn.invars[0].aval.memory_space):
            raise ValueError(
                f"{_DIRECT[eqn.primitive]}: Buffers with a memory space of HBM or ANY cannot be referenced directly, at {line}, "
                f"in {where}. Instead, use `pltpu.sync_copy` or `pltpu.async_copy`."
            )
        if eqn.primitive is run_scoped_p and not params.allow_hbm_allocation_in_run_scoped:
            types = eqn.params["jaxpr"].in_avals[len(eqn.invars) :]
            if any([is_far(a.memory_space) for a in types]):
                raise ValueError(
                    f"Cannot allocate HBM in `run_scoped`, at {line}, in {where}. Give InterpretParams "
                    "allow_hbm_allocation_in_run_scoped=True, for kernels that are only interpreted."
                )
        for j in jax_core.jaxprs_in_params(eqn.params):
            _check(getattr(j, "jaxpr", j), params, where)


@dataclasses.dataclass(frozen=True)
class _Call:
    """An application of a kernel, which can be run with arrays."""

    params: InterpretParams
    jaxpr: Jaxpr
    mapping: GridMapping
    out_avals: tuple[Any, ...]
    aliases: tuple[tuple[int, int], ...]
    compiler_params: Any
    mesh: Any
    where: str
    devices: Mapping[Any, int]
    outer: Sequence[Any]
    chip: TpuInfo | None

    def run(self, args_of_devices: Sequence[Sequence[Any]]) -> list[list[np.ndarray]]:
        """Run the kernel on all devices, and return the results of each."""
        m, k = self.mapping, len(self.outer)
        n = k + m.num_dynamic_grid_bounds
        grids = []
        for args in args_of_devices:
            sizes = iter(args[k:n])
            grids.append([int_of(next(sizes)) if d is dynamic_grid_dim else d for d in m.grid])
        outs = [[self._result(a) for a in self.out_avals] for _ in args_of_devices]
        for args, results in zip(args_of_devices, outs):
            for i, o in self.aliases:
                results[o] = args[n + i]
        hidden = [range(grids[0][i]) for i in m.vmapped_dims]
        for at in itertools.product(*hidden):
            fixed = dict(zip(m.vmapped_dims, at))
            machine = self._machine()
            for device, args in enumerate(args_of_devices):
                positions = dict(zip(self.outer, map(int_of, args[:k])))
                given = [*args[n:], *outs[device]]
                self._start(machine, device, positions, grids[device], fixed, given)
            machine.run()
            for core in machine.cores:
                for buffer in core.buffers.values():
                    machine.report_counts(buffer)
        return outs

    def _machine(self) -> Machine:
        cores: dict[Any, int] = {_CORE: self.params.num_cores_or_threads}
        if self.mesh is not None:
            cores = dict(self.mesh.shape)
        barrier = getattr(self.compiler_params, "collective_id", None)
        subcores = getattr(self.mesh, "subcore_axis_name", None)
        return Machine(self.params, self.where, self.devices, cores, self.chip, barrier, subcores)

    def _result(self, aval: Any) -> np.ndarray:
        # What no run writes.
        return self._machine().memory.empty(aval.shape, aval.dtype)

    def _start(
        self, machine: Machine, device: int, positions: dict[Any, int], grid: Sequence[int],
        fixed: Mapping[int, int], given: Sequence[np.ndarray],
    ) -> None:  # fmt: skip
        """Let the cores of a device run their points of the grid."""
        m = self.mapping
        axes = m.kernel_axes
        scalars, arrays = given[: m.num_index_operands], given[m.num_index_operands :]
        cores = [c for c in machine.cores if c.device is machine.devices[device]]
        sizes = [grid[i] for i in axes]
        if self.mesh is not None:
            shares = [[at] for at in itertools.product(*map(range, sizes))]
        else:
            semantics = getattr(self.compiler_params, "dimension_semantics", None)
            shares = points_of_cores(sizes, semantics, self.params)
        buffers = self._buffers(machine, device, fixed, scalars, arrays)
        for core, points in zip(cores, shares):
            core.positions.update(positions)
            core.positions.update({("num_programs", k): d for k, d in enumerate(sizes)})
            run = self._run_core(machine, core, points, fixed, scalars, buffers)
            machine.spawn(core, run)

    def _buffers(
        self, machine: Machine, device: int, fixed: Mapping[int, int], scalars: Any, arrays: Any
    ) -> list[Buffer]:
        """Return the buffers in HBM of the arguments and results of a device."""
        m = self.mapping
        out: list[Buffer] = []
        aliased = {m.num_inputs + o: i - m.num_index_operands for i, o in self.aliases}
        start = [fixed.get(i, 0) for i in range(len(m.grid))]
        for i, (b, array) in enumerate(zip(m.block_mappings, arrays)):
            if is_far(b.block_aval.memory_space):
                index = index_of_block(RULES, b, start, scalars)
                array = array[tuple([
                    at if isinstance(d, Squeezed) else slice(None)
                    for d, at in zip(b.block_shape, index)
                ]) + (...,)]  # fmt: skip
                if array.shape != tuple(b.block_aval.shape):
                    raise ValueError(
                        f"Blocks in HBM and ANY are whole arrays: that of {b.origin} in {self.where} has the shape "
                        f"{tuple(b.block_aval.shape)}, the array {array.shape}."
                    )
            name = f"{b.origin} of {machine.devices[device].name}"
            buffer = Buffer(array, name, ("operand", i))
            if aliased.get(i, -1) >= 0:
                buffer.accesses = out[aliased[i]].accesses
            machine.devices[device].buffers[buffer.key] = buffer
            out.append(buffer)
        return out

    def _run_core(
        self, machine: Machine, core: Core, points: Sequence[tuple[int, ...]],
        fixed: Mapping[int, int], scalars: Sequence[np.ndarray], arrays: Sequence[Buffer],
    ) -> Run:  # fmt: skip
        m, memory = self.mapping, machine.memory
        names = m.grid_names
        operands = [
            Buffer(s.copy(), f"operand {i} of index maps on {core.name}", ("scalar", i))
            for i, s in enumerate(scalars)
        ]
        windows, refs = [], []
        for i, (b, array) in enumerate(zip(m.block_mappings, arrays)):
            if is_far(b.block_aval.memory_space):
                refs.append(array)
                continue
            block = machine.allocate(
                core, b.block_aval, f"the block of {b.origin}", ("block", i), False
            )
            windows.append(Window(b, array, block, i >= m.num_inputs))
            refs.append(block)
        scratch = [
            machine.allocate(core, a, f"scratch {i}", ("scratch", i), False)
            for i, a in enumerate(m.scratch_avals)
        ]
        for buffer in operands:
            core.buffers[buffer.key] = buffer
        for point in points:
            at = self._whole_point(point, fixed)
            core.positions.update({("program_id", k): i for k, i in enumerate(point)})
            if names is not None:
                core.positions.update({names[i]: at[i] for i in m.kernel_axes})
            if self.params.grid_point_recorder is not None:
                coordinates = tuple([np.int32(i) for i in point])
                self.params.grid_point_recorder(np.int32(0), coordinates, np.int32(core.number))
            places = [index_of_block(RULES, w.mapping, at, scalars) for w in windows]
            for w, index in zip(windows, places):
                w.leave(memory, core, index)
            for w, index in zip(windows, places):
                w.enter(memory, core, index)
            yield from run_jaxpr(machine, core, self.jaxpr, (), [*operands, *refs, *scratch])
        for w in windows:
            w.leave(memory, core, None)

    def _whole_point(self, point: Sequence[int], fixed: Mapping[int, int]) -> tuple[int, ...]:
        """Return a point of the grid with the dimensions that `vmap` added."""
        own = iter(point)
        return tuple([fixed[i] if i in fixed else next(own) for i in range(len(self.mapping.grid))])
