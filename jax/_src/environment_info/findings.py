"""What a check of the doctor found."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple


class Level(enum.IntEnum):
    """How bad a finding is: an ERROR is something that does not work, a WARNING something that is slow or ignored."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3


class Finding(NamedTuple):
    """One finding.

    Attributes:
      level: how bad it is.
      topic: what was checked, in one word.
      message: what was found.
      remedy: the command that mends it; None if there is nothing to mend, or no single command does.
    """

    level: Level
    topic: str
    message: str
    remedy: str | None = None


def ok(topic: str, message: str) -> Finding:
    return Finding(Level.OK, topic, message)


def note(topic: str, message: str, remedy: str | None = None) -> Finding:
    return Finding(Level.NOTE, topic, message, remedy)


def warning(topic: str, message: str, remedy: str | None = None) -> Finding:
    return Finding(Level.WARNING, topic, message, remedy)


def error(topic: str, message: str, remedy: str | None = None) -> Finding:
    return Finding(Level.ERROR, topic, message, remedy)


def report(findings: Iterable[Finding]) -> str:
    """The findings as text: a line each, the remedy below it, and a last line that counts problems.

    >>> from jax._src.environment_info.findings import ok, report, warning
    >>> print(report([ok("caches", "fine"), warning("threads", "too many", "export OMP_NUM_THREADS=2")]))
    ok       caches: fine
    warning  threads: too many
             mend it: export OMP_NUM_THREADS=2
    1 problem: 0 errors, 1 warning
    """
    findings = list(findings)
    lines = []
    for level, topic, message, remedy in findings:
        lines.append(f"{level.name.lower():8} {topic}: {message}")
        if remedy is not None:
            verb = "mend it" if level >= Level.WARNING else "to do so"
            lines.append(f"{'':8} {verb}: {remedy}")
    errors = sum(f.level is Level.ERROR for f in findings)
    warnings = sum(f.level is Level.WARNING for f in findings)
    if errors or warnings:
        parts = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
        lines.append(f"{_count(errors + warnings, 'problem')}: {parts}")
    else:
        lines.append("no problems found")
    return "\n".join(lines)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
