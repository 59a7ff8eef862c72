"""Noticing that a process of the program has failed, and ending the others with one clear error."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from jax._src.distributed.arguments import Timeouts, host_and_port
from jax._src.errors import JaxRuntimeError, ProcessesError
from jax._src.lib import termination

# How long the main thread may take to react before the process is ended.
GRACE_SECONDS = 5.0
# In native code, and where exceptions are ignored, it cannot.
_ATTEMPTS = 10
# How long a process that has failed waits for the others to end. They know of it, but may take their
# grace; if it ends sooner, the coordinator misses it, which is another error.
_LEAVE_SECONDS = 2 * GRACE_SECONDS
# How long the reasons of a failure may arrive after the first sign of it.
_REASON_SECONDS = 1.0
FOREVER_MS = 10**12
_FAILURES = "jax/failures/"


# Answers to the wait at a barrier that another process has ended by `tell`, and to one that comes later.
_TOLD = "Conflicting tasks", "the service disagrees"
_LATE = (
    "a process has failed, or has not called jax.distributed.shutdown() in time"
    " (shutdown_timeout_seconds)"
)
# Ignored by programs that do not handle it. It interrupts system calls, such as those of `sleep`.
_SIGNAL = getattr(signal, "SIGURG", None)


class Watch:
    """Notices failures of the other processes.

    A thread waits, in native code, at a barrier that is never passed: the coordination service ends
    the wait when a process is missing, and `tell` does so from another process. The loss of the
    service itself is reported by the runtime (`lib.termination`).
    """

    def __init__(
        self,
        process_id: int,
        num_processes: int,
        coordinator: str,
        timeouts: Timeouts,
        is_recoverable: bool,
    ):
        self.process_id = process_id
        self.num_processes = num_processes
        self.coordinator = coordinator
        self.timeouts = timeouts
        self.is_recoverable = is_recoverable
        self.is_restarted = False  # after it has failed
        self.is_leaving = False
        # The runtime has given up the client. A thread of the runtime keeps its locks.
        self.client_is_lost = False
        self.client_is_stuck = False
        self._wake = threading.Event()  # set when a call of the client has returned, or never will
        self.failure: str | None = None  # of another process, as an error of this one
        self.own_failure: str | None = None
        self.problem: str | None = None
        self._lock = threading.Lock()
        self._has_reason = threading.Event()
        self._is_handled = threading.Event()
        self._thread: threading.Thread | None = None
        self._previous_hook: Any = None
        self._previous_unraisablehook: Any = None
        self._message: str | None = None
        self._can_signal = False

    # The barrier of process 0 and that of all others: each lacks somebody, so neither is passed.

    def start(self, client: Any) -> None:
        """Starts to watch."""
        self._client = client
        self._previous_hook = sys.excepthook
        sys.excepthook = self._excepthook
        self._previous_unraisablehook = sys.unraisablehook
        sys.unraisablehook = self._unraisablehook
        if _SIGNAL is not None and threading.current_thread() is threading.main_thread():
            self._can_signal = signal.getsignal(_SIGNAL) is signal.SIG_DFL
        if self._can_signal:
            signal.signal(_SIGNAL, self._on_signal)
        if self.num_processes > 1:
            self._thread = threading.Thread(target=self._wait, name="jax-watch", daemon=True)
            self._thread.start()

    def call(self, function: Any, timeout: float | None = None) -> tuple[bool, Any]:
        """Calls a function that uses the client; see `termination.call_until`."""
        self._wake = threading.Event()
        if self.client_is_lost:
            return False, None
        return termination.call_until(function, self._wake, timeout)

    def stop(self) -> None:
        """Ends to watch; failures of others no longer matter."""
        self.is_leaving = True
        if sys.excepthook == self._excepthook:
            sys.excepthook = self._previous_hook
        if sys.unraisablehook == self._unraisablehook:
            sys.unraisablehook = self._previous_unraisablehook
        if self._can_signal and threading.current_thread() is threading.main_thread():
            signal.signal(_SIGNAL, signal.SIG_DFL)
            self._can_signal = False

    def leave(
        self,
        client: Any,
        preemption_sync_manager: Any,
        announce: Callable[[], None] | None = None,
    ) -> str | None:
        """Disconnects, once all processes do; returns what was wrong, or None.

        Args:
          client: the runtime's client.
          preemption_sync_manager: a part of the runtime that uses the client, or None.
          announce: tells the others that this process leaves.
        """
        self.stop()
        if self.client_is_lost:
            self.client_is_stuck = True
            return self.problem or self._unknown_loss(False)

        if self.is_recoverable:
            # The runtime lets these processes leave one by one, but they need the coordinator. One
            # that was started again does not wait, since the others may go on without it.
            everyone = range(self.num_processes)
            if not self.is_restarted:
                self.call(lambda: client.get_live_nodes(everyone), self.timeouts.shutdown)
        elif announce is not None and self.num_processes > 1:
            self.call(announce, GRACE_SECONDS)

        def disconnect():
            if preemption_sync_manager is not None:
                preemption_sync_manager.shutdown()
            client.shutdown()

        is_failing = self.failure or self.own_failure
        done, error = self.call(disconnect, _LEAVE_SECONDS if is_failing else None)
        self.client_is_stuck = not done or self.client_is_lost
        if self._thread is not None and not self.client_is_stuck:
            self._thread.join(GRACE_SECONDS)
        if (done and error is None) or self.is_recoverable:
            return None
        if self.problem is not None and f"{has_ended(self.process_id)}, and" in self.problem:
            return None  # others fail since this process leaves, and were quicker than it was
        text = str(error)
        if self.problem is None and "bad_cast" not in text and error is not None:
            return text.strip().split("\n", 1)[0].rstrip(".")
        return self.problem or _LATE

    def _barrier(self, process_id: int) -> str:
        return "jax/watch/0" if process_id == 0 else "jax/watch"

    def _wait(self) -> None:
        try:
            self._client.wait_at_barrier(self._barrier(self.process_id), FOREVER_MS)
        except JaxRuntimeError as e:
            text = str(e)
            told = None
            if any(answer in text for answer in _TOLD):
                told = self._told()
                if self.process_id == 0:
                    self._end_wait_of(1)  # a process cannot end the barrier where it waits itself
            if "CANCELLED" not in text:
                self._fail(told or self._reason(text))

    def _reason(self, text: str) -> str:
        match = re.search(r"Task:? (\d+) heartbeat timeout", text) or re.search(
            r"stopped sending heartbeats\):\s*((?:\d+\s+)+)", text
        )
        if match:
            return self._missing([int(name) for name in match.group(1).split()])
        match = re.search(r"task disconnected.*Task: (\d+)", text, re.DOTALL)
        if match:
            return f"process {match.group(1)} has ended before this one"
        if "Shutdown barrier" in text:
            return _LATE
        return self._unknown_loss(False) if "UNAVAILABLE" in text else text.splitlines()[0]

    def _missing(self, processes: list[int]) -> str:
        seconds = f"for {self.timeouts.heartbeat} seconds"
        if self.process_id in processes:
            return f"the coordinator has had no sign of life from this process {seconds}"
        names = ", ".join(map(str, sorted(processes)))
        return (
            f"process {names} has stopped, or cannot be reached: the coordinator has had no sign of"
            f" life from it {seconds}"
        )

    def _no_coordinator(self) -> str:
        return f"the coordinator (process 0, at {self.coordinator}) has ended, or cannot be reached"

    def _unknown_loss(self, coordinator_is_there: bool) -> str:
        """The runtime has failed without a reason."""
        if self.process_id == 0:
            # Its service has failed all clients, since it has missed one.
            if self.num_processes == 2:
                return self._missing([1])
            return "another process has stopped, or cannot be reached"
        if coordinator_is_there and self.num_processes > 2:
            return (
                "another process has stopped, or the coordinator (process 0, at"
                f" {self.coordinator}) does not answer"
            )
        return self._no_coordinator()

    def _told(self) -> str | None:
        """What failed processes have left in the key-value store."""
        try:
            told = self._client.key_value_dir_get(_FAILURES)
        except JaxRuntimeError:
            return None
        if not told:
            return None
        return "; ".join(
            f"process {key.rsplit('/', 1)[1]} has failed: {text}" for key, text in sorted(told)
        )

    # Failures of others

    def lost_runtime(self) -> None:
        """Called in a thread of the runtime whose client has failed."""
        self.client_is_lost = True
        # The reason is an answer to `_wait`. This thread is the one that reads answers: if that of
        # `_wait` was not among those it has read, it never arrives.
        coordinator_is_there = self.process_id == 0 or _can_connect(self.coordinator)
        if not self._has_reason.wait(_REASON_SECONDS) and not self.is_leaving:
            self._fail(self._unknown_loss(coordinator_is_there))
        self._wake.set()

    def fail_here(self, reason: str) -> ProcessesError:
        """Tells all that they cannot go on together; returns the error to raise in this thread."""
        message = self._set_failure(reason)
        if message is not None:
            self._is_handled.set()
            self.call(lambda: self.tell(reason), GRACE_SECONDS)
        elif threading.current_thread() is threading.main_thread():
            self._is_handled.set()  # `_end` need not raise it here, nor print it
        return ProcessesError(message or self.failure)

    def check(self) -> None:
        """Raises the error again in a program that goes on after it.

        The code that ran when the error was raised may have ignored it, as some of the standard
        library does. This process must then not begin to wait for the others.
        """
        if self.failure is not None and not self.is_leaving:
            raise self.fail_here(self.failure)

    def fail_together(self, reason: str) -> None:
        """Ends this process, as `fail_here` does, from a thread that watches, and the others."""
        self._fail(reason)
        try:
            self.tell(reason)
        except JaxRuntimeError:
            pass

    def _fail(self, reason: str) -> None:
        message = self._set_failure(reason)
        if message is not None:
            end = threading.Thread(
                target=self._end, args=(message,), name="jax-failure", daemon=True
            )
            end.start()

    def _set_failure(self, reason: str) -> str | None:
        """Returns the message of the error, or None if there was one before, or none is needed."""
        with self._lock:
            self.problem = self.problem or reason
            is_known = self.failure is not None or self.is_leaving
            if not is_known:
                self.failure = (
                    f"Process {self.process_id} of {self.num_processes} cannot go on:"
                    f" {reason.rstrip('.')}. See the output of that process for the first error."
                )
            self._has_reason.set()  # the main thread, which may wait for it, shows `failure`
            return None if is_known else self.failure

    def _end(self, message: str) -> None:
        """Raises the error in the main thread, and ends the process if that does not react."""
        self._message = message
        main = threading.main_thread()
        for _ in range(_ATTEMPTS):
            if self._is_handled.is_set() or self.is_leaving:
                return  # the main thread was faster than this one
            if self._can_signal:
                signal.pthread_kill(main.ident, _SIGNAL)
            else:
                _raise_in_thread(main, message, self._is_handled)
            if self._is_handled.wait(GRACE_SECONDS / _ATTEMPTS) or not main.is_alive():
                return
        self._is_handled.set()  # it is not raised any more, should the main thread react now
        sys.stdout.flush()
        sys.stderr.write(f"jax.distributed.ProcessesError: {message}\n")
        sys.stderr.flush()
        # Otherwise the others would miss this process, too, and wait for its heartbeat.
        self.is_leaving = True
        self.call(self._client.shutdown, GRACE_SECONDS)
        os._exit(1)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._message is None or self._is_handled.is_set():
            return
        while frame is not None:
            if frame.f_code is Watch._unraisablehook.__code__:
                return  # where the error would be lost again
            if frame.f_code is Watch._excepthook.__code__:
                self._is_handled.set()
                return  # the process is ending with an error of its own
            frame = frame.f_back
        self._is_handled.set()
        if not self.is_leaving:
            raise ProcessesError(self._message)

    def _unraisablehook(self, unraisable: Any) -> None:
        """Called when an exception is ignored, such as in `__del__`: this one must not be."""
        message = self._message
        if message is None or not isinstance(unraisable.exc_value, ProcessesError):
            self._previous_unraisablehook(unraisable)
        elif threading.current_thread() is threading.main_thread():
            self._is_handled.clear()
            threading.Thread(target=self._end, args=(message,), daemon=True).start()

    # The failure of this process

    def _excepthook(self, kind: Any, value: BaseException, tb: Any) -> None:
        if self.num_processes > 1 and not isinstance(value, ProcessesError):
            text = "".join(traceback.format_exception_only(kind, value)).strip()
            if "Gloo" in text:
                # A collective whose connection breaks. The reason may be known, or come soon.
                if self._has_reason.wait(_REASON_SECONDS) and self.failure is not None:
                    self._is_handled.set()
                    self._previous_hook(ProcessesError, ProcessesError(self.failure), tb)
                    return
                value.add_note(
                    "Another process of this program has ended or cannot be reached: see the output"
                    " of the others."
                )
            self.own_failure = text = _summary(text)
            self.is_leaving = True
            # The coordinator may have gone, too.
            self.call(lambda: self.tell(text), GRACE_SECONDS)
        self._previous_hook(kind, value, tb)

    def tell(self, reason: str) -> None:
        """Tells the other processes that this one has failed, so that they end at once."""
        self._client.key_value_set(f"{_FAILURES}{self.process_id}", reason[-2000:])
        self._end_wait_of(0 if self.process_id else 1)

    def _end_wait_of(self, process_id: int) -> None:
        """Ends the wait of a process, and of all that wait at the same barrier."""
        try:
            # Another list of participants than theirs is an error, for all of them.
            self._client.wait_at_barrier(self._barrier(process_id), 1000, [self.process_id])
        except JaxRuntimeError:
            pass


def has_ended(process_id: int) -> str:
    """What others say of a process that leaves while they wait for it."""
    return f"process {process_id} has ended"


def _summary(text: str) -> str:
    """One line of an exception's text, which may repeat the traceback of another one."""
    first, *others = text.splitlines()
    header = "Traceback (most recent call last):"
    if header in text:
        errors = re.findall(r"^[\w.]+: .*|^[\w.]+$", text, re.MULTILINE)
        return f"{first.removesuffix(header).rstrip()} {errors[-1]}"
    return f"{first} [...]" if others else first


def _can_connect(address: str) -> bool:
    """Whether a program listens at an address, 'host:port'."""
    try:
        socket.create_connection(host_and_port(address), timeout=_REASON_SECONDS).close()
    except OSError:
        return False
    return True


def _raise_in_thread(thread: threading.Thread, message: str, handled: threading.Event) -> None:
    """Raises the error in a thread once it executes Python code."""

    class Failure(ProcessesError):
        def __init__(self, *args):
            handled.set()
            super().__init__(*(args or (message,)))

    Failure.__name__ = Failure.__qualname__ = ProcessesError.__name__
    Failure.__module__ = ProcessesError.__module__
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Failure)
    )
