"""The module name by which outside code imports `jax._src.random.threefry`."""

from jax._src.random.prng import threefry_prng_impl as threefry_prng_impl
from jax._src.random.threefry import (
    fold_in as threefry_fold_in,
    random_bits as threefry_random_bits,
    seed as threefry_seed,
    split as threefry_split,
    threefry2x32_p as threefry2x32_p,
    threefry_2x32 as threefry_2x32,
)

__all__ = [
    "threefry2x32_p", "threefry_2x32", "threefry_fold_in", "threefry_prng_impl",
    "threefry_random_bits", "threefry_seed", "threefry_split",
]  # fmt: skip
