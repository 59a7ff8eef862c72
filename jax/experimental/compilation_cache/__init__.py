"""The persistent compilation cache."""

from jax.experimental.compilation_cache import compilation_cache as compilation_cache
