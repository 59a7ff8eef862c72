"""What a trace of the runtime tells: calls, passes of the compiler, and operations on devices."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from jax._src import lib
from jax._src.compile_summary import Stage


@dataclasses.dataclass
class TraceSummary:
    """Sums over a trace.

    Attributes:
      calls: of jitted functions from Python, by name; those in other functions' traces included.
      runs: of programs, by the name of the module: how many there were, so far as the runtime numbers them, and the
        time of their operations, of all devices and threads together.
      operations: by module and name; without the operations that they contain.
      passes: of the compiler, by name; without the passes that they contain.
      busy_seconds: how long operations ran, counted once where several ran at a time.
    """

    calls: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    runs: dict[str, Stage] = dataclasses.field(default_factory=dict)
    operations: dict[tuple[str, str], Stage] = dataclasses.field(default_factory=dict)
    passes: dict[str, Stage] = dataclasses.field(default_factory=dict)
    busy_seconds: float = 0.0


class _Node:
    """An event, in the tree of those that contain each other."""

    __slots__ = ("name", "start", "end", "inner", "parent", "stats")

    def __init__(self, name: str, start: float, end: float, parent: _Node | None, stats: dict):
        self.name = name
        self.start = start
        self.end = end
        self.inner = 0.0  # time of the events that it contains
        self.parent = parent
        self.stats = stats

    @property
    def own(self) -> float:
        return max(self.end - self.start - self.inner, 0.0)


_CALL = re.compile(r"PjitFunction\((.*)\)")
_OTHER_THREADS = "TaskDispatcher::dispatch"  # in whose threads LLVM compiles


def summarize_trace(data: bytes) -> TraceSummary:
    """Sums up a trace, as a `ProfilerSession` returns it."""
    summary = TraceSummary()
    run_ids: dict[str, set[Any]] = {}
    busy: list[tuple[float, float]] = []
    profile = lib._profile_data.ProfileData.from_serialized_xspace(data)  # owns what follows
    for plane in profile.planes:
        for line in plane.lines:
            nodes = _tree(line.events)
            _add_calls(summary, nodes)
            _add_passes(summary, nodes)
            _add_operations(summary, nodes, run_ids, busy)
    for module, ids in run_ids.items():
        summary.runs[module].count = len(ids)
    summary.busy_seconds = covered(busy)
    return summary


def _tree(events: Iterable[Any]) -> list[_Node]:
    """The events of a thread in the order of their start, each with the one that contains it."""
    found = []
    for e in events:
        if not e.name.startswith(("end: ", "$")):
            found.append((e.start_ns, -e.end_ns, e.name, dict(e.stats)))
    found.sort(key=lambda item: item[:2])
    nodes: list[_Node] = []
    around: list[_Node] = []
    for start, minus_end, name, stats in found:
        while around and around[-1].end * 1e9 <= start:
            around.pop()
        parent = around[-1] if around else None
        node = _Node(name, start / 1e9, -minus_end / 1e9, parent, stats)
        if parent is not None:
            parent.inner += node.end - node.start
        nodes.append(node)
        around.append(node)
    return nodes


def _add_calls(summary: TraceSummary, nodes: list[_Node]) -> None:
    for node in nodes:
        match = _CALL.fullmatch(node.name)
        if match and (node.parent is None or node.parent.name != node.name):  # each call has two
            summary.calls[match[1]] += 1


def _add_passes(summary: TraceSummary, nodes: list[_Node]) -> None:
    """Adds the passes in what compiles: the outermost events around a pipeline of passes, which names its module."""
    roots: set[int] = set()
    for node in nodes:
        if node.name == _OTHER_THREADS or "module" in node.stats and "hlo_op" not in node.stats:
            roots.add(id(_outermost(node)))
    inside: set[int] = set()
    for node in nodes:  # parents come before what they contain
        if id(node) in roots or node.parent is not None and id(node.parent) in inside:
            inside.add(id(node))
            name = re.sub(r" \([\w.<>-]*\)$", "", node.name)  # the name of the module
            summary.passes.setdefault(name, Stage()).add(node.own)


def _outermost(node: _Node) -> _Node:
    while node.parent is not None and not _CALL.fullmatch(node.parent.name):
        node = node.parent
    return node


def _add_operations(
    summary: TraceSummary, nodes: list[_Node], run_ids: dict[str, set[Any]], busy: list
) -> None:
    for node in nodes:
        if "hlo_op" not in node.stats:
            continue
        module = str(node.stats.get("hlo_module", "?"))
        summary.operations.setdefault((module, str(node.stats["hlo_op"])), Stage()).add(node.own)
        summary.runs.setdefault(module, Stage())
        run_ids.setdefault(module, set()).add(node.stats.get("run_id"))
        if node.parent is None or "hlo_op" not in node.parent.stats:
            summary.runs[module].seconds += node.end - node.start
            busy.append((node.start, node.end))


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals.

    >>> from jax._src.profile_report.trace_events import covered
    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, last = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(end - max(start, last), 0.0)
        last = max(last, end)
    return total
