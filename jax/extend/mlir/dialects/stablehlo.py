"""Operations of MLIR's `stablehlo` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import stablehlo as _stablehlo


def __getattr__(name: str) -> _Any:
    return getattr(_stablehlo, name)


def __dir__() -> list[str]:
    return dir(_stablehlo)
