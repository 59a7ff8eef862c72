"""The rule of products of matrices, with precisions and algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.kernel import Kernel, rule, rules

_float32 = np.dtype(np.float32)
_bfloat16 = np.dtype(dtypes.bfloat16)
_int32 = np.dtype(np.int32)

_Preset = lax.DotAlgorithmPreset

# Of algorithms that add up products of parts of bfloat16: which parts, from the least products to those
# before the greatest. A part's number is how many have been taken off before.
_PARTS = {
    _Preset.BF16_BF16_F32_X3: ((1, 0), (0, 1)),
    _Preset.BF16_BF16_F32_X6: ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1)),
    _Preset.BF16_BF16_F32_X9: ((2, 2), (2, 1), (1, 2), (2, 0), (0, 2), (1, 1), (1, 0), (0, 1)),
}
# Algorithms for operands of eight bits, and whether they may add up with fewer bits.
_OF_FLOAT8 = {
    _Preset.ANY_F8_ANY_F8_F32: False,
    _Preset.ANY_F8_ANY_F8_F32_FAST_ACCUM: True,
    _Preset.ANY_F8_ANY_F8_ANY: False,
    _Preset.ANY_F8_ANY_F8_ANY_FAST_ACCUM: True,
}


@rule(lax.dot_general_p)
def _dot(
    ctx: RuleContext, a: Any, b: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any, **_: Any
) -> Any:  # fmt: skip
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    kernel = ctx.kernel
    a_aval, b_aval = ctx.avals_in
    (out,) = ctx.avals_out
    n = len(batch_a)
    if (
        (len(a_aval.shape), len(b_aval.shape)) != (2 + n, 2 + n)
        or tuple(batch_a) != tuple(range(n))
        or tuple(batch_b) != tuple(range(n))
        or n > 1
        or len(contract_a) != 1
    ):
        raise NotImplementedError(
            f"Kernels for {rules.target} multiply matrices, or batches of them along the first dimension, not {a_aval.str_short()} "
            f"by {b_aval.str_short()} with {dimension_numbers=}: add dimensions of size one, or sum products."
        )
    keep = [*range(n)]
    if contract_a[0] != n + 1:
        a = tt.trans(a, [*keep, n + 1, n])
    if contract_b[0] != n:
        b = tt.trans(b, [*keep, n + 1, n])
    x, dtype = _product(kernel, a, b, a_aval, b_aval, out.shape, precision, preferred_element_type)
    return convert(kernel, x, out.shape, dtype, out.dtype)


def _product(
    kernel: Kernel, a: Any, b: Any, a_aval: Any, b_aval: Any, shape: Any, precision: Any, preferred: Any
) -> tuple[Any, Any]:  # fmt: skip
    """Return a product and its dtype."""
    algorithm = precision if isinstance(precision, _Preset) else None
    types = _types_of(algorithm, a_aval, b_aval)
    if types is None:
        a, b, own = _common(kernel, a, b, a_aval, b_aval)
        result = _accumulator(own, preferred)
        mode = _input_precision(precision)
        return _single(kernel, a, b, None, shape, result, mode), result
    if algorithm in _OF_FLOAT8:
        imprecise = a.type.shape[-1] if _OF_FLOAT8[algorithm] else 0
        return _single(kernel, a, b, None, shape, _float32, None, imprecise), _float32
    own, result, mode = types
    k_a, k_b = _shapes_of(a, b)
    if algorithm in _PARTS:
        parts_a = _parts_of(kernel, a, k_a, a_aval.dtype)
        parts_b = _parts_of(kernel, b, k_b, b_aval.dtype)
        total = None
        for i, j in _PARTS[algorithm]:
            total = _single(kernel, parts_a[i], parts_b[j], total, shape, _float32, None)
        # Parts of infinities are NaN; their product is the one of what is left of them.
        zero = kernel.full(0.0, shape, _float32)
        invalid = arith.cmpf(arith.CmpFPredicate.UNO, total, total)
        total = arith.select(invalid, zero, total)
        return _single(kernel, parts_a[0], parts_b[0], total, shape, _float32, None), _float32
    a = convert(kernel, a, k_a, a_aval.dtype, own)
    b = convert(kernel, b, k_b, b_aval.dtype, own)
    return _single(kernel, a, b, None, shape, result, mode), result


def _shapes_of(a: Any, b: Any) -> list[tuple[int, ...]]:
    return [tuple(x.type.shape) for x in (a, b)]


def _single(
    kernel: Kernel, a: Any, b: Any, c: Any, shape: Any, dtype: Any, mode: Any, imprecise: int = 0
) -> Any:
    """Emit a product; of `imprecise` terms the device may add up with fewer bits than float32 has."""
    if c is None:
        c = kernel.full(0.0 if is_float(dtype) else 0, shape, dtype)
    if mode is None:
        mode = tt.InputPrecision.IEEE
    return tt.dot(a, b, c, input_precision=mode, max_num_imprecise_acc=imprecise)


def _types_of(algorithm: Any, a_aval: Any, b_aval: Any) -> tuple[Any, Any, Any] | None:
    """Return the types of operands and result that an algorithm has, and how float32 is rounded."""
    if algorithm is None or algorithm is _Preset.DEFAULT:
        return None
    float16 = np.dtype(np.float16)
    operands = (a_aval.dtype, b_aval.dtype)
    if algorithm in _OF_FLOAT8 and all([d.itemsize == 1 and is_float(d) for d in operands]):
        return (operands, _float32, None)
    found = {
        _Preset.F16_F16_F16: (float16, float16, None),
        _Preset.F16_F16_F32: (float16, _float32, None),
        _Preset.BF16_BF16_BF16: (_bfloat16, _bfloat16, None),
        _Preset.BF16_BF16_F32: (_bfloat16, _float32, None),
        _Preset.BF16_BF16_F32_X3: (_bfloat16, _float32, None),
        _Preset.BF16_BF16_F32_X6: (_bfloat16, _float32, None),
        _Preset.BF16_BF16_F32_X9: (_bfloat16, _float32, None),
        _Preset.TF32_TF32_F32: (_float32, _float32, tt.InputPrecision.TF32),
        _Preset.TF32_TF32_F32_X3: (_float32, _float32, tt.InputPrecision.TF32x3),
        _Preset.F32_F32_F32: (_float32, _float32, None),
        _Preset.F64_F64_F64: (np.dtype(np.float64), np.dtype(np.float64), None),
    }.get(algorithm)
    if found is None:
        raise NotImplementedError(
            f"Kernels for {rules.target} cannot multiply {a_aval.str_short()} by {b_aval.str_short()} by the algorithm {algorithm.name}."
        )
    return found


def _parts_of(kernel: Kernel, x: Any, shape: Any, dtype: Any) -> list[Any]:
    """Return x as a sum of three arrays of bfloat16, the greatest first."""
    rest = convert(kernel, x, shape, dtype, _float32)
    parts = []
    for i in range(3):
        part = (
            x
            if i == 0 and dtype == _bfloat16
            else convert(kernel, rest, shape, _float32, _bfloat16)
        )
        parts.append(part)
        if i < 2:
            rest = arith.subf(rest, convert(kernel, part, shape, _bfloat16, _float32))
    return parts


def _common(kernel: Kernel, a: Any, b: Any, a_aval: Any, b_aval: Any) -> tuple[Any, Any, Any]:
    """Return operands of one dtype: Triton has no products of others."""
    x, y = a_aval.dtype, b_aval.dtype
    if x == y or (x.itemsize == 1 and y.itemsize == 1 and is_float(x) and is_float(y)):
        return a, b, x
    own = np.dtype(dtypes.promote_types(x, y))
    k_a, k_b = _shapes_of(a, b)
    return convert(kernel, a, k_a, x, own), convert(kernel, b, k_b, y, own), own


def _accumulator(own: Any, preferred: Any) -> Any:
    """Return the dtype in which products of a dtype are added up."""
    if not is_float(own):
        if own.itemsize != 1 or not is_signed(own):
            raise NotImplementedError(
                f"Kernels for {rules.target} multiply matrices of integers of type int8 only, not of {dtypes.dtype_name(own)}."
            )
        return _int32
    if own.itemsize >= 4:
        return own
    if own == np.float16 and preferred is not None and np.dtype(preferred) == np.float16:
        return own
    return _float32


def _input_precision(precision: Any) -> Any:
    """Return how float32 operands are rounded: to tf32, unless the precision is the highest."""
    both = precision if isinstance(precision, tuple) else (precision, precision)
    if any([p is lax.Precision.HIGHEST for p in both]):
        return tt.InputPrecision.IEEE
    return tt.InputPrecision.TF32
