"""Attention for Hopper GPUs, by Mosaic GPU: forward and backward."""

from jax._src.pallas.ops.gpu.hopper_attention import (
    TuningConfig as TuningConfig,
    attention as attention,
    attention_reference as attention_reference,
    attention_with_pipeline_emitter as attention_with_pipeline_emitter,
)
