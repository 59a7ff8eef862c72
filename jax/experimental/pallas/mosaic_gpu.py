"""Kernels for GPUs from NVIDIA's Hopper generation on (Mosaic GPU)."""

from jax._src.pallas.mosaic_gpu.copies import (
    CopyPartition as CopyPartition,
    OOBFillMode as OOBFillMode,
    async_prefetch as async_prefetch,
    async_store_smem as async_store_smem,
    barrier_arrive as barrier_arrive,
    barrier_test as barrier_test,
    barrier_wait as barrier_wait,
    commit_smem as commit_smem,
    commit_smem_to_gmem_group as commit_smem_to_gmem_group,
    copy_gmem_to_smem as copy_gmem_to_smem,
    copy_smem_to_gmem as copy_smem_to_gmem,
    wait_smem_to_gmem as wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import (
    ACC as ACC,
    Barrier as Barrier,
    BlockSpec as BlockSpec,
    ClusterBarrier as ClusterBarrier,
    CompilerParams as CompilerParams,
    LoweringSemantics as LoweringSemantics,
    MemorySpace as MemorySpace,
    Mesh as Mesh,
    RefUnion as RefUnion,
    SemaphoreType as SemaphoreType,
    TraceScope as TraceScope,
    TryClusterCancelResult as TryClusterCancelResult,
    WarpMesh as WarpMesh,
    WGMMAAccumulatorRef as WGMMAAccumulatorRef,
)
from jax._src.pallas.mosaic_gpu.helpers import (
    NDLoopInfo as NDLoopInfo,
    dynamic_scheduling_loop as dynamic_scheduling_loop,
    find_swizzle as find_swizzle,
    format_tcgen05_sparse_metadata as format_tcgen05_sparse_metadata,
    nd_loop as nd_loop,
    planar_snake as planar_snake,
)
from jax._src.pallas.mosaic_gpu.interpret.params import InterpretParams as InterpretParams
from jax._src.pallas.mosaic_gpu.kernel import (
    as_torch_kernel as as_torch_kernel,
    kernel as kernel,
)
from jax._src.pallas.mosaic_gpu.layouts import Layout as Layout, TMEMLayout as TMEMLayout
from jax._src.pallas.mosaic_gpu.memory_operations import (
    RefType as RefType,
    SemaphoreSignal as SemaphoreSignal,
    ShapeDtypeStruct as ShapeDtypeStruct,
    atomic_add as atomic_add,
    atomic_and as atomic_and,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_or as atomic_or,
    atomic_xor as atomic_xor,
    broadcasted_iota as broadcasted_iota,
    griddepcontrol_launch_dependents as griddepcontrol_launch_dependents,
    griddepcontrol_wait as griddepcontrol_wait,
    inline_mgpu as inline_mgpu,
    layout_cast as layout_cast,
    load as load,
    multimem_load_reduce as multimem_load_reduce,
    multimem_store as multimem_store,
    print_layout as print_layout,
    query_cluster_cancel as query_cluster_cancel,
    semaphore_signal as semaphore_signal,
    semaphore_signal_multicast as semaphore_signal_multicast,
    semaphore_signal_parallel as semaphore_signal_parallel,
    semaphore_wait as semaphore_wait,
    set_max_registers as set_max_registers,
    try_cluster_cancel as try_cluster_cancel,
)
from jax._src.pallas.mosaic_gpu.mma import (
    async_copy_scales_to_tmem as async_copy_scales_to_tmem,
    async_copy_smem_to_tmem as async_copy_smem_to_tmem,
    async_copy_sparse_metadata_to_tmem as async_copy_sparse_metadata_to_tmem,
    async_load_tmem as async_load_tmem,
    async_store_tmem as async_store_tmem,
    commit_tmem as commit_tmem,
    tcgen05_commit_arrive as tcgen05_commit_arrive,
    tcgen05_mma as tcgen05_mma,
    wait_load_tmem as wait_load_tmem,
    wgmma as wgmma,
    wgmma_accumulator_load as wgmma_accumulator_load,
    wgmma_wait as wgmma_wait,
)
from jax._src.pallas.mosaic_gpu.pipeline import (
    PipelinePipeline as PipelinePipeline,
    emit_pipeline as emit_pipeline,
    emit_pipeline_warp_specialized as emit_pipeline_warp_specialized,
)
from jax._src.pallas.mosaic_gpu.tilings import Replicated as Replicated, Tiling as Tiling
from jax._src.pallas.mosaic_gpu.transforms import (
    PeerMemRef as PeerMemRef,
    SwizzleTransform as SwizzleTransform,
    TilingTransform as TilingTransform,
    cluster_ref as cluster_ref,
    multicast_ref as multicast_ref,
    remote_ref as remote_ref,
    transform_ref as transform_ref,
    transpose_ref as transpose_ref,
)
from jax._src.pallas.mosaic_gpu.warps import warp_map as warp_map
from jax._src.state.types import Transform as Transform

GMEM = MemorySpace.GMEM
SMEM = MemorySpace.SMEM
TMEM = MemorySpace.TMEM
REGS = MemorySpace.REGS
