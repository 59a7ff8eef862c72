"""Products of groups of rows of two matrices for Hopper GPUs, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.hopper_ragged_dot import (
    ref_transposed_ragged_dot as ref_transposed_ragged_dot,
    transposed_ragged_dot as transposed_ragged_dot,
)
