"""Source maps of what a function is compiled to."""

from jax._src.source_info_util import canonical_file_name as canonicalize_filename
from jax._src.source_mapper.mlir_locations import create_mlir_sourcemap as create_mlir_sourcemap
from jax._src.source_mapper.passes import (
    Pass as Pass,
    SourceMapDump as SourceMapDump,
    all_passes as all_passes,
    compile_with_env as compile_with_env,
    filter_passes as filter_passes,
    generate_sourcemaps as generate_sourcemaps,
    register_pass as register_pass,
)
from jax._src.sourcemap import MappingsGenerator as MappingsGenerator, SourceMap as SourceMap
from jax.experimental.source_mapper import (
    common as common,
    generate_map as generate_map,
    hlo as hlo,
    jaxpr as jaxpr,
    mlir as mlir,
)
