"""The report: what to do, and tables of functions, passes, operations, memory, constants and residuals."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence

from jax._src.compile_summary import aligned, stage_text
from jax._src.interpreters.mlir import sanitize_name
from jax._src.pages import Html, Page, bytes_text, duration, element, join, table
from jax._src.profile_report.collector import Collected, Collector
from jax._src.profile_report.hints import hints
from jax._src.profile_report.programs import Held
from jax._src.util import set_module

export = set_module("jax.profiler")

_MOST_ROWS = 30
_STAGES = {"trace": "tracing", "lower": "lowering", "compile": "compiling"}


@dataclasses.dataclass
class Section:
    """A table of the report.

    Attributes:
      title, columns, rows: its contents; a cell is a text, or a text and the share that a bar shows.
      numbers: the columns that are numbers.
      note: a sentence below the title.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[Sequence[str | tuple[str, float]]]
    numbers: tuple[int, ...] = ()
    note: str = ""

    @property
    def texts(self) -> list[list[str]]:
        return [[c[0] if isinstance(c, tuple) else c for c in row] for row in self.rows]


class Report(Page):
    """What the time and memory of a block went into; see `jax.profiler.report`.

    Attributes:
      html: the page, which loads nothing.
      text: the same as text.
      summary: the times of all stages and the peak of memory, in one line.
      hints: what to do, most important first.
      sections: the tables.
    """

    def __init__(self, title: str = "jax program"):
        self.hints: list[str] = []
        self.sections: list[Section] = []
        self.summary = "the report is not finished: it is when its `with` block ends"
        super().__init__(title, element("p", self.summary))

    def finish(self, collected: Collected) -> None:
        """Fills in what was collected."""
        self.summary = summary_of(collected)
        self.hints = hints(collected)
        self.sections = [s for s in sections_of(collected) if s.rows or s.note]
        parts: list[Html] = [element("p", self.summary, class_="note")]
        if self.hints:
            items = join(element("li", hint) for hint in self.hints)
            parts += [element("h2", "What to do"), element("ul", items)]
        for section in self.sections:
            parts.append(element("h2", section.title))
            if section.note:
                parts.append(element("p", section.note, class_="note faint"))
            if section.rows:
                found = table(section.columns, section.rows, numbers=section.numbers)
                parts.append(element("div", found, class_="scroll"))
        super().__init__(self.title, join(parts))

    @property
    def text(self) -> str:
        return self.text_of(self.sections)

    def text_of(self, sections: Sequence[Section]) -> str:
        """The text with only these tables."""
        lines = [self.title, self.summary]
        lines += [f"- {hint}" for hint in self.hints]
        for section in sections:
            lines += ["", section.title]
            if section.note:
                lines.append(f"({section.note})")
            if section.rows:
                lines += aligned([section.columns, *section.texts])
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Report of {self.title}: {self.summary}>"


@export
@contextlib.contextmanager
def report(
    file: str | os.PathLike[str] | None = None, *, title: str = "jax program", trace: bool = True
) -> Iterator[Report]:
    """Context manager: reports what the time and memory of its block went into, as one HTML page and as text.

    The report has: times of tracing, lowering, compiling (by pass of the compiler) and running, by function; calls and
    cache misses with their causes; peak memory; the biggest constants that functions captured, and the biggest values
    that are kept for backward passes, with their lines. `python -m jax.tools.profile PROGRAM` does this for a program.

    Args:
      file: where to write the page when the block ends, also after an error.
      title: the title of the page.
      trace: whether to trace the runtime, for the times of runs and passes, and for calls. The trace is in memory until
        the block ends: some 200 bytes for each operation that runs.

    Returns:
      A context manager whose value is the `Report`: printed, it is the text; notebooks show the page.

    Raises:
      RuntimeError: another report is being made.

    >>> with jax.profiler.report(title="example") as report:
    ...     y = jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((100, 100)))
    >>> [section.title for section in report.sections][:2]
    ['Time', 'Functions']
    """
    result = Report(title)
    collector = Collector(trace)
    collector.start()
    try:
        yield result
    finally:
        result.finish(collector.stop())
        if file is not None:
            result.save(file)


