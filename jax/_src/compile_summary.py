"""What tracing, lowering and compiling took of each function, for `JAX_LOG_COMPILES=summary`.

The summary is printed to stderr when the program ends.
"""

from __future__ import annotations

import atexit
import collections
import dataclasses
import re
import sys
import threading
from collections.abc import Iterable, Sequence


@dataclasses.dataclass
class Stage:
    """How often a stage ran, and how long in all."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


@dataclasses.dataclass
class FunctionSummary:
    """What was done to the functions of one name.

    Attributes:
      stages: "trace", "lower" and "compile".
      defined_at: where they are defined, so far as it is known.
      causes: how often each cause made them miss their caches.
    """

    stages: dict[str, Stage] = dataclasses.field(default_factory=dict)
    defined_at: dict[str, None] = dataclasses.field(default_factory=dict)
    causes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def stage(self, name: str) -> Stage:
        return self.stages.setdefault(name, Stage())

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages.values())


# The stages that the events of `jax.monitoring` are about.
STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}

_functions: dict[str, FunctionSummary] = {}
_lock = threading.Lock()
_is_registered = False


def _function(name: str) -> FunctionSummary:
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(_print_at_exit)
    return _functions.setdefault(plain_name(name), FunctionSummary())


def plain_name(name: str) -> str:
    """`f` for `jit(f)`, as programs are called in events."""
    match = re.fullmatch(r"\w+\((.*)\)", name)
    return match[1] if match else name


def add_duration(event: str, name: str, seconds: float) -> None:
    """Adds a duration that was reported for a function."""
    if (stage := STAGES.get(event)) is not None:
        with _lock:
            _function(name).stage(stage).add(seconds)


def count_cause(name: str, defined_at: str | None, cause: str) -> None:
    """Counts the cause of a cache miss of a function; `defined_at` is None for those of the library."""
    with _lock:
        function = _function(name)
        if defined_at is not None:
            function.defined_at.setdefault(defined_at)
        function.causes[cause] += 1


def clear() -> None:
    """Forgets what was counted."""
    with _lock:
        _functions.clear()


def text() -> str:
    """The summary: a line for each function, those that took longest first."""
    with _lock:
        rows = sorted(_functions.items(), key=lambda item: -item[1].seconds)
        table = [("function", "traced", "lowered", "compiled", "defined at", "why, and how often")]
        for name, function in rows:
            stages = [stage_text(function.stages.get(stage)) for stage in STAGES.values()]
            causes = ", ".join(f"{cause}: {n}" for cause, n in function.causes.most_common())
            places = list(function.defined_at)
            where = f"{len(places)} places" if len(places) > 1 else "".join(places)
            table.append((name, *stages, where, causes))
        total = sum(function.seconds for function in _functions.values())
    heading = f"jax made programs of {len(rows)} functions in {duration(total)}"
    return "\n".join([heading, *aligned(table)])


def stage_text(stage: Stage | None) -> str:
    """How often and how long a stage ran; empty if it did not."""
    return "" if stage is None else f"{stage.count}x {duration(stage.seconds)}"


def duration(seconds: float) -> str:
    """A duration with three digits and a unit that fits.

    >>> from jax._src.compile_summary import duration
    >>> duration(0.01234), duration(75.4)
    ('12.3 ms', '75.4 s')
    """
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def aligned(table: Sequence[Iterable[str]]) -> list[str]:
    """Lines of a table with columns of equal width."""
    rows = [list(row) for row in table]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]


def _print_at_exit() -> None:
    if _functions:
        print(text(), file=sys.stderr)
