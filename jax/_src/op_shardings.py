"""Indices of the shards of an `HloSharding`, the compiler's form of a sharding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jax._src import lib

if TYPE_CHECKING:
    from jax._src.lib import hlo


def get_num_ways_dim_sharded(hlo_sharding: hlo.HloSharding) -> tuple[list[int], int]:
    """The number of parts of each dimension, and the number of devices that hold each part."""
    if is_hlo_sharding_replicated(hlo_sharding) or hlo_sharding.is_unreduced():
        return [], 1
    if not hlo_sharding.is_tiled():
        raise ValueError(f"A sharding that splits dimensions is needed, got {hlo_sharding}.")
    partitions = list(hlo_sharding.tile_assignment_dimensions())
    num_replicas = 1
    subgroups = len(hlo_sharding.subgroup_types())
    if hlo_sharding.replicate_on_last_tile_dim():
        subgroups = max(subgroups, 1)
    for _ in range(subgroups):
        num_replicas *= partitions.pop()
    return partitions, num_replicas


def is_hlo_sharding_replicated(hc: hlo.HloSharding) -> bool:
    return hc.num_devices() == 1 or hc.is_replicated()


def are_hlo_shardings_equal(hc1: hlo.HloSharding, hc2: hlo.HloSharding) -> bool:
    """Whether two shardings split a value in the same way, even if they are written differently."""
    if hc1 is hc2:
        return True
    if is_hlo_sharding_replicated(hc1) and is_hlo_sharding_replicated(hc2):
        return True
    return hc1 == hc2


def op_sharding_to_numpy_indices(
    hlo_sharding: hlo.HloSharding, shape: Sequence[int], num_devices: int
) -> np.ndarray:
    """The tuple of slices of each logical device's shard, as an array of objects."""
    if hlo_sharding.is_unreduced() or lib.hlo.OpSharding.Type.UNREDUCED in (
        hlo_sharding.subgroup_types()
    ):
        raise NotImplementedError(
            f"The shards of an unreduced array are summands, not slices: {hlo_sharding}. Reshard it"
            " to a sharding without unreduced axes first."
        )
    indices = np.empty(num_devices, dtype=object)
    everything = (slice(None),) * len(shape)
    if is_hlo_sharding_replicated(hlo_sharding):
        for i in range(num_devices):
            indices[i] = everything
        return indices
    if num_devices != hlo_sharding.num_devices():
        raise ValueError(
            f"{hlo_sharding} is for {hlo_sharding.num_devices()} devices, not {num_devices}."
        )
    partitions, num_replicas = get_num_ways_dim_sharded(hlo_sharding)
    if len(partitions) != len(shape):
        raise ValueError(
            f"{hlo_sharding} is for arrays of rank {len(partitions)}, got the shape {tuple(shape)}."
        )
    choices = []
    for size, parts in zip(shape, partitions):
        shard = size // parts
        if shard * parts != size:
            raise ValueError(
                f"{hlo_sharding} does not divide the shape {tuple(shape)} evenly:"
                f" {size} in {parts} parts."
            )
        if parts == 1:
            choices.append([slice(None)])
        else:
            choices.append([slice(i * shard, (i + 1) * shard) for i in range(parts)])
    devices = iter(hlo_sharding.tile_assignment_devices())
    for index in itertools.product(*choices):
        for _ in range(num_replicas):
            indices[next(devices)] = index
    return indices


def op_sharding_to_indices(
    op_sharding: hlo.HloSharding, shape: Sequence[int], num_devices: int
) -> tuple[tuple[slice, ...], ...]:
    """The tuple of slices of each logical device's shard."""
    return tuple(op_sharding_to_numpy_indices(op_sharding, shape, num_devices).flat)


def as_hlo_sharding(sharding) -> hlo.HloSharding:
    """Convert an `OpSharding` protocol buffer to an `HloSharding`, which may be given as well."""
    if isinstance(sharding, lib.hlo.OpSharding):
        return lib.hlo.HloSharding.from_proto(sharding)
    return sharding


def get_op_sharding_from_serialized_proto(sharding: bytes) -> hlo.OpSharding:
    """The `OpSharding` with this serialized protocol buffer."""
    proto = lib.hlo.OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> hlo.HloSharding:
    """The `HloSharding` whose `OpSharding` has this serialized protocol buffer."""
    return lib.hlo.HloSharding.from_proto(get_op_sharding_from_serialized_proto(sharding))


def get_serialized_proto_from_hlo_sharding(sharding: hlo.HloSharding) -> bytes:
    """The serialized protocol buffer of an `HloSharding`."""
    return sharding.to_proto().SerializeToString()
