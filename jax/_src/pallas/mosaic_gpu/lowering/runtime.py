"""What the compiler of Mosaic GPU needs besides of the PJRT library: the runtime, and ptxas."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib

from jax._src.compiler import register_xla_runtime_error_handler
from jax._src.lib import _jax

_RUNTIME = "MOSAIC_GPU_RUNTIME_LIB_PATH"
_TOOLKIT = "MOSAIC_GPU_CUDA_ROOT"
_WHEELS = ("jax_cuda13_plugin", "jax_cuda12_plugin")
_TOOLKITS = ("nvidia.cu13", "nvidia.cuda_nvcc")


@functools.cache
def find_runtime() -> None:
    """Tell the compiler where its runtime and ptxas are, those of wheels unless the environment names others.

    Without them a kernel can be lowered, but not compiled.
    """
    for wheel in _WHEELS:
        for folder in _folders(wheel):
            if (library := folder / "libmosaic_gpu_runtime.so").exists():
                os.environ.setdefault(_RUNTIME, str(library))
    for package in _TOOLKITS:
        for folder in _folders(package):
            if (folder / "bin" / "ptxas").exists():
                os.environ.setdefault(_TOOLKIT, str(folder))


def _name_the_package(error: _jax.JaxRuntimeError) -> None:
    """Say in an error of the compiler where the runtime is that it lacks."""
    if "_mosaic_gpu" in str(error) and "symbol" in str(error):
        error.add_note(
            "Kernels of Mosaic GPU need libmosaic_gpu_runtime.so, which is in the package jax-cuda13-plugin:"
            f" install it, or name another file by {_RUNTIME}."
        )


register_xla_runtime_error_handler(_name_the_package)


def _folders(package: str) -> list[pathlib.Path]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # the package that it is in is not there
        return []
    places = None if spec is None else spec.submodule_search_locations
    return [pathlib.Path(p) for p in places or ()]
