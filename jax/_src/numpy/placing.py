"""Where creation functions put their results: their arguments `device` and `out_sharding`."""

from __future__ import annotations

from typing import Any

from jax._src import core
from jax._src.basearray import Array
from jax._src.device_put.functions import device_put
from jax._src.lax.resharding import place
from jax._src.lib import Device
from jax._src.mesh import get_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.numpy import util
from jax._src.sharding import Sharding


def placed(name: str, x: Array, device: Any, out_sharding: Any) -> Array:
    """Places `x` on a device or with a sharding, which need not become part of its type."""
    util.check_one_placement(name, device, out_sharding)
    if device is None and out_sharding is None:
        return x
    if out_sharding is not None:
        device = util.target_of_type(f"jnp.{name}", out_sharding, x.ndim)
    if isinstance(x, core.Tracer) and isinstance(device, Device):
        return x  # computed by the program's devices, as `device_put` to a device leaves it
    if isinstance(x, core.Tracer) and isinstance(device, Sharding) and device._is_concrete:
        if device.memory_kind not in (None, device._internal_device_list.default_memory_kind):
            return device_put(x, device)  # a constraint would only give it the devices
    return place(x, device, f"jnp.{name}")


def placed_constant(name: str, x: Array, device: Any, out_sharding: Any) -> Array:
    """Places an array of equal elements. If it is traced, the program's devices compute it.

    Then one device says nothing, nor do axes that a `shard_map` maps over: the value is a shard.
    """
    sharding = util.placement(name, device, out_sharding)
    if isinstance(x, core.Tracer) and device is not None:
        if sharding.num_devices == 1:
            return x
        if isinstance(sharding, NamedSharding):
            split = set(sharding.mesh.axis_names) - sharding.replicated_axes
            if split & set(get_abstract_mesh().manual_axes):
                return x
    return placed(name, x, device, out_sharding)
