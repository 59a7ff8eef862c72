"""Traces of what a program does with its time, on the host and on devices, as files for viewers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jax._src import lib, xla_bridge
from jax._src.profiler import perfetto
from jax._src.util import set_module
from jax.version import __version__

export = set_module("jax.profiler")
PathLike = str | os.PathLike[str]


@export
class ProfileOptions(lib.profiler.ProfileOptions):
    """What a trace records.

    Attributes:
      host_tracer_level: of the host's side: 0 nothing, 1 marks of the program, 2 also the important events of
        the runtime, 3 all of them.
      python_tracer_level: 1 to record calls of Python functions, 0 not to.
      enable_hlo_proto: whether to keep the compiled programs with the trace, which viewers show.
      advanced_configuration: further options of a platform's tracer, by name.
      session_id: the name of the trace's folder; the time if it is empty.

    >>> options = jax.profiler.ProfileOptions()
    >>> options.python_tracer_level = 0
    >>> options.host_tracer_level
    2
    """

    def __init__(self) -> None:
        super().__init__()


@dataclasses.dataclass
class _Running:
    session: Any
    log_dir: str
    create_perfetto_link: bool
    create_perfetto_trace: bool


_lock = threading.Lock()
_running: _Running | None = None

# Ends a trace that is made for a report, if there is one: it gives way to one of the program's own.
background: Callable[[], None] | None = None


def is_running() -> bool:
    """Whether the program's trace is running."""
    return _running is not None


@export
def start_trace(
    log_dir: PathLike,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Starts to trace the program: calls of Python functions, the runtime, and the devices.

    :func:`stop_trace` ends the trace and writes it to a folder, which XProf (or TensorBoard with its
    plugin) displays. :func:`trace` does both.

    Args:
      log_dir: the folder. The trace is written to `plugins/profile/<time>` in it, or what
        `profiler_options.session_id` says in place of the time.
      create_perfetto_link: whether to print a link that displays the trace in the Perfetto viewer. The program
        then waits until the viewer has loaded it.
      create_perfetto_trace: whether to write `perfetto_trace.json.gz`, which can be loaded in that viewer.
      profiler_options: what to record.

    Raises:
      RuntimeError: if a trace is running.
      ValueError: if `profiler_options.session_id` is not the name of a folder.
    """
    global _running
    if profiler_options is not None and not isinstance(
        profiler_options, lib.profiler.ProfileOptions
    ):
        raise TypeError(
            "profiler_options must be a jax.profiler.ProfileOptions, got"
            f" {profiler_options!r} of type {type(profiler_options).__name__}"
        )
    session_id = "" if profiler_options is None else profiler_options.session_id
    if session_id in (".", "..") or os.path.basename(session_id) != session_id:
        raise ValueError(f"session_id must be the name of a folder, got {session_id!r}")
    log_dir = os.fspath(log_dir)
    with _lock:
        if _running is not None:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a time: end the other one by"
                " jax.profiler.stop_trace()."
            )
        if background is not None:
            background()
        # Devices that start during a trace are not in it.
        backend = xla_bridge.get_backend()
        lib.profiler.clear_metadata()
        for name, value in (
            ("jax_version", __version__),
            ("jaxlib_version", lib.version_str),
            (f"{backend.platform}_version", backend.platform_version),
        ):
            lib.profiler.set_metadata(name, value)
        options = () if profiler_options is None else (profiler_options,)
        session = lib.profiler.ProfilerSession(*options)
        _running = _Running(session, log_dir, create_perfetto_link, create_perfetto_trace)


@export
def stop_trace() -> None:
    """Ends the trace that :func:`start_trace` started, and writes it.

    Raises:
      RuntimeError: if none is running.
    """
    # With what was recorded at hand, `export` would ignore the options' name of the folder.
    running = _stop(lambda running: running.session.stop_and_export(running.log_dir))[0]
    if running.create_perfetto_link or running.create_perfetto_trace:
        file = perfetto.write_perfetto_trace(running.log_dir)
        if running.create_perfetto_link:
            perfetto.show(file)


def stop_and_get_fdo_profile() -> bytes:
    """Ends the trace, and returns what the compiler can use of it: a profile of the program's operations.

    Raises:
      RuntimeError: if no trace is running.
    """
    profile: bytes = lib.profiler.get_fdo_profile(_stop(lambda running: running.session.stop())[1])
    return profile


def set_metadata(key: str, value: str) -> None:
    """Adds `key` and `value` to the metadata of the trace that is running; viewers show them."""
    lib.profiler.set_metadata(key, value)


def clear_metadata() -> None:
    """Removes the metadata of the trace that is running, also the versions that each trace has."""
    lib.profiler.clear_metadata()


def _stop(end: Callable[[_Running], Any]) -> tuple[_Running, Any]:
    global _running
    with _lock:
        if _running is None:
            raise RuntimeError("No profile started")
        running, _running = _running, None
    try:
        return running, end(running)
    finally:
        lib.profiler.clear_metadata()


@contextlib.contextmanager
def try_recording() -> Iterator[list[bytes]]:
    """Context manager: puts the data of a trace into a list, which stays empty if another trace is running."""
    recorded: list[bytes] = []
    if not _lock.acquire(blocking=False):
        yield recorded
        return
    try:
        if _running is not None:
            yield recorded
            return
        if background is not None:
            background()
        options = lib.profiler.ProfileOptions()
        options.python_tracer_level = 0
        session = lib.profiler.ProfilerSession(options)
        try:
            yield recorded
        finally:
            try:
                recorded.append(session.stop())
            except lib._jax.JaxRuntimeError as err:
                if "ALREADY_EXISTS" not in str(err):  # the profiler's server is recording
                    raise
    finally:
        _lock.release()


@export
@contextlib.contextmanager
def trace(
    log_dir: PathLike,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Context manager: traces its block; see :func:`start_trace`. The trace is written also after an error.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with jax.profiler.trace(folder):
    ...         x = (jnp.ones((100, 100)) + 1).block_until_ready()
    ...     os.listdir(folder)
    ['plugins']
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


def get_profiled_instructions_proto(tensorboard_dir: str) -> bytes:
    """Returns the operations of the newest trace in a folder with their costs, as a protocol buffer for XLA.

    Args:
      tensorboard_dir: a folder that traces were written to, or one of its subfolders.
    """
    profile: bytes = lib.profiler.get_profiled_instructions_proto(tensorboard_dir)
    return profile
