"""Debugging of compiled programs: printing, callbacks, breakpoints, shardings."""

from jax._src.backward_nans import nans as nans
from jax._src.bounds_mode import bounds as bounds
from jax._src.cache_misses.explain import explain_cache_miss as explain_cache_miss
from jax._src.debugger import breakpoint as breakpoint
from jax._src.debugging import (
    DebugEffect as DebugEffect,
    OrderedDebugEffect as OrderedDebugEffect,
    debug_callback as callback,
    debug_log as log,
    debug_print as print,
    inspect_array_sharding as inspect_array_sharding,
)
from jax._src.visualize import (
    visualize_array_sharding as visualize_array_sharding,
    visualize_sharding as visualize_sharding,
)
