"""Lowering of parsed indices to lax operations: slices if possible, else gathers and scatters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.lax import lax, slicing
from jax._src.lax.slicing import bounds
from jax._src.numpy.indexing.parse import (
    GAP,
    NEW,
    Entry,
    Flag,
    Position,
    Positions,
    Slice,
)

# ---------------------------------------------------------------------------------------------------
# Integers, slices and new dimensions, as one slice


def take_slice(x: Any, entries: list[Entry]) -> Any:
    """Indexes `x` by positions, slices and new axes; out-of-bounds windows are moved inside."""
    shape = x.shape
    starts: list[Any] = []
    limits: list[Any] = []
    windows: list[Any] = []
    steps: list[int] = []
    reverse, drop, new = [], [], []
    out_dim = 0
    for e in entries:
        axis = len(starts)
        if type(e) is Slice:
            span = e.span
            if e.reverse:
                reverse.append(axis)
            starts.append(
                e.start if e.inside else _window_start(e.start, span, shape[axis], e.wrap)
            )
            limits.append(e.limit)
            windows.append(span)
            steps.append(e.step)
            out_dim += 1
        elif type(e) is Position:
            size = shape[axis]
            if type(size) is int and size == 0:
                raise empty_axis_error(axis)
            starts.append(_position_start(e.index, size, e.wrap))
            limits.append(None)
            windows.append(1)
            steps.append(1)
            drop.append(axis)
        elif e is NEW:
            new.append(out_dim)
            out_dim += 1
    x = _slice(x, starts, limits, windows, steps)
    if reverse:
        x = lax.rev(x, reverse)
    if drop:
        x = lax.squeeze(x, drop)
    return lax.expand_dims(x, new) if new else x


def empty_axis_error(axis: int) -> IndexError:
    return IndexError(f"index is out of bounds for axis {axis} with size 0")


def _window_start(start: Any, span: Any, size: Any, wrap: bool) -> Any:
    """Returns the start of a window of `span` positions; a static start is clamped into bounds."""
    if type(start) is not int:
        if core.is_symbolic_dim(start):
            return start
        start = as_index(start, _start_dtype([start], (size,)))
        return slicing.count_from_front(start, size) if wrap else start
    if start < 0 and wrap:
        start += size
    return 0 if type(start) is int and start < 0 else core.min_dim(start, size - span)


def _position_start(i: Any, size: Any, wrap: bool) -> Any:
    """Returns the start of a window of one position.

    A static one that is out of bounds is handed on like a traced one: `dynamic_slice` clamps it, and
    checks for indices out of bounds find it.
    """
    if type(i) is int and type(size) is int:
        i = i + size if i < 0 and wrap else i
        return i if 0 <= i < size else as_index(i, slicing.index_dtype((size,)))
    return _window_start(i, 1, size, wrap)


def _slice(x, starts, limits, windows, steps):
    """Slices windows out of `x`, keeping every `steps[i]`-th position.

    `limits` are those of static slices as written by the user, so that jaxprs show them; or None.
    """
    shape = x.shape
    strided = any(s != 1 for s in steps)
    if all(type(s) is int or core.is_symbolic_dim(s) for s in starts):
        if tuple(windows) == shape and not strided:
            return x
        ends = [a + n if b is None else b for a, n, b in zip(starts, windows, limits)]
        return slicing.slice_p.bind(
            x,
            start_indices=tuple(starts),
            limit_indices=tuple(ends),
            strides=tuple(steps) if strided else None,
        )
    dtype = _start_dtype([s for s in starts if type(s) is not int], shape)
    starts = [as_index(s, dtype) for s in starts]
    x = slicing.dynamic_slice(x, starts, windows, allow_negative_indices=False)
    if not strided:
        return x
    return slicing.slice_p.bind(
        x, start_indices=(0,) * len(shape), limit_indices=tuple(windows), strides=tuple(steps)
    )


# ---------------------------------------------------------------------------------------------------
# Index dtypes


def common_index_dtype(arrays: list[Any], shape) -> np.dtype:
    """Returns a common dtype for indices into an array: int32, unless some have 64 bits.

    Narrowing 64-bit indices would need a clamp to keep large ones out of bounds, so they are kept.
    Under `jax.debug.bounds()` uint32 indices, which otherwise wrap around, are kept too.
    """
    found = {core.typeof(a).dtype for a in arrays}
    wide = [d for d in found if dtypes.itemsize_bits(d) == 64]
    if not wide:
        if bounds.enabled.value and _UINT32 in found:  # errors give the numbers of the program
            return _UINT32 if len(found) == 1 else _INT64
        return slicing.index_dtype(shape)
    return wide[0] if len(found) == 1 else dtypes.canonicalize_dtype(np.dtype(np.int64))


def _start_dtype(starts: list[Any], shape) -> np.dtype:
    """Returns the dtype of the starts of windows: their own, if it is one that can count the positions."""
    found = {core.typeof(s).dtype for s in starts}
    if len(found) == 1 and all(type(d) is int for d in shape):
        (own,) = found
        if slicing.int_range(own)[1] >= max(shape):
            return own
    return common_index_dtype(starts, shape)


def as_index(i: Any, dtype: np.dtype) -> Any:
    """Converts static or traced indices to a common dtype; bad ones stay out of bounds."""
    if isinstance(i, (int, np.integer)):
        low, high = slicing.int_range(dtype)
        return np.array(min(max(int(i), low), high), dtype)[()]
    have = core.typeof(i).dtype
    if have == dtype:
        return i
    if isinstance(i, np.ndarray):
        (a, b), (c, d) = slicing.int_range(have), slicing.int_range(dtype)
        return np.clip(i, max(a, c), min(b, d)).astype(dtype)
    if dtypes.itemsize_bits(have) == 64:
        i = slicing.clamped(i, dtype)
    with bounds.keeping(dtype):
        return lax.convert_element_type(i, dtype)


# ---------------------------------------------------------------------------------------------------
# Index arrays, as gathers and scatters


class Plan(NamedTuple):
    """Describes how to index with entries of any kind by one gather or scatter.

    Attributes:
      indices: integer array of index vectors, of shape `(*batch, k)`.
      axes: the operand dimension for each of the `k` components.
      sizes: window size for each operand dimension.
      collapsed: operand dimensions that the result lacks; their window size is 1.
      offset_dims: dimensions of the gathered array that run over windows.
      shape: shape of the gathered array.
      reverse: dimensions of the gathered array to reverse.
      new: new dimensions of size 1 to add to it, as numbered in the result.
      unique: whether the kinds of the entries imply that no element is indexed twice.
      empty_axis: an axis of size 0 that is indexed by positions, all of which are out of bounds.
    """

    indices: Any
    axes: tuple[int, ...]
    sizes: tuple[Any, ...]
    collapsed: tuple[int, ...]
    offset_dims: tuple[int, ...]
    shape: tuple[Any, ...]
    reverse: list[int]
    new: list[int]
    unique: bool
    empty_axis: int | None

    @property
    def result_shape(self) -> tuple[Any, ...]:
        return with_new(self.shape, self.new)

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape


def with_new(shape: tuple[Any, ...], new: list[int]) -> tuple[Any, ...]:
    """Inserts dimensions of size 1 at the given positions, in increasing order, into a shape."""
    out = list(shape)
    for d in new:
        out.insert(d, 1)
    return tuple(out)


def make_plan(shape: tuple[Any, ...], entries: list[Entry]) -> Plan:
    """Makes the plan for entries of any kind.

    If there are index arrays, integers count as arrays of shape `()`, and all of them broadcast
    together. As in NumPy, their dimensions replace the indexed ones if those are adjacent; else
    they come first.
    """
    spread = _broadcast_shape(entries)
    layout = _Layout(shape)
    if spread is None:
        for axis, e in _with_axes(entries):
            if e is not GAP:
                layout.add(axis, e)
        return layout.plan(unique=all(type(e) is not Slice or e.step for e in entries))
    advanced = [i for i, e in enumerate(entries) if type(e) in (Positions, Position, Flag)]
    first = advanced[0] if advanced[-1] - advanced[0] + 1 == len(advanced) else 0
    together = [(axis, e) for axis, e in _with_axes(entries) if type(e) in (Positions, Position)]
    for i, (axis, e) in enumerate(_with_axes(entries)):
        if i == first:
            layout.add_together(together, spread)
        if e is NEW or type(e) is Slice:
            layout.add(axis, e)
    return layout.plan(unique=False)


def _with_axes(entries: list[Entry]) -> list[tuple[int, Entry]]:
    """Pairs each entry with the operand dimension that it indexes or precedes."""
    out, axis = [], 0
    for e in entries:
        out.append((axis, e))
        axis += type(e) in (Positions, Position, Slice)
    return out


def _broadcast_shape(entries: list[Entry]) -> tuple[Any, ...] | None:
    """Returns the broadcast shape of all index arrays, or None if there are none."""
    shapes: list[tuple[Any, ...]] = []
    n_arrays = 0
    for e in entries:
        if type(e) is Positions:
            shapes.append(np.shape(e.array))
        elif type(e) is Flag:
            shapes.append((int(e.value),))
        elif type(e) is Position:
            shapes.append(())
            continue
        else:
            continue
        n_arrays += 1
    if not n_arrays:
        return None
    return shapes[0] if len(shapes) == 1 else lax.broadcast_shapes(*shapes)


class _Layout:
    """Builds a plan by adding the dimensions of the result one after the other."""

    def __init__(self, shape: tuple[Any, ...]):
        self.shape = shape
        self.sizes = list(shape)
        # For each component of the index vectors: the operand dimension, the positions, and the
        # dimensions of `batch` that the positions have.
        self.components: list[tuple[int, Any, tuple[int, ...]]] = []
        self.batch: list[Any] = []
        self.out: list[Any] = []
        self.n_result = 0  # dimensions of the result so far, including `new`
        self.offset_dims: list[int] = []
        self.collapsed: list[int] = []
        self.reverse: list[int] = []
        self.new: list[int] = []
        self.empty_axis: int | None = None

    def add(self, axis: int, e: Entry) -> None:
        """Adds an entry that contributes at most one dimension to the result."""
        if type(e) is Position:
            self._collapse(axis)
            if self.empty_axis is not None:
                raise empty_axis_error(axis)
            self.components.append((axis, self._from_front(axis, e), ()))
            return
        if type(e) is Slice:
            if e.reverse:
                self.reverse.append(len(self.out))
            if e.step == 1:
                self._add_window(axis, e)
            else:
                self._add_strided(axis, e)
            self.out.append(e.size)
        else:
            self.new.append(self.n_result)
        self.n_result += 1

    def add_together(self, entries: list[tuple[int, Entry]], spread: tuple[Any, ...]) -> None:
        """Adds index arrays, which broadcast to the shape `spread`."""
        end = len(self.batch) + len(spread)
        for axis, e in entries:
            self._collapse(axis)
            positions = self._from_front(axis, e)
            self.components.append((axis, positions, tuple(range(end - np.ndim(positions), end))))
        self.batch += spread
        self.out += spread
        self.n_result += len(spread)

    def _from_front(self, axis: int, e: Any) -> Any:
        positions = e[0]
        return _count_from_front(positions, self.shape[axis]) if e.wrap else positions

    def _collapse(self, axis: int) -> None:
        size = self.shape[axis]
        if type(size) is int and size == 0 and self.empty_axis is None:
            self.empty_axis = axis
        self.sizes[axis] = 1
        self.collapsed.append(axis)

    def _add_window(self, axis: int, e: Slice) -> None:
        self.offset_dims.append(len(self.out))
        self.sizes[axis] = e.size
        if not (type(e.start) is int and e.start == 0):
            self.components.append((axis, e.start, ()))

    def _add_strided(self, axis: int, e: Slice) -> None:
        positions = lax.mul(np.int32(e.step), lax.iota(np.int32, e.size))
        start = np.int32(e.start) if type(e.start) is int else as_index(e.start, _INT32)
        self.components.append((axis, lax.add(start, positions), (len(self.batch),)))
        self.sizes[axis] = 1
        self.collapsed.append(axis)
        self.batch.append(e.size)

    def plan(self, unique: bool) -> Plan:
        return Plan(
            indices=self._indices(),
            axes=tuple([axis for axis, _, _ in self.components]),
            sizes=tuple(self.sizes),
            collapsed=tuple(sorted(self.collapsed)),
            offset_dims=tuple(self.offset_dims),
            shape=tuple(self.out),
            reverse=self.reverse,
            new=self.new,
            unique=unique,
            empty_axis=self.empty_axis,
        )

    def _indices(self) -> Any:
        if not self.components:
            return np.zeros((*self.batch, 0), np.int32)
        positions = [p for _, p, _ in self.components]
        dtype = common_index_dtype([p for p in positions if type(p) is not int], self.shape)
        positions = [as_index(p, dtype) for p in positions]
        with bounds.keeping(dtype):
            columns = [
                lax.broadcast_in_dim(p, (*self.batch, 1), dims)
                for p, (_, _, dims) in zip(positions, self.components)
            ]
        return columns[0] if len(columns) == 1 else lax.concatenate(columns, len(self.batch))


_INT32, _INT64, _UINT32 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint32)


def _count_from_front(positions, size):
    if isinstance(positions, np.ndarray) and type(size) is int:
        positions = np.clip(positions, *slicing.int_range(_INT32)).astype(np.int64)
        return np.where(positions < 0, positions + size, positions).astype(np.int32)
    return slicing.count_from_front(positions, size)
