"""Parsing of indices: from what is written between brackets to one entry per dimension.

The entries are named tuples of different lengths: tuples compare by value alone, whatever their
class, and entries are part of the keys of compiled programs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import config, core, dtypes, indexing
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.errors import NonConcreteBooleanIndexError
from jax._src.lax import lax


class Flag(NamedTuple):
    """A 0-dimensional mask, which adds a dimension of size 0 or 1."""

    value: bool


class Positions(NamedTuple):
    """An array of positions along a dimension.

    Attributes:
      array: integers, static or traced.
      wrap: whether the positions may be negative, and then count from the end.
    """

    array: Any
    wrap: bool


class Position(NamedTuple):
    """A single position along a dimension, which is dropped from the result.

    Attributes:
      index: a Python integer, already counted from the front, or a traced scalar.
      wrap: whether a traced index may be negative, and then counts from the end.
      inside: whether the index is known to be in bounds.
    """

    index: Any
    wrap: bool = False
    inside: bool = False


class Slice(NamedTuple):
    """The positions `start`, `start + step`, ... along a dimension.

    Attributes:
      start: the lowest position: a Python integer or a traced scalar.
      size: number of positions.
      step: distance between positions, not negative.
      limit: the end of a static slice as written by the user; it only matters for printed jaxprs.
      reverse: whether the result has the positions in descending order.
      inside: whether all positions are known to be in bounds.
      wrap: if the start is not known to be in bounds, whether it may be negative and then counts
        from the end, provided that the result is one window of the array.
    """

    start: Any
    size: Any
    step: Any = 1
    limit: Any = None
    reverse: bool = False
    inside: bool = True
    wrap: bool = False

    @property
    def span(self) -> Any:
        """The number of positions from the lowest to the highest, both included."""
        return self.size if self.step == 1 else core.max_dim(0, (self.size - 1) * self.step + 1)


class NewAxis:
    """A new dimension of size 1."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NEW"


