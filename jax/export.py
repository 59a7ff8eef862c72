"""Exporting jitted functions to StableHLO: bytes that other processes, versions and platforms run."""

from typing import TYPE_CHECKING

from jax._src.export._export import (
    DisabledSafetyCheck as DisabledSafetyCheck,
    Exported as Exported,
    default_export_platform as default_export_platform,
    deserialize as deserialize,
    export as export,
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from jax._src.export.shape_poly.expressions import is_symbolic_dim as is_symbolic_dim
from jax._src.export.shape_poly.scope import SymbolicScope as SymbolicScope
from jax._src.export.shape_poly.specs import (
    symbolic_args_specs as symbolic_args_specs,
    symbolic_shape as symbolic_shape,
)
from jax._src.lazy_names import lazy_names as _lazy_names
from jax._src.tree_util.serialization import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)

if TYPE_CHECKING:
    from jax._src.export.onnx import to_onnx as to_onnx

__getattr__, __dir__ = _lazy_names(__name__, {"jax._src.export.onnx": ("to_onnx",)})
del TYPE_CHECKING
