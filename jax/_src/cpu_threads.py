"""How many threads the CPU backend computes with, and a bound on the cores of a part of a program.

XLA makes a pool of threads with the client, one for each core in the process's affinity, whatever time a container is
allowed; so a container with two cores' time on a machine of 64 would wait for 64 threads that take turns.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jax._src import config, hardware_utils

_POOL_SIZE = "NPROC"  # the variable from which XLA takes the size of its pool
_TASKS = pathlib.Path("/proc/self/task")
# The field of a thread's `stat`, counted behind its name, that says on which core it ran
_PROCESSOR = 36


def num_threads() -> int | None:
    """The number of threads that the backend is to have, or None for XLA's choice, one for each core it may use."""
    chosen = config.cpu_num_threads.value
    if chosen:
        return chosen
    if os.environ.get(_POOL_SIZE):
        return None
    usable = hardware_utils.num_usable_cores()
    return usable if usable < hardware_utils.num_cores_in_affinity() else None


def pool_size() -> int:
    """The number of threads that the backend has, or is to have, if it has no more devices."""
    text = os.environ.get(_POOL_SIZE, "")
    own = int(text) if text.isdigit() else 0
    return num_threads() or own or hardware_utils.num_cores_in_affinity()


@contextmanager
def of_new_client() -> Iterator[None]:
    """While it is entered, a client is made, with as many threads as configured."""
    count = num_threads()
    if count is None:
        yield
        return
    before = os.environ.get(_POOL_SIZE)
    os.environ[_POOL_SIZE] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_POOL_SIZE]
        else:
            os.environ[_POOL_SIZE] = before


def bound_blas() -> None:
    """Has OpenBLAS, the library of LAPACK's routines, which has threads of its own, use as many as configured, or no more than the quota allows."""
    count = num_threads()
    if count is None:
        return
    for path in _mapped_files():
        if not re.match(r"lib\w*openblas.*\.so[.\d]*$", os.path.basename(path)):
            continue
        library = ctypes.CDLL(path)
        for prefix in ("scipy_", ""):
            for suffix in ("", "64_"):
                name = f"{prefix}openblas_{{}}_num_threads{suffix}"
                if hasattr(library, name.format("set")):
                    before = getattr(library, name.format("get"))()
                    wanted = count if config.cpu_num_threads.value else min(count, before)
                    getattr(library, name.format("set"))(wanted)


def _mapped_files() -> set[str]:
    try:
        maps = pathlib.Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return set()
    return {fields[5] for line in maps.splitlines() if len(fields := line.split(maxsplit=5)) == 6}


class _Bounds:
    """The bounds that are entered, in all threads, and the affinity of each thread before there was one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered: list[int] = []
        self._before: dict[int, set[int]] = {}
        self._cores: list[int] = []  # of the process, the one in use first

    def enter(self, count: int) -> None:
        with self._lock:
            if not self._entered:
                self._before = {t: m for t in _threads() if (m := _affinity(t)) is not None}
                allowed = sorted(os.sched_getaffinity(0))
                first = allowed.index(here) if (here := _core_in_use()) in allowed else 0
                self._cores = allowed[first:] + allowed[:first]
            self._entered.append(count)
            try:
                self._apply()
            except BaseException:
                self._entered.remove(count)
                self._apply()
                raise

    def leave(self, count: int) -> None:
        with self._lock:
            self._entered.remove(count)
            self._apply()

    def _apply(self) -> None:
        every = set(self._cores)
        cores = set(self._cores[: min(self._entered)]) if self._entered else None
        done: set[int] = set()
        # A thread that is not done yet may start others meanwhile, which have its affinity.
        while threads := set(_threads()) - done:
            for thread in threads:
                before = self._before.get(thread, every)
                _set_affinity(thread, before if cores is None else cores & before or cores)
            done |= threads


_bounds = _Bounds()


@contextmanager
def limit_cpu_cores(count: int) -> Iterator[None]:
    """Bounds the cores that this process uses: XLA's threads, kernels, BLAS and all others alike.

    Threads keep their number and share the cores. Contexts may be nested and entered by several threads; the least
    bound holds, for the whole process, until its context is left. For the number of threads itself there is the option
    `jax_cpu_num_threads`, which has to be set before the backend starts.

    Args:
      count: the number of cores; more than the process may use are no bound.

    Raises:
      TypeError, ValueError: the number is not a positive integer.
      NotImplementedError: the system does not bind threads to cores; Linux does.

    Example:
      >>> from jax.experimental.cpu import limit_cores
      >>> with limit_cores(1):
      ...     y = jnp.ones((100, 100)) @ jnp.ones(100)
    """
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"limit_cores needs a number of cores, got {count!r}.")
    if (count := int(count)) < 1:
        raise ValueError(f"limit_cores needs a positive number of cores, got {count}.")
    if not hasattr(os, "sched_setaffinity") or not _TASKS.exists():
        raise NotImplementedError(
            "limit_cores binds threads to cores, which only Linux does. Set JAX_CPU_NUM_THREADS before the program starts."
        )
    _bounds.enter(count)
    try:
        yield
    finally:
        _bounds.leave(count)


def _threads() -> list[int]:
    return [int(name) for name in os.listdir(_TASKS)]


def _core_in_use() -> int:
    text = (_TASKS / str(threading.get_native_id()) / "stat").read_text()
    return int(text.rpartition(")")[2].split()[_PROCESSOR])


def _affinity(thread: int) -> set[int] | None:
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:  # it has ended meanwhile
        return None


def _set_affinity(thread: int, cores: set[int]) -> None:
    try:
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:  # it has ended meanwhile
        pass
