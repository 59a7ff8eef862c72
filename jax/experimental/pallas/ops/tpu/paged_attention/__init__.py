"""Attention of one query for each sequence, whose keys and values are in pages."""

from jax.experimental.pallas.ops.tpu.paged_attention import (
    paged_attention_kernel as paged_attention_kernel,
    quantization_utils as quantization_utils,
)
from jax.experimental.pallas.ops.tpu.paged_attention.paged_attention_kernel import (
    paged_attention as paged_attention,
)
