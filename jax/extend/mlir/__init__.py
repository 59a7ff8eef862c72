"""MLIR's Python bindings, and StableHLO's portable artifacts."""

from jax._src.interpreters.mlir import (
    lower_with_sharding_in_types as lower_with_sharding_in_types,
)
from jax._src.lib import _jax as _jax
from jax.extend.mlir import dialects as dialects, ir as ir, passmanager as passmanager

deserialize_portable_artifact = _jax.mlir.deserialize_portable_artifact
hlo_to_stablehlo = _jax.mlir.hlo_to_stablehlo
refine_polymorphic_shapes = _jax.mlir.refine_polymorphic_shapes
serialize_portable_artifact = _jax.mlir.serialize_portable_artifact
