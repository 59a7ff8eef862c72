"""Traces of a program's time and of the memory of its devices."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from jax._src import lib as _lib
from jax._src.lazy_names import lazy_names as _lazy_names
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

if _TYPE_CHECKING:
    from jax._src.profile_report import Report as Report, report as report

__getattr__, __dir__ = _lazy_names(__name__, {"jax._src.profile_report": ("Report", "report")})
