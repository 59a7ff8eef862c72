"""The rule of reduce_window: pooling and cumulative operations."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx import bodies
from jax._src.export.onnx.attributes import ints, matrix, pieces, result_shape
from jax._src.export.onnx.elementwise import select
from jax._src.export.onnx.graph import BOOL, INT64, Graph, Shape, Unsupported, Value, known
from jax._src.export.onnx.reductions import combine, identity, is_identity
from jax._src.export.onnx.shapes import apply_pad, pad
from jax._src.lib.mlir import ir


@dataclasses.dataclass(frozen=True)
class Fold:
    """An associative function of two arrays, its name if it has one, and its neutral element."""

    monoid: str | None
    function: Callable[[Value, Value], Value]
    init: Value


@dataclasses.dataclass(frozen=True)
class _Windows:
    """The windows of an array: sizes, strides and dilations of each dimension, and the result's shape."""

    sizes: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    base_dilations: Sequence[int]
    padding: Sequence[tuple[int, int]]
    shape: Shape


_MAX_UNROLLED = 1024  # elements of a window that are combined one by one


def _reduce_window(c: Any, op: Any, *operands: Value) -> Any:
    g = c.graph
    if len(operands) != 2:
        raise Unsupported("windows of several arrays")
    x, init = operands
    ones = [1] * x.ndim
    windows = _Windows(
        ints(op, "window_dimensions"),
        *[ints(op, n, ones) for n in ("window_strides", "window_dilations", "base_dilations")],
        matrix(op, "padding", x.ndim),
        result_shape(op),
    )
    return _folded(c, op.regions[0], x.dtype, init, lambda fold: _reduced(g, fold, x, windows))


def _folded(
    c: Any, region: Any, dtype: np.dtype, init: Value, reduce: Callable[[Fold], Value]
) -> Value:
    """Reduces by the function of a region, which is applied to `init` at last if that is not neutral."""
    g = c.graph
    monoid = bodies.monoid(region)
    if monoid in ("first", "second"):
        raise Unsupported("windows reduced by a function that drops elements")
    if monoid is None:

        def function(a: Value, b: Value) -> Value:
            return c.elementwise_block(region.blocks[0], [a, b])[0]

        return reduce(Fold(None, function, init))
    function = functools.partial(combine, g, monoid)
    if is_identity(monoid, init):
        return reduce(Fold(monoid, function, init))
    neutral = g.constant(np.array(identity(monoid, dtype)))
    return function(reduce(Fold(monoid, function, neutral)), init)


def _reduced(g: Graph, fold: Fold, x: Value, w: _Windows) -> Value:
    axis = _cumulative_axis(x, w)
    if axis is not None:
        return _cumulative(g, fold, x, axis, reverse=w.padding[axis][0] == 0)
    if fold.monoid == "max" and x.dtype in (np.float32, np.float64):
        pooled = _max_pool(g, x, w)
        if pooled is not None:
            return pooled
    return _unrolled(g, fold, x, w)


def _cumulative_axis(x: Value, w: _Windows) -> int | None:
    """The dimension along which the windows are all elements up to each, or from each on."""
    axes = [i for i, n in enumerate(w.sizes) if n != 1]
    if len(axes) != 1 or any(n != 1 for n in (*w.strides, *w.dilations, *w.base_dilations)):
        return None
    (axis,) = axes
    if any(p != (0, 0) for i, p in enumerate(w.padding) if i != axis):
        return None
    size, window = x.shape[axis], w.sizes[axis]
    if size is None or window < size or sorted(w.padding[axis]) != [0, window - 1]:
        return None
    return axis


def _cumulative(g: Graph, fold: Fold, x: Value, axis: int, reverse: bool) -> Value:
    """Sums, or other combinations, of all elements up to each."""
    x = g.whole(x)
    if fold.monoid == "add" and x.dtype != BOOL:
        kind = INT64 if x.dtype.kind in "iu" else g.kernel_dtype("CumSum", x.dtype)
        name = g.cast(x, kind).name
        name = g.node(
            "CumSum", [name, g.initializer(np.array(axis, np.int64))], reverse=int(reverse)
        )
        return g.cast(known(name, kind, x.shape), x.dtype)
    size = x.shape[axis]
    step = 1
    while step < size:  # each element gets the combination of 2, 4, 8, ... before it
        low, high = [0] * x.ndim, [0] * x.ndim
        low[axis], high[axis] = (-step, step) if reverse else (step, -step)
        moved = pad(g, x, fold.init, low, high, [0] * x.ndim, x.shape)
        x = g.whole(fold.function(x, moved) if reverse else fold.function(moved, x))
        step *= 2
    return x


