"""Rules of slices at positions that are known only when a model runs, of gather and of scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx import bodies
from jax._src.export.onnx.attributes import attribute, ints, result_shape
from jax._src.export.onnx.graph import BOOL, INT64, Graph, Shape, Unsupported, Value, known
from jax._src.export.onnx.reductions import EXTREMUM_OF_BOOLS, combine
from jax._src.export.onnx.shapes import apply_pad, as_sizes, concatenate
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo


def _starts(
    g: Graph, x: Value, starts: Sequence[Value], sizes: Sequence[int | str]
) -> list[str | int]:
    """Starts of slices, moved so that each slice is inside of the array."""
    result: list[str | int] = []
    for axis, (start, size) in enumerate(zip(starts, sizes)):
        total = x.shape[axis]
        if total is not None and size == total:
            result.append(0)
            continue
        if start.constant is not None and total is not None and isinstance(size, int):
            result.append(int(np.clip(int(start.constant), 0, total - size)))
            continue
        vector = g.reshape(g.cast(start, np.int64), (1,)).name
        lengths = [g.ints([n]) if isinstance(n, int) else n for n in (_size(g, x, axis), size)]
        last = g.node("Sub", lengths)
        if isinstance(size, int) and total is not None:
            last = g.ints([total - size])
        result.append(g.node("Min", [g.node("Max", [vector, g.ints([0])]), last]))
    return result


def _size(g: Graph, x: Value, axis: int) -> int | str:
    size = x.shape[axis]
    return g.size(x, axis) if size is None else size


def _dynamic_slice(c: Any, op: Any, x: Value, *starts: Value) -> Value:
    sizes = ints(op, "slice_sizes")
    return _sliced(c.graph, x, starts, sizes, result_shape(op))


def _sliced(
    g: Graph, x: Value, starts: Sequence[Value], sizes: Sequence[int | str], shape: Shape
) -> Value:
    x = g.whole(x)
    first = _starts(g, x, starts, sizes)
    axes = [i for i, n in enumerate(sizes) if x.shape[i] is None or n != x.shape[i]]
    if not axes:
        return x
    if len(axes) == 1 and sizes[axes[0]] == 1 and not isinstance(first[axes[0]], int):
        return g.apply("Gather", x, shape, first[axes[0]], axis=axes[0])
    begin = g.join_sizes([first[i] for i in axes])
    ends = g.node("Add", [begin, g.join_sizes([sizes[i] for i in axes])])
    return g.apply("Slice", x, shape, begin, ends, g.ints(axes))


def _dynamic_update_slice(c: Any, op: Any, x: Value, update: Value, *starts: Value) -> Value:
    g = c.graph
    x, update = g.whole(x), g.whole(update)
    sizes = [_size(g, update, i) for i in range(x.ndim)]
    first = _starts(g, x, starts, sizes)
    axes = [i for i in range(x.ndim) if update.shape[i] is None or update.shape[i] != x.shape[i]]
    return _updated(g, x, update, first, sizes, axes)


def _updated(
    g: Graph,
    x: Value,
    update: Value,
    first: list[str | int],
    sizes: list[int | str],
    axes: list[int],
) -> Value:
    """What is before, the update, and what is after, along one dimension after the other."""
    if not axes:
        return update
    axis, *rest = axes
    begin = g.join_sizes([first[axis]])
    end = g.node("Add", [begin, g.join_sizes([sizes[axis]])])
    along = g.ints([axis])
    unknown = tuple(None if i == axis else n for i, n in enumerate(x.shape))
    before = g.apply("Slice", x, unknown, g.ints([0]), begin, along)
    after = g.apply("Slice", x, unknown, end, g.ints([np.iinfo(np.int64).max]), along)
    if rest:
        band_shape = tuple(update.shape[i] if i == axis else n for i, n in enumerate(x.shape))
        band = g.apply("Slice", x, band_shape, begin, end, along)
        update = _updated(g, band, update, first, sizes, rest)
    return concatenate(g, (before, update, after), axis, x.shape)


# Gather


class _Numbers:
    """The dimension numbers of a gather or scatter, by the names of gather."""

    def __init__(
        self, offset: Any, collapsed: Any, batch: Any, indices_batch: Any, index_map: Any, axis: int
    ):
        self.offset = list(offset)
        self.collapsed = list(collapsed)
        self.batch = list(batch)
        self.indices_batch = list(indices_batch)
        self.index_map = list(index_map)
        self.axis = axis


def _gather(c: Any, op: Any, x: Value, indices: Value) -> Value:
    sizes = [int(n) for n in ints(op, "slice_sizes")]
    return _gathered(c.graph, op, x, indices, sizes)


def _dynamic_gather(c: Any, op: Any, x: Value, indices: Value, sizes: Value) -> Value:
    g = c.graph
    if sizes.constant is not None:
        lengths: list[int | str] = np.broadcast_to(sizes.constant, sizes.shape).tolist()
    else:
        vector = as_sizes(g, sizes)
        lengths = [g.node("Gather", [vector, g.ints([i])], axis=0) for i in range(x.ndim)]
        numbers = _gather_numbers(op)
        shape = result_shape(op)
        kept = [i for i in range(x.ndim) if i not in (*numbers.collapsed, *numbers.batch)]
        for i in (*numbers.collapsed, *numbers.batch):
            lengths[i] = 1
        for i, out in zip(kept, numbers.offset):
            if shape[out] is not None:
                lengths[i] = shape[out]
    return _gathered(g, op, x, indices, lengths)


def _gather_numbers(op: Any) -> _Numbers:
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    return _Numbers(
        d.offset_dims, d.collapsed_slice_dims, d.operand_batching_dims,
        d.start_indices_batching_dims, d.start_index_map, d.index_vector_dim,
    )  # fmt: skip


def _gathered(g: Graph, op: Any, x: Value, indices: Value, sizes: Sequence[int | str]) -> Value:
    """Index dimensions first: batch dimensions, those with starts, then ONNX's GatherND."""
    numbers, shape = _gather_numbers(op), result_shape(op)
    x = g.whole(x)
    windows = [i for i in range(x.ndim) if i not in (*numbers.collapsed, *numbers.batch)]
    partial = [
        i
        for i in windows
        if not (_same_size(x, i, sizes[i]) or i not in numbers.index_map and sizes[i] is None)
    ]
    for i in list(partial):
        if i not in numbers.index_map and isinstance(sizes[i], int):  # the slice starts at 0
            x = g.slice_in_dim(x, i, 0, sizes[i])
            partial.remove(i)
        elif not isinstance(sizes[i], int):
            raise Unsupported("slices of a size that is not known, at positions that are not known")
    parts, batch_shape, batch_sizes = _index_parts(g, x, indices, numbers, sizes)
    single = len(numbers.index_map) == 1 and not numbers.batch and not partial
    if single and numbers.collapsed == numbers.index_map:
        result = _take(g, x, parts[numbers.index_map[0]], numbers.index_map[0], batch_shape)
        rest = [i for i in windows if i != numbers.index_map[0]]
        leading = numbers.index_map[0]
        order = [*range(leading, leading + len(batch_shape)), *range(leading)]
        order += range(leading + len(batch_shape), result.ndim)
        result = g.transpose(result, order)
        return _laid_out(g, result, len(batch_shape), rest, windows, numbers, shape)
    # a window of k elements: an axis of k indices behind the batch
    axes = [i for i in range(x.ndim) if i in parts and (i in partial or i not in windows)]
    grid = [i for i in axes if i in partial]
    index = _index_array(g, parts, axes, grid, sizes, batch_shape, batch_sizes)
    rest = [i for i in range(x.ndim) if i not in axes]
    x = g.transpose(x, [*axes, *rest])
    full = (
        *batch_shape,
        *[sizes[i] for i in grid],
        *[x.shape[len(axes) + k] for k in range(len(rest))],
    )
    result = (
        g.apply("GatherND", x, full, index)
        if axes
        else _repeated(g, x, batch_shape, batch_sizes, full)
    )
    return _laid_out(g, result, len(batch_shape), [*grid, *rest], windows, numbers, shape)


