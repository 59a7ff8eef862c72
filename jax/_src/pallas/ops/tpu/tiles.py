"""What kernels for TPUs compute tiles with."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.lax import lax

# The score of keys that a query does not see: differences of such scores are finite.
DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.dtype("float32")).max)


def product(x: Any, y: Any, contracted: tuple[int, int]) -> Any:
    """Return a product of matrices in float32, over a dimension of each."""
    dims = (((contracted[0],), (contracted[1],)), ((), ()))
    return lax.dot_general(x, y, dims, preferred_element_type=np.dtype(np.float32))


def column(x: Any) -> Any:
    """Return a number for each row as the matrix of one column that kernels have."""
    return lax.expand_dims(x, (x.ndim,))