def _max_pool(g: Graph, x: Value, w: _Windows) -> Value | None:
    """ONNX's MaxPool, over at most three dimensions: batch, channels, and those of the window."""
    spatial = [
        i for i in range(x.ndim) if (w.sizes[i], w.strides[i], w.padding[i]) != (1, 1, (0, 0))
    ]
    others = [i for i in range(x.ndim) if i not in spatial]
    if not 1 <= len(spatial) <= 3 or len(others) > 2 or any(n != 1 for n in w.base_dilations):
        return None
    # runtimes refuse other padding
    if any(not 0 <= p < w.sizes[i] for i in spatial for p in w.padding[i]):
        return None
    order = [*others, *spatial]
    x = g.transpose(g.whole(x), order)
    added = list(range(2 - len(others)))
    x = g.expand_dims(x, added)
    kind = x.dtype
    full = [1] * len(added) + [w.shape[i] for i in order]
    attributes = dict(
        kernel_shape=[w.sizes[i] for i in spatial],
        strides=[w.strides[i] for i in spatial],
        dilations=[w.dilations[i] for i in spatial],
        pads=[w.padding[i][side] for side in (0, 1) for i in spatial],
    )
    out = known(g.node("MaxPool", [x.name], **attributes), kind, tuple(full))
    # NaN is smaller than other numbers for some kernels, and they start with the least finite number,
    # which is left where all others are -inf: 2 marks NaN, 1 what is above -inf
    nan = g.cast(g.map("IsNaN", x, dtype=bool), kind)
    above = g.cast(g.map("Greater", x, g.splat(-np.inf, x), dtype=bool), kind)
    marks = g.map("Add", g.map("Add", nan, nan), above)
    mark = known(g.node("MaxPool", [marks.name], **attributes), kind, tuple(full))
    some, has_nan = (g.map("Greater", mark, g.splat(n, mark), dtype=bool) for n in (0, 1))
    out = g.where(some, out, g.splat(-np.inf, out))
    out = g.where(has_nan, g.splat(np.nan, out), out)
    out = g.squeeze(out, added)
    return g.transpose(out, [order.index(i) for i in range(len(order))])


def _unrolled(g: Graph, fold: Fold, x: Value, w: _Windows) -> Value:
    """Combines one strided slice of the padded array for each element of the window.

    One dimension after the other: a window is the product of its sides.
    """
    if math.prod(w.sizes) > _MAX_UNROLLED:
        raise Unsupported(f"windows of {math.prod(w.sizes)} elements, more than {_MAX_UNROLLED}")
    x = g.whole(x)
    low, high = zip(*w.padding) if w.padding else ((), ())
    grown: list[int | None] = []
    for n, a, b, o in zip(x.shape, low, high, w.base_dilations):
        grown.append(None if n is None else max(0, (n - 1) * o + 1) + a + b)
    x = pad(g, x, fold.init, low, high, [o - 1 for o in w.base_dilations], tuple(grown))
    for axis, (size, stride, step) in enumerate(zip(w.sizes, w.strides, w.dilations)):
        if size == 1 and stride == 1:
            continue
        total = None
        for k in range(size):
            part = window_slice(g, x, axis, k * step, stride, (size - 1) * step + 1)
            total = part if total is None else fold.function(total, part)
        x = total
    return x


