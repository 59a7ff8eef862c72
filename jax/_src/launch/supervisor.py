"""Starting processes, passing their output and signals on, and stopping them together."""

from __future__ import annotations

import collections
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

_LAST_LINES = 12
_COLORS = (36, 33, 32, 35, 34, 31)  # of terminals
_LAST_READS = 1000  # of what the processes have left in their pipes
_TIMED_OUT = 124  # as the program `timeout` has it
# Errors that only tell that another process has failed; see `jax._src.distributed`.
_CONSEQUENCE = re.compile(
    r"jax\.distributed\.ProcessesError|RuntimeError: Process \d+ of \d+ could not (start|end) together"
    r"|Another process of this program has ended"
)
# A process of its own: when the pipe is closed without a farewell, this one has been killed.
_GUARD = """
import os, signal
text = b""
while chunk := os.read(0, 4096):
    text += chunk
if not text.endswith(b"end\\n"):
    for pid in text.split():
        try:
            os.killpg(int(pid), signal.SIGKILL)
        except OSError:
            pass
"""


class _Process:
    """A started process, its last lines, and how it has ended."""

    def __init__(self, number: int, command: Sequence[str], env: dict[str, str]):
        self.number = number
        self.popen = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # signals reach what it starts, and Ctrl-C only this program
        )
        self.rest: dict[str, list[bytes]] = {"stdout": [], "stderr": []}  # of lines without an end
        self.ended_with_return = {"stdout": False, "stderr": False}
        self.last_lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self.is_consequence = False  # of another process's failure
        self.was_stopped = False  # by this program
        self.status: int | None = None
        self.ended_at = float("inf")

    def send(self, number: int) -> None:
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def how_it_ended(self) -> str:
        status = self.status or 0
        if status >= 0:
            return f"exit status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = "unknown"
        return f"killed by signal {-status} ({name})"

    def has_failed_itself(self) -> bool:
        return not self.is_consequence and not self.was_stopped


