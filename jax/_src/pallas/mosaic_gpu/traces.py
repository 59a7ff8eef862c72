"""What profiled kernels for GPUs record, and the files of traces that the host makes of it.

A *recorder* is a thread of a block, or a warp. Its row of the records has a header, and an event for each scope that it entered
or left: the number of the scope's name, and the clock of the multiprocessor, of which only the lower half is kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

# The header: the time of the device in nanoseconds at the beginning and at the end of the kernel, two words each; the clock then;
# the multiprocessor; and the number of events.
START, END, FIRST_CLOCK, LAST_CLOCK, MULTIPROCESSOR, COUNT = 0, 2, 4, 5, 6, 7
HEADER_WORDS = 8
EVENT_WORDS = 2
LEFT = 2**31  # added to the number of a scope that is left


def row_words(space: int) -> int:
    """Return how many words a recorder has that enters and leaves so many scopes."""
    return HEADER_WORDS + 2 * space * EVENT_WORDS


def trace_events(
    records: np.ndarray, kernel: str, scopes: Sequence[str], recorders: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the events of a trace, as Chrome's trace viewer and Perfetto read them.

    Multiprocessors are processes, and recorders are their threads. Times are microseconds since the first block began. How long a cycle
    of the clock is follows from how long all recorders took.

    Args:
      records: unsigned words, a row for each recorder; zeros for those that did not run.
      kernel: the kernel's name, that of each recorder's whole time.
      scopes: the names of scopes, by their numbers.
      recorders: the names of the recorders of a block.

    Raises:
      RuntimeError: if a recorder had more events than there is space for.
    """
    words = records.astype(np.int64)
    space = (records.shape[1] - HEADER_WORDS) // EVENT_WORDS
    most = int(words[:, COUNT].max(initial=0))
    if most > space:
        raise RuntimeError(
            f"A thread of the kernel {kernel} entered {-(-most // 2)} scopes of jax.named_scope, but profile_space is {space // 2}: give "
            f"plgpu.CompilerParams(profile_space={-(-most // 2)}), or name fewer scopes."
        )
    begin, end = (words[:, i] | words[:, i + 1] << 32 for i in (START, END))
    ran = np.flatnonzero(begin)
    elapsed = [_elapsed(row) for row in words]
    cycles = sum([int(elapsed[i][-1]) for i in ran])
    nanoseconds = int((end - begin)[ran].sum())
    of_cycle = nanoseconds / cycles if nanoseconds > 0 and cycles else 1.0
    out: list[dict[str, Any]] = []
    for i in sorted(ran, key=lambda i: (begin[i], i)):
        since = int(begin[i] - begin[ran].min())
        place = {"pid": 1 + int(words[i, MULTIPROCESSOR]), "tid": 1 + int(i)}
        block, recorder = divmod(int(i), len(recorders))
        out += _named(place, block, recorders[recorder])
        numbers = _events(words[i])[:, 0]
        names = [scopes[n & LEFT - 1] for n in numbers]
        kinds = ["E" if n & LEFT else "B" for n in numbers]
        for name, kind, t in zip([kernel, *names, kernel], ["B", *kinds, "E"], elapsed[i]):
            ts = round((since + float(t) * of_cycle) / 1000, 3)
            out.append({"name": name, "ph": kind, "ts": ts, **place})
    return out


def _events(row: np.ndarray) -> np.ndarray:
    """Return the events of a recorder: numbers and clocks."""
    return row[HEADER_WORDS : HEADER_WORDS + EVENT_WORDS * row[COUNT]].reshape(-1, EVENT_WORDS)


def _elapsed(row: np.ndarray) -> np.ndarray:
    """Return how many cycles of the clock the beginning, each event and the end are after the beginning."""
    clocks = [row[FIRST_CLOCK], *_events(row)[:, 1], row[LAST_CLOCK]]
    return np.cumsum([0, *np.diff(clocks) % 2**32])


def _named(place: dict[str, int], block: int, recorder: str) -> list[dict[str, Any]]:
    """Return the events that name a multiprocessor and a recorder."""
    names = {"process_name": f"SM {place['pid'] - 1}", "thread_name": f"block {block}, {recorder}"}
    return [{"name": k, "ph": "M", **place, "args": {"name": v}} for k, v in names.items()]


def write_trace(directory: str, kernel: str, events: Sequence[dict[str, Any]]) -> str:
    """Write a trace to a new file of a directory, which is made if it is not there; return the file's name."""
    os.makedirs(directory, exist_ok=True)
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": list(events)})
    while True:
        path = os.path.join(directory, f"{kernel}-{time.time_ns()}-trace.json")
        try:
            with open(path, "x") as f:
                f.write(text)
        except FileExistsError:  # another device ended at the same time
            continue
        return path
