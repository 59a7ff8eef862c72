"""The threads, blocks and clusters of an interpreted kernel, on the devices that run it together.

Clusters are started when all threads that there are wait or have ended.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jax._src.pallas.mosaic_gpu.core import NUM_WARPS
from jax._src.pallas.mosaic_gpu.devices import check_all_axes
from jax._src.pallas.mosaic_gpu.interpret.memory import Buffer
from jax._src.pallas.semaphores import DeviceId, DeviceIdType
from jax._src.pallas.threaded.devices import position_of
from jax._src.pallas.threaded.programs import Rules
from jax._src.pallas.threaded.threads import Run, Scheduler, Visits
from jax._src.pallas.threaded.views import int_of
from jax._src.tree_util import tree_leaves

RULES = Rules("of a GPU")


@dataclasses.dataclass(eq=False)
class Device:
    """A device.

    Attributes:
      coordinates: its position along the axes of the mesh of devices.
      positions: what its threads know besides: positions along other axes, and in the grid.
      refs: what the kernel is given.
      buffers: what is in global memory, by key.
      pending: the positions of the clusters that have not been started.
    """

    coordinates: dict[Any, int]
    positions: dict[Any, int]
    refs: Sequence[Any]
    buffers: dict[Any, Buffer] = dataclasses.field(default_factory=dict)
    pending: Iterator[dict[Any, int]] = iter(())

    @property
    def name(self) -> str:
        shown = ", ".join([f"{k}={v}" for k, v in self.coordinates.items()])
        return f"device ({shown})" if shown else "the device"


@dataclasses.dataclass(eq=False)
class Block:
    """A block of a kernel.

    Attributes:
      device: the device that it is on.
      coordinates: its position along the axes of the grid and of its cluster.
      cluster: the blocks of its cluster, by their positions in it.
      buffers: what was allocated for the block, by key.
    """

    device: Device
    coordinates: dict[Any, int]
    cluster: dict[tuple[int, ...], Block]
    buffers: dict[Any, Buffer] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Thread:
    """A thread of a block, or one of its warps.

    Attributes:
      block: the block.
      positions: its position along all axes of the mesh, and in the grid.
      name: as errors name it.
      count: how often it has come to each place of the kernel that needs to know it.
      warp_of: the thread whose warp it is; None for a thread.
      warps: the numbers of the warps that it is: all four, or one.
    """

    block: Block
    positions: dict[Any, int]
    name: str
    count: Visits = dataclasses.field(default_factory=Visits)
    warp_of: Thread | None = None
    warps: slice = dataclasses.field(default_factory=lambda: slice(0, NUM_WARPS))

    def number(self, mesh: Any) -> int | None:
        """Return which of its block's threads it is; None if blocks have one."""
        return None if mesh is None else self.positions.get(mesh.thread_name)

    def warp(self, i: int, axis_name: Any) -> Thread:
        """Return one of the thread's warps, whose number is its position along an axis."""
        positions = {**self.positions, axis_name: i}
        name = f"warp {i} of {self.name}"
        return Thread(self.block, positions, name, warp_of=self, warps=slice(i, i + 1))


