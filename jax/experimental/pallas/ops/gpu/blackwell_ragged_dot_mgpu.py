"""Products of groups of rows with a matrix each for Blackwell GPUs, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.blackwell_ragged_dot import (
    TuningConfig as TuningConfig,
    ragged_dot_kernel as ragged_dot_kernel,
    ragged_dot_reference as ragged_dot_reference,
    sample_group_sizes as sample_group_sizes,
)
