"""What the compiler can use of traces."""

from jax._src.profiler.tracing import (
    get_profiled_instructions_proto as get_profiled_instructions_proto,
)
