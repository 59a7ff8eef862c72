"""The folder of the persistent compilation cache."""

from jax._src.compilation_cache import reset_cache as reset_cache, set_cache_dir as set_cache_dir
