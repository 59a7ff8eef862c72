"""Bitwise operations, shifts and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax.rules import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    ZERO,
    binary_primitive,
    broadcast_operands,
    hlo_op,
    unary_primitive,
    with_sharding,
)
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike

# ---------------------------------------------------------------------------------------------------
# Bits


def bitwise_not(x: ArrayLike) -> Array:
    r"""Elementwise bitwise NOT, :math:`\neg x`; logical NOT of booleans.

    Args:
      x: integer or boolean array.

    Raises:
      TypeError: if `x` has another dtype.

    >>> lax.bitwise_not(5)
    Array(-6, dtype=int32, weak_type=True)
    """
    return not_p.bind(x)


not_p = unary_primitive("not", INT | BOOL, lower=hlo_op("not_"), jvp=ZERO)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise bitwise AND, :math:`x \wedge y`.

    Args:
      x, y: integer or boolean arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return and_p.bind(x, y)


and_p = binary_primitive("and", INT | BOOL, lower=hlo_op("and_"), jvp=ZERO)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise bitwise OR, :math:`x \vee y`; operands as for :func:`bitwise_and`.

    >>> lax.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """
    return or_p.bind(x, y)


or_p = binary_primitive("or", INT | BOOL, lower=hlo_op("or_"), jvp=ZERO)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise exclusive OR, :math:`x \oplus y`; operands as for :func:`bitwise_and`.

    >>> lax.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """
    return xor_p.bind(x, y)


xor_p = binary_primitive("xor", INT | BOOL, lower=hlo_op("xor"), jvp=ZERO)


def population_count(x: ArrayLike) -> Array:
    """Elementwise number of set bits.

    Args:
      x: integer array.

    Raises:
      TypeError: if `x` has another dtype.

    >>> lax.population_count(7)
    Array(3, dtype=int32, weak_type=True)
    """
    return population_count_p.bind(x)


population_count_p = unary_primitive("population_count", INT, lower=hlo_op("popcnt"), jvp=ZERO)


def clz(x: ArrayLike) -> Array:
    """Elementwise number of leading zero bits.

    Args:
      x: integer array.

    Raises:
      TypeError: if `x` has another dtype.

    >>> lax.clz(1)
    Array(31, dtype=int32, weak_type=True)
    """
    return clz_p.bind(x)


clz_p = unary_primitive("clz", INT, lower=hlo_op("count_leading_zeros"), jvp=ZERO)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise left shift, :math:`x \ll y`.

    The result is zero if `y` is negative or at least the number of bits.

    Args:
      x, y: integer arrays of one dtype; shapes as for :func:`add`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.shift_left(3, 2)
    Array(12, dtype=int32, weak_type=True)
    """
    return shift_left_p.bind(x, y)


shift_left_p = binary_primitive("shift_left", INT, lower=hlo_op("shift_left"), jvp=ZERO)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise arithmetic (sign-extending) right shift; operands as for :func:`shift_left`.

    >>> lax.shift_right_arithmetic(-8, 1)
    Array(-4, dtype=int32, weak_type=True)
    """
    return shift_right_arithmetic_p.bind(x, y)


shift_right_arithmetic_p = binary_primitive(
    "shift_right_arithmetic", INT, lower=hlo_op("shift_right_arithmetic"), jvp=ZERO
)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    r"""Elementwise logical (zero-filling) right shift; operands as for :func:`shift_left`.

    >>> lax.shift_right_logical(-8, 1)
    Array(2147483644, dtype=int32, weak_type=True)
    """
    return shift_right_logical_p.bind(x, y)


shift_right_logical_p = binary_primitive(
    "shift_right_logical", INT, lower=hlo_op("shift_right_logical"), jvp=ZERO
)

# ---------------------------------------------------------------------------------------------------
# Comparisons


class _compare:
    """Lower a comparison; `total` uses the order -nan < -inf < ... < -0 < 0 < ... < inf < nan."""

    __slots__ = ("direction", "total")

    def __init__(self, direction: str, total: bool = False):
        self.direction = direction
        self.total = total

    def __call__(self, ctx, x, y):
        (aval_out,) = ctx.avals_out
        dtype = ctx.avals_in[0].dtype
        x, y = broadcast_operands(ctx, (x, y), aval_out)
        if isinstance(dtype, dtypes.ExtendedDType):
            return [self._extended(ctx, x, y, dtype, aval_out)]
        kind = "TOTALORDER" if self.total and dtypes.issubdtype(dtype, np.floating) else None
        return [with_sharding(ctx, mlir.compare_hlo(x, y, self.direction, kind), aval_out)]

    def _extended(self, ctx, x, y, dtype, aval_out):
        # Elements are equal if all parts of their physical representations are.
        equal = mlir.compare_hlo(x, y, self.direction)
        element = core.physical_element_aval(dtype)
        if element.shape:
            dims = range(aval_out.ndim, aval_out.ndim + element.ndim)
            init = mlir.ir_constant(np.bool_(self.direction == "EQ"))
            out_type = mlir.aval_to_ir_type(ctx.module_context, aval_out)
            reduce = hlo.ReduceOp([out_type], [equal], [init], mlir.dense_int_array(list(dims)))
            block = reduce.regions[0].blocks.append(init.type, init.type)
            with ir.InsertionPoint(block):
                op = hlo.and_ if self.direction == "EQ" else hlo.or_
                hlo.return_([op(*block.arguments)])
            equal = reduce.result
        return with_sharding(ctx, equal, aval_out)


def _comparison(name: str, direction: str, accepts: frozenset, total=False, extended=False) -> Any:
    return binary_primitive(
        name,
        accepts,
        lower=_compare(direction, total),
        jvp=ZERO,
        out_dtype=np.bool_,
        extended=extended,
    )


_REAL = INT | FLOAT | BOOL
eq_p = _comparison("eq", "EQ", ANY, extended=True)
ne_p = _comparison("ne", "NE", ANY, extended=True)
lt_p = _comparison("lt", "LT", _REAL)
le_p = _comparison("le", "LE", _REAL)
gt_p = _comparison("gt", "GT", _REAL)
ge_p = _comparison("ge", "GE", _REAL)
eq_to_p = _comparison("eq_to", "EQ", _REAL, total=True)
lt_to_p = _comparison("lt_to", "LT", _REAL, total=True)
le_to_p = _comparison("le_to", "LE", _REAL, total=True)


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise equals, `x == y`.

    Args:
      x, y: arrays of one dtype; shapes as for :func:`add`.

    Returns:
      A boolean array; NaN does not equal anything.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.eq(jnp.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return eq_p.bind(x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise not-equals, `x != y`; operands as for :func:`eq`.

    >>> lax.ne(jnp.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return ne_p.bind(x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise less-than, `x < y`.

    Args:
      x, y: boolean, integer or real arrays of one dtype; shapes as for :func:`add`.

    Returns:
      A boolean array, false where an operand is NaN.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.lt(jnp.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return lt_p.bind(x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise less-than-or-equals, `x <= y`; operands as for :func:`lt`.

    >>> lax.le(jnp.array([2, 3]), 2)
    Array([ True, False], dtype=bool)
    """
    return le_p.bind(x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise greater-than, `x > y`; operands as for :func:`lt`.

    >>> lax.gt(jnp.array([2, 3]), 2)
    Array([False,  True], dtype=bool)
    """
    return gt_p.bind(x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise greater-than-or-equals, `x >= y`; operands as for :func:`lt`.

    >>> lax.ge(jnp.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return ge_p.bind(x, y)
