"""Descriptions of hardware that need not be present, for ahead-of-time compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import mesh_utils, xla_bridge as xb
from jax._src.lib import Device
from jax._src.mesh import Mesh


class TopologyDescription:
    """The devices of a topology, in the platform's order.

    Args:
      devices: the devices. Those of :func:`get_topology_desc` hold no data and run no programs.
    """

    __slots__ = ("devices", "__weakref__")

    def __init__(self, devices: list[Device]):
        self.devices = devices

    def __repr__(self):
        if not self.devices:
            return "TopologyDescription([])"
        first = self.devices[0]
        return f"TopologyDescription({len(self.devices)} x {first.device_kind}, {first.platform})"


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """Describes the devices of this program.

    Args:
      platform: the name of a platform; the default one if None.

    Returns:
      A :class:`TopologyDescription` of ``jax.devices(platform)``.

    Raises:
      RuntimeError: there is no such platform, or it does not start.

    Example:
      >>> import jax
      >>> from jax.experimental import topologies
      >>> topologies.get_attached_topology("cpu").devices == jax.devices("cpu")
      True
    """
    return TopologyDescription(xb.devices(backend=platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: Any
) -> TopologyDescription:
    """Describes hardware that need not be present.

    Programs are compiled for its devices by the vendor's library, which has to be installed:
    ``libtpu`` for TPUs, ``jax-cuda13-pjrt`` for GPUs of NVIDIA. No platform is started.

    Args:
      topology_name: the hardware in the platform's terms, like ``"v5e:2x2"``.
      platform: ``"tpu"`` (also if None), ``"cuda"`` or the name of another plugin's platform.
      **kwargs: options of the platform. TPUs: ``chips_per_host_bounds``, ``num_slices`` and others.
        CUDA: ``target_config``, the text of a ``GpuTargetConfigProto``, and ``topology``, like
        ``"1x2x8"`` for one slice of 2 hosts with 8 GPUs each.

    Returns:
      A :class:`TopologyDescription`.

    Raises:
      NotImplementedError: the platform cannot describe absent hardware.
      RuntimeError: the platform's library is not installed.
      TypeError: an option is not a string, a number or a sequence of integers.
      jax.errors.JaxRuntimeError: the library knows no such hardware or option.

    Example:
      >>> from jax.experimental import topologies
      >>> topo = topologies.get_topology_desc("v5e:2x2", "tpu")  # doctest: +SKIP
      >>> topo.devices[0].device_kind  # doctest: +SKIP
      'TPU v5 lite'
    """
    for name, value in kwargs.items():
        numbers = isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value)
        if not numbers and not isinstance(value, (str, bool, int, float)):
            raise TypeError(
                f"get_topology_desc: the option {name!r} must be a string, a number or a sequence of"
                f" integers, got {value!r} of type {type(value)}."
            )
    topology = xb.make_pjrt_topology(platform or "tpu", topology_name, **kwargs)
    return TopologyDescription(topology._make_compile_only_devices())


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """Arranges the devices of a topology on a mesh with axes of type Auto.

    Args:
      topo: the topology.
      mesh_shape: the size of each axis.
      axis_names: the name of each axis.
      contiguous_submeshes: whether the devices of each host have to form a box of the mesh.

    Returns:
      A :class:`jax.sharding.Mesh`; see :func:`jax.experimental.mesh_utils.create_device_mesh` for
      the order of its devices, and for what is raised.

    Example:
      >>> from jax.experimental import topologies
      >>> topologies.make_mesh(topologies.get_attached_topology(), (1, 1), ("x", "y"))
      Mesh(axis_sizes=(1, 1), axis_names=('x', 'y'), axis_types=(Auto, Auto))
    """
    if not isinstance(topo, TopologyDescription):
        raise TypeError(
            f"topologies.make_mesh takes a TopologyDescription, got {type(topo)}: see"
            " get_topology_desc, or jax.make_mesh for devices."
        )
    devices = mesh_utils.create_device_mesh(
        mesh_shape, list(topo.devices), contiguous_submeshes=contiguous_submeshes
    )
    return Mesh(devices, axis_names)
