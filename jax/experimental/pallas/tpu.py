"""Kernels for TPUs."""

from jax._src.pallas.einshape import einshape as einshape
from jax._src.pallas.mosaic import core as core
from jax._src.pallas.mosaic.copies import (
    async_copy as async_copy,
    async_remote_copy as async_remote_copy,
    get_barrier_semaphore as get_barrier_semaphore,
    make_async_copy as make_async_copy,
    make_async_remote_copy as make_async_remote_copy,
    sync_copy as sync_copy,
)
from jax._src.pallas.mosaic.core import (
    CompilerParams as CompilerParams,
    GridDimensionSemantics as GridDimensionSemantics,
    LoweringException as LoweringException,
    MemorySpace as MemorySpace,
    PrefetchScalarGridSpec as PrefetchScalarGridSpec,
    SideEffectType as SideEffectType,
)
from jax._src.pallas.mosaic.helpers import (
    core_barrier as core_barrier,
    run_on_first_core as run_on_first_core,
)
from jax._src.pallas.mosaic.hints import touch as touch, trace_value as trace_value
from jax._src.pallas.mosaic.interpret.params import (
    InterpretParams as InterpretParams,
    force_tpu_interpret_mode as force_tpu_interpret_mode,
    reset_tpu_interpret_mode_state as reset_tpu_interpret_mode_state,
    set_tpu_interpret_mode as set_tpu_interpret_mode,
)
from jax._src.pallas.mosaic.matrix_units import (
    matmul_acc_lhs as matmul_acc_lhs,
    matmul_pop as matmul_pop,
    matmul_push_rhs as matmul_push_rhs,
)
from jax._src.pallas.mosaic.memory_constraint import (
    with_memory_space_constraint as with_memory_space_constraint,
)
from jax._src.pallas.mosaic.meshes import (
    CoreType as CoreType,
    create_tensorcore_mesh as create_tensorcore_mesh,
)
from jax._src.pallas.mosaic.packing import (
    load as load,
    pack_elementwise as pack_elementwise,
    prng_random_bits as prng_random_bits,
    prng_seed as prng_seed,
    stochastic_round as stochastic_round,
    store as store,
    unpack_elementwise as unpack_elementwise,
)
from jax._src.pallas.mosaic.pipeline.buffered_ref import (
    BufferedRef as BufferedRef,
    BufferedRefBase as BufferedRefBase,
    BufferType as BufferType,
)
from jax._src.pallas.mosaic.pipeline.emit import (
    emit_pipeline as emit_pipeline,
    emit_pipeline_with_allocations as emit_pipeline_with_allocations,
)
from jax._src.pallas.mosaic.primitives import bitcast as bitcast, roll as roll
from jax._src.pallas.mosaic.random import (
    sample_block as sample_block,
    stateful_bernoulli as stateful_bernoulli,
    stateful_bits as stateful_bits,
    stateful_normal as stateful_normal,
    stateful_uniform as stateful_uniform,
    to_pallas_key as to_pallas_key,
)
from jax._src.pallas.mosaic.semaphore_types import (
    SemaphoreType as SemaphoreType,
    dma_semaphore as dma_semaphore,
)
from jax._src.pallas.mosaic.tiling import Tiling as Tiling
from jax._src.pallas.mosaic.tpu_info import (
    ChipVersion as ChipVersion,
    TpuInfo as TpuInfo,
    get_tpu_info as get_tpu_info,
    get_tpu_info_for_chip as get_tpu_info_for_chip,
    is_tpu_device as is_tpu_device,
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
