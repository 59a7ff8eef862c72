"""`Sharding`: how an array is distributed over devices."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from jax._src.errors import IndivisibleError as IndivisibleError
from jax._src.lib import Device, DeviceList, _jax
from jax._src.native_classes import use_cpp_class
from jax._src.op_shardings import (
    are_hlo_shardings_equal,
    get_num_ways_dim_sharded,
    is_hlo_sharding_replicated,
    op_sharding_to_indices,
)

Shape = tuple[int, ...]
Index = tuple[slice, ...]

Sharding = _jax.Sharding


@use_cpp_class(_jax.Sharding)
class _Sharding:
    """How an array is laid out across devices.

    The base class of :class:`NamedSharding` and :class:`SingleDeviceSharding`.
    """

    __module__ = "jax.sharding"

    @property
    def device_set(self) -> set[Device]:
        """The devices of the sharding, in all processes."""
        raise _not_implemented(self, "device_set")

    @property
    def num_devices(self) -> int:
        """The number of devices of the sharding."""
        raise _not_implemented(self, "num_devices")

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        raise _not_implemented(self, "memory_kind")

    def with_memory_kind(self, kind: str):
        """The same sharding in another kind of memory."""
        raise _not_implemented(self, "with_memory_kind")

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise _not_implemented(self, "is_fully_replicated")

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        raise _not_implemented(self, "is_fully_addressable")

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        raise _not_implemented(self, "_device_assignment")

    @property
    def _internal_device_list(self) -> DeviceList:
        return DeviceList(tuple(self._device_assignment))

    def _to_xla_hlo_sharding(self, num_dimensions: int):
        raise _not_implemented(self, "_to_xla_hlo_sharding")

    def _to_sdy_sharding(self, num_dimensions: int, modify_wrt_axis_types: bool = False):
        raise _not_implemented(self, "_to_sdy_sharding")

    @property
    def _is_concrete(self) -> bool:
        return True

    @functools.cached_property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process."""
        # Every device, also of another process, refers to this process's client.
        return {d for d in self.device_set if d.process_index == d.client.process_index()}

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some devices belong to this process."""
        return len(self._internal_device_list.addressable_device_list) > 0

    @functools.cached_property
    def _addressable_device_assignment(self) -> tuple[Device, ...]:
        if self.is_fully_addressable:
            return tuple(self._device_assignment)
        return tuple(d for d in self._device_assignment if d in self.addressable_devices)

    def addressable_devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index | None]:
        """For each device of this process, the slices of the array that it holds.

        Args:
          global_shape: the array's shape.
        """
        return _addressable_devices_indices_map(self, tuple(global_shape))

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """For each device, the slices of the array that it holds.

        Args:
          global_shape: the array's shape.

        Raises:
          ValueError: the sharding does not divide the shape evenly, or needs a higher rank.
        """
        return common_devices_indices_map(self, tuple(global_shape))

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of the part that each device holds.

        Args:
          global_shape: the array's shape.

        Raises:
          ValueError: the sharding does not divide the shape evenly, or needs a higher rank.

        Example:
          >>> import jax
          >>> mesh = jax.sharding.AbstractMesh((4, 2), ("x", "y"))
          >>> jax.NamedSharding(mesh, jax.P("x")).shard_shape((8, 3))
          (2, 3)
        """
        return _common_shard_shape(self, tuple(global_shape))

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both lay out arrays of rank `ndim` in the same way, on the same devices in order.

        Args:
          other: a sharding.
          ndim: the rank of the arrays.
        """
        return common_is_equivalent_to(self, other, ndim)


def _not_implemented(self, name):
    return NotImplementedError(f"{type(self).__name__} must define {name}.")


def common_is_equivalent_to(
    s1: Sharding, s2: Sharding, ndim: int, check_devices: bool = True
) -> bool:
    if s1 is s2:
        return True
    return (
        are_hlo_shardings_equal(s1._to_xla_hlo_sharding(ndim), s2._to_xla_hlo_sharding(ndim))
        and (not check_devices or s1._internal_device_list == s2._internal_device_list)
        and s1.memory_kind == s2.memory_kind
    )


@functools.lru_cache(maxsize=4096)
def _addressable_devices_indices_map(
    sharding: Sharding, global_shape: Shape
) -> Mapping[Device, Index | None]:
    global_map = sharding.devices_indices_map(global_shape)
    if sharding.is_fully_addressable:
        return global_map
    return {d: index for d, index in global_map.items() if d in sharding.addressable_devices}


@functools.lru_cache(maxsize=4096)
def common_devices_indices_map(s: Sharding, global_shape: Shape) -> Mapping[Device, Index]:
    s.shard_shape(global_shape)  # raises an error with the reason if the shape does not fit
    hlo_sharding = s._to_xla_hlo_sharding(len(global_shape))
    devices = s._device_assignment
    return dict(zip(devices, op_sharding_to_indices(hlo_sharding, global_shape, len(devices))))


def divisibility_hint(size: Any, parts: int) -> str:
    """What makes a symbolic `size` divisible by `parts`, for an error; nothing for a number."""
    if type(size) is int:
        return ""
    return (
        f". The size is symbolic: state the constraint 'mod({size}, {parts}) == 0', or use a multiple of"
        f" {parts}, such as {parts}*n"
    )


@functools.lru_cache(maxsize=4096)
def _common_shard_shape(self: Sharding, global_shape: Shape) -> Shape:
    check_rank(self, global_shape)
    hlo_sharding = self._to_xla_hlo_sharding(len(global_shape))
    if (
        is_hlo_sharding_replicated(hlo_sharding)
        or hlo_sharding.is_manual()
        or hlo_sharding.is_unreduced()
    ):
        return global_shape
    partitions, _ = get_num_ways_dim_sharded(hlo_sharding)
    out = []
    for dim, (size, parts) in enumerate(zip(global_shape, partitions, strict=True)):
        if parts > 1 and size % parts != 0:
            raise IndivisibleError(
                f"Sharding {self} implies that array axis {dim} is partitioned {parts} times, but the"
                f" dimension size is {size} (full shape: {global_shape}, per-dimension tiling factors:"
                f" {partitions} should evenly divide the shape){divisibility_hint(size, parts)}"
            )
        out.append(size // parts)
    return tuple(out)


def check_rank(sharding: Any, shape: Sequence[int]) -> None:
    """Raises ValueError if a sharding needs more dimensions than the shape has."""
    if (check := getattr(sharding, "check_compatible_aval", None)) is not None:
        check(tuple(shape))
