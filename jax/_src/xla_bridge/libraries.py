"""Shared libraries of hardware vendors: where they are, and whether they can be used."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jax._src import config, lib


class PlatformUnavailable(RuntimeError):
    """Explains in one sentence why a platform cannot be used on this machine.

    Programs continue with the other platforms, unless `jax_platforms` names only this one.

    Args:
      message: the sentence.
      expected: whether nothing suggests that the user wants the platform; the sentence is then
        logged, without a warning.
    """

    def __init__(self, message: str, *, expected: bool = False):
        super().__init__(message)
        self.expected = expected


class Library(NamedTuple):
    """A PJRT plugin's shared library."""

    path: str
    # The distribution that contains it; None for a file named by the user.
    package: str | None = None
    version: str | None = None


class WheelLibrary(NamedTuple):
    """The location of a library in a wheel: a file in the folder of a module."""

    package: str
    module: str
    file: str

    def find(self) -> Library | None:
        """The library, if the wheel is installed. Does not import the module."""
        try:
            spec = importlib.util.find_spec(self.module)
        except ModuleNotFoundError:
            return None
        for folder in (spec and spec.submodule_search_locations) or ():
            path = os.path.join(folder, self.file)
            if os.path.isfile(path):
                return Library(path, self.package, package_version(self.package))
        return None


def find_libraries(
    variable: str, wheels: Sequence[WheelLibrary], local: str | None = None
) -> list[Library]:
    """Finds the libraries of a PJRT plugin.

    Args:
      variable: an environment variable that may name the file, which is then the only result.
      wheels: the wheels that may contain it, the preferred one first.
      local: another path where it may be.

    Returns:
      The libraries that exist, the preferred one first.

    Raises:
      PlatformUnavailable: the environment variable does not name a file.
    """
    if path := os.environ.get(variable):
        if not os.path.isfile(path):
            raise PlatformUnavailable(f"{variable} names the library {path}, which is not there.")
        return [Library(path)]
    found = [library for wheel in wheels if (library := wheel.find()) is not None]
    if local is not None and os.path.isfile(local):
        found.append(Library(local))
    return found


def package_version(package: str) -> str | None:
    """The version of an installed distribution; None if it is not installed."""
    import importlib.metadata as metadata  # imported here: it is slow, and only plugins need it

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_fits_jaxlib(library: Library) -> None:
    """Raises PlatformUnavailable if a library's package has another minor version than jaxlib."""
    if library.version is None:
        return
    ours = lib.version[:2]
    if version_numbers(library.version)[:2] != ours:
        wanted = ".".join(map(str, ours))
        raise PlatformUnavailable(
            f"The installed {library.package} {library.version} does not fit jaxlib {lib.version_str}:"
            f' install one that does with: pip install "{library.package}=={wanted}.*".'
        )


def version_numbers(text: str) -> tuple[int, ...]:
    """`(0, 10, 2)` of `"0.10.2.post1"`."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match.group().split("."))) if match else ()


def package_folders(package: str, *patterns: str) -> list[str]:
    """Folders matching patterns inside an installed package or namespace; none if not installed."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    roots = (spec and spec.submodule_search_locations) or ()
    found = (sorted(glob.glob(os.path.join(r, p))) for r in roots for p in patterns)
    return [folder for folders in found for folder in folders if os.path.isdir(folder)]


def preload(names: Iterable[str], folders: Sequence[str]) -> dict[str, str]:
    """Loads libraries, so that a plugin that requests them by name gets these.

    Args:
      names: names like 'libcudnn.so.9', each after its dependencies.
      folders: the folders to search first; then the system's loader searches.

    Returns:
      The errors of the libraries that could not be loaded, by name.
    """
    problems = {}
    for name in names:
        paths = [os.path.join(folder, name) for folder in folders]
        for path in [*filter(os.path.isfile, paths), name]:
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                problems.pop(name, None)
                break
            except OSError as e:
                problems.setdefault(name, str(e))
    return problems


def visible_devices(option: str) -> list[int] | None:
    """The devices selected by the option `jax_<platform>_visible_devices`; None for all."""
    value = getattr(config, option.removeprefix("jax_")).value
    if value == "all":
        return None
    try:
        return [int(i) for i in value.split(",")]
    except ValueError as e:
        raise PlatformUnavailable(
            f"The option {option} must be 'all' or numbers of devices like '0,2', got {value!r}."
        ) from e


def missing_library(error: str) -> str | None:
    """The name of the library that the loader did not find, from its error message."""
    match = re.search(r"(\S+\.so[.\d]*): cannot open shared object file", error)
    return match.group(1) if match else None


# TPUs: libtpu is used with and without the plugin's package.

LIBTPU = WheelLibrary("libtpu", "libtpu", "libtpu.so")
TPU_LIBRARY_VARIABLE = "TPU_LIBRARY_PATH"
_TPU_DEVICE_FILES = ("/dev/accel*", "/dev/vfio/[0-9]*")
# Set on machines that have TPUs, or by users.
_TPU_VARIABLES = ("TPU_WORKER_HOSTNAMES", "TPU_ACCELERATOR_TYPE", "JAX_FORCE_TPU_INIT")


def tpu_device_files() -> list[str]:
    """The device files of the TPU chips of this machine."""
    return sorted(path for pattern in _TPU_DEVICE_FILES for path in glob.glob(pattern))


def seems_to_have_tpus(num_chips_on_bus: int) -> bool:
    """Whether starting the TPU platform can succeed."""
    if num_chips_on_bus or any(map(os.environ.get, _TPU_VARIABLES)):
        return True
    # vfio devices are not counted, since other devices than TPUs have them.
    return any(path.startswith("/dev/accel") for path in tpu_device_files())
