"""Attention for GPUs, forward and backward."""

from jax._src.pallas.ops.gpu.access import DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE
from jax._src.pallas.ops.gpu.attention import (
    BlockSizes as BlockSizes,
    mha as mha,
    mha_reference as mha_reference,
    segment_mask as segment_mask,
)
