"""Attention of sequences with any numbers of queries, whose keys and values are in pages."""

from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as kernel
from jax.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import (
    dynamic_validate_inputs as dynamic_validate_inputs,
    ragged_paged_attention as ragged_paged_attention,
    ref_ragged_paged_attention as ref_ragged_paged_attention,
    static_validate_inputs as static_validate_inputs,
)
