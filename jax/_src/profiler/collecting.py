"""The command that has the server of another process trace it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from jax._src.profiler import perfetto

_DESCRIPTION = """\
Traces a program that runs, and that has called jax.profiler.start_server(PORT). The trace is written to a
folder, and a link is printed that displays it in the Perfetto viewer.

Further options, --NAME=VALUE, go to the tracer: for instance --host_tracer_level=2, --device_tracer_level=1,
--python_tracer_level=1, which are the defaults."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command; see its `--help`."""
    parser = argparse.ArgumentParser(
        prog="python -m jax.collect_profile",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("port", type=int, help="the port of the program's server")
    parser.add_argument("duration_in_ms", type=int, help="how long to trace, in milliseconds")
    parser.add_argument("--log_dir", help="the folder; by default a new one for temporary files")
    parser.add_argument(
        "--no_perfetto_link", action="store_true", help="print no link, and end at once"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the program's machine (%(default)s)")
    parsed, others = parser.parse_known_args(arguments)
    options = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 1}
    options |= dict(_option(parser, text) for text in others)
    log_dir = parsed.log_dir or tempfile.mkdtemp()
    os.makedirs(log_dir, exist_ok=True)
    _client().trace(
        f"{parsed.host}:{parsed.port}", log_dir, "", True, parsed.duration_in_ms, 3, options
    )
    print(f"Dumped profiling information in: {log_dir}", flush=True)
    if not parsed.no_perfetto_link:
        perfetto.show(perfetto.write_perfetto_trace(log_dir))


def _option(parser: argparse.ArgumentParser, text: str) -> tuple[str, Any]:
    name, equals, value = text.removeprefix("--").partition("=")
    if not text.startswith("--") or not equals or not name:
        parser.error(f"{text}: options of the tracer have the form --NAME=VALUE")
    return name, int(value) if value.lstrip("-").isdigit() else value


def _client() -> Any:
    try:
        from xprof.convert import _pywrap_profiler_plugin
    except ImportError as error:
        sys.exit(f"This command takes the package xprof: pip install xprof ({error})")
    return _pywrap_profiler_plugin
