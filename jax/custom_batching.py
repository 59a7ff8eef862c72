"""Functions with custom batching rules."""

from jax._src.custom_batching import custom_vmap, sequential_vmap
