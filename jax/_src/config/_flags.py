"""Every option, with its default; `_transfer_guards` has those of transfers.

They are all defined in one place, so that there is one list of them and they exist before any module
that depends on them is imported.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any

from jax._src import logging_config, user_cache
from jax._src.config._state import (
    State,
    bool_flag,
    bool_or_word_state,
    bool_state,
    context_config,
    enum_class_state,
    enum_state,
    float_state,
    int_flag,
    int_state,
    optional_enum_state,
    optional_string_state,
    string_flag,
    string_or_object_state,
    string_state,
    unset,
)
from jax._src.late_binding import late
from jax._src.lib import _jax, guard_lib, jax_jit

_TRACED: dict[str, Any] = {"include_in_trace_context": True}
_JITTED: dict[str, Any] = {"include_in_jit_key": True}
_KEYED: dict[str, Any] = {"include_in_jit_key": True, "include_in_trace_context": True}


class NumpyDtypePromotion(enum.StrEnum):
    STANDARD = "standard"
    STRICT = "strict"


class LegacyPrngKeyState(enum.StrEnum):
    ALLOW = "allow"
    WARN = "warn"
    ERROR = "error"


class ExplicitX64Mode(enum.IntEnum):
    WARN = 1
    ERROR = 2
    ALLOW = 3


class RuntimeTracebackMode(enum.StrEnum):
    OFF = "off"
    ON = "on"
    FULL = "full"


class EffortLevel(enum.Enum):
    """XLA's optimization levels, with the numbers that its options use."""

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39


# State that context managers set and that every trace depends on; the modules that own it read and
# swap it.

axis_env_state = context_config("axis_env_state", ())
mesh_context_manager = context_config("mesh_context_manager", ())
abstract_mesh_context_manager = context_config("abstract_mesh_context_manager", None)
device_context = context_config("device_context", None)
compute_on_context_manager = context_config("compute_on_context_manager", None)
xla_metadata_context_manager = context_config("xla_metadata_context_manager", None)
pallas_tpu_interpret_mode_context_manager = context_config(
    "pallas_tpu_interpret_mode_context_manager", None
)


# Types, promotion, numerics

enable_x64 = bool_state(
    "jax_enable_x64",
    False,
    "64-bit types: without them, float64, int64, … become their 32-bit counterparts.",
    **_KEYED,
)
explicit_x64_dtypes = enum_class_state(
    "jax_explicit_x64_dtypes",
    ExplicitX64Mode,
    ExplicitX64Mode.WARN,
    "What happens when a 64-bit type is asked for by name while jax_enable_x64 is off: warn and"
    " truncate, raise an error, or allow it.",
    **_KEYED,
)
numpy_dtype_promotion = enum_class_state(
    "jax_numpy_dtype_promotion",
    NumpyDtypePromotion,
    NumpyDtypePromotion.STANDARD,
    "Which types operators combine: 'standard' for all, 'strict' for equal or weak types only.",
    **_KEYED,
)
numpy_rank_promotion = enum_state(
    "jax_numpy_rank_promotion",
    ["allow", "warn", "raise"],
    "allow",
    "What happens when operands of different ranks are broadcast against each other.",
    **_KEYED,
)
default_matmul_precision = optional_enum_state(
    "jax_default_matmul_precision",
    [
        "default",
        "high",
        "highest",
        "bfloat16",
        "tensorfloat32",
        "float32",
        "ANY_F8_ANY_F8_F32",
        "ANY_F8_ANY_F8_F32_FAST_ACCUM",
        "ANY_F8_ANY_F8_ANY",
        "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
        "F16_F16_F16",
        "F16_F16_F32",
        "BF16_BF16_BF16",
        "BF16_BF16_F32",
        "BF16_BF16_F32_X3",
        "BF16_BF16_F32_X6",
        "BF16_BF16_F32_X9",
        "TF32_TF32_F32",
        "TF32_TF32_F32_X3",
        "F32_F32_F32",
        "F64_F64_F64",
    ],
    None,
    "Precision of matrix products and convolutions that name none: a level or an algorithm.",
    **_KEYED,
)
allow_f16_reductions = bool_state(
    "jax_allow_f16_reductions",
    True,
    "Whether 16-bit reductions keep their type inside; otherwise they are an error.",
    **_KEYED,
)
softmax_custom_jvp = bool_state(
    "jax_softmax_custom_jvp",
    False,
    "Gives jax.nn.softmax a derivative rule of its own, with better numerics.",
    **_KEYED,
)
eager_constant_folding = bool_state(
    "eager_constant_folding", False, "Evaluates operations on constants while tracing.", **_KEYED
)
check_static_indices = bool_state(
    "jax_check_static_indices",
    False,
    "Raises an error for constant indices that are out of bounds.",
    **_KEYED,
)
error_checking_behavior_nan = enum_state(
    "jax_error_checking_behavior_nan",
    ["ignore", "raise"],
    "ignore",
    "Whether NaN as a result of jax.numpy is recorded as an error (jax._src.error_check).",
    **_KEYED,
)
error_checking_behavior_divide = enum_state(
    "jax_error_checking_behavior_divide",
    ["ignore", "raise"],
    "ignore",
    "Whether division by zero in jax.numpy is recorded as an error.",
    **_KEYED,
)
error_checking_behavior_oob = enum_state(
    "jax_error_checking_behavior_oob",
    ["ignore", "raise"],
    "ignore",
    "Whether an array of indices out of bounds is recorded as an error.",
    **_KEYED,
)


