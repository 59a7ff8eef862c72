"""The axes that `pmap` maps, and the devices over which it maps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import xla_bridge as xb
from jax._src.api_util import flatten_axes
from jax._src.mesh import AxisType, Mesh
from jax._src.partition_spec import PartitionSpec
from jax._src.transforms.vmap import mapped_axis_size
from jax._src.tree_util import keystr, leaf_key_paths, tree_leaves, treedef_children


def check_axes(in_axes: Any, out_axes: Any) -> Any:
    """Check the types of axes; returns in_axes, with a tuple in place of a list.

    Raises:
      TypeError: if there is another leaf than an integer or None.
    """
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(leaf) is int for leaf in tree_leaves(axes)):
            raise TypeError(
                f"pmap {name} must be an int, None, or (nested) container with those types as leaves, "
                f"but got {axes}."
            )
    return tuple(in_axes) if type(in_axes) is list else in_axes


def check_axis_name(name: Any) -> None:
    """Raise an error for a name that collectives could not refer to."""
    hash(name)
    if isinstance(name, (tuple, int)):
        raise ValueError(
            f"pmap axis_name is {name!r}: collectives take a tuple for several axes, and an int for a "
            "dimension. Use a string, for instance."
        )


def check_devices(devices: Sequence[Any]) -> tuple[Any, ...]:
    """The devices as a tuple; raises ValueError if there is none, or one more than once."""
    devices = tuple(devices)
    if not devices:
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    twice = sorted({d.id for d in devices if devices.count(d) > 1})
    if twice:
        raise ValueError(f"'devices' argument to pmap has devices more than once: ids {twice}.")
    return devices


# Axes of arguments and results


def flat_in_axes(in_axes: Any, in_tree: Any, statics: Sequence[int]) -> list[int | None]:
    """The mapped axis of each flat argument that is not static, or None.

    Args:
      in_axes: as given; a tuple has entries for static arguments too.
      in_tree: the tree of the arguments and keyword arguments that are not static.
      statics: the positions of static arguments.

    Raises:
      ValueError: if in_axes is no tree prefix of the arguments.
    """
    args_tree, kwargs_tree = treedef_children(in_tree)
    if type(in_axes) is tuple:
        n = len(treedef_children(args_tree)) + len(statics)
        if len(in_axes) != n:
            hint = ""
            if kwargs_tree.num_leaves:
                hint = " Arguments passed by keyword have no entry: they are mapped over axis 0."
            raise ValueError(
                "pmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"len(in_axes)={len(in_axes)}, len(args)={n}.{hint}"
            )
        in_axes = tuple([a for i, a in enumerate(in_axes) if i not in statics])
    return flatten_axes("pmap in_axes", in_tree, (in_axes, 0), kws=True)


def mapped_size(
    fun: Callable, in_tree: Any, avals: Sequence[Any], in_axes: Sequence[int | None],
    given: int | None,
) -> int:  # fmt: skip
    """The size of the mapped axes of arguments of these types.

    Raises:
      ValueError: if sizes differ, there are none, or an argument does not have its axis.
    """
    if all(a is None for a in in_axes):
        raise ValueError(
            "pmap requires at least one argument with a mapped axis: all in_axes are None, or there "
            "are no arguments."
        )
    size = mapped_axis_size("pmap", fun, in_tree, avals, in_axes, given)
    if size == 0:
        raise ValueError(f"pmap of {_name(fun)}: the mapped axis has size 0.")
    return size


def positive(axis: int | None, ndim: int) -> int | None:
    """The position of an axis that may be counted from the end."""
    return axis if axis is None or axis >= 0 else axis + ndim


def flat_out_axes(
    fun: Callable, out_axes: Any, out_tree: Any, ndims: Sequence[int]
) -> list[int | None]:
    """The position of the mapped axis in each flat result, or None.

    Args:
      fun: the mapped function.
      out_axes: as given.
      out_tree: the tree of the result.
      ndims: the number of dimensions of each flat result, without the mapped axis.

    Raises:
      ValueError: if out_axes is no tree prefix of the result, or a result has too few dimensions.
    """
    flat = flatten_axes("pmap out_axes", out_tree, out_axes)
    for i, (axis, ndim) in enumerate(zip(flat, ndims)):
        if axis is not None and not -ndim - 1 <= axis <= ndim:
            path = keystr(leaf_key_paths(out_tree)[i])
            raise ValueError(
                f"pmap out_axes: axis {axis} is out of bounds for the result{path} of {_name(fun)}, which "
                f"has {ndim + 1} dimensions together with the mapped axis."
            )
    return [positive(a, n + 1) for a, n in zip(flat, ndims)]


def spec_of_axis(axis: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _name(fun: Callable) -> Any:
    return getattr(fun, "__name__", fun)


# Devices


def make_mesh(
    fun: Callable, name: Any, size: int, devices: Sequence[Any] | None, backend: str | None
) -> Mesh:
    """The mesh of the devices for a mapped axis.

    Args:
      fun: the mapped function.
      name: the name of the axis.
      size: the size of the axis.
      devices: the devices that the user gave, or None.
      backend: the platform that the user gave, or None.

    Raises:
      ValueError: if there are too few devices.
    """
    given = devices is not None
    devices = all_devices(devices, backend)
    if size != len(devices):
        devices = _of_this_process(devices)
    if size > len(devices):
        source = "in its argument `devices`" if given else "available"
        raise ValueError(
            f"compiling computation that requires {size} replicas, but only {len(devices)} XLA devices "
            f"are {source}: the mapped axis of pmap of {_name(fun)} has size {size}."
        )
    return _mesh_of(devices[:size], name)


def all_devices(devices: Sequence[Any] | None, backend: str | None) -> tuple[Any, ...]:
    """The devices over which `pmap` may map: those of all processes."""
    return tuple(xb.devices(backend)) if devices is None else tuple(devices)


def _of_this_process(devices: tuple[Any, ...]) -> tuple[Any, ...]:
    process = devices[0].client.process_index()
    return tuple([d for d in devices if d.process_index == process])


def spanning_mesh(name: Any, devices: Sequence[Any] | None, backend: str | None) -> Mesh | None:
    """The mesh of all devices if they belong to several processes, otherwise None."""
    devices = all_devices(devices, backend)
    n = len(_of_this_process(devices))
    return _mesh_of(devices, name) if 0 < n < len(devices) else None


def check_local_size(fun: Callable, size: int, mesh: Mesh, given: int | None) -> None:
    """Raise ValueError unless the axis of one process's arguments has the size of its devices."""
    if size != mesh.local_mesh.size:
        raise ValueError(
            f"pmap of {_name(fun)} over {mesh.size} devices of several processes: the mapped axis of the "
            f"arguments must have the size {mesh.local_mesh.size}, the number of these devices in this "
            f"process, but it has size {size}. Select devices with the argument `devices`."
        )
    if given is not None and given != mesh.size:
        raise ValueError(
            f"pmap of {_name(fun)} got axis_size={given}, but with several processes it is the size of "
            f"the mapped axis over all of them, which is {mesh.size}."
        )


def _mesh_of(devices: tuple[Any, ...], name: Any) -> Mesh:
    array = np.empty(len(devices), dtype=object)
    array[:] = devices
    return Mesh(array, (name,), axis_types=(AxisType.Auto,))
