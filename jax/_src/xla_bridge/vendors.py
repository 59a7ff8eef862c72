"""Code shared by the packages `jax_plugins.cuda`, `.rocm` and `.tpu`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import lib
from jax._src.lib import triton
from jax._src.xla_bridge import libraries
from jax._src.xla_bridge.libraries import (
    Library as Library,
    PlatformUnavailable as PlatformUnavailable,
    WheelLibrary as WheelLibrary,
    find_libraries as find_libraries,
    missing_library as missing_library,
    package_folders as package_folders,
    package_version as package_version,
    preload as preload,
    version_numbers as version_numbers,
    visible_devices as visible_devices,
)
from jax._src.xla_bridge.plugins import load_plugin, register_deferred_plugin


def register_gpus(
    platform: str,
    *,
    variable: str,
    wheels: Sequence[WheelLibrary],
    local: str,
    is_wanted: Callable[[], bool],
    prepare: Callable[[Library], None],
    kernels: str,
    xla_platform: str,
) -> None:
    """Registers a GPU platform, whose plugin is not loaded until the platform starts.

    Args:
      platform: the name of the platform.
      variable: an environment variable that may name the plugin's library.
      wheels: the wheels that may contain the library.
      local: another path where it may be.
      is_wanted: whether the machine seems to have such GPUs.
      prepare: checks devices and driver, and loads dependencies of the library; may raise
        `PlatformUnavailable`.
      kernels: the module with native functions for the platform, which may be absent; `{0}` stands
        for the number in the name of the library's package.
      xla_platform: XLA's name of the platform.
    """

    capsules: list[Any] = []
    problems: list[str | None] = []

    def load(for_devices):
        library = usable_library(for_devices)
        if not capsules:
            capsules.append(_load(platform, library))
            problems.append(
                _register_kernels(capsules[0], kernels, library, wheels[0], xla_platform)
            )
        if for_devices and (problem := problems[0]):  # without devices nothing calls the kernels
            problems[0] = None
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        return capsules[0]

    def usable_library(for_devices):
        found = find_libraries(variable, wheels, local)
        if not found:
            raise PlatformUnavailable(
                f"No PJRT library for {xla_platform} is installed: install it with `pip install"
                f" {wheels[0].package}`, or name it in {variable}.",
                expected=not is_wanted(),
            )
        problem = None
        for library in found:  # falls back, for example, to one for an older CUDA and driver
            try:
                libraries.check_fits_jaxlib(library)
                if for_devices:
                    prepare(library)
                return library
            except PlatformUnavailable as e:
                problem = problem or e
        raise problem

    register_deferred_plugin(platform, load, options=lambda: gpu_options(xla_platform))


def _load(platform: str, library: Library) -> Any:
    try:
        return load_plugin(platform, library.path)
    except lib._jax.JaxRuntimeError as e:
        missing = missing_library(str(e))
        problem = f"the library {missing} is not found" if missing else str(e)
        raise PlatformUnavailable(f"{library.path} cannot be loaded: {problem}.") from e


def gpu_options(xla_platform: str) -> dict[str, Any]:
    """Options of a GPU client from the environment: XLA_CLIENT_MEM_FRACTION, XLA_PYTHON_CLIENT_….

    Raises:
      ValueError: a variable has an invalid value.
    """
    for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        _check_number(name, "a fraction of the memory, like 0.75", float)
    _check_number("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "a number of megabytes", int)
    options = dict(lib.xla_client.generate_pjrt_gpu_plugin_options())
    options["platform_name"] = "cuda" if xla_platform == "CUDA" else xla_platform
    return options


def _check_number(name: str, meaning: str, parse: Callable[[str], float]) -> None:
    text = os.environ.get(name)
    if not text:
        return
    try:
        if parse(text) > 0:
            return
    except ValueError:
        pass
    raise ValueError(f"The environment variable {name} must be {meaning}, got {text!r}.")


def check_visible_devices(option: str, count: int, names: str) -> None:
    """Raises PlatformUnavailable if the option names devices that do not exist."""
    absent = [i for i in visible_devices(option) or () if not 0 <= i < count]
    if absent:
        raise PlatformUnavailable(
            f"The option {option} names device {absent[0]}, but {count} {names} found."
        )


def import_kernels(package: str, module: str) -> Any | None:
    """A native module of a vendor's kernel package; None if it is absent or does not fit jaxlib."""
    return lib.plugin_support.maybe_import_plugin_submodule([package], module)


def kernels_package(kernels: str, library: Library, wheel: WheelLibrary) -> str:
    """The kernel package that belongs to a library, or to the preferred wheel."""
    package = library.package or wheel.package
    return kernels.format("".join(filter(str.isdigit, package)))


def _register_kernels(c_api, kernels, library, wheel, xla_platform):
    """Passes native functions to a plugin, including those that are registered later.

    Returns:
      The reason why there are none; None if there are.
    """
    package = kernels_package(kernels, library, wheel)
    problem = f"are not installed in the version of jaxlib ({lib.version_str})"
    try:
        extension = import_kernels(package, f"{xla_platform.lower()}_plugin_extension")
    except ImportError as e:
        problem = f"cannot be loaded ({e})"
        extension = None
    if extension is None:
        return (
            f"The kernels of {package} {problem}: linear algebra and callbacks do not work on"
            f' {xla_platform} without them; pip install "{package.replace("_", "-")}=={lib.version_str}".'
        )
    client = lib.xla_client
    register = lambda f: lambda *args, **kwargs: f(c_api, *args, **kwargs)
    client.register_custom_type_handler(xla_platform, register(extension.register_custom_type))
    client.register_custom_call_handler(
        xla_platform, register(extension.register_custom_call_target)
    )
    for name, types in extension.ffi_types().items():
        client.register_custom_type(name, types, platform=xla_platform)
    for name, handler in extension.ffi_handlers().items():
        client.register_custom_call_target(name, handler, platform=xla_platform, api_version=1)
    compiler = getattr(extension, "compile_triton_to_asm", None)
    if compiler is not None and not triton.has_compilation_handler(xla_platform):
        triton.register_compilation_handler(xla_platform, register(compiler))
    return None
