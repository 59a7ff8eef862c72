"""Kernels of the package `jaxlib-ext`, which speed up CPU programs if it is installed."""

from __future__ import annotations

import functools
import threading
import warnings
from importlib.machinery import PathFinder
from typing import Any

from jax._src.lib import _jax

# Identifies the arguments of handlers; incremented if they change. Handlers that are added need no new
# number: `has` tells whether the installed extension has one.
INTERFACE_VERSION = 3

# One thread loads the extension while others wait. Reentrant: showing a warning may run jax code.
_lock = threading.RLock()


def extension() -> Any | None:
    """The module `jaxlib_ext`, with its kernels registered; None for the reason in `problem()`."""
    return _load()[0]


def has(target: str) -> bool:
    """Whether the extension is used and has this kernel."""
    module = extension()
    return module is not None and target in _targets(module)


@functools.cache
def _targets(module: Any) -> frozenset[str]:
    return frozenset(module.handlers())


def problem() -> str | None:
    """The reason why the extension is not used; None if it is."""
    return _load()[1]


def _load() -> tuple[Any | None, str | None]:
    with _lock:
        return _load_once()


@functools.cache
def _load_once() -> tuple[Any | None, str | None]:
    """The extension, or why it is not used. jax works without it, so problems only warn."""
    try:
        import jaxlib_ext

        fits = jaxlib_ext.INTERFACE_VERSION == INTERFACE_VERSION
        if fits:
            _register(jaxlib_ext)
    except Exception as err:
        # A damaged package, or a jaxlib that rejects a kernel, can raise any exception.
        if isinstance(err, ModuleNotFoundError) and err.name == "jaxlib_ext":
            return None, "not installed"
        wrong = f"{_file(err)} cannot be used ({type(err).__name__}: {err})"
        remedy = "Install it anew: pip install --force-reinstall --no-deps jaxlib-ext"
    else:
        if fits:
            return jaxlib_ext, None
        wrong = f"version {jaxlib_ext.__version__} does not fit this version of jax"
        remedy = "Install the two in the same version: pip install --upgrade jax jaxlib-ext"
    warnings.warn(
        f"jaxlib-ext is installed, but {wrong}. jax goes on with XLA's own code. {remedy}; or set"
        " jax_native_kernels=False, and it is not looked for.",
        stacklevel=4,
    )
    return None, wrong


def _register(module: Any) -> None:
    # If one kernel is rejected, those registered before do no harm, since nothing calls them.
    for name, handler in module.handlers().items():
        _jax.register_custom_call_target(name, handler, platform="Host", api_version=1)
    for name in module.batch_partitionable_targets():
        _jax.register_custom_call_as_batch_partitionable(name)


def _file(err: Exception) -> str:
    """The file that could not be loaded, or the package's file."""
    spec = PathFinder.find_spec("jaxlib_ext")
    return getattr(err, "path", None) or (spec and spec.origin) or "the package jaxlib_ext"
