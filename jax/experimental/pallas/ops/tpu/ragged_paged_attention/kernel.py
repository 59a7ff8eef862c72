"""Attention of sequences with any numbers of queries, whose keys and values are in pages."""

from jax._src.pallas.ops.tpu.ragged_paged_attention.attention import (
    ragged_paged_attention as ragged_paged_attention,
)
from jax._src.pallas.ops.tpu.ragged_paged_attention.checks import (
    dynamic_validate_inputs as dynamic_validate_inputs,
    static_validate_inputs as static_validate_inputs,
)
from jax._src.pallas.ops.tpu.ragged_paged_attention.reference import (
    ref_ragged_paged_attention as ref_ragged_paged_attention,
)
from jax._src.pallas.ops.tpu.tiles import DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE
