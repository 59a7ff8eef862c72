"""Semaphores that cores wait for."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.pallas.mosaic.interpret.clocks import Actor
from jax._src.pallas.mosaic.interpret.memory import Buffer
from jax._src.pallas.threaded.params import LoggingMode
from jax._src.pallas.threaded.threads import Run, Wait
from jax._src.pallas.threaded.views import view_array


class Semaphore:
    """A counter.

    Attributes:
      name: as errors name it.
      count: its count.
      clock: what is known to those that have counted it up.
      pending: parts of copies that count on it, and are made where a core waits for it.
    """

    def __init__(self, name: str):
        self.name = name
        self.count = 0
        self.clock: np.ndarray | None = None
        self.pending: collections.deque[Callable[[], None]] = collections.deque()


def semaphore_in(buffer: Buffer, transforms: Sequence[Any]) -> Semaphore:
    """Return the semaphore that a view is of."""
    found = view_array(buffer.array, transforms, buffer.name)
    assert found is not None
    return found.item()


def signal(machine: Any, actor: Actor, sem: Semaphore, inc: int) -> None:
    """Add to a count."""
    machine.memory.log(LoggingMode.SEMAPHORE, lambda: f"{actor.name} adds {inc} to {sem.name}")
    sem.count += inc
    if machine.races is not None:
        sem.clock = actor.clock.copy() if sem.clock is None else np.maximum(sem.clock, actor.clock)
        actor.tick()


def wait(machine: Any, actor: Actor, sem: Semaphore, value: int, decrement: bool = True) -> Run:
    """Wait until a count is at least a value, and subtract the value.

    Copies that count on the semaphore, and are not made yet, are made.
    """
    machine.memory.log(LoggingMode.SEMAPHORE, lambda: f"{actor.name} waits for {value} of {sem.name}")  # fmt: skip
    while sem.count < value:
        if sem.pending:
            sem.pending.popleft()()
        else:
            yield Wait(
                lambda: sem.count >= value or bool(sem.pending),
                lambda: f"{sem.name}, whose count is {sem.count}, to be {value}",
            )
    if decrement:
        sem.count -= value
    if sem.clock is not None:
        actor.clock = np.maximum(actor.clock, sem.clock)
