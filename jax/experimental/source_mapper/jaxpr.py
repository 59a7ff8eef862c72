"""The pass of jaxprs."""

from jax._src import source_info_util as _source_info_util
from jax._src.source_mapper.jaxprs import (
    compile_jaxpr as compile_jaxpr,
    make_jaxpr_dump as make_jaxpr_dump,
)
from jax.experimental.source_mapper import common as common

canonicalize_filename = _source_info_util.canonical_file_name
