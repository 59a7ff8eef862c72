"""Checks of devices: XLA's flags, plugins that do not start, drivers, and devices that nothing uses."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator

from jax._src import config, hardware_utils, xla_bridge
from jax._src.environment_info.findings import Finding, error, note, ok, warning
from jax._src.environment_info.packages import numbers, remedy_for_plugin
from jax._src.xla_bridge import plugins, registry

TOPIC = "devices"
FLAGS = "flags"
PLUGINS = "plugins"

# The oldest driver of NVIDIA that runs programs of a major version of CUDA.
_CUDA_DRIVERS = {"12": "525.60", "13": "580.65"}
_NVIDIA_DRIVER = pathlib.Path("/proc/driver/nvidia/version")

# jaxlib's parser of $XLA_FLAGS ends the process if it does not understand them.
_PARSE_FLAGS = (
    "from jaxlib import _jax; _jax.CompileOptions().executable_build_options.debug_options"
)


def check_flags() -> list[Finding]:
    """An error if XLA would end this process because of $XLA_FLAGS; it is asked in another process."""
    flags = os.environ.get("XLA_FLAGS")
    if not flags or not sys.executable or xla_bridge.backends_are_initialized():
        return []
    child = subprocess.run(
        [sys.executable, "-c", _PARSE_FLAGS], capture_output=True, text=True, timeout=60
    )
    if child.returncode == 0:
        return [ok(FLAGS, f"XLA accepts XLA_FLAGS={flags}")]
    logged = re.search(r"^[EF]\d{4} .*?\] (.*)$", child.stderr, re.M)
    reason = logged[1] if logged else child.stderr.strip()[-200:]
    message = f"XLA ends each program that starts with XLA_FLAGS={flags}: {reason}"
    return [error(FLAGS, message, "unset XLA_FLAGS")]


# How long plugins may take to start: those of accelerators need seconds, or wait for ever for devices that others use.
PLUGIN_SECONDS = 120

# Says which plugin starts, since one can end the process.
_START_PLUGINS = """
from jax._src.xla_bridge import plugins
for name, load in plugins.find_plugins():
    print(name, flush=True)
    try: load().initialize()
    except BaseException: pass
