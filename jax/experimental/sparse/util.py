"""Helpers of the sparse formats."""

# Also names of helpers, which the original's module has too.
from jax import lax as lax, tree_util as tree_util, vmap as vmap
from jax._src.basearray import Array as Array
from jax._src.sparse.base import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    SparseInfo as SparseInfo,
)
from jax._src.sparse.util import (
    broadcasting_vmap as broadcasting_vmap,
    nfold_vmap as nfold_vmap,
)
from jax._src.typing import Shape as Shape
from jax._src.util import safe_zip as safe_zip
