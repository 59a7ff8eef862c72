"""Backends: the available platforms and their devices."""

from jax._src.xla_bridge import registry as _state
from jax._src.xla_bridge.clients import (
    DistributedState as DistributedState,
    get_num_nodes_from_gpu_topology as get_num_nodes_from_gpu_topology,
    make_cpu_client as make_cpu_client,
    make_pjrt_c_api_client as make_pjrt_c_api_client,
    make_tpu_client as make_tpu_client,
)
from jax._src.xla_bridge.custom_calls import (
    register_batch_partitionable as register_batch_partitionable,
    register_custom_call_target as register_custom_call_target,
    register_custom_type as register_custom_type,
    register_partitioner as register_partitioner,
)
from jax._src.xla_bridge.libraries import PlatformUnavailable as PlatformUnavailable
from jax._src.xla_bridge.plugins import (
    _discover_and_register_pjrt_plugins as _discover_and_register_pjrt_plugins,
    _get_pjrt_plugin_config as _get_pjrt_plugin_config,
    _get_pjrt_plugin_names_and_library_paths as _get_pjrt_plugin_names_and_library_paths,
    discover_pjrt_plugins as discover_pjrt_plugins,
    register_deferred_plugin as register_deferred_plugin,
    register_pjrt_plugin_factories_from_env as register_pjrt_plugin_factories_from_env,
    register_plugin as register_plugin,
    register_plugin_callbacks as register_plugin_callbacks,
)
from jax._src.xla_bridge.queries import (
    backend_pjrt_c_api_version as backend_pjrt_c_api_version,
    backend_stablehlo_version as backend_stablehlo_version,
    backend_xla_version as backend_xla_version,
    default_backend as default_backend,
    device_count as device_count,
    devices as devices,
    host_count as host_count,
    host_id as host_id,
    host_ids as host_ids,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
    process_indices as process_indices,
    using_pjrt_c_api as using_pjrt_c_api,
)
from jax._src.xla_bridge.registry import (
    BackendRegistration as BackendRegistration,
    _alias_to_platforms as _alias_to_platforms,
    _backend_errors as _backend_errors,
    _backend_factories as _backend_factories,
    _backend_initialization_hooks as _backend_initialization_hooks,
    _backends as _backends,
    _clear_backends as _clear_backends,
    _experimental_plugins as _experimental_plugins,
    _nonexperimental_plugins as _nonexperimental_plugins,
    _platform_aliases as _platform_aliases,
    _topology_factories as _topology_factories,
    backends as backends,
    backends_are_initialized as backends_are_initialized,
    canonicalize_platform as canonicalize_platform,
    clear_backends as clear_backends,
    clear_in_memory_compilation_cache as clear_in_memory_compilation_cache,
    expand_platform_alias as expand_platform_alias,
    get_backend as get_backend,
    get_device_backend as get_device_backend,
    is_known_platform as is_known_platform,
    known_platforms as known_platforms,
    local_backend as local_backend,
    make_pjrt_topology as make_pjrt_topology,
    make_pjrt_tpu_topology as make_pjrt_tpu_topology,
    register_backend_factory as register_backend_factory,
    register_backend_initialization_hook as register_backend_initialization_hook,
    unregister_backend_initialization_hook as unregister_backend_initialization_hook,
)


def __getattr__(name):
    if name in ("_default_backend", "_backend_lock"):  # assigned when backends start
        return getattr(_state, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
