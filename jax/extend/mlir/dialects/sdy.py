"""Operations of MLIR's `sdy` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import sdy as _sdy


def __getattr__(name: str) -> _Any:
    return getattr(_sdy, name)


def __dir__() -> list[str]:
    return dir(_sdy)
