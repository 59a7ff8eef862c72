"""Operations of MLIR's `builtin` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import builtin as _builtin


def __getattr__(name: str) -> _Any:
    return getattr(_builtin, name)


def __dir__() -> list[str]:
    return dir(_builtin)
