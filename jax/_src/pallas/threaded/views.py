"""The memory of interpreted kernels: buffers, and views of them as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.indexing import Slice
from jax._src.pallas.values import uninitialized_scalar
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import apply_transforms, update_view
from jax._src.state.types import ReshapeTransform, TransposeTransform


class Buffer:
    """What a reference refers to.

    Attributes:
      array: the elements.
      name: as errors name it.
      key: by which other threads have the same one.
    """

    def __init__(self, array: np.ndarray, name: str, key: Any = None):
        self.array = array
        self.name = name
        self.key = key


def filled(shape: Sequence[int], dtype: Any, zero: bool) -> np.ndarray:
    """Return an array without values."""
    value = np.zeros((), dtype) if zero else uninitialized_scalar(dtype)
    return np.full(tuple(shape), value, dtype)


def int_of(x: Any) -> int:
    return int(np.asarray(x))


class OutOfBounds(IndexError):
    """A kernel reads or writes beyond an array."""


def basic_index(t: NDIndexer, what: str) -> tuple[Any, ...] | None:
    """Return an index as NumPy's, after a check of its bounds; None if it has arrays."""
    if t.has_arrays:
        return None
    out: list[Any] = []
    for k, (e, size) in enumerate(zip(t.indices, t.shape)):
        if isinstance(e, Slice):
            start = int_of(e.start)
            stop = start + (int(e.size) - 1) * e.stride + 1 if e.size else start
            if start < 0 or stop > size:
                raise OutOfBounds(
                    f"elements {start} to {stop} of dimension {k} of {what}, of size {size}"
                )
            out.append(slice(start, stop, e.stride))
        else:
            i = int_of(e)
            if not 0 <= i < size:
                raise OutOfBounds(f"element {i} of dimension {k} of {what}, of size {size}")
            out.append(i)
    return tuple(out)


def view_array(array: np.ndarray, transforms: Sequence[Any], what: str) -> np.ndarray | None:
    """Return a view of an array that shares its memory; None if NumPy has no such view."""
    for t in transforms:
        if isinstance(t, NDIndexer):
            index = basic_index(t, what)
            if index is None:
                return None
            array = array[(*index, ...)]  # keeps arrays without dimensions arrays
        elif isinstance(t, TransposeTransform):
            array = array.transpose(t.permutation)
        elif isinstance(t, ReshapeTransform) and array.flags.c_contiguous:
            array = array.reshape(t.shape)
        else:
            return None
    return array


def read(array: np.ndarray, transforms: Sequence[Any], what: str) -> np.ndarray:
    """Return a copy of what a view holds."""
    out = view_array(array, transforms, what)
    if out is None:
        return np.array(apply_transforms(array, transforms))
    return np.array(out)


def write(
    array: np.ndarray, transforms: Sequence[Any], value: Any, what: str, combine: Any = None
) -> None:
    """Replace what a view holds, or combine it with a value."""
    out = view_array(array, transforms, what)
    value = np.asarray(value)
    if out is None:
        if combine is not None:
            value = combine(np.asarray(apply_transforms(array, transforms)), value)
        array[...] = np.asarray(update_view(np.array(array), transforms, value))
        return
    out[...] = value if combine is None else combine(out, value)


def read_with_padding(array: np.ndarray, transforms: Sequence[Any], fill: Any) -> np.ndarray:
    """Return a copy of a view, with `fill` in place of elements beyond the array."""
    positions, inside = _positions(array.shape, transforms)
    out = np.full(positions.shape, fill, array.dtype)
    out[inside] = array.reshape(-1)[positions[inside]]
    return out


def write_inside(
    array: np.ndarray, transforms: Sequence[Any], value: np.ndarray, combine: Any = None
) -> None:
    """Replace what a view holds, or combine it with a value, but for elements beyond the array."""
    positions, inside = _positions(array.shape, transforms)
    flat = array.reshape(-1)
    at = positions[inside]
    flat[at] = value[inside] if combine is None else combine(flat[at], value[inside])


def _positions(shape: Sequence[int], transforms: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return which element of an array each of a view is, and whether it is in the array."""
    # For each dimension of the array, its position at each element of the view.
    at: list[np.ndarray] | None = None
    for t in transforms:
        if isinstance(t, NDIndexer) and not t.has_arrays and at is None:
            at, dims = [], [e.size for e in t.indices if isinstance(e, Slice)]
            k = 0
            for e in t.indices:
                if isinstance(e, Slice):
                    line = int_of(e.start) + np.arange(e.size) * e.stride
                    at.append(np.broadcast_to(line.reshape([-1 if j == k else 1 for j in range(len(dims))]), dims))  # fmt: skip
                    k += 1
                else:
                    at.append(np.full(dims, int_of(e)))
        elif isinstance(t, NDIndexer) and not t.has_arrays and at is not None:
            index = basic_index(t, "a view")
            assert index is not None
            at = [a[(*index, ...)] for a in at]
        elif isinstance(t, TransposeTransform):
            at = [a.transpose(t.permutation) for a in at or np.indices(shape)]
        elif isinstance(t, ReshapeTransform):
            at = [np.ascontiguousarray(a).reshape(t.shape) for a in at or np.indices(shape)]
        else:
            raise NotImplementedError(
                f"A copy of a view of global memory by {type(t).__name__}, in a kernel that is interpreted: index by "
                "slices and integers."
            )
    if at is None:
        at = list(np.indices(shape)) if shape else []
    if not at:
        return np.zeros((), np.intp), np.ones((), bool)
    inside = np.ones(at[0].shape, bool)
    flat = np.zeros(at[0].shape, np.intp)
    for a, d in zip(at, shape):
        inside &= (a >= 0) & (a < d)
        flat = flat * d + np.clip(a, 0, max(d - 1, 0))
    return flat, inside
