"""Races: reads and writes of the same memory that nothing orders, found by vector clocks.

A core or a copy knows by its clock what has happened before: of each core and copy, how far it had come when it gave
a signal that this one has waited for. Two accesses race if one writes, and neither is known to the other.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jax._src import source_info_util


class Actor:
    """What accesses memory: a core, or a copy.

    Attributes:
      name: as errors name it.
      clock: its clock; empty where races are not looked for.
      place: its own place in clocks.
    """

    def __init__(self, name: str):
        self.name = name
        self.clock = np.zeros(0, np.int64)
        self.place = 0

    def tick(self) -> None:
        """Tell what happens from now on from what others have been told of."""
        if self.clock.size:
            self.clock[self.place] += 1


@dataclasses.dataclass(slots=True)
class Access:
    """A read or a write of a view of memory."""

    actor: str
    place: int
    time: int
    view: np.ndarray
    is_write: bool
    source_info: Any

    def is_before(self, clock: np.ndarray) -> bool:
        return self.time <= clock[self.place]

    def is_in(self, view: np.ndarray, whole: np.ndarray) -> bool:
        """Whether another view has all elements of this one, as far as that is easily told."""
        if view.size == whole.size:
            return True
        a, b = self.view, view
        same_start = a.__array_interface__["data"] == b.__array_interface__["data"]
        return same_start and (a.shape, a.strides) == (b.shape, b.strides)

    def __str__(self) -> str:
        what = "write" if self.is_write else "read"
        if self.source_info is None:  # of a block, before or after the kernel's code is run
            return f"{what} of a block by {self.actor}"
        return f"{what} by {self.actor}, at {source_info_util.summarize(self.source_info)}"


class Races:
    """Looks for races in one run of a kernel.

    Args:
      num_actors: the number of cores.
      size: the number of places in clocks, greater than that.
    """

    def __init__(self, num_actors: int, size: int):
        self.num_actors = num_actors
        self.size = size
        self.times = [0] * size
        self.free = list(range(num_actors, size))
        self.next = num_actors
        self.reported: set[tuple[str, str, str]] = set()

    def start(self, actor: Actor, place: int) -> None:
        """Give a core its clock."""
        actor.clock = np.zeros(self.size, np.int64)
        actor.place = place
        actor.tick()

    def start_copy(self, copy: Actor, by: Actor) -> None:
        """Give a copy its clock, which knows what is known to the one that starts it."""
        # Where more copies are under way than there are places, they share one, and do not see each other.
        if self.free:
            copy.place = self.free.pop(0)
        else:
            copy.place = self.next
            self.next = self.next + 1 if self.next + 1 < self.size else self.num_actors
        self.times[copy.place] += 1
        copy.clock = by.clock.copy()
        copy.clock[copy.place] = self.times[copy.place]
        by.tick()

    def end_copy(self, copy: Actor) -> None:
        """Let another copy have the place."""
        if copy.place not in self.free:
            self.free.append(copy.place)

    def record(
        self, actor: Actor, buffer: Any, view: np.ndarray, is_write: bool, source_info: Any
    ) -> None:
        """Note an access to a buffer, and report those that it races with."""
        time = int(actor.clock[actor.place])
        new = Access(actor.name, actor.place, time, view, is_write, source_info)
        kept = []
        for old in buffer.accesses:
            ordered = old.is_before(actor.clock)
            if not ordered and (is_write or old.is_write) and np.shares_memory(old.view, view):
                self._report(buffer, old, new)
            # What races with an access that this one makes superfluous races with this one, too.
            replaces = ordered and (is_write or (old.place == actor.place and not old.is_write))
            if not (replaces and old.is_in(view, buffer.array)):
                kept.append(old)
        buffer.accesses = [*kept, new]

    def _report(self, buffer: Any, old: Access, new: Access) -> None:
        key = (buffer.name, str(old), str(new))
        if key not in self.reported:
            self.reported.add(key)
            print(f"RACE DETECTED in {buffer.name}:\n  {old}\n  {new}")