def _same_size(x: Value, axis: int, size: int | str) -> bool:
    if isinstance(size, int):
        return x.shape[axis] == size
    return x.shape[axis] is None  # jax takes all of a dimension whose size is not known


def _repeated(
    g: Graph, x: Value, batch_shape: Shape, batch_sizes: str | None, full: Shape
) -> Value:
    """The whole array, for each index."""
    x = g.expand_dims(x, range(len(batch_shape)))
    inner = g.node("Slice", [g.sizes_of(x), g.ints([len(batch_shape)]), g.ints([x.ndim])])
    outer = batch_sizes or g.ints(batch_shape)
    return g.apply("Expand", x, full, g.node("Concat", [outer, inner], axis=0))


def _take(g: Graph, x: Value, index: Value, axis: int, batch_shape: Shape) -> Value:
    """ONNX's Gather along one dimension."""
    shape = (*x.shape[:axis], *batch_shape, *x.shape[axis + 1 :])
    return g.apply("Gather", x, shape, g.whole(index).name, axis=axis)


def _laid_out(
    g: Graph,
    result: Value,
    num_batch: int,
    present: list[int],
    windows: list[int],
    numbers: _Numbers,
    shape: Shape,
) -> Value:
    """From batch dimensions and the present window dimensions to the layout of the result."""
    missing = [i for i in windows if i not in present]  # windows of size 1
    for i in missing:
        result = g.expand_dims(result, [result.ndim])
        present = [*present, i]
    batch_at = [d for d in range(len(shape)) if d not in set(numbers.offset)]
    where = {d: k for k, d in enumerate(batch_at)}
    for i, d in zip(windows, numbers.offset):
        where[d] = num_batch + present.index(i)
    return g.transpose(result, [where[d] for d in range(len(shape))])


