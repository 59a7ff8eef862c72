"""Utilities for programs that run as several processes."""

# What the reference's module has as well.
from jax import numpy as jnp  # noqa: F401
from jax._src.host_local_arrays import (
    global_array_to_host_local_array as global_array_to_host_local_array,
    global_array_to_host_local_array_impl as global_array_to_host_local_array_impl,
    global_array_to_host_local_array_p as global_array_to_host_local_array_p,
    gtl_abstract_eval as gtl_abstract_eval,
    host_local_array_to_global_array as host_local_array_to_global_array,
    host_local_array_to_global_array_impl as host_local_array_to_global_array_impl,
    host_local_array_to_global_array_p as host_local_array_to_global_array_p,
    ltg_abstract_eval as ltg_abstract_eval,
    ltg_batcher as ltg_batcher,
)
from jax._src.multihost_utils.exchange import (
    assert_equal as assert_equal,
    broadcast_one_to_all as broadcast_one_to_all,
    process_allgather as process_allgather,
    sync_global_devices as sync_global_devices,
)
from jax._src.multihost_utils.liveness import (
    ProcessFailureError as ProcessFailureError,
    live_devices as live_devices,
    reached_preemption_sync_point as reached_preemption_sync_point,
)
from jax._src.partition_spec import PartitionSpec as P  # noqa: F401
from jax._src.tree_util import tree_flatten as tree_flatten, tree_unflatten as tree_unflatten
from jax._src.util import safe_zip as safe_zip
