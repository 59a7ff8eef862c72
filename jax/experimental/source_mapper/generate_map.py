"""Dumps of a function by passes."""

from jax._src.source_mapper.passes import (
    SourceMapGeneratorFn as SourceMapGeneratorFn,
    generate_sourcemaps as generate_sourcemaps,
)
from jax.experimental.source_mapper import common as common