def _index_parts(
    g: Graph, x: Value, indices: Value, numbers: _Numbers, sizes: Sequence[int | str] | None
) -> tuple[dict[int, Value], Shape, str | None]:
    """An array of starts for each indexed dimension, and the shape of these arrays.

    With `sizes`, starts are moved so that slices are inside of the array.
    """
    indices = g.cast(indices, np.int64)
    axis = numbers.axis
    if axis == indices.ndim:
        indices = g.expand_dims(indices, [axis])
    indices = g.whole(indices)
    batch_shape = tuple(n for i, n in enumerate(indices.shape) if i != axis)
    parts: dict[int, Value] = {}
    for k, dim in enumerate(numbers.index_map):
        part = g.squeeze(g.slice_in_dim(indices, axis, k, k + 1), [axis])
        if sizes is not None:
            part = _clipped(g, x, part, dim, sizes[dim])
        parts[dim] = part
    batch_sizes = None
    if None in batch_shape:
        some = next(iter(parts.values()), None)
        if some is None:
            raise Unsupported("a gather without indices, of a size that is not known")
        batch_sizes = g.sizes_of(some)
    for dim, place in zip(numbers.batch, numbers.indices_batch):
        place -= place > axis
        size = x.shape[dim]
        vector = g.iota(g.size(x, dim) if size is None else size)
        iota = known(vector, INT64, (size,))
        after = len(batch_shape) - place - 1
        parts[dim] = g.expand_dims(iota, [*range(place), *range(place + 1, place + 1 + after)])
    return parts, batch_shape, batch_sizes


def _clipped(g: Graph, x: Value, start: Value, axis: int, size: int | str) -> Value:
    last = _last_start(g, x, axis, size)
    if start.constant is not None and last.constant is not None:
        return g.constant(np.clip(start.constant, 0, last.constant))
    return g.map("Min", g.map("Max", start, g.constant(np.array(0, np.int64))), last)


def _last_start(g: Graph, x: Value, axis: int, size: int | str) -> Value:
    """The last position along a dimension where a slice is inside of the array."""
    total = x.shape[axis]
    if total is not None and isinstance(size, int):
        return g.constant(np.array(total - size, np.int64))
    lengths = [g.ints([n]) if isinstance(n, int) else n for n in (_size(g, x, axis), size)]
    return known(g.node("Squeeze", [g.node("Sub", lengths), g.ints([0])]), INT64, ())


