"""The only module that imports jaxlib: names of the native extension, and a version check.

Modules that most programs do not need (MLIR bindings, helpers for lowering kernels, the profiler,
…) are imported when their names are first read.
"""

from __future__ import annotations

import functools
import gc
import importlib
import operator
import os
import re
from typing import Any

MINIMUM_JAXLIB_VERSION = "0.10.2"
MAXIMUM_JAXLIB_VERSION = "0.13"  # exclusive

# jaxlib reads it when it is loaded. Without it, every start of a backend is logged to stderr.
cpp_log_level_from_environment = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

try:
    import jaxlib
except ModuleNotFoundError as err:
    raise ModuleNotFoundError(
        "jax needs the package jaxlib, which holds the compiler and the CPU runtime. Install it"
        f' with: pip install "jaxlib>={MINIMUM_JAXLIB_VERSION},<{MAXIMUM_JAXLIB_VERSION}"'
    ) from err


def _parse_version(text: str) -> tuple[int, ...]:
    """`(0, 10, 2)` from `"0.10.2.dev20250101+cuda"`: the release numbers only."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    if match is None:
        raise ValueError(f"cannot read the version {text!r} of jaxlib")
    return tuple(map(int, match.group().split(".")))


def check_jaxlib_version(
    jaxlib_version: str,
    minimum: str = MINIMUM_JAXLIB_VERSION,
    maximum: str = MAXIMUM_JAXLIB_VERSION,
) -> tuple[int, ...]:
    """The version of jaxlib as numbers; raises RuntimeError if this jax does not support it."""
    numbers = _parse_version(jaxlib_version)
    if not _parse_version(minimum) <= numbers < _parse_version(maximum):
        raise RuntimeError(
            f"jaxlib {jaxlib_version} is installed, but this version of jax needs jaxlib at least"
            f" {minimum} and below {maximum}. Install one that fits with: "
            f'pip install "jaxlib>={minimum},<{maximum}"'
        )
    return numbers


version_str: str = jaxlib.__version__
version = check_jaxlib_version(version_str)
jaxlib_version = version

from jaxlib import cpu_feature_guard  # noqa: E402

# Before other native code runs: unsupported CPUs get an error message instead of SIGILL.
cpu_feature_guard.check_cpu_features()

from jaxlib import _jax, utils, weakref_lru_cache  # noqa: E402
from jaxlib._jax import (  # noqa: E402
    Client,
    CompileOptions,
    Device,
    DeviceList,
    Traceback,
    ffi,
    guard_lib,
    jax_jit,
    pytree,
)

config_ext = _jax.config
ifrt_version: int = _jax.ifrt_version_number

# Whether XLA accepts numeric efforts besides levels; newer versions do not.
has_efforts = hasattr(_jax.ExecutableBuildOptions, "exec_time_optimization_effort")

# (aval, sharding, committed) -> a function that makes an array of buffers. Older versions check the
# buffers unless told not to.
array_result_handler = _jax.array_result_handler
if "_skip_checks" in (array_result_handler.__doc__ or ""):
    array_result_handler = functools.partial(array_result_handler, _skip_checks=True)

_LAZY = {
    "xla_client": "jaxlib.xla_client",
    "xla_extension": "jaxlib._jax",
    "hlo": "jaxlib._hlo",
    "xla": "jaxlib._xla",
    "profiler": "jaxlib._profiler",
    "_profile_data": "jax._src.lib.profile_data",
    "_pretty_printer": "jaxlib._pretty_printer",
    "_pathways": "jaxlib._pathways",
    "ifrt_programs": "jaxlib._jax.ifrt_programs",
    "ifrt_proxy": "jaxlib._ifrt_proxy",
    "lapack": "jaxlib.lapack",
    "cpu_sparse": "jaxlib.cpu_sparse",
    "gpu_common_utils": "jaxlib.gpu_common_utils",
    "gpu_linalg": "jaxlib.gpu_linalg",
    "gpu_prng": "jaxlib.gpu_prng",
    "gpu_rnn": "jaxlib.gpu_rnn",
    "gpu_solver": "jaxlib.gpu_solver",
    "gpu_sparse": "jaxlib.gpu_sparse",
    "gpu_triton": "jaxlib.gpu_triton",
    "plugin_support": "jaxlib.plugin_support",
    "triton": "jax._src.lib.triton",
    "mosaic_gpu_dialect": "jaxlib.mosaic.dialect.gpu",
    "tpu": "jaxlib.mosaic.python.tpu",
    "jax_mlir_ext": "jaxlib.mlir._mlir_libs._jax_mlir_ext",
    "mlir": "jax._src.lib.mlir",
}


def __getattr__(name: str) -> Any:
    if name == "jaxlib_extension_version":
        value: Any = importlib.import_module("jaxlib.xla_client")._version
    elif name == "cuda_versions":
        # A name that outside code imports: None without the CUDA plugin's kernels.
        plugins = importlib.import_module("jaxlib.plugin_support")
        value = plugins.import_from_plugin("cuda", "_versions")
    elif name in _LAZY:
        value = importlib.import_module(_LAZY[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def jaxlib_folder() -> str:
    """The folder where jaxlib is installed."""
    return os.path.dirname(os.path.abspath(jaxlib.__file__))


class _DeferredBuffers:
    """Frees what was released by threads that do not hold the GIL: it is queued in C++ until then.

    No line of Python runs for it: a Ctrl-C that arrives while Python collects garbage is raised by the
    first one, and what a callback of the collector raises is ignored.
    """

    collect = staticmethod(_jax.collect_garbage)
    start = stop = property(operator.methodcaller("collect"))


# Called with the name of the phase, and information that is passed as the default.
gc.callbacks.append(functools.partial(getattr, _DeferredBuffers()))

__all__ = [
    "Client",
    "CompileOptions",
    "Device",
    "DeviceList",
    "Traceback",
    "_jax",
    "array_result_handler",
    "check_jaxlib_version",
    "config_ext",
    "cpu_feature_guard",
    "jaxlib_folder",
    "ffi",
    "guard_lib",
    "ifrt_version",
    "jax_jit",
    "jaxlib_version",
    "pytree",
    "utils",
    "version",
    "version_str",
    "weakref_lru_cache",
]
