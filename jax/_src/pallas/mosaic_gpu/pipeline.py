"""Pipelines in kernels: loops whose blocks are copied while other blocks are computed with."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from jax._src import traceback_util
from jax._src.core import ShapedArray, Var
from jax._src.indexing import Slice
from jax._src.interpreters import partial_eval as pe
from jax._src.lax import lax
from jax._src.lax.control_flow import cond, fori_loop
from jax._src.lax.parallel import axis_index
from jax._src.pallas.blocks import Blocked, Element, Squeezed, block_dims, no_block_spec
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import (
    barrier_arrive,
    barrier_wait,
    commit_smem,
    commit_smem_to_gmem_group,
    copy_gmem_to_smem,
    copy_smem_to_gmem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import Barrier, BlockSpec, ClusterBarrier, MemorySpace
from jax._src.pallas.mosaic_gpu.memory_operations import set_max_registers
from jax._src.pallas.primitives import run_scoped
from jax._src.state.types import TransformedRef, view_type
from jax._src.tree_util import tree_flatten

traceback_util.register_exclusion(__file__)
_index = ShapedArray((), np.dtype(np.int32))


class PipelinePipeline(enum.IntEnum):
    """Which of several pipelines one after the other a pipeline is."""

    START = 0
    STEADY = 1
    STOP = 2


class ComputeContext(Protocol):
    """A function that is given a pipeline, as a function from a carry to the last one, and runs it."""

    def __call__(self, pipeline: Callable[[Any], Any]) -> None: ...


def _add(a: Any, b: Any) -> Any:
    return lax.add(_int32(a), _int32(b))


def _int32(x: Any) -> Any:
    return lax.convert_element_type(x, np.int32)


class _Operand:
    """An argument or result of a pipeline: its array, its blocks and the buffers for them.

    Args:
      ref: reference to the array, in global memory.
      spec: its blocks.
      origin: which one it is, for errors.

    Attributes:
      stays: whether all steps have the same block, so that one buffer is enough for a result.
    """

    def __init__(self, ref: Any, spec: Any, origin: str):
        self.ref = ref
        self.spec = BlockSpec() if spec is None or spec is no_block_spec else spec
        aval = view_type(ref)
        self.dims = block_dims(self.spec, aval.shape, origin)
        for d in self.dims:
            padding = getattr(d, "padding", (0, 0))
            if not isinstance(d, (Blocked, Element, Squeezed)) or padding != (0, 0):
                raise NotImplementedError(
                    f"A pipeline cannot have blocks of {d}, for {origin}: use integers, None or pl.Element(n)."
                )
        self.shape = tuple([d.block_size for d in self.dims if not isinstance(d, Squeezed)])
        self.dtype = aval.dtype
        self.in_gmem = self.spec.memory_space is MemorySpace.GMEM
        self.delay = getattr(self.spec, "delay_release", 0)
        self.axes = tuple(getattr(self.spec, "collective_axes", ()))
        self.stays = False

    def buffers(self, count: int) -> Any:
        count = 1 if self.stays else count
        transforms = getattr(self.spec, "transforms", ())
        return MemorySpace.SMEM((count, *self.shape), self.dtype, transforms=tuple(transforms))

    def slot(self, slot: Any) -> Any:
        """Return the number of the buffer for a step, given that of operands whose blocks change."""
        return 0 if self.stays else slot

    def index(self, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what the index map gives for a step."""
        if self.spec.index_map is None:
            return (np.int32(0),) * len(self.dims)
        out = self.spec.index_map(*indices)
        out = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(out) != len(self.dims):
            raise ValueError(
                f"An index map returns {len(out)} values for blocks of {len(self.dims)} dimensions."
            )
        return tuple(map(_int32, out))

    def ignores_steps(self, dimensions: int) -> bool:
        """Whether the index map does not depend on the position in a grid."""
        if self.spec.index_map is None:
            return True
        run = lambda *indices: list(self.index(indices))
        jaxpr, _, _ = pe.trace_to_jaxpr_dynamic(run, [_index] * dimensions)
        given = set(jaxpr.invars)
        used = [v for eqn in jaxpr.eqns for v in eqn.invars] + list(jaxpr.outvars)
        return not any([type(v) is Var and v in given for v in used])

    def block(self, indices: tuple[Any, ...]) -> Any:
        """Return the view of the array's block for a step."""
        entries: list[Any] = []
        for i, d in zip(self.index(indices), self.dims):
            if isinstance(d, Squeezed):
                entries.append(i)
            elif isinstance(d, Element):
                entries.append(Slice(i, d.block_size))
            else:
                entries.append(Slice(lax.mul(i, np.int32(d.block_size)), d.block_size))
        return self.ref.at[tuple(entries)] if entries else self.ref


