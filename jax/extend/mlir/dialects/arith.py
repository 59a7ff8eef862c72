"""Operations of MLIR's `arith` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import arith as _arith


def __getattr__(name: str) -> _Any:
    return getattr(_arith, name)


def __dir__() -> list[str]:
    return dir(_arith)
