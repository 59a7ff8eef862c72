"""Rules of operations that rearrange elements, and of shapes that are known only when a model runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx.attributes import integer, ints, result_dtype, result_shape
from jax._src.export.onnx.graph import INT64, Graph, Shape, Unsupported, Value, known


def as_sizes(g: Graph, vector: Value) -> str:
    """A vector of integers as the int64 vector that ONNX wants for shapes."""
    return g.cast(g.whole(vector), np.int64).name


def _broadcast_in_dim(c: Any, op: Any, x: Value) -> Value:
    return broadcast(c.graph, x, ints(op, "broadcast_dimensions"), result_shape(op))


def _dynamic_broadcast_in_dim(c: Any, op: Any, x: Value, sizes: Value) -> Value:
    g = c.graph
    shape = _refined(result_shape(op), sizes)
    return broadcast(g, x, ints(op, "broadcast_dimensions"), shape, as_sizes(g, sizes))


def _refined(shape: Shape, sizes: Value) -> Shape:
    """A shape, with the sizes of a vector if that is constant."""
    if sizes.constant is None:
        return shape
    given = np.broadcast_to(sizes.constant, sizes.shape)
    return tuple(int(n) for n in given)


def broadcast(
    g: Graph, x: Value, dims: Sequence[int], shape: Shape, sizes: str | None = None
) -> Value:
    """Broadcasts, without copying elements: dimensions that repeat them are not held."""
    order = sorted(range(x.ndim), key=lambda i: dims[i])
    x = g.transpose(x, order)
    dims = [dims[i] for i in order]
    # dimensions of the operand that are not held stay so
    held = [False] * len(shape)
    for i, d in enumerate(dims):
        held[d] = x.held[i] and not (x.shape[i] == 1 and shape[d] != 1)
    for d, n in enumerate(shape):
        held[d] = held[d] or n == 1
    added = [d for d in range(len(shape)) if d not in set(dims)]
    tensor = dataclasses.replace(
        x, shape=x.tensor_shape, held=(True,) * x.ndim, sizes=None
    )  # as it is in the model
    tensor = g.expand_dims(tensor, added)
    if None in shape and sizes is None and not all(held):
        raise Unsupported("a broadcast to sizes that are not known")
    keep = sizes if None in shape and not all(held) else None
    return Value(tensor.name, x.dtype, tuple(shape), tuple(held), keep, tensor.constant)


def _reshape(c: Any, op: Any, x: Value) -> Value:
    return reshape(c.graph, x, result_shape(op))


def reshape(g: Graph, x: Value, shape: Shape, sizes: str | None = None) -> Value:
    """Reshapes; where only dimensions of size 1 come or go, elements that repeat stay unwritten."""
    if x.static and None not in shape and not x.whole:
        ours = [i for i, n in enumerate(x.shape) if n != 1]
        theirs = [i for i, n in enumerate(shape) if n != 1]
        if [x.shape[i] for i in ours] == [shape[i] for i in theirs]:
            tensor = known(x.name, x.dtype, x.tensor_shape)
            tensor = dataclasses.replace(tensor, constant=x.constant)
            held = [True] * len(shape)
            target = [1] * len(shape)
            for i, j in zip(ours, theirs):
                held[j], target[j] = x.held[i], x.tensor_shape[i]
            tensor = g.reshape(tensor, tuple(target))
            return Value(tensor.name, x.dtype, shape, tuple(held), None, tensor.constant)
    return g.reshape(x, shape, sizes)


def _dynamic_reshape(c: Any, op: Any, x: Value, sizes: Value) -> Value:
    g = c.graph
    shape = _refined(result_shape(op), sizes)
    return reshape(g, x, shape, None if None not in shape else as_sizes(g, sizes))


def _transpose(c: Any, op: Any, x: Value) -> Value:
    return c.graph.transpose(x, ints(op, "permutation"))


def _slice(c: Any, op: Any, x: Value) -> Value:
    starts, limits, strides = (ints(op, n) for n in ("start_indices", "limit_indices", "strides"))
    return lazy_slice(c.graph, x, starts, limits, strides)


def lazy_slice(
    g: Graph, x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]
) -> Value:
    """A slice of dimensions; those that are not held only change their size."""
    if x.whole or not x.static:
        return g.slice(x, starts, limits, strides)
    tensor = dataclasses.replace(known(x.name, x.dtype, x.tensor_shape), constant=x.constant)
    shape = tuple(max(0, -(-(b - a) // s)) for a, b, s in zip(starts, limits, strides))
    if 0 in shape:
        return g.slice(x, starts, limits, strides)
    inner = [(a, b, s) if h else (0, 1, 1) for a, b, s, h in zip(starts, limits, strides, x.held)]
    tensor = g.slice(tensor, *[list(t) for t in zip(*inner)])
    held = tuple(h or n == 1 for h, n in zip(x.held, shape))
    return Value(tensor.name, x.dtype, shape, held, None, tensor.constant)


def _real_dynamic_slice(c: Any, op: Any, x: Value, *bounds: Value) -> Value:
    g = c.graph
    starts, limits, strides = (as_sizes(g, b) for b in bounds)
    axes = g.ints(range(x.ndim))
    return g.apply("Slice", x, result_shape(op), starts, limits, axes, strides)


def _concatenate(c: Any, op: Any, *xs: Value) -> Value:
    return concatenate(c.graph, xs, integer(op, "dimension"), result_shape(op))


def concatenate(g: Graph, xs: Sequence[Value], axis: int, shape: Shape) -> Value:
    xs = [g.whole(x) for x in xs if x.shape[axis] != 0]
    if not xs:
        raise Unsupported("a concatenation of nothing")
    if len(xs) == 1:
        return xs[0]
    if all(x.constant is not None for x in xs) and sum(x.constant.size for x in xs) <= 1024:
        return g.constant(np.concatenate([x.constant for x in xs], axis))
    return known(g.moved("Concat", xs, axis=axis), xs[0].dtype, shape)


def _pad(c: Any, op: Any, x: Value, fill: Value) -> Value:
    low, high, interior = (
        ints(op, n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return pad(c.graph, x, fill, low, high, interior, result_shape(op))


def pad(
    g: Graph,
    x: Value,
    fill: Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    shape: Shape,
) -> Value:
    """Pads between elements, then at the edges; negative numbers cut elements off."""
    for axis, between in enumerate(interior):
        if between:
            x = _pad_between(g, x, fill, axis, between)
    low, high = list(low), list(high)
    for axis, size in enumerate(x.shape):
        if size is None and low[axis] * high[axis] < 0:
            x = _shift(g, x, fill, axis, low[axis], high[axis])
            low[axis] = high[axis] = 0
    if any(n > 0 for n in (*low, *high)):
        amounts = [max(0, n) for n in (*low, *high)]
        grown = tuple(
            None if n is None else n + amounts[i] + amounts[i + x.ndim]
            for i, n in enumerate(x.shape)
        )
        x = apply_pad(g, x, fill, g.ints(amounts), grown)
    if any(n < 0 for n in (*low, *high)):
        starts = [max(0, -n) for n in low]
        limits = [n if n < 0 else None for n in high]
        x = g.slice(x, starts, limits, shape=shape)
    return x


def _shift(g: Graph, x: Value, fill: Value, axis: int, low: int, high: int) -> Value:
    """Cuts elements off at one edge of an unknown size, then pads the other: by no more than remains.

    The numbers may be much larger than the size.
    """
    remain = g.node("Add", [g.size(x, axis), g.ints([low + high])])
    amount = g.node("Min", [g.node("Max", [remain, g.ints([0])]), g.ints([max(low, high)])])
    starts, limits = [0] * x.ndim, [None] * x.ndim
    if low < 0:
        starts[axis] = -low
    else:
        limits[axis] = high
    parts: list[str | int] = [0] * (2 * x.ndim)
    parts[axis if low > 0 else axis + x.ndim] = amount
    x = g.slice(x, starts, limits, shape=x.shape)
    return apply_pad(g, x, fill, g.join_sizes(parts), x.shape)


def apply_pad(g: Graph, x: Value, fill: Value, amounts: str, shape: Shape) -> Value:
    kind = g.kernel_dtype("Pad", x.dtype)
    x = g.whole(x)
    names = [g.cast_name(v.name, v.dtype, kind) for v in (x, fill)]
    name = g.node("Pad", [names[0], amounts, names[1]], mode="constant")
    return known(g.cast_name(name, kind, x.dtype), x.dtype, shape)


def _pad_between(g: Graph, x: Value, fill: Value, axis: int, between: int) -> Value:
    """Each element becomes a row that is padded at its end; the last row's end is cut off."""
    size = x.shape[axis]
    if size is None:
        raise Unsupported("padding between elements of a dimension whose size is not known")
    if size <= 1:
        return x
    rows = g.expand_dims(x, [axis + 1])
    amounts = [0] * (2 * rows.ndim)
    amounts[rows.ndim + axis + 1] = between
    shape = list(rows.shape)
    shape[axis + 1] = between + 1
    rows = apply_pad(g, rows, fill, g.ints(amounts), tuple(shape))
    joined = list(x.shape)
    joined[axis] = size * (between + 1)
    sizes = None
    if None in joined:
        parts = [g.size(x, i) if n is None else n for i, n in enumerate(joined)]
        sizes = g.join_sizes(parts)
    out = g.reshape(rows, tuple(joined), sizes)
    return g.slice_in_dim(out, axis, 0, joined[axis] - between)


