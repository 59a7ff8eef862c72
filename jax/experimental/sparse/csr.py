"""Matrices in compressed sparse row and column format."""

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
from jax._src.sparse.coo import COOInfo as COOInfo
from jax._src.sparse.csr import (
    CSC as CSC,
    CSR as CSR,
    csr_fromdense as csr_fromdense,
    csr_fromdense_p as csr_fromdense_p,
    csr_matmat as csr_matmat,
    csr_matmat_p as csr_matmat_p,
    csr_matvec as csr_matvec,
    csr_matvec_p as csr_matvec_p,
    csr_todense as csr_todense,
    csr_todense_p as csr_todense_p,
)
from jax.interpreters import mlir as mlir
