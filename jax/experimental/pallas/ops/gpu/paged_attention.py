"""Attention of one query for each sequence, to keys in pages, for GPUs."""

from jax._src.pallas.ops.gpu.access import DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE
from jax._src.pallas.ops.gpu.paged_attention import (
    paged_attention as paged_attention,
    paged_attention_reference as paged_attention_reference,
)
