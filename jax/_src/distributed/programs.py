"""Noticing that processes run different programs, which would wait for one another for good.

On the CPU nothing else notices it: collectives that do not match wait, or exchange wrong data. The
first process of a program's devices publishes the collectives of each program when it first runs,
and the others compare, in a thread. Only the main thread is followed: programs of several threads
have no common order. That another process runs no more programs at all is noticed in
`departures.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import queue
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jax._src.distributed.departures import Departures
from jax._src.distributed.failures import FOREVER_MS, Watch
from jax._src.errors import JaxRuntimeError

_SHOWN = 3
_COLLECTIVE = re.compile(
    r"= (.*?) (all-reduce|all-gather|all-to-all|collective-permute|collective-broadcast"
    r"|reduce-scatter|ragged-all-to-all)(?:-start)?\(.*?"
    r"(?:(?:replica_groups|source_target_pairs)=(\S+))"
)
_LAYOUT = re.compile(r"\{[\d,]*\}")


class Programs:
    """Compares the programs of this process with those of others; called with each new one."""

    def __init__(self, watch: Watch, client: Any):
        self._watch = watch
        self._client = client
        self.departures = Departures(watch, client)
        self._seen: set[Any] = set()
        self._counts: Counter[str] = Counter()
        self._to_compare: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(
        self, name: str, devices: Sequence[Any], executable: Any
    ) -> Callable[[], None] | None:
        """Follows a program that is about to run for the first time.

        Args:
          name: its name.
          devices: its devices, in order.
          executable: the native executable.

        Returns:
          A function to call before each run, or None if other processes need not take part in it.
        """
        processes = sorted({d.process_index for d in devices})
        if len(processes) == 1 or devices[0].platform != "cpu":
            return None
        text = "\n".join(module.to_string() for module in executable.hlo_modules())
        collectives = _collectives(text)
        if not collectives:
            return None
        shown = ", ".join(collectives[:_SHOWN]) + ", ..." * (len(collectives) > _SHOWN)
        program = f"{name} ({shown})"
        group = hashlib.blake2b(repr([d.id for d in devices]).encode(), digest_size=8).hexdigest()
        if threading.current_thread() is threading.main_thread():
            # A process may compile a program again, after its caches have been cleared.
            identity = group, hashlib.blake2b(text.encode(), digest_size=16).digest()
            if identity not in self._seen:
                self._seen.add(identity)
                self._publish_or_compare(group, processes[0], program, collectives)
        return functools.partial(self.departures.before_run, group, processes, program)

    def _publish_or_compare(
        self, group: str, first: int, program: str, collectives: list[str]
    ) -> None:
        digest = hashlib.blake2b("\n".join(collectives).encode(), digest_size=16).hexdigest()
        key = f"jax/programs/{group}/{self._counts[group]}"
        self._counts[group] += 1
        entry = [digest, program]
        if first == self._watch.process_id:
            try:
                self._client.key_value_set(key, json.dumps(entry))
            except JaxRuntimeError:
                pass  # the failure is noticed elsewhere
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._compare, name="jax-programs", daemon=True)
            self._thread.start()
        self._to_compare.put((key, entry, first))

    def stop(self, timeout: float) -> None:
        """Ends the threads; the client has been shut down, which ends a wait of them."""
        self.departures.stop(timeout)
        self._to_compare.put(None)
        if self._thread is not None:
            self._thread.join(timeout)

    def _compare(self) -> None:
        while (item := self._to_compare.get()) is not None:
            key, (digest, own), first = item
            try:
                text = self._client.blocking_key_value_get(key, FOREVER_MS)
            except JaxRuntimeError:
                return
            their_digest, theirs = json.loads(text)
            if their_digest != digest:
                self._watch.fail_together(
                    f"it runs the program {own}, where process {first} runs {theirs}. All processes"
                    " have to run the same programs in the same order"
                )
                return


def _collectives(text: str) -> list[str]:
    """What a program exchanges with other devices, in order."""
    return [
        f"{name} {_LAYOUT.sub('', shape)} {groups.rstrip(',')}"
        for shape, name, groups in _COLLECTIVE.findall(text)
    ]
