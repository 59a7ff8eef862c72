"""AMD GPUs, through the PJRT library of the wheel jax-rocm7-pjrt and ROCm.

`initialize()` only registers the platform. When the platform starts, the plugin finds the library,
checks the driver and the devices, loads ROCm's libraries, and reports problems in readable
messages.
"""

from __future__ import annotations

import os

from jax._src import hardware_utils
from jax._src.xla_bridge import vendors
from jax._src.xla_bridge.vendors import Library, PlatformUnavailable, WheelLibrary

_FILE = "xla_rocm_plugin.so"
_WHEELS = [WheelLibrary("jax-rocm7-pjrt", "jax_plugins.xla_rocm7", _FILE)]
_MAJOR = 7  # the version of ROCm, to which the libraries and the package name belong
_DRIVER = "/dev/kfd"
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")

# The libraries of ROCm 7, each after those that it depends on. Releases of the PJRT library differ
# in which of them they need, so a missing library is only reported when loading the PJRT library
# fails.
_LIBRARIES = (
    "librocm_sysdeps_numa.so.1", "librocm_sysdeps_drm.so.2", "librocm_sysdeps_drm_amdgpu.so.1",
    "libhsa-runtime64.so.1", "libamd_comgr.so.3", "libamdhip64.so.7", "libhiprtc.so.7",
    "libroctx64.so.4", "librocprofiler-register.so.0", "librocprofiler-sdk.so.1", "libamd_smi.so.26",
    "librocm_smi64.so.1", "libhipblaslt.so.1", "librocblas.so.5", "librocsolver.so.0",
    "librocsparse.so.1", "libhipblas.so.3", "libhipsolver.so.1", "libhipsparse.so.4", "libhipfft.so.0",
    "libMIOpen.so.1", "librccl.so.1",
)  # fmt: skip


def initialize() -> None:
    """Registers the platform "rocm"."""
    vendors.register_gpus(
        "rocm",
        variable="JAX_ROCM_LIBRARY_PATH",
        wheels=_WHEELS,
        local=os.path.join(os.path.dirname(os.path.abspath(__file__)), _FILE),
        is_wanted=lambda: hardware_utils.num_available_amd_gpus(stop_at=1) > 0,
        prepare=prepare,
        kernels="jax_rocm{0}_plugin",
        xla_platform="ROCM",
    )


def prepare(library: Library) -> None:
    """Checks the driver and the devices, and loads ROCm's libraries.

    Raises:
      PlatformUnavailable: if something is missing, or has another version.
    """
    _check_driver()
    _check_version()
    vendors.preload(_LIBRARIES, rocm_folders())


def rocm_folders() -> list[str]:
    """Returns folders that may have ROCm's libraries: wheels, then $ROCM_PATH, then /opt/rocm."""
    folders = vendors.package_folders("rocm", "lib")
    folders += vendors.package_folders("_rocm_sdk_core", "lib")
    for package in _sdk_libraries():
        folders += vendors.package_folders(package, "lib")
    return folders + [os.path.join(root, "lib") for root in _installations()]


def _installations() -> list[str]:
    """Returns the folders in which ROCm is installed."""
    roots = (os.environ.get("ROCM_PATH"), "/opt/rocm")
    return [root for root in roots if root and os.path.isdir(os.path.join(root, "lib"))]


def _sdk_libraries() -> list[str]:
    """Returns the packages of the wheels rocm-sdk-libraries, which are named after GPU families."""
    beside = {os.path.dirname(f) for f in vendors.package_folders("_rocm_sdk_core", ".")}
    names = {name for f in beside for name in os.listdir(os.path.dirname(f))}
    return sorted(name for name in names if name.startswith("_rocm_sdk_libraries"))


def _check_driver() -> None:
    if not os.path.exists(_DRIVER):
        raise PlatformUnavailable(
            f"No driver for AMD GPUs is found ({_DRIVER} does not exist): install amdgpu, or give the"
            f" container the devices {_DRIVER} and /dev/dri."
        )
    if not os.access(_DRIVER, os.R_OK | os.W_OK):
        raise PlatformUnavailable(
            f"The driver of AMD GPUs may not be used ({_DRIVER} cannot be opened): add the user to the"
            " groups render and video."
        )
    count = hardware_utils.num_available_amd_gpus()
    hidden = {name: os.environ[name] for name in _VISIBLE if name in os.environ}
    for value in hidden.values():
        count = _count_visible(value, count)
    if count == 0:
        settings = ", ".join(f"{name}={value!r}" for name, value in hidden.items())
        raise PlatformUnavailable(
            f"No AMD GPU is found{settings and f' (the environment has {settings})'}."
        )
    vendors.check_visible_devices("jax_rocm_visible_devices", count, "AMD GPUs are")


def _count_visible(value: str, count: int) -> int:
    """Returns how many of `count` GPUs are visible by a list of numbers and names, '0,GPU-1f3a'.

    Like ROCm, it ignores entries from the first invalid one on.
    """
    visible: set[str] = set()
    for device in map(str.strip, value.split(",")):
        if not device.startswith("GPU-") and not (device.isdigit() and int(device) < count):
            break
        visible.add(device)
    return min(len(visible), count)


def _check_version() -> None:
    """Raises PlatformUnavailable if ROCm is installed, but not in the plugin's version."""
    found = {root: _read_version(root) for root in _installations()}
    found["the package rocm-sdk-core"] = vendors.package_version("rocm-sdk-core")
    known = {place: version for place, version in found.items() if version}
    if known and all(vendors.version_numbers(v)[:1] != (_MAJOR,) for v in known.values()):
        versions = ", ".join(f"{version} in {place}" for place, version in known.items())
        raise PlatformUnavailable(
            f"The plugin needs ROCm {_MAJOR}, but finds {versions}: install ROCm {_MAJOR}, and name its folder"
            " in ROCM_PATH if it is not /opt/rocm."
        )


def _read_version(root: str) -> str | None:
    try:
        with open(os.path.join(root, ".info", "version"), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return None
