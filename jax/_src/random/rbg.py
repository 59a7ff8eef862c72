"""The module name by which outside code imports the generators rbg and unsafe_rbg."""

from jax._src.random.prng import (
    rbg_prng_impl as rbg_prng_impl,
    unsafe_rbg_prng_impl as unsafe_rbg_prng_impl,
)
