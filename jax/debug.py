"""Looking into compiled programs: printing, callbacks, shardings."""

from jax._src.debugging import (
    DebugEffect as DebugEffect,
    OrderedDebugEffect as OrderedDebugEffect,
    debug_callback as callback,
    debug_log as log,
    debug_print as print,
    inspect_array_sharding as inspect_array_sharding,
)
