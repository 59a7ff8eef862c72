"""Which processes are there, and whether they are about to be stopped."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from jax._src import distributed
from jax._src.lib import Device

_calls = itertools.count()
_starts: dict[tuple[int, int], int] = {}  # of each process and incarnation


class ProcessFailureError(Exception):
    """Processes have failed inside of :func:`live_devices`.

    Attributes:
      failed_devices: the set of their devices.
    """

    def __init__(self, failed_devices: set[Device]):
        self.failed_devices = failed_devices
        processes = sorted({d.process_index for d in failed_devices})
        super().__init__(f"Processes {processes} have failed; their devices are {failed_devices}.")


@contextlib.contextmanager
def live_devices(devices: list[Device]) -> Iterator[list[Device]]:
    """A context in which only devices of processes are used that have not failed.

    All processes with live devices among `devices` wait for one another when they enter and leave.
    Either all of them leave without an error, or all with one. It needs the option
    `jax_enable_recoverability`; without it, processes end when another one fails.

    Args:
      devices: a list of devices, some of them of this process.

    Returns:
      A context manager, which gives the devices whose processes are there.

    Raises:
      RuntimeError: `jax.distributed.initialize` has not been called; this process has been started
        again, and its devices are those of the CPU, whose collectives connect processes only once.
      ValueError: none of the devices is of this process.
      ProcessFailureError: on leaving: a process has failed, or has raised an exception, in between.

    Example:
      >>> with multihost_utils.live_devices(jax.devices()) as devices:  # doctest: +SKIP
      ...   train(devices)
    """
    state = distributed.global_state
    client = state.client
    if client is None:
        raise RuntimeError(
            "Distributed JAX not initialized. Call jax.distributed.initialize() first."
        )
    if not any(d.process_index == d.client.process_index() for d in devices):
        raise ValueError(f"live_devices needs at least one device of this process, got {devices}.")
    processes = sorted({d.process_index for d in devices})
    before = client.get_live_nodes(processes)
    if lost := _lost(client, devices, before):
        if state.process_id in lost:
            raise RuntimeError(
                f"Process {state.process_id} has failed before and cannot join the others again: the"
                " CPU's collectives connect processes only once. Restart all of them from their last"
                " checkpoint."
            )
        before = {p: incarnation for p, incarnation in before.items() if p not in lost}
    # Programs that have been restarted begin to count anew; incarnations tell them apart.
    call = f"jax/live_devices/{sorted(before.items())}/{next(_calls)}"
    done = False
    try:
        yield [d for d in devices if d.process_index in before]
        done = True
    finally:
        client.key_value_set(f"{call}/{state.process_id}", "done" if done else "failed")
        after = client.get_live_nodes(processes)
    outcomes = {
        p: client.key_value_try_get(f"{call}/{p}")
        for p, incarnation in before.items()
        if after.get(p) == incarnation
    }
    failed = {p for p in before if outcomes.get(p) != "done"}
    if failed:
        raise ProcessFailureError({d for d in devices if d.process_index in failed})


def _lost(client: Any, devices: list[Device], nodes: dict[int, int]) -> set[int]:
    """The processes that have been started again, in vain: see the error of `live_devices`."""
    for process in nodes.items():
        if process not in _starts:
            _starts[process] = int(client.key_value_try_get(distributed.STARTS.format(process[0])))
    platforms = {d.process_index: d.platform for d in devices}
    return {p for p, i in nodes.items() if _starts[p, i] > 1 and platforms[p] == "cpu"}


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether this is the step where all processes should save their state before they are stopped.

    After one process has received a notice (SIGTERM), all agree on the next step that none has
    reached. All have to call this function in every step.

    Args:
      step_id: the number of the step.

    Raises:
      RuntimeError: the option `jax_enable_preemption_service` was not set when
        `jax.distributed.initialize` was called. Without that call the result is False.

    Example:
      >>> if multihost_utils.reached_preemption_sync_point(step):  # doctest: +SKIP
      ...   save(step)
    """
    if distributed.global_state.client is None:
        return False  # a program of one process, which has not called initialize
    manager = distributed.global_state.preemption_sync_manager
    if manager is None:
        raise RuntimeError(
            "Preemption sync manager has not been initialized. Make sure the"
            " 'jax_enable_preemption_service' config is enabled before jax.distributed.initialize()."
        )
    return manager.reached_sync_point(step_id)
