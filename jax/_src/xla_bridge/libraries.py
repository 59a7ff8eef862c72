"""Shared libraries of hardware vendors: where they are, whether they fit, and what is wrong if not."""

from __future__ import annotations

import ctypes
import dataclasses
import glob
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence

from jax._src import config, lib


class PlatformUnavailable(RuntimeError):
    """Says in one sentence why a platform cannot be used on this machine.

    Programs go on with the other platforms, unless `jax_platforms` names this one alone.

    Args:
      message: the sentence.
      expected: whether nothing on the machine suggests that the platform is wanted: then the sentence
        is logged, and no warning.
    """

    def __init__(self, message: str, *, expected: bool = False):
        super().__init__(message)
        self.expected = expected


@dataclasses.dataclass(frozen=True)
class Library:
    """A PJRT plugin's shared library."""

    path: str
    # The distribution that brings it; None for a file that the user names.
    package: str | None = None
    version: str | None = None


@dataclasses.dataclass(frozen=True)
class WheelLibrary:
    """Where a wheel puts a library: the file in the folder of a module."""

    package: str
    module: str
    file: str

    def find(self) -> Library | None:
        """The library, where the wheel is installed. The module is not imported."""
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
    """Finds a PJRT plugin's library.

    Args:
      variable: an environment variable that may name the file, which is then the only one.
      wheels: those that may bring it, the preferred one first.
      local: a path where it may lie otherwise.

    Returns:
      All that are there, the preferred one first.

    Raises:
      PlatformUnavailable: the environment variable names no file.
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
    """The version of an installed distribution; None if it is not installed, or does not say."""
    import importlib.metadata as metadata  # slow to import, and only needed where plugins are

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_fits_jaxlib(library: Library) -> None:
    """Raises PlatformUnavailable if a library's package is of another minor version than jaxlib."""
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
    """Folders that match patterns inside an installed package or namespace; none without it."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    roots = (spec and spec.submodule_search_locations) or ()
    found = (sorted(glob.glob(os.path.join(r, p))) for r in roots for p in patterns)
    return [folder for folders in found for folder in folders if os.path.isdir(folder)]


def preload(names: Iterable[str], folders: Sequence[str]) -> dict[str, str]:
    """Loads libraries, so that a plugin which asks for them by name gets these.

    Args:
      names: like 'libcudnn.so.9', each after those that it needs.
      folders: where to look first; then the system's loader looks.

    Returns:
      What went wrong, by the names of those that could not be loaded.
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
    """The devices that the option `jax_<platform>_visible_devices` names; None for all."""
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
    """The library that the loader misses, from its message."""
    match = re.search(r"(\S+\.so[.\d]*): cannot open shared object file", error)
    return match.group(1) if match else None


# TPUs: their library is used with the plugin's package and without it.

LIBTPU = WheelLibrary("libtpu", "libtpu", "libtpu.so")
TPU_LIBRARY_VARIABLE = "TPU_LIBRARY_PATH"
_TPU_DEVICE_FILES = ("/dev/accel*", "/dev/vfio/[0-9]*")
# Set by the machines that have TPUs, or by their users.
_TPU_VARIABLES = ("TPU_WORKER_HOSTNAMES", "TPU_ACCELERATOR_TYPE", "JAX_FORCE_TPU_INIT")


def tpu_device_files() -> list[str]:
    """The device files of the TPU chips that this machine has."""
    return sorted(path for pattern in _TPU_DEVICE_FILES for path in glob.glob(pattern))


def seems_to_have_tpus(num_chips_on_bus: int) -> bool:
    """Whether a start of the TPU platform can succeed."""
    if num_chips_on_bus or any(map(os.environ.get, _TPU_VARIABLES)):
        return True
    # vfio serves other devices as well, which are no TPUs
    return any(path.startswith("/dev/accel") for path in tpu_device_files())
