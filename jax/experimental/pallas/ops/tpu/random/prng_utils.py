"""Positions of the elements of blocks."""

from jax._src.pallas.ops.tpu.random.counting import (
    blocked_iota as blocked_iota,
    compute_scalar_offset as compute_scalar_offset,
    round_up as round_up,
)
