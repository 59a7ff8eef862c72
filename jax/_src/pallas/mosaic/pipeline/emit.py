"""Pipelines: a function of blocks that is run over a grid in a kernel, while other blocks are copied."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, traceback_util
from jax._src.api import named_scope
from jax._src.core import Literal, ShapedArray
from jax._src.indexing import Slice
from jax._src.interpreters import partial_eval as pe
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop, while_loop
from jax._src.pallas.blocks import (
    Blocked,
    BlockSpec,
    Buffered,
    RevisitMode,
    block_dims,
    no_block_spec,
)
from jax._src.pallas.grid_values import GridValue, with_grid_values
from jax._src.pallas.grids import grid_in_scope
from jax._src.pallas.helpers import when
from jax._src.pallas.memory import MemorySpace as AnyMemorySpace
from jax._src.pallas.mosaic.copies import sync_copy
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.mosaic.pipeline.buffered_ref import (
    BufferedRef,
    BufferedRefBase,
    BufferType,
    whole_array_spec,
)
from jax._src.pallas.mosaic.pipeline.steps import Grid, all_of, any_of, as_int32, grid_of_core
from jax._src.pallas.mosaic.tiling import Tiling
from jax._src.pallas.primitives import num_programs_p, program_id_p, run_scoped
from jax._src.state.types import TransformedRef, ref_and_transforms, view_type
from jax._src.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

traceback_util.register_exclusion(__file__)


def emit_pipeline(
    body: Callable[..., None], *, grid: tuple[Any, ...], in_specs: Any = (), out_specs: Any = (),
    tiling: Tiling | None = None, core_axis: tuple[int, ...] | int | None = None,
    core_axis_name: tuple[str, ...] | str | None = None,
    dimension_semantics: tuple[Any, ...] | None = None, trace_scopes: bool = True,
    no_pipelining: bool = False, _explicit_indices: bool = False,
) -> Callable[..., None]:  # fmt: skip
    """Return a function of references, for kernels, that runs a function of blocks over a grid.

    While the function works on blocks, the next ones are copied to vector memory, and the last results
    to where they belong. Blocks that stay the same from step to step are copied once.

    Args:
      body: function of references to blocks of the arguments and of the results. In it, `pl.program_id`
        and `pl.num_programs` are those of this grid.
      grid: the sizes of the grid, which can be traced.
      in_specs: a tree of `BlockSpec`, a prefix of that of the arguments. Index maps may close over
        references in scalar memory. `pl.Buffered(n, use_lookahead)` as `pipeline_mode` says how many buffers
        an array has (2), and whether the next block that is another one is copied as soon as one is free.
      out_specs: the same of the results. With `RevisitMode.ANY`, results start as what the array holds, so
        that blocks can be visited in any order; otherwise the visits of a block follow each other.
      tiling: how arrays are stored, which says how much of the last block of an array is copied.
      core_axis: the dimension of the kernel's grid, or several, along which cores have parts of the grid.
      core_axis_name: the axis of the kernel's mesh of cores, or several, in place of `core_axis`.
      dimension_semantics: for each dimension of the grid `pltpu.PARALLEL` or `pltpu.ARBITRARY`; a parallel
        one is divided among cores.
      trace_scopes: whether the parts of a step have names in profiles.
      no_pipelining: whether each step waits for its copies, to look for errors.

    Returns:
      A function of the references to the arguments and the results, with the options `scratches`: references
      that the body gets after the blocks, `allocations`: buffers made by `emit_pipeline_with_allocations`,
      and `body_prologue`: a function that is called before the body in each step.

    Raises:
      ValueError: if specs do not match the references.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def double(x_ref, o_ref):
    ...   o_ref[...] = x_ref[...] * 2
    >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    >>> def kernel(x_ref, o_ref):
    ...   pltpu.emit_pipeline(double, grid=(4,), in_specs=[rows], out_specs=[rows])(x_ref, o_ref)
    >>> whole = pl.BlockSpec(memory_space=pl.ANY)
    >>> x = jnp.ones((32, 128))
    >>> float(pl.pallas_call(kernel, x, in_specs=[whole], out_specs=whole, interpret=True)(x)[31, 0])
    2.0
    """
    options = _Options(
        grid=tuple(grid), core_axis=core_axis, core_axis_name=core_axis_name, semantics=dimension_semantics,
        trace_scopes=trace_scopes, no_pipelining=no_pipelining, explicit_indices=_explicit_indices,
    )  # fmt: skip
    specs = _Specs(in_specs, out_specs)

    def pipeline(
        *refs: Any, scratches: Any = None, allocations: Any = None,
        body_prologue: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        scratches = () if scratches is None else tuple(scratches)
        if allocations is None:
            made = specs.allocations(refs, len(options.grid), tiling)
            run_scoped(
                lambda *given: _run(body, refs, given, scratches, body_prologue, options), *made
            )
        else:
            _run(body, refs, tuple(allocations), scratches, body_prologue, options)

    return pipeline


def emit_pipeline_with_allocations(
    body: Callable[..., None], *, grid: tuple[Any, ...], in_specs: Any = (), out_specs: Any = ()
) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Return a pipeline, and a function that makes the types of its buffers.

    Buffers that are allocated once, by `pl.run_scoped`, can be used by several runs of the pipeline.

    Args:
      body, grid, in_specs, out_specs: as for `emit_pipeline`.

    Returns:
      The pipeline, and a function of the references to arguments and results that returns a tuple of
      `BufferedRef`, to be given to `pl.run_scoped`; what that makes of it are `allocations`.
    """
    specs = _Specs(in_specs, out_specs)

    def make_allocations(*refs: Any, tiling: Tiling | None = None) -> tuple[BufferedRef, ...]:
        return specs.allocations(refs, len(tuple(grid)), tiling)

    return emit_pipeline(body, grid=grid, in_specs=in_specs, out_specs=out_specs), make_allocations


