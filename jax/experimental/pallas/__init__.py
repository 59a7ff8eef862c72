"""Pallas: kernels written in Python."""

from jax._src.config import (
    pallas_enable_debug_checks as enable_debug_checks,
    pallas_poison_buffers as enable_poison_buffers,
)
from jax._src.indexing import Slice as Slice, ds as ds, dslice as dslice
from jax._src.lazy_names import lazy_names
from jax._src.pallas import call_rules as _call_rules
from jax._src.pallas.blocks import (
    BlockDim as BlockDim,
    Blocked as Blocked,
    BlockSpec as BlockSpec,
    BoundedSlice as BoundedSlice,
    Buffered as Buffered,
    Element as Element,
    Indirect as Indirect,
    RevisitMode as RevisitMode,
    Squeezed as Squeezed,
    no_block_spec as no_block_spec,
    squeezed as squeezed,
)
from jax._src.pallas.compiler_params import CompilerParams as CompilerParams
from jax._src.pallas.core_map import core_map as core_map, kernel as kernel
from jax._src.pallas.cost_estimate import (
    CostEstimate as CostEstimate,
    estimate_cost as estimate_cost,
)
from jax._src.pallas.global_refs import get_global as get_global
from jax._src.pallas.grids import GridSpec as GridSpec
from jax._src.pallas.helpers import (
    align_to as align_to,
    broadcast_to as broadcast_to,
    cdiv as cdiv,
    empty as empty,
    empty_like as empty_like,
    loop as loop,
    next_power_of_2 as next_power_of_2,
    strides_from_shape as strides_from_shape,
    when as when,
)
from jax._src.pallas.memory import (
    MemoryRef as MemoryRef,
    MemorySpace as MemorySpace,
    empty_ref_like as empty_ref_like,
)
from jax._src.pallas.pallas_call import pallas_call as pallas_call, pallas_call_p as pallas_call_p
from jax._src.pallas.primitives import (
    debug_print as debug_print,
    delay as delay,
    multiple_of as multiple_of,
    num_programs as num_programs,
    program_id as program_id,
    reciprocal as reciprocal,
    run_scoped as run_scoped,
    select_ref as select_ref,
    with_scoped as with_scoped,
)
from jax._src.pallas.semaphores import (
    DeviceIdType as DeviceIdType,
    semaphore as semaphore,
    semaphore_read as semaphore_read,
    semaphore_signal as semaphore_signal,
    semaphore_wait as semaphore_wait,
)
from jax._src.state.discharge import run_state as run_state

ANY = MemorySpace.ANY
HOST = MemorySpace.HOST

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.pallas.checks": ("debug_check",),
        "jax._src.pallas.export": ("lower_as_mlir", "pallas_export_experimental"),
    },
    ("fuser", "tpu"),
)
