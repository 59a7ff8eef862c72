"""Shardings on one device, shardings in the compiler's format, and contexts for lowering."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from jax._src import lib
from jax._src.lib import Device, _jax
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import SdyArray, SdyDim, build_sdy_array_list
from jax._src.native_classes import use_cpp_class
from jax._src.op_shardings import (
    are_hlo_shardings_equal,
    get_num_ways_dim_sharded,
    is_hlo_sharding_replicated,
)
from jax._src.sharding import Sharding

Shape = tuple[int, ...]
Index = tuple[slice, ...]
MeshAxisName = Any


def hashed_index(x: Index) -> int:
    """A hash of a tuple of slices, which are not hashable in all versions of Python."""
    return hash(tuple((s.start, s.stop) if isinstance(s, slice) else s for s in x))


@functools.lru_cache(maxsize=4096)
def device_replica_id_map(sharding: Sharding, global_shape: Shape) -> Mapping[Device, int]:
    """For each device, the number of preceding devices that hold the same part of the array."""
    index_map = sharding.devices_indices_map(global_shape)
    seen: dict[int, int] = {}
    out = {}
    for device, index in index_map.items():
        key = hashed_index(index)
        out[device] = seen.get(key, 0)
        seen[key] = out[device] + 1
    return out


# One device


@use_cpp_class(_jax.SingleDeviceSharding)
class SingleDeviceSharding(Sharding):
    """Puts the whole array on one device.

    Args:
      device: a :class:`jax.Device`.
      memory_kind: the kind of memory; the device's default if None.

    Example:
      >>> import jax
      >>> sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
      >>> sharding.shard_shape((2, 3)), sharding.is_fully_replicated
      ((2, 3), True)
    """

    __module__ = "jax.sharding"

    def __repr__(self):
        memory = f", memory_kind={self.memory_kind}" if self.memory_kind is not None else ""
        return f"SingleDeviceSharding(device={self._device!r}{memory})"

    def __hash__(self):
        return hash((self._device, self._memory_kind))

    def __eq__(self, other):
        if not isinstance(other, _jax.SingleDeviceSharding):
            return NotImplemented
        return self is other or (
            self._device == other._device and self._memory_kind == other._memory_kind
        )

    def __reduce__(self):
        return _unpickle_single_device_sharding, (self._device, self._memory_kind)

    @property
    def device_set(self) -> set[Device]:
        """The device, in a set."""
        return {self._device}

    @property
    def num_devices(self) -> int:
        """One."""
        return 1

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        return self._memory_kind

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """A sharding on the same device with another kind of memory."""
        return _jax.SingleDeviceSharding(self._device, memory_kind=kind)

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """The device, with slices that select the whole array."""
        return {self._device: (slice(None),) * len(global_shape)}

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return (self._device,)

    @property
    def is_fully_replicated(self) -> bool:
        """True."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """Whether the device belongs to this process."""
        return self._device.process_index == self._device.client.process_index()

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Does nothing: every shape is valid."""

    def _to_xla_hlo_sharding(self, num_dimensions: int):
        return replicated_hlo_sharding()

    def _to_sdy_sharding(
        self, num_dimensions: int, modify_wrt_axis_types: bool = False
    ) -> SdyArray:
        return _closed_sdy_sharding(num_dimensions)


def _unpickle_single_device_sharding(device, memory_kind):
    return _jax.SingleDeviceSharding(device, memory_kind=memory_kind)


def make_single_device_sharding(device, *, memory_kind=None):
    """The sharding of an array that is on one device.

    Args:
      device: a :class:`jax.Device`.
      memory_kind: the kind of memory; the device's default if None.

    Example:
      >>> import jax
      >>> jax.sharding.make_single_device_sharding(jax.devices()[0]).num_devices
      1
    """
    return _jax.SingleDeviceSharding(device, memory_kind=memory_kind)


@functools.cache
def replicated_hlo_sharding():
    return lib.hlo.HloSharding.replicate()


@functools.cache
def _closed_sdy_sharding(num_dimensions):
    return SdyArray(mesh_shape=None, dim_shardings=(SdyDim((), False),) * num_dimensions)


# Shardings in the compiler's format


