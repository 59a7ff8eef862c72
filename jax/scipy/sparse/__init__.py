"""Sparse matrices with SciPy's interface."""

from jax.scipy.sparse import linalg as linalg