def window_slice(g: Graph, x: Value, axis: int, start: int, stride: int, span: int) -> Value:
    """The elements that are first, second, ... in windows that span so many elements."""
    starts, strides = [0] * x.ndim, [1] * x.ndim
    limits: list[int | None] = [None] * x.ndim
    starts[axis], strides[axis] = start, stride
    size = x.shape[axis]
    if size is not None:
        count = max(0, (size - span) // stride + 1)
        limits[axis] = start + (count - 1) * stride + 1 if count else start
        shape = tuple(count if i == axis else n for i, n in enumerate(x.shape))
    else:
        rest = span - 1 - start
        limits[axis] = -rest if rest else None
        shape = x.shape
    return g.slice(x, starts, limits, strides, shape=shape)


def _dynamic_reduce_window(c: Any, op: Any, *operands: Value) -> Any:
    """Windows of a size that is not known, along one dimension, up to each element or from each on."""
    x, init, _, *steps, _ = operands
    known_steps = all(v.constant is not None and (v.constant == 1).all() for v in steps)
    window, padding = (
        [c.environment[p] for p in pieces(op.operands[i])] for i in (2, len(operands) - 1)
    )
    axes = [i for i, v in enumerate(window) if v.constant is None or v.constant.reshape(-1)[0] != 1]
    zero = [v.constant is not None and not v.constant.any() for v in padding]
    if (
        not known_steps
        or len(axes) != 1
        or len(window) != x.ndim
        or len(padding) != 2 * x.ndim
        or sum(not z for z in zero) != 1
    ):
        raise Unsupported(
            "windows of a size that is not known, other than those up to each element"
        )
    axis, side = divmod(zero.index(False), 2)
    if axis != axes[0]:
        raise Unsupported("windows along one dimension with padding along another")
    width = c.graph.cast(c.graph.reshape(window[axis], (1,)), np.int64)

    def reduce(fold: Fold) -> Value:
        if fold.monoid == "add" and x.dtype != BOOL:
            return _sums(c.graph, fold, x, axis, width, reverse=side == 1)
        return _doubled(c.graph, fold, x, axis, width, reverse=side == 1)

    name = ir.FlatSymbolRefAttr(ir.ArrayAttr(op.attributes["called_computations"])[0]).value
    return _folded(c, c.functions[name].regions[0], x.dtype, init, reduce)


def _sums(g: Graph, fold: Fold, x: Value, axis: int, width: Value, reverse: bool) -> Value:
    """Differences of cumulative sums: what is as far away as the window is wide is not in it."""
    total = _cumulative(g, fold, x, axis, reverse)
    return g.map("Sub", total, _moved(g, fold, total, axis, width, reverse))


def _moved(g: Graph, fold: Fold, x: Value, axis: int, by: Value, reverse: bool) -> Value:
    """Moves the elements along a dimension, towards its end unless `reverse`."""
    parts = [g.ints([0])] * (2 * x.ndim)
    parts[axis + x.ndim * reverse] = by.name
    shape = tuple(None if i == axis else n for i, n in enumerate(x.shape))
    grown = apply_pad(g, x, fold.init, g.join_sizes(parts), shape)
    far = g.ints([np.iinfo(np.int64).max])
    ends = (by.name, far) if reverse else (g.ints([0]), g.size(x, axis))
    return g.apply("Slice", grown, x.shape, *ends, g.ints([axis]))


def _doubled(g: Graph, fold: Fold, x: Value, axis: int, width: Value, reverse: bool) -> Value:
    """Combines windows of 1, 2, 4, ... elements, those of which the width is the sum."""
    if fold.init.constant is None:
        raise Unsupported("windows of a size that is not known, from a value that is not known")
    x = g.whole(x)
    total = g.splat(fold.init.constant.reshape(-1)[0], x)

    def joined(near: Value, far: Value, by: Value) -> Value:
        moved = _moved(g, fold, far, axis, by, reverse)
        return fold.function(near, moved) if reverse else fold.function(moved, near)

    def iteration(carried: list[Value]) -> tuple[Value, list[Value], list[Value]]:
        total, part, taken, size, rest = carried
        odd = g.map("Mod", rest, g.splat(2, rest))
        used = g.squeeze(g.cast(odd, bool), [0])
        total = select(g, used, joined(total, part, taken), total)
        taken = g.map("Add", taken, g.map("Mul", size, odd))
        part = joined(part, part, size)
        rest = g.map("Div", g.map("Sub", rest, odd), g.splat(2, rest))
        size = g.map("Min", g.map("Add", size, size), width)
        return positive(rest), [total, part, taken, size, rest], []

    def positive(rest: Value) -> Value:
        return g.squeeze(g.map("Greater", rest, g.splat(0, rest), dtype=bool), [0])

    one, zero = (g.constant(np.array([n], np.int64)) for n in (1, 0))
    initial = [total, x, zero, one, width]
    names = g.loop(positive(width), initial, [v.shape for v in initial], iteration)
    return known(names[0], x.dtype, x.shape)


RULES = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window,
}
