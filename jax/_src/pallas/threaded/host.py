"""Where interpreters run programs of XLA, on the host."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from jax._src import config
from jax._src.lib import xla_client


@functools.cache
def _device() -> Any:
    """Return a device whose programs run in the thread that calls them.

    The threads of the devices that apply kernels are all taken while their callbacks run: programs that a
    callback waits for must not need one of them.
    """
    return xla_client.make_cpu_client(asynchronous=False).local_devices()[0]


def programs_in_this_thread() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which programs run in the thread that calls them, and not in those of devices."""
    return config.default_device(_device())
