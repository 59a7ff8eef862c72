"""Metadata of operations, for the compiler."""

from jax._src.xla_metadata import (
    set_xla_metadata as set_xla_metadata,
)
