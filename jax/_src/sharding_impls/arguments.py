"""Processing of shardings that users pass as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import source_info_util, xla_bridge as xb
from jax._src.errors import DuplicateSpecError
from jax._src.layout import AutoLayoutSingleton, Format, Layout
from jax._src.lib import Device
from jax._src.mesh import AxisType, get_abstract_mesh, get_concrete_mesh, show_axes
from jax._src.named_sharding import (
    UNSPECIFIED,
    NamedSharding,
    UnspecifiedValue,
    check_unique_resources,
)
from jax._src.op_shardings import as_hlo_sharding, is_hlo_sharding_replicated
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding
from jax._src.sharding_impls.concrete import GSPMDSharding, SingleDeviceSharding
from jax._src.tree_util import none_leaf_registry


def prepare_axis_resources(axis_resources, arg_name, allow_unconstrained_dims=False):
    """Checks a tree of shardings, partition specs and Nones from a user."""
    leaves, treedef = none_leaf_registry.flatten(axis_resources)
    for leaf in leaves:
        if leaf is None or isinstance(leaf, (Sharding, UnspecifiedValue)):
            continue
        check_no_layout(leaf, arg_name)
        if not isinstance(leaf, PartitionSpec):
            raise TypeError(
                f"{arg_name} leaf specifications are expected to be PartitionSpec instances or None,"
                f" but got {leaf}"
            )
        if not allow_unconstrained_dims and PartitionSpec.UNCONSTRAINED in leaf.partitions:
            raise ValueError(
                f"Unconstrained dims are not allowed when passed to {arg_name}: {leaf}"
            )
        check_unique_resources(leaf, arg_name)
    return treedef.unflatten(leaves)


def check_no_layout(leaf: Any, arg_name: str) -> None:
    """Raises ValueError if the user gave a layout without a sharding."""
    if isinstance(leaf, (Layout, AutoLayoutSingleton)):
        raise ValueError(
            f"{arg_name} does not accept device-local layouts directly: pass"
            f" `jax.experimental.layout.Format({leaf}, sharding)`. Got {leaf}"
        )


def canonicalize_sharding(
    sharding: NamedSharding | PartitionSpec | None,
    api_name: str,
    check_mesh_consistency: bool = True,
) -> NamedSharding | None:
    """Convert a user's `out_sharding` of an operation to a sharding over an abstract mesh.

    Raises:
      TypeError: it is not a NamedSharding or a PartitionSpec.
      ValueError: there is no mesh for the PartitionSpec, the meshes differ, or the sharding uses
        mesh axes that are not Explicit.
    """
    if sharding is None:
        return None
    if not isinstance(sharding, (NamedSharding, PartitionSpec)):
        raise TypeError(
            f"`out_sharding` argument of {api_name} only supports instances of `NamedSharding` or"
            f" `PartitionSpec`. Got {sharding} of type: {type(sharding)}"
        )
    context_mesh = get_abstract_mesh()
    if isinstance(sharding, PartitionSpec):
        if context_mesh.empty:
            raise ValueError(
                "Using PartitionSpec when you are not under a mesh context is not allowed. Please"
                " pass a NamedSharding instance or enter into a mesh context via `jax.set_mesh`."
                f" Got {sharding}"
            )
        sharding = NamedSharding(context_mesh, sharding)
    else:
        mesh = sharding.mesh.abstract_mesh
        if check_mesh_consistency and not context_mesh.empty and context_mesh is not mesh:
            raise ValueError(
                f"Context mesh {context_mesh} should match the mesh of sharding {mesh} passed to"
                f" {api_name}.{_at_source()}"
            )
        if sharding.mesh is not mesh:
            sharding = NamedSharding(mesh, sharding.spec)
    mesh, spec = sharding.mesh, sharding.spec
    for entry in spec.partitions:
        if entry is not None and entry is not PartitionSpec.UNCONSTRAINED:
            for name in entry if isinstance(entry, tuple) else (entry,):
                if (axis_type := mesh._name_to_type[name]) is not AxisType.Explicit:
                    raise ValueError(
                        f"PartitionSpec passed to {api_name} cannot contain axis names that are of type"
                        f" Auto or Manual. Got PartitionSpec: {spec} with axis name: {name} of type:"
                        f" {axis_type}.{_at_source()}"
                    )
    return sharding


def sharding_of_shape(sharding: NamedSharding, shape: Sequence[Any]) -> NamedSharding:
    """Return an `out_sharding` without entries of None for dimensions that the shape lacks.

    Raises:
      ValueError: the sharding has other entries for dimensions that the shape lacks.
    """
    if len(sharding.spec) > len(shape):
        sharding = sharding.update(spec=sharding.spec._fitted_to(len(shape)))
        sharding.check_compatible_aval(tuple(shape))
    return sharding


def _at_source() -> str:
    return (
        f" This error occurs at source:  {source_info_util.summarize(source_info_util.current())}"
    )


def is_leaf_sharding(x: Any) -> bool:
    """Whether `x` is a single sharding rather than a tree of shardings."""
    return x is None or isinstance(x, (Sharding, PartitionSpec, UnspecifiedValue, Format))


def canonicalize_jit_sharding(sharding: Any, arg_name: str) -> Any:
    """Convert one leaf of a user's in_shardings or out_shardings.

    Args:
      sharding: the leaf.
      arg_name: the name of the function and the argument, such as "jit in_shardings".

    Returns:
      A sharding, UNSPECIFIED (also for None) or a Format; a PartitionSpec uses the context mesh.

    Raises:
      TypeError: it is anything else.
      RuntimeError: there is no mesh in context for a PartitionSpec.
    """
    if sharding is None:
        return UNSPECIFIED
    if isinstance(sharding, (Sharding, UnspecifiedValue, Format)):
        if (
            isinstance(sharding, NamedSharding)
            and PartitionSpec.UNCONSTRAINED in sharding.spec.partitions
        ):
            raise ValueError(
                f"Unconstrained dims are not allowed when passed to {arg_name}: {sharding}"
            )
        return sharding
    check_no_layout(sharding, arg_name)
    if not isinstance(sharding, PartitionSpec):
        raise TypeError(
            f"{arg_name} leaf specifications are expected to be PartitionSpec instances or None, but"
            f" got {sharding}"
        )
    if PartitionSpec.UNCONSTRAINED in sharding.partitions:
        raise ValueError(
            f"Unconstrained dims are not allowed when passed to {arg_name}: {sharding}"
        )
    mesh = get_concrete_mesh()
    if mesh.empty:
        mesh = get_abstract_mesh()
    if mesh.empty:
        raise RuntimeError(
            f"{arg_name} requires a non-empty mesh in context if you are passing `PartitionSpec`s. You"
            " can define a context mesh via `jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s:"
            " then no mesh in context is needed."
        )
    return NamedSharding(mesh, sharding)


def sharding_of_device_or_backend(device: Device | None, backend: str | None) -> Sharding:
    """The sharding for the arguments `device` and `backend` of `jit`."""
    if device is None:
        device = xb.get_backend(backend).local_devices()[0]
    if not isinstance(device, Device):
        raise TypeError(f"jit's argument device must be a jax.Device, got {device!r}.")
    return SingleDeviceSharding(device)


def batched_sharding(sharding: Any, dim: int | None, axis_data: Any, entry: Any = None) -> Any:
    """The sharding of a batch of values with this sharding, stacked along `dim` (None: no batch).

    Args:
      axis_data: the mapped axis; the new dimension is split by its spmd_name or explicit_mesh_axis.
      entry: the spec entry of the new dimension otherwise: None or UNCONSTRAINED.

    Raises:
      DuplicateSpecError: the spec already contains the axis's spmd_name.
      ValueError: a sharding without a mesh cannot be split by name.
    """
    if dim is None or sharding is None or isinstance(sharding, (UnspecifiedValue, Format)):
        return sharding
    names = axis_data.spmd_name if axis_data.spmd_name is not None else axis_data.explicit_mesh_axis
    if isinstance(sharding, NamedSharding):
        entries = list(sharding.spec.partitions)
        entries += [None] * (dim - len(entries))
        if names is not None:
            names = names if isinstance(names, tuple) else (names,)
            used = [n for e in entries if e for n in (e if isinstance(e, tuple) else (e,))]
            if repeated := [n for n in names if n in used]:
                raise DuplicateSpecError(
                    f"vmap spmd_axis_name {names} cannot appear in the spec of the values' sharding,"
                    f" but {show_axes(repeated)} appears in {sharding.spec}",
                    mesh=sharding.mesh,
                    pspec=sharding.spec,
                )
            entry = names
        elif not sharding.mesh._any_axis_auto:
            entry = None
        entries.insert(dim, entry)
        return sharding.update(spec=sharding.spec.update(partitions=entries))
    if isinstance(sharding, GSPMDSharding):
        hlo_sharding = sharding._hlo_sharding
        if names is not None:
            raise ValueError(f"vmap spmd_axis_name {names} needs a NamedSharding, got {sharding}.")
        if is_hlo_sharding_replicated(hlo_sharding) or not hlo_sharding.is_tiled():
            return sharding
        proto = hlo_sharding.to_proto().clone()
        tiles = list(proto.tile_assignment_dimensions)
        tiles.insert(dim, 1)
        proto.tile_assignment_dimensions = tiles
        return GSPMDSharding(
            sharding._internal_device_list, as_hlo_sharding(proto), memory_kind=sharding.memory_kind
        )
    return sharding
