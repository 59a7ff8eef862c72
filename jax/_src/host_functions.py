"""Functions of this process that programs call on the host, and what the end of the process waits for."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from jax._src.lib import Client

_running: set[weakref.ref[_Call]] = set()  # of calls that may not have ended
_of_thread = threading.local()  # its `call` is dropped when a thread of the runtime leaves Python
_after_failure: list[Callable[[], object]] = []  # what is called when such a call raises
_clients: weakref.WeakSet[Client] = weakref.WeakSet()  # of programs that call pure functions only


class _Call:
    """A call by the runtime: there is one as long as its thread may need Python."""

    __slots__ = ("__weakref__",)


class HostFunction:
    """A function on the host, as the runtime calls it.

    Args:
      fun: the function.
      has_side_effect: whether it does more than computing its results. If not, programs that call it
        need no tokens, and are called by native code.
    """

    __slots__ = ("_fun", "has_side_effect")

    def __init__(self, fun: Callable[..., object], has_side_effect: bool):
        self._fun = fun
        self.has_side_effect = has_side_effect

    def __call__(self, *args: object) -> object:
        for ended in [c for c in tuple(_running) if c() is None]:
            _running.discard(ended)
        _running.add(weakref.ref(call := _Call()))
        if sys._getframe().f_back is None:
            # The runtime's thread needs Python still when this returns, to read and to drop what it
            # returned or raised. Its state in Python is dropped last.
            _of_thread.call = call
        try:
            return self._fun(*args)
        except BaseException:  # with which the program ends
            for fun in _after_failure:
                fun()
            raise
        finally:
            del call  # which an exception's traceback would keep


def call_after_failure(fun: Callable[[], object]) -> None:
    """Has a function called when a function on the host raises, so that the program that calls it fails."""
    _after_failure.append(fun)


def are_pure(functions: Iterable[object]) -> bool:
    """Whether none of the functions that a program calls has side effects; what is not known to have none has some."""
    return all(isinstance(f, HostFunction) and not f.has_side_effect for f in functions)


def wait_at_exit(client: Client) -> None:
    """Has the end of the process wait for a client's results, which pure functions may still compute."""
    _clients.add(client)


def wait_for_pure_functions() -> None:
    """Waits for what pure functions still compute: a thread that entered Python after its end would abort the process."""
    for client in _clients:
        array: Any
        for array in client.live_arrays():
            with contextlib.suppress(Exception):  # nobody asks for this result any more
                array.block_until_ready()
    while any(call() is not None for call in tuple(_running)):  # for results that are not live
        time.sleep(0.001)