def summary_of(collected: Collected) -> str:
    stages = collected.stage_seconds
    texts = [f"{duration(collected.seconds)} in all"]
    texts += [f"{duration(stages.get(stage, 0.0))} {words}" for stage, words in _STAGES.items()]
    if collected.trace is not None:
        texts.append(f"{duration(collected.trace.busy_seconds)} running on devices")
    texts.append(f"peak memory {bytes_text(collected.peak_bytes)}")
    return ", ".join(texts)


def sections_of(collected: Collected) -> Iterator[Section]:
    yield _time(collected)
    yield _functions(collected)
    yield _cache_misses(collected)
    yield _passes(collected)
    yield _operations(collected)
    yield _caches(collected)
    yield _memory(collected)
    yield _programs(collected)
    constants = "Arrays that functions captured: each is compiled into the program, and in memory once more."
    yield _held("Biggest constants", constants, collected.constants, "read by")
    residuals = "What forward passes compute and backward passes read, before the compiler removes duplicates."
    yield _held("Biggest values kept for backward passes", residuals, collected.residuals, "of")


def _time(collected: Collected) -> Section:
    total = collected.seconds or 1.0
    stages = collected.stage_seconds
    rows = [(words, stages.get(stage, 0.0)) for stage, words in _STAGES.items()]
    if collected.trace is not None:
        rows.append(("running on devices", collected.trace.busy_seconds))
    return Section(
        "Time",
        ("", "time", "share"),
        [(name, (duration(s), s / total), f"{100 * s / total:.0f} %") for name, s in rows],
        (1, 2),
        "" if not collected.no_trace else f"There is no trace: {collected.no_trace}.",
    )


def _functions(collected: Collected) -> Section:
    trace = collected.trace
    calls = trace.calls if trace else {}
    runs = trace.runs if trace else {}
    misses = collected.misses.counts
    rows = []
    ran = {name: runs.get(_module_name(name)) for name in collected.functions}
    shown = {_module_name(name) for name in collected.functions}
    ran |= {name: run for name, run in runs.items() if name not in shown}
    total: dict[str, float] = {}
    for name, run in ran.items():
        function = collected.functions.get(name)
        total[name] = (function.seconds if function else 0.0) + (run.seconds if run else 0.0)
    most = max(total.values(), default=0.0) or 1.0
    for name in sorted(total, key=lambda name: -total[name])[:_MOST_ROWS]:
        function, run = collected.functions.get(name), ran[name]
        stages = function.stages if function else {}
        cells = [stage_text(stages.get(stage)) for stage in _STAGES]
        # The library's own first traces are no misses to users, but its programs are compiled.
        compiled = stages["compile"].count if "compile" in stages else 0
        missed = max(sum(misses.get(name, {}).values()), compiled)
        called = calls.get(name, 0)
        hits = f"{max(called - missed, 0)} of {called}" if called else ""
        rows.append(
            (name, *cells, stage_text(run), hits, (duration(total[name]), total[name] / most))
        )
    return Section(
        "Functions",
        ("function", "traced", "lowered", "compiled", "run", "cache hits", "in all"),
        rows,
        (1, 2, 3, 4, 5, 6),
        "A trace's time has that of the functions that it calls. Runs add up the threads and devices. Cache hits: calls from"
        " Python that found a compiled program.",
    )


def _module_name(name: str) -> str:
    """The name of the module of a function's program."""
    return sanitize_name(f"jit_{name}").rstrip("_")