class Supervisor:
    """Runs a command in several environments, at the same time.

    Args:
      command: the command.
      environments: the environment variables of each process.
      kills: signals for processes (`command_line.Kill`).
      timeout: the longest time to run, in seconds, or None.
      grace: the time between asking processes to stop and killing them.
      color: 'always', 'never' or 'auto', for colored prefixes.
    """

    def __init__(
        self,
        command: Sequence[str],
        environments: Sequence[dict[str, str]],
        *,
        kills: Sequence[Any] = (),
        timeout: float | None = None,
        grace: float = 3.0,
        color: str = "auto",
    ):
        self._command = command
        self._environments = environments
        self._grace = grace
        self._color = color
        self._processes: list[_Process] = []
        self._drilled: set[int] = set()
        self._status: int | None = None  # of this program, if it is not that of a process
        self._stop_reason: str | None = None
        self._stop_step = 0
        # What to do when: (time, function), in any order.
        self._agenda: list[tuple[float, Any]] = []
        # What has come meanwhile; each wakes the loop.
        self._signals: collections.deque[int] = collections.deque()
        self._exits: collections.deque[_Process] = collections.deque()
        now = time.monotonic()
        for kill in kills:
            self._agenda.append((now + kill.seconds, lambda kill=kill: self._drill(kill)))
        if timeout is not None:
            self._agenda.append((now + timeout, lambda: self._time_out(timeout)))

    def run(self) -> int:
        """Runs the processes until all have ended; returns the exit status."""
        self._selector = selectors.DefaultSelector()
        read, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        self._selector.register(read, selectors.EVENT_READ, None)
        handled = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        # What is ignored stays so, such as SIGHUP under `nohup`.
        handled = [s for s in handled if signal.getsignal(s) is not signal.SIG_IGN]
        # A signal that arrives just before the main thread waits, or in another thread, has to end
        # the wait: `_on_signal` is only called after it.
        previous_wakeup = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        previous = {s: signal.signal(s, self._on_signal) for s in handled}
        guard = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _GUARD],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert guard.stdin is not None
        try:
            for i, env in enumerate(self._environments):
                process = _Process(i, self._command, env)
                self._processes.append(process)
                guard.stdin.write(b"%d\n" % process.popen.pid)
                guard.stdin.flush()
                self._follow(process)
            self._loop()
        finally:
            for process in self._processes:
                process.send(signal.SIGKILL)  # also what a process has left behind
                for pipe in (process.popen.stdout, process.popen.stderr):
                    pipe.close()
            for s, handler in previous.items():
                signal.signal(s, handler)
            signal.set_wakeup_fd(previous_wakeup)
            guard.stdin.write(b"end\n")
            guard.stdin.close()
            guard.wait()
        return self._report()

    def _follow(self, process: _Process) -> None:
        for name in ("stdout", "stderr"):
            pipe = getattr(process.popen, name)
            self._selector.register(pipe, selectors.EVENT_READ, (process, name))

        def wait():
            process.popen.wait()
            self._exits.append(process)
            try:
                os.write(self._wakeup, b".")
            except BlockingIOError:
                pass  # it is full, so the loop wakes anyway

        threading.Thread(target=wait, daemon=True).start()

    def _on_signal(self, number: int, frame: Any) -> None:
        self._signals.append(number)

    # The loop

    def _loop(self) -> None:
        while any(p.status is None for p in self._processes):
            now = time.monotonic()
            due = [item for item in self._agenda if item[0] <= now]
            self._agenda = [item for item in self._agenda if item[0] > now]
            for _, action in due:
                action()
            while self._signals:
                self._pass_on(self._signals.popleft())
            # `_ended` reads what wakes the loop, so that nothing may wait behind it.
            if self._exits:
                self._ended(self._exits.popleft())
                continue
            wait = min((at for at, _ in self._agenda), default=None)
            self._read(None if wait is None else max(wait - time.monotonic(), 0))
        # What is still in the pipes; something that a process has left behind may keep them open.
        deadline = time.monotonic() + 0.2
        for _ in range(_LAST_READS):
            if len(self._selector.get_map()) < 2:
                break
            # Reading, and a slow reader of this output, may take longer than the wait.
            if not self._read(max(deadline - time.monotonic(), 0)):
                break
        for process in self._processes:
            for name in ("stdout", "stderr"):
                self._print(process, name, b"\n" if process.rest[name] else b"")

    def _read(self, timeout: float | None) -> bool:
        """Prints what the processes have written; False if there was nothing in time."""
        ready = self._selector.select(timeout)
        for key, _ in ready:
            chunk = os.read(key.fd, 65536)
            if key.data is None:
                continue
            process, name = key.data
            if chunk:
                self._print(process, name, chunk)
            else:
                self._selector.unregister(key.fileobj)
                key.fileobj.close()
        return bool(ready)

    def _ended(self, process: _Process) -> None:
        for _ in range(_LAST_READS):  # its last words tell whether another one has failed
            if not self._read(0):
                break
        process.status = process.popen.returncode
        process.ended_at = time.monotonic()
        if not process.status or process.number in self._drilled:
            return
        # In a drill one sees what becomes of the others, unless one fails for another reason.
        if process.has_failed_itself() or not self._drilled:
            self._stop(None)

    # Stopping

    def _stop(self, reason: str | None) -> None:
        """Ends all processes: those that do not end by themselves are asked to, and then killed."""
        if self._stop_step:
            return
        self._stop_step = 1
        self._stop_reason = reason
        now = time.monotonic()
        # Processes that are told of the failure of another one end with an error of their own.
        first = 0.0 if reason else min(1.0, self._grace)
        self._agenda = [
            (now + first, lambda: self._send_all(signal.SIGTERM)),
            (now + first + self._grace, lambda: self._send_all(signal.SIGKILL)),
        ]

    def _send_all(self, number: int) -> None:
        for process in self._processes:
            if process.status is None:
                process.was_stopped = True
                process.send(number)

    def _pass_on(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._status is not None:  # asked twice
            self._send_all(signal.SIGKILL)
            return
        self._status = 128 + number
        self._say(f"{name}: passed on to the processes, which have {self._grace:g} s to end")
        self._send_all(number)
        self._stop_step, self._stop_reason = 1, name
        self._agenda = [(time.monotonic() + self._grace, lambda: self._send_all(signal.SIGKILL))]

    def _time_out(self, seconds: float) -> None:
        self._status = _TIMED_OUT
        running = [p.number for p in self._processes if p.status is None]
        reason = f"the time limit of {seconds:g} s has passed; still running: {_names(running)}"
        self._say(reason)
        self._stop(reason)

    def _drill(self, kill: Any) -> None:
        process = self._processes[kill.process]
        if process.status is not None:
            self._say(f"drill: process {kill.process} has ended before")
            return
        self._drilled.add(kill.process)
        self._say(f"drill: sending {kill.signal.name} to process {kill.process}")
        process.send(kill.signal)

    # Output

    def _print(self, process: _Process, name: str, chunk: bytes) -> None:
        if process.ended_with_return[name]:
            chunk = chunk.removeprefix(b"\n")  # the second part of an end of line
        process.ended_with_return[name] = chunk.endswith(b"\r")
        parts = re.split(rb"\r?\n|\r", chunk)
        rest = process.rest[name]
        rest.append(parts[0])
        lines = []
        if len(parts) > 1:  # long lines come in many chunks, which are joined once
            lines = [b"".join(rest), *parts[1:-1]]
            rest[:] = parts[-1:] if parts[-1] else []
        stream = getattr(sys, name)
        for line in lines:
            text = line.decode(errors="replace")
            if name == "stderr":
                process.last_lines.append(text)
                process.is_consequence |= _CONSEQUENCE.match(text) is not None
            encoding = stream.encoding or "utf-8"  # it may lack characters
            text = text.encode(encoding, "backslashreplace").decode(encoding)
            stream.write(f"{self._prefix(process.number, stream)} {text}\n")
        if lines:
            stream.flush()

    def _prefix(self, number: int, stream: Any) -> str:
        width = len(str(len(self._environments) - 1))
        text = f"[{number:{width}}]"
        colored = self._color == "always" or (
            self._color == "auto" and stream.isatty() and not os.environ.get("NO_COLOR")
        )
        return f"\x1b[{_COLORS[number % len(_COLORS)]}m{text}\x1b[0m" if colored else text

    def _say(self, text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"jax.distributed.launch: {text}\n")
        sys.stderr.flush()

    def _report(self) -> int:
        """Says what has gone wrong; returns the exit status."""
        failed = sorted(
            (p for p in self._processes if p.status and p.number not in self._drilled),
            key=lambda p: p.ended_at,
        )
        if self._status is not None or not failed:
            return self._status or 0
        # Others may end sooner than the one whose failure they have been told of.
        first = next((p for p in failed if p.has_failed_itself()), None)
        if first is None:
            first = next((p for p in failed if not p.is_consequence), failed[0])
        text = f"process {first.number} of {len(self._processes)} failed: {first.how_it_ended()}"
        if first.last_lines:
            text += ". The last lines of its stderr:\n" + "\n".join(
                f"    {line}" for line in first.last_lines
            )
        self._say(text)
        others = [p for p in self._processes if p in failed and p is not first]
        for kind, some in (
            ("failed, too", [p for p in others if p.has_failed_itself()]),
            ("ended because of a failure", [p for p in others if p.is_consequence]),
            ("stopped", [p for p in others if p.was_stopped and not p.is_consequence]),
        ):
            if some:
                ends = ", ".join(f"process {p.number} ({p.how_it_ended()})" for p in some)
                self._say(f"{kind}: {ends}")
        status = first.status or 0
        return status if status > 0 else 128 - status


def _names(numbers: Sequence[int]) -> str:
    return "process" + "es" * (len(numbers) > 1) + " " + ", ".join(map(str, numbers))
