"""The module name by which outside code imports the generator philox2x32."""

from jax._src.random.prng import find_impl

philox2x32_prng_impl = find_impl("philox2x32")
philox2x32_seed = philox2x32_prng_impl.seed
philox2x32_split = philox2x32_prng_impl.split
philox2x32_random_bits = philox2x32_prng_impl.random_bits
philox2x32_fold_in = philox2x32_prng_impl.fold_in
