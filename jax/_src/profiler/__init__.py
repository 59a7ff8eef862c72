"""The profiler: traces of a program's time, marks in them, its device memory, and a server to ask for both."""

from jax._src.profiler.annotations import (
    StepTraceAnnotation as StepTraceAnnotation,
    TraceAnnotation as TraceAnnotation,
    annotate_function as annotate_function,
)
from jax._src.profiler.latencies import PGLEProfiler as PGLEProfiler
from jax._src.profiler.memory import (
    device_memory_profile as device_memory_profile,
    save_device_memory_profile as save_device_memory_profile,
)
from jax._src.profiler.server import (
    register_subprocess as register_subprocess,
    start_server as start_server,
    stop_server as stop_server,
)
from jax._src.profiler.tracing import (
    ProfileOptions as ProfileOptions,
    clear_metadata as clear_metadata,
    set_metadata as set_metadata,
    start_trace as start_trace,
    stop_and_get_fdo_profile as stop_and_get_fdo_profile,
    stop_trace as stop_trace,
    trace as trace,
)
