"""What the kernels share: reading and writing of blocks whose sizes are no powers of two, or that reach beyond an array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.pallas.triton import primitives as triton

# Products of matrices have this size at least along each dimension.
MIN_DOT_SIZE = 16
LOG2_E = math.log2(math.e)
DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)

float32 = np.dtype(np.float32)
int32 = np.dtype(np.int32)


def check_backward_pass_impl(name: str) -> None:
    """Raise a ValueError if there is no such way to compute derivatives."""
    if name not in ("triton", "xla"):
        raise ValueError(f"Invalid backward pass implementation: {name}; there are triton and xla")


def padded(n: int, least: int = 1) -> int:
    """Return the power of two that is not less than n."""
    return max(1 << max(n - 1, 0).bit_length(), least)


def multiple(n: int, size: int) -> int:
    """Return the multiple of a size that is not less than n: what a reference to whole blocks has."""
    return cdiv(n, size) * size


def sum_dtype(dtype: Any) -> Any:
    """Return the dtype in which a kernel computes: float64 for float64, else float32."""
    return dtype if dtype == np.float64 else float32


def iota(n: int) -> Any:
    return lax.iota(int32, n)


def along(x: Any, axis: int, shape: Sequence[int]) -> Any:
    """Return a vector as an array of a shape that varies along one axis only."""
    return lax.broadcast_in_dim(x, shape, (axis,))


def within(shape: Sequence[int], left: Sequence[Any]) -> Any:
    """Return which elements of a block are within an array.

    Args:
      shape: the shape of the block.
      left: how many elements there are from the block's first one on, by dimension; None if as many as
        are in the block.

    Returns:
      An array of booleans, or None if all elements are within.
    """
    mask = None
    for axis, (size, n) in enumerate(zip(shape, left)):
        if n is None or (isinstance(n, int) and n >= size):
            continue
        inside = along(lax.lt(iota(size), lax.full((size,), n, int32)), axis, shape)
        mask = inside if mask is None else lax.bitwise_and(mask, inside)
    return mask


def read(ref: Any, starts: Sequence[Any], sizes: Sequence[int], left: Sequence[Any], other: float = 0) -> Any:  # fmt: skip
    """Read a block; elements beyond `left` (see `within`) are `other`."""
    mask = within(sizes, left)
    view = ref.at[tuple([ds(start, size) for start, size in zip(starts, sizes)])]
    return triton.load(view, mask=mask, other=None if mask is None else other)


def write(ref: Any, x: Any, left: Sequence[Any]) -> None:
    """Write to the first elements of a reference, but for those beyond `left` (see `within`)."""
    view = ref.at[tuple([ds(0, size) for size in x.shape])]
    triton.store(view, lax.convert_element_type(x, ref.dtype), mask=within(x.shape, left))


def rows_left(total: int, size: int, start: Any) -> Any:
    """Return how many rows there are from `start` on, or None if blocks of a size fit."""
    return None if total % size == 0 else total - start


def cdiv(a: Any, b: int) -> Any:
    return -(-a // b) if isinstance(a, int) else lax.div(a + (b - 1), int32.type(b))


def loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """Return what is carried after the numbers from lower to upper - 1; one number makes no loop."""
    if isinstance(lower, int) and isinstance(upper, int):
        if upper - lower == 1:
            return body(lower, carry)
        lower, upper = int32.type(lower), int32.type(upper)
    return fori_loop(lower, upper, body, carry)


def matmul(a: Any, b: Any, a_axis: int = 1, b_axis: int = 0) -> Any:
    """Return the product of matrices, added up in float32 or float64; contracts the given axes."""
    axes = (((a_axis,), (b_axis,)), ((), ()))
    return lax.dot_general(a, b, axes, preferred_element_type=sum_dtype(a.dtype))