class _Grid:
    """The steps of a pipeline.

    Args:
      sizes: the sizes of the grid; they can be traced.
    """

    def __init__(self, sizes: Sequence[Any]):
        self.sizes = tuple(sizes)
        self.is_static = all([isinstance(d, (int, np.integer)) for d in self.sizes])
        total: Any = 1
        if self.is_static:
            total = math.prod(self.sizes)
        else:
            for d in self.sizes:
                total = lax.mul(_int32(total), _int32(d))
        self.steps = total

    def indices(self, step: Any) -> tuple[Any, ...]:
        out: list[Any] = []
        rest = _int32(step)
        for d in reversed(self.sizes):
            out.append(lax.rem(rest, _int32(d)))
            rest = lax.div(rest, _int32(d))
        return tuple(reversed(out))

    def buffer_count(self, wanted: int) -> int:
        if not isinstance(wanted, (int, np.integer)) or wanted < 1:
            raise ValueError(f"max_concurrent_steps must be a positive integer, got {wanted!r}.")
        return min(wanted, max(self.steps, 1)) if self.is_static else wanted


def _operands(specs: Any, refs: Sequence[Any], what: str) -> list[_Operand]:
    flat = _flat_specs(specs)
    if len(flat) != len(refs):
        raise ValueError(
            f"A pipeline with {len(flat)} {what}_specs is applied to {len(refs)} references."
        )
    return [_Operand(r, s, f"{what}puts[{i}]") for i, (r, s) in enumerate(zip(refs, flat))]


def _results(specs: Any, refs: Sequence[Any], grid: _Grid) -> list[_Operand]:
    out = _operands(specs, refs, "out")
    for o in out:
        o.stays = o.ignores_steps(len(grid.sizes))
    return out


def _flat_specs(specs: Any) -> list[Any]:
    return tree_flatten(specs, is_leaf=lambda x: x is None or hasattr(x, "index_map"))[0]


def _slot(step: Any, count: int) -> Any:
    return lax.rem(_int32(step), np.int32(count))


def _write_back(
    outs: Sequence[_Operand], buffers: Sequence[Any], grid: _Grid, step: Any, slot: Any
) -> None:
    """Start to copy the blocks of results that are complete to global memory, as one group."""
    last = lax.eq(_int32(step), _int32(grid.steps) - np.int32(1))
    now = grid.indices(step)
    later = grid.indices(_add(step, 1))
    for o, buffer in zip(outs, buffers):
        changes = last
        for a, b in zip(o.index(now), o.index(later)):
            changes = lax.bitwise_or(changes, lax.ne(a, b))
        copy_smem_to_gmem(buffer.at[o.slot(slot)], o.block(now), changes, commit_group=False)
    commit_smem_to_gmem_group()


def _read_blocks(
    ins: Sequence[_Operand], buffers: Sequence[Any], barriers: Sequence[Any], grid: _Grid,
    step: Any, slot: Any,
) -> None:  # fmt: skip
    """Start to copy the blocks of arguments for a step to shared memory."""
    indices = grid.indices(step)
    for o, buffer, barrier in zip(ins, buffers, barriers):
        copy_gmem_to_smem(
            o.block(indices), buffer.at[slot], barrier.at[slot], collective_axes=o.axes or None
        )


def _body_refs(
    operands: Sequence[_Operand], buffers: Sequence[Any], indices: Any, slot: Any
) -> list[Any]:
    """Return the references that the body of a pipeline gets."""
    rest = iter(buffers)
    return [o.block(indices) if o.in_gmem else next(rest).at[o.slot(slot)] for o in operands]


