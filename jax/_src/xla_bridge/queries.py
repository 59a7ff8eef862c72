"""Queries about devices and processes."""

from __future__ import annotations

import functools
import warnings

from jax._src import util
from jax._src.lib import Client, Device
from jax._src.xla_bridge.registry import get_backend


def devices(backend: str | Client | None = None) -> list[Device]:
    """All devices of a platform, including those of other processes.

    Args:
      backend: ``"cpu"``, ``"gpu"`` or ``"tpu"``; by default the preferred available platform.

    Raises:
      RuntimeError: the platform is not available.

    Example:
      >>> import jax
      >>> jax.devices("cpu")[0]
      CpuDevice(id=0)
    """
    return get_backend(backend).devices()


def local_devices(
    process_index: int | None = None,
    backend: str | Client | None = None,
    host_id: int | None = None,
) -> list[Device]:
    """The devices of one process.

    Args:
      process_index: the number of the process; by default this process.
      backend: see :func:`jax.devices`.
      host_id: former name of ``process_index``.

    Raises:
      ValueError: the process does not exist.

    Example:
      >>> import jax
      >>> len(jax.local_devices(backend="cpu")) == jax.local_device_count("cpu")
      True
    """
    if host_id is not None:
        warnings.warn(
            "The argument host_id of jax.local_devices has been renamed to process_index.",
            stacklevel=2,
        )
        process_index = host_id
    return list(_local_devices(process_index, backend))  # the caller's own


@functools.lru_cache
def _local_devices(process_index: int | None, backend: str | Client | None) -> tuple[Device, ...]:
    client = get_backend(backend)
    if process_index is None:
        return tuple(client.local_devices())
    if not 0 <= process_index < process_count(client):
        raise ValueError(f"Unknown process_index {process_index}")
    return tuple(d for d in client.devices() if d.process_index == process_index)


def device_count(backend: str | Client | None = None) -> int:
    """The number of devices of a platform, in all processes. See :func:`jax.devices`.

    Example:
      >>> import jax
      >>> jax.device_count() == len(jax.devices())
      True
    """
    return int(get_backend(backend).device_count())


def local_device_count(backend: str | Client | None = None) -> int:
    """The number of devices of this process. See :func:`jax.devices`.

    Example:
      >>> import jax
      >>> jax.local_device_count() <= jax.device_count()
      True
    """
    return int(get_backend(backend).local_device_count())


def process_index(backend: str | Client | None = None) -> int:
    """The number of this process: 0 unless there are several. See :func:`jax.devices`.

    Example:
      >>> import jax
      >>> jax.process_index()
      0
    """
    return get_backend(backend).process_index()


@functools.lru_cache
def process_count(backend: str | Client | None = None) -> int:
    """The number of processes. See :func:`jax.devices`.

    Example:
      >>> import jax
      >>> jax.process_count()
      1
    """
    return max(d.process_index for d in devices(backend)) + 1


# They refer to clients, which are gone when backends are cleared.
util.register_cache(_local_devices, "devices of processes")
util.register_cache(process_count, "numbers of processes")


def process_indices(backend: str | Client | None = None) -> list[int]:
    """The numbers of all processes. See :func:`jax.devices`.

    Example:
      >>> import jax
      >>> jax.process_indices()
      [0]
    """
    return list(range(process_count(backend)))


def default_backend() -> str:
    """The name of the preferred available platform.

    Example:
      >>> import jax
      >>> jax.default_backend() in ("cpu", "gpu", "tpu")
      True
    """
    return get_backend(None).platform


def host_id(backend: str | Client | None = None) -> int:
    """Former name of :func:`jax.process_index`."""
    _warn_renamed("host_id", "process_index")
    return process_index(backend)


def host_count(backend: str | Client | None = None) -> int:
    """Former name of :func:`jax.process_count`."""
    _warn_renamed("host_count", "process_count")
    return process_count(backend)


def host_ids(backend: str | Client | None = None) -> list[int]:
    """Former name of :func:`jax.process_indices`."""
    _warn_renamed("host_ids", "process_indices")
    return process_indices(backend)


def _warn_renamed(old, new):
    warnings.warn(f"jax.{old} has been renamed to jax.{new}; use the new name.", stacklevel=3)


# Versions reported by plugins


def backend_xla_version(platform=None) -> int | None:
    """The version of XLA in a platform's plugin; None if it is not reported."""
    return getattr(get_backend(platform), "xla_version", None)


def backend_stablehlo_version(platform=None) -> list[int] | None:
    """The newest StableHLO version that a platform's plugin reads; None if it is not reported."""
    return getattr(get_backend(platform), "stablehlo_current_version", None)


def backend_pjrt_c_api_version(platform=None) -> tuple[int, int] | None:
    """The version of the PJRT C API of a platform's plugin; None for a built-in platform."""
    backend = get_backend(platform)
    if not hasattr(backend, "pjrt_c_api_major_version"):
        return None
    version = (backend.pjrt_c_api_major_version, backend.pjrt_c_api_minor_version)
    return None if version == (0, 0) else version  # newer jaxlibs report 0.0 for built-in ones


def using_pjrt_c_api(backend=None) -> bool:
    """Whether a platform comes from a plugin."""
    return "PJRT C API" in get_backend(backend).platform_version
