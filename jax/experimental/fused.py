"""Functions that become one kernel."""

# Names of helpers, which the original's module has too.
from jax._src.api_util import debug_info as debug_info
from jax._src.core import typeof as typeof
from jax._src.fused import fused as fused, fused_p as fused_p
from jax._src.tree_util import (
    tree_flatten as tree_flatten,
    tree_unflatten as tree_unflatten,
)
from jax._src.util import (
    safe_map as safe_map,
    safe_zip as safe_zip,
    unzip2 as unzip2,
    weakref_lru_cache as weakref_lru_cache,
)

unsafe_map, unsafe_zip = map, zip
map, zip = safe_map, safe_zip
