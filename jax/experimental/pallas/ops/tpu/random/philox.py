"""The generator Philox-4x32 as a kernel."""

from jax._src.pallas.ops.tpu.random.counting import BLOCK_SIZE as BLOCK_SIZE
from jax._src.pallas.ops.tpu.random.philox import (
    K_HI_32 as K_HI_32,
    K_LO_32 as K_LO_32,
    MUL_A as MUL_A,
    MUL_B as MUL_B,
    mul32_hi_lo as mul32_hi_lo,
    philox_4x32 as philox_4x32,
    philox_4x32_count as philox_4x32_count,
    philox_4x32_kernel as philox_4x32_kernel,
    philox_fold_in as philox_fold_in,
    philox_random_bits as philox_random_bits,
    philox_split as philox_split,
    plphilox_prng_impl as plphilox_prng_impl,
)
