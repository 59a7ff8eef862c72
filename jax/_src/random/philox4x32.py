"""The module name by which outside code imports the generator philox4x32."""

from jax._src.random.prng import find_impl

philox4x32_prng_impl = find_impl("philox4x32")
philox4x32_seed = philox4x32_prng_impl.seed
philox4x32_split = philox4x32_prng_impl.split
philox4x32_random_bits = philox4x32_prng_impl.random_bits
philox4x32_fold_in = philox4x32_prng_impl.fold_in
