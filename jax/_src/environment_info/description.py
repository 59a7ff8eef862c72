"""The description of the environment that bug reports need."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np

from jax._src import compilation_cache, config, lib, xla_bridge
from jax._src.environment_info import doctor
from jax._src.environment_info.findings import report
from jax._src.lib import native_kernels
from jax.version import __version__

# Prefixes of the environment variables that affect JAX and XLA.
_PREFIXES = ("JAX_", "XLA_", "CUDA_", "ROCM_", "TPU_", "NCCL_")


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints versions, devices and settings for a bug report, and what is wrong with them.

    Below the lines that PyPI's jax prints are those of the doctor: problems, each with the command that mends it, and what is
    in order. `python -m jax.doctor` prints only these, and its exit status tells whether there are errors.

    Args:
      return_string: whether to return the text instead of printing it.

    >>> jax.print_environment_info()  # doctest: +SKIP
    jax:    0.10.2
    jaxlib: 0.10.2
    jaxlib-ext: 0.10.2, vectors: AVX2
    ...
    checks:
    ok       packages: jaxlib 0.10.2 fits jax 0.10.2
    ...
    """
    findings = doctor.diagnose()
    starts = xla_bridge.backends_are_initialized()
    python = sys.version.replace("\n", " ")
    lines = [
        f"jax:    {__version__}",
        f"jaxlib: {lib.version_str}",
        f"jaxlib-ext: {_extension_info()}",
        f"numpy:  {np.__version__}",
        f"python: {python}",
        f"device info: {_device_info() if starts else 'no backend starts (see below)'}",
        f"process_count: {xla_bridge.process_count() if starts else 'unknown'}",
        f"platform: {platform.uname()}",
        f"compilation cache: {_compilation_cache_info()}",
    ]
    lines += [f"{name}={value}" for name, value in os.environ.items() if name.startswith(_PREFIXES)]
    if starts and (gpu := _nvidia_smi()) is not None:
        lines.append("\n$ nvidia-smi\n" + gpu)
    lines += ["\nchecks:", report(findings)]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


def _extension_info() -> str:
    if not config.native_kernels.value:
        return "not used (jax_native_kernels is False)"
    extension = native_kernels.extension()
    if extension is None:
        return f"not used ({native_kernels.problem()})"
    return f"{extension.__version__}, vectors: {extension.vector_target()}"


def _compilation_cache_info() -> str:
    if not compilation_cache.is_persistent_cache_enabled():
        return "not used (set jax_compilation_cache_dir to a folder)"
    counts = compilation_cache.counts
    found = f"{counts.hits} hits, {counts.misses} misses, {counts.written} programs written"
    return f"{config.compilation_cache_dir.value}: {found} by this process"


def _device_info() -> str:
    devices = xla_bridge.devices()
    kinds = sorted({d.device_kind for d in devices})
    return f"{', '.join(kinds)}-{len(devices)}, {xla_bridge.local_device_count()} local devices"


def _nvidia_smi() -> str | None:
    if not any(d.platform == "gpu" for d in xla_bridge.devices()):
        return None
    try:
        return subprocess.run(
            ["nvidia-smi"], capture_output=True, text=True, check=True, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
