"""Transfers of arrays between processes that are not parts of one program.

A server has an address for requests, and others for the data, which must be given for connections
between processes. They consist of an IP address, under which the other process can reach this one,
and a port, or 0 for any.

Example:
  A process offers an array, and tells another one its address and the number 1::

    client = jax.devices()[0].client
    server = transfer.start_transfer_server(client, "10.0.0.1:0", ["10.0.0.1:0"])
    server.await_pull(1, x)
    print(server.address())

  which fetches it::

    client = jax.devices()[0].client
    server = transfer.start_transfer_server(client, "10.0.0.2:0", ["10.0.0.2:0"])
    connection = server.connect("10.0.0.1:43699")
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    x = connection.pull(1, jax.ShapeDtypeStruct((8,), jnp.float32, sharding=sharding))
"""

from typing import TYPE_CHECKING as TYPE_CHECKING  # the original's module has it too

# Names of helpers, which the original's module has too.
from jax._src.native_classes import (
    use_cpp_class as use_cpp_class,
    use_cpp_method as use_cpp_method,
)
from jax._src.transfer import (
    TransferConnection as TransferConnection,
    TransferServer as TransferServer,
    make_error_array as make_error_array,
    start_transfer_server as start_transfer_server,
)
