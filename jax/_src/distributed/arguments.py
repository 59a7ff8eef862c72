"""The arguments of `jax.distributed.initialize`: where they come from, and which make sense."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Iterable
from typing import Any

from jax._src import clusters

# What the runtime can count.
MAX_SECONDS = 2**31 - 1


@dataclasses.dataclass
class Arguments:
    """The arguments, as documented there; `complete` fills in and checks them."""

    coordinator_address: str | None
    num_processes: int | None
    process_id: int | None
    local_device_ids: int | Iterable[int] | None
    cluster_detection_method: str | None
    initialization_timeout: int
    heartbeat_timeout_seconds: int
    shutdown_timeout_seconds: int
    coordinator_bind_address: str | None
    partition_index: int | None

    def complete(self) -> Complete:
        """The arguments with missing ones from the environment.

        Raises:
          TypeError: an argument has another type.
          ValueError: an argument is missing, or makes no sense.
        """
        timeouts = Timeouts(
            _seconds("initialization_timeout", self.initialization_timeout),
            _seconds("heartbeat_timeout_seconds", self.heartbeat_timeout_seconds),
            _seconds("shutdown_timeout_seconds", self.shutdown_timeout_seconds),
        )
        method = self.cluster_detection_method
        known = clusters.detection_methods()
        if method is not None and method not in known:
            raise ValueError(
                f"cluster_detection_method={method!r} is not one of {', '.join(known)}."
            )
        partition = self.partition_index
        if partition is not None and (partition := _whole("partition_index", partition)) < 0:
            raise ValueError(f"partition_index must be nonnegative, got {partition}")
        address, count, process, local_ids = self._find(timeouts.initialization)
        hint = "" if method == "deactivate" else _HINT
        if not address:
            raise ValueError("coordinator_address should be defined." + hint)
        if count is None:
            raise ValueError("Number of processes must be defined." + hint)
        if process is None:
            raise ValueError("The process id of the current process must be defined." + hint)
        count, process = _whole("num_processes", count), _whole("process_id", process)
        if not 0 <= process < count:
            raise ValueError(
                "process_id and num_processes must be nonnegative, with process_id < num_processes."
                f" Got process_id={process}, num_processes={count}."
            )
        _check_address("coordinator_address", address)
        listen = self.coordinator_bind_address or os.environ.get("JAX_COORDINATOR_BIND_ADDRESS")
        if listen:
            _check_address("coordinator_bind_address", listen)
        else:
            listen = f"[::]:{host_and_port(address)[1]}"
        return Complete(address, listen, count, process, local_ids, partition, timeouts)

    def _find(self, timeout: int) -> tuple[Any, Any, Any, list[int] | None]:
        """Address, number of processes, this process and its devices; None where unknown."""
        found = (
            self.coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS"),
            self.num_processes,
            self.process_id,
            _device_ids(self.local_device_ids),
        )
        method = self.cluster_detection_method
        if method == "deactivate" or all(value is not None for value in found):
            return found
        find = clusters.ClusterEnv.auto_detect_unset_distributed_params
        return find(*found, method, timeout)


@dataclasses.dataclass(frozen=True)
class Timeouts:
    """How many seconds to wait for other processes."""

    initialization: int
    heartbeat: int
    shutdown: int


@dataclasses.dataclass(frozen=True)
class Complete:
    """All that is needed to start."""

    coordinator_address: str
    bind_address: str
    num_processes: int
    process_id: int
    local_device_ids: list[int] | None
    partition_index: int | None
    timeouts: Timeouts


_HINT = (
    " No cluster was recognized from the environment (see cluster_detection_method), so it has"
    " to be passed to jax.distributed.initialize. On one machine,"
    " `python -m jax.distributed.launch -n 4 PROGRAM` starts several processes."
)


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} of jax.distributed.initialize must be an integer, got {value!r}"
        ) from None


def _seconds(name: str, value: Any) -> int:
    seconds = _whole(name, value)
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(
            f"{name} of jax.distributed.initialize must be a number of seconds from 1 to"
            f" {MAX_SECONDS}, got {seconds}"
        )
    return seconds


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of an address like 'host:port' or '[::1]:port'."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _check_address(name: str, address: Any) -> None:
    if not isinstance(address, str):
        raise TypeError(f"{name} must be a string like 'host:port', got {address!r}")
    host, _, port = address.rpartition(":")
    is_host = host and not set(host) & set("/ \t\n")
    if ":" in host:
        is_host = host[0] == "[" and host[-1] == "]"
    if not is_host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(
            f"{name} must be like 'host:port', or '[::1]:port' for an address of IPv6, got"
            f" {address!r}. All processes need the same port; it must be free on the machine of"
            " process 0."
        )


def _device_ids(ids: int | Iterable[int] | None) -> list[int] | None:
    name = "local_device_ids"
    if ids is None:
        name, text = "JAX_LOCAL_DEVICE_IDS", os.environ.get("JAX_LOCAL_DEVICE_IDS")
        if not text:
            return None
        try:
            out = [int(part) for part in text.split(",")]
        except ValueError:
            raise ValueError(f"JAX_LOCAL_DEVICE_IDS must be like '0,1', got {text!r}") from None
    elif isinstance(ids, Iterable) and not isinstance(ids, str):
        out = [_whole(name, i) for i in ids]
    else:
        out = [_whole(name, ids)]
    if min(out, default=0) < 0 or len(set(out)) < len(out):
        raise ValueError(f"{name} must be different nonnegative numbers of devices, got {out}")
    return out
