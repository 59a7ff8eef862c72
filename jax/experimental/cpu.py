"""The cores that programs on the CPU use, and when they are compiled."""

from jax._src.cpu_threads import limit_cpu_cores as limit_cores
from jax._src.interpreters.pxla.tiers import (
    wait_for_optimized_programs as wait_for_optimized_programs,
)

__all__ = ["limit_cores", "wait_for_optimized_programs"]
