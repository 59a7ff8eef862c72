"""Starting and ending multi-process programs."""

from __future__ import annotations

import atexit
import errno
import logging
import math
import os
import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any

from jax._src import config, xla_bridge
from jax._src.distributed.arguments import MAX_SECONDS, Arguments, Complete, host_and_port
from jax._src.distributed.failures import Watch
from jax._src.distributed.programs import Programs
from jax._src.lib import _jax, termination
from jax._src.xla_bridge import clients

logger = logging.getLogger("jax._src.distributed")

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
# The service ends the wait for processes first, since it knows which are missing.
_MARGIN_SECONDS = 1
_NUM_PROCESSES = "jax/num_processes"  # as process 0 has it
STARTS = "jax/starts/{}"  # how often a process has been started; again in recoverable programs


class State(clients.DistributedState):
    """The role of this process in a multi-process program, and its connection to the others."""

    client: _jax.DistributedRuntimeClient | Any | None
    service: _jax.DistributedRuntimeService | Any | None
    preemption_sync_manager: Any | None = None
    _watch: Watch | None = None

    def initialize(self, arguments: Arguments) -> None:
        """Connects this process with the others; see `jax.distributed.initialize`."""
        if self.client is not None:
            raise RuntimeError("distributed.initialize should only be called once.")
        to = arguments.complete()
        _warn_of_proxies()
        service = _start_service(to) if to.process_id == 0 else None
        watch = Watch(
            to.process_id,
            to.num_processes,
            to.coordinator_address,
            to.timeouts,
            config.enable_recoverability.value,
        )
        try:
            client = _connect(to, watch)
        except BaseException:
            if service is not None:
                service.shutdown()
            raise
        self.coordinator_address = to.coordinator_address
        self.num_processes = to.num_processes
        self.process_id = to.process_id
        self.partition_index = to.partition_index
        self.service, self.client = service, client
        if to.local_device_ids:
            visible = ",".join(map(str, to.local_device_ids))
            logger.info("JAX distributed initialized with visible devices: %s", visible)
            for option in ("cuda", "rocm"):
                config.update(f"jax_{option}_visible_devices", visible)
        self._watch = watch
        watch.is_restarted = client.key_value_increment(STARTS.format(to.process_id), 1) > 1
        # In recoverable programs the survivors of a failure go on.
        if not watch.is_recoverable:
            watch.start(client)
            self.observe_program = Programs(watch, client)
            self.check_processes = watch.check
        if config.enable_preemption_service.value:
            self.initialize_preemption_sync_manager()
        termination.prepare_end()
        atexit.register(self._shutdown_at_exit)
        _check_agreement(client, to)  # the others are told of an error from here on

    def initialize_preemption_sync_manager(self) -> None:
        """Watches for a notice of preemption; see `multihost_utils.reached_preemption_sync_point`."""
        if self.preemption_sync_manager is not None:
            raise RuntimeError("Preemption sync manager should only be initialized once.")
        manager = _jax.create_preemption_sync_manager()
        manager.initialize(self.client)
        self.preemption_sync_manager = manager

    def shutdown(self) -> None:
        """Waits until all processes shut down, and disconnects; see `jax.distributed.shutdown`."""
        if self.client is None:
            return
        atexit.unregister(self._shutdown_at_exit)
        watch, client, service = self._watch, self.client, self.service
        manager, self.preemption_sync_manager = self.preemption_sync_manager, None
        programs, self.observe_program = self.observe_program, None
        self._watch = self.client = self.service = self.check_processes = None
        announce = None if programs is None else programs.departures.announce
        problem = watch.leave(client, manager, announce)
        if watch.client_is_stuck:
            for obj in (client, service, manager):
                termination.never_destroy(obj)
        else:
            if programs is not None:
                programs.stop(1.0)
            if service is not None:
                service.shutdown()
        if problem is not None and watch.failure is None:
            raise RuntimeError(
                f"Process {self.process_id} of {self.num_processes} could not end together with the"
                f" others: {problem}."
            )

    def forget_in_child(self) -> None:
        """Called in a forked process, which is none of the program's: its end is not theirs."""
        if self._watch is None:
            return
        atexit.unregister(self._shutdown_at_exit)
        self._watch.stop()
        self._watch = None
        for obj in (self.client, self.service, self.preemption_sync_manager):
            termination.never_destroy(obj)
        self.client = self.service = self.preemption_sync_manager = None
        self.observe_program = self.check_processes = None

    def _shutdown_at_exit(self) -> None:
        is_failing = self._watch is not None and self._watch.own_failure is not None
        try:
            self.shutdown()
        except RuntimeError as e:
            if is_failing:
                return  # with an error that has been reported
            sys.stdout.flush()
            sys.stderr.write(f"RuntimeError: {e}\n")
            sys.stderr.flush()
            os._exit(1)  # only so can a function called at exit change the status


