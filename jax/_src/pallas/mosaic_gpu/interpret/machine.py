"""The threads, blocks and clusters of an interpreted kernel.

Clusters are started when all threads that there are wait or have ended.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jax._src.pallas.mosaic_gpu.core import NUM_WARPS
from jax._src.pallas.mosaic_gpu.interpret.memory import Buffer
from jax._src.pallas.threaded.programs import Rules
from jax._src.pallas.threaded.threads import Run, Scheduler, Visits

RULES = Rules("of a GPU")


@dataclasses.dataclass(eq=False)
class Block:
    """A block of a kernel.

    Attributes:
      coordinates: its position along the axes of the grid and of its cluster.
      cluster: the blocks of its cluster, by their positions in it.
      buffers: what was allocated for the block, by key.
    """

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
    """

    def __init__(self, params: Any, mesh: Any, where: str, start: Callable[[Thread], Run]):
        super().__init__(where)
        self.params = params
        self.mesh = mesh
        self.start = start
        self.rules = RULES
        self.skips_floats = False  # but for products on the tensor core
        self.zero = params.uninitialized_memory == "zero"
        self.buffers: dict[Any, Buffer] = {}  # in global memory
        self.cancelled: dict[Any, Any] = {}  # answers to requests for other clusters
        grid = () if mesh is None else mesh.grid
        self.grid_names = () if mesh is None else tuple(mesh.grid_names)
        self.cluster = {} if mesh is None else dict(zip(mesh.cluster_names, mesh.cluster))
        ranges = [range(d) for d in grid]
        self.pending: Iterator[dict[Any, int]] = (
            dict(zip(self.grid_names, i)) for i in itertools.product(*ranges)
        )

    # Clusters

    def next_cluster(self) -> dict[Any, int] | None:
        """Return the position of a cluster that has not been started, which the caller takes over."""
        return next(self.pending, None)

    def _start_cluster(self, at: Mapping[Any, int]) -> None:
        blocks: dict[tuple[int, ...], Block] = {}
        names = tuple(self.cluster)
        for i in itertools.product(*[range(d) for d in self.cluster.values()]):
            blocks[i] = Block({**at, **dict(zip(names, i))}, blocks)
        thread_name = None if self.mesh is None else self.mesh.thread_name
        for block in blocks.values():
            for t in range(1 if thread_name is None else self.mesh.num_threads):
                coordinates = dict(block.coordinates)
                if thread_name is not None:
                    coordinates[thread_name] = t
                shown = ", ".join([f"{k}={v}" for k, v in coordinates.items()])
                thread = Thread(block, coordinates, f"thread ({shown})")
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
        at_next = self.next_cluster()
        if at_next is not None:
            self._start_cluster(at_next)
        return at_next is not None
