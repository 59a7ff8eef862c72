"""Solvers and eigenvalues of sparse matrices: the implementation of `jax.experimental.sparse.linalg`."""
