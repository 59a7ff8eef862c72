"""Gathering of an array from the devices of a ring."""

from jax._src.pallas.ops.tpu.all_gather import (
    ag_kernel as ag_kernel,
    all_gather as all_gather,
    get_neighbor as get_neighbor,
)
