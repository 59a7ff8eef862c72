"""Iterative solvers of linear systems with SciPy's interface."""

from jax._src.scipy.sparse.linalg import bicgstab as bicgstab, cg as cg, gmres as gmres
