"""Noticing that a process has left the program while another one waits for it.

A process leaves when its program ends, be it by `sys.exit(1)`, and when it calls
`jax.distributed.shutdown()`. It stays at a barrier until all leave, since others may have work of
their own to do. One that waits in a collective for a process that has left would wait for good: the
runs of programs with collectives are counted, and a process that leaves publishes its counts. One
whose count is higher ends with an error.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from jax._src.distributed.failures import FOREVER_MS, Watch, has_ended
from jax._src.errors import JaxRuntimeError

_NUMBER = "jax/departures/number"
_DEPARTURE = "jax/departures/{}"


class Departures:
    """Counts the runs of this process, and compares them with those of processes that have left."""

    def __init__(self, watch: Watch, client: Any):
        self._watch = watch
        self._client = client
        self._lock = threading.Lock()
        self._runs: Counter[str] = Counter()  # for each list of devices
        # The last program of each list, and the processes of the devices.
        self._last: dict[str, tuple[str, Iterable[int]]] = {}
        self._left: dict[int, dict[str, int]] = {}  # the counts of processes that have left
        self._thread: threading.Thread | None = None

    def before_run(self, group: str, processes: Iterable[int], program: str) -> None:
        """Counts a run of a program with collectives.

        Args:
          group: identifies the list of devices.
          processes: those of the devices.
          program: what the program is, for errors.

        Raises:
          ProcessesError: a process has failed, or has left that would have to take part.
        """
        if self._watch.is_leaving:
            return  # all leave: their collectives need no coordinator
        self._watch.check()
        with self._lock:
            self._runs[group] += 1
            self._last[group] = program, processes
            problem = self._problem(group)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._follow, name="jax-departures", daemon=True
                )
                self._thread.start()
        if problem is not None:
            raise self._watch.fail_here(problem)

    def announce(self) -> None:
        """Tells the others that this process leaves, and what it has run."""
        number = self._client.key_value_increment(_NUMBER, 1)
        with self._lock:
            text = json.dumps([self._watch.process_id, self._runs])
        self._client.key_value_set(_DEPARTURE.format(number), text)

    def stop(self, timeout: float) -> None:
        """Ends the thread; the client has been shut down, which ends a wait of it."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _follow(self) -> None:
        for number in itertools.count(1):
            try:
                text = self._client.blocking_key_value_get(_DEPARTURE.format(number), FOREVER_MS)
            except JaxRuntimeError:
                return
            if self._watch.is_leaving:
                return
            process, runs = json.loads(text)
            with self._lock:
                self._left[process] = runs
                problems = [p for group in self._runs if (p := self._problem(group)) is not None]
            if problems:
                self._watch.fail_together(problems[0])
                return

    def _problem(self, group: str) -> str | None:
        program, processes = self._last[group]
        for process in sorted(set(processes) & self._left.keys()):
            if self._runs[group] > self._left[process].get(group, 0):
                return f"{has_ended(process)}, and {program} waits for it"
        return None
