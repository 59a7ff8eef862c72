"""A kernel that doubles an array, with which calls of kernels are tried."""

from __future__ import annotations

from typing import Any

from jax._src.core import ShapeDtypeStruct
from jax._src.pallas.ops.differentiable import linear
from jax._src.pallas.pallas_call import pallas_call


def double_kernel(x_ref: Any, y_ref: Any) -> None:
    """Write twice an array."""
    y_ref[...] = x_ref[...] * 2


def double(x: Any) -> Any:
    """Return twice an array."""
    call = lambda x: pallas_call(double_kernel, ShapeDtypeStruct(x.shape, x.dtype))(x)
    return linear(call, (double,), x)
