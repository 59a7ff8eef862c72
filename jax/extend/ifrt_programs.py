"""Programs for IFRT, the runtime's interface."""

from jax._src.lib import ifrt_programs as ifrt_programs
