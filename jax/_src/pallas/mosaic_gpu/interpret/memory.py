"""The memory of an interpreted kernel: buffers and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS, BarrierType, WGMMAAbstractAccumulatorRef
from jax._src.pallas.mosaic_gpu.transforms import ExtractAliasedRef
from jax._src.pallas.semaphores import SemaphoreTy
from jax._src.pallas.threaded.views import Buffer as AnyBuffer, filled


class Barrier:
    """A barrier: counts arrivals, of which `needed` complete a phase."""

    def __init__(self, needed: int, name: str):
        self.needed = needed
        self.name = name
        self.arrived = 0
        self.phase = 0
        self.shares = 0  # of an arrival that several blocks contribute to
        self.waits: dict[
            Any, np.ndarray
        ] = {}  # how many phases each warp of a thread has waited for

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
        return bool(np.all(self._waits(thread) % 2 != self.phase % 2))

    def waited(self, thread: Any) -> None:
        self._waits(thread)[...] += 1

    def _waits(self, thread: Any) -> np.ndarray:
        """Return a view of the counts of a thread's warps, or of one warp's."""
        whole = thread.warp_of or thread
        return self.waits.setdefault(whole, np.zeros(NUM_WARPS, np.int64))[thread.warps]

    def __str__(self) -> str:
        return f"{self.name} ({self.arrived} of {self.needed} arrivals in phase {self.phase})"


class Buffer(AnyBuffer):
    """What a reference refers to.

    Attributes:
      array: the elements; of barriers, `Barrier` objects; of semaphores, counts.
      key: by which other blocks have the same one.
      is_semaphores: whether the elements are counts of semaphores.
      members: the references that share this memory.
    """

    def __init__(self, array: np.ndarray, name: str, key: Any = None, is_semaphores: bool = False):
        super().__init__(array, name, key)
        self.is_semaphores = is_semaphores
        self.members: dict[Any, Buffer] = {}

    def empty(self, zero: bool) -> Buffer:
        """Return another one of its type, whose semaphores count from zero."""
        if self.is_semaphores:
            array = np.zeros_like(self.array)
        else:
            array = filled(self.array.shape, self.array.dtype, zero)
        return Buffer(array, self.name, self.key, self.is_semaphores)

    def member(self, t: ExtractAliasedRef, zero: bool) -> Buffer:
        """Return one of the references that share this memory."""
        key = (t.shape, np.dtype(t.dtype), t.offset)
        if key not in self.members:
            self.members[key] = Buffer(filled(t.shape, t.dtype, zero), self.name, (self.key, key))
        return self.members[key]


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
        return Buffer(np.zeros(aval.shape, np.int32), name, key, is_semaphores=True)
    else:
        is_acc = isinstance(aval, WGMMAAbstractAccumulatorRef)
        array = filled(aval.shape, dtype, zero or is_acc)
    return Buffer(array, name, key)


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


def matmul(a: np.ndarray, b: np.ndarray, out_dtype: Any) -> np.ndarray:
    """Return a product as the tensor core computes it: sums are of the accumulator's kind."""
    wide = np.int32 if dtypes.issubdtype(out_dtype, np.integer) else np.float32
    return np.matmul(a.astype(wide), b.astype(wide))
