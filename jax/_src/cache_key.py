"""Keys of the persistent compilation cache: a hash of all that a compiled program depends on.

Two programs have the same key only if compiling either gives a program that can stand for the other:
the same operations, options and versions of what compiles them, for devices of the same kind.
"""

from __future__ import annotations

import enum
import hashlib
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import config, hardware_utils, lib
from jax._src.lib import Client, CompileOptions, native_kernels

if TYPE_CHECKING:
    from jax._src.lib.mlir import ir

logger = logging.getLogger(__name__)

# XLA's flags that say where to write what, and do not change the program. The last ones stand for the
# folders of caches that are kept beside this one.
_FLAGS_WITHOUT_EFFECT = frozenset({
    "xla_dump_compress_protos", "xla_dump_disable_metadata", "xla_dump_fusion_visualization",
    "xla_dump_hlo_as_dot", "xla_dump_hlo_as_html", "xla_dump_hlo_as_long_text",
    "xla_dump_hlo_as_proto", "xla_dump_hlo_as_text", "xla_dump_hlo_as_url",
    "xla_dump_hlo_module_re", "xla_dump_hlo_pass_re", "xla_dump_hlo_pipeline_re",
    "xla_dump_hlo_snapshots", "xla_dump_include_timestamp", "xla_dump_max_hlo_modules",
    "xla_dump_module_metadata", "xla_dump_to", "xla_force_host_platform_device_count",
    "xla_gpu_cuda_data_dir", "xla_gpu_experimental_autotune_cache_mode",
    "xla_tpu_sdc_checker_enable_coresweep_ng_callbacks",
    "xla_tpu_sdc_checker_enable_sdc_event_callbacks",
    "xla_tpu_sdc_checker_no_logging_if_callbacks_are_present", "xla_tpu_sdc_checker_streamz_metric",
})  # fmt: skip
# The same as lists that programs can extend: as flags, and as `compiler_options` of `jax.jit`.
xla_flags_to_exclude_from_cache_key = [f"--{name}" for name in sorted(_FLAGS_WITHOUT_EFFECT)]
env_override_flags_to_exclude_from_cache_key = set(_FLAGS_WITHOUT_EFFECT)
_CACHE_FOLDERS = ("xla_gpu_kernel_cache_file", "xla_gpu_per_fusion_autotune_cache_dir")

# A custom call whose function in this process says how to partition it.
CUSTOM_PARTITIONING_TARGET = "CustomSPMDPartitioning"
_CALLBACK_TARGETS = ("xla_python_cpu_callback", "xla_python_gpu_callback",
                     "xla_ffi_python_cpu_callback", "xla_ffi_python_gpu_callback",
                     "xla_ffi_partitioned_python_cpu_callback", "xla_ffi_partitioned_python_gpu_callback",
                     "xla_buffer_python_cpu_callback", "xla_buffer_python_gpu_callback",
                     "xla_buffer_python_gpu_callback_cmd_buffer")  # fmt: skip


class IgnoreCallbacks(enum.IntEnum):
    """Which custom calls are hashed without the numbers that stand for functions of this process."""

    NO = 1
    ALL = 2
    CUSTOM_PARTITIONING = 3


_flag_prefixes: list[str] = []


def add_flag_prefixes(flag_prefixes: list[str]) -> None:
    """Lets the program's own arguments that start with one of these be part of all keys."""
    _flag_prefixes.extend(flag_prefixes)


def get_flag_prefixes() -> list[str]:
    """Returns what `add_flag_prefixes` has been given."""
    return _flag_prefixes


def clear_flag_prefixes() -> None:
    """Undoes `add_flag_prefixes`."""
    _flag_prefixes.clear()


def custom_hook() -> str:
    """Returns a further part of all keys. Programs replace this function by their own."""
    return ""


def get(
    module: ir.Module,
    devices: np.ndarray,
    compile_options: CompileOptions,
    backend: Client,
    compression_algorithm: str = "zlib",
    ignore_callbacks: IgnoreCallbacks = IgnoreCallbacks.NO,
) -> str:
    """Returns the key of a program: its name and a hash, which are fit for the name of a file.

    Args:
      module: the lowered program. Names and source locations count only if
        `jax_compilation_cache_include_metadata_in_key` is set.
      devices: the devices that it is compiled for.
      compile_options: the options that it is compiled with.
      backend: the client that compiles it.
      compression_algorithm: how entries are compressed.
      ignore_callbacks: which numbers that stand for functions of this process do not count.
    """
    parts = {
        "computation": _canonical_bytes(module, ignore_callbacks),
        "versions": _versions(backend),
        "flags": "\n".join(_flags()).encode(),
        "options": _canonical_options(compile_options),
        "devices": _described(devices),
        "compression": compression_algorithm.encode(),
        "custom hook": custom_hook().encode(),
    }
    digests = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    whole = hashlib.sha256("\n".join(f"{n}={d}" for n, d in digests.items()).encode()).hexdigest()
    name = module.operation.attributes["sym_name"].value
    name = "".join(c if c.isalnum() or c in "_-." else "_" for c in name)[:_LONGEST_NAME]
    key = f"{name}-{whole}"
    logger.debug("Hashes of the parts of the cache's key %s: %s", key, digests)
    return key


