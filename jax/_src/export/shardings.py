"""The shardings of exported programs: over abstract meshes, since their devices are elsewhere."""

from __future__ import annotations

from typing import Any

from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding, UnspecifiedValue
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding
from jax._src.sharding_impls import SingleDeviceSharding, parse_flatten_op_sharding

_NO_MESH = AbstractMesh((), ())


def without_devices(sharding: Sharding | UnspecifiedValue | None, ndim: int) -> Any:
    """A sharding as it is exported: a `NamedSharding` over an abstract mesh; None if unspecified.

    Args:
      sharding: of any kind.
      ndim: the number of dimensions of the array.
    """
    if sharding is None or isinstance(sharding, UnspecifiedValue):
        return None
    kind = sharding.memory_kind
    if isinstance(sharding, NamedSharding):
        if isinstance(sharding.mesh, AbstractMesh):
            return sharding
        return NamedSharding(sharding.mesh.abstract_mesh, sharding.spec, memory_kind=kind)
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(_NO_MESH, PartitionSpec(*[None] * ndim), memory_kind=kind)
    hlo = sharding._to_xla_hlo_sharding(ndim)
    if hlo.is_replicated():
        sizes: tuple[int, ...] = (sharding.num_devices,)
    else:
        sizes = tuple([n for n in hlo.tile_assignment_dimensions() if n > 1])
    mesh = AbstractMesh(sizes, tuple([f"_axis_{i}" for i in range(len(sizes))]))
    return NamedSharding(mesh, parse_flatten_op_sharding(hlo, mesh)[0], memory_kind=kind)


def check_mesh(mesh: Any) -> None:
    """Raises TypeError if what the user gives for a mesh is none."""
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            "Expected a jax.sharding.Mesh or AbstractMesh, or None for the mesh used for export, got"
            f" {mesh!r} of type {type(mesh)}"
        )


def over_mesh(
    sharding: NamedSharding | None, mesh: Mesh | AbstractMesh | None
) -> NamedSharding | None:
    """An exported sharding over a mesh of the user, or as it is for None.

    Raises:
      ValueError: the mesh has other axes than the one used for export.
    """
    if sharding is None or mesh is None:
        return None if sharding is None or sharding.mesh.empty else sharding
    if sharding.mesh.empty:  # that of a single device
        if mesh.size == 1:
            spec = PartitionSpec(*[None] * len(sharding.spec))
            return NamedSharding(mesh, spec, memory_kind=sharding.memory_kind)
        return None
    if mesh.shape_tuple != sharding.mesh.shape_tuple:
        raise ValueError(
            f"The mesh {mesh} does not match the one used for export, {sharding.mesh}: it must have "
            "axes of the same names and sizes, in the same order."
        )
    return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)


def hlo_over_mesh(sharding: Any, mesh: Mesh | AbstractMesh | None) -> NamedSharding | None:
    """A sharding in XLA's form, of an earlier version's export, over a mesh of the user.

    Raises:
      ValueError: the axes of the mesh cannot describe it, or there is none.
    """
    if sharding is None:
        return None
    if mesh is None:
        raise ValueError(
            "The program was exported before March 2026, when the mesh was not stored: give one."
        )
    return NamedSharding(mesh, parse_flatten_op_sharding(sharding, mesh)[0])
