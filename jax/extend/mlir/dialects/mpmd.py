"""Operations of MLIR's `mpmd` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import mpmd as _mpmd


def __getattr__(name: str) -> _Any:
    return getattr(_mpmd, name)


def __dir__() -> list[str]:
    return dir(_mpmd)
