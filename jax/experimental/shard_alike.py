"""Arrays that are sharded alike."""

from jax._src.shard_alike import (
    shard_alike as shard_alike,
)
