"""Shardings of all kinds, conversions between them, construction of meshes, the context mesh."""

from jax._src.mesh import get_abstract_mesh as get_abstract_mesh
from jax._src.named_sharding import (
    UNSPECIFIED as UNSPECIFIED,
    DuplicateSpecError as DuplicateSpecError,
    NamedSharding as NamedSharding,
    SdyArray as SdyArray,
    SdyDim as SdyDim,
    UnspecifiedValue as UnspecifiedValue,
    array_mapping_to_axis_resources as array_mapping_to_axis_resources,
    check_pspec as check_pspec,
    get_array_mapping as get_array_mapping,
    named_sharding_to_xla_hlo_sharding as named_sharding_to_xla_hlo_sharding,
)
from jax._src.partition_spec import PartitionSpec as PartitionSpec
from jax._src.sharding import (
    IndivisibleError as IndivisibleError,
    common_devices_indices_map as common_devices_indices_map,
    common_is_equivalent_to as common_is_equivalent_to,
)
from jax._src.sharding_impls.arguments import (
    batched_sharding as batched_sharding,
    canonicalize_jit_sharding as canonicalize_jit_sharding,
    canonicalize_sharding as canonicalize_sharding,
    is_leaf_sharding as is_leaf_sharding,
    prepare_axis_resources as prepare_axis_resources,
    sharding_of_device_or_backend as sharding_of_device_or_backend,
    sharding_of_shape as sharding_of_shape,
)
from jax._src.sharding_impls.concrete import (
    GSPMDSharding as GSPMDSharding,
    SdyArrayList as SdyArrayList,
    ShardingContext as ShardingContext,
    SingleDeviceSharding as SingleDeviceSharding,
    SPMDAxisContext as SPMDAxisContext,
    device_replica_id_map as device_replica_id_map,
    hashed_index as hashed_index,
    make_single_device_sharding as make_single_device_sharding,
    replicated_hlo_sharding as replicated_hlo_sharding,
)
from jax._src.sharding_impls.conversions import (
    NonUniformShardingError as NonUniformShardingError,
    _gspmd_to_named_sharding_via_mesh as _gspmd_to_named_sharding_via_mesh,
    cached_named_sharding as cached_named_sharding,
    check_replicated_trailing_dims as check_replicated_trailing_dims,
    get_logical_gspmd_sharding as get_logical_gspmd_sharding,
    get_process_index_and_count as get_process_index_and_count,
    local_to_global_shape as local_to_global_shape,
    logical_sharding as logical_sharding,
    make_key_array_phys_sharding as make_key_array_phys_sharding,
    num_addressable_indices as num_addressable_indices,
    parse_flatten_op_sharding as parse_flatten_op_sharding,
    physical_hlo_sharding as physical_hlo_sharding,
    physical_sharding as physical_sharding,
)
from jax._src.sharding_impls.meshes import (
    get_mesh as get_mesh,
    make_mesh as make_mesh,
    set_mesh as set_mesh,
    use_concrete_mesh as use_concrete_mesh,
    without_mesh as without_mesh,
)