# Random numbers

default_prng_impl = enum_state(
    "jax_default_prng_impl",
    ["threefry2x32", "threefry4x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32"],
    "threefry2x32",
    "The generator of keys that name none.",
)
enable_custom_prng = bool_state(
    "jax_enable_custom_prng", False, "Makes jax.random.PRNGKey return typed keys."
)
legacy_prng_key = enum_class_state(
    "jax_legacy_prng_key",
    LegacyPrngKeyState,
    LegacyPrngKeyState.ALLOW,
    "What happens when a raw uint32 key reaches jax.random: allow, warn or error.",
)
native_kernels = bool_state(
    "jax_native_kernels",
    True,
    "Whether programs for CPUs use the kernels of the package jaxlib-ext where it is installed.",
    **_KEYED,
)
threefry_partitionable = bool_state(
    "jax_threefry_partitionable",
    True,
    "Threefry bits that are generated shard by shard without communication.",
    **_KEYED,
)
threefry_gpu_kernel_lowering = bool_state(
    "jax_threefry_gpu_kernel_lowering", False, "Threefry by a hand-written GPU kernel.", **_KEYED
)
use_high_dynamic_range_gumbel = bool_state(
    "jax_high_dynamic_range_gumbel",
    False,
    "Gumbel samples with more of their tail, at about twice the cost.",
    **_TRACED,
)
random_seed_offset = int_state(
    "jax_random_seed_offset", 0, "Is added to every seed given to jax.random.", **_KEYED
)
debug_key_reuse = bool_state(
    "jax_debug_key_reuse", False, "Raises an error when a random key is used twice.", **_KEYED
)


# Debugging

post_hook = _jax.config.Config("post_hook", None)
jax_jit.set_post_hook_state(post_hook)
_special_value_checks: dict[str, State] = {}


def _check_native_call(*args: Any) -> None:
    late.native_call_check(*args)


def _special_value_check(name: str, help: str) -> State:
    """An option for which jaxlib has the results of native calls checked.

    The check is enabled while one of these options is set, globally or in a thread's context.
    """

    def others() -> list[State]:
        return [s for other, s in _special_value_checks.items() if other != name]

    def update_global(value):
        on = value or any(state.get_global() for state in others())
        post_hook.set_global(_check_native_call if on else None)

    def update_local(value):
        on = value or any(state.get_local() not in (None, unset, False) for state in others())
        post_hook.set_local(_check_native_call if on else unset)

    state = bool_state(
        name, False, help,
        update_global_hook=update_global, update_thread_local_hook=update_local,
        **_JITTED,  # what was compiled before is called natively, and donates arguments
    )  # fmt: skip
    _special_value_checks[name] = state
    return state


