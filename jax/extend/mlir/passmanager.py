"""MLIR's pass manager."""

from typing import Any as _Any

from jax._src.lib.mlir import passmanager as _passmanager


def __getattr__(name: str) -> _Any:
    return getattr(_passmanager, name)


def __dir__() -> list[str]:
    return dir(_passmanager)
