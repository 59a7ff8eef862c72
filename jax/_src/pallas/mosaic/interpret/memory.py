"""The memory of interpreted kernels for TPUs: buffers of devices and of cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.numpy.util import to_array
from jax._src.pallas.memory import MemorySpace as AnyMemorySpace
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.mosaic.interpret.clocks import Access, Actor, Races
from jax._src.pallas.mosaic.interpret.params import InterpretParams
from jax._src.pallas.mosaic.tpu_info import TpuInfo
from jax._src.pallas.threaded.params import LoggingMode
from jax._src.pallas.threaded.views import (
    Buffer as AnyBuffer,
    OutOfBounds,
    int_of,
    read_with_padding,
    view_array,
    write_inside,
)
from jax._src.pallas.values import is_key, uninitialized_scalar
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import apply_transforms, update_view

# Kernels copy to and from these, and cannot read or write them otherwise.
_FAR = (MemorySpace.HBM, AnyMemorySpace.ANY, AnyMemorySpace.HOST)


def is_far(space: Any) -> bool:
    """Whether a memory is one that kernels copy to and from only, which all cores of a device share."""
    return space in _FAR


class Buffer(AnyBuffer):
    """What a reference refers to.

    Attributes:
      array: the elements; of semaphores, `Semaphore` objects.
      key: by which other cores and devices have the same one.
      accesses: those that others may race with.
    """

    def __init__(self, array: np.ndarray, name: str, key: Any):
        super().__init__(array, name, key)
        self.accesses: list[Access] = []


class Memory:
    """How buffers are read and written, with some options.

    Args:
      params: the options.
      chip: the TPU whose tiles bound buffers; None where their shapes do.
      races: where accesses are noted; None where races are not looked for.
    """

    def __init__(self, params: InterpretParams, chip: TpuInfo | None, races: Races | None):
        self.params = params
        self.chip = chip
        self.races = races

    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """Return an array without values; of keys, of their words."""
        if is_key(dtype):
            shape, dtype = (*shape, *dtype._impl.key_shape), np.dtype(np.uint32)
        return np.full(tuple(shape), self._uninitialized(dtype), dtype)

    def _uninitialized(self, dtype: Any) -> Any:
        if self.params.uninitialized_memory == "zero":
            return np.zeros((), dtype)
        if dtype == np.bool_:
            return np.ones((), np.bool_)
        if dtypes.issubdtype(dtype, np.integer):
            return np.asarray(dtypes.iinfo(dtype).max, dtype)
        return uninitialized_scalar(dtype)

    def read(
        self, actor: Actor, buffer: Buffer, transforms: Sequence[Any], source_info: Any
    ) -> np.ndarray:
        """Return a copy of what a view of a buffer holds.

        Raises:
          OutOfBounds: if it is beyond the buffer, and the options say so.
        """
        array = buffer.array
        try:
            view = view_array(array, transforms, buffer.name)
        except OutOfBounds:
            if self.params.out_of_bounds_reads == "raise" and not self._in_tiles(array, transforms):
                raise
            self.note(actor, buffer, array, False, source_info)
            return read_with_padding(array, transforms, self._uninitialized(array.dtype))
        self.note(actor, buffer, array if view is None else view, False, source_info)
        return np.array(apply_transforms(to_array(array), transforms) if view is None else view)

    def write(
        self, actor: Actor, buffer: Buffer, transforms: Sequence[Any], value: Any, source_info: Any,
        add: bool = False,
    ) -> None:  # fmt: skip
        """Replace what a view of a buffer holds, or add to it.

        Raises:
          OutOfBounds: if it is beyond the buffer.
        """
        array, value = buffer.array, np.asarray(value)
        combine = np.add if add else None
        try:
            view = view_array(array, transforms, buffer.name)
        except OutOfBounds:
            if not self._in_tiles(array, transforms):
                raise
            self.note(actor, buffer, array, True, source_info)
            write_inside(array, transforms, value, combine)
            return
        self.note(actor, buffer, array if view is None else view, True, source_info)
        if view is None:
            array[...] = np.asarray(update_view(to_array(np.array(array)), transforms, value, add))
        else:
            view[...] = view + value if add else value

    def note(
        self, actor: Actor, buffer: Buffer, view: np.ndarray, is_write: bool, source_info: Any
    ) -> None:
        """Note an access to the part of a buffer that a view shows."""
        if self.races is not None:
            self.races.record(actor, buffer, view, is_write, source_info)
        self.log(LoggingMode.SHARED_MEMORY, lambda: f"{actor.name} {'writes' if is_write else 'reads'} {buffer.name}{list(view.shape)}")  # fmt: skip

    def log(self, mode: LoggingMode, text: Any) -> None:
        """Print a text, if the options ask for such."""
        if self.params.logging_mode is not None and mode in self.params.logging_mode:
            print(text())

    def _in_tiles(self, array: np.ndarray, transforms: Sequence[Any]) -> bool:
        """Whether a view is in the tiles that have a buffer."""
        if self.chip is None or not transforms or not isinstance(transforms[0], NDIndexer):
            return False
        first, shape = transforms[0], padded_shape(array.shape, array.dtype, self.chip)
        if first.has_arrays:
            return False
        for e, size in zip(first.indices, shape):
            start = int_of(getattr(e, "start", e))
            extent = (e.size - 1) * e.stride + 1 if hasattr(e, "stride") and e.size else 1
            if start < 0 or start + extent > size:
                return False
        return True


def padded_shape(shape: Sequence[int], dtype: Any, chip: TpuInfo) -> tuple[int, ...]:
    """Return the shape of the tiles that a TPU stores an array in."""
    packing = 32 // min(int(dtypes.itemsize_bits(dtype)), 32)
    if not shape:
        return ()
    if len(shape) == 1:
        unit = chip.num_lanes * packing
        return (-(-shape[0] // unit) * unit,)
    rows, columns = shape[-2:]
    # Short arrays have tiles of fewer rows.
    unit = packing
    while unit < min(rows, chip.num_sublanes):
        unit *= 2
    return (*shape[:-2], -(-rows // unit) * unit, -(-columns // chip.num_lanes) * chip.num_lanes)
