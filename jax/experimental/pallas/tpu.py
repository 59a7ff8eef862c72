"""Kernels for TPUs."""

from jax._src.pallas.mosaic.core import (
    CompilerParams as CompilerParams,
    GridDimensionSemantics as GridDimensionSemantics,
    MemorySpace as MemorySpace,
    PrefetchScalarGridSpec as PrefetchScalarGridSpec,
    SideEffectType as SideEffectType,
)
from jax._src.pallas.mosaic.meshes import (
    CoreType as CoreType,
    create_tensorcore_mesh as create_tensorcore_mesh,
)
from jax._src.pallas.mosaic.primitives import bitcast as bitcast, roll as roll
from jax._src.pallas.mosaic.semaphore_types import (
    SemaphoreType as SemaphoreType,
    dma_semaphore as dma_semaphore,
)

VMEM = MemorySpace.VMEM
VMEM_SHARED = MemorySpace.VMEM_SHARED
SMEM = MemorySpace.SMEM
CMEM = MemorySpace.CMEM
HBM = MemorySpace.HBM
SEMAPHORE = MemorySpace.SEMAPHORE
PARALLEL = GridDimensionSemantics.PARALLEL
CORE_PARALLEL = GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL = GridDimensionSemantics.SUBCORE_PARALLEL
ARBITRARY = GridDimensionSemantics.ARBITRARY
