"""Indexing by the operations of `lax`: slices where positions are few, gathers and scatters elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.lax import lax, slicing
from jax._src.numpy.indexing.parse import ARR, DYN, FLAG, GAP, INT, NEW, SLICE, Entry

# ---------------------------------------------------------------------------------------------------
# Integers, slices and new dimensions: one slice


def take_slice(x: Any, entries: list[Entry]) -> Any:
    """`x` at entries of kinds INT, DYN, SLICE and NEW. Positions out of bounds are clamped.

    A traced start of a slice is that of its lowest position, also where the step is negative.
    """
    shape = x.shape
    starts: list[Any] = []
    sizes: list[Any] = []
    strides: list[int] = []
    reverse, drop, new = [], [], []
    out_dim = 0
    for e in entries:
        kind, axis = e[0], len(starts)
        if kind == GAP:
            continue
        if kind == NEW:
            new.append(out_dim)
            out_dim += 1
            continue
        if kind == SLICE:
            _, start, size, step = e
            if step < 0:
                reverse.append(axis)
                start, step = start + (size - 1) * step if type(start) is int else start, -step
            window = size if step == 1 else core.max_dim(0, (size - 1) * step + 1)
            starts.append(0 if type(window) is int and window == 0 else start)
            sizes.append(window)
            strides.append(step)
            out_dim += 1
            continue
        bound = shape[axis]
        if type(bound) is int and bound == 0:
            raise empty_axis_error(axis)
        if kind == INT:
            i = e[1]
            starts.append(0 if i < 0 else core.min_dim(i, bound - 1))
        else:
            starts.append(slicing.count_from_front(e[1], bound) if e[2] else e[1])
        sizes.append(1)
        strides.append(1)
        drop.append(axis)
    x = _slice(x, starts, sizes, strides)
    if reverse:
        x = lax.rev(x, reverse)
    if drop:
        x = lax.squeeze(x, drop)
    return lax.expand_dims(x, new) if new else x


def empty_axis_error(axis: int) -> IndexError:
    return IndexError(f"index is out of bounds for axis {axis} with size 0")


def _slice(x, starts, sizes, strides):
    shape = x.shape
    strided = any(s != 1 for s in strides)
    if all(type(s) is int or core.is_symbolic_dim(s) for s in starts):
        if tuple(sizes) == shape and not strided:
            return x
        return slicing.slice_p.bind(
            x,
            start_indices=tuple(starts),
            limit_indices=tuple([a + n for a, n in zip(starts, sizes)]),
            strides=tuple(strides) if strided else None,
        )
    dtype = common_index_dtype([s for s in starts if type(s) is not int], shape)
    starts = [as_index(s, dtype) for s in starts]
    x = slicing.dynamic_slice(x, starts, sizes, allow_negative_indices=False)
    if not strided:
        return x
    return slicing.slice_p.bind(
        x, start_indices=(0,) * len(shape), limit_indices=tuple(sizes), strides=tuple(strides)
    )


# ---------------------------------------------------------------------------------------------------
# Dtypes of positions

_INT32 = np.dtype(np.int32)


def common_index_dtype(arrays: list[Any], shape) -> np.dtype:
    """A dtype for all positions in an array of that shape: their own if they agree and it is wide enough."""
    found = {core.typeof(a).dtype for a in arrays}
    if len(found) == 1:
        (dtype,) = found
        largest = max([d for d in shape if type(d) is int], default=0)
        if dtype.kind in "iu" and largest - 1 <= slicing.int_range(dtype)[1]:
            return dtype
    if any(dtypes.itemsize_bits(d) == 64 for d in found):
        return dtypes.canonicalize_dtype(np.dtype(np.int64))
    return slicing.index_dtype(shape)


def as_index(i: Any, dtype: np.dtype) -> Any:
    """Static or traced positions in another dtype; those that it cannot hold stay out of bounds."""
    if isinstance(i, (int, np.integer)):
        low, high = slicing.int_range(dtype)
        return np.array(min(max(int(i), low), high), dtype)[()]
    have = core.typeof(i).dtype
    if have == dtype:
        return i
    (a, b), (c, d) = slicing.int_range(have), slicing.int_range(dtype)
    low, high = max(a, c), min(b, d)
    if isinstance(i, np.ndarray):
        return np.clip(i, low, high).astype(dtype)
    if low > a or high < b:
        i = lax.clamp(np.array(low, have)[()], i, np.array(high, have)[()])
    return lax.convert_element_type(i, dtype)


# ---------------------------------------------------------------------------------------------------
# Arrays of positions: gathers and scatters


class Plan:
    """How entries of any kind become one gather or scatter.

    Attributes:
      indices: integer array of index vectors, shape `(*batch, k)`.
      axes: for each of the `k` components the dimension of the operand.
      sizes: size of the window in each dimension of the operand.
      collapsed: dimensions of the operand that the result lacks; their window size is 1.
      offset_dims: dimensions of the gathered array that run over windows.
      shape: shape of the gathered array.
      reverse: its dimensions to be reversed.
      new: dimensions of the result that are new, with size 1.
      unique: whether no element is indexed twice, known from the kinds of the entries.
      empty_axis: an axis of size 0 of which positions are asked for, so that none is in bounds.
    """

    __slots__ = (
        "indices",
        "axes",
        "sizes",
        "collapsed",
        "offset_dims",
        "shape",
        "reverse",
        "new",
        "unique",
        "empty_axis",
    )

    @property
    def result_shape(self) -> tuple[Any, ...]:
        shape = list(self.shape)
        for d in self.new:
            shape.insert(d, 1)
        return tuple(shape)

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape


def make_plan(shape: tuple[Any, ...], entries: list[Entry]) -> Plan:
    """The plan for entries of any kind; the operand has at least one dimension.

    Where arrays are among the entries, integers count as arrays of shape `()`. All of them are broadcast
    together; their dimensions stand where the first array stood if nothing came between them, or else first.
    """
    has_arrays = any(e[0] in (ARR, FLAG) for e in entries)
    advanced = (ARR, FLAG, INT, DYN) if has_arrays else ()
    places = [i for i, e in enumerate(entries) if e[0] in advanced]
    together = not places or places[-1] - places[0] + 1 == len(places)
    spread = _broadcast_shape(entries) if has_arrays else ()

    # The result, dimension by dimension: NEW, (SLICE, axis, start, size, step) or ARR for all arrays.
    layout: list[Any] = []
    parts: list[
        tuple[int, Any, Any]
    ] = []  # axis, positions, dimension of the layout or ARR or None
    window_starts: list[tuple[int, Any]] = []
    at = None
    axis = 0
    plan = Plan()
    plan.empty_axis = None
    for e in entries:
        kind = e[0]
        if kind == GAP:
            continue
        if kind == NEW:
            layout.append((NEW,))
            continue
        if kind == SLICE:
            layout.append((SLICE, axis, *e[1:]))
        else:
            if has_arrays and at is None:
                at = len(layout)
            if kind != FLAG:
                if type(shape[axis]) is int and shape[axis] == 0 and plan.empty_axis is None:
                    plan.empty_axis = axis
                positions = e[1]
                if kind != INT and e[2]:
                    positions = _count_from_front(positions, shape[axis])
                parts.append((axis, positions, ARR if has_arrays else None))
        axis += kind != FLAG
    if has_arrays:
        layout.insert(at if together else 0, (ARR,))

    batch: list[Any] = []  # sizes of the batch dimensions
    out, offset_dims, reverse, new = [], [], [], []
    sizes = list(shape)
    collapsed = [a for a, _, _ in parts]
    arrays_at = 0
    final_dim = 0
    for item in layout:
        kind = item[0]
        if kind == NEW:
            new.append(final_dim)
            final_dim += 1
        elif kind == ARR:
            arrays_at = len(batch)
            batch += spread
            out += spread
            final_dim += len(spread)
        else:
            _, a, start, size, step = item
            if step < 0:
                reverse.append(len(out))
                start, step = start + (size - 1) * step if type(start) is int else start, -step
            if step == 1:
                offset_dims.append(len(out))
                sizes[a] = size
                if not (type(start) is int and start == 0):
                    window_starts.append((a, start))
            else:
                positions = lax.iota(np.int32, size)
                if step != 1:
                    positions = lax.mul(np.int32(step), positions)
                positions = lax.add(_as_scalar(start), positions)
                parts.append((a, positions, len(batch)))
                collapsed.append(a)
                batch.append(size)
            out.append(size)
            final_dim += 1
    parts += [(a, start, None) for a, start in window_starts]
    parts.sort(key=lambda p: p[0])
    for a in collapsed:
        sizes[a] = 1
    if not parts:  # a gather needs something to index
        parts.append((0, 0, None))
    dtype = common_index_dtype([p for _, p, _ in parts if not isinstance(p, int)], shape)
    index_shape = (*batch, 1)
    columns = []
    for _, positions, where in parts:
        positions = as_index(positions, dtype)
        ndim = np.ndim(positions)
        if where is ARR:
            end = arrays_at + len(spread)
            dims = range(end - ndim, end)
        else:
            dims = () if where is None or ndim == 0 else (where,)
        columns.append(lax.broadcast_in_dim(positions, index_shape, dims))
    plan.indices = columns[0] if len(columns) == 1 else lax.concatenate(columns, len(batch))
    plan.axes = tuple([a for a, _, _ in parts])
    plan.sizes = tuple(sizes)
    plan.collapsed = tuple(sorted(collapsed))
    plan.offset_dims = tuple(offset_dims)
    plan.shape = tuple(out)
    plan.reverse = reverse
    plan.new = new
    plan.unique = not has_arrays
    return plan


def _as_scalar(start):
    return np.int32(start) if type(start) is int else start


def _broadcast_shape(entries) -> tuple[Any, ...]:
    shapes = [np.shape(e[1]) for e in entries if e[0] == ARR]
    shapes += [(int(e[1]),) for e in entries if e[0] == FLAG]
    if len(shapes) == 1:
        return shapes[0]
    return lax.broadcast_shapes(*shapes)


def _count_from_front(positions, size):
    if isinstance(positions, np.ndarray) and type(size) is int:
        positions = np.clip(positions, *slicing.int_range(_INT32)).astype(np.int64)
        return np.where(positions < 0, positions + size, positions).astype(np.int32)
    return slicing.count_from_front(positions, size)
