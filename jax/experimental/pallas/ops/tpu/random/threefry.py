"""The generator Threefry-2x32 as a kernel."""

from jax._src.pallas.ops.tpu.random.counting import BLOCK_SIZE as BLOCK_SIZE
from jax._src.pallas.ops.tpu.random.threefry import (
    plthreefry_prng_impl as plthreefry_prng_impl,
    plthreefry_random_bits as plthreefry_random_bits,
    threefry_2x32_count as threefry_2x32_count,
)
