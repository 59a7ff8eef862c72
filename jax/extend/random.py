"""Pseudo-random number generators: defining new ones, and those provided."""

from jax._src.random.prng import (
    define_prng_impl as define_prng_impl,
    random_seed as random_seed,
    rbg_prng_impl as rbg_prng_impl,
    seed_with_impl as seed_with_impl,
    threefry_prng_impl as threefry_prng_impl,
    unsafe_rbg_prng_impl as unsafe_rbg_prng_impl,
)
from jax._src.random.threefry import (
    threefry2x32_p as threefry2x32_p,
    threefry_2x32 as threefry_2x32,
)
