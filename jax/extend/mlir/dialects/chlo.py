"""Operations of MLIR's `chlo` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import chlo as _chlo


def __getattr__(name: str) -> _Any:
    return getattr(_chlo, name)


def __dir__() -> list[str]:
    return dir(_chlo)
