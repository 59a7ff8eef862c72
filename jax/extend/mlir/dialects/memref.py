"""Operations of MLIR's `memref` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import memref as _memref


def __getattr__(name: str) -> _Any:
    return getattr(_memref, name)


def __dir__() -> list[str]:
    return dir(_memref)
