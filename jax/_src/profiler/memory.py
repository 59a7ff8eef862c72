"""What the memory of the devices holds, by the lines of the program that allocated it."""

from __future__ import annotations

import gzip
import os
import pathlib

from jax._src import xla_bridge
from jax._src.lib import Client
from jax._src.util import set_module

export = set_module("jax.profiler")


@export
def device_memory_profile(backend: str | None = None) -> bytes:
    """Returns the arrays and programs that are in the memory of the devices now, as a profile for `pprof`.

    The tool `pprof` draws them by the stacks that allocated them: `pprof -web FILE`.

    Args:
      backend: the platform; by default the one that computations run on.

    Returns:
      A protocol buffer of pprof's format, compressed by gzip.

    >>> x = jnp.ones(1000)
    >>> jax.profiler.device_memory_profile()[:2]
    b'\\x1f\\x8b'
    """
    client: Client = xla_bridge.get_backend(backend)
    return gzip.compress(client.heap_profile())


@export
def save_device_memory_profile(
    filename: str | os.PathLike[str], backend: str | None = None
) -> None:
    """Writes what :func:`device_memory_profile` returns to a file.

    Args:
      filename: the file, which is replaced if it exists.
      backend: the platform; by default the one that computations run on.
    """
    profile = device_memory_profile(backend)
    pathlib.Path(filename).write_bytes(profile)
