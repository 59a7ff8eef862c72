"""Backends: the platforms that execute programs, and their clients."""

from jax._src.array import default_device as get_default_device
from jax._src.compiler import get_compile_options as get_compile_options
from jax._src.util import register_cache as register_backend_cache
from jax._src.xla_bridge import (
    backend_xla_version as backend_xla_version,
    backends as backends,
    clear_backends as clear_backends,
    clear_in_memory_compilation_cache as clear_in_memory_compilation_cache,
    get_backend as get_backend,
    register_backend_factory as register_backend_factory,
)
