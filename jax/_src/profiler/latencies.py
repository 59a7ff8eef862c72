"""Profile-guided latency estimation: the first runs of a program are measured, and it is compiled again.

The compilers for accelerators schedule operations by estimates of how long these take. With
`jax_enable_pgle` they get latencies that were measured instead, for `jax_pgle_profiling_runs` runs.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from jax._src import config, lib
from jax._src.profiler import tracing
from jax._src.xla_bridge.clients import distributed_state

logger = logging.getLogger(__name__)


class PGLEProfiler:
    """Measures some runs of a program, and gives their latencies to the compiler.

    Args:
      retries: how many runs to measure.
      percentile: which of the latencies of several devices and runs counts.

    >>> from jax._src.profiler import PGLEProfiler
    >>> profiler = PGLEProfiler(retries=1, percentile=90)
    >>> profiler.consume_fdo_profile() is None    # nothing is measured yet
    True
    """

    def __init__(self, retries: int, percentile: int) -> None:
        self._retries = retries
        self._percentile = percentile
        self._profiles: list[bytes] = []
        self._consumed: bytes | None = None
        self._running = False

    def is_enabled(self) -> bool:
        """Whether runs are to be measured, or were."""
        return self._retries > 0

    def is_running(self) -> bool:
        """Whether a run is being measured."""
        return self._running

    def is_fdo_consumed(self) -> bool:
        """Whether the latencies were given away."""
        return self._consumed is not None

    def is_measuring(self) -> bool:
        """Whether further runs are to be measured."""
        return self._consumed is None and len(self._profiles) < self._retries

    def disable(self) -> None:
        """Measures no further runs."""
        self._retries = 0

    def consume_fdo_profile(self) -> bytes | None:
        """Returns the latencies, empty if the platform reports none; None if runs are still to be measured."""
        if self._consumed is None and self.is_enabled() and not self.is_measuring():
            found = [profile for profile in self._profiles if profile]
            self._profiles = []
            self._consumed = b""
            if found:
                self._consumed = lib.profiler.aggregate_profiled_instructions(
                    found, self._percentile
                )
        return self._consumed

    @classmethod
    @contextlib.contextmanager
    def trace(cls, runner: PGLEProfiler | None) -> Iterator[None]:
        """Context manager: measures the run in its block, which has to wait for the results.

        While another trace is running, runs are not measured, and do not count.
        """
        if runner is None or not runner.is_measuring():
            yield
            return
        with tracing.try_recording() as recorded:
            runner._running = True
            try:
                yield
            finally:
                runner._running = False
        if not recorded:
            logger.info("A run is not measured for jax_enable_pgle, since a trace is running")
            return
        runner._profiles.append(lib.profiler.get_fdo_profile(recorded[0]))
        if not runner._profiles[-1]:
            warnings.warn(_EMPTY, RuntimeWarning, stacklevel=4)


_EMPTY = (
    "PGLE collected an empty trace: jax_enable_pgle has no effect on this program. CPUs report no"
    " latencies of operations; on a GPU, another tool that subscribes to CUPTI (such as Nsight Systems)"
    " can be the reason. To use such a tool, fill a persistent compilation cache in a run with PGLE, then"
    " set JAX_COMPILATION_CACHE_EXPECT_PGLE=1 in the run that it watches."
)


def new_profiler() -> PGLEProfiler:
    """A profiler with the options of the configuration."""
    return PGLEProfiler(
        config.pgle_profiling_runs.value, config.pgle_aggregation_percentile.value
    )  # fmt: skip


_lock = threading.Lock()
_times_shared: Counter[str] = Counter()


def shared_profile(profile: bytes, name: str, devices: Sequence[Any]) -> bytes:
    """Returns the latencies that the first process of a program has measured.

    All processes compile with the same ones, since programs that communicate have to be scheduled in the
    same way.
    """
    processes = {device.process_index for device in devices}
    client = distributed_state.client
    if client is None or len(processes) == 1:
        return profile
    with _lock:  # the processes of a program call the same programs, in the same order
        _times_shared[name] += 1
        place = f"jax/latencies/{name}/{_times_shared[name]}"
    if distributed_state.process_id == min(processes):
        client.key_value_set_bytes(place, b"\0" + profile)  # a value is never empty
        return profile
    wait = config.share_binary_between_hosts_timeout_ms.value
    message: bytes = client.blocking_key_value_get_bytes(place, wait)
    return message[1:]
