"""Kernels for TPUs."""

from jax._src.pallas.mosaic.core import (
    MemorySpace as MemorySpace,
    PrefetchScalarGridSpec as PrefetchScalarGridSpec,
)

VMEM = MemorySpace.VMEM
VMEM_SHARED = MemorySpace.VMEM_SHARED
SMEM = MemorySpace.SMEM
CMEM = MemorySpace.CMEM
HBM = MemorySpace.HBM
SEMAPHORE = MemorySpace.SEMAPHORE
