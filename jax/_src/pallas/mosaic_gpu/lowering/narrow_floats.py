"""Conversions from and to floating-point numbers of eight bits, for which there are instructions of pairs only."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm, math as mlir_math, vector
from jax._src.pallas.mosaic_gpu.lowering.fragments import elements, from_elements
from jax._src.pallas.mosaic_gpu.lowering.indices import integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, element_type, number

_NAMES = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
# What is beyond the largest number, which instructions return, and what it becomes: a NaN, and infinity.
_BEYOND = {
    "float8_e4m3fn": (arith.CmpFPredicate.OGT, 464.0, 0x7F),
    "float8_e5m2": (arith.CmpFPredicate.OGE, 61440.0, 0x7C),
}


def _name(dtype: Any) -> str:
    name = dtypes.dtype_name(dtype)
    if name not in _NAMES:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} convert of floating-point numbers of eight bits {' and '.join(_NAMES)}, not {name}."
        )
    return name


def _by_pairs(x: Any, convert: Any) -> Any:
    """Apply a function from two numbers to two others to a scalar, or to the elements of a vector."""
    if not isinstance(x.type, ir.VectorType):
        return convert(x, x)[0]
    values = elements(x)
    out: list[Any] = []
    for i in range(0, len(values), 2):
        pair = values[i : i + 2]
        out += convert(pair[0], pair[-1])[: len(pair)]
    return from_elements(out)


def to_narrow(x: Any, new: Any) -> Any:
    """Convert numbers of float32 to a dtype of eight bits."""
    name = _name(new)
    i8, i16, i32 = [ir.IntegerType.get_signless(n) for n in (8, 16, 32)]
    predicate, limit, code = _BEYOND[name]
    float32 = np.dtype(np.float32)

    def finished(x: Any, bits: Any) -> Any:
        """Return the number of some bits, but for what is beyond the largest one."""
        beyond = arith.cmpf(predicate, mlir_math.absf(x), number(limit, float32))
        sign = arith.andi(arith.shrui(arith.bitcast(i32, x), integer(24)), integer(0x80))
        other = arith.trunci(i8, arith.ori(sign, integer(code)))
        return arith.bitcast(element_type(new), arith.select(beyond, other, bits))

    def convert(a: Any, b: Any) -> list[Any]:
        instruction = f"cvt.rn.satfinite.{_NAMES[name]}x2.f32 $0, $1, $2;"
        pair = llvm.InlineAsmOp(i16, [b, a], instruction, "=h,f,f").result
        high = arith.trunci(i8, arith.shrui(pair, integer(8, i16)))
        return [finished(a, arith.trunci(i8, pair)), finished(b, high)]

    return _by_pairs(x, convert)


def from_narrow(x: Any, old: Any) -> Any:
    """Convert numbers of a dtype of eight bits to float16, which has them all."""
    name = _name(old)
    i8, i16, i32 = [ir.IntegerType.get_signless(n) for n in (8, 16, 32)]
    kind = ir.VectorType.get([2], ir.F16Type.get())

    def convert(a: Any, b: Any) -> list[Any]:
        low, high = [arith.extui(i16, arith.bitcast(i8, v)) for v in (a, b)]
        pair = arith.ori(low, arith.shli(high, integer(8, i16)))
        instruction = f"cvt.rn.f16x2.{_NAMES[name]}x2 $0, $1;"
        out = llvm.InlineAsmOp(i32, [pair], instruction, "=r,h").result
        return elements(vector.bitcast(kind, from_elements([out])))

    return _by_pairs(x, convert)
