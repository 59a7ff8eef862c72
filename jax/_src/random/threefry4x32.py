"""The module name by which outside code imports the generator threefry4x32."""

from jax._src.random.prng import find_impl

threefry4x32_prng_impl = find_impl("threefry4x32")
threefry4x32_seed = threefry4x32_prng_impl.seed
threefry4x32_split = threefry4x32_prng_impl.split
threefry4x32_random_bits = threefry4x32_prng_impl.random_bits
threefry4x32_fold_in = threefry4x32_prng_impl.fold_in
