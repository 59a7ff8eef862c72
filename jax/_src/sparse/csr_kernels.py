"""Products of CSR matrices on CPU by the kernel of `jaxlib-ext`, if that is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.interpreters import mlir
from jax._src.lax import native_calls

_KERNEL = "jaxlib_ext_csr_product"
_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "float32",
    "float64",
    "complex64",
    "complex128",
}


def lowering(impl: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering rule that calls the kernel, or else lowers `impl`."""
    fallback = mlir.lower_fun(impl, multiple_results=False)

    def lower(ctx: Any, *operands: Any, shape: Any, transpose: bool) -> Any:
        if not can_multiply(ctx):
            return fallback(ctx, *operands, shape=shape, transpose=transpose)
        return native_calls.call(
            ctx,
            _KERNEL,
            operands,
            ctx.avals_in,
            ctx.avals_out,
            dict(transpose=np.int64(transpose)),
        )

    return lower


def has_type(dtype: Any) -> bool:
    """Whether the kernel multiplies elements of this type."""
    return np.dtype(dtype).name in _TYPES


def can_multiply(ctx: Any) -> bool:
    """Whether the kernel takes operands of these types: elements, columns, pointers, dense array."""
    data, indices, indptr, _ = ctx.avals_in
    return (
        has_type(data.dtype)
        and indices.dtype == indptr.dtype
        and indices.dtype.name in ("int32", "int64")
        and native_calls.can_call_whole(ctx, _KERNEL)
    )
