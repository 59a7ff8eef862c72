"""Programs that are compiled twice: quickly for the first calls, and well in the background, for those after.

With `jax_cpu_tiered_compilation`, larger programs that jitted functions run on one CPU device are. LLVM's optimizations take about
half of the time that XLA needs to compile; without them programs take up to twice as long.
"""

from __future__ import annotations

import atexit
import collections
import logging
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from jax._src import compiler, config

logger = logging.getLogger(__name__)

_OPTION = "xla_backend_optimization_level"
QUICK: dict[str, Any] = {_OPTION: 0}
MIN_OPERATIONS = 50  # smaller programs are compiled in some 20 ms


def are_wanted(module: Any, info: Any, placement: Any, options: Mapping[str, Any]) -> bool:
    """Whether a program of these layouts, devices and options of XLA is to be compiled twice."""
    return (
        config.cpu_tiered_compilation.value
        and not any(info.in_layouts)
        and not any(info.out_layouts)
        and placement.num_devices == 1
        and placement.backend.platform == "cpu"
        and not compiler.is_compile_only(placement.backend)
        and not config.disable_most_optimizations.value
        and _OPTION not in options
        and not re.search(rf"--{_OPTION}\b", os.environ.get("XLA_FLAGS", ""))
        and compiler.count_operations(module.operation, MIN_OPERATIONS) >= MIN_OPERATIONS
    )


class _Background:
    """A thread that compiles one program after the other."""

    def __init__(self) -> None:
        self._waiting: collections.deque[tuple[Any, Callable[[], Any]]] = collections.deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    def add(self, executable: Any, compile_well: Callable[[], Any]) -> None:
        with self._changed:
            if not self._has_thread():
                executable.become_final(None)
                return
            self._waiting.append((weakref.ref(executable), compile_well))

    def _has_thread(self) -> bool:
        """Starts the thread if need be; returns whether there is one."""
        if self._thread is None and not self._ended:
            thread = threading.Thread(target=self._run, name="jax-tiers", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the process ends, or may not have more threads
                logger.info("Programs stay as they were compiled quickly: %s", error)
            else:
                self._thread = thread
        return self._thread is not None and not self._ended

    def wait(self, timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def end(self) -> None:
        """Lets the program that is being compiled be the last one, and waits for it."""
        with self._changed:
            self._ended = True
            self._waiting.clear()
        self.wait(None)  # a thread that came back into Python after its end would abort the process

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                executable, compile_well = self._waiting.popleft()
            _replace(executable, compile_well)
            del executable, compile_well


def _replace(executable: Any, compile_well: Callable[[], Any]) -> None:
    """Gives an executable the program that is compiled well, unless nobody has the executable any more."""
    if (program := executable()) is None:
        return
    name = program.name
    del program
    better = None
    try:
        better = compile_well()
    except Exception as error:
        logger.warning("%s stays as it was compiled quickly: %s", name, error)
    if (program := executable()) is not None:
        program.become_final(better)


_background = _Background()
atexit.register(lambda: _background.end())


def _forget() -> None:
    global _background
    _background = _Background()


if hasattr(os, "register_at_fork"):  # a child has no such thread
    os.register_at_fork(after_in_child=_forget)


def add(executable: Any, compile_well: Callable[[], Any]) -> None:
    """Has a quickly compiled executable become what `compile_well` returns, later.

    Args:
      executable: a `MeshExecutable`; it is not kept alive.
      compile_well: returns another native executable of the same program.
    """
    _background.add(executable, compile_well)


def wait_for_optimized_programs(timeout: float | None = None) -> bool:
    """Waits until the programs compiled quickly, for `jax_cpu_tiered_compilation`, are compiled well.

    Args:
      timeout: the longest time to wait, in seconds.

    Returns:
      Whether all are.

    Example:
      >>> from jax.experimental.cpu import wait_for_optimized_programs
      >>> wait_for_optimized_programs()
      True
    """
    return _background.wait(timeout)
