"""Threads of an interpreted kernel, and the loop that runs each until it has to wait.

A thread is a generator that yields a `Wait` where it cannot go on. One runs at a time, in an order that is always
the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from typing import Any


@dataclasses.dataclass(slots=True)
class Wait:
    """What a thread waits for: a condition, and a text that says what it is."""

    is_over: Callable[[], bool]
    text: Callable[[], str]


Run = Generator[Wait, None, Any]


class Deadlock(RuntimeError):
    """All threads of a kernel wait."""


class Visits:
    """Counts how often a thread has come to each place of its kernel."""

    def __init__(self) -> None:
        self._of: dict[Any, int] = {}

    def __call__(self, place: Any) -> int:
        """Return how often the thread has come to a place before, and count this time."""
        n = self._of.get(place, 0)
        self._of[place] = n + 1
        return n


class Scheduler:
    """Runs threads. What is run has a `name`, for errors.

    Args:
      where: the kernel's name and line.
    """

    def __init__(self, where: str):
        self.where = where
        self.running: list[tuple[Any, Run, Wait | None]] = []

    def spawn(self, thread: Any, run: Run) -> None:
        """Let a thread run, as soon as it is its turn."""
        self.running.append((thread, run, None))

    def start_more(self) -> bool:
        """Start threads that can only run now, where all others wait or have ended; return whether there were any."""
        return False

    def run(self) -> None:
        """Run all threads to their end.

        Raises:
          Deadlock: if all wait.
        """
        while True:
            progress = False
            for item in list(self.running):
                thread, run, wait = item
                if wait is not None and not wait.is_over():
                    continue
                progress = True
                at = self.running.index(item)
                try:
                    self.running[at] = (thread, run, next(run))
                except StopIteration:
                    del self.running[at]
            if not progress and not self.start_more():
                if self.running:
                    raise Deadlock(self._deadlock())
                return

    def _deadlock(self) -> str:
        lines = [
            f"  {thread.name} waits for {wait.text()}"
            for thread, _, wait in self.running[:16]
            if wait is not None
        ]
        more = len(self.running) - len(lines)
        if more > 0:
            lines.append(f"  and {more} more")
        return f"All threads of {self.where} wait, and none can go on:\n" + "\n".join(lines)
