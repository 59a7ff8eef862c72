"""Compilation: the options for XLA, and the call that compiles a module."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import cache_use, config, cpu_profile, lib, memory_maps, monitoring
from jax._src.lib import Client, CompileOptions, DeviceList, _jax

if TYPE_CHECKING:
    from jax._src.lib.mlir import ir

logger = logging.getLogger("jax._src.dispatch")  # the documented logger of these messages

# Names of the measured durations in `jax.monitoring`.
JAXPR_TRACE_EVENT = "/jax/core/compile/jaxpr_trace_duration"
JAXPR_TO_MLIR_MODULE_EVENT = "/jax/core/compile/jaxpr_to_mlir_module_duration"
BACKEND_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


# Called with the name and the executable of each program that was compiled or loaded from the cache.
executable_listeners: list[Callable[[str, Any], None]] = []


class log_elapsed_time:
    """Context manager: measures, logs and reports a stage of compilation.

    Args:
      fmt: the message, with fields ``{fun_name}`` and ``{elapsed_time}``.
      fun_name: the function.
      event: the name passed to `jax.monitoring` listeners; with None they are not called.

    The message has level WARNING if `jax_log_compiles` is True, DEBUG otherwise. Nothing is logged
    or reported if the stage fails.
    """

    __slots__ = ("fmt", "fun_name", "event", "start")

    def __init__(self, fmt: str, fun_name: str, event: str | None = None):
        self.fmt = fmt
        self.fun_name = fun_name
        self.event = event

    def __enter__(self):
        self.start = time.time()
        if self.event is not None:
            monitoring.record_scalar(self.event, self.start, fun_name=self.fun_name)

    def __exit__(self, exc_type, exc_value, traceback):
        if exc_type is not None:
            return
        end = time.time()
        log = config.log_compiles.value
        if log == "summary" and self.event is not None:
            _summary().add_duration(self.event, self.fun_name, end - self.start)
        priority = logging.WARNING if log is True else logging.DEBUG
        if logger.isEnabledFor(priority):
            logger.log(
                priority, self.fmt.format(fun_name=self.fun_name, elapsed_time=end - self.start)
            )
        if self.event is not None:
            name = self.fun_name
            monitoring.record_event_duration_secs(self.event, end - self.start, fun_name=name)
            monitoring.record_event_time_span(self.event, self.start, end, fun_name=name)


def _summary() -> Any:
    """The module of the summary of compilations, which most programs do not use."""
    from jax._src import compile_summary

    return compile_summary


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment=None,
    env_options_overrides: Mapping[str, Any] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Client | None = None,
) -> CompileOptions:
    """The options to compile with, from the configuration.

    Args:
      num_replicas: replicas of the whole program.
      num_partitions: devices that share one replica.
      device_assignment: array of devices or their ids, of shape ``(num_replicas, num_partitions)``,
        or ``(num_replicas,)`` for one partition.
      env_options_overrides: options for this program: XLA's options by name (those of
        ``XLA_FLAGS``), ``optimization_level``, ``memory_fitting_level``,
        ``exec_time_optimization_effort`` and ``memory_fitting_effort``.
      fdo_profile: a profile for feedback-directed optimization.
      backend: the client that will compile.

    Raises:
      ValueError: the device assignment does not have that shape.
      TypeError: an option's value has the wrong type.
    """
    options = CompileOptions()
    options.num_replicas = num_replicas
    options.num_partitions = num_partitions
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_auto_spmd_partitioning = False
    build.use_shardy_partitioner = config.use_shardy_partitioner.value
    if lib.has_efforts:
        build.exec_time_optimization_effort = config.exec_time_optimization_effort.value
        build.memory_fitting_effort = config.memory_fitting_effort.value
    build.optimization_level = config.EffortLevel[config.optimization_level.value].value
    build.memory_fitting_level = config.EffortLevel[config.memory_fitting_level.value].value
    if fdo_profile is not None:
        build.fdo_profile = fdo_profile
    overrides = dict(env_options_overrides or {})
    on_cpu = backend is not None and backend.platform == "cpu"
    if on_cpu and not config.cpu_fusion_emitters.value and cpu_profile.has_emitters():
        overrides.setdefault(cpu_profile.EMITTERS, False)
    own_options = {
        name: _build_option(name, kind, overrides.pop(name))
        for name, kind in _BUILD_OPTIONS.items()
        if name in overrides
    }
    if overrides:
        options.env_option_overrides = [
            (name, _option_value(name, value)) for name, value in overrides.items()
        ]
    for name, value in own_options.items():
        setattr(build, name, value)
    debug = build.debug_options
    debug.xla_detailed_logging = detailed_logging
    if config.disable_most_optimizations.value:
        debug.xla_backend_optimization_level = 0
        debug.xla_llvm_disable_expensive_passes = True
        debug.xla_test_all_input_layouts = False
    if not config.enable_remat_opt_pass.value:
        debug.xla_disable_hlo_passes = "rematerialization"
    if config.compilation_cache_dir.value:
        _cache().use_xla_caches(options)
    if device_assignment is not None:
        options.device_assignment = _device_assignment(
            device_assignment, num_replicas, num_partitions
        )
    if backend is not None:
        options.profile_version = get_latest_profile_version(backend)
    return options


def check_compiler_options(options: Any) -> Mapping[str, Any]:
    """Raises TypeError if what the user gives for compiler options is no mapping."""
    if not isinstance(options, Mapping):
        raise TypeError(
            "compiler_options must be a dictionary of XLA options by name, such as"
            f" {{'xla_cpu_enable_fast_math': True}}, got {options!r} of type {type(options)}"
        )
    return options


def config_key() -> tuple[Any, ...]:
    """The part of the configuration that affects compilation, for use in cache keys."""
    return tuple([option.value for option in _CONFIGURATION])


_CONFIGURATION = (
    config.use_shardy_partitioner,
    config.exec_time_optimization_effort,
    config.memory_fitting_effort,
    config.optimization_level,
    config.memory_fitting_level,
    config.compiler_detailed_logging_min_ops,
    config.disable_most_optimizations,
    config.cpu_fusion_emitters,
    config.cpu_compile_profile,
    config.enable_remat_opt_pass,
    config.xla_profile_version,
)

# Options of the build of one program rather than XLA flags, and their types.
_BUILD_OPTIONS: dict[str, type] = {
    "optimization_level": int,
    "memory_fitting_level": int,
    "exec_time_optimization_effort": float,
    "memory_fitting_effort": float,
}


def _build_option(name: str, kind: type, value: Any) -> int | float:
    numbers: tuple[type, ...] = (int, np.integer)
    if kind is float:
        numbers = (*numbers, float, np.floating)
    if not isinstance(value, numbers):
        raise TypeError(
            f"The value of the compiler option {name!r} must be of type {kind.__name__}, got {value!r} of"
            f" type {type(value)}."
        )
    if name.endswith("effort") and not lib.has_efforts:
        raise ValueError(
            f"This version of jaxlib has no compiler option {name!r}: use 'optimization_level' or"
            " 'memory_fitting_level'."
        )
    return kind(value)


def _option_value(name: str, value: Any) -> str | bool | int | float:
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"The value of the compiler option {name!r} must be a str, bool, int or float, got"
        f" {value!r} of type {type(value)}."
    )


def _device_assignment(devices, num_replicas, num_partitions) -> _jax.DeviceAssignment:
    if not isinstance(devices, np.ndarray):
        devices = np.array(devices)
    if devices.ndim == 1 and num_partitions == 1:
        devices = devices[:, None]
    if devices.shape != (num_replicas, num_partitions):
        raise ValueError(
            f"device_assignment has shape {devices.shape}, but num_replicas={num_replicas} and"
            f" num_partitions={num_partitions}."
        )
    ids = [getattr(d, "id", d) for d in devices.flat]
    return _jax.DeviceAssignment.create(np.array(ids, dtype=np.int32).reshape(devices.shape))


def get_latest_profile_version(backend: Client) -> int:
    """The version of the profile to compile with; -1 for none."""
    version = config.xla_profile_version.value
    return version if version else -1


def use_detailed_logging(module: ir.Module) -> bool:
    """Whether a module is large enough to be annotated for profilers."""
    bound = config.compiler_detailed_logging_min_ops.value
    return count_operations(module.operation, bound) >= bound


def count_operations(op, bound: int) -> int:
    """The number of operations in `op`; it counts no further than `bound`."""
    count = 0
    for region in op.regions:
        for block in region:
            for child in block:
                count += 1
                if count < bound:
                    count += count_operations(child.operation, bound - count)
                if count >= bound:
                    return count
    return count


_XLA_RUNTIME_ERROR_HANDLERS: list[Callable[[_jax.JaxRuntimeError], Exception | None]] = []


def register_xla_runtime_error_handler(
    handler_fn: Callable[[_jax.JaxRuntimeError], Exception | None],
) -> None:
    """Registers a function that may replace errors of the compiler.

    Args:
      handler_fn: takes the error; returns the error to raise in its place, or None.
    """
    _XLA_RUNTIME_ERROR_HANDLERS.append(handler_fn)


def backend_compile_and_load(
    backend: Client,
    module: ir.Module,
    executable_devices: DeviceList,
    options: CompileOptions,
    host_callbacks: Sequence[Any],
) -> _jax.LoadedExecutable | _jax.Executable:
    """Compiles a module for devices.

    Args:
      backend: the client. That of absent devices only compiles; the result cannot be run.
      module: the module, in StableHLO.
      executable_devices: the devices, in order.
      options: see :func:`get_compile_options`.
      host_callbacks: functions on the host that the program calls.

    Raises:
      jax.errors.JaxRuntimeError: the compiler reported an error.
    """
    try:
        if is_compile_only(backend):  # nothing will call the callbacks
            return backend.compile(
                module, executable_devices=executable_devices, compile_options=options
            )
        callbacks = {"host_callbacks": host_callbacks} if host_callbacks else {}
        return backend.compile_and_load(
            module, executable_devices=executable_devices, compile_options=options, **callbacks
        )
    except _jax.JaxRuntimeError as error:
        if "No FFI handler registered" in str(error):
            error.add_note(
                "Functions that are not the compiler's own are in another package than the plugin:"
                " jax-cuda13-plugin for NVIDIA's GPUs, jax-rocm7-plugin for AMD's; others are registered by"
                " jax.ffi.register_ffi_target."
            )
        for handler in _XLA_RUNTIME_ERROR_HANDLERS:
            if (replacement := handler(error)) is not None:
                raise replacement from error
        raise


def is_compile_only(backend: Client) -> bool:
    """Whether a client compiles for devices that are absent; see `jax.experimental.topologies`."""
    return isinstance(backend, _jax.CompileOnlyPyClient)


def compile_or_get_cached(
    backend: Client,
    computation: ir.Module,
    devices: np.ndarray,
    compile_options: CompileOptions,
    host_callbacks: Sequence[Any],
    executable_devices: DeviceList,
    pgle_profiler=None,
    *,
    fun_name: str | None = None,
    is_kept: bool = True,
) -> _jax.LoadedExecutable | _jax.Executable:
    """Compiles a module, or gets it from the cache; logs and reports how long that took.

    Args:
      devices: array of the devices, in the shape of the device assignment.
      pgle_profiler: provides the latencies of earlier runs to compile with, if there are any.
      fun_name: the name of the function in the log; by default the module's name.
      is_kept: whether the cache may have it, and keeps it.
      others: see :func:`backend_compile_and_load`.
    """
    if pgle_profiler is not None and (profile := pgle_profiler.consume_fdo_profile()):
        compile_options.executable_build_options.fdo_profile = profile
    name = fun_name or module_name(computation)

    def compile_module() -> Any:
        return backend_compile_and_load(
            backend, computation, executable_devices, compile_options, host_callbacks
        )

    with log_elapsed_time(
        "Finished XLA compilation of {fun_name} in {elapsed_time:.9f} sec",
        name,
        BACKEND_COMPILE_EVENT,
    ):
        cache_use.tell()
        if not (is_kept and _uses_cache(backend)):
            executable = compile_module()
        else:
            executable = _cache().compile_or_get_cached(
                compile_module,
                computation,
                module_name(computation),
                devices,
                compile_options,
                backend,
                executable_devices,
                bool(host_callbacks),
                pgle_profiler,
            )
    if backend.platform == "cpu":
        memory_maps.count_program()
    for listener in executable_listeners:  # when the time has been taken
        listener(name, executable)
    return executable


def is_in_cache(
    backend: Client, computation: ir.Module, devices: np.ndarray, options: CompileOptions
) -> bool:
    """Whether `compile_or_get_cached` would find a module in the cache."""
    return _uses_cache(backend) and _cache().is_in_cache(computation, devices, options, backend)


def _uses_cache(backend: Client) -> bool:
    return bool(config.compilation_cache_dir.value) and _cache().is_cache_used(backend)


def _cache() -> Any:
    """The module of the compilation cache, which most programs do not use."""
    from jax._src import compilation_cache

    return compilation_cache


def module_name(module: ir.Module) -> str:
    """The name of a module: that of the function it was lowered from."""
    from_attribute = module.operation.attributes
    return from_attribute["sym_name"].value if "sym_name" in from_attribute else "<unnamed>"
