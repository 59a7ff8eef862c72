"""Calls with metadata, and groups of operations that are scheduled together."""

# Names of helpers, which the original's module has too.
from jax._src.api_util import debug_info as debug_info
from jax._src.tree_util import tree_flatten as tree_flatten, tree_unflatten as tree_unflatten
from jax._src.tree_util.flat_tree import FlatTree as FlatTree
from jax._src.util import (
    safe_map as safe_map,
    safe_zip as safe_zip,
    split_list as split_list,
    subs_list as subs_list,
    unzip2 as unzip2,
    weakref_lru_cache as weakref_lru_cache,
)
from jax._src.xla_metadata import (
    attr_get as attr_get,
    dce_jaxpr_xla_metadata_rule as dce_jaxpr_xla_metadata_rule,
    scheduling_group as scheduling_group,
    xla_metadata_call as xla_metadata_call,
    xla_metadata_call_p as xla_metadata_call_p,
)

unsafe_map, unsafe_zip = map, zip
map, zip = safe_map, safe_zip
