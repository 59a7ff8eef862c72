"""Partition specs of shard_map: the types of shards, and the types of whole arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from jax._src import core, dtypes
from jax._src.core import HiPspec, ShapedArray
from jax._src.core.manual_axis_type import ManualAxisType, empty_mat
from jax._src.late_binding import late
from jax._src.mesh import AbstractMesh, AxisType
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec


def entry_axes(entry: Any) -> tuple[Any, ...]:
    """The mesh axes in one entry of a spec."""
    if entry is None:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def spec_axes(spec: PartitionSpec) -> tuple[Any, ...]:
    """The mesh axes over which a spec splits dimensions, in the order of the dimensions."""
    return tuple([name for entry in spec.partitions for name in entry_axes(entry)])


def manual_mesh(mesh: AbstractMesh, manual_axes: Iterable[Any]) -> AbstractMesh:
    """The abstract mesh in which `manual_axes` are Manual."""
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual_axes, AxisType.Manual))


def shard_aval(
    mesh: AbstractMesh, manual_axes: frozenset[Any], check_vma: bool, spec: PartitionSpec, aval: Any
) -> Any:
    """The type of a shard of a value: of an argument of the body."""
    if type(aval) is core.AbstractRef:
        inner = shard_aval(mesh, manual_axes, check_vma, spec, aval.inner_aval)
        return aval.update(inner_aval=inner)
    if isinstance(spec, HiPspec):
        return aval.shard(mesh, manual_axes, check_vma, spec)
    if not isinstance(aval, ShapedArray):
        return aval
    sizes = mesh.shape
    shape = list(aval.shape)
    for dim, entry in enumerate(spec.partitions):
        for name in entry_axes(entry):
            shape[dim] //= sizes[name]
    mat = aval.manual_axis_type
    if check_vma:
        mat = _manual_type(
            mat.varying.union(spec_axes(spec)),
            mat.unreduced.union(spec.unreduced),
            mat.reduced.union(spec.reduced),
        )
    return aval.update(
        shape=tuple(shape),
        sharding=_inner_sharding(mesh, manual_axes, aval),
        manual_axis_type=mat,
    )


def _manual_type(varying: frozenset, unreduced: frozenset, reduced: frozenset) -> ManualAxisType:
    if not (varying or unreduced or reduced):
        return empty_mat
    return ManualAxisType(varying=varying, unreduced=unreduced, reduced=reduced)


def _inner_sharding(mesh: AbstractMesh, manual_axes: frozenset[Any], aval: Any) -> Any:
    """The sharding of a shard over the axes that stay Explicit."""
    inner = manual_mesh(mesh, manual_axes)
    if not inner._any_axis_explicit:
        return None
    entries: list[Any] = [None] * aval.ndim
    if aval._sharding is not None:
        for dim, entry in enumerate(aval._sharding.spec.partitions):
            entries[dim] = tuple([n for n in entry_axes(entry) if n not in manual_axes]) or None
    return NamedSharding(inner, PartitionSpec(*entries))


def unshard_aval(
    mesh: AbstractMesh,
    manual_axes: frozenset[Any],
    spec: PartitionSpec | HiPspec,
    aval: Any,
    check_vma: bool = True,
) -> Any:
    """The type of the whole value that shards form: of a result of shard_map."""
    if isinstance(spec, HiPspec):
        return aval.unshard(mesh, check_vma, spec)
    if not isinstance(aval, ShapedArray):
        return aval
    sizes = mesh.shape
    shape = list(aval.shape)
    for dim, entry in enumerate(spec.partitions):
        shape[dim] *= math.prod([sizes[n] for n in entry_axes(entry)])
    mat = aval.manual_axis_type
    if mat is not empty_mat:
        mat = _manual_type(
            mat.varying - manual_axes, mat.unreduced - manual_axes, mat.reduced - manual_axes
        )
    return aval.update(
        shape=tuple(shape),
        sharding=_outer_sharding(mesh, spec, aval),
        manual_axis_type=mat,
    )


def _outer_sharding(mesh: AbstractMesh, spec: PartitionSpec, aval: Any) -> Any:
    """The sharding of a whole value over Explicit axes: of the spec, and of the shards' type."""
    mesh = mesh.abstract_mesh
    if not mesh._any_axis_explicit:
        return None
    spec = part_over(spec, frozenset(mesh.explicit_axes), aval.ndim)
    return NamedSharding(
        mesh, spec if aval._sharding is None else joined_spec(spec, aval._sharding.spec)
    )


