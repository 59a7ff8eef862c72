"""The buffers that a pipeline has for the blocks of an array, and the copies between them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import traceback_util
from jax._src.core import AbstractRef
from jax._src.indexing import Slice
from jax._src.lax import lax
from jax._src.pallas.blocks import (
    Blocked,
    BlockSpec,
    BoundedSlice,
    Element,
    Indirect,
    Squeezed,
    block_dims,
)
from jax._src.pallas.memory import MemorySpace as AnyMemorySpace, memory_ref
from jax._src.pallas.mosaic.copies import AsyncCopyDescriptor, make_async_copy
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.mosaic.tiling import Tiling, tile_of
from jax._src.pallas.primitives import multiple_of
from jax._src.state.indexing import NDIndexer
from jax._src.state.types import TransformedRef, ref_and_transforms, view_type
from jax._src.tree_util import register_pytree_node
from jax._src.util import Unhashable

traceback_util.register_exclusion(__file__)


class BufferType(enum.Enum):
    """What a pipeline does with the blocks of an array: read them, write them, both, or nothing."""

    INPUT = 1
    OUTPUT = 2
    INPUT_OUTPUT = 3
    MANUAL = 4


class BufferedRefBase:
    """What a pipeline needs of the buffers for an array; `BufferedRef` has them in vector memory."""

    @property
    def spec(self) -> BlockSpec:
        """The blocks of the array."""
        raise NotImplementedError

    @property
    def buffer_type(self) -> BufferType:
        """What the pipeline does with the blocks."""
        raise NotImplementedError

    @property
    def is_buffered(self) -> bool:
        """Whether there are buffers."""
        raise NotImplementedError

    @property
    def is_trivial_windowing(self) -> bool:
        """Whether the only block is the whole array, which is copied before or after all steps."""
        raise NotImplementedError

    @property
    def has_allocated_buffer(self) -> bool:
        """Whether blocks are copied to memory of the pipeline's own."""
        raise NotImplementedError

    @property
    def is_input(self) -> bool:
        return self.buffer_type in (BufferType.INPUT, BufferType.INPUT_OUTPUT)

    @property
    def is_output(self) -> bool:
        return self.buffer_type in (BufferType.OUTPUT, BufferType.INPUT_OUTPUT)

    @property
    def is_input_output(self) -> bool:
        return self.buffer_type is BufferType.INPUT_OUTPUT

    @property
    def is_manual(self) -> bool:
        return self.buffer_type is BufferType.MANUAL

    @property
    def block_shape(self) -> Any:
        return self.spec.block_shape

    @property
    def compute_index(self) -> Callable[..., Any] | None:
        """The index map."""
        return self.spec.index_map

    @property
    def has_indirect(self) -> bool:
        """Whether a dimension of the blocks is at an array of positions."""
        return any(isinstance(d, Indirect) for d in self.block_shape or ())

    def initialize_slots(self) -> BufferedRefBase:
        """Return this before the first step."""
        raise NotImplementedError

    def advance_copy_in_slot(self, predicate: Any = True) -> BufferedRefBase:
        """Return this after a copy to it was started, if the predicate holds."""
        raise NotImplementedError

    def advance_wait_in_slot(self, predicate: Any = True) -> BufferedRefBase:
        """Return this after the work with a block that was copied to it."""
        raise NotImplementedError

    def advance_copy_out_slot(self, predicate: Any = True) -> BufferedRefBase:
        """Return this after a copy from it was started."""
        raise NotImplementedError

    def advance_wait_out_slot(self, predicate: Any = True) -> BufferedRefBase:
        """Return this after a copy from it was waited for."""
        raise NotImplementedError

    def bind_existing_ref(self, window_ref: Any, indices: Any) -> BufferedRefBase:
        """Return this with the block of a reference that kernels can work on, at a step."""
        raise NotImplementedError

    def unbind_refs(self) -> BufferedRefBase:
        """Return this without references: with numbers only, which loops can carry."""
        raise NotImplementedError

    def with_spec(self, spec: BlockSpec) -> BufferedRefBase:
        """Return this with other blocks."""
        raise NotImplementedError

    def block_index(self, grid_indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the index map gives for a step: an integer, a slice or positions by dimension."""
        dims = self.block_shape or ()
        if self.compute_index is None:
            return (np.int32(0),) * len(dims)
        index = self.compute_index(*grid_indices)
        index = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        if len(index) != len(dims):
            raise ValueError(
                f"An index map returns {len(index)} values for blocks of shape {tuple(dims)}: one for each dimension is needed."
            )
        return index

    def get_dma_slice(self, src_ty: Any, grid_indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return where an array has the block of a step, for a copy.

        The last blocks of an array whose size is no multiple of theirs are smaller. Copies are in units
        of tiles: in the last two dimensions they may reach into the padding of the array's last tile.

        Args:
          src_ty: type of the array, or of a reference to it.
          grid_indices: the step.

        Returns:
          For each dimension a slice, or for those that the kernel does not see a position.
        """
        aval = src_ty.inner_aval if isinstance(src_ty, AbstractRef) else src_ty
        tiling = getattr(self, "tiling", None)

        # Tiles are those of the default device, which is only asked for where it matters.
        def unit(axis: int) -> int:
            return tile_of(len(aval.shape), aval.dtype, tiling)[axis]

        dims = block_dims(self.spec, aval.shape, "a pipeline's array")
        index = self.block_index(grid_indices)
        return tuple(
            [_place(d, i, n, k, unit) for k, (d, i, n) in enumerate(zip(dims, index, aval.shape))]
        )


def _place(d: Any, i: Any, size: int, axis: int, unit_of: Callable[[int], int]) -> Any:
    """Return where the block at `i` is in a dimension, of which copies are in units."""
    if isinstance(d, Squeezed):
        return i
    if isinstance(d, (BoundedSlice, Indirect)):
        return i
    n = d.block_size
    if isinstance(d, Element):
        if tuple(d.padding) != (0, 0):
            raise NotImplementedError(
                f"A pipeline has no blocks with padding, such as {d}: pad the array before, or use pallas_call with a grid."
            )
        start, fits = i, n == size
    else:
        start, fits = _times(i, n), size % n == 0
    if fits or isinstance(start, int) and start + n <= size:
        return Slice(start, n)
    unit = unit_of(axis)
    if isinstance(start, int):
        return Slice(start, min(n, -(-(size - start) // unit) * unit))
    rest = lax.sub(np.int32(size), start)
    if unit > 1:
        units = lax.div(lax.add(rest, np.int32(unit - 1)), np.int32(unit))
        rest = lax.mul(units, np.int32(unit))
    least = lax.min(np.int32(n), lax.max(rest, np.int32(0)))
    return Slice(start, multiple_of(least, unit) if unit > 1 and n % unit == 0 else least)


def _times(i: Any, n: int) -> Any:
    if isinstance(i, (int, np.integer)):
        return int(i) * n
    return lax.mul(lax.convert_element_type(i, np.int32), np.int32(n))


def view_at(ref: Any, places: Sequence[Any]) -> TransformedRef:
    """Return the view of a reference at slices, also of traced size, and positions."""
    ref, transforms = ref_and_transforms(ref, "emit_pipeline")
    shape = tuple(view_type(TransformedRef(ref, transforms)).shape)
    arrays = [np.shape(p) for p in places if not isinstance(p, Slice) and np.ndim(p)]
    at = arrays[0] if arrays else ()
    entries = [
        p if isinstance(p, Slice) or np.shape(p) == at else lax.broadcast(p, at) for p in places
    ]
    return TransformedRef(ref, (*transforms, NDIndexer(entries, shape, at)))


@dataclasses.dataclass(frozen=True)
class BufferedRef(BufferedRefBase):
    """The buffers for the blocks of an array.

    Before memory is allocated for them, they are types; `pl.run_scoped` allocates trees of them. The
    slots count the copies since the first step: copy number k is to or from buffer k modulo their number.

    Attributes:
      window_ref: the buffers; for an array that the kernel can work on as it is, the view of its block.
      copy_in_slot, copy_out_slot: how many copies of blocks in and out were started.
      wait_in_slot, wait_out_slot: how many blocks that were copied in are done with, and how many
        copies out were waited for.
      next_fetch: with lookahead, the step whose block is copied next.
      sem_recvs, sem_sends: semaphores of copies in and out, one for each buffer.
      tiling: the tiles of the array.
      is_trivial_windowing: whether the only block is the whole array.
      has_allocated_buffer: whether blocks are copied.
    """

    _spec: BlockSpec
    _buffer_type: BufferType
    _buffer_count: int
    _grid_rank: int | None
    window_ref: Any
    copy_in_slot: Any
    wait_in_slot: Any
    copy_out_slot: Any
    wait_out_slot: Any
    next_fetch: Sequence[Any] | None
    sem_recvs: Any
    sem_sends: Any
    tiling: Tiling | None
    is_trivial_windowing: bool = False
    has_allocated_buffer: bool = False

    def __post_init__(self) -> None:
        if self.is_output and self._buffer_count > 2:
            raise NotImplementedError(
                f"Buffer count >2 not supported for output buffered refs, got {self._buffer_count}."
            )

    @classmethod
    def create(
        cls, spec: BlockSpec, dtype_or_type: Any, buffer_type: BufferType, buffer_count: int,
        grid_rank: int | None = None, use_lookahead: bool = False,
        source_memory_space: Any = AnyMemorySpace.ANY, tiling: Tiling | None = None,
        is_trivial_windowing: bool = False,
    ) -> BufferedRef:  # fmt: skip
        """Return the types of the buffers for an array.

        Args:
          spec: the blocks; they have a shape.
          dtype_or_type: the dtype, or the type of the array.
          buffer_type: what the pipeline does with the blocks.
          buffer_count: the number of buffers.
          grid_rank: the number of the grid's dimensions, for lookahead.
          use_lookahead: whether to copy the next block that is another one as soon as a buffer is free.
          source_memory_space: where the array is. Where a spec names the same memory space, nothing is copied.
          tiling: the tiles of the array.
          is_trivial_windowing: whether the only block is the whole array.

        Raises:
          ValueError: if blocks have no shape, or cannot be in the memory space.
        """
        if spec.block_shape is None:
            raise ValueError("Block shape must be specified.")
        if use_lookahead and grid_rank is None:
            raise ValueError("grid_rank must be specified when use_lookahead is True.")
        space = MemorySpace.VMEM if spec.memory_space is None else spec.memory_space
        rank = grid_rank if use_lookahead else None
        none: dict[str, Any] = dict.fromkeys(_TRACED)
        make = lambda count, **fields: cls(
            spec, buffer_type, count, rank, **(none | fields), tiling=tiling, is_trivial_windowing=is_trivial_windowing,
            has_allocated_buffer=count > 0,
        )  # fmt: skip
        if space not in (MemorySpace.VMEM, MemorySpace.VMEM_SHARED, MemorySpace.SMEM):
            raise ValueError(f"Unsupported buffer memory space: {space}")
        if spec.memory_space is source_memory_space:
            return make(0)
        dtype = getattr(dtype_or_type, "dtype", dtype_or_type)
        dims = [
            d if isinstance(d, (int, np.integer)) else getattr(d, "block_size", None)
            for d in spec.block_shape
        ]
        shape = tuple([int(d) for d in dims if d is not None])
        if is_trivial_windowing:
            return make(buffer_count, window_ref=memory_ref(shape, dtype, space))
        sems = SemaphoreType.DMA((buffer_count,))
        return make(
            buffer_count,
            window_ref=memory_ref((buffer_count, *shape), dtype, space),
            sem_recvs=None if buffer_type is BufferType.OUTPUT else sems,
            sem_sends=None if buffer_type is BufferType.INPUT else sems,
        )

    @classmethod
    def input(
        cls, spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **kwargs: Any
    ) -> BufferedRef:
        """Return the types of buffers for an array that is read; see `create`."""
        return cls.create(spec, dtype_or_type, BufferType.INPUT, buffer_count, **kwargs)

    @classmethod
    def output(
        cls, spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **kwargs: Any
    ) -> BufferedRef:
        """Return the types of buffers for an array that is written; see `create`."""
        return cls.create(spec, dtype_or_type, BufferType.OUTPUT, buffer_count, **kwargs)

    @classmethod
    def input_output(
        cls, spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **kwargs: Any
    ) -> BufferedRef:
        """Return the types of buffers for an array that is read and written; see `create`."""
        return cls.create(spec, dtype_or_type, BufferType.INPUT_OUTPUT, buffer_count, **kwargs)

    # What is known of it

    @property
    def spec(self) -> BlockSpec:
        return self._spec

    @property
    def buffer_type(self) -> BufferType:
        return self._buffer_type

    @property
    def buffer_count(self) -> int:
        """The number of buffers; 0 where nothing is copied."""
        return self._buffer_count

    @property
    def is_buffered(self) -> bool:
        return self._buffer_count > 0

    @property
    def use_lookahead(self) -> bool:
        """Whether the next block that is another one is copied as soon as a buffer is free."""
        return self._grid_rank is not None

    @property
    def next_fetch_indices(self) -> Sequence[Any]:
        """The step whose block is copied next, with lookahead."""
        if self.next_fetch is None:
            raise ValueError("Only buffers with lookahead have a next fetch.")
        return self.next_fetch

    cumulative_copy_in = property(lambda self: self._known("copy_in_slot"))
    cumulative_wait_in = property(lambda self: self._known("wait_in_slot"))
    cumulative_copy_out = property(lambda self: self._known("copy_out_slot"))
    cumulative_wait_out = property(lambda self: self._known("wait_out_slot"))

    current_copy_in_slot = property(lambda self: self._slot(self.cumulative_copy_in))
    current_wait_in_slot = property(lambda self: self._slot(self.cumulative_wait_in))
    current_copy_out_slot = property(lambda self: self._slot(self.cumulative_copy_out))
    current_wait_out_slot = property(lambda self: self._slot(self.cumulative_wait_out))

    def _known(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name} is not known before the pipeline runs: initialize_slots().")
        return value

    def _slot(self, count: Any) -> Any:
        return _modulo(count, self._buffer_count)

    @property
    def current_ref(self) -> Any:
        """The view of the block that the kernel works on."""
        if self.window_ref is None:
            raise ValueError(
                "There is no current block: bind_existing_ref, or allocate the buffers."
            )
        if not self.is_buffered or self.is_trivial_windowing:
            return self.window_ref
        slot = (
            self.current_copy_out_slot
            if self._buffer_type is BufferType.OUTPUT
            else self.current_wait_in_slot
        )
        return self._buffer(slot)

    def _buffer(self, slot: Any) -> Any:
        return self.window_ref.at[slot]

    # Slots

    def initialize_slots(self) -> BufferedRef:
        zero = lambda used: np.int32(0) if used else None
        ins = (
            self.is_buffered
            and not self.is_trivial_windowing
            and self._buffer_type is not BufferType.OUTPUT
        )
        outs = (
            self.is_buffered
            and not self.is_trivial_windowing
            and self._buffer_type is not BufferType.INPUT
        )
        start = None if self._grid_rank is None else (np.int32(0),) * self._grid_rank
        return dataclasses.replace(
            self, copy_in_slot=zero(ins), wait_in_slot=zero(ins), copy_out_slot=zero(outs), wait_out_slot=zero(outs),
            next_fetch=start,
        )  # fmt: skip

    def with_slot_index(
        self, copy_in_slot: Any = None, copy_out_slot: Any = None, wait_in_slot: Any = None,
        wait_out_slot: Any = None,
    ) -> BufferedRef:  # fmt: skip
        """Return this with other slots; those that are None stay."""
        given = dict(
            copy_in_slot=copy_in_slot, copy_out_slot=copy_out_slot, wait_in_slot=wait_in_slot, wait_out_slot=wait_out_slot
        )  # fmt: skip
        return dataclasses.replace(self, **{k: v for k, v in given.items() if v is not None})

    def with_next_fetch(self, next_fetch: Sequence[Any] | None = None) -> BufferedRef:
        """Return this with another step whose block is copied next."""
        return dataclasses.replace(self, next_fetch=next_fetch)

    def with_spec(self, spec: BlockSpec) -> BufferedRef:
        return dataclasses.replace(self, _spec=spec)

    def advance_copy_in_slot(self, predicate: Any = True) -> BufferedRef:
        return self._advanced("copy_in_slot", predicate)

    def advance_wait_in_slot(self, predicate: Any = True) -> BufferedRef:
        return self._advanced("wait_in_slot", predicate)

    def advance_copy_out_slot(self, predicate: Any = True) -> BufferedRef:
        return self._advanced("copy_out_slot", predicate)

    def advance_wait_out_slot(self, predicate: Any = True) -> BufferedRef:
        return self._advanced("wait_out_slot", predicate)

    def _advanced(self, name: str, predicate: Any) -> BufferedRef:
        count = getattr(self, name)
        if count is None or predicate is False:
            return self
        if predicate is True:
            more: Any = np.int32(1)
        else:
            more = lax.convert_element_type(predicate, np.int32)
        return dataclasses.replace(self, **{name: lax.add(count, more)})

    # References

    def unbind_refs(self) -> BufferedRef:
        return dataclasses.replace(self, window_ref=None, sem_recvs=None, sem_sends=None)

    def bind_refs_of(self, other: BufferedRef) -> BufferedRef:
        """Return this with the references of another one."""
        return dataclasses.replace(
            self, window_ref=other.window_ref, sem_recvs=other.sem_recvs, sem_sends=other.sem_sends
        )

    def bind_existing_ref(self, window_ref: Any, indices: Any) -> BufferedRef:
        if self.is_buffered:
            return self
        if self.is_trivial_windowing:
            return dataclasses.replace(self, window_ref=window_ref)
        places = self.get_dma_slice(view_type(window_ref), indices)
        if any([isinstance(p, Slice) and p.is_dynamic_size for p in places]):
            raise NotImplementedError(
                f"Blocks of shape {tuple(self.block_shape)} do not divide the array of shape {tuple(view_type(window_ref).shape)} "
                "in vector memory: give it a shape that they divide, or keep it in HBM."
            )
        return dataclasses.replace(self, window_ref=view_at(window_ref, places))

    def compute_slice(self, grid_indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return where the block of a step would be in an array without an end."""
        out: list[Any] = []
        for d, i in zip(self.block_shape, self.block_index(grid_indices)):
            if d is None or isinstance(d, (Squeezed, BoundedSlice, Indirect)):
                out.append(i)
            elif isinstance(d, Element):
                out.append(Slice(i, d.block_size))
            else:
                n = d.block_size if isinstance(d, Blocked) else int(d)
                out.append(Slice(_times(i, n), n))
        return tuple(out)

    # Copies

    def copy_in(self, src_ref: Any, grid_indices: Sequence[Any]) -> None:
        """Start the copy of a step's block from the array."""
        if self.is_buffered and self.is_input:
            self._transfer(src_ref, grid_indices, self.current_copy_in_slot, True).start()

    def wait_in(self, src_ref: Any, grid_indices: Sequence[Any]) -> None:
        """Wait until a step's block is copied from the array."""
        if self.is_buffered and self.is_input:
            self._transfer(src_ref, grid_indices, self.current_wait_in_slot, True).wait()

    def copy_out(self, dst_ref: Any, grid_indices: Sequence[Any]) -> None:
        """Start the copy of a step's block to the array."""
        if self.is_buffered and self.is_output:
            self._transfer(dst_ref, grid_indices, self.current_copy_out_slot, False).start()

    def wait_out(self, dst_ref: Any, grid_indices: Sequence[Any]) -> None:
        """Wait until a step's block is copied to the array."""
        if self.is_buffered and self.is_output:
            self._transfer(dst_ref, grid_indices, self.current_wait_out_slot, False).wait()

    def _transfer(
        self, ref: Any, grid_indices: Sequence[Any], slot: Any, to_buffer: bool
    ) -> AsyncCopyDescriptor:
        places = self.get_dma_slice(view_type(ref), grid_indices)
        seen = [
            Slice(0, p.size) if isinstance(p, Slice) else Slice(0, np.shape(p)[0])
            for p in places
            if isinstance(p, Slice) or np.ndim(p)
        ]
        block, buffer = view_at(ref, places), view_at(self._buffer(slot), seen)
        if to_buffer:
            return make_async_copy(block, buffer, self.sem_recvs.at[slot])
        return make_async_copy(buffer, block, self.sem_sends.at[slot])


def _modulo(count: Any, n: int) -> Any:
    if n == 1:
        return np.int32(0)
    if n & (n - 1) == 0 and not isinstance(count, (int, np.integer)):
        return lax.bitwise_and(count, np.int32(n - 1))
    return lax.rem(count, np.int32(n))


# The fields that are references, their types, or traced numbers; those that are None are no leaves.
_TRACED = (
    "window_ref", "copy_in_slot", "wait_in_slot", "copy_out_slot", "wait_out_slot", "next_fetch", "sem_recvs", "sem_sends"
)  # fmt: skip
_STATIC = tuple([f.name for f in dataclasses.fields(BufferedRef) if f.name not in _TRACED])


def _flatten(b: BufferedRef) -> tuple[tuple[Any, ...], Any]:
    present = tuple([n for n in _TRACED if getattr(b, n) is not None])
    static = [getattr(b, n) for n in _STATIC]
    key = Unhashable(static[0])  # specs are compared by identity
    return tuple([getattr(b, n) for n in present]), (present, (key, *static[1:]))


def _unflatten(aux: Any, children: Sequence[Any]) -> BufferedRef:
    present, (key, *static) = aux
    fields = (
        dict.fromkeys(_TRACED)
        | dict(zip(present, children))
        | dict(zip(_STATIC, (key.val, *static)))
    )
    b = object.__new__(BufferedRef)
    for name, value in fields.items():
        object.__setattr__(b, name, value)
    return b


register_pytree_node(BufferedRef, _flatten, _unflatten)


def whole_array_spec(spec: BlockSpec, shape: Sequence[int]) -> BlockSpec:
    """Return a spec with a shape: without one, the only block is the whole array."""
    if spec.block_shape is not None:
        return spec
    n = len(shape)
    return spec.replace(block_shape=tuple(shape), index_map=lambda *_: (0,) * n)
