"""`NamedSharding`: a mesh, and the mesh axes that split each dimension."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jax._src import lib, mesh as mesh_lib
from jax._src.errors import DuplicateSpecError as DuplicateSpecError
from jax._src.lib import Device, _jax
from jax._src.lib.mlir import dialects
from jax._src.mesh import AxisType
from jax._src.native_classes import use_cpp_class
from jax._src.op_shardings import are_hlo_shardings_equal
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding, common_is_equivalent_to

Shape = tuple[int, ...]
MeshAxisName = Any


class UnspecifiedValue:
    """The type of `UNSPECIFIED`: the user has not specified a sharding."""

    def __repr__(self):
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()


@use_cpp_class(_jax.NamedSharding)
class NamedSharding(Sharding):
    """A sharding that splits arrays over the named axes of a device mesh.

    Args:
      mesh: a :class:`Mesh` or an :class:`AbstractMesh`.
      spec: a :class:`PartitionSpec`.
      memory_kind: the kind of memory; the devices' default if None.

    Raises:
      ValueError: ``spec`` names an axis that ``mesh`` does not have, or the memory kind is unknown.
      DuplicateSpecError: ``spec`` uses an axis twice.

    Example:
      >>> import jax
      >>> mesh = jax.make_mesh((1,), ("x",))
      >>> sharding = jax.NamedSharding(mesh, jax.P("x"))
      >>> jax.device_put(jax.numpy.arange(4), sharding).sharding.spec
      P('x',)
    """

    __module__ = "jax.sharding"

    def __repr__(self):
        memory = f", memory_kind={self.memory_kind}" if self.memory_kind is not None else ""
        ids = self._logical_device_ids
        ids = f", logical_device_ids={ids}" if ids is not None else ""
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{memory}{ids})"

    def __reduce__(self):
        args = (self.mesh, self.spec, self.memory_kind, self._logical_device_ids)
        return _unpickle_named_sharding, args

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array; None for the default of an abstract mesh."""
        return self._memory_kind

    @property
    def num_devices(self) -> int:
        """The number of devices in the mesh."""
        return self.mesh.size

    @property
    def device_set(self) -> set[Device]:
        """The devices of the mesh. Raises ValueError if it is abstract."""
        self._need_devices("device_set")
        return self.mesh._flat_devices_set

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        self._need_devices("_device_assignment")
        return self.mesh._flat_devices_tuple

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of the mesh in this process. Raises ValueError if the mesh is abstract."""
        self._need_devices("addressable_devices")
        return self.mesh._local_devices_set

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process. Raises ValueError if the mesh is abstract."""
        self._need_devices("is_fully_addressable")
        return not self.mesh.is_multi_process

    def _need_devices(self, name):
        if isinstance(self.mesh, mesh_lib.AbstractMesh):
            raise ValueError(
                f"{name} is not implemented for `jax.sharding.AbstractMesh`: it has no devices."
            )

    @property
    def _is_concrete(self) -> bool:
        return isinstance(self.mesh, mesh_lib.Mesh)

    @functools.cached_property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        if self.mesh.size == 1:
            return True
        if self.spec.unreduced:
            return False
        shape = self.mesh.shape
        return all(shape[name] == 1 for name in _axes_in(self.spec))

    @functools.cached_property
    def replicated_axes(self) -> frozenset[MeshAxisName]:
        """The mesh axes over which the array is replicated."""
        return get_replicated_axes(self.spec, self.mesh)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same sharding in another kind of memory."""
        return self.update(memory_kind=kind)

    def update(self, **kwargs) -> NamedSharding:
        """A copy with the given fields (``mesh``, ``spec``, ``memory_kind``) replaced."""
        spec = kwargs.pop("spec", self.spec)
        if not isinstance(spec, PartitionSpec):
            spec = PartitionSpec(spec) if isinstance(spec, str) else PartitionSpec(*spec)
        args = dict(
            mesh=self.mesh,
            memory_kind=self.memory_kind,
            _logical_device_ids=self._logical_device_ids,
        )
        if unknown := kwargs.keys() - args.keys():
            raise TypeError(f"NamedSharding.update() got unexpected arguments {sorted(unknown)}")
        args.update(kwargs)
        return _jax.NamedSharding(spec=spec, **args)

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raises ValueError if the shape has fewer dimensions than the sharding needs."""
        if len(aval_shape) < len(self.spec):
            hint = "" if aval_shape else " For scalars the PartitionSpec should be P()"
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but was"
                f" applied to a value of rank {len(aval_shape)}.{hint}"
            )

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both lay out arrays of rank `ndim` in the same way, on the same devices in order.

        Args:
          other: a sharding.
          ndim: the rank of the arrays.
        """
        if self is other:
            return True
        if not isinstance(other, _jax.NamedSharding):
            return common_is_equivalent_to(self, other, ndim)
        mesh, other_mesh = self.mesh, other.mesh
        if self._is_concrete and other._is_concrete:
            if mesh is not other_mesh and self._internal_device_list != other._internal_device_list:
                return False
        elif self._is_concrete or other._is_concrete or mesh.size != other_mesh.size:
            return False
        return self.memory_kind == other.memory_kind and (
            mesh is other_mesh
            and self.spec is other.spec
            and self._logical_device_ids == other._logical_device_ids
            or are_hlo_shardings_equal(
                self._to_xla_hlo_sharding(ndim), other._to_xla_hlo_sharding(ndim)
            )
        )

    def _to_xla_hlo_sharding(self, num_dimensions: int):
        return named_sharding_to_xla_hlo_sharding(self, num_dimensions)

    def _to_sdy_sharding(
        self, num_dimensions: int, modify_wrt_axis_types: bool = False
    ) -> SdyArray:
        return named_sharding_to_sdy_sharding(self, num_dimensions, modify_wrt_axis_types)


def _unpickle_named_sharding(mesh, spec, memory_kind, logical_device_ids):
    return NamedSharding(
        mesh, spec, memory_kind=memory_kind, _logical_device_ids=logical_device_ids
    )


# Conversions to the compiler's formats


@functools.lru_cache(maxsize=4096)
def named_sharding_to_xla_hlo_sharding(self, num_dimensions: int):
    self.check_compatible_aval((0,) * num_dimensions)
    hlo_sharding = lib.hlo.HloSharding
    kinds = lib.hlo.OpSharding.Type
    mesh, spec = self.mesh, self.spec
    names, sizes = mesh.axis_names, mesh.axis_sizes

    tiles = [1] * num_dimensions
    used = []
    for dim, entry in enumerate(spec.partitions):
        for name in _entry_axes(entry):
            tiles[dim] *= mesh.shape[name]
            used.append(name)
    manual = [n for n in mesh.manual_axes if n not in spec.unreduced]
    if set(manual) & set(used):
        raise ValueError(
            f"{self} splits dimensions over mesh axes of type Manual,"
            f" {mesh_lib.show_axes(sorted(set(manual) & set(used), key=str))}; only the body of a"
            " shard_map sees those."
        )
    unreduced = [n for n in names if n in spec.unreduced]
    replicated = [n for n in names if n not in (*used, *manual, *unreduced)]

    if len(manual) == len(names) and names:
        return hlo_sharding.manual()
    if len(unreduced) == len(names) and names:
        return hlo_sharding.unreduced()
    groups = [(kinds.MANUAL, manual), (kinds.UNREDUCED, unreduced)]
    groups = [(kind, axes) for kind, axes in groups if axes]
    if not groups and math.prod(tiles) == 1:
        return hlo_sharding.replicate()
    if groups and replicated or math.prod(mesh.shape[n] for n in replicated) != 1:
        groups.append((kinds.REPLICATED, replicated))

    order = used + [n for _, axes in groups for n in axes]
    order += [n for n in names if n not in order]
    subgroup_types = [kind for kind, _ in groups]
    tiles += [math.prod(mesh.shape[n] for n in axes) for _, axes in groups]
    permutation = [names.index(n) for n in order]
    if self._logical_device_ids is None:
        return hlo_sharding.iota_tile(
            dims=tiles,
            reshape_dims=list(sizes),
            transpose_perm=permutation,
            subgroup_types=subgroup_types,
        )
    ids = np.array(self._logical_device_ids, dtype=np.int64).reshape(sizes)
    ids = np.ascontiguousarray(ids.transpose(permutation)).reshape(tiles)
    return hlo_sharding.subgroup_with_device_ordering(ids, subgroup_types=subgroup_types)


class SdyDim(NamedTuple):
    """A dimension in Shardy: its mesh axes, and whether the compiler may add more."""

    axes: tuple[str, ...]
    is_open: bool

    def replace(self, **changes) -> SdyDim:
        return self._replace(**changes)

    def build(self):
        sdy = dialects.sdy
        return sdy.DimensionShardingAttr.get(
            [sdy.AxisRefAttr.get(str(name)) for name in self.axes], is_closed=not self.is_open
        )

    def _custom_repr(self):
        return "{" + ", ".join([*map(repr, self.axes), *(["?"] if self.is_open else [])]) + "}"

    def __repr__(self):
        return f"SdyDim({self._custom_repr()})"


class SdyArray(NamedTuple):
    """The sharding of an array in Shardy: one entry per dimension, over a mesh."""

    mesh_shape: tuple[tuple[str, int], ...] | None
    dim_shardings: tuple[SdyDim, ...]
    logical_device_ids: tuple[int, ...] | None = None
    replicated_axes: frozenset[str] = frozenset()
    unreduced_axes: frozenset[str] = frozenset()

    def replace(self, **changes) -> SdyArray:
        return self._replace(**changes)

    def build(self, attr_cache: dict[SdyArray, Any] | None = None):
        """Build the MLIR attribute in the current context.

        Args:
          attr_cache: attributes that were already built in that context.
        """
        if attr_cache is None:
            return self._build()
        attr = attr_cache.get(self)
        if attr is None:
            attr = attr_cache[self] = self._build()
        return attr

    def _build(self):
        sdy = dialects.sdy
        mesh_shape = self.mesh_shape or ()
        names = [name for name, _ in mesh_shape]

        def axis_refs(axes):
            ordered = sorted(axes, key=lambda a: (names.index(a) if a in names else -1, str(a)))
            return [sdy.AxisRefAttr.get(str(name)) for name in ordered]

        mesh = sdy.MeshAttr.get(
            [sdy.MeshAxisAttr.get(str(name), size) for name, size in mesh_shape],
            [] if self.logical_device_ids is None else list(self.logical_device_ids),
        )
        return sdy.TensorShardingAttr.get(
            mesh,
            [dim.build() for dim in self.dim_shardings],
            replicated_axes=axis_refs(self.replicated_axes),
            unreduced_axes=axis_refs(self.unreduced_axes),
        )

    def __repr__(self):
        dims = ", ".join(dim._custom_repr() for dim in self.dim_shardings)
        ids = self.logical_device_ids
        ids = f", device_ids={ids}" if ids is not None else ""
        axes = f", replicated_axes={self.replicated_axes}" if self.replicated_axes else ""
        return f"SdyArray([{dims}]{ids}{axes})"


@functools.lru_cache(maxsize=4096)
def named_sharding_to_sdy_sharding(
    self, num_dimensions: int, modify_wrt_axis_types: bool
) -> SdyArray:
    """Convert to Shardy. `modify_wrt_axis_types`: the compiler may add mesh axes of type Auto."""
    self.check_compatible_aval((0,) * num_dimensions)
    mesh, spec = self.mesh, self.spec
    let_open = modify_wrt_axis_types and mesh._any_axis_auto
    entries = spec.partitions + (None,) * (num_dimensions - len(spec))
    dims = tuple(
        SdyDim(_entry_axes(entry), let_open or entry is PartitionSpec.UNCONSTRAINED)
        for entry in entries
    )
    replicated = frozenset()
    if let_open:  # the compiler must not add explicit axes
        used = {*_axes_in(spec), *spec.unreduced}
        replicated = frozenset(n for n in mesh.explicit_axes if n not in used)
    return SdyArray(
        mesh_shape=mesh.shape_tuple,
        dim_shardings=dims,
        logical_device_ids=self._logical_device_ids,
        replicated_axes=replicated,
        unreduced_axes=spec.unreduced,
    )


def build_sdy_array_list(shardings: tuple[SdyArray, ...], attr_cache=None):
    return dialects.sdy.TensorShardingPerValueAttr.get([s.build(attr_cache) for s in shardings])


# Partition specs


def _entry_axes(entry) -> tuple[MeshAxisName, ...]:
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _axes_in(spec: PartitionSpec) -> Iterator[MeshAxisName]:
    for entry in spec.partitions:
        yield from _entry_axes(entry)


def flatten_spec(spec) -> list[Any]:
    """The entries of a partition spec, with tuples flattened."""
    out = []
    for entry in spec.partitions if isinstance(spec, PartitionSpec) else spec:
        if isinstance(entry, tuple):
            out.extend(entry)
        else:
            out.append(entry)
    return out


def get_array_mapping(axis_resources):
    """A dictionary from mesh axes to the dimensions they split."""
    if isinstance(axis_resources, UnspecifiedValue):
        return axis_resources
    mapping = collections.OrderedDict()
    for dim, entry in enumerate(axis_resources.partitions):
        for name in _entry_axes(entry):
            mapping[name] = dim
    return mapping


def array_mapping_to_axis_resources(array_mapping) -> PartitionSpec:
    """The partition spec for a dictionary from mesh axes to dimensions."""
    if not array_mapping:
        return PartitionSpec()
    entries: list[list[MeshAxisName]] = [[] for _ in range(max(array_mapping.values()) + 1)]
    for name, dim in array_mapping.items():
        entries[dim].append(name)
    return PartitionSpec(*[tuple(names) or None for names in entries])


def get_replicated_axes(spec: PartitionSpec, mesh) -> frozenset[MeshAxisName]:
    return frozenset(mesh.axis_names) - {*_axes_in(spec), *spec.unreduced}


def remove_size_one_mesh_axis(spec: PartitionSpec, mesh) -> PartitionSpec:
    """A spec without mesh axes of size one, which do not split anything."""
    shape = mesh.shape
    partitions = [
        entry
        if entry is PartitionSpec.UNCONSTRAINED
        else tuple(name for name in _entry_axes(entry) if shape[name] != 1) or None
        for entry in spec.partitions
    ]
    return PartitionSpec(
        *partitions,
        unreduced=frozenset(n for n in spec.unreduced if shape[n] != 1),
        reduced=frozenset(n for n in spec.reduced if shape[n] != 1),
    )


def get_non_one_sized_mesh_spec(mesh, spec: PartitionSpec):
    """An abstract mesh without axes of size one and without a device kind, and the spec over it."""
    kept = [i for i, size in enumerate(mesh.axis_sizes) if size != 1]
    new_mesh = mesh_lib.AbstractMesh(
        tuple(mesh.axis_sizes[i] for i in kept),
        tuple(mesh.axis_names[i] for i in kept),
        tuple(mesh.axis_types[i] for i in kept),
    )
    return new_mesh, remove_size_one_mesh_axis(spec, mesh)


@functools.lru_cache(maxsize=4096)
def check_pspec(mesh, spec, _manual_axes=frozenset()) -> None:
    """Raises an error unless a partition spec fits a mesh; called by the constructor, in C++."""
    if not isinstance(mesh, mesh_lib.BaseMesh):
        raise TypeError(
            "NamedSharding: mesh must be a jax.sharding.Mesh or AbstractMesh, got"
            f" {mesh!r} of type {type(mesh)}."
        )
    if not isinstance(spec, PartitionSpec):
        raise TypeError(
            f"NamedSharding: spec must be a jax.sharding.PartitionSpec, got {spec!r} of type"
            f" {type(spec)}. Write PartitionSpec(...)."
        )
    check_unique_resources(spec, "NamedSharding spec", mesh)
    _check_mesh_resource_axis(mesh, spec)
    _check_mesh_unreduced(mesh, spec)
    if PartitionSpec.UNCONSTRAINED in spec.partitions and not mesh._any_axis_auto:
        raise ValueError(
            f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got mesh"
            f" axis_types: {mesh.axis_types}"
        )


def explicit_part(mesh, spec: PartitionSpec) -> NamedSharding:
    """Return the part of `spec` that types over `mesh` contain: the sharding over Explicit axes."""
    mesh = mesh.abstract_mesh
    explicit = {*mesh.explicit_axes}
    entries = []
    for entry in spec.partitions:
        kept: Any = tuple(name for name in _entry_axes(entry) if name in explicit)
        entries.append((kept if isinstance(entry, tuple) else kept[0]) if kept else None)
    return NamedSharding(
        mesh,
        spec.update(
            partitions=tuple(entries),
            unreduced=spec.unreduced & explicit,
            reduced=spec.reduced & explicit,
        ),
    )


def check_unique_resources(pspec: PartitionSpec, arg_name: str, mesh=None) -> None:
    counts = collections.Counter(_axes_in(pspec))
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise DuplicateSpecError(
            f"A single {arg_name} specification can map every mesh axis to at most one positional"
            f" dimension, but {pspec} has duplicate entries for {mesh_lib.show_axes(repeated)}",
            mesh=mesh,
            pspec=pspec,
        )


def _check_mesh_resource_axis(mesh, pspec):
    for name in _axes_in(pspec):
        if name not in mesh.axis_names:
            raise ValueError(
                f"Resource axis: {name} of {pspec} is not found in mesh: {mesh.axis_names}."
            )


def _check_mesh_unreduced(mesh, pspec):
    for kind, axes in (("Unreduced", pspec.unreduced), ("Reduced", pspec.reduced)):
        for name in axes:
            if name not in mesh.axis_names:
                raise ValueError(
                    f"{kind} axes {name} is not found in mesh.axis_names={mesh.axis_names}."
                    f" Got pspec={pspec}"
                )
            if mesh._name_to_type[name] is not AxisType.Explicit:
                raise ValueError(
                    f"{kind} axes can only refer to mesh axes that is of type `Explicit`. Got"
                    f" {kind.lower()} axes: {axes} and mesh: {mesh}"
                )
