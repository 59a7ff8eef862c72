"""`shard_map`: functions that each device of a mesh runs on its own shards."""

import importlib
from typing import Any

from jax._src.shard_map import eager as _eager, rules as _rules  # assign rules of the primitive
from jax._src.shard_map.api import (
    Infer as Infer,
    InferFromArgs as InferFromArgs,
    shard_map as shard_map,
    smap as smap,
)
from jax._src.shard_map.eager import ShardMapTracer as ShardMapTracer
from jax._src.shard_map.primitive import shard_map_p as shard_map_p

_lazy = {"top_level_all_gather": "jax._src.shard_map.top_level"}  # few programs use it


def __getattr__(name: str) -> Any:
    if name in _lazy:
        return getattr(importlib.import_module(_lazy[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
