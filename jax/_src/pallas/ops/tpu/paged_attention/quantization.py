"""Arrays of eight-bit integers with a scale for each row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax._src.dtypes import bfloat16
from jax._src.numpy import ufuncs

# The integers from -128 to 127 have equal distances to what they stand for.
MAX_INT8 = 127.5


class QuantizedTensor(NamedTuple):
    """An array as integers, and scales.

    Attributes:
      weight: the integers, int8.
      scales: what the greatest magnitude stands for, along the last dimension.
    """

    weight: Any
    scales: Any


def to_int8(x: Any, h: Any) -> Any:
    """Return numbers as int8, where h stands for the greatest magnitude."""
    return ufuncs.rint(x * (MAX_INT8 / h)).astype(np.int8)


def from_int8(x: Any, h: Any, dtype: Any = bfloat16) -> Any:
    """Return the numbers that int8 stand for, as a dtype, or that of the scales if it is wider."""
    return x.astype(dtype) * h / MAX_INT8


def get_quantization_scales(x: Any) -> Any:
    """Return the greatest magnitudes along the last dimension, which becomes 1."""
    return ufuncs.abs(x).max(-1, keepdims=True)


def quantize_to_int8(x: Any) -> QuantizedTensor:
    """Return an array as int8, with scales for each row."""
    scales = get_quantization_scales(x)
    return QuantizedTensor(to_int8(x, scales), scales)


def unquantize_from_int8(x: QuantizedTensor, dtype: Any = bfloat16) -> Any:
    """Return the numbers that an array of int8 stands for: see `from_int8`."""
    return from_int8(x.weight, x.scales, dtype)