def emit_pipeline(
    body: Callable[..., Any], *, grid: Sequence[Any], in_specs: Sequence[Any] = (),
    out_specs: Sequence[Any] = (), max_concurrent_steps: int = 1, init_carry: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function of references to arrays that runs a body on their blocks, for each step of a grid.

    Blocks of arguments are copied to shared memory before they are needed, those of results from there
    while the next ones are computed. A result whose index map ignores the grid is in one buffer, which keeps
    what a step leaves in it for the next one, and is copied after the last.

    Args:
      body: function of the indices of a step, as a tuple, of references to the blocks of arguments and of
        results, and of the carry, if there is one.
      grid: the sizes of the grid; they can be traced.
      in_specs: the blocks of arguments. With `memory_space=plgpu.GMEM` they are not copied.
      out_specs: the blocks of results.
      max_concurrent_steps: for how many steps there are buffers.
      init_carry: a tree; the body then returns the next one.

    Returns:
      A function of references in global memory, to arguments and then results; it returns the last carry.

    Raises:
      ValueError: if a block's `delay_release` is not less than `max_concurrent_steps`.
    """
    steps = _Grid(grid)
    count = steps.buffer_count(max_concurrent_steps)

    def pipeline(*refs: Any) -> Any:
        n = len(_flat_specs(in_specs))
        ins, outs = _operands(in_specs, refs[:n], "in"), _results(out_specs, refs[n:], steps)
        copied_in = [o for o in ins if not o.in_gmem]
        if any([o.axes for o in copied_in]):
            raise NotImplementedError(
                "emit_pipeline does not wait for other blocks, and has no blocks with collective_axes: use "
                "plgpu.emit_pipeline_warp_specialized."
            )
        copied_out = [o for o in outs if not o.in_gmem]
        changing = [o for o in copied_out if not o.stays]
        delay = max([o.delay for o in copied_in], default=0)
        _check_delay(delay, max_concurrent_steps)
        delay = min(delay, count - 1)

        def run(in_buffers: Any, out_buffers: Any, barrier: Any) -> Any:
            barriers = [barrier] * len(copied_in)
            fetch = lambda step, slot: _read_blocks(
                copied_in, in_buffers, barriers, steps, step, slot
            )
            if copied_in:
                for i in range(count):
                    when(lax.lt(np.int32(i), _int32(steps.steps)))(
                        lambda i=i: fetch(np.int32(i), i)  # type: ignore[misc]
                    )

            def step(i: Any, carry: Any) -> Any:
                slot = _slot(i, count)
                if copied_in:
                    barrier_wait(barrier.at[slot])
                if changing:
                    wait_smem_to_gmem(count - 1, wait_read_only=True)
                indices = steps.indices(i)
                args = [
                    *_body_refs(ins, in_buffers, indices, slot),
                    *_body_refs(outs, out_buffers, indices, slot),
                ]
                new = body(indices, *args) if init_carry is None else body(indices, *args, carry)
                if copied_out:
                    commit_smem()
                    _write_back(copied_out, out_buffers, steps, i, slot)
                if copied_in:
                    released = _add(i, -delay)
                    following = _add(released, count)
                    ready = lax.bitwise_and(
                        lax.ge(released, np.int32(0)), lax.lt(following, _int32(steps.steps))
                    )
                    when(ready)(lambda: fetch(following, _slot(following, count)))
                return None if init_carry is None else new

            last = fori_loop(np.int32(0), _int32(steps.steps), step, init_carry)
            if copied_out:
                wait_smem_to_gmem(0)
            return last

        barrier = Barrier(num_arrivals=max(len(copied_in), 1), num_barriers=count)
        return run_scoped(
            run,
            [o.buffers(count) for o in copied_in],
            [o.buffers(count) for o in copied_out],
            barrier,
        )

    return pipeline


def _check_delay(delay: int, max_concurrent_steps: int) -> None:
    if delay < 0 or (delay and delay >= max_concurrent_steps):
        raise ValueError(
            f"delay_release must be less than max_concurrent_steps, got {delay} and {max_concurrent_steps}."
        )


class WarpSpecializedPipeline(Protocol):
    """What `emit_pipeline_warp_specialized` returns."""

    def __call__(self, *gmem_refs: Any, allocations: Any | None = None) -> None: ...

    def get_allocations(self, *gmem_refs: Any) -> Any:
        """Return the types of references that the pipeline needs, to be given as `allocations`."""
        ...


def emit_pipeline_warp_specialized(
    body: Callable[..., Any], *, grid: Sequence[Any], memory_registers: int, in_specs: Any = (),
    out_specs: Any = (), max_concurrent_steps: int = 2, wg_axis: str, num_compute_wgs: int,
    pipeline_state: Any = None, manual_consumed_barriers: bool = False,
    compute_context: ComputeContext | None = None, memory_thread_idx: int | None = None,
) -> WarpSpecializedPipeline:  # fmt: skip
    """Return a pipeline of which one thread only copies blocks, and the others only compute.

    Args:
      body: function of the indices of a step, as a tuple, of references to the blocks of arguments and of
        results, of barriers, with `manual_consumed_barriers`, and of the carry, with `compute_context`. It
        is called by each computing thread.
      grid: the sizes of the grid; they can be traced.
      memory_registers: how many registers the lanes of the copying thread keep; 40 is enough on Hopper.
      in_specs, out_specs: trees of the blocks of arguments and results.
      max_concurrent_steps: for how many steps there are buffers.
      wg_axis: the axis of the threads.
      num_compute_wgs: how many threads compute.
      pipeline_state: of several pipelines one after the other, which differ in blocks and bodies only,
        which one it is. The copying thread then starts to copy for the next one before this one is
        complete.
      manual_consumed_barriers: whether the body gets a barrier for each argument, at which each computing
        thread must arrive when it has read the block.
      compute_context: function that runs the pipeline on computing threads: it is given a function from a
        first carry to the last one.
      memory_thread_idx: which thread copies; None for the last one.

    Returns:
      A function of references in global memory, to arguments and then results. Its `get_allocations` gives
      the types of what it needs, which can be shared by several pipelines.
    """
    return _WarpSpecialized(
        body, _Grid(grid), in_specs, out_specs, max_concurrent_steps,
        dict(
            memory_registers=memory_registers, wg_axis=wg_axis, computing=num_compute_wgs,
            state=pipeline_state, manual=manual_consumed_barriers, context=compute_context,
            memory_thread=num_compute_wgs if memory_thread_idx is None else memory_thread_idx,
        ),
    )  # fmt: skip


_REGISTERS = 64 * 1024  # of a multiprocessor


class _WarpSpecialized:
    def __init__(
        self, body: Any, grid: _Grid, in_specs: Any, out_specs: Any, max_concurrent_steps: int,
        options: dict[str, Any],
    ):  # fmt: skip
        self.body = body
        self.grid = grid
        self.in_specs, self.out_specs = in_specs, out_specs
        self.max_concurrent_steps = max_concurrent_steps
        self.count = grid.buffer_count(max_concurrent_steps)
        self.wg_axis = options["wg_axis"]
        self.computing = options["computing"]
        self.memory_thread = options["memory_thread"]
        self.memory_registers = options["memory_registers"]
        self.state = options["state"]
        self.manual = options["manual"]
        self.context = options["context"]
        if self.computing < 1:
            raise ValueError(f"num_compute_wgs must be positive, got {self.computing}.")
        if not 0 <= self.memory_thread <= self.computing:
            raise ValueError(
                f"memory_thread_idx must be that of one of {self.computing + 1} threads, got {self.memory_thread}."
            )

    def _split(self, refs: Sequence[Any]) -> tuple[list[_Operand], list[_Operand]]:
        n = len(_flat_specs(self.in_specs))
        flat, _ = tree_flatten(refs, is_leaf=lambda x: isinstance(x, TransformedRef))
        return _operands(self.in_specs, flat[:n], "in"), _results(
            self.out_specs, flat[n:], self.grid
        )

    def get_allocations(self, *gmem_refs: Any) -> Any:
        ins, outs = self._split(gmem_refs)
        copied_in = [o for o in ins if not o.in_gmem]
        copied_out = [o for o in outs if not o.in_gmem]
        return dict(
            in_buffers=[o.buffers(self.count) for o in copied_in],
            out_buffers=[o.buffers(self.count) for o in copied_out],
            full=[Barrier(num_barriers=self.count) for _ in copied_in],
            consumed=[self._consumed(o) for o in copied_in],
            # Computing threads wait for each other before and after they write results.
            free=Barrier(num_arrivals=self.computing),
            written=Barrier(num_arrivals=self.computing),
        )

    def _consumed(self, o: _Operand) -> Any:
        """Return the type of the barriers at which all threads arrive that have read blocks of an argument."""
        options: Any = dict(num_arrivals=self.computing, num_barriers=self.count)
        if not o.axes:
            return Barrier(**options)
        return ClusterBarrier(collective_axes=(o.axes,), **options)

    def __call__(self, *gmem_refs: Any, allocations: Any | None = None) -> None:
        ins, outs = self._split(gmem_refs)
        delay = max([o.delay for o in ins], default=0)
        _check_delay(delay, self.max_concurrent_steps)
        if allocations is not None:
            self._run(ins, outs, allocations)
            return
        types = self.get_allocations(*gmem_refs)
        run_scoped(
            lambda given: self._run(ins, outs, given), types, collective_axes=(self.wg_axis,)
        )

    def _run(self, ins: list[_Operand], outs: list[_Operand], refs: Any) -> None:
        is_memory = lax.eq(axis_index(self.wg_axis), np.int32(self.memory_thread))
        of_lane = _REGISTERS // 128 - self.memory_registers
        compute_registers = min(of_lane // self.computing, 256) // 8 * 8

        def copy() -> None:
            set_max_registers(self.memory_registers, action="decrease")
            self._copy([o for o in ins if not o.in_gmem], refs)

        def compute() -> None:
            if compute_registers >= 24:
                set_max_registers(compute_registers, action="increase")
            if self.context is None:
                self._compute(ins, outs, refs, None)
            else:
                self.context(lambda carry: self._compute(ins, outs, refs, carry))

        cond(is_memory, copy, compute)

    # The thread that copies

    def _copy(self, ins: list[_Operand], refs: Any) -> None:
        count, total = self.count, _int32(self.grid.steps)
        if not ins:
            return
        consumed = refs["consumed"]

        def wait(slot: Any) -> None:
            for barrier in consumed:
                barrier_wait(barrier.at[slot])

        def step(i: Any, _: Any) -> None:
            slot = _slot(i, count)
            used = lax.ge(_int32(i), np.int32(count))
            when(lax.bitwise_or(used, self._is_state(PipelinePipeline.STEADY, PipelinePipeline.STOP)))(
                lambda: wait(slot)
            )  # fmt: skip
            _read_blocks(ins, refs["in_buffers"], refs["full"], self.grid, i, slot)

        fori_loop(np.int32(0), total, step, None)

        @when(self._is_state(None, PipelinePipeline.STOP))
        def _() -> None:
            first = lax.max(lax.sub(total, np.int32(count)), np.int32(0))
            fori_loop(first, total, lambda i, _: wait(_slot(i, count)), None)

    def _is_state(self, *states: PipelinePipeline | None) -> Any:
        if self.state is None:
            return np.bool_(None in states)
        if isinstance(self.state, PipelinePipeline):
            return np.bool_(self.state in states)
        out: Any = np.bool_(False)
        for s in states:
            if s is not None:
                out = lax.bitwise_or(out, lax.eq(_int32(self.state), np.int32(s)))
        return out

    # The threads that compute

    def _compute(self, ins: list[_Operand], outs: list[_Operand], refs: Any, carry: Any) -> Any:
        count = self.count
        copied_out = [o for o in outs if not o.in_gmem]
        changing = [o for o in copied_out if not o.stays]
        delay = min(max([o.delay for o in ins], default=0), count - 1)
        thread = axis_index(self.wg_axis)
        first = 0 if self.memory_thread != 0 else 1
        is_first = lax.eq(thread, np.int32(first))

        def release(slot: Any) -> None:
            for barrier in refs["consumed"]:
                barrier_arrive(barrier.at[slot])

        def step(i: Any, carry: Any) -> Any:
            slot = _slot(i, count)
            for barrier in refs["full"]:
                barrier_wait(barrier.at[slot])
            if changing:
                when(is_first)(lambda: wait_smem_to_gmem(count - 1, wait_read_only=True))
                self._meet(refs["free"])
            indices = self.grid.indices(i)
            args = [
                *_body_refs(ins, refs["in_buffers"], indices, slot),
                *_body_refs(outs, refs["out_buffers"], indices, slot),
            ]
            if self.manual:
                args += [b.at[slot] for b in refs["consumed"]]
            new = self.body(indices, *args, *([carry] if self.context is not None else []))
            if not self.manual:
                released = _add(i, -delay)
                when(lax.ge(released, np.int32(0)))(lambda: release(_slot(released, count)))
            if copied_out:
                commit_smem()
                self._meet(refs["written"])
                when(is_first)(
                    lambda: _write_back(copied_out, refs["out_buffers"], self.grid, i, slot)
                )
            return new if self.context is not None else None

        total = _int32(self.grid.steps)
        last = fori_loop(np.int32(0), total, step, carry)
        if delay and not self.manual:
            start = lax.max(lax.sub(total, np.int32(delay)), np.int32(0))
            fori_loop(start, total, lambda i, _: release(_slot(i, count)), None)
        if copied_out:
            when(is_first)(lambda: wait_smem_to_gmem(0))
        return last

    def _meet(self, barrier: Any) -> None:
        """Wait until all computing threads are here."""
        if self.computing > 1:
            barrier_arrive(barrier.at[0])
            barrier_wait(barrier.at[0])
