"""Functions with a batching rule of their own."""

from jax._src.custom_batching import custom_vmap, sequential_vmap
