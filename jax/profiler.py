"""Traces of a program's time and of the memory of its devices."""

from jax._src import lib as _lib
from jax._src.profile_report import report as report
from jax._src.profiler import (
    ProfileOptions as ProfileOptions,
    StepTraceAnnotation as StepTraceAnnotation,
    TraceAnnotation as TraceAnnotation,
    annotate_function as annotate_function,
    device_memory_profile as device_memory_profile,
    register_subprocess as register_subprocess,
    save_device_memory_profile as save_device_memory_profile,
    start_server as start_server,
    start_trace as start_trace,
    stop_server as stop_server,
    stop_trace as stop_trace,
    trace as trace,
)

ProfileData = _lib._profile_data.ProfileData
ProfileEvent = _lib._profile_data.ProfileEvent
ProfilePlane = _lib._profile_data.ProfilePlane
