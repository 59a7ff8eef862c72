"""Rules of sort and top_k: ONNX's TopK, which is stable, once for each key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx import bodies
from jax._src.export.onnx.attributes import attribute, integer, result_shape
from jax._src.export.onnx.elementwise import unsigned64
from jax._src.export.onnx.graph import BOOL, INT64, Graph, Unsupported, Value, known
from jax._src.lib.mlir import ir


@dataclasses.dataclass(frozen=True)
class _Key:
    """An operand that decides the order: which one, and the values that are greater than others."""

    operand: int
    descending: bool


def _sort(c: Any, op: Any, *operands: Value) -> list[Value]:
    g, axis = c.graph, integer(op, "dimension")
    arrays = [g.whole(v) for v in operands]
    size = arrays[0].shape[axis]
    if size is not None and size < 2:
        return arrays
    keys = _keys(op.regions[0], [v.dtype for v in arrays])
    count = g.size(arrays[0], axis)
    order = None
    for key in reversed(keys):  # the last key first: later sorts keep its order among equals
        for criterion in _criteria(g, arrays[key.operand]):
            if order is not None:
                criterion = _picked(g, criterion, order, axis)
            position = _top(g, criterion, count, axis, largest=key.descending)[1]
            order = position if order is None else _picked(g, order, position, axis)
    assert order is not None
    return [_picked(g, v, order, axis) for v in arrays]


def _keys(region: Any, dtypes: Sequence[np.dtype]) -> list[_Key]:
    """The operands that a comparison looks at, the most important first."""
    low = [np.array(0, d) for d in dtypes]
    high = [np.array(1, d) for d in dtypes]

    def before(left: Sequence[Any], right: Sequence[Any]) -> bool:
        pairs = [v for pair in zip(left, right) for v in pair]
        return bool(bodies.run(region, pairs)[0])

    def swapped(values: Sequence[Any], *changes: tuple[int, Any]) -> list[Any]:
        result = list(values)
        for i, v in changes:
            result[i] = v
        return result

    found = []
    for i in range(len(dtypes)):
        ascending = before(low, swapped(low, (i, high[i])))
        descending = before(swapped(low, (i, high[i])), low)
        if ascending != descending:
            found.append(_Key(i, descending))
    if not found or before(low, low):
        raise Unsupported("a sort by another comparison than < or > of its operands")

    def rank(key: _Key) -> int:
        """How many other keys it overrules."""
        first, last = (high, low) if key.descending else (low, high)
        count = 0
        for other in found:
            if other is not key:
                start, end = (low, high) if other.descending else (high, low)
                left = swapped(
                    low, (key.operand, first[key.operand]), (other.operand, start[other.operand])
                )
                right = swapped(
                    low, (key.operand, last[key.operand]), (other.operand, end[other.operand])
                )
                count += before(left, right)
        return count

    return sorted(found, key=rank, reverse=True)


def _criteria(g: Graph, x: Value, zeros: bool = False) -> list[Value]:
    """Numbers that TopK orders as the array is to be: NaN is greater than all others.

    With `zeros`, -0 is less than 0; otherwise they are equal.
    """
    if x.dtype == BOOL:
        return [g.cast(x, np.int32)]
    if x.dtype == np.uint64:
        return [unsigned64(g, x)]
    x = g.cast(x, g.kernel_dtype("TopK", x.dtype))
    if x.dtype.kind in "iu":
        return [x]
    nan = g.map("IsNaN", x, dtype=bool)
    if zeros:  # -0 becomes the negative number next to it
        one = g.splat(1, x)
        negative = g.map("Less", g.map("Div", one, x), g.splat(0, x), dtype=bool)
        zero = g.map("Equal", x, g.splat(0, x), dtype=bool)
        least = g.splat(-np.finfo(x.dtype).smallest_subnormal, x)
        x = g.where(g.map("And", zero, negative), least, x)
    return [g.where(nan, g.splat(np.inf, x), x), g.cast(nan, np.int32)]


def _top(g: Graph, x: Value, count: str, axis: int, largest: bool) -> tuple[Value, Value]:
    values, positions = g.node(
        "TopK", [x.name, count], 2, axis=axis, largest=int(largest), sorted=1
    )
    return known(values, x.dtype, x.shape), known(positions, INT64, x.shape)


def _picked(g: Graph, x: Value, positions: Value, axis: int) -> Value:
    return g.apply("GatherElements", x, positions.shape, positions.name, axis=axis)


def _top_k(c: Any, op: Any, x: Value) -> list[Value]:
    attributes = ir.DictAttr(attribute(op, "composite_attributes"))
    k = ir.IntegerAttr(attributes["k"]).value
    largest = True
    if "largest" in attributes:
        largest = ir.BoolAttr(attributes["largest"]).value
    if not largest:
        return NotImplemented
    g = c.graph
    x = g.whole(x)
    order = _order_of_first(g, x, x.ndim - 1, k, result_shape(op), largest=True, zeros=True)
    return [_picked(g, x, order, x.ndim - 1), g.cast(order, np.int32)]


def _approx_top_k(
    c: Any, op: Any, x: Value, indices: Value, initial: Value, *_: Value
) -> list[Value]:
    """The exact result, as on CPUs. The smallest elements are those that a positive number is reduced with."""
    options = ir.DictAttr(attribute(op, "mhlo.backend_config"))
    axis = ir.IntegerAttr(options["reduction_dim"]).value
    g, shape = c.graph, result_shape(op)
    if initial.constant is None or shape[axis] is None:
        raise Unsupported("the number of elements to find, or their order, is not known")
    largest = bool((initial.constant <= 0).all())
    order = _order_of_first(g, g.whole(x), axis, shape[axis], shape, largest, zeros=False)
    return [_picked(g, g.whole(v), order, axis) for v in (x, indices)]


def _order_of_first(
    g: Graph, x: Value, axis: int, k: int, shape: Any, largest: bool, zeros: bool
) -> Value:
    """The positions of the k largest or smallest elements."""
    order = None
    criteria = _criteria(g, x, zeros)
    for i, criterion in enumerate(criteria):
        if order is not None:
            criterion = _picked(g, criterion, order, axis)
        last = i == len(criteria) - 1
        position = _top(g, criterion, g.ints([k]) if last else g.size(x, axis), axis, largest)[1]
        position = dataclasses.replace(position, shape=shape if last else x.shape)
        order = position if order is None else _picked(g, order, position, axis)
    assert order is not None
    return order


RULES = {"stablehlo.sort": _sort, "ApproxTopK": _approx_top_k}
NAMED = {"chlo.top_k": _top_k}
