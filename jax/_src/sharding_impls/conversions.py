"""Conversions of the compiler's shardings, of those of extended dtypes, and between processes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from jax._src import core, lib
from jax._src.errors import NonUniformShardingError as NonUniformShardingError
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.op_shardings import (
    as_hlo_sharding,
    get_num_ways_dim_sharded,
    is_hlo_sharding_replicated,
)
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import IndivisibleError, Sharding
from jax._src.sharding_impls.concrete import GSPMDSharding, SingleDeviceSharding

Shape = tuple[int, ...]


def parse_flatten_op_sharding(hlo_sharding, mesh: Mesh | AbstractMesh) -> Sequence[PartitionSpec]:
    """The partition specs over a mesh that describe a sharding: one per element of a tuple.

    Raises:
      IndivisibleError: the axes of the mesh cannot describe it.
    """
    if isinstance(hlo_sharding, lib.hlo.OpSharding):
        if hlo_sharding.type == lib.hlo.OpSharding.Type.TUPLE:
            return [
                spec
                for part in hlo_sharding.tuple_shardings
                for spec in parse_flatten_op_sharding(part, mesh)
            ]
        hlo_sharding = as_hlo_sharding(hlo_sharding)
    only_one = hlo_sharding.is_maximal() and not hlo_sharding.is_replicated()
    if only_one and mesh.size > 1:
        raise NotImplementedError(f"No partition spec describes the sharding {hlo_sharding}.")
    if is_hlo_sharding_replicated(hlo_sharding) or hlo_sharding.is_manual():
        return [PartitionSpec()]
    if hlo_sharding.is_unreduced():
        return [PartitionSpec(unreduced=frozenset(mesh.axis_names))]
    if not hlo_sharding.is_tiled():
        raise NotImplementedError(f"No partition spec describes the sharding {hlo_sharding}.")
    return [_tiles_to_spec(hlo_sharding, mesh)]


def _tiles_to_spec(hlo_sharding, mesh):
    tiles = list(hlo_sharding.tile_assignment_dimensions())
    devices = np.array(hlo_sharding.tile_assignment_devices(), dtype=np.int64)
    sizes = tuple(mesh.axis_sizes)
    if devices.size != math.prod(sizes):
        raise IndivisibleError(
            f"{hlo_sharding} is for {devices.size} devices, the mesh {mesh} has {math.prod(sizes)}."
        )
    subgroups = list(hlo_sharding.subgroup_types())
    kinds = lib.hlo.OpSharding.Type
    if hlo_sharding.replicate_on_last_tile_dim() and not subgroups:
        subgroups = [kinds.REPLICATED]
    rank = len(tiles) - len(subgroups)

    # The tile coordinates of each position in the mesh.
    coordinates = np.empty((len(tiles), devices.size), dtype=np.int64)
    coordinates[:, devices] = np.indices(tiles).reshape(len(tiles), -1)
    coordinates = coordinates.reshape(len(tiles), *sizes)

    def axes_of(dim):
        """The mesh axes whose combined index is the coordinate, slowest first, or None."""
        c = coordinates[dim]
        origin = (0,) * c.ndim
        strides = {}
        for k, size in enumerate(sizes):
            if size > 1 and (stride := c[origin[:k] + (1,) + origin[k + 1 :]] - c[origin]):
                strides[k] = stride
        axes = sorted(strides, key=lambda k: -strides[k])
        number = np.zeros_like(c)
        for k in axes:
            steps = np.arange(sizes[k]).reshape([-1 if i == k else 1 for i in range(c.ndim)])
            number = number * sizes[k] + steps
        return axes if (number == c).all() else None

    entries, unreduced = [], []
    for dim, tile in enumerate(tiles):
        if tile == 1 or dim >= rank and subgroups[dim - rank] in (kinds.REPLICATED, kinds.MANUAL):
            if dim < rank:
                entries.append(None)
            continue
        axes = axes_of(dim)
        if axes is None:
            raise IndivisibleError(
                f"{hlo_sharding} is incompatible with mesh_shape={mesh.shape}: no sequence of mesh"
                f" axes splits dimension {dim} in {tile} parts like that."
            )
        names = tuple(mesh.axis_names[k] for k in axes)
        if dim < rank:
            entries.append(names)
        else:
            unreduced += names
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries, unreduced=frozenset(unreduced))


def _gspmd_to_named_sharding_via_mesh(
    out_s: GSPMDSharding, mesh: Mesh | AbstractMesh
) -> NamedSharding:
    (spec,) = parse_flatten_op_sharding(out_s._hlo_sharding, mesh)
    return NamedSharding(mesh, spec, memory_kind=out_s.memory_kind)


@functools.lru_cache(maxsize=4096)
def cached_named_sharding(
    mesh: Mesh | AbstractMesh, pspec: PartitionSpec, memory_kind: str | None = None
) -> NamedSharding:
    return NamedSharding(mesh, pspec, memory_kind=memory_kind)


# Extended dtypes (typed random keys), whose elements are represented by small arrays


def physical_hlo_sharding(aval, hlo_sharding):
    """The sharding of the array that represents values of an extended dtype."""
    trailing = core.physical_element_aval(aval.dtype).ndim
    return _with_trailing_dims(hlo_sharding, trailing)


def physical_sharding(aval, sharding: Sharding) -> Sharding:
    return make_key_array_phys_sharding(aval, sharding)


def make_key_array_phys_sharding(aval, sharding: Sharding) -> Sharding:
    """The sharding of the array that represents values of an extended dtype."""
    trailing = core.physical_element_aval(aval.dtype).ndim
    if isinstance(sharding, NamedSharding) and sharding.num_devices > 1:
        entries = (*sharding.spec.partitions, *[None] * trailing)
        return sharding.update(spec=sharding.spec.update(partitions=entries))
    if sharding.is_fully_replicated:
        return sharding
    hlo_sharding = _with_trailing_dims(sharding._to_xla_hlo_sharding(aval.ndim), trailing)
    return GSPMDSharding(
        sharding._internal_device_list, hlo_sharding, memory_kind=sharding.memory_kind
    )


def _with_trailing_dims(hlo_sharding, count):
    """Adds trailing dimensions that are not split."""
    if not hlo_sharding.is_tiled() or is_hlo_sharding_replicated(hlo_sharding):
        return hlo_sharding
    rank = len(get_num_ways_dim_sharded(hlo_sharding)[0])
    proto = hlo_sharding.to_proto().clone()
    dims = list(proto.tile_assignment_dimensions)
    proto.tile_assignment_dimensions = dims[:rank] + [1] * count + dims[rank:]
    return as_hlo_sharding(proto)


def check_replicated_trailing_dims(sharding: Sharding, logical_shape, dtype) -> None:
    """Raises ValueError if a sharding splits the elements of an extended dtype."""
    trailing = core.physical_element_aval(dtype).ndim
    hlo_sharding = sharding._to_xla_hlo_sharding(len(logical_shape) + trailing)
    partitions, _ = get_num_ways_dim_sharded(hlo_sharding)
    if any(n != 1 for n in partitions[len(partitions) - trailing :]):
        raise ValueError(
            "The trailing dims of extended dtypes should be replicated. Got sharding:"
            f" {sharding}, partitions: {partitions}, num_trailing_dims: {trailing}"
        )


def logical_sharding(logical_shape, dtype, phys_sharding: Sharding) -> Sharding:
    """The sharding of values of an extended dtype, given that of the array that represents them."""
    check_replicated_trailing_dims(phys_sharding, logical_shape, dtype)
    if isinstance(phys_sharding, SingleDeviceSharding):
        return phys_sharding
    if isinstance(phys_sharding, NamedSharding):
        entries = phys_sharding.spec.partitions[: len(logical_shape)]
        return phys_sharding.update(spec=phys_sharding.spec.update(partitions=entries))
    return get_logical_gspmd_sharding(logical_shape, dtype, phys_sharding)


def get_logical_gspmd_sharding(logical_shape, dtype, phys_sharding) -> GSPMDSharding:
    trailing = core.physical_element_aval(dtype).ndim
    rank = len(logical_shape)
    hlo_sharding = phys_sharding._to_xla_hlo_sharding(rank + trailing)
    if hlo_sharding.is_tiled() and not is_hlo_sharding_replicated(hlo_sharding):
        proto = hlo_sharding.to_proto().clone()
        dims = list(proto.tile_assignment_dimensions)
        proto.tile_assignment_dimensions = dims[:rank] + dims[rank + trailing :]
        hlo_sharding = as_hlo_sharding(proto)
    return GSPMDSharding(
        phys_sharding._internal_device_list, hlo_sharding, memory_kind=phys_sharding.memory_kind
    )


# Several processes


@functools.lru_cache(maxsize=4096)
def get_process_index_and_count(tensor_sharding: Sharding, dim: int, ndims: int) -> tuple[int, int]:
    """The index of this process's part of a dimension, and the number of parts of all processes.

    Args:
      tensor_sharding: the array's sharding.
      dim: the dimension.
      ndims: the array's rank.

    Raises:
      NonUniformShardingError: processes hold overlapping or differently sized parts.
    """
    if tensor_sharding.is_fully_replicated or (
        isinstance(tensor_sharding, NamedSharding)
        and (len(tensor_sharding.spec) <= dim or tensor_sharding.spec.partitions[dim] is None)
    ):
        return 0, 1
    # Any evenly divisible shape shows which process holds which parts.
    index_map = tensor_sharding.devices_indices_map((tensor_sharding.num_devices,) * ndims)
    parts: dict[int, set[tuple[int, int]]] = {}
    for device, index in index_map.items():
        s = index[dim]
        part = (s.start or 0, tensor_sharding.num_devices if s.stop is None else s.stop)
        parts.setdefault(device.process_index, set()).add(part)
    groups = sorted({tuple(sorted(p)) for p in parts.values()})
    everything = [part for group in groups for part in group]
    if len(everything) != len(set(everything)) or len({len(g) for g in groups}) != 1:
        raise NonUniformShardingError(
            f"{tensor_sharding} does not split dimension {dim} uniformly among processes: {parts}"
        )
    process_index = next(iter(tensor_sharding.device_set)).client.process_index()
    if process_index not in parts:
        raise ValueError(f"{tensor_sharding} has no devices of this process.")
    return groups.index(tuple(sorted(parts[process_index]))), len(groups)


def local_to_global_shape(sharding: Sharding, local_shape: Shape) -> tuple[int | None, ...]:
    """The shape of the whole array, given the shape of the part that this process holds.

    A dimension that is not split uniformly over processes is None.

    Raises:
      ValueError: no dimension is split uniformly.
    """
    out: list[int | None] = []
    for dim, size in enumerate(local_shape):
        try:
            out.append(size * get_process_index_and_count(sharding, dim, len(local_shape))[1])
        except NonUniformShardingError:
            out.append(None)
    if local_shape and all(size is None for size in out):
        raise NonUniformShardingError(
            f"{sharding} splits no dimension of the local shape {local_shape} uniformly."
        )
    return tuple(out)


def num_addressable_indices(tensor_sharding: Sharding, dim: int, global_shape: Shape) -> int:
    """The number of positions of a dimension that this process holds."""
    size = global_shape[dim]
    parts = {
        index[dim].indices(size)
        for index in tensor_sharding.addressable_devices_indices_map(tuple(global_shape)).values()
    }
    return sum(stop - start for start, stop, _ in parts)
