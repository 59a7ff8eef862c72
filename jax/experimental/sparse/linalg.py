"""Solvers and eigenvalues of sparse matrices."""

# Also names of helpers, which the original's module has too.
from jax import numpy as jnp  # noqa: F401
from jax._src.sparse.linalg.direct import spsolve as spsolve, spsolve_p as spsolve_p
from jax._src.sparse.linalg.lobpcg import lobpcg_standard as lobpcg_standard
from jax.experimental import sparse as sparse
from jax.interpreters import mlir as mlir
