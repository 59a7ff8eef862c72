"""Functions of single warps: their rules are those of warpgroups, for scalars and references only."""

from __future__ import annotations

from typing import Any

from jax._src import source_info_util
from jax._src.core import AbstractRef, ClosedJaxpr, Jaxpr, subjaxprs
from jax._src.pallas.kernel_rules import RuleContext, lower_closed
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, rule
from jax._src.pallas.mosaic_gpu.memory_operations import (
    griddepcontrol_launch_dependents_p,
    griddepcontrol_wait_p,
    set_max_registers_p,
    try_cluster_cancel_p,
)
from jax._src.pallas.mosaic_gpu.mma import (
    async_load_tmem_p,
    async_store_tmem_p,
    commit_tmem_p,
    wait_load_tmem_p,
    wgmma_accumulator_load_p,
    wgmma_p,
    wgmma_wait_p,
)
from jax._src.pallas.mosaic_gpu.warps import warp_map_p
from jax._src.pallas.primitives import run_scoped_p
from jax._src.pallas.semaphores import semaphore_read_p
from jax._src.state.discharge import run_state_p

# What all lanes of a warpgroup do together.
_OF_WARPGROUPS = frozenset(
    [
        async_load_tmem_p, async_store_tmem_p, commit_tmem_p, wait_load_tmem_p,
        griddepcontrol_launch_dependents_p, griddepcontrol_wait_p, run_scoped_p, run_state_p, semaphore_read_p,
        set_max_registers_p, try_cluster_cancel_p, warp_map_p, wgmma_accumulator_load_p, wgmma_p, wgmma_wait_p,
    ]
)  # fmt: skip


@rule(warp_map_p)
def _warp_map(ctx: RuleContext, *refs: Any, jaxpr: ClosedJaxpr, mesh: Any) -> Any:
    kernel = ctx.kernel
    _check(jaxpr.jaxpr)
    kernel.warpgroup_barrier()
    with kernel.single_warps(mesh.axis_name):
        lower_closed(kernel, jaxpr, refs)
    kernel.warpgroup_barrier()
    return []


def _check(jaxpr: Jaxpr) -> None:
    """Check that there are no arrays in registers, whose elements all lanes of a warpgroup have between them."""
    for eqn in jaxpr.eqns:
        avals: list[Any] = [v.aval for v in (*eqn.invars, *eqn.outvars)]
        has_arrays = any([a.shape for a in avals if not isinstance(a, AbstractRef)])
        if has_arrays or eqn.primitive in _OF_WARPGROUPS:
            what = "arrays" if has_arrays else eqn.primitive.name
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have no {what} in functions of single warps, only scalars, copies, barriers and tcgen05_mma, at "
                f"{source_info_util.summarize(eqn.source_info)}: do that outside of plgpu.warp_map."
            )
    for nested in subjaxprs(jaxpr):
        _check(nested)
