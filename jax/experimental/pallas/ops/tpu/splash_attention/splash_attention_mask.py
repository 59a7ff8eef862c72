"""Masks of attention."""

from jax._src.pallas.ops.tpu.splash_attention.masks import (
    CausalMask as CausalMask,
    ChunkedCausalMask as ChunkedCausalMask,
    FullMask as FullMask,
    LocalMask as LocalMask,
    LogicalAnd as LogicalAnd,
    LogicalOr as LogicalOr,
    Mask as Mask,
    MultiHeadMask as MultiHeadMask,
    NumpyMask as NumpyMask,
    make_causal_mask as make_causal_mask,
    make_chunk_attention_mask as make_chunk_attention_mask,
    make_local_attention_mask as make_local_attention_mask,
    make_random_mask as make_random_mask,
)
