"""Programs for IFRT, the runtime interface."""

from jax._src.lib import ifrt_programs as ifrt_programs
