"""Operations of MLIR's `math` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import math as _math


def __getattr__(name: str) -> _Any:
    return getattr(_math, name)


def __dir__() -> list[str]:
    return dir(_math)
