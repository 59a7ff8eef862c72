"""Compiled functions as bytes, for other processes on machines of the same kind."""

from jax._src.serialize_executable import (
    deserialize_and_load as deserialize_and_load,
    serialize as serialize,
)
