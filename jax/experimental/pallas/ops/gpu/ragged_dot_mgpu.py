"""Products of groups of rows with a matrix each for Hopper GPUs, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.hopper_ragged_dot import (
    GroupInfo as GroupInfo,
    ragged_dot as ragged_dot,
)
