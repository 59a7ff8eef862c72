"""Operations of MLIR's `vector` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import vector as _vector


def __getattr__(name: str) -> _Any:
    return getattr(_vector, name)


def __dir__() -> list[str]:
    return dir(_vector)