def _dynamic_pad(c: Any, op: Any, x: Value, fill: Value, *amounts: Value) -> Value:
    g = c.graph
    low, high, interior = amounts
    if interior.constant is None or interior.constant.any():
        raise Unsupported("padding between elements by numbers that are not known")
    known_low, known_high = (
        None if v.constant is None else np.broadcast_to(v.constant, v.shape).tolist()
        for v in (low, high)
    )
    shape = result_shape(op)
    if known_low is not None and known_high is not None:
        return pad(g, x, fill, known_low, known_high, [0] * x.ndim, shape)
    names = [as_sizes(g, v) for v in (low, high)]
    # ONNX's Pad takes negative amounts too
    return apply_pad(g, x, fill, g.node("Concat", names, axis=0), shape)


def _iota(c: Any, op: Any) -> Value:
    axis, shape = integer(op, "iota_dimension"), result_shape(op)
    return _along(c.graph, c.graph.iota(shape[axis]), axis, shape, result_dtype(op), None)


def _dynamic_iota(c: Any, op: Any, sizes: Value) -> Value:
    g = c.graph
    axis, shape = integer(op, "iota_dimension"), _refined(result_shape(op), sizes)
    vector = as_sizes(g, sizes)
    size: int | str | None = shape[axis]
    if size is None:
        size = g.node("Gather", [vector, g.ints([axis])], axis=0)
    return _along(g, g.iota(size), axis, shape, result_dtype(op), vector)


