"""Compilers of Triton kernels, provided by GPU plugins, one per platform; and jaxlib's dialect."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from jax._src.lib.mlir import ir


class CompilationResult(Protocol):
    """The result of a compiler."""

    asm: str
    hsaco_path: str
    smem_bytes: int


class CompilationHandler(Protocol):
    """A compiler of Triton IR for an architecture, with its launch parameters."""

    def __call__(
        self, module: bytes, arch_name: str, num_warps: int, num_ctas: int, num_stages: int
    ) -> CompilationResult: ...


_compilation_handlers: dict[str, CompilationHandler] = {}


def register_compilation_handler(platform: str, handler: CompilationHandler) -> None:
    """Registers the compiler of a platform.

    Args:
      platform: "CUDA" or "ROCM".
      handler: the compiler.

    Raises:
      RuntimeError: the platform already has one.
    """
    if _compilation_handlers.setdefault(platform, handler) is not handler:
        raise RuntimeError(f"Platform {platform} already has a compiler of Triton kernels")


def has_compilation_handler(platform: str) -> bool:
    """Whether a platform has a compiler."""
    return platform in _compilation_handlers


def compile(
    platform: str,
    module: bytes,
    arch_name: str,
    *,
    num_warps: int,
    num_ctas: int,
    num_stages: int,
) -> CompilationResult:
    """Compiles a kernel.

    Args:
      platform: "CUDA" or "ROCM".
      module: Triton IR.
      arch_name: the architecture of the device.
      num_warps: the number of warps per block.
      num_ctas: the number of blocks per cluster.
      num_stages: the number of stages of software pipelines.

    Raises:
      RuntimeError: the platform has no compiler.
    """
    handler = _compilation_handlers.get(platform)
    if handler is None:
        raise RuntimeError(
            f"No compiler of Triton kernels for {platform}: its plugin is not installed, or did not start."
        )
    return handler(module, arch_name, num_warps, num_ctas, num_stages)


def cache_options(modifier: str | None, eviction: str | None) -> dict[str, Any]:
    """Returns keyword arguments of the dialect's `load` and `store`, by the names of its enumerations' members.

    Newer versions of the dialect have one attribute for both.
    """
    if modifier is None and eviction is None:
        return {}
    dialect = _dialect()
    cache = dialect.CacheModifier[modifier or "NONE"]
    evict = dialect.EvictionPolicy[eviction or "NORMAL"]
    if hasattr(dialect.LoadOp, "evict"):
        return {"cache": cache, "evict": evict}
    text = f"#tt.cache_policy<cache_modifier = {cache}, eviction_policy = {evict}>"
    return {"cache_policy": ir.Attribute.parse(text)}


def _dialect() -> Any:
    return importlib.import_module("jaxlib.triton.dialect")


def __getattr__(name: str) -> Any:
    if name == "dialect":
        return _dialect()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
