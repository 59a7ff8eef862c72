"""Checkpoints of pytrees of arrays."""

from jax._src.array_serialization.pytree import (
    load as load,
    load_pytreedef as load_pytreedef,
    nonblocking_load as nonblocking_load,
    nonblocking_save as nonblocking_save,
    save as save,
)
