"""A stand-in for a module that is imported when one of its attributes is first read."""

from __future__ import annotations

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
    """Reads like the module `target`; costs one dictionary look-up once that is loaded."""

    def __init__(self, name: str, target: str):
        super().__init__(name)
        self.__dict__["_target"] = target

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # asked by the import system: this is no package
            raise AttributeError(name)
        module = importlib.import_module(self.__dict__["_target"])
        for key, value in vars(module).items():
            self.__dict__.setdefault(key, value)
        return getattr(module, name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__dict__["_target"]))
