"""Transfers of arrays between processes that are not parts of one program.

A process offers arrays under a number, and another one that knows its address fetches them. The
classes are native; their methods for pytrees are defined here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.array_impl import ArrayImpl
from jax._src.core import ShapeDtypeStruct, physical_aval, typeof
from jax._src.device_put.functions import device_put
from jax._src.lib import _jax
from jax._src.native_classes import use_cpp_class
from jax._src.random.keys import key_data, wrap_key_data
from jax._src.sharding import Sharding
from jax._src.sharding_impls import physical_sharding
from jax._src.tree_util import tree_flatten, tree_leaves, tree_unflatten

start_transfer_server = _jax.start_transfer_server


@use_cpp_class(_jax.TransferServer)
class TransferServer:
    """Offers arrays to other processes; `start_transfer_server` makes one.

    The native methods are `address`, which returns the address for requests, and `connect`, which
    makes a :class:`TransferConnection` to the server of such an address.
    """

    __module__ = "jax.experimental.transfer"

    def await_pull(self, uuid: int, arrays: Any, timeout: Any = None) -> None:
        """Offer arrays to other processes.

        Args:
          uuid: a number from 0 to 2**64 - 1, by which :meth:`TransferConnection.pull` asks for them.
          arrays: a pytree of arrays.
          timeout: when to stop waiting, a `datetime.datetime`; for runtimes that support this.

        Raises:
          TypeError: a leaf is not an array outside of transformations.
        """
        leaves = [_data(x) for x in tree_leaves(arrays)]
        self._await_pull_flat(uuid, leaves, timeout)


@use_cpp_class(_jax.TransferConnection)
class TransferConnection:
    """A connection to the server of another process; `TransferServer.connect` makes one."""

    __module__ = "jax.experimental.transfer"

    def pull(self, uuid: int, xs: Any, timeout: Any = None) -> Any:
        """Fetch arrays from another process.

        Args:
          uuid: the number under which it offers the arrays, or will offer them.
          xs: a pytree of :class:`jax.ShapeDtypeStruct` with shardings, or of arrays. It must be of the
            same length as the offered one, with the same shards of arrays.
          timeout: when to stop waiting, a `datetime.datetime`; for runtimes that support this.

        Returns:
          A pytree of arrays, which may arrive later. If something is wrong, using them raises
          `jax.errors.JaxRuntimeError`.

        Raises:
          TypeError: a leaf is not a type with a sharding.
          ValueError: the leaves are on devices of different platforms.
        """
        leaves, treedef = tree_flatten(xs)
        if not leaves:
            return tree_unflatten(treedef, [])
        specs = [_spec(x) for x in leaves]
        clients = {d.client for spec in specs for d in spec.sharding.device_set}
        if len(clients) > 1:
            platforms = sorted(c.platform for c in clients)
            raise ValueError(
                f"pull fetches arrays to devices of one platform, got shardings of {platforms}."
            )
        (client,) = clients
        outs = self._pull_flat(uuid, client, specs, timeout)
        return tree_unflatten(treedef, [_result(x, out) for x, out in zip(leaves, outs)])


def make_error_array(aval: Any, message: Any) -> Any:
    """Make an array that raises an error when it is used, as a failed transfer does.

    Args:
      aval: a type with a sharding, such as a :class:`jax.ShapeDtypeStruct`.
      message: the text of the error.

    Raises:
      TypeError: `aval` has no sharding.

    Example:
      >>> from jax.experimental.transfer import make_error_array
      >>> sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
      >>> x = make_error_array(jax.ShapeDtypeStruct((2,), jnp.float32, sharding=sharding), "lost")
      >>> x.block_until_ready()
      Traceback (most recent call last):
        ...
      jax.errors.JaxRuntimeError: INTERNAL: lost
    """
    sharding = getattr(aval, "sharding", None)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"make_error_array takes a type with a sharding, got {aval!r} of type {type(aval)}."
        )
    device = next(iter(sharding.device_set))
    return _jax._make_error_array(device.client, aval, str(message))


def _data(x: Any) -> Any:
    if type(x) is not ArrayImpl and dtypes.issubdtype(getattr(x, "dtype", None), dtypes.prng_key):
        x = key_data(x)
    if type(x) is not ArrayImpl:
        raise TypeError(
            f"await_pull takes a pytree of arrays, got a leaf of type {type(x)}: convert it with"
            " `jax.device_put`, outside of transformations such as `jax.jit`."
        )
    return x


def _spec(x: Any) -> ShapeDtypeStruct:
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, Sharding) or not hasattr(x, "shape"):
        raise TypeError(
            f"pull takes a pytree of jax.ShapeDtypeStruct with shardings, got {x!r} of type"
            f" {type(x)}."
        )
    if not dtypes.issubdtype(x.dtype, dtypes.prng_key):
        return ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
    aval = typeof(ShapeDtypeStruct(x.shape, x.dtype))
    physical = physical_aval(aval)
    sharding = physical_sharding(aval, sharding)
    return ShapeDtypeStruct(physical.shape, physical.dtype, sharding=sharding)


def _result(spec: Any, out: Any) -> Any:
    if 0 in out.shape:  # the runtime may never complete a transfer of nothing
        out = device_put(np.zeros(out.shape, out.dtype), out.sharding)
    if dtypes.issubdtype(spec.dtype, dtypes.prng_key):
        return wrap_key_data(out, dtype=spec.dtype)
    return out
