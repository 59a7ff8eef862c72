"""Reading StableHLO: types, attributes, constants and source lines."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx.graph import Shape, Unsupported
from jax._src.export.onnx.kernels import DTYPES
from jax._src.lib.mlir import ir

_LINE = re.compile(r'"([^"]+)":(\d+)(?::(\d+))?')
_NAME = re.compile(r'loc\("([^"]*)"\(')


def element_dtype(mlir_type: Any) -> np.dtype:
    """The element type of a tensor.

    Raises:
      Unsupported: ONNX has no such type, or kernels none for it.
    """
    name = str(mlir_type.element_type)
    if name not in DTYPES:
        hint = "; split complex numbers into real and imaginary parts" if "complex" in name else ""
        raise Unsupported(f"arrays of {name} have no form that runtimes compute with{hint}")
    return DTYPES[name]


def shape_of(mlir_type: Any) -> Shape:
    """The shape of a tensor; None for sizes that are not known."""
    return tuple(
        None if mlir_type.is_dynamic_dim(i) else mlir_type.get_dim_size(i)
        for i in range(mlir_type.rank)
    )


def result_shape(op: Any, index: int = 0) -> Shape:
    return shape_of(ir.RankedTensorType(op.results[index].type))


def result_dtype(op: Any, index: int = 0) -> np.dtype:
    return element_dtype(ir.RankedTensorType(op.results[index].type))


def attribute(op: Any, name: str) -> Any:
    """An attribute of an operation; None if it is not there."""
    return op.attributes[name] if name in op.attributes else None


def ints(op: Any, name: str, default: Sequence[int] | None = None) -> list[int]:
    found = attribute(op, name)
    if found is None:
        if default is None:
            raise Unsupported(f"it has no attribute {name}")
        return list(default)
    return list(ir.DenseI64ArrayAttr(found))


def matrix(op: Any, name: str, rows: int) -> list[tuple[int, int]]:
    """An attribute of `rows` pairs of integers, such as padding; zeros if it is not there."""
    found = attribute(op, name)
    if found is None:
        return [(0, 0)] * rows
    return [(int(a), int(b)) for a, b in elements(found).reshape(rows, 2)]


def integer(op: Any, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value


def text(op: Any, name: str) -> str:
    return ir.StringAttr(op.attributes[name]).value


def enum(op: Any, name: str, default: str = "") -> str:
    """The name of an enumerated attribute, such as `LT` of `#stablehlo<comparison_direction LT>`."""
    found = attribute(op, name)
    return default if found is None else str(found).rstrip(">").split()[-1]


def elements(attr: Any) -> np.ndarray:
    """The elements of a constant; one whose elements are equal has size 1 in each dimension."""
    kind = ir.RankedTensorType(attr.type)
    dtype, shape = element_dtype(kind), tuple(kind.shape)
    dense = ir.DenseElementsAttr(attr)
    if dense.is_splat and shape:
        value = dense.get_splat_value().value
        return np.broadcast_to(np.asarray(value).astype(dtype), shape)
    try:
        return np.array(attr, dtype=dtype).reshape(shape)
    except TypeError:
        return _elements_of_text(str(attr), dtype).reshape(shape)


def _elements_of_text(printed: str, dtype: np.dtype) -> np.ndarray:
    """The elements of types that have no buffer in Python, from the constant as it is printed."""
    body = printed[len("dense<") : printed.rindex("> : ")]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    numbers = [
        np.array(int(t, 16), bits).view(dtype)
        if t.startswith("0x")
        else np.array(float(t)).astype(dtype)
        for t in re.findall(r"[^\s,\[\]]+", body)
    ]
    return np.array(numbers, dtype)


def source(op: Any, location: str, what: str | None = None) -> str:
    """What an operation is called in the program, unless that is given, and the user's line."""
    if what is None:
        what = location_name(location).rpartition("/")[2]
        what = f"{what} ({op.name})" if what else op.name
    line = _LINE.search(location)
    return f"{what} at {line[1]}:{line[2]}" if line else what


def location_name(location: str) -> str:
    """The name in a location, such as `jit(f)/sin`; empty if it has none."""
    name = _NAME.search(location)
    return name[1] if name else ""


def owner(value: Any) -> Any:
    """The operation of which a value is a result; a block, of an argument."""
    return getattr(value.owner, "operation", value.owner)


def pieces(value: Any) -> list[Any]:
    """The values that a vector of sizes, or a matrix of paddings, is put together from, in order."""
    op = owner(value)
    name = getattr(op, "name", "")
    if name == "stablehlo.concatenate" and integer(op, "dimension") == 0:
        return [p for operand in op.operands for p in pieces(operand)]
    if name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
        kinds = [ir.RankedTensorType(v.type) for v in (op.operands[0], value)]
        if math.prod(kinds[0].shape) == math.prod(kinds[1].shape):
            return pieces(op.operands[0])
    return [value]
