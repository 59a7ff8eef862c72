"""What an index means: from what stands between the brackets to one entry a dimension.

An entry is a tuple whose first element is its kind:

    (NEW,)                        a new dimension of size 1
    (INT, i)                      position i along a dimension; negative ones are counted from the end
    (DYN, scalar, wrap)           a traced position; `wrap` says whether it may be negative. A fourth
                                  element, True, says that it is within bounds
    (SLICE, start, size, step)    `size` positions from `start` (static, or a traced scalar), `step` apart
    (ARR, array, wrap)            many positions
    (FLAG, bool)                  a 0-d mask: a new dimension of size 0 or 1
    (GAP,)                        where the ellipsis stood, before its slices
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.errors import NonConcreteBooleanIndexError
from jax._src.lax import lax

NEW, INT, DYN, SLICE, ARR, FLAG, GAP = range(7)
Entry = tuple[Any, ...]


def parse_index(idx: Any, shape: tuple[int, ...], wrap: bool = True) -> list[Entry]:
    """The entries of `idx` for an array of that shape; between them they take up every dimension.

    Args:
      idx: what stands between the brackets.
      shape: the array's shape.
      wrap: whether negative integers count from the end.

    Raises:
      IndexError: if there are too many indices, a mask of another shape, or something that is no index.
      TypeError: if an index has a wrong dtype, or is a list.
      NonConcreteBooleanIndexError: if a mask is traced.
    """
    items = idx if isinstance(idx, tuple) else (idx,)
    if items and items[0] is idx:
        _refuse_sequence(idx)
    elements = []
    n_used, ellipsis = 0, False
    for position, e in enumerate(items):
        e = _element(e, position)
        kind = e[0]
        if kind is _MASK:
            n_used += np.ndim(e[1])
        elif kind is GAP:
            if ellipsis:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = True
        elif kind is not NEW and kind is not FLAG:
            n_used += 1
        elements.append(e)
    if n_used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {n_used} were indexed"
        )
    entries: list[Entry] = []
    axis = 0
    if not ellipsis:
        elements += [_FULL] * (len(shape) - n_used)
    for position, e in enumerate(elements):
        kind = e[0]
        if kind is GAP:
            entries.append(e)
            for _ in range(len(shape) - n_used):
                entries.append((SLICE, 0, shape[axis], 1))
                axis += 1
        elif kind is NEW or kind is FLAG:
            entries.append(e)
        elif kind is INT:
            i, size = e[1], shape[axis]
            if i < 0 and wrap:
                i += size
            entries.append((INT, i))
            axis += 1
        elif kind is _SLICE:
            entries.append(_sized_slice(e[1], shape[axis]))
            axis += 1
        elif kind is _MASK:
            mask = e[1]
            expected = shape[axis : axis + mask.ndim]
            if mask.shape != expected:
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {position}: got "
                    f"{mask.shape}, expected {[*expected]}"
                )
            for positions in np.nonzero(mask):
                entries.append((ARR, positions.astype(np.int32), False))
                axis += 1
        else:
            entries.append((kind, e[1], wrap and _may_be_negative(e[1])))
            axis += 1
    return entries


_SLICE, _MASK = 7, 8  # slices and masks that have not met their dimension yet
_FULL = (_SLICE, slice(None))


def _refuse_sequence(idx: Any) -> None:
    if _is_sequence(idx):
        how = "tuple" if any(_is_sequence(i) or isinstance(i, slice) for i in idx) else "array"
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[{how}(seq)]` instead of `arr[seq]`. See https://github.com/jax-ml/jax/issues/4564 for "
            "more information."
        )


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _element(e: Any, position: int) -> Entry:
    t = type(e)
    if t is int:
        return (INT, e)
    if t is slice:
        return (_SLICE, _static_slice(e, position))
    if e is None:
        return (NEW,)
    if e is Ellipsis:
        return (GAP,)
    if t is bool or t is np.bool_:
        return (FLAG, bool(e))
    if isinstance(e, np.integer):
        return (INT, int(e))
    if isinstance(e, (Array, np.ndarray)):
        return _array_element(e)
    if isinstance(e, str):
        raise TypeError(f"JAX does not support string indexing; got idx={e!r}")
    if isinstance(e, slice):
        return (_SLICE, _static_slice(e, position))
    if isinstance(e, (float, complex, np.generic)):
        raise _wrong_dtype(np.asarray(e).dtype)
    if hasattr(e, "__jax_array__"):
        return _element(e.__jax_array__(), position)
    if _is_sequence(e):
        return _array_element(_array_of(e))
    try:
        return (INT, operator.index(e))
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays "
            f"are valid indices. Got {e}"
        ) from None


def _array_element(a: Any) -> Entry:
    dtype = a.dtype
    if dtype == np.bool_:
        if isinstance(a, core.Tracer) and not core.is_concrete(a):
            raise NonConcreteBooleanIndexError(a)
        mask = np.asarray(core.to_concrete_value(a) if isinstance(a, core.Tracer) else a)
        return (_MASK, mask) if mask.ndim else (FLAG, bool(mask))
    if not dtypes.issubdtype(dtype, np.integer):
        raise _wrong_dtype(dtype)
    if a.ndim:
        if dtype.itemsize == 8 and isinstance(a, np.ndarray) and not config.enable_x64.value:
            a = np.clip(a, *_INT32_RANGE).astype(np.int32)  # wrapping around would change positions
        return (ARR, a)
    return (DYN, a) if isinstance(a, Array) else (INT, int(a))


_INT32_RANGE = (np.iinfo(np.int32).min, np.iinfo(np.int32).max)


def _wrong_dtype(dtype: Any) -> TypeError:
    return TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")


def _array_of(seq: Any) -> Any:
    """A nested sequence of numbers as an array; traced ones are stacked."""
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


def _sized_slice(s: slice, size: Any) -> Entry:
    if not core.is_constant_dim(size) or any(core.is_symbolic_dim(v) for v in (s.start, s.stop)):
        return _symbolic_slice(s, size)
    start, stop, step = s.indices(size)
    return (SLICE, start, len(range(start, stop, step)), step)


def _symbolic_slice(s: slice, size: Any) -> Entry:
    """A slice of a dimension of symbolic size; limits must be known to be within it."""
    step = 1 if s.step is None else s.step

    def clamped(v, default):
        if v is None:
            return default
        if core.is_constant_dim(v):
            return core.min_dim(v, size) if v >= 0 else core.max_dim(v + size, 0)
        return v

    if step > 0:
        start, stop = clamped(s.start, 0), clamped(s.stop, size)
        n = core.max_dim(stop - start, 0)
        return (SLICE, start, n if step == 1 else -(-n // step), step)
    if s.start is not None or s.stop is not None:
        raise IndexError(
            f"slices with negative step and limits are not supported along a dimension of symbolic size {size}"
        )
    return (SLICE, size - 1, size if step == -1 else -(-size // -step), step)


def is_eager_array(x: Any) -> bool:
    """Whether operations on `x` run at once."""
    return type(x) is ArrayImpl and core.trace_ctx.trace is core.eval_trace
