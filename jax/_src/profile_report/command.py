"""The command line of reports: `python -m jax.tools.profile PROGRAM`."""

from __future__ import annotations

import argparse
import os
import pathlib
import runpy
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

from jax._src.profile_report.report import Report, report


def main(arguments: Sequence[str] | None = None) -> Any:
    """Runs a program and reports what its time and memory went into.

    Args:
      arguments: those of the command line; see `python -m jax.tools.profile --help`.

    Returns:
      The program's exit status; an error of the program is raised after the report has been written.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    file = pathlib.Path(options.output).absolute()  # the program may change the folder
    program = options.program
    if not file.parent.is_dir() or file.is_dir():  # before a program that may take hours
        parser.error(f"the report cannot be written to {file}: name a file in a folder that exists")
    if not options.module and not os.path.exists(program):
        parser.error(f"there is no program {program}; write -m before the name of a module")
    sys.argv = [program, *options.arguments]
    finished: Report | None = None
    status: Any = 0
    try:
        with report(None, title=_title(options), trace=not options.no_trace) as finished:
            try:
                if options.module:
                    sys.path.insert(0, os.getcwd())
                    runpy.run_module(program, run_name="__main__", alter_sys=True)
                else:
                    sys.path.insert(0, str(pathlib.Path(program).absolute().parent))
                    runpy.run_path(program, run_name="__main__")
            except SystemExit as end:
                status = end.code
            _wait_for_threads()
    finally:
        if finished is not None:
            finished.save(file)
            _print(finished, sys.stderr, is_short=not options.text)
            print(f"\nreport: {file}", file=sys.stderr)
    return status


def _wait_for_threads() -> None:
    """Waits for the threads that the program has started, as Python does at a program's end."""
    others = [t for t in threading.enumerate() if t is not threading.current_thread()]
    for thread in others:
        if not thread.daemon:
            thread.join()


def _title(options: argparse.Namespace) -> str:
    return " ".join([pathlib.Path(options.program).name, *options.arguments])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jax.tools.profile",
        description="Runs a program, and reports what its time and memory went into: tracing, lowering, compiling and running.",
    )
    add = parser.add_argument
    add("-o", "--output", default="jax_profile.html", metavar="FILE", help="the page, by default jax_profile.html")  # fmt: skip
    add("--text", action="store_true", help="print all tables, not only the summary")
    add("--no-trace", action="store_true", help="do not trace the runtime, which takes memory in long programs")  # fmt: skip
    add("-m", dest="module", action="store_true", help="PROGRAM is the name of a module")
    add("program", metavar="PROGRAM", help="the file of the program")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="those of the program")
    return parser


def _print(finished: Report, stream: IO[str], is_short: bool) -> None:
    """Prints to a terminal with the library rich, if it is installed; elsewhere as plain text."""
    sections = finished.sections[:2] if is_short else finished.sections
    if not stream.isatty():
        print(finished.text_of(sections), file=stream)
        return
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(finished.text_of(sections), file=stream)
        return
    console = Console(file=stream, markup=False, highlight=False)
    console.print(finished.summary, style="bold")
    for hint in finished.hints:
        console.print(f"- {hint}", style="yellow")
    for section in sections:
        table = Table(title=section.title, title_justify="left", box=None)
        for i, column in enumerate(section.columns):
            table.add_column(column, justify="right" if i in section.numbers else "left")
        for row in section.texts:
            table.add_row(*row)
        console.print(table)
