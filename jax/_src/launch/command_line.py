"""The command line of `python -m jax.distributed.launch`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import signal
import socket
import sys
from collections.abc import Sequence

from jax._src.clusters import launch_cluster
from jax._src.launch.supervisor import Supervisor

_DESCRIPTION = """\
Run a Python program as several processes on this machine. In each of them,
jax.distributed.initialize() needs no arguments. The output of the processes
is prefixed with their numbers. When one fails, the others are stopped."""

_STATUSES = """\
The exit status is 0 if all processes end with 0. Otherwise it is that of the
process that has failed first, or 128 + N if signal N has killed it. Processes
that are killed by a drill do not count. It is 124 after --timeout, 128 + N if
signal N (SIGINT, SIGTERM, SIGHUP) was passed on, and 2 for wrong arguments."""


@dataclasses.dataclass(frozen=True)
class Kill:
    """A signal for a process, some time after the start."""

    process: int
    seconds: float
    signal: signal.Signals


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.processes < 1:
        parser.error(f"-n: at least one process is needed, got {options.processes}")
    if options.devices_per_process is not None and options.devices_per_process < 1:
        parser.error(f"--devices-per-process: got {options.devices_per_process}")
    for kill in options.kill:
        if kill.process >= options.processes:
            parser.error(
                f"--kill: there is no process {kill.process} among {options.processes}, which are"
                " numbered from 0"
            )
    command = options.program[options.program[:1] == ["--"] :]
    if not command:
        parser.error("no PROGRAM is given")
    if not options.module and not os.path.exists(command[0]):
        parser.error(f"the program {command[0]!r} does not exist; for a module, write -m before it")
    command = [sys.executable, *(["-m"] if options.module else []), *command]
    coordinator = options.coordinator or f"127.0.0.1:{_free_port()}"
    environments = [_environment(i, coordinator, options) for i in range(options.processes)]
    supervisor = Supervisor(
        command,
        environments,
        kills=options.kill,
        timeout=options.timeout,
        grace=options.grace,
        color=options.color,
    )
    try:
        return supervisor.run()
    except BrokenPipeError:  # what reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jax.distributed.launch",
        description=_DESCRIPTION,
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("-n", "--processes", type=int, required=True, metavar="N", help="how many processes")
    add(
        "--devices-per-process",
        type=int,
        metavar="N",
        help="how many devices each process uses: of the CPU, virtual ones; of GPUs, process 0 the"
        " first N, process 1 the next",
    )
    add(
        "--coordinator",
        type=_address,
        metavar="HOST:PORT",
        help="where process 0 listens; by default a free port of this machine",
    )
    add(
        "--kill",
        type=_kill,
        action="append",
        default=[],
        metavar="PROCESS@TIME[:SIGNAL]",
        help="for drills: kill a process some time after the start, such as 2@5s, 0@300ms or"
        " 1@2s:TERM. The others are not stopped, so that one sees what they do, unless one fails for"
        " another reason than that",
    )
    add(
        "--timeout",
        type=_seconds,
        metavar="TIME",
        help="stop all processes after this time, such as 10m; the exit status is then 124",
    )
    add(
        "--grace",
        type=_seconds,
        default=3.0,
        metavar="TIME",
        help="how long processes may take to stop before they are killed (3s)",
    )
    add("--color", choices=["auto", "always", "never"], default="auto", help="color of prefixes")
    add("-m", dest="module", action="store_true", help="PROGRAM is the name of a module")
    add("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="program and arguments")
    return parser


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"a time is like 5s, 300ms, 2m or 1h, got {text!r}")
    return float(match[1]) * {"ms": 1e-3, "s": 1, "": 1, "m": 60, "h": 3600}[match[2]]


def _kill(text: str) -> Kill:
    match = re.fullmatch(r"(\d+)@([^:]+)(?::(\w+))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"a drill is like 2@5s, or 2@5s:TERM for another signal than KILL, got {text!r}"
        )
    name = (match[3] or "KILL").upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise argparse.ArgumentTypeError(f"there is no signal {name!r} (in {text!r})")
    return Kill(int(match[1]), _seconds(match[2]), signal.Signals[f"SIG{name}"])


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"an address is like host:port, got {text!r}")
    return text


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _environment(i: int, coordinator: str, options: argparse.Namespace) -> dict[str, str]:
    out = {
        **os.environ,
        launch_cluster.COORDINATOR: coordinator,
        launch_cluster.NUM_PROCESSES: str(options.processes),
        launch_cluster.PROCESS_ID: str(i),
        "PYTHONUNBUFFERED": "1",  # lines come when they are printed
    }
    count = options.devices_per_process
    if count is not None:
        out["JAX_NUM_CPU_DEVICES"] = str(count)
        out["JAX_LOCAL_DEVICE_IDS"] = ",".join(str(i * count + k) for k in range(count))
    return out