def _cache_misses(collected: Collected) -> Section:
    rows = []
    for miss in collected.misses:
        if miss.kind == "first" or miss.is_within:
            continue
        changes = "; ".join(map(str, miss.changes)) or miss.cause
        rows.append((miss.name, miss.called_at, changes, miss.remedy or ""))
    note = f"{len(rows) - _MOST_ROWS} more are left out." if len(rows) > _MOST_ROWS else ""
    columns = ("function", "called at", "changed", "remedy")
    return Section("Calls that were traced or compiled again", columns, rows[:_MOST_ROWS], (), note)


def _passes(collected: Collected) -> Section:
    passes = collected.trace.passes if collected.trace else {}
    most = max((stage.seconds for stage in passes.values()), default=0.0) or 1.0
    longest = sorted(passes.items(), key=lambda item: -item[1].seconds)[:_MOST_ROWS]
    return Section(
        "Compiler",
        ("pass", "times", "in all"),
        [(name, f"{s.count}", (duration(s.seconds), s.seconds / most)) for name, s in longest],
        (1, 2),
        "Without the passes that each of them contains; threads of code generation run at the same time." if passes else "",
    )  # fmt: skip


def _operations(collected: Collected) -> Section:
    operations = collected.trace.operations if collected.trace else {}
    most = max((stage.seconds for stage in operations.values()), default=0.0) or 1.0
    longest = sorted(operations.items(), key=lambda item: -item[1].seconds)[:_MOST_ROWS]
    return Section(
        "Operations",
        ("operation", "program", "times", "in all", "of", "line"),
        [
            (
                name,
                module,
                f"{s.count}",
                (duration(s.seconds), s.seconds / most),
                *collected.places.get((module, name), ("", "")),
            )
            for (module, name), s in longest
        ],
        (2, 3),
        "Of all threads and devices. A fused operation has the name and line of its last part."
        if longest
        else "",
    )


_CACHE_EVENTS = {
    "/jax/compilation_cache/cache_hits": "programs found in the compilation cache",
    "/jax/compilation_cache/cache_misses": "programs not found there",
    "/jax/compilation_cache/compile_requests_use_cache": "programs looked for there",
}


def _caches(collected: Collected) -> Section:
    events = collected.events
    rows: list[Sequence] = [(text, f"{events[e]}") for e, text in _CACHE_EVENTS.items() if e in events]  # fmt: skip
    return Section("Compilation cache", ("", "count"), rows, (1,))


def _memory(collected: Collected) -> Section:
    rows: list[Sequence] = [
        ("this process", bytes_text(collected.peak_bytes), ""),
        ("this process, before the report began", bytes_text(collected.bytes_before), ""),
    ]
    for device, peak, limit in collected.devices:
        rows.append((device, bytes_text(peak), bytes_text(limit) if limit else ""))
    return Section("Peak memory since the start", ("of", "peak", "limit"), rows, (1, 2))


def _programs(collected: Collected) -> Section:
    biggest = sorted(collected.programs, key=lambda p: -p.total)[:_MOST_ROWS]
    most = max((p.total for p in biggest), default=0) or 1
    return Section(
        "Memory of programs",
        ("program", "arguments", "results", "temporary", "code", "in all"),
        [
            (
                p.function,
                *[bytes_text(n) for n in (p.arguments, p.results, p.temporary, p.code)],
                (bytes_text(p.total), p.total / most),
            )
            for p in biggest
        ],
        (1, 2, 3, 4, 5),
    )


def _held(title: str, note: str, values: list[Held], what: str) -> Section:
    counts: dict[Held, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    biggest = sorted(counts, key=lambda v: -v.nbytes)[:_MOST_ROWS]
    most = biggest[0].nbytes or 1 if biggest else 1
    rows = [
        (v.type, (bytes_text(v.nbytes), v.nbytes / most), v.what, v.function, v.line)
        for v in biggest
    ]
    return Section(title, ("type", "bytes", what, "function", "line"), rows, (1,), note if rows else "")  # fmt: skip
