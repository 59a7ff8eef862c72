"""Attention of one query for each sequence, whose keys and values are in pages."""

from jax._src.pallas.ops.tpu.paged_attention.attention import (
    paged_attention as paged_attention,
)
from jax._src.pallas.ops.tpu.paged_attention.copies import PagesCopy
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE

MultiPageAsyncCopyDescriptor = PagesCopy
