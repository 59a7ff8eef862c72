"""Checks of installed packages: versions that fit each other, and packages that hide others."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from jax._src import config, lib
from jax._src.environment_info.findings import Finding, error, note, ok, warning
from jax._src.lib import native_kernels
from jax.version import __version__

TOPIC = "packages"

# What pyproject.toml requires, with the minimum version.
REQUIREMENTS = {"ml_dtypes": "0.5.0", "numpy": "2.0", "opt_einsum": None, "scipy": "1.13"}

# Distributions whose version has to be that of jaxlib, since they were built against it.
_OF_JAXLIB = re.compile(r"jax-(cuda|rocm)\d+-(plugin|pjrt)")
_OF_JAX = re.compile(r"jax-(cuda|rocm|tpu)-plugin")


def check_packages() -> Iterator[Finding]:
    yield ok(TOPIC, f"jaxlib {lib.version_str} fits jax {__version__}")
    yield from _check_requirements()
    yield from _check_extension()
    installed = _installed()
    yield from _check_accelerators(installed)
    yield from _check_shadows(installed)


def _check_requirements() -> Iterator[Finding]:
    found = []
    for name, minimum in REQUIREMENTS.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield error(TOPIC, f"{name} is not installed", _pip(name, minimum))
            continue
        if minimum is not None and numbers(version) < numbers(minimum):
            yield error(
                TOPIC, f"{name} is {version}, jax needs {minimum} or newer", _pip(name, minimum)
            )
        else:
            found.append(f"{name} {version}")
    if found:
        yield ok(TOPIC, ", ".join(found))


def _pip(name: str, minimum: str | None) -> str:
    return f'pip install --upgrade "{name}>={minimum}"' if minimum else f"pip install {name}"


def _check_extension() -> Iterator[Finding]:
    if not config.native_kernels.value:
        yield note(
            TOPIC, "jaxlib-ext is not used: jax_native_kernels is False", "unset JAX_NATIVE_KERNELS"
        )
    elif (extension := native_kernels.extension()) is not None:
        yield ok(TOPIC, f"jaxlib-ext {extension.__version__} speeds up programs on the CPU")
    elif (problem := native_kernels.problem()) == "not installed":
        yield note(
            TOPIC, "jaxlib-ext, with faster kernels for CPUs, is not installed", "pip install jaxlib-ext"
        )  # fmt: skip
    else:
        yield warning(
            TOPIC, f"jaxlib-ext is left out: {problem}", "pip install --upgrade jax jaxlib-ext"
        )


def _check_accelerators(installed: dict[str, str]) -> Iterator[Finding]:
    for name, version in sorted(installed.items()):
        for pattern, whose, expected in (
            (_OF_JAXLIB, "jaxlib", lib.version_str),
            (_OF_JAX, "jax", __version__),
        ):
            if not pattern.fullmatch(name):
                continue
            if numbers(version)[:3] == numbers(expected)[:3]:
                yield ok(TOPIC, f"{name} {version} is of {whose}'s version")
            else:
                yield warning(
                    TOPIC,
                    f"{name} is {version}, and {whose} is {expected}: a plugin is built for one version",
                    f'pip install "{name}=={expected}"',
                )


def _check_shadows(installed: dict[str, str]) -> Iterator[Finding]:
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    version = installed.get("jax")
    if version is not None and version != __version__:
        yield warning(
            TOPIC,
            f"the package jax {version} is installed, but {here} with version {__version__} is imported",
            "pip uninstall jax, or take the folder out of PYTHONPATH",
        )


def _installed() -> dict[str, str]:
    """Versions of the installed distributions that have to do with jax, by their normalized names."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if name.startswith("jax"):
            found.setdefault(name, distribution.version)  # the first one is imported
    return found


def numbers(version: str) -> tuple[int, ...]:
    """The release numbers of a version: `(2, 1, 0)` of `"2.1.0rc1"`."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match.group().split("."))) if match else ()


def package_of_plugin(module: str) -> str | None:
    """The installed distribution that a plugin's module is of; None if none has it."""
    folder = f"{module.replace('.', '/')}/"
    for distribution in importlib.metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group == "jax_plugins" and entry.module == module:
                return str(distribution.metadata["Name"])
        if any(str(file).startswith(folder) for file in distribution.files or ()):
            return str(distribution.metadata["Name"])
    return None


def remedy_for_plugin(module: str) -> str | None:
    """The command that updates a plugin, or that puts away one that no package has."""
    package = package_of_plugin(module)
    if package is not None:
        return f"pip install --upgrade {package}"
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    path = path.parent if spec.submodule_search_locations else path
    return shlex.join(["mv", str(path), f"{path}.disabled"])