debug_nans = _special_value_check(
    "jax_debug_nans", "Checks every result for NaNs and raises FloatingPointError for one."
)
debug_infs = _special_value_check(
    "jax_debug_infs", "Checks every result for infinities and raises FloatingPointError for one."
)
debug_backward_nans = bool_state(
    "debug_backward_nans", False, "Whether `jax.debug.nans(backward=True)` is entered.", **_KEYED
)
debug_bounds = bool_state(
    "debug_bounds", False, "Whether `jax.debug.bounds()` is entered.", **_KEYED
)
disable_jit = bool_state(
    "jax_disable_jit",
    False,
    "Runs jitted functions operation by operation, as plain Python.",
    **_TRACED,
)
log_compiles = bool_or_word_state(
    "jax_log_compiles",
    False,
    "Logs a warning for each trace and each compilation. With the value 'summary' nothing is logged, and a table is"
    " printed at the end of the program: how often and why each function was traced and compiled.",
    word="summary",
)
explain_cache_misses = bool_state(
    "jax_explain_cache_misses",
    False,
    "Logs why a jitted function had to be traced or compiled again, and what avoids it.",
)
log_checkpoint_residuals = bool_state(
    "jax_log_checkpoint_residuals", False, "Logs the residuals that jax.checkpoint keeps."
)
enable_checks = bool_state(
    "jax_enable_checks", False, "Checks invariants of internal data structures: slow."
)
check_tracer_leaks = bool_state(
    "jax_check_tracer_leaks", False, "Raises an error when a tracer outlives its trace."
)
checking_leaks = partial(check_tracer_leaks, True)
no_tracing = bool_state("jax_no_tracing", False, "Raises an error when a function is traced.")
no_execution = bool_state(
    "jax_no_execution", False, "Raises an error when a computation is executed.", **_KEYED
)
disallow_mesh_context_manager = bool_state(
    "jax_disallow_mesh_context_manager", False, "Makes `with mesh:` an error."
)
disable_vmap_shmap_error = bool_state(
    "jax_disable_vmap_shmap_error",
    False,
    "Allows vmap of shard_map without an spmd_axis_name where it was an error.",
)
mutable_array_checks = bool_state(
    "jax_mutable_array_checks", True, "Checks aliasing of mutable references.", **_TRACED
)
refs_to_pins = bool_state(
    "jax_refs_to_pins", False, "Lowers references to pinned buffers where that is possible."
)
disable_bwd_checks = bool_state(
    "jax_disable_bwd_checks", False, "Skips the checks of what custom_vjp's bwd rules return."
)
distributed_debug = bool_state("jax_distributed_debug", False, "Logs more of multi-process runs.")
debug_leaked_clients_on_clear_backends = bool_state(
    "jax_debug_leaked_clients_on_clear_backends",
    False,
    "Raises an error when clear_backends leaves a client alive.",
)
debug_log_modules = string_state(
    "jax_debug_log_modules",
    "",
    "Comma-separated names of modules whose debug messages go to stderr.",
    update_global_hook=logging_config.update_debug_log_modules,
)
logging_level = optional_enum_state(
    "jax_logging_level",
    ["NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    "NOTSET",
    "Level of the loggers of jax and jaxlib, written to stderr unless NOTSET.",
    update_global_hook=logging_config.update_logging_level_global,
)
traceback_filtering = enum_state(
    "jax_traceback_filtering",
    ["off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"],
    "auto",
    "How internal frames are kept out of tracebacks: not at all; marked for IPython to hide;"
    " removed, with a note how to see them; removed without one; or what suits the terminal.",
)
tracer_error_num_traceback_frames = int_flag(
    "jax_tracer_error_num_traceback_frames", 5, "Frames shown in the errors of leaked tracers."
)
pprint_use_color = bool_state(
    "jax_pprint_use_color", True, "Colours jaxprs where the terminal can."
)
thread_guard = bool_state(
    "jax_thread_guard",
    False,
    "Raises an error when several threads use arrays of several processes.",
    update_global_hook=guard_lib.update_thread_guard_global_state,
)


# Tracing and transformation

use_direct_linearize = bool_state(
    "jax_use_direct_linearize", True, "Linearizes in one pass, without a JVP first.", **_KEYED
)
use_simplified_jaxpr_constants = bool_state(
    "jax_use_simplified_jaxpr_constants",
    False,
    "Keeps array constants in jaxprs instead of hoisting them to arguments.",
    **_KEYED,
)
embedded_constants_max_bytes = int_state(
    "jax_embedded_constants_max_bytes", 32, "Larger constants become arguments.", **_KEYED
)
captured_constants_warn_bytes = int_state(
    "jax_captured_constants_warn_bytes",
    2_000_000_000,
    "Warns when a lowered function captures constants of this size; -1 for never.",
)
captured_constants_report_frames = int_state(
    "jax_captured_constants_report_frames",
    0,
    "Frames shown for each large captured constant; -1 for all.",
)
auto_pcast = bool_state(
    "jax_auto_pcast", True, "Makes operands vary over the same mesh axes by itself.", **_KEYED
)
check_vma = bool_state(
    "check_vma", False, "Whether the trace checks what varies over which mesh axes.", **_KEYED
)
remove_size_one_mesh_axis_from_type = bool_state(
    "jax_remove_size_one_mesh_axis_from_type",
    False,
    "Leaves mesh axes of size one out of the types' shardings.",
    **_KEYED,
)
scan3 = bool_state("jax_scan3", False, "The newer implementation of scan.", **_KEYED)
remat3 = bool_state("jax_remat3", False, "The newer implementation of checkpoint.", **_KEYED)
custom_vjp3 = bool_state(
    "jax_custom_vjp3", False, "The newer implementation of custom_vjp.", **_KEYED
)
jax2tf_associative_scan_reductions = bool_state(
    "jax2tf_associative_scan_reductions", False, "Cumulative operations by associative scans."
)
jax2tf_default_native_serialization = bool_state(
    "jax2tf_default_native_serialization", True, "jax2tf serializes StableHLO."
)


# Lowering and compilation

use_shardy_partitioner = bool_state(
    "jax_use_shardy_partitioner", True, "Partitions with Shardy instead of GSPMD.", **_KEYED
)
include_full_tracebacks_in_locations = bool_state(
    "jax_include_full_tracebacks_in_locations",
    True,
    "Puts whole call stacks, not only the user's frame, in the locations of lowered operations.",
)
traceback_in_locations_limit = int_state(
    "jax_traceback_in_locations_limit", 100, "Most frames in a location; -1 for all."
)
hlo_source_file_canonicalization_regex = optional_string_state(
    "jax_hlo_source_file_canonicalization_regex",
    None,
    "What matches is removed from the paths in locations.",
    **_TRACED,
)
source_url_schema = optional_string_state(
    "jax_source_url_schema", None, "Template of links from printed jaxprs to source files."
)
dump_ir_to = string_flag(
    "jax_dump_ir_to",
    "",
    "Folder that lowered modules are written to; 'sponge' for $TEST_UNDECLARED_OUTPUTS_DIR.",
)
include_debug_info_in_dumps = bool_flag(
    "jax_include_debug_info_in_dumps", True, "Keeps locations in the dumped modules."
)
dump_ir_modes = string_flag(
    "jax_dump_ir_modes",
    "stablehlo",
    "What is dumped, comma-separated: stablehlo, jaxpr, eqn_count_pprof.",
)
enable_remat_opt_pass = bool_state(
    "jax_compiler_enable_remat_pass", True, "XLA's pass that recomputes to save memory."
)
disable_most_optimizations = bool_flag(
    "jax_disable_most_optimizations", False, "Compiles quickly what then runs slowly, for tests."
)
cpu_fusion_emitters = bool_flag(
    "jax_cpu_fusion_emitters",
    True,
    "XLA's newer code generation for CPUs; the older one, where XLA has it, compiles twice as quickly, for tests.",
)
cpu_compile_profile = enum_state(
    "jax_cpu_compile_profile",
    ["default", "original", "fast", "quick"],
    "default",
    "Options of XLA for CPUs: chosen by what a program has, none, or those and reordered sums, or quick compilation.",
    **_KEYED,
)
cpu_tiered_compilation = bool_flag(
    "jax_cpu_tiered_compilation",
    False,
    "Compiles programs of one CPU device quickly first, and well in the background.",
)
compiler_detailed_logging_min_ops = int_flag(
    "jax_compiler_detailed_logging_min_ops",
    10,
    "Modules with as many operations get more profiling annotations.",
)
exec_time_optimization_effort = float_state(
    "jax_exec_time_optimization_effort", 0.0, "Effort for speed of execution, -1.0 to 1.0."
)
memory_fitting_effort = float_state(
    "jax_memory_fitting_effort", 0.0, "Effort for small memory use, -1.0 to 1.0."
)
optimization_level = enum_state(
    "jax_optimization_level",
    [level.name for level in EffortLevel],
    "UNKNOWN",
    "XLA's optimisation level.",
    **_JITTED,
)
memory_fitting_level = enum_state(
    "jax_memory_fitting_level",
    [level.name for level in EffortLevel],
    "O2",
    "XLA's level of effort for small memory use.",
    **_JITTED,
)
xla_profile_version = int_state(
    "jax_xla_profile_version", 0, "Version of the profile that XLA compiles with.", **_KEYED
)
enable_pgle = bool_state(
    "jax_enable_pgle", False, "Recompiles with latencies measured in the first runs.", **_TRACED
)
pgle_profiling_runs = int_state(
    "jax_pgle_profiling_runs", 3, "Runs that jax_enable_pgle measures.", **_KEYED
)
pgle_aggregation_percentile = int_state(
    "jax_pgle_aggregation_percentile", 90, "Percentile of the latencies of several devices."
)
serialization_version = int_state(
    "jax_serialization_version", 0, "Former name of jax_export_calling_convention_version."
)
export_calling_convention_version = int_state(
    "jax_export_calling_convention_version", 10, "Calling convention of exported functions."
)
export_ignore_forward_compatibility = bool_state(
    "jax_export_ignore_forward_compatibility",
    False,
    "Exports what only the newest consumers understand.",
)


# Persistent compilation cache

enable_compilation_cache = bool_state(
    "jax_enable_compilation_cache", True, "Uses the cache if it has a folder."
)
compilation_cache_dir = optional_string_state(
    "jax_compilation_cache_dir",
    None,
    "Folder (or bucket) of compiled programs; `auto` for one of this user's.",
    words={"auto": user_cache.folder},
)
compilation_cache_max_size = int_state(
    "jax_compilation_cache_max_size", -1, "Bytes kept in the folder; -1 for no limit."
)
compilation_cache_include_metadata_in_key = bool_state(
    "jax_compilation_cache_include_metadata_in_key",
    False,
    "Makes names and source locations part of the cache's keys.",
)
compilation_cache_check_contents = bool_state(
    "jax_compilation_cache_check_contents",
    False,
    "Compiles again on a hit and raises an error if the result differs.",
)
compilation_cache_expect_pgle = bool_state(
    "jax_compilation_cache_expect_pgle",
    False,
    "Takes programs compiled with jax_enable_pgle from the cache.",
)
raise_persistent_cache_errors = bool_state(
    "jax_raise_persistent_cache_errors", False, "Raises the cache's errors instead of warning."
)
persistent_cache_min_compile_time_secs = float_state(
    "jax_persistent_cache_min_compile_time_secs",
    1.0,
    "Programs that compile in less time are not kept.",
)
persistent_cache_min_entry_size_bytes = int_state(
    "jax_persistent_cache_min_entry_size_bytes",
    0,
    "Smaller programs are not kept; 0 for what suits the file system, -1 for no limit.",
)
persistent_cache_enable_xla_caches = optional_string_state(
    "jax_persistent_cache_enable_xla_caches",
    "xla_gpu_per_fusion_autotune_cache_dir",
    "XLA's own caches kept in the same folder: 'all', 'none' or their names.",
)
remove_custom_partitioning_ptr_from_cache_key = bool_state(
    "jax_remove_custom_partitioning_ptr_from_cache_key",
    False,
    "Leaves addresses of custom partitioning callbacks out of the keys.",
)
share_binary_between_hosts = bool_state(
    "jax_share_binary_between_hosts",
    False,
    "Lets one process compile and the others fetch the program from it, with a compilation cache.",
)
share_binary_between_hosts_timeout_ms = int_state(
    "jax_share_binary_between_hosts_timeout_ms", 20 * 60 * 1000, "How long they wait."
)


# Backends and devices


def _validate_default_device(value: Any) -> None:
    # A string is accepted as it is: only starting the backends shows whether the platform exists.
    if value is None or isinstance(value, _jax.Device) or value in ("cpu", "gpu", "tpu"):
        return
    raise ValueError(
        "jax_default_device takes a device, such as `jax.devices('cpu')[0]`, or the name of a"
        f" platform, 'cpu', 'gpu' or 'tpu'; got {value!r} of type {type(value).__name__}"
    )


default_device = string_or_object_state(
    "jax_default_device",
    None,
    "Where computations without committed arguments run: a device or a platform's name.",
    validator=_validate_default_device,
    **_KEYED,
)
jax_platforms = optional_string_state(
    "jax_platforms",
    None,
    "Comma-separated platforms to start, in order of preference; all that are there if not given.",
)
pjrt_client_create_options = string_or_object_state(
    "jax_pjrt_client_create_options",
    None,
    "Options for the platform's client: a dict, or a string 'name:value;name:value'.",
)
xla_backend = string_flag("jax_xla_backend", "", "Former name of jax_platforms.")
platform_name = string_flag("jax_platform_name", "", "The preferred platform, if it is there.")
backend_target = string_flag("jax_backend_target", "", "Address of a remote backend.")
cuda_visible_devices = string_flag("jax_cuda_visible_devices", "all", "CUDA devices to use.")
rocm_visible_devices = string_flag("jax_rocm_visible_devices", "all", "ROCm devices to use.")
oneapi_visible_devices = string_flag("jax_oneapi_visible_devices", "all", "oneAPI devices to use.")
num_cpu_devices = int_state(
    "jax_num_cpu_devices", -1, "How many CPU devices the CPU backend has; -1 for XLA's choice."
)
cpu_num_threads = int_state(
    "jax_cpu_num_threads",
    0,
    "How many threads the CPU backend computes with; 0 for the cores that the process may use.",
)
cpu_enable_async_dispatch = bool_flag(
    "jax_cpu_enable_async_dispatch", True, "CPU computations return before they are done."
)
cpu_collectives_implementation = optional_enum_state(
    "jax_cpu_collectives_implementation",
    ["gloo", "mpi", "megascale"],
    "gloo",
    "How CPU processes talk to each other.",
)
cpu_get_local_topology_timeout_minutes = int_state(
    "jax_cpu_get_local_topology_timeout_minutes", 2, "How long to wait for a process's devices."
)
cpu_get_global_topology_timeout_minutes = int_state(
    "jax_cpu_get_global_topology_timeout_minutes", 5, "How long to wait for all devices."
)
mock_num_gpu_processes = int_flag(
    "mock_num_gpu_processes", 0, "Pretends that there are so many processes with GPUs."
)
mock_gpu_topology = string_flag(
    "jax_mock_gpu_topology", "", "Pretends a topology: 'slices x hosts x devices'."
)
force_dcn_cross_host_transfers = bool_flag(
    "jax_force_dcn_cross_host_transfers", False, "Transfers between hosts by the network."
)
sort_devices_by_process_index = bool_flag(
    "jax_sort_devices_by_process_index", True, "jax.devices() lists process by process."
)
cross_host_transfer_socket_address = string_flag(
    "jax_cross_host_transfer_socket_address", "", "Address of the transfer server."
)
cross_host_transport_addresses = string_flag(
    "jax_cross_host_transport_addresses", "", "Comma-separated addresses of its transports."
)
cross_host_transfer_timeout_seconds = int_flag(
    "jax_cross_host_transfer_timeout_seconds", None, "How long a transfer may take."
)
cross_host_transfer_transfer_size = int_flag(
    "jax_cross_host_transfer_transfer_size", None, "Bytes of one piece of a transfer."
)
check_proxy_envs = bool_flag(
    "jax_check_proxy_envs", True, "Warns of proxy variables that break multi-process start-up."
)
enable_recoverability = bool_state(
    "jax_enable_recoverability", False, "Lets a process leave and join again."
)
enable_preemption_service = bool_state(
    "jax_enable_preemption_service", True, "Watches for preemption in multi-process runs."
)
xla_runtime_errors = bool_state(
    "jax_experimental_unsafe_xla_runtime_errors",
    False,
    "Lets error checks abort the computation from inside.",
)
gpu_use_magma = enum_state(
    "jax_use_magma", ["off", "on", "auto"], "auto", "Uses MAGMA for eigendecompositions on GPU."
)
bcoo_cusparse_lowering = bool_state(
    "jax_bcoo_cusparse_lowering", False, "Sparse products by cuSPARSE."
)
ragged_dot_use_ragged_dot_instruction = bool_state(
    "jax_ragged_dot_use_ragged_dot_instruction", True, "Ragged products by XLA's own operation."
)
ragged_dot_use_gpu_pallas_triton_lowering = bool_state(
    "jax_ragged_dot_use_gpu_pallas_triton_lowering",
    False,
    "Ragged products by a Triton kernel on GPU.",
    **_KEYED,
)


# Pallas

pallas_enable_debug_checks = bool_state(
    "jax_pallas_enable_debug_checks", False, "Runs the debug checks of kernels.", **_KEYED
)
pallas_use_mosaic_gpu = bool_state(
    "jax_pallas_use_mosaic_gpu", True, "Kernels for GPU by Mosaic, not Triton.", **_KEYED
)
pallas_verbose_errors = bool_flag(
    "jax_pallas_verbose_errors", False, "Shows the kernel's code in its errors."
)
pallas_poison_buffers = bool_state(
    "jax_pallas_poison_buffers", False, "Fills uninitialized buffers with NaNs."
)
mosaic_allow_hlo = bool_state("jax_mosaic_allow_hlo", False, "Allows StableHLO in TPU kernels.")
use_emit_pipeline_primitive = bool_state(
    "jax_use_emit_pipeline_primitive", False, "Keeps pipelines in jaxprs as one eqn.", **_KEYED
)


# Runtime

_RUNTIME_TRACEBACKS = {
    RuntimeTracebackMode.OFF: _jax.RuntimeTracebackMode.OFF,
    RuntimeTracebackMode.ON: _jax.RuntimeTracebackMode.ON,
    RuntimeTracebackMode.FULL: _jax.RuntimeTracebackMode.FULL,
}
send_traceback_to_runtime = enum_class_state(
    "jax_send_traceback_to_runtime",
    RuntimeTracebackMode,
    RuntimeTracebackMode.OFF,
    "Whether the runtime gets the Python traceback of what it runs.",
    update_global_hook=lambda mode: _jax.set_send_traceback_to_runtime_global(
        _RUNTIME_TRACEBACKS[mode]
    ),
    update_thread_local_hook=lambda mode: _jax.set_send_traceback_to_runtime_thread_local(
        None if mode is None else _RUNTIME_TRACEBACKS[mode]
    ),
)

jax_jit.set_enable_x64_state(enable_x64)
jax_jit.set_disable_jit_state(disable_jit)
