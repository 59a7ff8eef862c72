"""Helpers of the sparse formats."""

# Also names of helpers, which the original's module has too.
from jax import (
    lax as lax,
    numpy as jnp,  # noqa: F401
    tree_util as tree_util,
    vmap as vmap,
)
from jax._src.api_util import flatten_axes as flatten_axes
from jax._src.basearray import Array as Array
from jax._src.lax.lax import DotDimensionNumbers as DotDimensionNumbers
from jax._src.sparse.base import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    Shape as Shape,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    SparseInfo as SparseInfo,
)
from jax._src.sparse.util import (
    broadcasting_vmap as broadcasting_vmap,
    nfold_vmap as nfold_vmap,
)
from jax._src.util import safe_zip as safe_zip
