"""Programs that run as several processes: `jax.distributed`."""

from jax._src.distributed.state import (
    STARTS as STARTS,
    State as State,
    global_state as global_state,
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)
from jax._src.errors import ProcessesError as ProcessesError
