"""Functions of sparse arrays in any format."""

# Also names of helpers, which the original's module has too.
from jax import Array as Array, tree_util as tree_util
from jax._src.sparse.api import (
    empty as empty,
    eye as eye,
    todense as todense,
    todense_p as todense_p,
)
from jax._src.sparse.base import JAXSparse as JAXSparse
from jax._src.sparse.bcoo.array import BCOO as BCOO
from jax._src.sparse.bcsr import BCSR as BCSR
from jax._src.sparse.coo import COO as COO
from jax._src.sparse.csr import CSC as CSC, CSR as CSR
from jax.interpreters import mlir as mlir
