"""Reports of what a program's time and memory went into: tracing, lowering, compiling and running, by function."""

from jax._src.profile_report.report import Report as Report, report as report
