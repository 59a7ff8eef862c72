"""A proxy for a module, which imports the module when an attribute is first read."""

from __future__ import annotations

import gc
import importlib
import sys
import types
from typing import Any

_MISSING = object()


class LazyModule(types.ModuleType):
    """A proxy for the module `target`, whose attributes it copies when the first one is read.

    `native` is the name of the native module from which `target` takes functions and attributes, if
    there is one: for those, the classes of `target` need not be made.
    """

    def __init__(self, name: str, target: str, native: str | None = None):
        super().__init__(name)
        self.__dict__["_target"] = target
        self.__dict__["_native"] = native

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # the import system asks for this; the proxy is not a package
            raise AttributeError(name)
        native = self.__dict__["_native"]
        if native is not None:
            found = getattr(_native_part(native, self.__dict__["_target"]), name, _MISSING)
            if found is not _MISSING:
                self.__dict__[name] = found
                return found
        module = _imported(self.__dict__["_target"])
        for key, value in vars(module).items():
            self.__dict__.setdefault(key, value)
        return getattr(module, name)

    def __dir__(self) -> list[str]:
        return dir(_imported(self.__dict__["_target"]))


def _native_part(native: str, target: str) -> types.ModuleType:
    """Imports a native module. Newer ones import `target` before they are complete, which lacks the rest then."""
    if native in sys.modules:
        return sys.modules[native]
    module = _imported(native)
    whole = sys.modules.get(target)
    if whole is not None:
        for name, value in vars(module).items():
            if not name.startswith("_"):
                vars(whole).setdefault(name, value)
    return module


def _imported(name: str) -> types.ModuleType:
    """Imports a module without garbage collections, which would find none.

    The thousands of functions and classes that are made cause a collection of all that the process
    has made before, which takes longer than making them.
    """
    if name in sys.modules or not gc.isenabled():
        return importlib.import_module(name)
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()
