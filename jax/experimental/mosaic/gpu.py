"""What functions of `jax.experimental.pallas.mosaic_gpu.inline_mgpu` emit operations with."""

from jax._src.pallas.mosaic_gpu.layouts import (
    FragmentedLayout as FragmentedLayout,
    Layout as _Layout,
    TiledLayout as TiledLayout,
    WGSplatFragLayout as WGSplatFragLayout,
    WGStridedFragLayout as WGStridedFragLayout,
)
from jax._src.pallas.mosaic_gpu.lowering.arrays import FragmentedArray as FragmentedArray
from jax._src.pallas.mosaic_gpu.lowering.inline import (
    ThreadSubset as ThreadSubset,
    c as c,
    commit_shared as commit_shared,
    single_thread as single_thread,
    thread_idx as thread_idx,
    warp_idx as warp_idx,
    warpgroup_barrier as warpgroup_barrier,
    warpgroup_idx as warpgroup_idx,
)

WGMMA_LAYOUT = _Layout.WGMMA.to_mgpu()
WGMMA_ROW_LAYOUT = WGMMA_LAYOUT.reduce((1,))
WGMMA_COL_LAYOUT = WGMMA_LAYOUT.reduce((0,))
TCGEN05_LAYOUT = _Layout.TCGEN05.to_mgpu()
