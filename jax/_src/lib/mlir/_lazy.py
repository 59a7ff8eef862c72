"""A proxy for a module, which imports the module when an attribute is first read."""

from __future__ import annotations

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
    """A proxy for the module `target`, whose attributes it copies when the first one is read."""

    def __init__(self, name: str, target: str):
        super().__init__(name)
        self.__dict__["_target"] = target

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # the import system asks for this; the proxy is not a package
            raise AttributeError(name)
        module = importlib.import_module(self.__dict__["_target"])
        for key, value in vars(module).items():
            self.__dict__.setdefault(key, value)
        return getattr(module, name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__dict__["_target"]))
