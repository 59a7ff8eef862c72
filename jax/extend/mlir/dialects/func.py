"""Operations of MLIR's `func` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import func as _func


def __getattr__(name: str) -> _Any:
    return getattr(_func, name)


def __dir__() -> list[str]:
    return dir(_func)
