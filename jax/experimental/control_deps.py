"""The order in which compiled programs run operations."""

from jax._src.xla_metadata import (
    control_dep as control_dep,
    schedule as schedule,
)
