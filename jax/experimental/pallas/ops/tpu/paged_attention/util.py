"""Attention of one query for each sequence in plain operations."""

from jax._src.pallas.ops.tpu.paged_attention.reference import (
    grouped_query_attention_reference as grouped_query_attention_reference,
)
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE

MASK_VALUE = DEFAULT_MASK_VALUE
