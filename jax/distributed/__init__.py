"""Programs that run as several processes, on one machine or many."""

from jax._src.distributed import (
    ProcessesError as ProcessesError,
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)
