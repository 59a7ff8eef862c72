"""Checks that all processes pass the same value to `device_put`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.array_impl import ArrayImpl
from jax._src.device_put.values import REUSE, device_put_value, identity_program
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding

# The arrays of numbers that values of other classes, such as keys, are made of.
underlying_arrays: dict[type, Callable[[Any], ArrayImpl]] = {}


def check_same_value(x: Any, target: Sharding) -> None:
    """Compares a value of this process with those of the other processes of a sharding.

    Raises:
      AssertionError: they differ.
    """
    kind, description = type(x), ""
    if kind in underlying_arrays:
        description = f"{x.dtype} of "
        x = underlying_arrays[kind](x)
    if isinstance(x, ArrayImpl) and not x._sharding.is_fully_addressable:
        return  # a part of a value that all processes share
    try:
        value = np.asarray(x)
        content = value.tobytes()
    except TypeError:
        return  # `device_put` raises the error
    import hashlib  # brings OpenSSL, which `import jax` would feel

    description += f"{value.dtype}{list(value.shape)}"
    digest = hashlib.blake2b(content, digest_size=28, key=description.encode()[:64])
    digests = gather_rows(np.frombuffer(digest.digest(), np.uint32), target)
    if (digests != digests[0]).any():
        raise AssertionError(
            f"{kind} passed to device_put is not the same on each process. Make sure you are passing"
            f" the same value of {kind} on each process: here it is {description} with {value}. Parts"
            " that differ make an array with jax.make_array_from_process_local_data."
        )


def gather_rows(row: np.ndarray, target: Sharding) -> np.ndarray:
    """The rows that the processes of a sharding pass, one below the other."""
    first = {d.process_index: d for d in reversed(list(target._device_assignment))}
    devices = [first[i] for i in sorted(first)]
    mesh = Mesh(np.array(devices), ("processes",))
    sharding = NamedSharding(mesh, PartitionSpec("processes"))
    local = [d for d in devices if d.process_index == d.client.process_index()]
    if not local:
        return row[None]
    rows = device_put_value(row[None], local[0], REUSE)
    aval = rows.aval.update(shape=(len(devices), *row.shape))
    whole = ArrayImpl(aval, sharding, [rows], committed=True)
    return np.asarray(identity_program(NamedSharding(mesh, PartitionSpec()), ())(whole))
