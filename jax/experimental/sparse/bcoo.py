"""BCOO, the batched coordinate format."""

# Also names of helpers, which the original's module has too.
from jax import (
    Array as Array,
    lax as lax,
    numpy as jnp,  # noqa: F401
    tree_util as tree_util,
    vmap as vmap,
)
from jax._src.lax.lax import DotDimensionNumbers as DotDimensionNumbers
from jax._src.lax.slicing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode,
)
from jax._src.sparse.base import (
    CUSPARSE_DATA_DTYPES as CUSPARSE_DATA_DTYPES,
    CUSPARSE_INDEX_DTYPES as CUSPARSE_INDEX_DTYPES,
    Buffer as Buffer,
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    JAXSparse as JAXSparse,
    Shape as Shape,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    SparseInfo as SparseInfo,
)
from jax._src.sparse.bcoo.array import (
    BCOO as BCOO,
    BCOOProperties as BCOOProperties,
)
from jax._src.sparse.bcoo.contraction import (
    bcoo_dot_general_p as bcoo_dot_general_p,
    bcoo_dot_general_sampled_p as bcoo_dot_general_sampled_p,
    bcoo_spdot_general_p as bcoo_spdot_general_p,
)
from jax._src.sparse.bcoo.convert import (
    bcoo_extract_p as bcoo_extract_p,
    bcoo_fromdense_p as bcoo_fromdense_p,
    bcoo_todense_p as bcoo_todense_p,
    bcoo_transpose_p as bcoo_transpose_p,
)
from jax._src.sparse.bcoo.functions import (
    bcoo_eliminate_zeros as bcoo_eliminate_zeros,
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_transpose as bcoo_transpose,
    bcoo_update_layout as bcoo_update_layout,
)
from jax._src.sparse.bcoo.gathers import (
    bcoo_gather as bcoo_gather,
)
from jax._src.sparse.bcoo.ordering import (
    bcoo_sort_indices_p as bcoo_sort_indices_p,
    bcoo_sum_duplicates_p as bcoo_sum_duplicates_p,
)
from jax._src.sparse.bcoo.products import (
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
)
from jax._src.sparse.bcoo.shapes import (
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_squeeze as bcoo_squeeze,
)
from jax._src.sparse.coo import coo_matmat_p as coo_spmm_p, coo_matvec_p as coo_spmv_p  # noqa: F401
from jax._src.sparse.util import (
    nfold_vmap as nfold_vmap,
    ranges_like as ranges_like,
    remaining as remaining,
)
from jax._src.util import (
    canonicalize_axis as canonicalize_axis,
    safe_zip as safe_zip,
    split_list as split_list,
    unzip2 as unzip2,
)