def joined_spec(spec: PartitionSpec, inner: PartitionSpec) -> PartitionSpec:
    """A spec over some axes, followed in each dimension by that of the shards over others."""
    entries = []
    for dim, entry in enumerate(inner.partitions):
        axes = entry_axes(entry)
        if dim < len(spec):
            axes = entry_axes(spec.partitions[dim]) + axes
        entries.append(axes if len(axes) > 1 else axes[0] if axes else None)
    return spec.update(partitions=tuple(entries))


def residual_spec(
    mesh: AbstractMesh, manual_axes: frozenset[Any], check_vma: bool, aval: Any
) -> PartitionSpec:
    """The spec of a value that one shard_map stores for another: each device keeps its own."""
    if aval.is_high:
        return aval.nospec(mesh, check_vma, tuple(mesh.axis_names))
    if not isinstance(aval, ShapedArray):
        return PartitionSpec()
    axes = [n for n in mesh.axis_names if n in manual_axes]
    if check_vma:
        axes = [n for n in axes if n in aval.vma]
    return PartitionSpec(tuple(axes)) if axes else PartitionSpec()


def named_axes(spec: PartitionSpec | HiPspec) -> set[Any]:
    """The mesh axes that a spec names."""
    specs = spec.to_lo() if isinstance(spec, HiPspec) else (spec,)
    return {n for s in specs for n in (*spec_axes(s), *s.unreduced, *s.reduced)}


def lo_specs(specs: Sequence[Any]) -> list[PartitionSpec]:
    """The specs of the arrays that represent values with these specs."""
    return [lo for s in specs for lo in (s.to_lo() if isinstance(s, HiPspec) else (s,))]


def _shard(
    aval: Any, mesh: Any, manual_axes: frozenset[Any], check_vma: bool, spec: PartitionSpec
) -> Any:
    return shard_aval(mesh, manual_axes, check_vma, spec, aval)


def _unshard(aval: Any, mesh: Any, check_vma: bool, spec: PartitionSpec) -> Any:
    return unshard_aval(mesh, frozenset(named_axes(spec)), spec, aval)


def _nospec(aval: Any, mesh: Any, check_vma: bool, all_names: tuple[Any, ...]) -> PartitionSpec:
    return residual_spec(mesh, frozenset(all_names), check_vma, aval)


late.shard_array, late.unshard_array, late.nospec_array = _shard, _unshard, _nospec


def insert_entry(spec: PartitionSpec, dim: int, entry: Any) -> PartitionSpec:
    """A spec with an entry for a new dimension `dim`."""
    entries = list(spec.partitions)
    entries += [None] * (dim - len(entries))
    entries.insert(dim, entry)
    return spec.update(partitions=tuple(entries))


def unmentioned(
    mesh: AbstractMesh, manual_axes: frozenset[Any], spec: PartitionSpec | HiPspec
) -> tuple[Any, ...]:
    """The manual axes that a spec does not name, in the order of the mesh."""
    used = named_axes(spec)
    return tuple([n for n in mesh.axis_names if n in manual_axes and n not in used])


def physical_spec(spec: PartitionSpec, aval: Any) -> PartitionSpec:
    """The spec for the array that represents a value of an extended dtype."""
    if isinstance(getattr(aval, "dtype", None), dtypes.ExtendedDType):
        extra = core.physical_aval(aval).ndim - aval.ndim
        entries = [*spec.partitions, *[None] * (aval.ndim - len(spec)), *[None] * extra]
        return spec.update(partitions=tuple(entries))
    return spec


def part_over(spec: PartitionSpec, axes: frozenset[Any], ndim: int) -> PartitionSpec:
    """The part of a spec over some axes, with an entry for each dimension."""
    entries = []
    for entry in (*spec.partitions, *[None] * (ndim - len(spec))):
        kept = tuple([n for n in entry_axes(entry) if n in axes])
        entries.append(kept if len(kept) > 1 else kept[0] if kept else None)
    return PartitionSpec(*entries, unreduced=spec.unreduced & axes, reduced=spec.reduced & axes)


def explicit_spec(aval: Any, axes: frozenset[Any]) -> PartitionSpec:
    """The part of a type's sharding over some axes."""
    sharding = getattr(aval, "_sharding", None)
    spec = PartitionSpec() if sharding is None else sharding.spec
    return part_over(spec, axes, len(getattr(aval, "shape", ())))
