"""The types of semaphores of TPUs, as kernels ask for them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from jax._src.core import AbstractRef, ShapedArray
from jax._src.pallas.memory import MemoryRef
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.semaphores import (
    BARRIER_SEMAPHORE,
    SEMAPHORE,
    SemaphoreTy,
    semaphore_dtype,
)


class dma_semaphore(semaphore_dtype):
    """Scalar class of semaphores that copies count on, in bytes or in copies."""


DMA_SEMAPHORE = SemaphoreTy(dma_semaphore, "dma_sem")


class SemaphoreType(enum.Enum):
    """The kinds of semaphores. A kind is the type of one semaphore; calling it gives that of an array.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.SemaphoreType.DMA((2,)).shape
    (2,)
    """

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int]) -> MemoryRef:
        """Return the type of a reference to an array of semaphores."""
        return MemoryRef(ShapedArray(tuple(shape), self.dtype), MemorySpace.SEMAPHORE)

    @property
    def dtype(self) -> SemaphoreTy:
        return _DTYPES[self.value]

    def get_array_aval(self) -> Any:
        """Return the type of the semaphore."""
        return self(()).get_array_aval()

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of a reference to one semaphore."""
        return self(()).get_ref_aval()


_DTYPES = {"regular": SEMAPHORE, "dma": DMA_SEMAPHORE, "barrier": BARRIER_SEMAPHORE}
