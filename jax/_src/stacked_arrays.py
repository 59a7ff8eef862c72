"""Arrays made of one value for each device: functions that are no longer public, but used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.array import make_array_from_single_device_arrays
from jax._src.core import typeof
from jax._src.device_put.functions import device_put
from jax._src.lax import lax
from jax._src.lib import Device
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.tree_util import tree_map


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Device]) -> Any:
    """Stacks the values of all devices along a new first dimension, which is split among them.

    Args:
      shards: for each device, a pytree of arrays; all have the same shapes and dtypes.
      devices: as many devices.

    Returns:
      A pytree of arrays of shape (len(devices), ...).

    Raises:
      TypeError: if `shards` is not a sequence.
      ValueError: if there is not one shard for each device, or their types differ.
    """
    if not isinstance(shards, Sequence):
        raise TypeError(f"device_put_sharded `shards` input must be a sequence; got {type(shards)}")
    if len(shards) != len(devices):
        raise ValueError(f"len(shards) = {len(shards)} must equal len(devices) = {len(devices)}.")
    if not devices:
        raise ValueError("device_put_sharded needs at least one device")
    return tree_map(lambda *xs: _stacked("_device_put_sharded", xs, devices), *shards)


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """Puts copies on all devices, as an array with a new first dimension that is split among them.

    Args:
      x: a pytree of arrays.
      devices: the devices.

    Returns:
      A pytree of arrays of shape (len(devices), ...).

    Raises:
      ValueError: if there is no device.
    """
    if not isinstance(devices, Sequence) or not devices:
        raise ValueError(
            "`devices` argument to `device_put_replicated must be a non-empty sequence."
        )
    return tree_map(lambda x: _stacked("_device_put_replicated", [x] * len(devices), devices), x)


def _stacked(name: str, xs: Sequence[Any], devices: Sequence[Device]) -> Any:
    avals = [typeof(x) for x in xs]
    for aval in avals[1:]:
        if (aval.shape, aval.dtype) != (avals[0].shape, avals[0].dtype):
            raise ValueError(
                "the shards passed to device_put_sharded must have consistent shape and dtype, but got "
                f"{avals[0]} and {aval}."
            )
    sharding = NamedSharding(Mesh(np.array(devices), (name,)), PartitionSpec(name))
    parts = [lax.expand_dims(device_put(x, device), (0,)) for x, device in zip(xs, devices)]
    shape = (len(devices), *avals[0].shape)
    return make_array_from_single_device_arrays(shape, sharding, parts)