@use_cpp_class(_jax.GSPMDSharding)
class GSPMDSharding(Sharding):
    """A sharding in the compiler's format: a sequence of devices and an `HloSharding`."""

    def __repr__(self):
        memory = f", memory_kind={self.memory_kind}" if self.memory_kind is not None else ""
        return f"GSPMDSharding({self._hlo_sharding!r}{memory})"

    def __reduce__(self):
        args = (tuple(self._devices), self._hlo_sharding.to_proto(), self._memory_kind)
        return _unpickle_gspmd_sharding, args

    @functools.cached_property
    def _hlo_sharding_hash(self):
        replicated = is_hlo_sharding_replicated(self._hlo_sharding)
        return hash(replicated_hlo_sharding() if replicated else self._hlo_sharding)

    def __hash__(self):
        return hash((self._devices, self._hlo_sharding_hash, self._memory_kind))

    def __eq__(self, other):
        if not isinstance(other, _jax.GSPMDSharding):
            return NotImplemented
        return self is other or (
            are_hlo_shardings_equal(self._hlo_sharding, other._hlo_sharding)
            and self._memory_kind == other._memory_kind
            and self._internal_device_list == other._internal_device_list
        )

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raises ValueError if the shape has fewer dimensions than the sharding needs."""
        if not self._hlo_sharding.is_tiled():
            return
        rank = len(get_num_ways_dim_sharded(self._hlo_sharding)[0])
        if len(aval_shape) < rank:
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {rank}, but was applied to"
                f" a value of rank {len(aval_shape)}"
            )

    @property
    def num_devices(self) -> int:
        """The number of devices of the sharding."""
        return len(self._devices)

    @functools.cached_property
    def device_set(self) -> set[Device]:
        """The devices of the sharding."""
        return set(self._devices)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        return self._memory_kind

    def with_memory_kind(self, kind: str) -> GSPMDSharding:
        """The same sharding in another kind of memory."""
        return _jax.GSPMDSharding(self._devices, self._hlo_sharding, memory_kind=kind)

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return tuple(self._devices)

    @functools.cached_property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return is_hlo_sharding_replicated(self._hlo_sharding)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return self._internal_device_list.is_fully_addressable

    def _to_xla_hlo_sharding(self, num_dimensions: int):
        return self._hlo_sharding

    def _to_sdy_sharding(
        self, num_dimensions: int, modify_wrt_axis_types: bool = False
    ) -> SdyArray:
        if self.is_fully_replicated:
            return _closed_sdy_sharding(num_dimensions)
        if not self._hlo_sharding.is_tiled():
            raise NotImplementedError(f"{self} has no Shardy form.")
        # Invent mesh axes: their sizes are those of the tiles, in the order of the tiles.
        parts, replicas = get_num_ways_dim_sharded(self._hlo_sharding)
        names = {i: f"_axis_{k}" for k, i in enumerate(i for i, n in enumerate(parts) if n > 1)}
        shape = [(name, parts[i]) for i, name in names.items()]
        if replicas > 1:
            shape.append((f"_axis_{len(shape)}", replicas))
        ids = tuple(self._hlo_sharding.tile_assignment_devices())
        dims = [SdyDim((names[i],) if i in names else (), False) for i in range(len(parts))]
        dims += [SdyDim((), False)] * (num_dimensions - len(dims))
        return SdyArray(
            mesh_shape=tuple(shape),
            dim_shardings=tuple(dims),
            logical_device_ids=None if ids == tuple(range(len(ids))) else ids,
        )

    @classmethod
    def get_replicated(cls, device_assignment, *, memory_kind: str | None = None):
        """The sharding that replicates an array on the given devices."""
        return _jax.GSPMDSharding(
            device_assignment, replicated_hlo_sharding(), memory_kind=memory_kind
        )


def _unpickle_gspmd_sharding(devices, op_sharding, memory_kind):
    return _jax.GSPMDSharding(devices, op_sharding, memory_kind=memory_kind)


class SdyArrayList(NamedTuple):
    """The shardings of several values in Shardy's format."""

    shardings: tuple[SdyArray, ...]

    def build(self, attr_cache=None):
        return build_sdy_array_list(self.shardings, attr_cache)


# Contexts for lowering


@dataclasses.dataclass(frozen=True, slots=True)
class SPMDAxisContext:
    """A mesh, which of its axes are manual at this point of the lowering, and devices if known."""

    mesh: Mesh
    manual_axes: frozenset[MeshAxisName] = frozenset()
    device_assignment: tuple[Device, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ShardingContext:
    """The number of devices of a program, and the devices if they are known."""

    num_devices: int
    device_assignment: tuple[Device, ...] | None = None
    abstract_mesh: AbstractMesh | None = None

    def __post_init__(self):
        if self.device_assignment is not None:
            assert isinstance(self.device_assignment, tuple)
            assert self.num_devices == len(self.device_assignment)
