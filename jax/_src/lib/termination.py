"""A hook for errors of jaxlib's distributed runtime that would otherwise end the process.

jaxlib 0.10 calls `missed_heartbeat_callback` with a status that it cannot convert to Python. The
exception this causes, in a thread of the runtime, ends the process through `std::terminate`, with
a core dump. `on_fatal_error` replaces the handler of `std::terminate` for this exception only.
"""

from __future__ import annotations

import atexit
import ctypes
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

_RUNTIMES = {"linux": "libstdc++.so.6", "darwin": "libc++abi.dylib"}
_BAD_CAST = b"St8bad_cast"
_kept: list[Any] = []  # the handler that C++ refers to
_callbacks: list[Callable[[], None]] = []

# Threads that wait for calls at the interpreter's end, when Python 3.12 and later start none. A call may
# never return, so there is one for each that can follow.
_SPARE_THREADS = 3
_spare_threads: list[threading.Thread] = []
_calls_at_end: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()


def on_fatal_error(callback: Callable[[], None]) -> bool:
    """Calls a function in place of ending the process when the distributed runtime fails.

    The thread that failed holds locks of the runtime's client: it is stopped for good, and the
    client must not be used any more.

    Args:
      callback: called without arguments, in the thread that failed.

    Returns:
      Whether this is possible here.
    """
    _callbacks[:] = [callback]
    if _kept:
        return True
    try:
        runtime = ctypes.CDLL(_RUNTIMES[sys.platform])
        set_terminate = runtime._ZSt13set_terminatePFvvE
        current_exception_type = runtime.__getattr__("__cxa_current_exception_type")
    except (KeyError, OSError, AttributeError):
        return False
    handler_type = ctypes.CFUNCTYPE(None)
    set_terminate.argtypes = [handler_type]
    set_terminate.restype = ctypes.c_void_p
    current_exception_type.restype = ctypes.c_void_p

    def handle():
        if _type_name(current_exception_type()) != _BAD_CAST:
            _kept[1]()
            return
        for callback in _callbacks:
            callback()
        threading.Event().wait()

    handler = handler_type(handle)
    _kept.append(handler)
    previous = set_terminate(handler)
    _kept.append(handler_type(previous))
    # When the interpreter ends, handlers in Python cannot be called any more.
    atexit.register(_stop_threads_without_python, set_terminate, handler_type)
    return True


def _stop_threads_without_python(set_terminate: Any, handler_type: Any) -> None:
    pause = ctypes.cast(ctypes.CDLL(None).pause, handler_type)
    _kept.append(pause)
    set_terminate(pause)


def _type_name(type_info: int | None) -> bytes | None:
    """The mangled name of a `std::type_info`: its second word."""
    if not type_info:
        return None
    return ctypes.cast(type_info, ctypes.POINTER(ctypes.c_char_p))[1]


def never_destroy(obj: Any) -> None:
    """Keeps an object even at the interpreter's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(obj))


def prepare_end() -> None:
    """Starts the threads with which `call_until` can be called at the interpreter's end."""
    _spare_threads[:] = [thread for thread in _spare_threads if thread.is_alive()]
    for _ in range(_SPARE_THREADS - len(_spare_threads)):
        thread = threading.Thread(target=_make_calls_at_end, name="jax-end", daemon=True)
        thread.start()
        _spare_threads.append(thread)


def _make_calls_at_end() -> None:
    while True:
        _calls_at_end.get()()


def call_until(
    function: Callable[[], Any], event: threading.Event, timeout: float | None = None
) -> tuple[bool, BaseException | None]:
    """Calls a function that waits in native code, and goes on without it if it has to.

    Ctrl-C ends the wait, too. At the interpreter's end it needs what `prepare_end` has started.

    Args:
      function: it is called in a thread of its own.
      event: set when the function has returned; if something else sets it before, the function is
        not waited for.
      timeout: the longest time to wait, in seconds.

    Returns:
      Whether the function has returned, and the exception that it has raised.
    """
    outcome: list[BaseException | None] = []

    def call():
        try:
            function()
            outcome.append(None)
        except BaseException as e:
            outcome.append(e)
        event.set()

    try:
        threading.Thread(target=call, daemon=True).start()
    except RuntimeError:
        if not _spare_threads:
            raise
        _calls_at_end.put(call)
    event.wait(timeout)
    return bool(outcome), outcome[0] if outcome else None
