"""The memory of an interpreted kernel: buffers, barriers, and views of them as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.indexing import Slice
from jax._src.pallas.mosaic_gpu.core import BarrierType, WGMMAAbstractAccumulatorRef
from jax._src.pallas.mosaic_gpu.transforms import ExtractAliasedRef
from jax._src.pallas.semaphores import SemaphoreTy
from jax._src.pallas.values import uninitialized_scalar
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import apply_transforms, update_view
from jax._src.state.types import ReshapeTransform, TransposeTransform


class Barrier:
    """A barrier: counts arrivals, of which `needed` complete a phase."""

    def __init__(self, needed: int, name: str):
        self.needed = needed
        self.name = name
        self.arrived = 0
        self.phase = 0
        self.shares = 0  # of an arrival that several blocks contribute to
        self.waits: dict[Any, int] = {}  # how many phases each thread has waited for

    def arrive(self) -> None:
        self.arrived += 1
        if self.arrived == self.needed:
            self.arrived = 0
            self.phase += 1

    def arrive_in_part(self, parts: int) -> None:
        """Arrive when as many parts have come."""
        self.shares += 1
        if self.shares == parts:
            self.shares = 0
            self.arrive()

    def is_complete(self, thread: Any) -> bool:
        """Whether the phase that a thread waits for is complete; as on the GPU, phases are told apart by parity."""
        return self.phase % 2 != self.waits.get(thread, 0) % 2

    def waited(self, thread: Any) -> None:
        self.waits[thread] = self.waits.get(thread, 0) + 1

    def __str__(self) -> str:
        return f"{self.name} ({self.arrived} of {self.needed} arrivals in phase {self.phase})"


class Buffer:
    """What a reference refers to.

    Attributes:
      array: the elements; of barriers, `Barrier` objects; of semaphores, counts.
      name: as errors name it.
      key: by which other blocks have the same one.
    """

    def __init__(self, array: np.ndarray, name: str, key: Any = None):
        self.array = array
        self.name = name
        self.key = key
        self.members: dict[Any, Buffer] = {}

    def member(self, t: ExtractAliasedRef, zero: bool) -> Buffer:
        """Return one of the references that share this memory."""
        key = (t.shape, np.dtype(t.dtype), t.offset)
        if key not in self.members:
            self.members[key] = Buffer(filled(t.shape, t.dtype, zero), self.name, (self.key, key))
        return self.members[key]


def filled(shape: Sequence[int], dtype: Any, zero: bool) -> np.ndarray:
    """Return an array without values."""
    value = np.zeros((), dtype) if zero else uninitialized_scalar(dtype)
    return np.full(tuple(shape), value, dtype)


def allocate(aval: Any, name: str, key: Any, zero: bool, cluster_size: Any) -> Buffer:
    """Make what a new reference refers to.

    Args:
      aval: the reference's type.
      name, key: those of the buffer.
      zero: whether memory holds zeros at first.
      cluster_size: function from the axes of a cluster's barrier to the number of blocks that arrive.
    """
    dtype = aval.dtype
    if isinstance(dtype, BarrierType):
        array = np.empty(aval.shape, object)
        blocks = 1 if dtype.collective_axes is None else cluster_size(dtype.collective_axes)
        for i in np.ndindex(*aval.shape):
            array[i] = Barrier(dtype.num_arrivals * blocks, f"{name}{list(i)}")
    elif isinstance(dtype, SemaphoreTy):
        array = np.zeros(aval.shape, np.int32)
    else:
        is_acc = isinstance(aval, WGMMAAbstractAccumulatorRef)
        array = filled(aval.shape, dtype, zero or is_acc)
    return Buffer(array, name, key)


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


COMBINE = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1).astype(old.dtype),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1).astype(
        old.dtype
    ),
}


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


def matmul(a: np.ndarray, b: np.ndarray, out_dtype: Any) -> np.ndarray:
    """Return a product as the tensor core computes it: sums are of the accumulator's kind."""
    wide = np.int32 if dtypes.issubdtype(out_dtype, np.integer) else np.float32
    return np.matmul(a.astype(wide), b.astype(wide))
