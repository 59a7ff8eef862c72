"""Composable transformations of Python + NumPy programs: differentiate, vectorize, compile.

Modules that most programs do not use are imported when their name is first accessed.
"""

import importlib as _importlib
from types import SimpleNamespace as _SimpleNamespace
from typing import TYPE_CHECKING as _TYPE_CHECKING

from jax import version as _version_module
from jax.version import __version__, __version_info__

# isort: off
from jax._src import config as _config_module
from jax._src.config import config as config
from jax._src.config import (
    allow_f16_reductions as allow_f16_reductions,
    array_garbage_collection_guard as array_garbage_collection_guard,
    auto_pcast as auto_pcast,
    check_tracer_leaks as check_tracer_leaks,
    check_tracer_leaks as checking_leaks,
    debug_infs as debug_infs,
    debug_key_reuse as debug_key_reuse,
    debug_nans as debug_nans,
    default_device as default_device,
    default_matmul_precision as default_matmul_precision,
    default_prng_impl as default_prng_impl,
    enable_checks as enable_checks,
    enable_custom_prng as enable_custom_prng,
    enable_x64 as enable_x64,
    explain_cache_misses as explain_cache_misses,
    jax2tf_associative_scan_reductions as jax2tf_associative_scan_reductions,
    legacy_prng_key as legacy_prng_key,
    log_compiles as log_compiles,
    no_execution as no_execution,
    no_tracing as no_tracing,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
    remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type,
    softmax_custom_jvp as softmax_custom_jvp,
    thread_guard as thread_guard,
    threefry_partitionable as threefry_partitionable,
    transfer_guard as transfer_guard,
    transfer_guard_device_to_device as transfer_guard_device_to_device,
    transfer_guard_device_to_host as transfer_guard_device_to_host,
    transfer_guard_host_to_device as transfer_guard_host_to_device,
)
from jax._src.core import (
    ShapeDtypeStruct as ShapeDtypeStruct,
    ensure_compile_time_eval as ensure_compile_time_eval,
    typeof as typeof,
)
from jax._src.dtypes import float0 as float0
from jax._src.basearray import Array as Array
from jax._src.array import (
    Shard as Shard,
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from jax._src.device_put.functions import (
    block_until_ready as block_until_ready,
    copy_to_host_async as copy_to_host_async,
    device_get as device_get,
    device_put as device_put,
    live_arrays as live_arrays,
)
from jax._src.api import (
    clear_caches as clear_caches,
    disable_jit as disable_jit,
    eval_shape as eval_shape,
    fwd_and_bwd as fwd_and_bwd,
    grad as grad,
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    jit as jit,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    make_jaxpr as make_jaxpr,
    named_call as named_call,
    named_scope as named_scope,
    value_and_grad as value_and_grad,
    vjp as vjp,
    vmap as vmap,
)
from jax._src.custom_derivatives import custom_jvp as custom_jvp
from jax._src.lib import Device as Device
from jax._src.runtime_tokens import effects_barrier as effects_barrier
from jax._src.sharding_impls import set_mesh as set_mesh
from jax._src.named_sharding import NamedSharding as NamedSharding
from jax._src.partition_spec import PartitionSpec as P
from jax._src.sharding_impls import make_mesh as make_mesh
from jax._src.xla_bridge import (
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
)
from jax import numpy as _numpy_module

# Not lazily: array_api_compat, which SciPy has too, looks for its Tracer among loaded modules.
from jax import core as core
from jax import dtypes as dtypes
from jax import errors as errors
from jax import lax as lax
from jax import sharding as sharding
from jax import tree as tree
from jax import tree_util as tree_util
from jax import typing as typing
from jax._src.transforms import derivatives as _derivatives_module
from jax._src import memory as _memory_module
# isort: on

if _TYPE_CHECKING:
    from jax import debug as debug
    from jax._src.ad_checkpoint import (
        checkpoint as checkpoint,
        checkpoint_policies as checkpoint_policies,
        remat as remat,
    )
    from jax._src.callback import pure_callback as pure_callback
    from jax._src.config import make_user_context as make_user_context
    from jax._src.custom_derivatives import (
        closure_convert as closure_convert,
        custom_gradient as custom_gradient,
        custom_vjp as custom_vjp,
    )
    from jax._src.environment_info import print_environment_info as print_environment_info
    from jax._src.indexing import ds as ds
    from jax._src.lax.resharding import reshard as reshard
    from jax._src.pmap import pmap as pmap
    from jax._src.shard_map import shard_map as shard_map, smap as smap
    from jax.ref import (
        Ref as Ref,
        empty_ref as empty_ref,
        free_ref as free_ref,
        freeze as freeze,
        new_ref as new_ref,
    )

numpy = _numpy_module
memory = _SimpleNamespace(Space=_memory_module.MemorySpace)
ad = _SimpleNamespace(
    DontWant=_derivatives_module.DontWant,
    DidntWant=_derivatives_module.DidntWant,
    GradRef=_derivatives_module.GradRef,
    GradValue=_derivatives_module.GradValue,
)

_lazy_modules = frozenset(
    {
        "ad_checkpoint", "api_util", "custom_batching", "custom_derivatives", "debug",
        "distributed", "dlpack", "doctor", "example_libraries", "experimental", "export", "extend", "ffi",
        "flatten_util", "image", "interpreters", "lib", "monitoring", "nn", "ops", "profiler", "random",
        "ref", "scipy", "stages", "test_util", "tools", "util", "version",
    }
)  # fmt: skip


def __getattr__(name: str):
    if name in _lazy_modules:
        try:
            return _importlib.import_module(f"jax.{name}")
        except ModuleNotFoundError as err:
            if err.name != f"jax.{name}":
                raise
    if name in _lazy_names:
        module, attr = _lazy_names[name]
        value = getattr(_importlib.import_module(module), attr)
        globals()[name] = value
        return value
    if name in ("device_put_replicated", "device_put_sharded"):
        raise AttributeError(
            f"jax.{name} was removed: use jax.device_put with a jax.NamedSharding over a mesh of the"
            " devices."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_lazy_names: dict[str, tuple[str, str]] = {
    "checkpoint": ("jax._src.ad_checkpoint", "checkpoint"),
    "checkpoint_policies": ("jax._src.ad_checkpoint", "checkpoint_policies"),
    "remat": ("jax._src.ad_checkpoint", "remat"),
    "closure_convert": ("jax._src.custom_derivatives", "closure_convert"),
    "custom_gradient": ("jax._src.custom_derivatives", "custom_gradient"),
    "custom_vjp": ("jax._src.custom_derivatives", "custom_vjp"),
    "print_environment_info": ("jax._src.environment_info", "print_environment_info"),
    "pure_callback": ("jax._src.callback", "pure_callback"),
    "pmap": ("jax._src.pmap", "pmap"),
    "reshard": ("jax._src.lax.resharding", "reshard"),
    "shard_map": ("jax._src.shard_map", "shard_map"),
    "smap": ("jax._src.shard_map", "smap"),
    "make_user_context": ("jax._src.config", "make_user_context"),
    "Ref": ("jax.ref", "Ref"),
    "new_ref": ("jax.ref", "new_ref"),
    "empty_ref": ("jax.ref", "empty_ref"),
    "free_ref": ("jax.ref", "free_ref"),
    "freeze": ("jax.ref", "freeze"),
    "ds": ("jax._src.indexing", "ds"),
}


def __dir__():
    return sorted({*globals(), *_lazy_modules, *_lazy_names})
