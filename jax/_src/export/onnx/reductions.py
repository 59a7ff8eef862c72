"""Rules of reductions along dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx import bodies
from jax._src.export.onnx.attributes import ints, result_dtype, result_shape
from jax._src.export.onnx.graph import BOOL, INT64, Graph, Shape, Unsupported, Value, known
from jax._src.export.onnx.shapes import concatenate

_REDUCTIONS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
_BINARY = {
    "add": "Add", "mul": "Mul", "max": "Max", "min": "Min", "and": "BitwiseAnd", "or": "BitwiseOr",
    "xor": "BitwiseXor",
}  # fmt: skip
_BINARY_OF_BOOLS = {
    "add": "Or", "mul": "And", "max": "Or", "min": "And", "and": "And", "or": "Or", "xor": "Xor",
}  # fmt: skip
# bools are reduced as integers, of which kernels have extrema
EXTREMUM_OF_BOOLS = {"or": "max", "and": "min", "add": "max", "mul": "min"}


def combine(g: Graph, monoid: str, x: Value, y: Value) -> Value:
    """Two arrays combined by a monoid."""
    return g.map((_BINARY_OF_BOOLS if x.dtype == BOOL else _BINARY)[monoid], x, y)


def identity(monoid: str, dtype: np.dtype) -> Any:
    """The element that a monoid leaves others unchanged by."""
    if monoid in ("add", "or", "xor"):
        return dtype.type(0)
    if monoid == "mul":
        return dtype.type(1)
    if dtype == BOOL:
        return monoid in ("and", "min")
    if monoid == "and":
        return dtype.type(-1) if dtype.kind == "i" else dtype.type(np.iinfo(dtype).max)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return dtype.type(limits.min if monoid == "max" else limits.max)
    return np.array(-np.inf if monoid == "max" else np.inf).astype(dtype)[()]


def is_identity(monoid: str, init: Value) -> bool:
    return init.constant is not None and bool(
        init.constant.reshape(-1)[0] == identity(monoid, init.dtype)
    )


def _reduce(c: Any, op: Any, *operands: Value) -> Any:
    axes = ints(op, "dimensions")
    region = op.regions[0]
    if len(operands) == 2:
        monoid = bodies.monoid(region)
        if monoid in _BINARY:
            x, init = operands
            result = reduce(c.graph, monoid, x, axes, result_shape(op))
            if is_identity(monoid, init):
                return result
            return combine(c.graph, monoid, result, init)
    if len(operands) == 4 and len(axes) == 1:
        largest = _chooses(region, operands)
        if largest is not None:
            return _arg_extremum(c.graph, operands, axes[0], largest, result_shape(op))
    return _by_halves(c, op, operands, axes)


def reduce(g: Graph, monoid: str, x: Value, axes: Sequence[int], shape: Shape) -> Value:
    """Combines the elements along dimensions."""
    if x.dtype == BOOL:
        if monoid == "xor":
            counts = reduce(g, "add", g.cast(x, np.int32), axes, shape)
            return g.cast(g.map("BitwiseAnd", counts, g.splat(1, counts)), bool)
        monoid = EXTREMUM_OF_BOOLS.get(monoid, monoid)
        return g.cast(reduce(g, monoid, g.cast(x, np.int32), axes, shape), bool)
    if monoid in ("and", "or", "xor"):
        return _halves(g, lambda a, b: (combine(g, monoid, *a, *b),), (x,), axes, shape)[0]
    x = g.whole(x)
    op = _REDUCTIONS[monoid]
    if monoid in ("max", "min") and x.dtype.kind not in "iu":
        return _float_extremum(g, op, x, axes, shape)
    if x.dtype == np.uint64:
        if monoid in ("max", "min"):
            raise Unsupported("runtimes have no extrema of uint64 along dimensions")
        return g.cast(_apply(g, op, g.cast(x, np.int64), axes, shape), x.dtype)
    return _apply(g, op, x, axes, shape)


def _apply(g: Graph, op: str, x: Value, axes: Sequence[int], shape: Shape) -> Value:
    if not axes:
        return x
    if 0 in [x.shape[a] for a in axes] and op in ("ReduceMax", "ReduceMin"):
        element = identity("max" if op == "ReduceMax" else "min", x.dtype)
        return g.splat(element, dataclasses.replace(x, shape=shape, held=(True,) * len(shape)))
    return g.apply(op, x, shape, g.ints(axes), keepdims=0)


def _float_extremum(g: Graph, op: str, x: Value, axes: Sequence[int], shape: Shape) -> Value:
    """Runtimes differ in what NaN does to an extremum: here it is the result."""
    result = _apply(g, op, x, axes, shape)
    if not axes or 0 in [x.shape[a] for a in axes]:
        return result
    nan = g.cast(g.map("IsNaN", x, dtype=bool), np.int32)
    any_nan = g.cast(_apply(g, "ReduceMax", nan, axes, shape), bool)
    return g.where(any_nan, g.splat(np.nan, result), result)


# Arg-max


def _chooses(region: Any, operands: Sequence[Value]) -> bool | None:
    """Whether a region of values and indices keeps the largest value, the smallest, or does else.

    Of equal values it must keep the one with the smaller index, and NaN of all.
    """
    if operands[1].dtype.kind not in "iu":
        return None
    two, one = (np.array(n, operands[0].dtype) for n in (1, 0))
    try:
        first = bodies.run(region, [two, 0, one, 1])
        last = bodies.run(region, [one, 0, two, 1])
        equal = [bodies.run(region, [one, i, one, j]) for i, j in ((0, 1), (1, 0))]
    except (Unsupported, KeyError):
        return None
    if len(first) != 2 or any(e[1] != 0 for e in equal):
        return None
    if (first[0], first[1], last[0], last[1]) == (two, 0, two, 1):
        return True
    if (first[0], first[1], last[0], last[1]) == (one, 1, one, 0):
        return False
    return None


def _arg_extremum(
    g: Graph, operands: Sequence[Value], axis: int, largest: bool, shape: Shape
) -> list[Value]:
    """The extremum along a dimension and what the second array has there."""
    x, indices = g.whole(operands[0]), operands[1]
    if x.dtype == BOOL:
        x = g.cast(x, np.int32)
    op = "ArgMax" if largest else "ArgMin"
    if x.shape[axis] == 0:
        raise Unsupported("arg-max of nothing")
    if x.dtype.name in ("uint32", "uint16", "int16"):
        x = g.cast(x, np.int64)
    kind = g.kernel_dtype(op, x.dtype)
    position = known(g.node(op, [g.cast(x, kind).name], axis=axis, keepdims=1), INT64, shape)
    if x.dtype.kind not in "iu":
        nan = g.cast(g.map("IsNaN", x, dtype=bool), np.int32)
        first_nan = known(g.node("ArgMax", [nan.name], axis=axis, keepdims=1), INT64, shape)
        any_nan = g.node("ReduceMax", [nan.name, g.ints([axis])], keepdims=1)
        any_nan = g.cast(known(any_nan, np.int32, shape), bool)
        position = g.where(any_nan, first_nan, position)
    results = []
    for v in (operands[0], indices):
        v = g.whole(v)
        full = list(shape)
        full.insert(axis, 1)
        name = g.node("GatherElements", [v.name, position.name], axis=axis)
        results.append(g.squeeze(known(name, v.dtype, tuple(full)), [axis]))
    return results


# Other reductions

Arrays = tuple[Value, ...]


def _by_halves(c: Any, op: Any, operands: Sequence[Value], axes: Sequence[int]) -> list[Value]:
    """A reduction by any associative function: half of the elements with the other half, and so on."""
    count = len(operands) // 2
    arrays, inits = tuple(operands[:count]), tuple(operands[count:])
    block = op.regions[0].blocks[0]
    shape = result_shape(op)

    def function(a: Arrays, b: Arrays) -> Arrays:
        return tuple(c.elementwise_block(block, [*a, *b]))

    results = _halves(c.graph, function, arrays, axes, shape)
    results = function(tuple(inits), results)
    dtypes = [result_dtype(op, i) for i in range(count)]
    return [c.graph.cast(r, d) for r, d in zip(results, dtypes)]


def _halves(
    g: Graph,
    function: Callable[[Arrays, Arrays], Arrays],
    arrays: Arrays,
    axes: Sequence[int],
    shape: Shape,
) -> Arrays:
    arrays = tuple(g.whole(a) for a in arrays)
    for axis in axes:
        size = arrays[0].shape[axis]
        if size is None:
            raise Unsupported(
                "a reduction by a function other than sum, product, extremum or arg-extremum, along a "
                "dimension whose size is not known"
            )
        if size == 0:
            raise Unsupported("a reduction of nothing")
        while size > 1:
            half = size // 2
            parts = []
            for start, limit in ((0, half), (half, 2 * half), (2 * half, size)):
                parts.append(tuple(g.slice_in_dim(a, axis, start, limit) for a in arrays))
            joined = function(parts[0], parts[1])
            if size % 2:
                if half == 1:
                    joined = function(joined, parts[2])
                    size = 1
                else:
                    size = half + 1
                    joined = tuple(
                        concatenate(
                            g, pair, axis, (*pair[0].shape[:axis], size, *pair[0].shape[axis + 1 :])
                        )
                        for pair in zip(joined, parts[2])
                    )
            else:
                size = half
            arrays = tuple(g.whole(a) for a in joined)
    return tuple(g.squeeze(a, sorted(axes)) for a in arrays)


RULES = {"stablehlo.reduce": _reduce}
