"""Collects what happens while a report is made."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import sys
import threading
import time
from typing import Any

from jax._src import compile_summary, compiler, lib, monitoring, xla_bridge
from jax._src.cache_misses.explain import CacheMisses, explain_cache_miss
from jax._src.compile_summary import FunctionSummary, plain_name
from jax._src.core import ClosedJaxpr
from jax._src.interpreters.pxla import lowering
from jax._src.profile_report.programs import (
    Held,
    ProgramMemory,
    captured_constants,
    kept_for_backward,
    places_of_operations,
    program_memory,
)
from jax._src.profile_report.trace_events import TraceSummary, covered, summarize_trace
from jax._src.profiler import tracing


@dataclasses.dataclass
class Collected:
    """What was collected.

    Attributes:
      seconds: the time from start to end.
      functions: the stages of each function, by name.
      stage_seconds: how long each stage took in all, counted once where one function's is inside another's.
      events: how often other events of `jax.monitoring` happened.
      misses: of the caches of traces and programs.
      constants, residuals, programs: of programs that were lowered and compiled.
      places: names and lines of operations, by the names of module and operation.
      trace: what the runtime recorded; None if it was not asked.
      no_trace: the reason why there is none.
      bytes_before, peak_bytes: the peak of the process's memory, when the block began and ended.
      devices: peaks of devices that tell.
    """

    seconds: float = 0.0
    functions: dict[str, FunctionSummary] = dataclasses.field(default_factory=dict)
    stage_seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    events: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    misses: CacheMisses = dataclasses.field(default_factory=CacheMisses)
    constants: list[Held] = dataclasses.field(default_factory=list)
    residuals: list[Held] = dataclasses.field(default_factory=list)
    programs: list[ProgramMemory] = dataclasses.field(default_factory=list)
    places: dict[tuple[str, str], tuple[str, str]] = dataclasses.field(default_factory=dict)
    trace: TraceSummary | None = None
    no_trace: str = ""
    bytes_before: int = 0
    peak_bytes: int = 0
    devices: list[tuple[str, int, int]] = dataclasses.field(default_factory=list)


class Collector:
    """Listens from `start` to `stop`; one at a time.

    Args:
      with_trace: whether to trace the runtime, for times of calls, passes and operations.
    """

    def __init__(self, with_trace: bool):
        self._with_trace = with_trace
        self._result = Collected()
        self._spans: dict[str, list[tuple[float, float]]] = {}
        self._lock = threading.Lock()
        self._session: Any = None
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        stack = self._stack
        stack.enter_context(_only_one)
        stack.callback(self._end_trace)
        for register, unregister, callback in (
            (
                monitoring.register_event_time_span_listener,
                monitoring.unregister_event_time_span_listener,
                self._on_span,
            ),
            (
                monitoring.register_event_listener,
                monitoring.unregister_event_listener,
                self._on_event,
            ),
        ):
            register(callback)
            stack.callback(_unless_removed, unregister, callback)
        for listeners, callback in (
            (lowering.lowering_listeners, self._on_lowering),
            (compiler.executable_listeners, self._on_executable),
        ):
            listeners.append(callback)
            stack.callback(listeners.remove, callback)
        self._result.misses = stack.enter_context(explain_cache_miss(quiet=True))
        if self._with_trace:
            self._trace_when_started()
        else:
            self._result.no_trace = "it was not asked for"
        self._result.bytes_before = _peak_of_process()
        self._began = time.perf_counter()

    def stop(self) -> Collected:
        result = self._result
        with self._stack:  # also if the user interrupts the wait
            if self._session is not None:
                _wait_for_devices()
            result.seconds = time.perf_counter() - self._began
        result.stage_seconds = {stage: covered(spans) for stage, spans in self._spans.items()}
        result.peak_bytes = _peak_of_process()
        if xla_bridge.backends_are_initialized():
            result.devices = list(_peaks_of_devices())
        return result

    # Listeners

    def _on_span(self, event: str, start: float, end: float, **metadata: Any) -> None:
        stage = compile_summary.STAGES.get(event)
        if stage is None:
            return
        name = plain_name(str(metadata.get("fun_name", "?")))
        with self._lock:
            self._result.functions.setdefault(name, FunctionSummary()).stage(stage).add(end - start)
            self._spans.setdefault(stage, []).append((start, end))

    def _on_event(self, event: str, **_: Any) -> None:
        with self._lock:
            self._result.events[event] += 1

    def _on_lowering(self, closed: ClosedJaxpr, name: str) -> None:
        name = plain_name(name)
        constants = captured_constants(name, closed)
        residuals = kept_for_backward(name, closed.jaxpr)
        with self._lock:
            self._result.constants += constants
            self._result.residuals += residuals

    def _on_executable(self, name: str, executable: Any) -> None:
        memory = program_memory(plain_name(name), executable)
        places = places_of_operations(executable) if self._with_trace else {}
        with self._lock:
            self._result.places.update(places)
            if memory is not None:
                self._result.programs.append(memory)

    # The trace

    def _trace_when_started(self) -> None:
        """Starts to trace when backends start: devices that start later are not traced, and the program may have options to set."""
        if tracing.is_running():
            self._result.no_trace = "another trace was running"
            return
        tracing.background = self._interrupted
        self._stack.callback(self._forget)
        xla_bridge.register_backend_initialization_hook(self._on_backend)

    def _forget(self) -> None:
        tracing.background = None
        xla_bridge.unregister_backend_initialization_hook(self._on_backend)

    def _on_backend(self, _: Any) -> None:
        if self._session is not None or self._result.no_trace:
            return
        options = lib.profiler.ProfileOptions()
        options.python_tracer_level = 0
        options.enable_hlo_proto = False
        try:
            self._session = lib.profiler.ProfilerSession(options)
        except lib._jax.JaxRuntimeError as err:
            self._result.no_trace = str(err)

    def _interrupted(self) -> None:
        """The program starts a trace of its own: there can be one only."""
        self._end_trace()
        self._result.no_trace = "of all that came after the program had started a trace of its own"

    def _end_trace(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            self._result.trace = summarize_trace(session.stop())
        elif self._result.trace is None and not self._result.no_trace:
            self._result.no_trace = "no backend was started"


class _OnlyOne:
    """Reports cannot be nested, since there is one trace at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "A report is being made: end the block of the other jax.profiler.report() first."
            )

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


_only_one = _OnlyOne()


def _wait_for_devices() -> None:
    """Waits for what runs still, whose operations would not be in the trace."""
    for backend in xla_bridge.backends().values():
        for array in backend.live_arrays():
            try:
                array.block_until_ready()
            except (RuntimeError, ValueError):
                continue  # deleted meanwhile, or its program failed, which is not ours to report


def _unless_removed(unregister: Any, callback: Any) -> None:
    """The program may have removed all listeners."""
    with contextlib.suppress(ValueError):
        unregister(callback)


def _peak_of_process() -> int:
    try:
        import resource  # which not all systems have
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _peaks_of_devices() -> Any:
    for device in xla_bridge.local_devices():
        stats = device.memory_stats() or {}
        if "peak_bytes_in_use" in stats:
            yield str(device), stats["peak_bytes_in_use"], stats.get("bytes_limit", 0)
