"""The devices and cores that run a kernel for TPUs together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.mosaic.interpret.clocks import Actor, Races
from jax._src.pallas.mosaic.interpret.memory import Buffer, Memory, is_far
from jax._src.pallas.mosaic.interpret.params import InterpretParams
from jax._src.pallas.mosaic.interpret.semaphores import Semaphore
from jax._src.pallas.mosaic.tpu_info import TpuInfo
from jax._src.pallas.semaphores import DeviceId, DeviceIdType, SemaphoreTy
from jax._src.pallas.threaded.devices import position_of
from jax._src.pallas.threaded.programs import Rules
from jax._src.pallas.threaded.threads import Run, Scheduler, Visits, Wait

RULES = Rules("of a TPU")


class Device:
    """A device.

    Attributes:
      coordinates: its position along the axes of the mesh of devices.
      name: as errors name it.
      buffers: those that its cores share, by key.
    """

    def __init__(self, coordinates: dict[Any, int]):
        self.coordinates = coordinates
        shown = ", ".join([f"{k}={v}" for k, v in coordinates.items()])
        self.name = f"device ({shown})" if coordinates else "the device"
        self.buffers: dict[Any, Buffer] = {}


class MatrixUnit:
    """A unit for products.

    Attributes:
      staged: right operands, by staging register.
      rhs: the one that was loaded last, or None.
      accumulators: rows of products, by address.
    """

    def __init__(self) -> None:
        self.staged: dict[int, np.ndarray] = {}
        self.rhs: np.ndarray | None = None
        self.accumulators: dict[int, np.ndarray] = {}


class Core(Actor):
    """A core of a device, and the thread that runs on it.

    Attributes:
      device: the device.
      coordinates: its position along the axes of both meshes, of devices and of cores.
      positions: those, the grid's indices and sizes, and other axes, where the kernel is.
      buffers: its own, by key.
      count: how often it has come to each place of the kernel that makes buffers.
      random: its generator of random bits.
      matrix_units: its units for products, by number.
      arrivals: counts the subcores of its core that have come to a barrier.
    """

    def __init__(self, device: Device, number: int, axes: Mapping[Any, int]):
        super().__init__(f"core {number} of {device.name}")
        self.device = device
        self.number = number
        self.coordinates = {**device.coordinates, **axes}
        self.positions: dict[Any, int] = dict(self.coordinates)
        self.buffers: dict[Any, Buffer] = {}
        self.count = Visits()
        self.random = np.random.default_rng(0)
        self.matrix_units: dict[int, MatrixUnit] = {}
        self.arrivals = Semaphore(f"the barrier of subcores on {self.name}")


class Machine(Scheduler):
    """Runs one application of a kernel on all devices.

    Args:
      params: the interpreter's options.
      where: the kernel's name and line.
      device_axes: the sizes of the axes of the mesh of devices, by name.
      core_axes: those of the mesh of cores of each device.
      chip: the TPU whose tiles bound buffers, or None.
      barrier: the number of the barrier semaphore that the kernel uses, or None.
      subcore_axis: the axis along which cores are subcores, which share memory; None if there is none.
    """

    def __init__(
        self, params: InterpretParams, where: str, device_axes: Mapping[Any, int],
        core_axes: Mapping[Any, int], chip: TpuInfo | None, barrier: int | None,
        subcore_axis: Any = None,
    ):  # fmt: skip
        super().__init__(where)
        self.params = params
        self.rules = RULES
        self.subcore_axis = subcore_axis
        self.skips_floats = params.skip_floating_point_ops
        self.device_axes = dict(device_axes)
        self.axis_sizes = {**device_axes, **core_axes}
        self.devices = [Device(at) for at in _points(device_axes)]
        places = list(_points(core_axes))
        self.cores = [Core(d, i, at) for d in self.devices for i, at in enumerate(places)]
        self.at = {tuple(c.coordinates.items()): c for c in self.cores}
        num_clocks = params.num_clocks(len(self.devices), len(places))
        self.races = Races(len(self.cores), num_clocks) if params.detect_races else None
        self.memory = Memory(params, chip, self.races)
        for i, core in enumerate(self.cores):
            if self.races is not None:
                self.races.start(core, i)
            if barrier is not None:
                array = np.array(Semaphore("the barrier semaphore"), object)
                core.buffers["barrier"] = Buffer(array, "the barrier semaphore", "barrier")

    # Buffers

    def allocate(self, core: Core, aval: Any, name: str, key: Any, shared: bool) -> Buffer:
        """Return the buffer of a key, which is made if it is not there.

        Args:
          core: the core that asks for it.
          aval: the reference's type.
          name: the reference's name.
          key: the buffer's key.
          shared: whether all cores of the device have the same.
        """
        is_shared = shared or is_far(aval.memory_space)
        if aval.memory_space is MemorySpace.VMEM_SHARED and not shared:
            is_shared, key = True, (key, self._core_of(core))
        place = core.device.buffers if is_shared else core.buffers
        if key not in place:
            full_name = f"{name} of {core.device.name if is_shared else core.name}"
            if isinstance(aval.dtype, SemaphoreTy):
                array = np.empty(aval.shape, object)
                for i in np.ndindex(*aval.shape):
                    array[i] = Semaphore(f"{full_name}{list(i) or ''}")
            else:
                array = self.memory.empty(aval.shape, aval.dtype)
            place[key] = Buffer(array, full_name, key)
        return place[key]

    def _core_of(self, core: Core) -> tuple[Any, ...]:
        """Return the position of the core that a subcore is part of."""
        return tuple([i for n, i in core.coordinates.items() if n != self.subcore_axis])

    def subcores_of(self, core: Core) -> list[Core]:
        """Return the subcores of the core that a subcore is part of, in order."""
        place = self._core_of(core)
        return [c for c in self.cores if c.device is core.device and self._core_of(c) == place]

    def free(self, core: Core, buffer: Buffer) -> None:
        """Forget a buffer, and print which of its semaphores are left with a count."""
        core.buffers.pop(buffer.key, None)
        self.report_counts(buffer)

    def report_counts(self, buffer: Buffer) -> None:
        if buffer.array.dtype == object:
            for sem in buffer.array.flat:
                if sem.count:
                    print(f"{sem.name} has the count {sem.count} where {self.where} ends.")

    # Other cores

    def core_at(
        self, core: Core, device_id: DeviceId, kind: DeviceIdType, core_index: Any = None
    ) -> Core:
        """Return the core that a kernel names.

        Raises:
          ValueError: if there is none.
        """
        at = dict(core.coordinates)
        if device_id is not None:
            at = position_of(device_id, kind, self.device_axes, self.axis_sizes, core.coordinates)
        found = self.at.get(tuple(at.items()))
        if found is None:
            raise ValueError(f"There is no core or device at {at}, which {core.name} refers to.")
        if core_index is None:
            return found
        cores = [c for c in self.cores if c.device is found.device]
        if not 0 <= core_index < len(cores):
            raise ValueError(f"core_index is {core_index}, {found.device.name} has {len(cores)} cores.")  # fmt: skip
        return cores[core_index]

    def same_buffer(self, buffer: Buffer, core: Core) -> Run:
        """Wait until another core has a buffer of the same key, and return it."""
        found = lambda: core.buffers.get(buffer.key) or core.device.buffers.get(buffer.key)
        if found() is None:
            yield Wait(lambda: found() is not None, lambda: f"{core.name} to have {buffer.name}")
        return found()


def _points(axes: Mapping[Any, int]) -> Sequence[dict[Any, int]]:
    ranges = [range(n) for n in axes.values()]
    return [dict(zip(axes, at)) for at in itertools.product(*ranges)]
