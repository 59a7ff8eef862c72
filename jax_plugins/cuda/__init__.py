"""NVIDIA GPUs, through the PJRT library of the wheel jax-cuda13-pjrt (or jax-cuda12-pjrt).

`initialize()` only registers the platform. When the platform starts, the plugin finds the library,
checks the driver and the devices, loads NVIDIA's libraries, and reports problems in readable
messages.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import sys

from jax._src import hardware_utils
from jax._src.xla_bridge import vendors
from jax._src.xla_bridge.vendors import Library, PlatformUnavailable, WheelLibrary

_FILE = "xla_cuda_plugin.so"
_WHEELS = [
    WheelLibrary(f"jax-cuda{major}-pjrt", f"jax_plugins.xla_cuda{major}", _FILE)
    for major in (13, 12)
]
_KERNELS = "jax_cuda{0}_plugin"


@dataclasses.dataclass(frozen=True)
class Toolkit:
    """The requirements of a major version of CUDA."""

    # Each library comes after those that it depends on.
    required: tuple[str, ...]
    optional: tuple[str, ...]
    # The oldest supported GPUs, and the first supported series of Linux drivers.
    compute_capability: tuple[int, int]
    driver: int


_TOOLKITS = {
    13: Toolkit(
        required=(
            "libnvJitLink.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcufft.so.12",
            "libcusparse.so.12", "libcusolver.so.12", "libcudnn.so.9",
        ),
        optional=(
            "libcudart.so.13", "libnvrtc.so.13", "libcupti.so.13", "libnvvm.so.4", "libnccl.so.2",
            "libnvshmem_host.so.3",
        ),
        compute_capability=(7, 5),
        driver=580,
    ),
    12: Toolkit(
        required=(
            "libnvJitLink.so.12", "libcublasLt.so.12", "libcublas.so.12", "libcufft.so.11",
            "libcusparse.so.12", "libcusolver.so.11", "libcudnn.so.9",
        ),
        optional=(
            "libcudart.so.12", "libnvrtc.so.12", "libcupti.so.12", "libnvvm.so.4", "libnccl.so.2",
            "libnvshmem_host.so.3",
        ),
        compute_capability=(5, 2),
        driver=525,
    ),
}  # fmt: skip


def initialize() -> None:
    """Registers the platform "cuda"."""
    vendors.register_gpus(
        "cuda",
        variable="JAX_CUDA_LIBRARY_PATH",
        wheels=_WHEELS,
        local=os.path.join(os.path.dirname(os.path.abspath(__file__)), _FILE),
        is_wanted=hardware_utils.has_visible_nvidia_gpu,
        prepare=prepare,
        kernels=_KERNELS,
        xla_platform="CUDA",
    )


def prepare(library: Library) -> None:
    """Checks the driver, the devices and NVIDIA's libraries, and loads the libraries.

    Raises:
      PlatformUnavailable: if something is missing or too old.
    """
    major = _cuda_major(library)
    toolkit = _TOOLKITS[major]
    _check_driver(major, toolkit)
    folders = vendors.package_folders("nvidia", "*/lib")
    problems = vendors.preload([*toolkit.required, *toolkit.optional], folders)
    if missing := [name for name in toolkit.required if name in problems]:
        raise PlatformUnavailable(
            f"The CUDA libraries {', '.join(missing)} cannot be loaded ({problems[missing[0]]}): install"
            " them with `pip install jax-cuda-plugin[with-cuda]`, or name the folder of CUDA"
            f" {major} in LD_LIBRARY_PATH."
        )
    _check_library_versions(vendors.kernels_package(_KERNELS, library, _WHEELS[0]))


def _cuda_major(library: Library) -> int:
    """Returns the CUDA version of a library from its package's name; the newest for other files."""
    digits = "".join(filter(str.isdigit, library.package or ""))
    return int(digits) if digits else max(_TOOLKITS)


# Driver and devices

_NO_DEVICE = 100
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76


def load_driver() -> ctypes.CDLL:
    """Loads the driver's library."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _check_driver(major: int, toolkit: Toolkit) -> None:
    try:
        driver = load_driver()
    except OSError as e:
        raise PlatformUnavailable(
            f"No driver for NVIDIA GPUs is found ({e}): install one of series {toolkit.driver} or newer,"
            " or give the container access to that of its host."
        ) from e
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if 0 < version.value < major * 1000:
        raise PlatformUnavailable(
            f"The NVIDIA driver is for CUDA {version.value // 1000}.{version.value % 1000 // 10}, but the"
            f" plugin needs CUDA {major}: update the driver to series {toolkit.driver} or newer, or install"
            " a plugin for an older CUDA."
        )
    error = driver.cuInit(0)
    count = ctypes.c_int()
    if not error:
        error = driver.cuDeviceGetCount(ctypes.byref(count))
    if error == _NO_DEVICE or (not error and not count.value):
        raise PlatformUnavailable(f"No NVIDIA GPU is found{_hidden_devices()}.")
    if error:
        raise PlatformUnavailable(
            f"The NVIDIA driver does not start ({_error_name(driver, error)}): does `nvidia-smi` work?"
        )
    vendors.check_visible_devices("jax_cuda_visible_devices", count.value, "NVIDIA GPUs are")
    _check_compute_capability(driver, count.value, major, toolkit)


def _hidden_devices() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if visible is None else f" (the environment has CUDA_VISIBLE_DEVICES={visible!r})"


def _error_name(driver: ctypes.CDLL, error: int) -> str:
    name = ctypes.c_char_p()
    if driver.cuGetErrorName(error, ctypes.byref(name)) or not name.value:
        return f"error {error}"
    return name.value.decode()


def _check_compute_capability(driver, count, major, toolkit):
    used = vendors.visible_devices("jax_cuda_visible_devices")
    found = [_compute_capability(driver, i) for i in (range(count) if used is None else used)]
    if found and max(found) < toolkit.compute_capability:
        have, needed = (".".join(map(str, c)) for c in (max(found), toolkit.compute_capability))
        raise PlatformUnavailable(
            f"The GPU has compute capability {have}, but CUDA {major} needs {needed} or higher."
        )


def _compute_capability(driver: ctypes.CDLL, index: int) -> tuple[int, int]:
    device, value, out = ctypes.c_int(), ctypes.c_int(), []
    driver.cuDeviceGet(ctypes.byref(device), index)
    for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        out.append(value.value)
    return (out[0], out[1])


# NVIDIA's libraries

_LIBRARIES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cufft": "cuFFT",
    "cusolver": "cuSOLVER",
    "cusparse": "cuSPARSE",
}


def _check_library_versions(kernels: str) -> None:
    """Checks that the libraries are not older than those that the kernels were built with."""
    try:
        versions = vendors.import_kernels(kernels, "_versions")
    except ImportError:
        return
    if versions is None:
        return
    old = []
    for name, title in _LIBRARIES.items():
        try:
            found = getattr(versions, f"{name}_get_version")()
        except RuntimeError as e:
            raise PlatformUnavailable(f"The library {title} does not work: {e}.") from e
        needed = getattr(versions, f"{name}_build_version")()
        if found < needed:
            old.append(f"{title} {found} (at least {needed} is needed)")
    if old:
        raise PlatformUnavailable(
            f"Libraries of CUDA are too old: {', '.join(old)}: update them with"
            " `pip install --upgrade jax-cuda-plugin[with-cuda]`, or those that LD_LIBRARY_PATH finds."
        )
