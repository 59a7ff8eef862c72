"""Gathering of an array from the devices of a ring."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.parallel import axis_index
from jax._src.lax.slicing.slices import dynamic_slice_in_dim
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.mosaic.copies import (
    get_barrier_semaphore,
    make_async_remote_copy,
    sync_copy,
)
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.ops.differentiable import linear
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.semaphores import DeviceIdType, semaphore_signal, semaphore_wait
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import shard_map

# Rows of a tile in memory: a copy of a part of a chunk starts at one.
_TILE_ROWS = 32


def get_neighbor(idx: Any, mesh: Any, axis_name: str, *, direction: str) -> tuple[Any, ...]:
    """Return the coordinates in a mesh of the device before or after this one in a ring.

    Args:
      idx: the index of this device along the ring.
      mesh: the mesh.
      axis_name: the axis of the mesh that is the ring.
      direction: `"left"` or `"right"`.
    """
    if direction not in ("left", "right"):
        raise ValueError(f"direction should be 'left' or 'right', but is {direction!r}")
    size = mesh.shape[axis_name]
    step = 1 if direction == "right" else size - 1
    neighbor = lax.rem(idx + step, np.int32(size))
    return tuple(neighbor if name == axis_name else axis_index(name) for name in mesh.axis_names)


def ag_kernel(
    x_ref: Any, o_ref: Any, send_sem: Any, recv_sem: Any, *, axis_name: str, mesh: Any
) -> None:
    """Gather the chunks of a ring: half of each chunk goes to the right, and half to the left.

    Args:
      x_ref: the chunk of this device.
      o_ref: the chunks of all devices, along the first dimension.
      send_sem: a semaphore for each direction.
      recv_sem: a semaphore for each direction and step.
      axis_name, mesh: as in `all_gather`.
    """
    me, size = axis_index(axis_name), mesh.shape[axis_name]
    sync_copy(x_ref, o_ref.at[me])
    if size == 1:
        return
    directions = ("right", "left")
    ids = [get_neighbor(me, mesh, axis_name, direction=d) for d in directions]
    barrier = get_barrier_semaphore()
    for device in ids:
        semaphore_signal(barrier, 1, device_id=device, device_id_type=DeviceIdType.MESH)
    semaphore_wait(barrier, 2)
    rows = x_ref.shape[0]
    half = rows // 2 // _TILE_ROWS * _TILE_ROWS
    # Chunks that are too small to split go one way.
    parts = [slice(0, half), slice(half, rows)] if half else [slice(0, rows)]

    def step(i: Any, _: Any) -> None:
        copies = []
        for way, part in enumerate(parts):
            # The chunk of the device that is i steps behind.
            chunk = lax.rem(me + (i if way else size - i), np.int32(size))
            view = o_ref.at[chunk, part]
            copies.append(
                make_async_remote_copy(
                    view, view, send_sem.at[way], recv_sem.at[way, i], ids[way], DeviceIdType.MESH
                )
            )
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()

    fori_loop(np.int32(0), np.int32(size - 1), step, None)


@functools.partial(jit, static_argnames=("mesh", "axis_name", "memory_space"))
def all_gather(
    x: Any, *, mesh: Any, axis_name: str | Sequence[str], memory_space: MemorySpace = MemorySpace.VMEM
) -> Any:  # fmt: skip
    """Gather an array whose first dimension is divided among the devices of a ring.

    Args:
      x: the array.
      mesh: the mesh of devices.
      axis_name: the axis of the mesh that is the ring.
      memory_space: where the chunks are.

    Returns:
      The array, on all devices. The derivative of a chunk is that of its rows: no device sends any.

    Raises:
      NotImplementedError: if there is more than one axis.
    """
    if not isinstance(axis_name, str):
        if len(axis_name) != 1:
            raise NotImplementedError("Only one axis supported.")
        (axis_name,) = axis_name
    size = mesh.shape[axis_name]

    def gather(chunk: Any) -> Any:
        call = pallas_call(
            functools.partial(ag_kernel, axis_name=axis_name, mesh=mesh),
            ShapeDtypeStruct((size, *chunk.shape), chunk.dtype),
            in_specs=[BlockSpec(memory_space=memory_space)],
            out_specs=BlockSpec(memory_space=memory_space),
            scratch_shapes=[SemaphoreType.DMA((2,)), SemaphoreType.DMA((2, max(size - 1, 1)))],
            compiler_params=CompilerParams(collective_id=0 if size > 1 else None),
            name="all_gather",
        )
        return call(chunk).reshape(-1, *chunk.shape[1:])

    def own_chunk(whole: Any) -> Any:
        rows = whole.shape[0] // size
        return dynamic_slice_in_dim(whole, axis_index(axis_name) * rows, rows)

    spec, everywhere = PartitionSpec(axis_name), PartitionSpec()
    on = functools.partial(shard_map, mesh=mesh, check_vma=False)
    divide = on(own_chunk, in_specs=everywhere, out_specs=spec)
    return linear(on(gather, in_specs=spec, out_specs=everywhere), (divide,), x)
