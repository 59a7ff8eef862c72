"""The module name by which outside code imports parts of `jax.random`."""

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.numpy.util import to_array
from jax._src.random.calls import param_shape
from jax._src.random.prng import default_prng_impl as default_prng_impl

_check_broadcast_shapes = param_shape


def _safe_int_to_float(bits: Any, dtype: Any) -> Any:
    """Convert random bits to float32 in the open interval (0, 1).

    Args:
      bits: `uint32` array of shape (2, ...): the high and the low words of 64-bit integers.
      dtype: float32.

    Returns:
      The integers divided by 2**64, rounded down to 24 significant bits; 2**-65 for zero.
    """
    bits = to_array(bits)
    if bits.dtype != np.uint32 or dtype != np.float32:
        raise TypeError(
            "_safe_int_to_float converts uint32 to float32, not "
            f"{dtypes.dtype_name(bits.dtype)} to {dtypes.dtype_name(dtype)}"
        )
    const = lambda value: lax.full_like(bits[0], value)
    small = lax.eq(bits[0], const(0))
    first = lax.select(small, bits[1], bits[0])
    second = lax.select(small, const(0), bits[1])
    zeros = lax.clz(first)
    leading = lax.bitwise_or(
        lax.shift_left(first, zeros), lax.shift_right_logical(second, lax.sub(const(32), zeros))
    )
    mantissa = lax.bitwise_and(lax.shift_right_logical(leading, const(8)), const(0x7FFFFF))
    exponent = lax.sub(lax.select(small, const(126 - 32), const(126)), zeros)
    word = lax.bitwise_or(lax.shift_left(exponent, const(23)), mantissa)
    return lax.bitcast_convert_type(word, np.float32)
