"""Applications of interpreted kernels: arrays in and out of global memory, and the grid."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.callback import pure_callback
from jax._src.core import Jaxpr, ShapeDtypeStruct
from jax._src.indexing import Slice
from jax._src.lax.parallel import axis_index
from jax._src.pallas.blocks import BlockMapping, Element, Squeezed
from jax._src.pallas.grids import GridMapping, dynamic_grid_dim
from jax._src.pallas.memory import MemorySpace as AnySpace
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.interpret import rules
from jax._src.pallas.mosaic_gpu.interpret.machine import RULES, Machine, Thread
from jax._src.pallas.mosaic_gpu.interpret.memory import Buffer, allocate
from jax._src.pallas.threaded.host import programs_in_this_thread
from jax._src.pallas.threaded.programs import axes_asked_for, run_index_map, run_jaxpr
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import filled, int_of, read_with_padding, write_inside
from jax._src.state.indexing import NDIndexer

del rules  # imported for the rules that it registers


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
    own = set(grid_mapping.grid_names or ()) | set(() if mesh is None else mesh.shape)
    outer = sorted(axes_asked_for(jaxpr) - own, key=str)
    call = functools.partial(
        _run, interpret_params, jaxpr, grid_mapping, tuple(out_avals), tuple(input_output_aliases),
        mesh, outer,
    )  # fmt: skip
    results = [ShapeDtypeStruct(a.shape, a.dtype) for a in out_avals]
    return list(pure_callback(call, results, *args, *[axis_index(n) for n in outer]))


class _Call:
    """An application with its arrays."""

    def __init__(self, params: Any, jaxpr: Jaxpr, mapping: GridMapping, mesh: Any, outer: Any):
        self.params = params
        self.jaxpr = jaxpr
        self.mapping = mapping
        self.mesh = mesh
        self.outer = outer
        self.where = jaxpr.debug_info.func_src_info
        self.zero = params.uninitialized_memory == "zero"

    def machine(self, mesh: Any, refs: Sequence[Any], coordinates: dict[Any, int]) -> Machine:
        """Return a machine whose threads run the kernel on references."""

        def start(thread: Thread) -> Run:
            thread.positions.update(coordinates)
            return run_jaxpr(machine, thread, self.jaxpr, (), refs)

        machine = Machine(self.params, mesh, self.where, start)
        return machine


def _run(*args: Any) -> list[Any]:
    with programs_in_this_thread():
        return _run_kernel(*args)


def _run_kernel(
    params: Any, jaxpr: Jaxpr, mapping: GridMapping, out_avals: Any, aliases: Any, mesh: Any,
    outer: Sequence[Any], *args: Any,
) -> list[Any]:  # fmt: skip
    args = tuple([np.array(a) for a in args])
    n = len(args) - len(outer)
    positions = {name: int_of(x) for name, x in zip(outer, args[n:])}
    sizes, operands = (
        args[: mapping.num_dynamic_grid_bounds],
        args[mapping.num_dynamic_grid_bounds : n],
    )
    dynamic = iter(sizes)
    grid = [int_of(next(dynamic)) if d is dynamic_grid_dim else d for d in mapping.grid]
    call = _Call(params, jaxpr, mapping, mesh, positions)
    outs = [filled(a.shape, a.dtype, call.zero) for a in out_avals]
    for i, o in aliases:
        outs[o] = operands[i]
    k = mapping.num_index_operands
    scalars, arrays = operands[:k], [*operands[k:], *outs]
    if mesh is not None:
        _run_on_mesh(call, grid, scalars, arrays)
    else:
        _run_over_grid(call, grid, scalars, arrays)
    return outs


def _run_on_mesh(call: _Call, grid: Sequence[int], scalars: Any, arrays: Any) -> None:
    """Run a kernel over a mesh, once for each position along dimensions that `vmap` added."""
    m = call.mapping
    hidden = set(m.vmapped_dims)
    ranges = [range(d) if i in hidden else range(1) for i, d in enumerate(grid)]
    for at in itertools.product(*ranges):
        refs = [Buffer(s, "an operand of index maps") for s in scalars]
        for b, array in zip(m.block_mappings, arrays):
            index = [
                slice(None) if not isinstance(d, Squeezed) else i
                for d, i in zip(b.block_shape, _block_index(b, at, scalars))
            ]
            refs.append(Buffer(array[(*index, ...)], b.origin))
        scratch = [_scratch(call, a, i) for i, a in enumerate(m.scratch_avals)]
        call.machine(call.mesh, [*refs, *scratch], call.outer).run()


def _scratch(call: _Call, aval: Any, i: int) -> Buffer:
    return allocate(aval, f"scratch {i}", i, call.zero, lambda axes: 1)


def _block_index(b: BlockMapping, at: Sequence[int], scalars: Sequence[Any]) -> list[int]:
    closed = b.index_map_jaxpr
    args = [*[np.int32(i) for i in at], *[Buffer(s, "an operand of index maps") for s in scalars]]
    taken = args[: len(closed.jaxpr.invars)]
    return [int_of(x) for x in run_index_map(RULES, closed.jaxpr, closed.consts, taken)]


def _run_over_grid(call: _Call, grid: Sequence[int], scalars: Any, arrays: Any) -> None:
    """Run a kernel for each point of a grid, with blocks in shared memory."""
    m = call.mapping
    scratch = [_scratch(call, a, i) for i, a in enumerate(m.scratch_avals)]
    seen = [d for i, d in enumerate(grid) if i not in m.vmapped_dims]
    for at in itertools.product(*map(range, grid)):
        refs, results = [], []
        for i, (b, array) in enumerate(zip(m.block_mappings, arrays)):
            index = _block_index(b, at, scalars)
            part = _part(b, array, index)
            if part is not None:
                refs.append(Buffer(part, b.origin))
                continue
            transforms = _block_transforms(b, index)
            fill = filled((), array.dtype, call.zero)
            block = Buffer(read_with_padding(array, transforms, fill), b.origin)
            refs.append(block)
            if i >= m.num_inputs:
                results.append((block, array, transforms))
        own = [i for k, i in enumerate(at) if k not in m.vmapped_dims]
        coordinates: dict[Any, int] = dict(call.outer)
        coordinates |= {("program_id", k): i for k, i in enumerate(own)}
        coordinates |= {("num_programs", k): d for k, d in enumerate(seen)}
        operands = [Buffer(s, "an operand of index maps") for s in scalars]
        call.machine(None, [*operands, *refs, *scratch], coordinates).run()
        for block, array, transforms in results:
            write_inside(array, transforms, block.array)


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
