"""Checkpoints of sharded arrays that are written in the background."""

import functools as _functools

from jax._src.array_serialization.arrays import (
    ByteLimiter as _LimitInFlightBytes,
    async_deserialize as async_deserialize,
    async_serialize as async_serialize,
    run_deserialization as run_deserialization,
    run_serialization as run_serialization,
)
from jax._src.array_serialization.manager import (
    AsyncManager as AsyncManager,
    GlobalAsyncCheckpointManager as GlobalAsyncCheckpointManager,
    GlobalAsyncCheckpointManagerBase as GlobalAsyncCheckpointManagerBase,
)
from jax._src.array_serialization.processes import BarrierTimeoutError as BarrierTimeoutError
from jax._src.array_serialization.specs import (
    array_metadata as _array_metadata,
    get_tensorstore_spec as _get_tensorstore_spec,
    is_remote_storage as is_remote_storage,
)
from jax._src.array_serialization.ts import CONTEXT as TS_CONTEXT

# The defaults of this module are older than those of `tensorstore_impl`.
get_tensorstore_spec = _functools.partial(_get_tensorstore_spec, ocdbt=False, driver="zarr")
_get_metadata = _functools.partial(_array_metadata, driver="zarr")
