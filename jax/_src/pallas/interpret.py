"""Runs kernels as programs of XLA: a loop over the grid, in which references are arrays.

The blocks of arguments are read at each point of the grid. Results, scratch arrays and arguments to
which the kernel writes are carried, and blocks of results are written back. Blocks that are the same
along the last dimension of the grid are read and written once for all its points: an inner loop
carries those to which the kernel writes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core
from jax._src.core import ClosedJaxpr, Jaxpr
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import loops
from jax._src.lax.parallel import axis_index_p
from jax._src.pallas.blocks import (
    Blocked,
    BlockMapping,
    BoundedSlice,
    Element,
    Indirect,
    Squeezed,
)
from jax._src.pallas.global_refs import with_global_refs_as_arguments
from jax._src.pallas.grid_values import GridValue, with_grid_values
from jax._src.pallas.grids import GridMapping, dynamic_grid_dim
from jax._src.pallas.primitives import num_programs_p, program_id_p
from jax._src.pallas.values import initial_value, uninitialized, uninitialized_scalar
from jax._src.state.discharge import eval_discharged, written


def run_over_grid(
    jaxpr: Jaxpr, mapping: GridMapping, aliases: Sequence[tuple[int, int]], args: Sequence[Any]
) -> list[Any]:
    """Run a kernel for each point of its grid, in row-major order.

    Args:
      jaxpr: the kernel.
      mapping: its grid and blocks.
      aliases: pairs of an operand, without sizes of the grid, and a result that starts with its value.
      args: the operands of the application.

    Returns:
      The results.
    """
    jaxpr, more = with_global_refs_as_arguments(jaxpr)
    mapping = mapping.replace(scratch_avals=(*mapping.scratch_avals, *more))
    grid, args = _grid_sizes(mapping, args)
    num_scalars = mapping.num_index_operands
    scalars, inputs = args[:num_scalars], args[num_scalars:]
    initial = dict((o, args[i]) for i, o in aliases)
    ins, outs = mapping.in_block_mappings, mapping.block_mappings_output
    inputs = [_padded(x, m) for x, m in zip(inputs, ins)]
    results = [
        _padded(initial[i] if i in initial else uninitialized(m.array_aval), m)
        for i, m in enumerate(outs)
    ]
    scratch = [initial_value(a) for a in mapping.scratch_avals]
    operands = [*scalars, *inputs]
    # An operand that the kernel writes to is carried.
    carried = [i for i in range(len(operands)) if i in written(jaxpr)]
    arrays = {i - num_scalars: operands[i] for i in carried if i >= num_scalars}
    arrays |= {len(ins) + i: x for i, x in enumerate(results)}
    state = _State({i: scalars[i] for i in carried if i < num_scalars}, arrays, {}, scratch)
    call = _Call(jaxpr, mapping, grid, scalars, inputs)
    state = _run(call, state)
    return [_without_padding(state.arrays[len(ins) + i], m) for i, m in enumerate(outs)]


class _State(NamedTuple):
    """What changes from point to point.

    Attributes:
      scalars: operands of index maps to which the kernel writes, by position.
      arrays: operands to which the kernel writes, and results, by the position of their blocks.
      blocks: blocks of such arrays that are written back later.
      scratch: scratch arrays.
    """

    scalars: dict[int, Any]
    arrays: dict[int, Any]
    blocks: dict[int, Any]
    scratch: list[Any]


class _Call(NamedTuple):
    """A kernel, its grid with traced sizes, and its operands as they are at first."""

    jaxpr: Jaxpr
    mapping: GridMapping
    grid: Sequence[Any]
    scalars: Sequence[Any]
    inputs: Sequence[Any]

    def scalars_in(self, state: _State) -> list[Any]:
        return [state.scalars.get(i, x) for i, x in enumerate(self.scalars)]

    def read(self, b: int, state: _State, places: Sequence[Any] | None) -> Any:
        x = state.arrays[b] if b in state.arrays else self.inputs[b]
        return _read(x, self.mapping.block_mappings[b], places)

    def constant_blocks(self, axis: int, state: _State) -> list[int]:
        """Return which blocks are the same along a dimension of the grid, but for whole arrays."""
        return [
            b
            for b, m in enumerate(self.mapping.block_mappings)
            if not (m.has_trivial_window() or _is_irregular(m))
            and _is_constant(m, [axis, *[len(self.grid) + i for i in state.scalars]])
        ]


def _is_constant(m: BlockMapping, arguments: Sequence[int]) -> bool:
    """Return whether the place of a block depends on none of the arguments of its index map."""
    jaxpr = m.index_map_jaxpr.jaxpr
    used = {v for e in jaxpr.eqns for v in e.invars if type(v) is not core.Literal}
    used.update([v for v in jaxpr.outvars if type(v) is not core.Literal])
    return not any([jaxpr.invars[i] in used for i in arguments])


def _run(call: _Call, state: _State) -> _State:
    grid = call.grid
    if not grid:
        return _step(call, [], state, {})
    last = max([i for i, d in enumerate(grid) if not isinstance(d, int) or d != 1], default=0)
    constant = call.constant_blocks(last, state) if last else []
    outer = grid[:last] if constant else grid
    steps = math.prod(outer) if all([isinstance(d, int) for d in outer]) else _product(outer)

    def body(step: Any, state: _State) -> _State:
        index = _grid_index(step, outer)
        if constant:
            return _steps_along(call, index, state, constant)
        return _step(call, index, state, {})

    return loops.fori_loop(np.int32(0), steps, body, state)


def _steps_along(
    call: _Call, index: Sequence[Any], state: _State, constant: Sequence[int]
) -> _State:
    """Run the kernel for all points along a dimension of the grid.

    Args:
      call: the kernel.
      index: the position in the dimensions before; those after it have one element.
      state: what changes.
      constant: blocks that are the same at all these points.
    """
    mappings, zeros = call.mapping.block_mappings, [np.int32(0)] * (len(call.grid) - len(index))
    scalars = call.scalars_in(state)
    places = {b: _places(mappings[b], [*index, *zeros], scalars) for b in constant}
    blocks = {b: call.read(b, state, places[b]) for b in constant}
    unwritten = {b: x for b, x in blocks.items() if b not in state.arrays}
    start = state._replace(
        arrays={b: x for b, x in state.arrays.items() if b not in blocks},
        blocks={b: x for b, x in blocks.items() if b in state.arrays},
    )
    size = call.grid[len(index)]
    body = lambda i, state: _step(call, [*index, i, *zeros[1:]], state, unwritten)
    end = loops.fori_loop(np.int32(0), size, body, start)
    arrays = {
        b: _write(x, mappings[b], places[b], end.blocks[b]) if b in blocks else end.arrays[b]
        for b, x in state.arrays.items()
    }
    return end._replace(arrays=arrays, blocks={})


def _step(call: _Call, index: Sequence[Any], state: _State, unwritten: dict[int, Any]) -> _State:
    """Run the kernel at a point of the grid.

    Args:
      call: the kernel.
      index: the point.
      state: what changes.
      unwritten: blocks that were read before, and to which the kernel does not write.
    """
    scalars, places, blocks = call.scalars_in(state), {}, unwritten | state.blocks
    mappings = call.mapping.block_mappings
    for b, m in enumerate(mappings):
        if b not in blocks:
            places[b] = _places(m, index, scalars)
            blocks[b] = call.read(b, state, places[b])
    args = [*scalars, *[blocks[b] for b in range(len(mappings))], *state.scratch]
    finals = _run_kernel(call.jaxpr, call.mapping, call.grid, index, args)
    n = len(scalars)
    after = finals[n : n + len(mappings)]
    return _State(
        {i: finals[i] for i in state.scalars},
        {b: _write(x, mappings[b], places[b], after[b]) for b, x in state.arrays.items()},
        {b: after[b] for b in state.blocks},
        finals[n + len(mappings) :],
    )


def _grid_sizes(mapping: GridMapping, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    sizes = iter(args[: mapping.num_dynamic_grid_bounds])
    grid = [next(sizes) if d is dynamic_grid_dim else d for d in mapping.grid]
    return grid, list(args[mapping.num_dynamic_grid_bounds :])


def _product(sizes: Sequence[Any]) -> Any:
    out: Any = np.int32(1)
    for d in sizes:
        out = lax.mul(out, lax.max(_int32(d), np.int32(0)))
    return out


def _int32(x: Any) -> Any:
    return np.int32(x) if isinstance(x, int) else x


def _grid_index(step: Any, grid: Sequence[Any]) -> list[Any]:
    """Return the position in the grid of a step, in row-major order."""
    index: list[Any] = []
    rest = step
    for d in reversed(grid[1:]):
        index.append(lax.rem(rest, _int32(d)))
        rest = lax.div(rest, _int32(d))
    return [*([rest] if grid else []), *reversed(index)]


# Blocks of arrays


def _padding(m: BlockMapping) -> list[tuple[int, int]]:
    """Return how many elements without a value come before and after those of each dimension."""
    out = []
    for d, size in zip(m.block_shape, m.array_aval.shape):
        if isinstance(d, Element):
            low, high = d.padding
            # A block can start at the last element.
            out.append((low, high + d.block_size - 1))
        elif isinstance(d, BoundedSlice):
            out.append((0, d.block_size))
        elif isinstance(d, Blocked):
            out.append((0, _rest_of_blocks(size, d.block_size)))
        else:
            out.append((0, _rest_of_blocks(size, 1)))
    return out


def _rest_of_blocks(size: Any, block_size: Any) -> Any:
    # The loop over the grid is traced even where it has no rounds: an empty array has a block, too.
    return block_size if size == 0 else -size % core.max_dim(block_size, 1)


def _padded(x: Any, m: BlockMapping) -> Any:
    padding = _padding(m)
    if not any([low or high for low, high in padding]):
        return x
    fill = uninitialized_scalar(m.array_aval.dtype)
    return lax.pad(x, fill, [(low, high, 0) for low, high in padding])


def _without_padding(x: Any, m: BlockMapping) -> Any:
    padding = _padding(m)
    if not any([low or high for low, high in padding]):
        return x
    starts = [low for low, _ in padding]
    return slicing.slice(x, starts, [a + n for a, n in zip(starts, m.array_aval.shape)])


# Where a block is in each dimension: its first position; a slice, as the first position and the number
# of elements that are in it; or an array of positions.


def _places(m: BlockMapping, index: Sequence[Any], scalars: Sequence[Any]) -> list[Any] | None:
    """Return where a block is; None if it is the whole array."""
    if m.has_trivial_window():
        return None
    closed = m.index_map_jaxpr
    which = [type(a) is core.AbstractRef for a in closed.in_avals]
    found, _ = eval_discharged(closed.jaxpr, closed.consts, [*index, *scalars], which, True)
    values = iter([lax.convert_element_type(i, np.int32) for i in found])
    places: list[Any] = []
    for d in m.block_shape:
        i = next(values)
        if isinstance(d, Blocked):
            size = lax.convert_element_type(core.dimension_as_value(d.block_size), np.int32)
            places.append(lax.mul(i, size))
        elif isinstance(d, BoundedSlice):
            places.append((i, lax.min(next(values), np.int32(d.block_size))))
        else:
            places.append(i)
    return places


def _window(x: Any, m: BlockMapping, places: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the first positions and the sizes of the part of an array that has a block.

    It is whole in dimensions where the block has an array of positions.
    """
    starts, sizes = [], []
    for d, place, n in zip(m.block_shape, places, x.shape):
        if isinstance(d, Indirect):
            starts.append(np.int32(0))
            sizes.append(n)
        else:
            starts.append(place[0] if isinstance(d, BoundedSlice) else place)
            sizes.append(getattr(d, "block_size", 1))
    return starts, sizes


