"""Descriptions of hardware that need not be present, for ahead-of-time compilation."""

from jax._src.lib import Device as Device
from jax._src.topologies import (
    TopologyDescription as TopologyDescription,
    get_attached_topology as get_attached_topology,
    get_topology_desc as get_topology_desc,
    make_mesh as make_mesh,
)
from jax.experimental import mesh_utils as mesh_utils
