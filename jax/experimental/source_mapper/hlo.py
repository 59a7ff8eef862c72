"""Passes of XLA's programs."""

from jax._src.source_mapper.hlo import (
    METADATA_REGEX as METADATA_REGEX,
    HloPass as HloPass,
    optimized_generate_dump as optimized_generate_dump,
    original_hlo_generate_dump as original_hlo_generate_dump,
    parse_hlo_dump as parse_hlo_dump,
    stable_hlo_generate_dump as stable_hlo_generate_dump,
    trace_and_lower as trace_and_lower,
)
from jax.experimental.source_mapper import common as common, mlir as mlir