def _start_service(to: Complete) -> Any:
    logger.info("Starting JAX distributed service on %s", to.bind_address)
    _check_port(to.bind_address)
    return _jax.get_distributed_runtime_service(
        to.bind_address,
        to.num_processes,
        heartbeat_timeout=to.timeouts.heartbeat,
        cluster_register_timeout=to.timeouts.initialization,
        shutdown_timeout=to.timeouts.shutdown,
        recoverable=config.enable_recoverability.value,
    )


def _check_port(address: str) -> None:
    """Raises an error if the coordinator cannot listen there, where jaxlib would crash."""
    host, port = host_and_port(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as s:
            # A port of a program that has just ended is free; one where a program listens is not.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and where[0] == "::":
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(where)
    except OSError as e:
        if host == "::" and e.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            return _check_port(f"0.0.0.0:{port}")
        raise RuntimeError(
            f"The coordinator could not be started at {address}: {e}. Choose another port in"
            " coordinator_address, or another address in coordinator_bind_address. If process 0 has"
            " already been started, this process needs another process_id."
        ) from e


def _connect(to: Complete, watch: Watch) -> Any:
    address, seconds = to.coordinator_address, to.timeouts.initialization
    if to.process_id != 0:
        seconds = _wait_for_port(address, seconds)
    options: dict[str, Any] = {}
    if termination.on_fatal_error(watch.lost_runtime):
        options["missed_heartbeat_callback"] = lambda *status: watch.lost_runtime()
    client = _jax.get_distributed_runtime_client(
        address,
        to.process_id,
        init_timeout=min(seconds + _MARGIN_SECONDS, MAX_SECONDS),
        use_compression=True,
        heartbeat_timeout=to.timeouts.heartbeat,
        **options,
    )
    logger.info("Connecting to JAX distributed service on %s", address)
    done, error = watch.call(client.connect)
    if done and error is None:
        return client
    # jaxlib's exception may have no message; another call repeats the reason.
    watch.is_leaving = True
    _, reason = termination.call_until(client.shutdown, threading.Event(), 5.0)
    detail = f"{reason or ''} {error or ''}"
    raise RuntimeError(_connection_problem(to, detail))


def _wait_for_port(address: str, timeout: int) -> int:
    """Waits until the coordinator listens, and returns how many seconds are left.

    The client itself would try again only after a second.
    """
    deadline = time.monotonic() + timeout
    wait = 0.01
    while time.monotonic() < deadline:
        try:
            socket.create_connection(host_and_port(address), timeout=1.0).close()
            break
        except ConnectionRefusedError:
            time.sleep(wait)
            wait = min(2 * wait, 0.2)
        except OSError:
            break  # the client may know another way, such as a proxy
    return max(math.ceil(deadline - time.monotonic()), 0)


def _connection_problem(to: Complete, detail: str) -> str:
    address, seconds = to.coordinator_address, to.timeouts.initialization
    problem = (
        f"Process {to.process_id} of {to.num_processes} could not start together with the others: "
    )
    missing = re.search(r"timed out task names:\s*((?:\d+\s+)+)", detail)
    if missing:
        names = ", ".join(missing.group(1).split())
        problem += f"within {seconds} seconds (initialization_timeout) the coordinator at {address}"
        problem += f" has heard nothing of process {names}."
        return problem + " Has it been started, and does it use the same coordinator_address?"
    if "DEADLINE_EXCEEDED" in detail or "UNAVAILABLE" in detail or not detail:
        problem += f"the coordinator at {address} did not answer within {seconds} seconds"
        problem += " (initialization_timeout). "
        try:
            socket.getaddrinfo(*host_and_port(address))
        except OSError as e:
            return problem + f"The name of its host cannot be resolved here: {e}."
        return problem + "Is process 0 running there, and is the port open?"
    if "newer incarnation" in detail:
        return problem + f"another process has been started with process_id={to.process_id}, too."
    if "Unexpected task registered" in detail:
        return (
            problem
            + f"process 0 has been started with another num_processes, less than {to.num_processes}."
        )
    reason = detail.rpartition("Agent status: ")[2].removeprefix("%s")
    return problem + reason.strip().split("\n", 1)[0]


def _check_agreement(client: Any, to: Complete) -> None:
    """Raises an error if process 0 has another number of processes."""
    if to.process_id == 0:
        client.key_value_set(_NUM_PROCESSES, str(to.num_processes))
        return
    text = client.blocking_key_value_get(_NUM_PROCESSES, to.timeouts.initialization * 1000)
    if int(text) != to.num_processes:
        raise ValueError(
            f"num_processes must be the same in all processes: process {to.process_id} has been"
            f" started with {to.num_processes}, and process 0 with {text}."
        )


def _warn_of_proxies() -> None:
    if not config.check_proxy_envs.value:
        return
    found = [name for name in os.environ if name.lower() in _PROXIES]
    if found:
        logger.warning(
            "JAX detected proxy variable(s) in the environment as distributed setup: %s. With some"
            " proxies jax.distributed.initialize does not return; if so, unset the variables.",
            " ".join(found),
        )


global_state = State()
global_state.__dict__ = clients.distributed_state.__dict__  # backends read it there
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=global_state.forget_in_child)


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Iterable[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Makes this process a part of a program that runs as several processes.

    It has to be called in all of them, before anything that uses devices. All arguments are
    optional under `python -m jax.distributed.launch`, Slurm, Open MPI, on Cloud TPUs and in
    Kubernetes, where they are found in the environment.

    Args:
      coordinator_address: host and port, such as '10.0.0.1:1234', where process 0 starts the
        service that the processes communicate through; otherwise $JAX_COORDINATOR_ADDRESS.
      num_processes: the number of processes.
      process_id: the number of this process: 0, 1, ..., `num_processes` - 1.
      local_device_ids: the GPUs of this machine that this process uses; otherwise
        $JAX_LOCAL_DEVICE_IDS. By default all, or with Slurm and Open MPI a single one.
      cluster_detection_method: where to find missing arguments: 'launch', 'ompi', 'slurm',
        'mpi4py' (only if named), 'gcetpu', 'gketpu' or 'k8s'; 'deactivate' for nowhere.
      initialization_timeout: how many seconds to wait for the other processes.
      heartbeat_timeout_seconds: a process without a sign of life for so long has failed. The
        others then end with an error.
      shutdown_timeout_seconds: how long a process that ends waits for the others to do so.
      coordinator_bind_address: the address and port where process 0 listens; otherwise
        $JAX_COORDINATOR_BIND_ADDRESS, or all addresses, with the port of `coordinator_address`.
      slice_index: former name of `partition_index`.
      partition_index: the number of the partition (TPU slice) that the devices belong to. If one
        process passes it, all have to.

    Raises:
      RuntimeError: devices have been used before; a second call; the other processes did not
        arrive in time.
      ValueError: an argument is missing or wrong.

    Example:
      >>> jax.distributed.initialize("10.0.0.1:1234", 2, 0)  # doctest: +SKIP
    """
    if slice_index is not None:
        if partition_index not in (None, slice_index):
            raise ValueError(
                f"slice_index={slice_index} and partition_index={partition_index} are two names of one"
                " argument: pass partition_index only."
            )
        partition_index = slice_index
        warnings.warn(
            "`slice_index` of jax.distributed.initialize has been renamed to `partition_index`.",
            DeprecationWarning,
            stacklevel=2,
        )
    if xla_bridge.backends_are_initialized():
        raise RuntimeError(
            "jax.distributed.initialize() must be called before any JAX calls that might initialise"
            " the XLA backend. This includes any computation, but also calls to jax.devices,"
            " jax.device_put, and others."
            if global_state.client is None
            else "distributed.initialize should only be called once."
        )
    arguments = Arguments(
        coordinator_address,
        num_processes,
        process_id,
        local_device_ids,
        cluster_detection_method,
        initialization_timeout,
        heartbeat_timeout_seconds,
        shutdown_timeout_seconds,
        coordinator_bind_address,
        partition_index,
    )
    global_state.initialize(arguments)


def shutdown() -> None:
    """Disconnects this process from the others, once all of them have called this function.

    It is called when the process ends, and does nothing if there are no other processes.

    Raises:
      RuntimeError: another process has failed, or did not shut down in time.

    Example:
      >>> jax.distributed.shutdown()
    """
    global_state.shutdown()


def is_initialized() -> bool:
    """Whether :func:`jax.distributed.initialize` has been called.

    Example:
      >>> jax.distributed.is_initialized()
      False
    """
    return global_state.client is not None