class Machine(Scheduler):
    """Runs the threads of one application of a kernel.

    Args:
      params: the interpreter's options.
      mesh: the threads; None for one.
      where: the kernel's name and line.
      start: function from a thread to its generator.
      devices: the devices, in the order of their positions in the mesh of devices.
      device_axes: the sizes of the axes of that mesh, by name.
    """

    def __init__(
        self, params: Any, mesh: Any, where: str, start: Callable[[Thread], Run], devices: Sequence[Device],
        device_axes: Mapping[Any, int],
    ):  # fmt: skip
        super().__init__(where)
        self.params = params
        self.mesh = mesh
        self.start = start
        self.rules = RULES
        self.skips_floats = False  # but for products on the tensor core
        self.zero = params.uninitialized_memory == "zero"
        self.cancelled: dict[Any, Any] = {}  # answers to requests for other clusters
        grid = () if mesh is None else mesh.grid
        self.grid_names = () if mesh is None else tuple(mesh.grid_names)
        self.cluster = {} if mesh is None else dict(zip(mesh.cluster_names, mesh.cluster))
        ranges = [range(d) for d in grid]
        self.devices = devices
        self.device_axes = dict(device_axes)
        for d in devices:
            d.pending = map(lambda i: dict(zip(self.grid_names, i)), itertools.product(*ranges))

    # Devices

    def device_at(self, block: Block, device_id: DeviceId, kind: DeviceIdType) -> Device:
        """Return the device that a kernel names.

        Raises:
          ValueError: if there is none.
        """
        here = block.device.coordinates
        if not self.device_axes and any([int_of(i) for i in tree_leaves(device_id)]):
            raise ValueError(
                f"{self.where} refers to another device, but runs on one: call it in jax.shard_map over a mesh of the devices."
            )
        at = position_of(device_id, kind, self.device_axes, self.device_axes, here)
        for d in self.devices:
            if d.coordinates == at:
                return d
        raise ValueError(
            f"There is no device at {at} in a mesh of axes {self.device_axes}, which {self.where} refers to."
        )

    def all_devices(self, axes: Sequence[Any], what: str) -> Sequence[Device]:
        """Return the devices along axes, which must be all of them.

        Raises:
          ValueError: if they are not.
        """
        check_all_axes(axes, self.device_axes, what)
        return self.devices

    def same_buffer(self, buffer: Buffer, device: Device) -> Buffer:
        """Return what is at the same place in the global memory of another device.

        Raises:
          ValueError: if it is not in global memory.
        """
        if buffer.key not in device.buffers:
            if buffer.key not in {k for d in self.devices for k in d.buffers}:
                raise ValueError(
                    f"A reference to another device is one to global memory, {buffer.name} is in other memory."
                )
            # The device does not have it yet: its scope has not begun there.
            device.buffers[buffer.key] = buffer.empty(self.zero)
        return device.buffers[buffer.key]

    # Clusters

    def next_cluster(self, device: Device) -> dict[Any, int] | None:
        """Return the position of a cluster that has not been started, which the caller takes over."""
        return next(device.pending, None)

    def _start_cluster(self, device: Device, at: Mapping[Any, int]) -> None:
        blocks: dict[tuple[int, ...], Block] = {}
        names = tuple(self.cluster)
        for i in itertools.product(*[range(d) for d in self.cluster.values()]):
            blocks[i] = Block(device, {**at, **dict(zip(names, i))}, blocks)
        thread_name = None if self.mesh is None else self.mesh.thread_name
        of_device = f" of {device.name}" if self.device_axes else ""
        for block in blocks.values():
            for t in range(1 if thread_name is None else self.mesh.num_threads):
                coordinates = dict(block.coordinates)
                if thread_name is not None:
                    coordinates[thread_name] = t
                shown = ", ".join([f"{k}={v}" for k, v in coordinates.items()])
                thread = Thread(block, coordinates, f"thread ({shown}){of_device}")
                self.spawn(thread, self.start(thread))

    def cluster_position(self, block: Block) -> tuple[int, ...]:
        return tuple([block.coordinates[n] for n in self.cluster])

    def neighbours(self, block: Block, axes: Any) -> list[Block]:
        """Return the blocks of the cluster that differ along some axes only, in order."""
        group = axes if isinstance(axes, tuple) else (axes,)
        unknown = [a for a in group if a not in self.cluster]
        if unknown:
            raise ValueError(
                f"{unknown} are no axes of the cluster of {self.where}, which has {list(self.cluster)}."
            )
        own = block.coordinates
        same = [n for n in self.cluster if n not in group]
        return [
            b
            for b in block.cluster.values()
            if all([b.coordinates[n] == own[n] for n in same])
        ]  # fmt: skip

    def start_more(self) -> bool:
        found = [(d, self.next_cluster(d)) for d in self.devices]
        for device, at_next in found:
            if at_next is not None:
                self._start_cluster(device, at_next)
        return any([at_next is not None for _, at_next in found])
