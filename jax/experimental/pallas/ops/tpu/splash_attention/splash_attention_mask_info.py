"""The blocks of masks, in the order in which kernels go through them."""

from jax._src.pallas.ops.tpu.splash_attention.mask_info import (
    MaskInfo as MaskInfo,
    process_dynamic_mask as process_dynamic_mask,
    process_dynamic_mask_dkv as process_dynamic_mask_dkv,
    process_mask as process_mask,
    process_mask_dkv as process_mask_dkv,
)