print(flush=True)
"""


def check_plugins() -> list[Finding]:
    """An error if a plugin would end this process, or stop it; they are started in another one."""
    if not sys.executable or xla_bridge.backends_are_initialized() or not plugins.find_plugins():
        return []
    try:
        child = subprocess.run(
            [sys.executable, "-c", _START_PLUGINS], capture_output=True, timeout=PLUGIN_SECONDS
        )
        output, said = child.stdout, child.stderr
        code = child.returncode
        how = f"signal {-code}" if code < 0 else f"status {code}"
        what = f"ends each program that starts it, with {how}"
    except subprocess.TimeoutExpired as err:
        output, said = err.stdout or b"", err.stderr or b""
        what = f"does not start within {PLUGIN_SECONDS} s, as if it waited for a device that another program uses"
    if output.endswith(b"\n\n"):
        return []
    names = output.decode(errors="replace").split()
    name = names[-1] if names else "unknown"
    said = said.decode(errors="replace").strip()[-200:]
    message = f"the JAX plugin {name} {what}"
    return [error(PLUGINS, f"{message}: {said}" if said else message, remedy_for_plugin(name))]


def check_devices() -> Iterator[Finding]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            devices = xla_bridge.devices()
        except RuntimeError as err:
            yield error(TOPIC, f"no backend starts: {err}", _unset(str(err)))
            return
    default = devices[0].platform
    kinds = sorted({d.device_kind for d in devices})
    yield ok(TOPIC, f"programs run on {default}: {len(devices)} of {', '.join(kinds)}")
    for message in dict.fromkeys(str(w.message) for w in caught):
        yield warning(TOPIC, message, _reinstall(message))
    yield from _check_plugins()
    yield from _check_unused_hardware(default)
    yield from _check_nvidia_driver()
    yield from _check_device_files()


def _unset(message: str) -> str | None:
    """What removes the variable because of which no backend starts, if there is one."""
    named = [name.upper() for name in re.findall(r"\bjax_\w+", message)]
    variables = [name for name in (*named, "JAX_PLATFORMS") if name in os.environ]
    return f"unset {variables[0]}" if variables else None


def _reinstall(message: str) -> str | None:
    match = re.search(r"plugin (\S+) could not", message)
    return remedy_for_plugin(match[1]) if match else None


def _check_plugins() -> Iterator[Finding]:
    started = xla_bridge.backends()
    asked = config.jax_platforms.value or ""
    for name, reason in registry.backend_errors().items():
        if _hardware(name) or name in asked.split(","):
            yield error(TOPIC, f"the platform {name} does not start: {reason}")
        elif name != "tpu":  # whose loader is part of jax, on every machine
            yield note(TOPIC, f"the platform {name} is left out: {reason}")
    names = [name for name, _ in plugins.find_plugins()]
    if names:
        yield ok(TOPIC, f"plugins: {', '.join(names)}; started: {', '.join(started)}")


def _hardware(platform: str) -> bool:
    """Whether this machine seems to have devices of a platform."""
    if platform == "cuda":
        return hardware_utils.has_visible_nvidia_gpu()
    if platform == "rocm":
        return hardware_utils.num_available_amd_gpus(stop_at=1) > 0
    return platform == "tpu" and hardware_utils.num_available_tpu_chips_and_device_id()[0] > 0


def _check_unused_hardware(default: str) -> Iterator[Finding]:
    known, errors = registry.registered_platforms(), registry.backend_errors()
    for platform, maker, extra in (
        ("cuda", "An NVIDIA GPU", "cuda"), ("rocm", "An AMD GPU", "rocm"), ("tpu", "A TPU", "tpu")
    ):  # fmt: skip
        if platform in errors or not _hardware(platform):
            continue
        if platform not in known:
            yield warning(
                TOPIC, f"{maker} is there, but no plugin for it", f'pip install "jax[{extra}]"'
            )
        elif default == "cpu":
            yield warning(
                TOPIC,
                f"{maker} is there, but JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')} chooses the CPU",
                "unset JAX_PLATFORMS",
            )
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    files = map(os.path.exists, hardware_utils.NVIDIA_GPU_DEVICES)
    if hidden is not None and any(files) and not hardware_utils.has_visible_nvidia_gpu():
        yield warning(
            TOPIC, f"CUDA_VISIBLE_DEVICES={hidden!r} hides all GPUs", "unset CUDA_VISIBLE_DEVICES"
        )


def _check_nvidia_driver() -> Iterator[Finding]:
    try:
        text = _NVIDIA_DRIVER.read_text()
    except OSError:
        return
    match = re.search(r"Kernel Module[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    if match is None:
        return
    for name, _ in plugins.find_plugins():
        version = re.search(r"cuda(\d+)", name)
        needed = _CUDA_DRIVERS.get(version[1] if version else "13")
        if "cuda" not in name or needed is None:
            continue
        if numbers(match[1]) < numbers(needed):
            yield error(
                "drivers",
                f"NVIDIA's driver is {match[1]}, and {name} needs {needed} or newer",
                f"apt-get install nvidia-driver-{needed.partition('.')[0]}",
            )
        else:
            yield ok("drivers", f"NVIDIA's driver {match[1]} is new enough for {name}")


def _check_device_files() -> Iterator[Finding]:
    files = [*pathlib.Path("/dev").glob("nvidia[0-9]*"), *pathlib.Path("/dev").glob("kfd")]
    for file in files:
        if not os.access(file, os.R_OK | os.W_OK):
            group = "render,video" if file.name == "kfd" else "video"
            yield error(
                "drivers",
                f"{file} may not be read and written",
                f'sudo usermod -aG {group} "$USER"',
            )
