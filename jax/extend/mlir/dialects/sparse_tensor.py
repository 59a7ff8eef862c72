"""Operations of MLIR's `sparse_tensor` dialect."""

from typing import Any as _Any

from jax._src.lib.mlir.dialects import sparse_tensor as _sparse_tensor


def __getattr__(name: str) -> _Any:
    return getattr(_sparse_tensor, name)


def __dir__() -> list[str]:
    return dir(_sparse_tensor)
