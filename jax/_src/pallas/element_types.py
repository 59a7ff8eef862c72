"""Kinds of elements, and what back ends for GPUs have for them in MLIR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir

_FLOATS = {
    "float64": "F64Type",
    "float32": "F32Type",
    "float16": "F16Type",
    "bfloat16": "BF16Type",
    "float8_e4m3fn": "Float8E4M3FNType",
    "float8_e5m2": "Float8E5M2Type",
}


def is_float(dtype: Any) -> bool:
    return bool(dtypes.issubdtype(dtype, np.floating))


def is_signed(dtype: Any) -> bool:
    return bool(dtypes.issubdtype(dtype, np.signedinteger))


def gpu_element_type(dtype: Any, target: str, integers: Sequence[str]) -> Any:
    """Return MLIR's type of elements in registers.

    Args:
      dtype: that of the elements.
      target: what kernels are for, for the error.
      integers: the names of the integers that there are.

    Raises:
      NotImplementedError: if there is none.
    """
    name = dtypes.dtype_name(dtype)
    if name == "bool":
        return ir.IntegerType.get_signless(1)
    if name in _FLOATS:
        return getattr(ir, _FLOATS[name]).get()
    if name in integers:
        return ir.IntegerType.get_signless(dtypes.itemsize_bits(dtype))
    raise NotImplementedError(
        f"Kernels for {target} cannot have arrays of dtype {name}, only of {', '.join([*_FLOATS, *integers])} and bool."
    )


def gpu_number_attribute(value: Any, dtype: Any, element: Any) -> Any:
    """Return a number as an attribute of MLIR's type of elements; integers wrap around."""
    if dtype == np.bool_:
        return ir.BoolAttr.get(bool(value))
    if is_float(dtype):
        return ir.FloatAttr.get(element, float(value))
    bits = element.width
    n = int(value) & (2**bits - 1)
    return ir.IntegerAttr.get(element, n - 2**bits if n >> (bits - 1) else n)


def only_number(value: Any, aval: Any, target: str, iota: str) -> Any:
    """Return the number that all elements of a constant of a kernel are.

    Args:
      value: the constant.
      aval: its type.
      target: what kernels are for, for the error.
      iota: the function that makes other arrays, for the error.

    Raises:
      NotImplementedError: if elements differ, or there are none.
    """
    x = np.asarray(value)
    if x.size != 1 and not (x.size and (x == x.flat[0]).all()):
        raise NotImplementedError(
            f"Kernels for {target} cannot have a constant array of type {aval.str_short()}: make it an argument of the "
            f"kernel, or compute it from {iota}."
        )
    return x.flat[0]
