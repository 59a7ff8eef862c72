"""Writing and reading arrays with tensorstore."""

from jax._src.array_serialization.arrays import (
    ByteLimiter as _LimitInFlightBytes,
    async_deserialize as async_deserialize,
    async_serialize as async_serialize,
    create_async_array_from_callback as _create_async_array_from_callback,
    estimate_read_memory_footprint as estimate_read_memory_footprint,
    run_deserialization as _run_deserialization,
    run_serialization as _run_serialization,
    transfer_shard_to_host as _transfer_shard_to_host,
)
from jax._src.array_serialization.pytree import combine_kvstores as combine_kvstores
from jax._src.array_serialization.specs import (
    array_metadata as _get_tensorstore_metadata,
    cached_metadata as _get_tensorstore_metadata_cached,
    compute_chunk_shape as _compute_chunk_shape,
    gcs_kvstore as _get_kvstore_for_gcs,
    get_tensorstore_spec as get_tensorstore_spec,
    is_tensorstore_spec_leaf as is_tensorstore_spec_leaf,
    merge_nested_ts_specs as merge_nested_ts_specs,
    prime_factors as _prime_factors,
    s3_kvstore as _get_kvstore_for_s3,
    spec_has_metadata as _spec_has_metadata,
    verify_tensorstore_spec as verify_tensorstore_spec,
)
from jax._src.array_serialization.ts import CHUNK_LAYOUT as _TS_CHUNK_LAYOUT, CONTEXT as _TS_CONTEXT