_LONGEST_NAME = 150  # file systems have names of 255 bytes


def uses_functions_of_this_process(module: ir.Module) -> bool:
    """Whether a program's meaning depends on functions that partition it, which have no key."""
    return CUSTOM_PARTITIONING_TARGET.encode() in _bytecode(module.operation)


def _canonical_bytes(module: ir.Module, ignore_callbacks: IgnoreCallbacks) -> bytes:
    with module.context:
        clone = module.operation.clone()
        if not config.compilation_cache_include_metadata_in_key.value:
            from jax._src.lib.mlir import passmanager

            passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(clone)
        ignored = {
            IgnoreCallbacks.NO: (),
            IgnoreCallbacks.ALL: (CUSTOM_PARTITIONING_TARGET, *_CALLBACK_TARGETS),
            IgnoreCallbacks.CUSTOM_PARTITIONING: (CUSTOM_PARTITIONING_TARGET,),
        }[ignore_callbacks]
        if ignored:
            for op in _operations(clone):
                if _target(op) in ignored and "backend_config" in op.attributes:
                    del op.attributes["backend_config"]
        return _bytecode(clone)


def _bytecode(operation: Any) -> bytes:
    output = io.BytesIO()
    operation.write_bytecode(file=output)
    return output.getvalue()


def _operations(module: Any) -> list[Any]:
    from jax._src.lib.mlir import ir

    found = []

    def visit(op: Any) -> Any:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _target(op: Any) -> str | None:
    if op.name != "stablehlo.custom_call":
        return None
    target: str = op.attributes["call_target_name"].value
    return target


def _canonical_options(options: CompileOptions) -> bytes:
    """The options as bytes, without those that do not change the program."""
    copy = CompileOptions.ParseFromString(options.SerializeAsString())
    debug = copy.executable_build_options.debug_options
    for name in (*_FLAGS_WITHOUT_EFFECT, *_CACHE_FOLDERS):
        if hasattr(debug, name):
            setattr(debug, name, _neutral(getattr(debug, name)))
    if copy.device_assignment is not None:
        # The devices are described elsewhere; entries are loaded for devices with other numbers, too.
        numbers = np.arange(copy.num_replicas * copy.num_partitions, dtype=np.int32)
        grid = numbers.reshape(copy.num_replicas, copy.num_partitions)
        copy.device_assignment = lib._jax.DeviceAssignment.create(grid)
    copy.env_option_overrides = [
        (name, value)
        for name, value in options.env_option_overrides
        if name not in env_override_flags_to_exclude_from_cache_key
    ]
    data: bytes = copy.SerializeAsString()
    return data


def _neutral(value: Any) -> Any:
    """A value of the same type that depends on nothing."""
    if isinstance(value, (str, bool, int)):
        return type(value)()
    return next(iter(type(value)))  # the first one of an enumeration


def _flags() -> list[str]:
    """The compilers' flags in the environment, and those among the arguments of the program."""
    variables = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
    flags = " ".join(os.environ.get(name, "") for name in variables).split()
    flags += [arg for arg in sys.argv[1:] if arg.startswith(("--xla", *_flag_prefixes))]
    excluded = {name.removeprefix("--") for name in xla_flags_to_exclude_from_cache_key}
    return sorted(
        flag for flag in flags if flag.removeprefix("--").partition("=")[0] not in excluded
    )


def _versions(backend: Client) -> bytes:
    extension = native_kernels.extension() if config.native_kernels.value else None
    return "\n".join(
        [
            f"jaxlib {lib.version_str}",
            f"jaxlib-ext {extension.__version__ if extension is not None else None}",
            f"platform {backend.platform} {backend.platform_version}",
        ]
    ).encode()


def _described(devices: np.ndarray) -> bytes:
    """The kinds of the devices and how they are arranged.

    Code for a CPU uses what this machine's processor has: a folder may be shared with machines that
    lack it.
    """
    flat = list(np.asarray(devices).flat)
    # Processes are numbered from 0 in their order, so that a program of one process has the same key in all.
    processes = list(dict.fromkeys(d.process_index for d in flat))
    lines = [repr(np.shape(devices))]
    for d in flat:
        details = [
            getattr(d, name, "") for name in ("compute_capability", "coords", "core_on_chip")
        ]
        lines.append(f"{d.platform} {d.device_kind} {processes.index(d.process_index)} {details}")
    if any(d.platform == "cpu" for d in flat):
        lines += [hardware_utils.processor_name(), *sorted(hardware_utils.processor_features())]
    return "\n".join(lines).encode()
