"""Clusters that have not been started, whose work those take over that have been."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm, nvvm
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.lowering import barriers
from jax._src.pallas.mosaic_gpu.lowering.fragments import splat
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, unraveled
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, asm, is_first, only, rule
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.memory_operations import (
    query_cluster_cancel_p,
    try_cluster_cancel_p,
)
from jax._src.pallas.mosaic_gpu.operations import operands_of

_ANSWER_BYTES = 16
_GENERATIONS = (10, 11, 12)
_REMEDY = "take plgpu.nd_loop, in which clusters divide the work among themselves"
_TRY = (
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
    "[$0], [$1];"
)
# Reads of an answer come before the next one is written, also by another block.
_AFTER_READS = "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"
_BEFORE_ANSWER = "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"
_QUERY = """{
    .reg .b128 answer;
    .reg .pred cancelled;
    ld.shared.b128 answer, [$2];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 cancelled, answer;
    selp.b32 $0, 1, 0, cancelled;
    mov.b32 $1, 0;
    @cancelled clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {$1, _, _, _}, answer;
}"""


@rule(try_cluster_cancel_p)
def _try(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    kernel = ctx.kernel
    kernel.require("try_cluster_cancel", _REMEDY, *_GENERATIONS)
    result, at = operands_of(tree, flat)
    barrier = barriers.barriers_of(at)
    pointer = barrier.pointer(kernel)
    asm(_BEFORE_ANSWER, "", [])
    # Each block gets the answer, and its first lane expects it; one lane of the cluster asks.
    is_lane = is_first(kernel.thread_id)
    expected = arith.select(is_lane, integer(_ANSWER_BYTES), integer(0))
    nvvm.mbarrier_arrive_expect_tx(pointer, expected, results=[kernel.i64])
    is_block = is_first(kernel.cluster.position(list(kernel.cluster.sizes)).value(kernel.i32))
    with only(arith.andi(is_lane, is_block)):
        asm(_TRY, "r,r", [_address(result), pointer])
    return []


def _address(result: Any) -> Any:
    view = resolved(result)
    first = [Index()] * len(view.dims)
    return view.address(view.element_offset(first))


@rule(query_cluster_cancel_p)
def _query(ctx: RuleContext, *flat: Any, tree: Any, grid_names: Sequence[Hashable]) -> Any:
    kernel = ctx.kernel
    kernel.require("query_cluster_cancel", _REMEDY, *_GENERATIONS)
    (result,) = operands_of(tree, flat)
    sizes = _grid(kernel, grid_names)
    kind = ir.Type.parse("!llvm.struct<(i32, i32)>")
    out = asm(_QUERY, "=r,=r,r", [_address(result)], kind)
    asm(_AFTER_READS, "", [])
    found, block = [llvm.extractvalue(kernel.i32, out, [i]) for i in range(2)]
    cluster, _ = Index(0, block).divmod(math.prod(kernel.cluster.sizes.values()))
    at = dict(zip(sizes, unraveled(cluster, list(sizes.values()))))
    int32 = np.dtype(np.int32)
    success = arith.cmpi(arith.CmpIPredicate.ne, found, integer(0))
    indices = [splat(at[n].value(kernel.i32), (), int32) for n in grid_names]
    return [*indices, splat(success, (), np.dtype(bool))]


def _grid(kernel: GpuKernel, names: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the sizes of the axes of the grid.

    Raises:
      ValueError: if the grid has not all of the names.
    """
    unknown = [n for n in names if n not in kernel.grid]
    if unknown:
        raise ValueError(
            f"{unknown} are no axes of the grid of {kernel.name}, which has {list(kernel.grid)}."
        )
    return dict(kernel.grid)
