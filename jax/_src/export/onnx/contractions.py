"""The rule of dot_general."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from jax._src.export.onnx.attributes import result_dtype, result_shape
from jax._src.export.onnx.graph import BOOL, Graph, Unsupported, Value, known
from jax._src.lib.mlir.dialects import hlo


def _dot_general(c: Any, op: Any, x: Value, y: Value) -> Value:
    numbers = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    contracted = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    return dot(c.graph, x, y, batch, contracted, result_dtype(op), result_shape(op))


def dot(
    g: Graph,
    x: Value,
    y: Value,
    batch: tuple[list[int], list[int]],
    contracted: tuple[list[int], list[int]],
    dtype: np.dtype,
    shape: Any,
) -> Value:
    """The product of arrays: batch dimensions, then those of `x`, then those of `y`."""
    x, y = g.whole(x), g.whole(y)
    free = tuple(
        [i for i in range(v.ndim) if i not in (*b, *k)]
        for v, b, k in zip((x, y), batch, contracted)
    )
    plain = len(contracted[0]) == 1 and len(free[0]) <= 1 and len(free[1]) <= 1
    rows = len(contracted[0]) == 1 and not batch[0] and len(free[1]) == 1 and free[0]
    if bytes_to_int32(x, y, dtype) and (plain or rows):
        op, kind = "MatMulInteger", None
    else:
        op = "MatMul" if plain or rows else "Einsum"
        kind = _compute_dtype(g, op, x, y, dtype)
        x, y = g.cast(x, kind), g.cast(y, kind)
    if op == "Einsum":
        letters = iter(string.ascii_letters)
        names: tuple[dict[int, str], dict[int, str]] = ({}, {})
        for pairs in (zip(*batch), zip(*contracted)):
            for i, j in pairs:
                names[0][i] = names[1][j] = next(letters)
        for side in (0, 1):
            for i in free[side]:
                names[side][i] = next(letters)
        out = "".join(names[0][i] for i in (*batch[0], *free[0]))
        out += "".join(names[1][i] for i in free[1])
        inputs = ["".join(n[i] for i in range(v.ndim)) for n, v in zip(names, (x, y))]
        equation = f"{inputs[0]},{inputs[1]}->{out}"
        name = g.node("Einsum", [x.name, y.name], equation=equation)
        return g.cast(known(name, kind, shape), dtype)
    x = g.transpose(x, [*batch[0], *free[0], *contracted[0]])
    y = g.transpose(y, [*batch[1], *contracted[1], *free[1]])
    missing = []  # MatMul of vectors has no batch: they become matrices
    if not free[0]:
        x = g.expand_dims(x, [len(batch[0])])
        missing.append(len(batch[0]))
    if not free[1]:
        y = g.expand_dims(y, [y.ndim])
        missing.append(max(x.ndim, y.ndim) - 1)
    name = g.node(op, [x.name, y.name])
    full = list(shape)
    for axis in missing:
        full.insert(axis, 1)
    result = known(name, np.int32 if kind is None else kind, full)
    return g.cast(g.squeeze(result, missing), dtype)


def bytes_to_int32(x: Value, y: Value, dtype: np.dtype) -> bool:
    """Whether ONNX's products of 8-bit integers, summed in int32, give the result."""
    return {x.dtype.name, y.dtype.name} <= {"int8", "uint8"} and dtype == np.int32


def _compute_dtype(g: Graph, op: str, x: Value, y: Value, dtype: np.dtype) -> np.dtype:
    """The type that products are computed in: that of the result, or of wider operands."""
    if BOOL in (x.dtype, y.dtype):
        raise Unsupported("products of bools; convert them to integers")
    kinds = {x.dtype, y.dtype, dtype}
    if len(kinds) == 1:
        return g.kernel_dtype(op, dtype)
    if dtype.kind in "iu":
        return g.kernel_dtype(op, np.promote_types(np.promote_types(x.dtype, y.dtype), dtype))
    wide = np.float64 if np.dtype(np.float64) in kinds else np.float32
    return g.kernel_dtype(op, np.dtype(wide))


RULES = {"stablehlo.dot_general": _dot_general}
