"""Flattening pytrees of arrays to a single vector."""

from jax._src.flatten_util import ravel_pytree as ravel_pytree