def _along(
    g: Graph, vector: str, axis: int, shape: Shape, dtype: np.dtype, sizes: str | None
) -> Value:
    """A vector of int64 along an axis; it repeats along the others."""
    values = known(vector, INT64, (shape[axis],))
    if shape[axis] is not None:
        values = dataclasses.replace(values, constant=np.arange(shape[axis], dtype=np.int64))
    return broadcast(g, g.cast(values, dtype), [axis], shape, sizes)


def _reverse(c: Any, op: Any, x: Value) -> Value:
    return reverse(c.graph, x, ints(op, "dimensions"))


def reverse(g: Graph, x: Value, axes: Sequence[int]) -> Value:
    if not axes:
        return x
    count = len(axes)
    least = np.iinfo(np.int64).min
    steps = [g.ints([n] * count) for n in (-1, least)], g.ints(axes), g.ints([-1] * count)
    return g.apply("Slice", x, x.shape, *steps[0], *steps[1:])


def _get_dimension_size(c: Any, op: Any, x: Value) -> Value:
    g, axis, dtype = c.graph, integer(op, "dimension"), result_dtype(op)
    if x.shape[axis] is not None:
        return g.constant(np.array(x.shape[axis], dtype))
    return g.cast(known(g.node("Squeeze", [g.size(x, axis), g.ints([0])]), INT64, ()), dtype)


RULES = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast_in_dim,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.get_dimension_size": _get_dimension_size,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
