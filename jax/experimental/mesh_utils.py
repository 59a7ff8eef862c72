"""Arrangements of devices for `jax.sharding.Mesh` that suit the interconnect."""

from jax._src.mesh_utils import (
    create_device_mesh as create_device_mesh,
    create_hybrid_device_mesh as create_hybrid_device_mesh,
    device_kind_handler_dict as device_kind_handler_dict,
)