def _index_array(
    g: Graph,
    parts: dict[int, Value],
    axes: Sequence[int],
    grid: Sequence[int],
    sizes: Sequence[int | str],
    batch_shape: Shape,
    batch_sizes: str | None,
) -> str:
    """The index vectors of GatherND and ScatterND: batch dimensions, those of `grid`, the vector."""
    rank = len(batch_shape) + len(grid)
    columns = []
    for axis in axes:
        part = g.whole(parts[axis])
        part = g.expand_dims(part, range(len(batch_shape), rank))
        name = part.name
        if axis in grid:
            offsets = np.arange(sizes[axis])
            place = rank - len(grid) + list(grid).index(axis)
            offsets = offsets.reshape([-1 if i == place else 1 for i in range(rank)])
            name = g.node("Add", [name, g.initializer(offsets.astype(np.int64))])
        columns.append(name)
    inner = g.ints([sizes[i] for i in grid])
    if batch_sizes is None:
        target = g.ints([*batch_shape, *[sizes[i] for i in grid]])
    else:
        target = g.node("Concat", [batch_sizes, inner], axis=0) if grid else batch_sizes
    last = g.ints([rank])
    columns = [g.node("Unsqueeze", [g.node("Expand", [n, target]), last]) for n in columns]
    return columns[0] if len(columns) == 1 else g.node("Concat", columns, axis=rank)


# Scatter

_SCATTERS = {"add": "add", "mul": "mul", "max": "max", "min": "min", "second": "none"}


def _scatter(c: Any, op: Any, x: Value, indices: Value, updates: Value) -> Value:
    """ScatterND into an array with one more row, which takes the updates that are out of bounds."""
    g = c.graph
    monoid = bodies.monoid(op.regions[0])
    if monoid == "first":
        return x
    if monoid is None or monoid not in (*_SCATTERS, "and", "or"):
        raise Unsupported("a scatter by a function other than sum, product, extremum or assignment")
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    numbers = _Numbers(
        d.update_window_dims, d.inserted_window_dims, d.input_batching_dims,
        d.scatter_indices_batching_dims, d.scattered_dims_to_operand_dims, d.index_vector_dim,
    )  # fmt: skip
    x, updates = g.whole(x), g.whole(updates)
    windows = [i for i in range(x.ndim) if i not in (*numbers.collapsed, *numbers.batch)]
    sizes: list[Any] = [1] * x.ndim
    for i, place in zip(windows, numbers.offset):
        sizes[i] = updates.shape[place]
    partial = []
    for i in windows:
        if sizes[i] is None and x.shape[i] is None and i not in numbers.index_map:
            continue
        if sizes[i] is None:
            raise Unsupported("a scatter of windows of a size that is not known")
        if sizes[i] != x.shape[i]:
            partial.append(i)
    parts, batch_shape, batch_sizes = _index_parts(g, x, indices, numbers, None)
    for i in partial:
        if i not in parts:
            parts[i] = known(
                g.initializer(np.zeros([1] * len(batch_shape), np.int64)),
                INT64,
                (1,) * len(batch_shape),
            )
    inside = _inside(g, x, parts, numbers, sizes)
    axes = [i for i in range(x.ndim) if i in parts and (i in partial or i not in windows)]
    if not axes:
        if not parts:
            return _assigned(g, monoid, x, updates)
        axes = [numbers.index_map[0]]  # a window over all of it: at 0, or nowhere
        partial.append(axes[0])
    grid = [i for i in axes if i in partial]
    for i in axes:
        parts[i] = g.whole(parts[i])
    first = axes[0]
    if inside is not None:
        # windows are moved as a whole, behind the array
        for i in axes:
            nowhere = _last_start(g, x, i, 0) if i == first else g.constant(np.array(0, np.int64))
            parts[i] = g.where(inside, parts[i], nowhere)
    index = _index_array(g, parts, axes, grid, sizes, batch_shape, batch_sizes)
    rest = [i for i in range(x.ndim) if i not in axes]
    order = [d for d in range(updates.ndim) if d not in set(numbers.offset)]
    place = dict(zip(windows, numbers.offset))
    order += [place[i] for i in [*grid, *rest]]
    dropped = [place[i] for i in windows if i in axes and i not in grid]
    updates = g.squeeze(g.transpose(updates, [*order, *dropped]), range(len(order), updates.ndim))
    target = g.transpose(x, [*axes, *rest])
    extra = sizes[first] if first in grid else 1
    target = _grown(g, target, extra) if inside is not None else target
    unique = attribute(op, "unique_indices")
    duplicates = monoid != "second" and not (unique is not None and ir.BoolAttr(unique).value)
    num_axes = len(axes) if duplicates else None
    result = _scattered(g, monoid, target, index, updates, num_axes)
    if inside is not None:
        result = g.slice(
            result, [0] * x.ndim, [-extra] + [None] * (x.ndim - 1),
            shape=tuple(x.shape[i] for i in [*axes, *rest]),
        )  # fmt: skip
    back = [*axes, *rest]
    return g.transpose(result, [back.index(i) for i in range(x.ndim)])


