"""`mulhi`: the high half of integer products."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax.rules import (
    INT,
    ZERO,
    binary_primitive,
    broadcast_operands,
    hlo_op,
    with_sharding,
)
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    r"""Elementwise high half of integer products: the bits above those that :func:`mul` returns.

    Args:
      x, y: integer arrays of one dtype; shapes as for :func:`add`.

    Returns:
      An array of the operands' dtype.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.mulhi(2**30, 2**5)
    Array(8, dtype=int32, weak_type=True)
    """
    return mulhi_p.bind(x, y)


mulhi_p = binary_primitive("mulhi", INT, lower=hlo_op("mulhi", "chlo"), jvp=ZERO)


def _lower_on_cpu(ctx: Any, x: Any, y: Any) -> Any:
    """Multiply in a wider dtype: XLA's CPU compiler does not support the op for all dtypes."""
    (aval,) = ctx.avals_out
    x, y = broadcast_operands(ctx, (x, y), aval)
    bits = dtypes.iinfo(aval.dtype).bits
    if bits == 64:
        return [with_sharding(ctx, _of_halves(ctx, x, y, aval), aval)]
    signed = dtypes.issubdtype(aval.dtype, np.signedinteger)
    wide = aval.update(dtype=np.dtype(f"{'int' if signed else 'uint'}{max(2 * bits, 8)}"))
    x, y = (mlir.convert_hlo(ctx, v, aval, wide) for v in (x, y))
    shift = hlo.shift_right_arithmetic if signed else hlo.shift_right_logical
    high = shift(hlo.multiply(x, y), mlir.full_like_aval(ctx, bits, wide))
    return [with_sharding(ctx, mlir.convert_hlo(ctx, high, wide, aval), aval)]


def _of_halves(ctx: Any, x: Any, y: Any, aval: core.ShapedArray) -> Any:
    """Multiply 64-bit integers by 32-bit digits (Warren, Hacker's Delight, section 8-2)."""
    unsigned = aval.update(dtype=np.dtype(np.uint64))
    signed = aval.dtype == np.dtype(np.int64)
    half = mlir.full_like_aval(ctx, 32, unsigned)
    low_digit = mlir.full_like_aval(ctx, 2**32 - 1, unsigned)

    def digits(v: Any) -> tuple[Any, Any]:
        return hlo.shift_right_logical(v, half), hlo.and_(v, low_digit)

    ux, uy = ((mlir.convert_hlo(ctx, v, aval, unsigned) if signed else v) for v in (x, y))
    (x1, x0), (y1, y0) = digits(ux), digits(uy)
    carry, _ = digits(hlo.multiply(x0, y0))
    middle, rest = digits(hlo.add(hlo.multiply(x1, y0), carry))
    other, _ = digits(hlo.add(hlo.multiply(x0, y1), rest))
    high = hlo.add(hlo.add(hlo.multiply(x1, y1), middle), other)
    if not signed:
        return high
    # The unsigned product interpreted a negative operand as greater by 2**64; subtract the excess.
    zero = mlir.full_like_aval(ctx, 0, aval)
    high = mlir.convert_hlo(ctx, high, unsigned, aval)
    for v, factor in ((x, y), (y, x)):
        excess = hlo.select(mlir.compare_hlo(v, zero, "LT", "SIGNED"), factor, zero)
        high = hlo.subtract(high, excess)
    return high


mlir.register_lowering(mulhi_p, _lower_on_cpu, platform="cpu")
