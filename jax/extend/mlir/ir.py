"""MLIR's IR: contexts, types, attributes, operations."""

from typing import Any as _Any

from jax._src.lib.mlir import ir as _ir


def __getattr__(name: str) -> _Any:
    return getattr(_ir, name)


def __dir__() -> list[str]:
    return dir(_ir)
