"""Matrices in coordinate format."""

# Also names of helpers, which the original's module has too.
from jax import (
    Array as Array,
    lax as lax,
    numpy as jnp,  # noqa: F401
    tree_util as tree_util,
)
from jax._src.numpy.util import promote_dtypes as promote_dtypes
from jax._src.sparse.base import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    JAXSparse as JAXSparse,
    Shape as Shape,
)
from jax._src.sparse.coo import (
    COO as COO,
    COOInfo as COOInfo,
    coo_fromdense as coo_fromdense,
    coo_fromdense_p as coo_fromdense_p,
    coo_matmat as coo_matmat,
    coo_matmat_p as coo_matmat_p,
    coo_matvec as coo_matvec,
    coo_matvec_p as coo_matvec_p,
    coo_todense as coo_todense,
    coo_todense_p as coo_todense_p,
)
from jax.interpreters import mlir as mlir
