"""What a small region computes: the functions of reductions, scatters and sorts.

A region is run on numbers, in NumPy, to see what it does. The regions that programs have are few: the
monoids of reductions, the comparisons of sorts, the choice of arg-max. Running them recognizes each
however it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx.attributes import element_dtype, elements, enum, owner
from jax._src.export.onnx.graph import Unsupported
from jax._src.lib.mlir import ir

_COMPARISONS = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
    "GE": np.greater_equal,
}  # fmt: skip
_FUNCTIONS = {
    "stablehlo.add": np.add,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.not": np.invert,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.select": np.where,
    "stablehlo.subtract": np.subtract,
    "stablehlo.xor": np.bitwise_xor,
}
_MONOIDS = {
    "stablehlo.add": "add",
    "stablehlo.and": "and",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.multiply": "mul",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}


def monoid(region: Any) -> str | None:
    """The name of a region of one operation on its two arguments: add, mul, max, min, and, or, xor.

    "first" and "second" are those of regions that return one of their arguments; None is any other.
    """
    block = region.blocks[0]
    *body, last = [op.operation for op in block.operations]
    arguments = list(block.arguments)
    if len(arguments) != 2 or len(last.operands) != 1:
        return None
    if not body:
        result = last.operands[0]
        for name, argument in zip(("first", "second"), arguments):
            if result == argument:
                return name
        return None
    if len(body) != 1 or last.operands[0] != body[0].results[0]:
        return None
    if {*map(hash, body[0].operands)} != {*map(hash, arguments)}:
        return None
    return _MONOIDS.get(body[0].name)


def run(region: Any, arguments: Sequence[Any]) -> list[np.ndarray]:
    """Runs a region of elementwise operations on arrays of NumPy.

    Raises:
      Unsupported: it has another operation.
    """
    values: dict[Any, np.ndarray] = {}
    block = region.blocks[0]
    for parameter, argument in zip(block.arguments, arguments, strict=True):
        values[parameter] = np.asarray(argument, _dtype(parameter))

    def value(v: Any) -> np.ndarray:
        if v not in values:  # captured from around the region
            op = owner(v)
            if getattr(op, "name", "") != "stablehlo.constant":
                raise Unsupported("its body depends on values around it")
            values[v] = elements(op.attributes["value"])
        return values[v]

    with np.errstate(all="ignore"):
        for op in block.operations:
            op = op.operation
            if op.name == "stablehlo.return":
                return [value(v) for v in op.operands]
            if op.name == "stablehlo.constant":
                values[op.results[0]] = elements(op.attributes["value"])
                continue
            operands = [value(v) for v in op.operands]
            values[op.results[0]] = _apply(op, operands)
    raise Unsupported("its body returns nothing")


def _apply(op: Any, operands: list[np.ndarray]) -> np.ndarray:
    if op.name == "stablehlo.compare":
        function = _COMPARISONS[enum(op, "comparison_direction")]
        if enum(op, "compare_type") == "TOTALORDER":
            operands = [_total_order(x) for x in operands]
        return function(*operands)
    if op.name == "stablehlo.bitcast_convert":
        return operands[0].view(_dtype(op.results[0]))
    if op.name == "stablehlo.convert":
        return operands[0].astype(_dtype(op.results[0]))
    function = _FUNCTIONS.get(op.name)
    if function is None:
        raise Unsupported(f"its body has {op.name}, which is none of a monoid or a comparison")
    return np.asarray(function(*operands), _dtype(op.results[0]))


def _total_order(x: np.ndarray) -> np.ndarray:
    """Integers in the total order of floating-point numbers: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if x.dtype.kind in "iub":
        return x
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits - 1, bits)


def _dtype(value: Any) -> np.dtype:
    return element_dtype(ir.RankedTensorType(value.type))
