"""Products of block-scaled matrices, under the names by which outside code imports them from `jax.nn`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src.lax import lax
from jax._src.nn.scaled_matmul import (
    BlockScaleConfig as BlockScaleConfig,
    quantize as quantize,
    scaled_dot_general,
    scaled_matmul,
)
from jax._src.numpy.util import to_array


def scaled_matmul_wrapper(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any,
    preferred_element_type: Any = np.float32,
) -> Any:  # fmt: skip
    """The product of two arrays of block-scaled matrices: `jax.nn.scaled_matmul`."""
    return scaled_matmul(lhs, rhs, lhs_scales, rhs_scales, preferred_element_type)


def scaled_dot_general_wrapper(
    lhs: Any, rhs: Any, dimension_numbers: Any, preferred_element_type: Any = np.float32,
    configs: list[BlockScaleConfig] | None = None,
) -> Any:  # fmt: skip
    """The product of quantized operands: `jax.nn.scaled_dot_general`."""
    return scaled_dot_general(
        lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type, configs=configs
    )


def shape_normalization(x: Any, dimension_numbers: Any) -> Any:
    """Reshape an operand to (batch, free, contracted) dimensions.

    Args:
      x: array.
      dimension_numbers: the contracted dimensions, and those of the batch.
    """
    x = to_array(x)
    contracted, batch = (tuple(dims) for dims in dimension_numbers)
    free = tuple([d for d in range(x.ndim) if d not in (*contracted, *batch)])
    groups = (batch, free, contracted)
    shape = tuple([math.prod(x.shape[d] for d in group) for group in groups])
    return lax.reshape(lax.transpose(x, (*batch, *free, *contracted)), shape)
