"""Kernels for the SparseCores of TPUs."""

from jax._src.pallas.mosaic.sparse_core.indices import Indices as Indices
from jax._src.pallas.mosaic.sparse_core.loops import parallel_loop as parallel_loop
from jax._src.pallas.mosaic.sparse_core.memory import (
    addupdate as addupdate,
    addupdate_compressed as addupdate_compressed,
    addupdate_scatter as addupdate_scatter,
    fetch_and_add as fetch_and_add,
    load_expanded as load_expanded,
    load_gather as load_gather,
    store_compressed as store_compressed,
    store_scatter as store_scatter,
    subcore_barrier as subcore_barrier,
)
from jax._src.pallas.mosaic.sparse_core.meshes import (
    ScalarSubcoreMesh as ScalarSubcoreMesh,
    VectorSubcoreMesh as VectorSubcoreMesh,
    get_sparse_core_info as get_sparse_core_info,
)
from jax._src.pallas.mosaic.sparse_core.vectors import (
    PackFormat as PackFormat,
    all_reduce_ffs as all_reduce_ffs,
    all_reduce_population_count as all_reduce_population_count,
    bitcast as bitcast,
    cummax as cummax,
    cumsum as cumsum,
    pack as pack,
    scan_count as scan_count,
    sort_key_val as sort_key_val,
    unpack as unpack,
)
