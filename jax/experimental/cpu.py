"""The cores that programs on the CPU use."""

from jax._src.cpu_threads import limit_cpu_cores as limit_cores

__all__ = ["limit_cores"]
