"""Operations of MLIR's `scf` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import scf as _scf


def __getattr__(name: str) -> _Any:
    return getattr(_scf, name)


def __dir__() -> list[str]:
    return dir(_scf)