class Gap:
    """Marks where the ellipsis was; the slices that it stands for follow."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "GAP"


NEW, GAP = NewAxis(), Gap()
Entry = Flag | Positions | Position | Slice | NewAxis | Gap


def parse_index(idx: Any, shape: tuple[int, ...], wrap: bool = True) -> list[Entry]:
    """Parses `idx` for an array of the given shape; the entries together cover every dimension.

    Args:
      idx: the index, as written between brackets.
      shape: shape of the array.
      wrap: whether negative integers count from the end.

    Raises:
      IndexError: if there are too many indices, a mask has the wrong shape, or an object is not an
        index.
      TypeError: if an index has the wrong dtype, or `idx` is a list.
      NonConcreteBooleanIndexError: if a mask is traced.
    """
    items = idx if isinstance(idx, tuple) else (idx,)
    if items and items[0] is idx:
        _refuse_sequence(idx)
    elements = [_element(e, position) for position, e in enumerate(items)]
    rest = len(shape) - _count_dimensions(elements)
    if rest < 0:
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {len(shape) - rest} were indexed"
        )
    entries: list[Entry] = []
    axis = 0
    for position, e in enumerate(elements):
        t = type(e)
        if t is int:
            size = shape[axis]
            i = e + size if e < 0 and wrap else e
            entries.append(_static_position(i))
            axis += 1
        elif t is slice:
            entries.append(_sized_slice(e, shape[axis]))
            axis += 1
        elif e is GAP:
            entries.append(e)
            entries += [whole(n) for n in shape[axis : axis + rest]]
            axis += rest
        elif e is NEW or t is Flag:
            entries.append(e)
        elif t is _Mask:
            positions = e.positions(shape[axis : axis + e.array.ndim], position)
            entries += positions
            axis += len(positions)
        elif t is indexing.Slice:
            entries.append(_sized_window(e, shape[axis], wrap))
            axis += 1
        else:
            kind = Positions if e.ndim else Position
            entries.append(kind(e, wrap and _may_be_negative(e)))
            axis += 1
    if axis < len(shape):
        entries += [whole(n) for n in shape[axis:]]
    return entries


# Most indices use few distinct entries, and a cache lookup is faster than making a named tuple.
@functools.lru_cache(maxsize=4096)
def whole(size: Any) -> Slice:
    """Returns the entry for all positions along a dimension of the given size."""
    return Slice(0, size, 1, size)


_static_position = functools.lru_cache(maxsize=4096)(Position)


def _count_dimensions(elements: list[Any]) -> int:
    """Returns how many dimensions the elements of an index cover, not counting an ellipsis."""
    n = len(elements)
    gaps = 0
    for e in elements:
        if e is GAP:
            gaps += 1
            n -= 1
        elif e is NEW or type(e) is Flag:
            n -= 1
        elif type(e) is _Mask:
            n += e.array.ndim - 1
    if gaps > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    return n


class _Mask(NamedTuple):
    """A mask that has not been matched to the dimensions of the array yet."""

    array: Array | np.ndarray

    def positions(self, shape: tuple[Any, ...], position: int) -> list[Positions]:
        """Returns the positions of the true elements; a mask dimension of size 0 fits any size."""
        mask = self.array
        if isinstance(mask, core.Tracer):
            if not core.is_concrete(mask):
                raise NonConcreteBooleanIndexError(mask)
            mask = core.to_concrete_value(mask)
        if any(m not in (0, n) for m, n in zip(mask.shape, shape)):
            raise IndexError(
                f"boolean index did not match shape of indexed array in index {position}: got "
                f"{mask.shape}, expected {[*shape]}"
            )
        return [Positions(where.astype(np.int32), False) for where in np.nonzero(np.asarray(mask))]


def _refuse_sequence(idx: Any) -> None:
    if _is_sequence(idx):
        indices = (slice, indexing.Slice)
        how = "tuple" if any(_is_sequence(i) or isinstance(i, indices) for i in idx) else "array"
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[{how}(seq)]` instead of `arr[seq]`. See https://github.com/jax-ml/jax/issues/4564 for "
            "more information."
        )


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _element(e: Any, position: int) -> Any:
    """Converts an element of an index as far as possible without the array's shape.

    Returns:
      An int, a slice with static bounds, a `jax.ds`, an integer array, NEW, GAP, a Flag or a _Mask.
    """
    t = type(e)
    if t is int or t is indexing.Slice:
        return e
    if t is slice:
        return _static_slice(e, position)
    if e is None:
        return NEW
    if e is Ellipsis:
        return GAP
    if t is bool or t is np.bool_:
        return Flag(bool(e))
    if isinstance(e, np.integer):
        return int(e)
    if isinstance(e, (Array, np.ndarray)):
        return _array_element(e)
    if isinstance(e, str):
        raise TypeError(f"JAX does not support string indexing; got idx={e!r}")
    if isinstance(e, slice):
        return _static_slice(e, position)
    if isinstance(e, (float, complex, np.generic)):
        raise _wrong_dtype(np.asarray(e).dtype)
    if hasattr(e, "__jax_array__"):
        return _element(e.__jax_array__(), position)
    if _is_sequence(e):
        return _array_element(_array_of(e))
    try:
        return operator.index(e)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays "
            f"are valid indices. Got {e}"
        ) from None


def _array_element(a: Any) -> Any:
    dtype = a.dtype
    if dtype == np.bool_:
        return _Mask(a) if a.ndim else Flag(_static_flag(a))
    if not dtypes.issubdtype(dtype, np.integer):
        raise _wrong_dtype(dtype)
    if a.ndim:
        if dtype.itemsize == 8 and isinstance(a, np.ndarray) and not config.enable_x64.value:
            a = np.clip(a, *_INT32_RANGE).astype(np.int32)  # stay out of bounds: do not wrap around
        return a
    return a if isinstance(a, Array) else int(a)


def _static_flag(a: Array | np.ndarray) -> bool:
    if isinstance(a, core.Tracer) and not core.is_concrete(a):
        raise NonConcreteBooleanIndexError(a)
    return bool(a)


_INT32_RANGE = (np.iinfo(np.int32).min, np.iinfo(np.int32).max)


def _wrong_dtype(dtype: Any) -> TypeError:
    return TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")


def _array_of(seq: Any) -> Any:
    """Converts a nested sequence of numbers to an array; traced elements are stacked."""
    if len(seq) == 0:
        return np.zeros((0,), np.int32)
    if not any(isinstance(x, Array) for x in seq) and not any(map(_is_sequence, seq)):
        return np.asarray(seq)
    parts = [_array_of(x) if _is_sequence(x) else x for x in seq]
    if not any(isinstance(x, Array) for x in parts):
        return np.asarray(parts)
    dtype = dtypes.result_type(*parts)
    parts = [lax.expand_dims(lax.convert_element_type(x, dtype), (0,)) for x in parts]
    return lax.concatenate(parts, 0)


def _may_be_negative(a: Any) -> bool:
    return dtypes.issubdtype(a.dtype, np.signedinteger)


def _static_slice(s: slice, position: int) -> slice:
    start, stop, step = s.start, s.stop, s.step
    if (
        (start is None or type(start) is int)
        and (stop is None or type(stop) is int)
        and (step is None or type(step) is int)
    ):
        return s
    for v in (start, stop, step):
        if isinstance(v, core.Tracer) and not core.is_concrete(v):
            raise IndexError(
                f"Slice entries must be static integers. Got {s} at position {position}. Use "
                "jax.lax.dynamic_slice or jax.lax.dynamic_slice_in_dim for slices of static size at traced "
                "positions."
            )
    return slice(
        *[
            v if v is None or core.is_symbolic_dim(v) else operator.index(v)
            for v in (start, stop, step)
        ]
    )


def _sized_slice(s: slice, size: Any) -> Slice:
    if not core.is_constant_dim(size) or any(core.is_symbolic_dim(v) for v in (s.start, s.stop)):
        return _symbolic_slice(s, size)
    start, stop, step = s.indices(size)
    if step == 1:
        return Slice(start, stop - start, 1, stop) if stop > start else Slice(start, 0, 1, start)
    n = len(range(start, stop, step))
    if step > 0:
        return Slice(start, n, step, stop if n else start)
    return Slice(start + (n - 1) * step if n else 0, n, -step, start + 1 if n else 0, True)


def _symbolic_slice(s: slice, size: Any) -> Slice:
    """Returns the entry of a slice where the size of the dimension or a limit is symbolic.

    The sign of a limit has to be known, since negative ones count from the end.
    """
    step = 1 if s.step is None else s.step
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)

    def clamped(v, default):
        if v is None:
            return default
        return core.min_dim(v, highest) if v >= 0 else core.max_dim(v + size, lowest)

    if step > 0:
        start, stop = clamped(s.start, 0), clamped(s.stop, size)
        n = core.max_dim(stop - start, 0)
        if step == 1:
            return Slice(start, n, 1, start + n)
        return Slice(start, -(-n // step), step, start + n)
    start, stop = clamped(s.start, size - 1), clamped(s.stop, -1)
    n = core.max_dim(start - stop, 0)
    if step == -1:
        return Slice(start + 1 - n, n, 1, start + 1, True)
    last = start + (n - 1) // -step * step
    if not (
        core.definitely_greater(n, 0)
        and core.definitely_greater(last, -1)
        and core.definitely_greater(start + 2, last)
    ):  # there may be no positions, or it is not found that they are in bounds: another form
        last = core.min_dim(start + 1 - n + (n - 1) % -step, start + 1)
    return Slice(last, (n - step - 1) // -step, -step, start + 1, True)


def _sized_window(s: indexing.Slice, size: Any, wrap: bool) -> Slice:
    """Returns the entry of a `jax.ds` along a dimension.

    If it is known to be in bounds, it is a plain slice. One as long as the dimension means all of
    it, wherever it starts.
    """
    indexing.check_static_size(s)
    start, n, step = s.start, s.size, s.stride
    if step == 1 and core.definitely_equal(n, size):
        return whole(size)
    if step == 1 and core.is_constant_dim(size) and core.is_constant_dim(n) and n > size:
        raise TypeError(f"a slice of {n} elements does not fit a dimension of size {size}")
    if isinstance(start, Array):
        return Slice(start, n, step, inside=False, wrap=wrap and _may_be_negative(start))
    start = operator.index(start)
    limit = start + s.span
    if step and start >= 0 and core.is_constant_dim(size) and limit <= size:
        return Slice(start, n, step, limit)
    return Slice(start, n, step, inside=False, wrap=wrap)


def is_eager_array(x: Any) -> bool:
    """Tests whether operations on `x` run eagerly."""
    return type(x) is ArrayImpl and core.trace_ctx.trace is core.eval_trace
