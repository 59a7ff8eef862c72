"""Sorting on CPU by the kernels of `jaxlib-ext`, if that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, lib
from jax._src.lax import native_calls
from jax._src.lib.mlir import ir

_SORT, _TOP_K = "jaxlib_ext_sort", "jaxlib_ext_top_k"
# The sort kernel uses unsigned 32-bit positions, the top_k kernel signed ones.
_MAX_SORT_SIZE = 2**32 - 1
_MAX_TOP_K_SIZE = 2**31 - 1
# From this jaxlib version on, XLA's bfloat16 top_k orders NaNs by their bits; the kernel does not.
TELLS_NANS_APART = (0, 11, 1)


def can_sort(ctx: Any, dimension: int) -> bool:
    """Return whether the kernel can sort the operands of `ctx`."""
    return native_calls.can_call(ctx, _SORT) and ctx.avals_in[0].shape[dimension] <= _MAX_SORT_SIZE


def sort(ctx: Any, operands: Sequence[Any], dimension: int, num_keys: int) -> Sequence[Any]:
    """Sort IR values by the kernel; the sort is stable."""
    return native_calls.call_along(
        ctx, _SORT, operands, ctx.avals_in, dimension, dict(num_keys=np.int64(num_keys))
    )


def can_top_k(ctx: Any) -> bool:
    """Return whether the kernel can compute the top_k of the operand of `ctx`."""
    (aval,) = ctx.avals_in
    if aval.dtype == dtypes.bfloat16 and lib.version >= TELLS_NANS_APART:
        return False
    return native_calls.can_call(ctx, _TOP_K) and max(aval.shape) <= _MAX_TOP_K_SIZE


def top_k(ctx: Any, operand: Any, dtype: Any, k: int) -> Sequence[Any]:
    """Return the `k` largest elements of an IR value along its last dimension, with indices."""
    shape = ir.RankedTensorType(operand.type).shape
    aval = core.ShapedArray(shape, dtype)
    values = core.ShapedArray((*shape[:-1], k), dtype)
    indices = core.ShapedArray(values.shape, np.dtype(np.int32))
    return native_calls.call(ctx, _TOP_K, [operand], [aval], [values, indices], {})
