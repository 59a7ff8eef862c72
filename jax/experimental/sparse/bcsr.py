"""BCSR, the batched compressed sparse row format."""

# Also names of helpers, which the original's module has too.
from jax import (
    Array as Array,
    lax as lax,
    numpy as jnp,  # noqa: F401
    tree_util as tree_util,
)
from jax._src.lax.lax import DotDimensionNumbers as DotDimensionNumbers
from jax._src.sparse.base import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    JAXSparse as JAXSparse,
    Shape as Shape,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    SparseInfo as SparseInfo,
)
from jax._src.sparse.bcsr import (
    BCSR as BCSR,
    BCSRProperties as BCSRProperties,
    bcsr_broadcast_in_dim as bcsr_broadcast_in_dim,
    bcsr_concatenate as bcsr_concatenate,
    bcsr_dot_general as bcsr_dot_general,
    bcsr_eliminate_zeros as bcsr_eliminate_zeros,
    bcsr_extract as bcsr_extract,
    bcsr_fromdense as bcsr_fromdense,
    bcsr_sum_duplicates as bcsr_sum_duplicates,
    bcsr_todense as bcsr_todense,
)
from jax._src.sparse.bcsr_primitives import (
    bcsr_dot_general_p as bcsr_dot_general_p,
    bcsr_extract_p as bcsr_extract_p,
    bcsr_fromdense_p as bcsr_fromdense_p,
    bcsr_todense_p as bcsr_todense_p,
)
from jax._src.sparse.util import nfold_vmap as nfold_vmap
from jax._src.util import safe_zip as safe_zip, split_list as split_list
from jax.experimental.sparse import bcoo as bcoo
