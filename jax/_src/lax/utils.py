"""Helpers that several families of primitives use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.core.avals import ShapedArray, broadcast_shapes
from jax._src.core.primitive import vary_alike
from jax._src.late_binding import late
from jax._src.lax.lax.shape import reshape
from jax._src.lax.rules import (
    broadcasting_shape,
    broadcasting_sharding,
    check_same_dtypes,
    dtype_name,
    standard_primitive,
)

dtype_to_string = dtype_name
broadcasting_shape_rule = broadcasting_shape
broadcasting_sharding_rule = broadcasting_sharding

__all__ = [
    "broadcast_shapes",
    "broadcasting_shape_rule",
    "broadcasting_sharding_rule",
    "check_same_dtypes",
    "const",
    "dtype_to_string",
    "index_dtype_for_axis_size",
    "input_dtype",
    "insert_pvary",
    "int_dtype_for_dim",
    "int_dtype_for_shape",
    "standard_primitive",
    "unbroadcast",
]


def insert_pvary(*args: Any) -> Sequence[Any]:
    """Make all operands vary over the manual mesh axes that any of them varies over."""
    return vary_alike(args)


def unbroadcast(aval: ShapedArray, x: Any) -> Any:
    """Sum the cotangent `x` of a broadcast operand to the operand's type `aval`."""
    shape = core.typeof(x).shape
    target = aval.shape
    if shape == target:
        return x
    if not target:
        return late.reduce_sum(x, tuple(range(len(shape))))
    axes = tuple([i for i, (a, b) in enumerate(zip(shape, target)) if a != b])
    return reshape(late.reduce_sum(x, axes), target)


def input_dtype(x: ShapedArray, *_: Any, **__: Any) -> Any:
    """Dtype rule that returns the dtype of the first operand."""
    return x.dtype


_MAX_INT32 = np.iinfo(np.int32).max
_MAX_UINT32 = np.iinfo(np.uint32).max


def int_dtype_for_dim(d: Any, *, signed: bool) -> np.dtype:
    """Return the smallest integer dtype of at least 32 bits that holds the size `d`."""
    limit = _MAX_INT32 if signed else _MAX_UINT32
    if type(d) is int and d > limit:
        return np.dtype(np.int64 if signed else np.uint64)
    return np.dtype(np.int32 if signed else np.uint32)


def int_dtype_for_shape(shape: Sequence[Any], *, signed: bool) -> np.dtype:
    """Return the smallest integer dtype of at least 32 bits that holds every size in `shape`."""
    sizes = [d for d in shape if type(d) is int]
    return int_dtype_for_dim(max(sizes, default=0), signed=signed)


def index_dtype_for_axis_size(size: Any) -> np.dtype:
    """Return the canonical dtype of signed indices into an axis of the given size."""
    return dtypes.canonicalize_dtype(int_dtype_for_dim(size, signed=True))


def const(example: Any, value: Any) -> Any:
    """Convert the number `value` to the dtype, and the weak type, of `example`."""
    kind = type(example)
    if type(value) not in _PYTHON_NUMBERS and core.is_symbolic_dim(value):
        return late.convert_element_type(value, dtypes.dtype(example), kind in _PYTHON_NUMBERS)
    if kind in _PYTHON_NUMBERS:
        return kind(value)
    dtype = dtypes.dtype(example)
    if dtypes.is_weakly_typed_scalar(example):
        kind = _python_kinds.get(dtype.kind)
        if kind is not None and dtypes.dtype(kind) == dtype:
            return kind(value)
    return dtype.type(value)


_PYTHON_NUMBERS = frozenset({int, float, complex})
_python_kinds = {"i": int, "f": float, "c": complex}