def _read(x: Any, m: BlockMapping, places: Sequence[Any] | None) -> Any:
    if places is not None:
        x = slicing.dynamic_slice(x, *_window(x, m, places))
        fill = uninitialized_scalar(m.array_aval.dtype) if _is_irregular(m) else None
        for axis, (d, place) in enumerate(zip(m.block_shape, places)):
            if isinstance(d, Indirect):
                x = x.at[_along(axis, place)].get(mode="fill", fill_value=fill)
            elif isinstance(d, BoundedSlice):
                x = lax.select(_in_slice(x, axis, place), x, lax.full_like(x, fill))
    return lax.squeeze(x, _hidden(m))


def _write(x: Any, m: BlockMapping, places: Sequence[Any] | None, block: Any) -> Any:
    block = lax.expand_dims(block, _hidden(m))
    if places is None:
        return block
    starts, sizes = _window(x, m, places)
    if _is_irregular(m):
        block = _written_to(slicing.dynamic_slice(x, starts, sizes), m, places, block, 0)
    return slicing.dynamic_update_slice(x, block, starts)


def _written_to(old: Any, m: BlockMapping, places: Sequence[Any], block: Any, axis: int) -> Any:
    """Return what a block is a part of, with the block's elements where they are in it."""
    if axis == len(places):
        for i, (d, place) in enumerate(zip(m.block_shape, places)):
            if isinstance(d, BoundedSlice):
                block = lax.select(_in_slice(block, i, place), block, old)
        return block
    if not isinstance(m.block_shape[axis], Indirect):
        return _written_to(old, m, places, block, axis + 1)
    at = _along(axis, places[axis])
    part = _written_to(old.at[at].get(mode="clip"), m, places, block, axis + 1)
    return old.at[at].set(part, mode="drop")


