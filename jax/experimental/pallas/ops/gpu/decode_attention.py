"""Attention of one query for each sequence, for GPUs."""

from jax._src.pallas.ops.gpu.decode_attention import (
    gqa as gqa,
    gqa_reference as gqa_reference,
    mha_reference as mha_reference,
    mqa as mqa,
    mqa_reference as mqa_reference,
)
