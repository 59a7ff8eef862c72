"""Options without effect, because a feature is not implemented or has one implementation only.

Setting one gives a warning with the reason, unless a program cannot notice the difference. The
change that implements a feature removes its options here.
"""

from jax._src import lib
from jax._src.config import _flags
from jax._src.config._state import without_effect

if not lib.has_efforts:
    without_effect(
        "this jaxlib has no numbers for XLA's effort, only levels (jax_optimization_level, "
        "jax_memory_fitting_level)",
        _flags.exec_time_optimization_effort,
        _flags.memory_fitting_effort,
    )

without_effect(
    "it is the former name of jax_export_calling_convention_version", _flags.serialization_version
)
without_effect(
    "there is no jax2tf",
    _flags.jax2tf_associative_scan_reductions,
    _flags.jax2tf_default_native_serialization,
)
without_effect(
    "kernels are interpreted so far",
    _flags.pallas_use_mosaic_gpu,
    _flags.pallas_verbose_errors,
    _flags.pallas_poison_buffers,
    _flags.mosaic_allow_hlo,
    _flags.use_emit_pipeline_primitive,
)
without_effect(
    "there is no such kernel for accelerators yet",
    _flags.threefry_gpu_kernel_lowering,
    _flags.bcoo_cusparse_lowering,
    _flags.ragged_dot_use_gpu_pallas_triton_lowering,
    _flags.ragged_dot_use_ragged_dot_instruction,
)
without_effect(
    "there is no plugin for that platform",
    _flags.oneapi_visible_devices,
    _flags.backend_target,
)
without_effect(
    "errors of computations are raised by raise_if_error or checkify", _flags.xla_runtime_errors
)
without_effect("references are always checked for aliases", _flags.mutable_array_checks)
without_effect("references are not lowered to pinned buffers", _flags.refs_to_pins)
without_effect("vmap of shard_map does not need spmd_axis_name", _flags.disable_vmap_shmap_error)
without_effect(
    "array constants become arguments of what is compiled",
    _flags.use_simplified_jaxpr_constants,
    _flags.embedded_constants_max_bytes,
)
without_effect("jaxprs are not printed as HTML", _flags.source_url_schema)
without_effect("there is one implementation of scan", _flags.scan3)
without_effect("there is one implementation of checkpoint", _flags.remat3)
without_effect("there is one implementation of custom_vjp", _flags.custom_vjp3)
without_effect("linearization is always direct", _flags.use_direct_linearize)
