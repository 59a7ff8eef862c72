"""The server that tools such as XProf and `jax.collect_profile` ask for traces of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jax._src import lib, xla_bridge
from jax._src.util import set_module

export = set_module("jax.profiler")

_lock = threading.Lock()
_server: Any = None


@export
def start_server(port: int, requires_backend: bool = True) -> Any:
    """Starts the server of this process, which tools connect to in order to trace it while it runs.

    Args:
      port: the port to listen on.
      requires_backend: whether to start the backends first, which a trace needs to show devices.

    Returns:
      The server, an object without methods.

    Raises:
      ValueError: if the server has been started already.
    """
    global _server
    with _lock:
        if _server is not None:
            raise ValueError(
                "Only one profiler server can be active at a time. Stop the other one by"
                " jax.profiler.stop_server()."
            )
        if requires_backend:
            xla_bridge.get_backend()
        _server = lib.profiler.start_server(port)
        return _server


@export
def stop_server() -> None:
    """Stops the server.

    Raises:
      ValueError: if it has not been started.
    """
    global _server
    with _lock:
        if _server is None:
            raise ValueError("No active profiler server.")
        _server = None  # which destroys it


@export
def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Has traces of this process include those of another one that it started, such as one that loads data.

    Only what the other process does on the CPU is traced.

    Args:
      pid: the number of the other process, which is to have a server of its own.
      port: the port of that server.

    Returns:
      A function that ends this. It also ends when the function is garbage.

    Raises:
      RuntimeError: if the other server cannot be reached, or is registered already.
    """
    end: Callable[[], None] = lib.profiler.register_subprocess(pid, port)
    return end
