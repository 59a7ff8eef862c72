"""What kernels for TPUs compute tiles with."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.lax import lax


def product(x: Any, y: Any, contracted: tuple[int, int]) -> Any:
    """Return a product of matrices in float32, over a dimension of each."""
    dims = (((contracted[0],), (contracted[1],)), ((), ()))
    return lax.dot_general(x, y, dims, preferred_element_type=np.dtype(np.float32))


def column(x: Any) -> Any:
    """Return a number for each row as the matrix of one column that kernels have."""
    return lax.expand_dims(x, (x.ndim,))
