"""Passes of one's own in XLA's pipeline of compilation."""

from jax._src.xla_transform import (
    PipelineStage as PipelineStage,
    clear_hlo_module_transformation as clear_hlo_module_transformation,
    register_hlo_module_transformation as register_hlo_module_transformation,
)
