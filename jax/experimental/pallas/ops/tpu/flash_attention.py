"""Attention by blocks of all scores."""

from jax._src.pallas.ops.tpu.flash_attention.attention import (
    below_or_on_diag as below_or_on_diag,
    flash_attention as flash_attention,
)
from jax._src.pallas.ops.tpu.flash_attention.reference import (
    mha_reference as mha_reference,
    mha_reference_bwd as mha_reference_bwd,
    mha_reference_no_custom_vjp as mha_reference_no_custom_vjp,
)
from jax._src.pallas.ops.tpu.flash_attention.settings import (
    BlockSizes as BlockSizes,
    SegmentIds as SegmentIds,
)
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE

MIN_BLOCK_SIZE = 128
NUM_LANES = 128
NUM_SUBLANES = 8
TRANS_B_DIM_NUMBERS = (((1,), (1,)), ((), ()))
