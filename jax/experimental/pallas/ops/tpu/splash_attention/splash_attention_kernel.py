"""Attention that skips blocks of the scores which a mask leaves out."""

from jax._src.pallas.ops.tpu.splash_attention.attention import (
    BlockSizes as BlockSizes,
    QKVLayout as QKVLayout,
    SegmentIds as SegmentIds,
    SplashAttentionKernel as SplashAttentionKernel,
    from_head_minor as from_head_minor,
    get_kernel_name as get_kernel_name,
    make_splash_mha as make_splash_mha,
    make_splash_mha_single_device as make_splash_mha_single_device,
    make_splash_mqa as make_splash_mqa,
    make_splash_mqa_single_device as make_splash_mqa_single_device,
)
from jax._src.pallas.ops.tpu.splash_attention.reference import (
    attention_reference as attention_reference,
    make_attention_reference as make_attention_reference,
    make_masked_mha_reference as make_masked_mha_reference,
    make_masked_mqa_reference as make_masked_mqa_reference,
)
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE
