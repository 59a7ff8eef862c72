"""Which operations of MLIR elementwise primitives are, for back ends that compute with its vectors and scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.core import Primitive
from jax._src.lax import lax, special
from jax._src.lib.mlir.dialects import arith, math
from jax._src.pallas.element_types import is_float, is_signed

# Operations for floating-point numbers, integers with and without sign, and booleans.
Operations = tuple[Callable[..., Any] | None, ...]

UNARY: dict[Primitive, Operations] = {
    lax.abs_p: (math.absf, math.absi, None, None),
    lax.floor_p: (math.floor, None, None, None),
    lax.ceil_p: (math.ceil, None, None, None),
    lax.exp_p: (math.exp, None, None, None),
    lax.exp2_p: (math.exp2, None, None, None),
    lax.log_p: (math.log, None, None, None),
    lax.log1p_p: (math.log1p, None, None, None),
    lax.sin_p: (math.sin, None, None, None),
    lax.cos_p: (math.cos, None, None, None),
    lax.tan_p: (math.tan, None, None, None),
    lax.tanh_p: (math.tanh, None, None, None),
    lax.sqrt_p: (math.sqrt, None, None, None),
    lax.rsqrt_p: (math.rsqrt, None, None, None),
    special.erf_p: (math.erf, None, None, None),
    lax.population_count_p: (None, math.ctpop, math.ctpop, None),
    lax.clz_p: (None, math.ctlz, math.ctlz, None),
}

BINARY: dict[Primitive, Operations] = {
    lax.add_p: (arith.addf, arith.addi, arith.addi, arith.ori),
    lax.add_any_p: (arith.addf, arith.addi, arith.addi, arith.ori),
    lax.sub_p: (arith.subf, arith.subi, arith.subi, None),
    lax.mul_p: (arith.mulf, arith.muli, arith.muli, arith.andi),
    lax.div_p: (arith.divf, arith.divsi, arith.divui, None),
    lax.rem_p: (arith.remf, arith.remsi, arith.remui, None),
    lax.max_p: (arith.maximumf, arith.maxsi, arith.maxui, arith.ori),
    lax.min_p: (arith.minimumf, arith.minsi, arith.minui, arith.andi),
    lax.and_p: (None, arith.andi, arith.andi, arith.andi),
    lax.or_p: (None, arith.ori, arith.ori, arith.ori),
    lax.xor_p: (None, arith.xori, arith.xori, arith.xori),
    lax.shift_left_p: (None, arith.shli, arith.shli, None),
    lax.shift_right_logical_p: (None, arith.shrui, arith.shrui, None),
    lax.shift_right_arithmetic_p: (None, arith.shrsi, arith.shrsi, None),
    lax.atan2_p: (math.atan2, None, None, None),
}


def kind(dtype: Any) -> int:
    """Return which of the operations for a primitive is that for a dtype."""
    if dtype == np.bool_:
        return 3
    if is_float(dtype):
        return 0
    return 1 if is_signed(dtype) else 2


# Comparisons: predicates for floating-point numbers, and for integers with and without sign.

_F, _I = arith.CmpFPredicate, arith.CmpIPredicate
COMPARISONS: dict[Primitive, tuple[Any, Any, Any]] = {
    lax.eq_p: (_F.OEQ, _I.eq, _I.eq),
    lax.ne_p: (_F.UNE, _I.ne, _I.ne),
    lax.lt_p: (_F.OLT, _I.slt, _I.ult),
    lax.le_p: (_F.OLE, _I.sle, _I.ule),
    lax.gt_p: (_F.OGT, _I.sgt, _I.ugt),
    lax.ge_p: (_F.OGE, _I.sge, _I.uge),
}
