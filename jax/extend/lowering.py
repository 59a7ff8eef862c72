"""Contexts of lowering rules and of MLIR modules."""

from typing import Any as _Any

from jax._src.interpreters import mlir as _mlir
from jax._src.interpreters.mlir import LoweringRuleContext as LoweringRuleContext


def __getattr__(name: str) -> _Any:
    # These need MLIR's bindings, which are loaded on the first lowering.
    if name == "JaxIrContext":
        return _mlir.ir_context_class()
    if name == "upstream_dialects":
        return _mlir.upstream_dialects()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "JaxIrContext", "upstream_dialects"})
