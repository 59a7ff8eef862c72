"""Attention of one query for each sequence in plain operations."""

from jax._src.pallas.ops.tpu.paged_attention.reference import (
    MASK_VALUE as MASK_VALUE,
    grouped_query_attention_reference as grouped_query_attention_reference,
)