@dataclasses.dataclass(frozen=True)
class _Options:
    grid: tuple[Any, ...]
    core_axis: Any
    core_axis_name: Any
    semantics: Any
    trace_scopes: bool
    no_pipelining: bool
    explicit_indices: bool

    def scope(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which operations have a name in profiles."""
        return named_scope(name) if self.trace_scopes else contextlib.nullcontext()


_is_spec = lambda x: isinstance(x, BlockSpec) or x is None
_is_view = lambda x: isinstance(x, TransformedRef)


def leaves_of_refs(refs: Any) -> list[Any]:
    """Return the references and views of a tree of them."""
    return tree_leaves(refs, is_leaf=_is_view)


class _Specs:
    """The blocks of a pipeline's arguments and results."""

    def __init__(self, in_specs: Any, out_specs: Any):
        as_tuple = lambda s: tuple(s) if isinstance(s, (list, tuple)) else (s,)
        self.ins = () if in_specs is no_block_spec else as_tuple(in_specs)
        self.outs = () if out_specs is no_block_spec else as_tuple(out_specs)

    def allocations(
        self, refs: tuple[Any, ...], rank: int, tiling: Tiling | None
    ) -> tuple[BufferedRef, ...]:
        """Return the types of the buffers for references."""
        if len(refs) != len(self.ins) + len(self.outs):
            raise ValueError(
                f"A pipeline with {len(self.ins)} in_specs and {len(self.outs)} out_specs is given {len(refs)} references."
            )
        out = []
        for specs, given, kind in (
            (self.ins, refs[: len(self.ins)], BufferType.INPUT),
            (self.outs, refs[len(self.ins) :], BufferType.OUTPUT),
        ):
            flat, tree = tree_flatten(specs, is_leaf=_is_spec)
            for spec, part in zip(flat, tree.flatten_up_to(given)):
                spec = BlockSpec() if spec is None else spec
                out += [_buffers(spec, ref, kind, rank, tiling) for ref in leaves_of_refs(part)]
        return tuple(out)


def _buffers(
    spec: BlockSpec, ref: Any, kind: BufferType, rank: int, tiling: Tiling | None
) -> BufferedRef:
    aval = view_type(ref)
    mode = Buffered(2) if spec.pipeline_mode is None else spec.pipeline_mode
    if kind is BufferType.OUTPUT:
        if mode.use_lookahead:
            raise ValueError("Output buffering does not support lookahead.")
        if mode.revisit is RevisitMode.ANY:
            kind = BufferType.INPUT_OUTPUT
    spec = whole_array_spec(spec, aval.shape)
    block_dims(spec, aval.shape, "emit_pipeline")
    return BufferedRef.create(
        spec, aval, kind, mode.buffer_count, grid_rank=rank,
        # With one buffer, none is free before the step.
        use_lookahead=mode.use_lookahead and mode.buffer_count > 1 and rank > 0,
        source_memory_space=_space_of(ref), tiling=tiling,
        is_trivial_windowing=_is_whole(spec, aval.shape, rank),
    )  # fmt: skip


def _space_of(ref: Any) -> Any:
    ref, _ = ref_and_transforms(ref, "emit_pipeline")
    space = core.typeof(ref).memory_space  # type: ignore[attr-defined]
    # Where a kernel has blocks by default.
    return MemorySpace.VMEM if space in (None, AnyMemorySpace.DEFAULT) else space


def _is_whole(spec: BlockSpec, shape: Sequence[int], rank: int) -> bool:
    """Whether the only block of an array is all of it."""
    dims = block_dims(spec, shape, "emit_pipeline")
    if [d.block_size if isinstance(d, Blocked) else None for d in dims] != list(shape):
        return False
    if spec.index_map is None:
        return True
    index_map = spec.index_map

    def index(*ids: Any) -> list[Any]:
        return [as_int32(i) for i in tree_leaves(index_map(*ids))]

    number = ShapedArray((), np.dtype(np.int32))
    jaxpr, _, _ = pe.trace_to_jaxpr_dynamic(index, [number] * rank)
    return all([type(v) is Literal and v.val == 0 for v in jaxpr.outvars])


# The run of a pipeline


def _run(
    body: Callable[..., None], refs: tuple[Any, ...], allocations: tuple[Any, ...],
    scratches: tuple[Any, ...], prologue: Callable[[], None] | None, options: _Options,
) -> None:  # fmt: skip
    flat = leaves_of_refs(refs)
    tree = tree_structure(refs, is_leaf=_is_view)
    is_buffer = lambda x: isinstance(x, BufferedRefBase)
    buffers = tree_leaves(allocations, is_leaf=is_buffer)
    if len(buffers) != len(flat) or not all(map(is_buffer, buffers)):
        raise ValueError(
            f"A pipeline of {len(flat)} references needs as many BufferedRef as allocations, got {len(buffers)}."
        )
    grid = grid_of_core(options.grid, options.semantics, options.core_axis, options.core_axis_name)

    def work(indices: tuple[Any, ...], current: Sequence[BufferedRefBase]) -> None:
        blocks = tree_unflatten(tree, [b.current_ref for b in current])  # type: ignore[attr-defined]
        given = (indices,) if options.explicit_indices else ()
        _call_body(lambda: body(*given, *blocks, *scratches), prologue, grid, indices)

    pipeline = _Pipeline(grid, flat, [b.initialize_slots() for b in buffers], work, options)
    steps = grid.steps
    with options.scope("ep_pipeline"):
        if isinstance(steps, int):
            pipeline.run(steps)
        else:
            when(lax.gt(steps, np.int32(0)))(lambda: pipeline.run(steps))


def _call_body(
    body: Callable[[], None],
    prologue: Callable[[], None] | None,
    grid: Grid,
    indices: tuple[Any, ...],
) -> None:
    """Call a body, in which `program_id` is the position in the pipeline's grid."""

    def run() -> list[Any]:
        if prologue is not None:
            prologue()
        body()
        return []

    with grid_in_scope(grid.sizes, None, ()):
        info = api_util.debug_info("emit_pipeline", body, (), {})
        closed, consts = pe.trace_to_closed(run, [], info)
    known: dict[GridValue, Any] = {(program_id_p, k): i for k, i in enumerate(indices)}
    known |= {(num_programs_p, k): d for k, d in enumerate(grid.sizes)}
    placed = with_grid_values(closed, known)
    core.eval_jaxpr(placed.jaxpr, placed.consts, *consts)


class _Pipeline:
    """A pipeline with its references, and buffers for them.

    Args:
      grid: the steps.
      refs: the arrays.
      buffers: the buffers of each, before the first step.
      work: function of the indices of a step and of the buffers, which does the work of the step.
      options: those of `emit_pipeline`.
    """

    def __init__(
        self, grid: Grid, refs: Sequence[Any], buffers: Sequence[Any],
        work: Callable[..., None], options: _Options,
    ):  # fmt: skip
        self.grid = grid
        self.refs = list(refs)
        self.buffers = list(buffers)
        self.work = work
        self.options = options

    def run(self, steps: Any) -> None:
        """Run all steps, of which there is at least one."""
        self._copy_whole(out=False)
        if self.options.no_pipelining:
            self._run_one_by_one(steps)
        else:
            self._run_overlapping(steps)
        self._copy_whole(out=True)

    def _copy_whole(self, out: bool) -> None:
        """Copy arrays whose only block is the whole array."""
        for b, ref in zip(self.buffers, self.refs):
            if b.is_trivial_windowing and b.has_allocated_buffer:
                if out and b.is_output:
                    sync_copy(b.window_ref, ref)
                elif not out and b.is_input:
                    sync_copy(ref, b.window_ref)

    def _bound(self, current: Sequence[Any], indices: tuple[Any, ...]) -> list[Any]:
        """Return buffers in which blocks that are not copied are those of a step."""
        return [
            b if b.has_allocated_buffer else b.bind_existing_ref(ref, indices)
            for b, ref in zip(current, self.refs)
        ]

    # Without overlap

    def _run_one_by_one(self, steps: Any) -> None:
        copied = [(b, r) for b, r in zip(self.buffers, self.refs) if _is_copied(b)]

        def step(_: Any, position: tuple[Any, ...]) -> tuple[Any, ...]:
            indices = self.grid.indices(position)
            for b, ref in copied:
                if b.is_input:
                    b.copy_in(ref, indices)
                    b.wait_in(ref, indices)
            self.work(indices, self._bound(self.buffers, indices))
            for b, ref in copied:
                if b.is_output:
                    b.copy_out(ref, indices)
                    b.wait_out(ref, indices)
            return self.grid.after(position)

        fori_loop(np.int32(0), _limit(steps), step, self.grid.first)

    # With overlap

    def _run_overlapping(self, steps: Any) -> None:
        first = self.grid.first
        with self.options.scope("ep_initialize"):
            started = [
                self._prefetched(b, r, steps) if _is_copied(b) and b.is_input else b
                for b, r in zip(self.buffers, self.refs)
            ]

        def step(i: Any, carry: Any) -> Any:
            position, numbers = carry
            current = [
                n.bind_refs_of(b) if _is_copied(b) else b for n, b in zip(numbers, self.buffers)
            ]
            after = self._step(_Step(self.grid, i, position, steps), current)
            return self.grid.after(position), [b.unbind_refs() for b in after]

        carry = first, [b.unbind_refs() for b in started]
        _, numbers = fori_loop(np.int32(0), _limit(steps), step, carry)
        last = self.grid.indices(self.grid.before(first))
        with self.options.scope("ep_finalize"):
            for n, b, ref in zip(numbers, self.buffers, self.refs):
                if _is_copied(b) and b.is_output and b.buffer_count > 1:
                    n.bind_refs_of(b).wait_out(ref, last)

    def _prefetched(self, b: Any, ref: Any, steps: Any) -> Any:
        """Start the copies that come before the first step, of the blocks of all but one buffer."""
        position = self.grid.first
        b.copy_in(ref, self.grid.indices(position))
        b = b.advance_copy_in_slot()
        if b.use_lookahead:
            b = b.with_next_fetch(self._next_block(b, position))
        for k in range(1, b.buffer_count - 1):
            if b.use_lookahead:
                b = self._fetch_ahead(b, ref, True)
                continue
            before, position = position, self.grid.after(position)
            go = all_of(_less(k, steps), self._differ(b, before, position))
            b = self._start_copy_in(b, ref, position, go)
        return b

    def _step(self, now: _Step, current: list[Any]) -> list[Any]:
        out = list(current)
        scope = self.options.scope
        changed = [
            self._differ(b, now.before, now.position) if _is_copied(b) else False for b in out
        ]
        arrived = [any_of(now.is_first, c) for c in changed]
        left = [all_of(_not(now.is_first), c) for c in changed]
        pairs = [(k, b, r) for k, (b, r) in enumerate(zip(out, self.refs)) if _is_copied(b)]
        for k, b, ref in pairs:
            if b.is_input_output and b.buffer_count > 1:
                # What is read next may be what was written last.
                out[k] = self._wait_out(b, ref, now, left[k])
        with scope("ep_copy_in"):
            for k, _, ref in pairs:
                if out[k].is_input and not out[k].use_lookahead:
                    out[k] = self._copy_in(out[k], ref, now)
        with scope("ep_wait_in"):
            for k, _, ref in pairs:
                if out[k].is_input:
                    when(arrived[k])(_later(out[k].wait_in, ref, now.indices))
        for k, _, ref in pairs:
            if out[k].use_lookahead:
                held = lax.sub(out[k].copy_in_slot, out[k].wait_in_slot)
                out[k] = self._fetch_ahead(out[k], ref, lax.lt(held, np.int32(out[k].buffer_count)))
        with scope("ep_run_kernel"):
            self.work(now.indices, self._bound(out, now.indices))
        leaves = [
            any_of(now.is_last, self._differ(b, now.position, now.after)) if _is_copied(b) else False for b in out
        ]  # fmt: skip
        for k, _, ref in pairs:
            if out[k].is_output:
                with scope("ep_copy_out"):
                    out[k] = self._copy_out(out[k], ref, now, leaves[k], left[k])
            if out[k].is_input:
                out[k] = out[k].advance_wait_in_slot(leaves[k])
        return out

    def _copy_in(self, b: Any, ref: Any, now: _Step) -> Any:
        """Start the copy of the block of a later step, if it is not that of the step before."""
        ahead = b.buffer_count - 1
        before, position = now.before, now.position
        for _ in range(ahead):
            before, position = position, self.grid.after(position)
        go = all_of(now.has_after(ahead), self._differ(b, before, position))
        if ahead == 0:
            go = all_of(_not(now.is_first), go)
        return self._start_copy_in(b, ref, position, go)

    def _start_copy_in(self, b: Any, ref: Any, position: Any, go: Any) -> Any:
        when(go)(_later(b.copy_in, ref, self.grid.indices(position)))
        return b.advance_copy_in_slot(go)

    def _copy_out(self, b: Any, ref: Any, now: _Step, leaves: Any, left: Any) -> Any:
        when(leaves)(_later(b.copy_out, ref, now.indices))
        if b.buffer_count == 1:
            when(leaves)(_later(b.wait_out, ref, now.indices))
            return b
        after = b.advance_copy_out_slot(leaves)
        return after if b.is_input_output else self._wait_out(after, ref, now, left)

    def _wait_out(self, b: Any, ref: Any, now: _Step, left: Any) -> Any:
        """Wait for the copy of the block of the step before, if it was its last."""
        when(left)(_later(b.wait_out, ref, self.grid.indices(now.before)))
        return b.advance_wait_out_slot(left)

    # Lookahead

    def _fetch_ahead(self, b: Any, ref: Any, is_free: Any) -> Any:
        """Start the copy of the next block that is another one, if there is one and a buffer is free."""
        fetch = b.next_fetch_indices
        go = all_of(is_free, lax.lt(fetch[0], as_int32(self.grid.sizes[0])))
        when(go)(_later(b.copy_in, ref, self.grid.indices(fetch)))
        after = self._next_block(b, fetch)
        chosen = tuple([lax.select(go, a, f) for a, f in zip(after, fetch)])
        return b.advance_copy_in_slot(go).with_next_fetch(chosen)

    def _next_block(self, b: Any, position: Any) -> tuple[Any, ...]:
        """Return the next position that has another block; beyond the end if there is none."""
        size = as_int32(self.grid.sizes[0])

        def step(carry: Any) -> Any:
            _, at = carry
            after = self.grid.after(at, wrap=False)
            # Index maps are only asked for steps of the grid.
            within = (lax.min(after[0], lax.sub(size, np.int32(1))), *after[1:])
            return _traced(self._differ(b, at, within)), after

        go_on = lambda carry: lax.bitwise_and(lax.bitwise_not(carry[0]), lax.lt(carry[1][0], size))
        return while_loop(go_on, step, (np.bool_(False), tuple(map(as_int32, position))))[1]

    def _differ(self, b: Any, position: Any, other: Any) -> Any:
        """Whether two steps have different blocks."""
        index, other_index = [b.block_index(self.grid.indices(p)) for p in (position, other)]
        conditions: list[Any] = []
        for x, y in zip(index, other_index):
            parts = zip((x.start, x.size), (y.start, y.size)) if isinstance(x, Slice) else [(x, y)]
            conditions += [_not_equal(p, q) for p, q in parts]
        return any_of(*conditions)


class _Step:
    """A step: its number, its position, and those around."""

    def __init__(self, grid: Grid, number: Any, position: tuple[Any, ...], steps: Any):
        self.number = number
        self.steps = steps
        self.position = position
        self.before = grid.before(position)
        self.after = grid.after(position)
        self.indices = grid.indices(position)
        self.is_first = lax.eq(number, np.int32(0))
        self.is_last = lax.eq(number, lax.sub(as_int32(steps), np.int32(1)))

    def has_after(self, k: int) -> Any:
        """Whether there are `k` steps after it."""
        return True if k == 0 else lax.lt(lax.add(self.number, np.int32(k)), as_int32(self.steps))


def _is_copied(b: Any) -> bool:
    """Whether a pipeline copies blocks in its steps."""
    return b.is_buffered and not b.is_trivial_windowing and not b.is_manual


def _later(f: Callable[..., None], *args: Any) -> Callable[[], None]:
    return lambda: f(*args)


def _limit(steps: Any) -> Any:
    return np.int32(steps) if isinstance(steps, int) else steps


def _less(k: int, steps: Any) -> Any:
    return k < steps if isinstance(steps, int) else lax.lt(np.int32(k), steps)


def _not(condition: Any) -> Any:
    return not condition if isinstance(condition, bool) else lax.bitwise_not(condition)


def _traced(condition: Any) -> Any:
    return np.bool_(condition) if isinstance(condition, bool) else condition


def _not_equal(x: Any, y: Any) -> Any:
    if isinstance(x, (int, np.integer)) and isinstance(y, (int, np.integer)):
        return int(x) != int(y)
    differ = lax.ne(as_int32(x), as_int32(y))
    return lax.reduce_or(differ, tuple(range(np.ndim(differ)))) if np.ndim(differ) else differ
