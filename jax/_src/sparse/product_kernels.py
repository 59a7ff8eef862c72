"""Products of matrices on CPU by the kernels of `jaxlib-ext`, if that is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.interpreters import mlir
from jax._src.lax import native_calls

COO = "jaxlib_ext_coo_product"
CSR = "jaxlib_ext_csr_product"
_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "float32",
    "float64",
    "complex64",
    "complex128",
}


def lowering(kernel: str, impl: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering rule that calls `kernel`, or else lowers `impl`."""
    fallback = mlir.lower_fun(impl, multiple_results=False)

    def lower(ctx: Any, *operands: Any, transpose: bool, **params: Any) -> Any:
        if not can_multiply(ctx, kernel):
            return fallback(ctx, *operands, transpose=transpose, **params)
        attributes = dict(transpose=np.int64(transpose))
        return native_calls.call(ctx, kernel, operands, ctx.avals_in, ctx.avals_out, attributes)

    return lower


def has_type(dtype: Any) -> bool:
    """Whether the kernels multiply elements of this type."""
    return np.dtype(dtype).name in _TYPES


def can_multiply(ctx: Any, kernel: str) -> bool:
    """Whether `kernel` takes operands of these types: elements, two arrays of indices, dense array."""
    data, indices, other_indices, _ = ctx.avals_in
    return (
        has_type(data.dtype)
        and indices.dtype == other_indices.dtype
        and indices.dtype.name in ("int32", "int64")
        and native_calls.can_call_whole(ctx, kernel)
    )
