"""Traces in the form that the Perfetto viewer loads, and a server of one file for it."""

from __future__ import annotations

import gzip
import http.server
import json
import pathlib
import socketserver
from typing import Any

from jax._src import lib

PORT = 9001  # the viewer may load files only from this port of this machine
VIEWER = "https://ui.perfetto.dev"


def write_perfetto_trace(log_dir: str) -> pathlib.Path:
    """Writes `perfetto_trace.json.gz` beside the newest trace in a folder of traces, and returns its path.

    Raises:
      FileNotFoundError: if there is no trace in the folder.
    """
    found = pathlib.Path(log_dir, "plugins", "profile").glob("*/*.xplane.pb")
    newest = max(found, key=lambda file: file.stat().st_mtime_ns, default=None)
    if newest is None:
        raise FileNotFoundError(f"There is no trace in the folder {log_dir}.")
    events = newest.with_name(newest.name.replace(".xplane.pb", ".trace.json.gz"))
    if events.exists():
        with gzip.open(events, "rt", encoding="utf-8") as file:
            trace = json.load(file)
        # The viewer rejects what it does not know.
        trace.pop("metadata", None)
    else:  # collected by another process, which gets the raw trace only
        trace = trace_events(lib._profile_data.ProfileData.from_file(str(newest)))
    result = newest.with_name("perfetto_trace.json.gz")
    with gzip.open(result, "wt", encoding="utf-8") as file:
        json.dump(trace, file)
    return result


def trace_events(data: Any) -> dict[str, Any]:
    """Returns a raw trace in the Trace Event Format: a process for each plane, a thread for each line."""
    events: list[dict[str, Any]] = []
    for pid, plane in enumerate(data.planes, 1):
        events.append(_name("process_name", pid, 0, plane.name))
        for tid, line in enumerate(plane.lines, 1):
            events.append(_name("thread_name", pid, tid, line.name))
            for event in line.events:
                events.append({
                    "ph": "X", "pid": pid, "tid": tid, "name": event.name,
                    "ts": event.start_ns / 1000, "dur": event.duration_ns / 1000,
                    "args": {name: str(value) for name, value in event.stats},
                })  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}


def show(file: pathlib.Path) -> None:
    """Prints a link to the viewer, and serves a file until the viewer has loaded it."""
    with _Server(("127.0.0.1", PORT), file) as server:
        print(f"Open URL in browser: {VIEWER}/#!/?url=http://127.0.0.1:{PORT}/{file.name}", flush=True)  # fmt: skip
        while not server.was_loaded:
            server.handle_request()


class _Server(socketserver.TCPServer):
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], file: pathlib.Path):
        super().__init__(address, _Handler)
        self.file = file
        self.was_loaded = False


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for the one file, and for nothing else."""

    server: _Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != f"/{self.server.file.name}":
            self.send_error(404)
            return
        data = self.server.file.read_bytes()
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", VIEWER)
        self.send_header("Content-Type", "application/gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.server.was_loaded = True

    def do_OPTIONS(self) -> None:
        self.send_response(204)
        self.send_header("Access-Control-Allow-Origin", VIEWER)
        self.send_header("Access-Control-Allow-Methods", "GET")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass  # nothing on the terminal
