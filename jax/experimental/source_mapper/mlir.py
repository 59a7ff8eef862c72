"""Locations in MLIR's text."""

from jax._src.source_mapper.mlir_locations import (
    CALLSITE_REGEX as CALLSITE_REGEX,
    LOC_REGEX as LOC_REGEX,
    SCOPED_REGEX as SCOPED_REGEX,
    SRC_REGEX as SRC_REGEX,
    Location as Location,
    Redirect as Redirect,
    create_mlir_sourcemap as create_mlir_sourcemap,
    parse_mlir_locations as parse_mlir_locations,
)
