"""Kernels over a grid: pipelines over its sequential dimensions, in blocks for the positions in the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax._src.core import AbstractRef, Jaxpr, ShapedArray, jaxpr_as_fun
from jax._src.interpreters import partial_eval as pe
from jax._src.lax.parallel import axis_index
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.kernel_rules import RuleContext, lower_jaxpr
from jax._src.pallas.memory import MemorySpace as AnySpace
from jax._src.pallas.mosaic_gpu.core import BlockSpec, CompilerParams, MemorySpace, Mesh
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, rule
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.operations import apply, operands_of, operation
from jax._src.pallas.mosaic_gpu.pipeline import emit_pipeline
from jax._src.pallas.primitives import run_scoped
from jax._src.state.types import TransformedRef

# One step of a pipeline: the kernel, given the position in the grid, and references to blocks and scratch memory.
_step_p = operation("grid_step")


@dataclasses.dataclass(frozen=True)
class _Dimension:
    """The name of the axis of the mesh that a parallel dimension of a grid becomes."""

    number: int


def over_grid(
    jaxpr: Jaxpr, mapping: GridMapping, more: Sequence[AbstractRef], params: CompilerParams, where: str
) -> tuple[Jaxpr, GridMapping, Mesh]:  # fmt: skip
    """Return a kernel over a mesh of blocks that does what one over a grid does.

    Args:
      jaxpr: the kernel, of references to blocks.
      mapping: the grid, whose sizes are known.
      more: the types of references of the whole kernel, its last arguments.
      params: options: which dimensions are sequential, and how many of their steps are under way at a time.
      where: the kernel's name and line, for errors.

    Returns:
      The kernel, of references to arrays; their mapping; and the mesh.

    Raises:
      ValueError, NotImplementedError: if there is no such kernel.
    """
    sequential = _sequential(mapping, params, where)
    grid = mapping.static_grid
    parallel = [d for d in range(len(grid)) if d not in sequential]

    def position(steps: Sequence[Any]) -> tuple[Any, ...]:
        rest = iter(steps)
        return tuple(
            [next(rest) if d in sequential else axis_index(_Dimension(d)) for d in range(len(grid))]  # type: ignore[arg-type]
        )

    def spec(m: Any) -> BlockSpec:
        index_map = jaxpr_as_fun(m.index_map_jaxpr)
        return BlockSpec(
            m.block_shape,
            lambda *steps: index_map(*position(steps)),
            memory_space=_space(m, where),
            transforms=getattr(m.block_aval, "transforms", ()),
            delay_release=getattr(m, "delay_release", 0),
        )

    n = len(mapping.block_mappings)

    def run(*arrays: Any) -> list[Any]:
        def over_steps(*scratch: Any) -> None:
            def step(steps: Any, *blocks: Any) -> None:
                refs = (*blocks, *scratch, *arrays[n:])
                apply(_step_p, position(steps), refs, jaxpr=jaxpr, mapping=mapping)

            emit_pipeline(
                step,
                grid=[grid[d] for d in sequential],
                in_specs=list(map(spec, mapping.in_block_mappings)),
                out_specs=list(map(spec, mapping.block_mappings_output)),
                max_concurrent_steps=params.max_concurrent_steps,
            )(*arrays[:n])

        run_scoped(over_steps, *mapping.scratch_avals)
        return []

    mesh = Mesh(
        grid=tuple([grid[d] for d in parallel]),
        grid_names=tuple(map(_Dimension, parallel)),  # type: ignore[arg-type]
    )
    avals = [
        AbstractRef(ShapedArray(a.shape, a.dtype), MemorySpace.GMEM)
        for a in [m.array_aval for m in mapping.block_mappings]
    ]
    with mesh.tracing_context():
        info = jaxpr.debug_info.with_unknown_names()
        whole, _, _ = pe.trace_to_jaxpr_dynamic(run, [*avals, *more], info)
    return whole, mapping.replace(grid=(), vmapped_dims=(), scratch_avals=()), mesh


def _sequential(mapping: GridMapping, params: CompilerParams, where: str) -> list[int]:
    """Return the dimensions whose steps one block of threads does; those that `vmap` added are none."""
    axes = mapping.kernel_axes
    semantics = params.dimension_semantics
    if semantics is None:
        return []
    if len(semantics) != len(axes) or not set(semantics) <= {"parallel", "sequential"}:
        raise ValueError(
            "dimension_semantics has 'parallel' or 'sequential' for each dimension of the grid "
            f"{tuple([mapping.grid[d] for d in axes])}, got {semantics}, in the call of {where}."
        )
    return [d for d, s in zip(axes, semantics) if s == "sequential"]


def _space(m: Any, where: str) -> MemorySpace:
    """Return the memory in which the kernel finds blocks of an array."""
    if m.pipeline_mode is not None:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have as many buffers for all arrays, not a pipeline_mode for {m.origin}, in the call of "
            f"{where}: set max_concurrent_steps in plgpu.CompilerParams."
        )
    if getattr(m, "collective_axes", ()):
        raise ValueError(
            f"pallas_call has no clusters, and no collective_axes for {m.origin}, in the call of {where}: use plgpu.kernel with "
            "plgpu.emit_pipeline_warp_specialized."
        )
    space = m.block_aval.memory_space
    if space in (AnySpace.DEFAULT, MemorySpace.SMEM):
        return MemorySpace.SMEM
    if space in (AnySpace.ANY, MemorySpace.GMEM):
        return MemorySpace.GMEM
    raise NotImplementedError(
        f"Blocks of arrays are in shared or global memory, not in {space}, as those of {m.origin} in the call of {where}."
    )


@rule(_step_p)
def _step(ctx: RuleContext, *flat: Any, tree: Any, jaxpr: Jaxpr, mapping: GridMapping) -> Any:
    at, refs = operands_of(tree, flat)
    kernel = ctx.kernel
    before = kernel.axes, kernel.sizes, kernel.program
    position = [i.scalar for i in at]
    kernel.program = [(position[d], mapping.grid[d]) for d in mapping.kernel_axes]
    if mapping.grid_names is not None:
        kernel.axes = kernel.axes | dict(zip(mapping.grid_names, [i for i, _ in kernel.program]))
        kernel.sizes = kernel.sizes | dict(zip(mapping.grid_names, [n for _, n in kernel.program]))
    lower_jaxpr(kernel, jaxpr, [resolved(r) if isinstance(r, TransformedRef) else r for r in refs])
    kernel.axes, kernel.sizes, kernel.program = before
    return []
