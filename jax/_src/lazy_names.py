"""Names of a package that load the module which has them when they are first used.

`import jax` loads only what most programs use. A package that has further names lists them by their
modules, and repeats the imports under `TYPE_CHECKING`, for tools that read its source:

    __getattr__, __dir__ = lazy_names(__name__, {"jax._src.lax.fft": ("fft", "fft_p")})

A late name must differ from the package's modules: importing one of these assigns it to its name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package some of whose names are loaded late.

    Args:
      package: the name of the package, which is being imported.
      names: the late names, by the module that has them.
      modules: the names of the package's modules that are attributes without an import of them.
    """
    namespace = vars(sys.modules[package])
    module_of = {name: module for module, its_names in names.items() for name in its_names}
    late = {*module_of, *modules}

    def __getattr__(name: str) -> Any:
        if name not in late:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in module_of:
            return importlib.import_module(f"{package}.{name}")
        value = namespace[name] = getattr(importlib.import_module(module_of[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*namespace, *late})

    return __getattr__, __dir__