def _is_irregular(m: BlockMapping) -> bool:
    return any([isinstance(d, (BoundedSlice, Indirect)) for d in m.block_shape])


def _along(axis: int, positions: Any) -> tuple[Any, ...]:
    # In an index, negative positions would count from the end of the array.
    beyond = lax.full_like(positions, np.iinfo(np.int32).max)
    at = lax.select(lax.lt(positions, np.int32(0)), beyond, positions)
    return (*[slice(None)] * axis, at)


def _in_slice(x: Any, axis: int, place: tuple[Any, Any]) -> Any:
    return lax.lt(lax.broadcasted_iota(np.int32, x.shape, axis), place[1])


def _hidden(m: BlockMapping) -> tuple[int, ...]:
    return tuple([i for i, d in enumerate(m.block_shape) if isinstance(d, Squeezed)])


# The kernel


def _run_kernel(
    jaxpr: Jaxpr,
    mapping: GridMapping,
    grid: Sequence[Any],
    index: Sequence[Any],
    args: Sequence[Any],
) -> list[Any]:
    """Return what the references of a kernel hold after it has run at a point of the grid."""
    axes = mapping.kernel_axes
    known: dict[GridValue, Any] = {(program_id_p, k): index[i] for k, i in enumerate(axes)}
    known |= {(num_programs_p, k): grid[i] for k, i in enumerate(axes)}
    if mapping.grid_names is not None:
        known |= {(axis_index_p, mapping.grid_names[i]): index[i] for i in axes}
    placed = with_grid_values(ClosedJaxpr(jaxpr), known)
    which = [type(v.aval) is core.AbstractRef for v in jaxpr.invars]
    _, env = eval_discharged(placed.jaxpr, placed.consts, args, which, True)
    return [env[v] for v in placed.jaxpr.invars]
