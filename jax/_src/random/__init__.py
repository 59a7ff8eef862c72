"""Random numbers: keys, generators and distributions."""

from jax._src.lazy_names import lazy_names

# Names that outside code imports. So are the modules `core`, `rbg`, `threefry2x32`, `threefry4x32`,
# `philox2x32` and `philox4x32`, which hand on what other modules define.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.random.keys": ("clone", "resolve_impl"),
        "jax._src.random.prng": ("default_prng_impl", "random_clone_p"),
    },
)
