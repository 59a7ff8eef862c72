"""Modules for libraries that extend JAX; they may change between versions."""

import importlib as _importlib
from typing import Any as _Any

_modules = (
    "backend", "core", "ifrt_programs", "linear_util", "lowering", "mlir", "pallas", "random",
    "sharding", "source_info_util", "xla",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _modules:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules})
