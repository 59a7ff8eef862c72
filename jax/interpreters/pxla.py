"""Compilation of lowered programs."""

from typing import Any as _Any

from jax._src import (
    deprecations as _deprecations_module,
    mesh as _mesh,
    op_shardings as _op_shardings,
    sharding_impls as _sharding_impls,
)
from jax._src.interpreters import pxla as _pxla
from jax._src.interpreters.pxla import create_compile_options as create_compile_options

_going = {
    "ArrayMapping": dict[_Any, int],
    "Index": int | slice | tuple[int | slice, ...],
    "MeshAxisName": _mesh.MeshAxisName,
    "MeshComputation": _pxla.MeshComputation,
    "MeshExecutable": _pxla.MeshExecutable,
    "_UNSPECIFIED": _sharding_impls.UNSPECIFIED,
    "are_hlo_shardings_equal": _op_shardings.are_hlo_shardings_equal,
    "array_mapping_to_axis_resources": _sharding_impls.array_mapping_to_axis_resources,
    "global_aval_to_result_handler": _pxla.global_aval_to_result_handler,
    "global_avals_to_results_handler": _pxla.global_avals_to_results_handler,
    "global_result_handlers": _pxla.global_result_handlers,
    "is_hlo_sharding_replicated": _op_shardings.is_hlo_sharding_replicated,
    "op_sharding_to_indices": _op_shardings.op_sharding_to_indices,
}
_deprecations: dict[str, tuple[str, _Any]] = {
    name: (f"jax.interpreters.pxla.{name} is deprecated.", value) for name, value in _going.items()
}
_deprecations["thread_resources"] = (
    "jax.interpreters.pxla.thread_resources is deprecated: set a mesh with jax.set_mesh, and read it with"
    " jax.sharding.get_abstract_mesh().",
    _mesh.thread_resources,
)
_deprecations |= {
    name: (f"jax.interpreters.pxla.{name} was removed: use jax.shard_map in place of jax.pmap.", None)
    for name in (
        "Chunked", "MapTracer", "NoSharding", "PmapExecutable", "Replicated", "ShardedAxis",
        "ShardingSpec", "Unstacked", "parallel_callable", "shard_args", "spec_to_indices",
    )
}  # fmt: skip
__getattr__ = _deprecations_module.deprecation_getattr(__name__, _deprecations)