def _assigned(g: Graph, monoid: str, x: Value, updates: Value) -> Value:
    return updates if monoid == "second" else combine(g, monoid, x, updates)


def _inside(
    g: Graph, x: Value, parts: dict[int, Value], numbers: _Numbers, sizes: Sequence[Any]
) -> Value | None:
    """Which windows are inside of the array; None if all are."""
    inside = None
    for dim in numbers.index_map:
        part = parts[dim]
        size, total = sizes[dim], x.shape[dim]
        if part.constant is not None and total is not None:
            if ((part.constant >= 0) & (part.constant <= total - size)).all():
                continue
        zero = g.constant(np.array(0, np.int64))
        last = _last_start(g, x, dim, size)
        for condition in (
            g.map("GreaterOrEqual", part, zero, dtype=bool),
            g.map("LessOrEqual", part, last, dtype=bool),
        ):
            inside = condition if inside is None else g.map("And", inside, condition)
    return inside


def _grown(g: Graph, x: Value, count: int) -> Value:
    """The array with more rows at its end."""
    amounts = [0] * (2 * x.ndim)
    amounts[x.ndim] = count
    shape = (None if x.shape[0] is None else x.shape[0] + count, *x.shape[1:])
    return apply_pad(g, x, g.constant(np.zeros((), x.dtype)), g.ints(amounts), shape)


def _scattered(
    g: Graph, monoid: str, x: Value, index: str, updates: Value, num_axes: int | None
) -> Value:
    """ScatterND; or, where indices may be equal, ScatterElements along all indexed dimensions.

    Kernels of ScatterND combine in parallel what has the same index, and lose some of it.
    """
    dtype = x.dtype
    if dtype == BOOL and monoid != "second":
        monoid = EXTREMUM_OF_BOOLS.get(monoid, monoid)
        x, updates = g.cast(x, np.int32), g.cast(updates, np.int32)
    if monoid in ("and", "or"):
        raise Unsupported(f"a scatter of {dtype.name} by bitwise {monoid}")
    if monoid != "second" and x.dtype.name not in ("float32", "float64", "int32", "int64"):
        if x.dtype == np.uint64 and monoid in ("max", "min"):
            raise Unsupported("a scatter of uint64 by extrema")
        kind = np.dtype(np.int64 if x.dtype.kind in "iu" else np.float32)
    else:
        kind = g.kernel_dtype("ScatterND", x.dtype)
    names = [g.cast_name(v.name, v.dtype, kind) for v in (x, updates)]
    if num_axes is None:
        name = g.node("ScatterND", [names[0], index, names[1]], reduction=_SCATTERS[monoid])
        return g.cast(known(name, kind, x.shape), dtype)
    linear = _linear_index(g, x, index, num_axes)
    first = updates.ndim - (x.ndim - num_axes)
    rest = g.product(x, range(num_axes, x.ndim))
    flat = []
    for name, value, count in ((names[0], x, num_axes), (names[1], updates, first)):
        sizes = g.join_sizes([g.product(value, range(count)), rest])
        flat.append(g.node("Reshape", [name, sizes], allowzero=1))
    column = g.node("Reshape", [linear, g.ints([-1, 1])])
    indices = g.node("Expand", [column, g.node("Shape", [flat[1]])])
    reduction = _SCATTERS[monoid]
    name = g.node("ScatterElements", [flat[0], indices, flat[1]], axis=0, reduction=reduction)
    name = g.node("Reshape", [name, g.sizes_of(x)], allowzero=1)
    return g.cast(known(name, kind, x.shape), dtype)


def _linear_index(g: Graph, x: Value, index: str, num_axes: int) -> str:
    """Index vectors as positions in the first dimensions, taken as one."""
    linear = None
    for i in range(num_axes):
        column = g.node("Gather", [index, g.ints([i])], axis=-1)
        if linear is None:
            linear = column
        else:
            linear = g.node("Add", [g.node("Mul", [linear, g.size(x, i)]), column])
    assert linear is not None
    return linear


RULES = {
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
