"""Construction of meshes, and the mesh in context."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jax._src import config, core, mesh_utils, traceback_util, xla_bridge as xb
from jax._src.lib import Device
from jax._src.mesh import (
    AxisType,
    Mesh,
    empty_abstract_mesh,
    empty_concrete_mesh,
    get_concrete_mesh,
    swap_abstract_mesh,
    swap_concrete_mesh,
)


@traceback_util.api_boundary
def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """Makes a mesh, with devices in an order that suits their network.

    Args:
      axis_shapes: the size of each axis.
      axis_names: the name of each axis.
      axis_types: an :class:`jax.sharding.AxisType` for each axis; Explicit by default.
      devices: the devices to choose from; all by default.

    Returns:
      A :class:`jax.sharding.Mesh`.

    Raises:
      ValueError: there are too few devices, or the lengths of the arguments differ.

    Example:
      >>> import jax
      >>> jax.make_mesh((1,), ("batch",))
      Mesh(axis_sizes=(1,), axis_names=('batch',), axis_types=(Explicit,))
    """
    sizes = mesh_utils.canonicalize_axis_sizes(axis_shapes)
    if sizes is None or any(size < 1 for size in sizes):
        raise ValueError(
            "axis_shapes passed to make_mesh must be a sequence of positive integers, got"
            f" {axis_shapes!r}"
        )
    axis_shapes = sizes
    if isinstance(axis_names, str):
        axis_names = (axis_names,)
    axis_names = tuple(axis_names)
    if len(axis_shapes) != len(axis_names):
        raise ValueError(
            "make_mesh needs a name for each axis size. Got"
            f" axis_shapes={axis_shapes} and axis_names={axis_names}"
        )
    devices = list(xb.devices()) if devices is None else list(np.asarray(devices).flat)
    size = math.prod(axis_shapes)
    if size > len(devices):
        raise ValueError(
            f"Number of devices {len(devices)} must be >= the product of mesh_shape {axis_shapes}"
        )
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(axis_names)
    mesh_devices = mesh_utils.create_device_mesh(
        axis_shapes, devices[:size], allow_split_physical_axes=True
    )
    return Mesh(mesh_devices, axis_names, axis_types=axis_types)


class set_mesh:
    """Sets the mesh in context: as a context manager, or for the rest of the thread.

    With Explicit axes, the types of arrays (:func:`jax.typeof`) contain shardings over this mesh.
    With all types of axes, a :class:`jax.P` can be passed where a sharding is expected.

    Args:
      mesh: a :class:`jax.sharding.Mesh`; None for no mesh.

    Raises:
      ValueError: ``mesh`` is not a Mesh, has axes of type Manual, or the call is inside
        ``jax.jit``.

    Example:
      >>> import jax
      >>> with jax.set_mesh(jax.make_mesh((1,), ("x",))):
      ...   print(jax.sharding.get_mesh().axis_names)
      ('x',)
    """

    __slots__ = ("prev_abstract_mesh", "prev_mesh")

    def __init__(self, mesh: Mesh | None):
        if mesh is None:
            mesh = empty_concrete_mesh
        if not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}")
        if not core.trace_ctx.is_top_level():
            raise ValueError(
                "`set_mesh` can only be used outside of `jax.jit`. Within it, use"
                " `jax.sharding.use_abstract_mesh`."
            )
        if mesh.manual_axes:
            raise ValueError(
                f"mesh {mesh} contains manual axes which is not allowed when using `jax.set_mesh`."
                " Please use `jax.shard_map` to enter into `Manual` mode instead."
            )
        self.prev_abstract_mesh = swap_abstract_mesh(mesh.abstract_mesh)
        self.prev_mesh = swap_concrete_mesh(mesh)

    def __enter__(self):
        pass

    def __exit__(self, exc_type, exc_value, traceback):
        config.abstract_mesh_context_manager.set_local(self.prev_abstract_mesh)
        config.device_context.set_local(self.prev_mesh)


set_mesh.__module__ = "jax"


def get_mesh() -> Mesh:
    """The mesh set by :func:`jax.set_mesh`, or an empty mesh.

    Raises:
      ValueError: inside ``jax.jit``; use :func:`jax.sharding.get_abstract_mesh` there.

    Example:
      >>> import jax
      >>> jax.sharding.get_mesh().empty
      True
    """
    if not core.trace_ctx.is_top_level():
        raise ValueError(
            "`get_mesh` can only be used outside of `jax.jit`. Maybe you want"
            " `jax.sharding.get_abstract_mesh()`?"
        )
    return get_concrete_mesh()


class use_concrete_mesh:
    """Sets the concrete mesh only, for code that runs while a program is traced."""

    __slots__ = ("mesh", "prev")

    def __init__(self, mesh: Mesh):
        if not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}")
        self.mesh = mesh

    def __enter__(self):
        self.prev = swap_concrete_mesh(self.mesh)

    def __exit__(self, exc_type, exc_value, traceback):
        config.device_context.set_local(self.prev)


class without_mesh:
    """Sets no mesh, for programs on arrays of single devices: others have the mesh's devices."""

    __slots__ = ("abstract", "concrete")

    def __enter__(self):
        self.abstract = swap_abstract_mesh(empty_abstract_mesh)
        self.concrete = swap_concrete_mesh(empty_concrete_mesh)

    def __exit__(self, exc_type, exc_value, traceback):
        config.abstract_mesh_context_manager.set_local(self.abstract)
        config.device_context.set_local(self.concrete)
