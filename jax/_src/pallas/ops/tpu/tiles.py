"""What kernels for TPUs compute tiles with."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import zeros_like
from jax._src.numpy.selecting import where

# The score of keys that a query does not see: differences of such scores are finite.
DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.dtype("float32")).max)


def product(x: Any, y: Any, contracted: tuple[int, int]) -> Any:
    """Return a product of matrices in float32, over a dimension of each."""
    dims = (((contracted[0],), (contracted[1],)), ((), ()))
    return lax.dot_general(x, y, dims, preferred_element_type=np.dtype(np.float32))


def wide_product(x: Any, y: Any, contracted: tuple[int, int]) -> Any:
    """Return `product` of matrices that may have different dtypes: in float32 then."""
    if x.dtype != y.dtype:
        x, y = x.astype(np.float32), y.astype(np.float32)
    return product(x, y, contracted)


def bounded(s: Any, cap: float | None) -> tuple[Any, Any]:
    """Return scores with a bound c, c tanh(score / c), and the slope that it gives them; None is for no bound, and 1."""
    if cap is None:
        return s, None
    t = ufuncs.tanh(s / cap)
    return cap * t, 1 - t * t


def row_products(x: Any, y: Any) -> Any:
    """Return the product of each row of an array and the same row of another, in float32."""
    return (x.astype(np.float32) * y.astype(np.float32)).sum(-1)


def column(x: Any) -> Any:
    """Return a number for each row as the matrix of one column that kernels have."""
    return lax.expand_dims(x, (x.ndim,))


def before_end(x: Any, size: Any, axis: int) -> Any:
    """Replace what is beyond the end of an array, `size` elements along an axis of the tile, by zeros: it has no value."""
    return where(lax.broadcasted_iota(np.int32, x.shape, axis) < size, x, zeros_like(x))
