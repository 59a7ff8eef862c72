"""Minimization of functions with SciPy's interface."""

from jax._src.scipy.optimize import OptimizeResults as OptimizeResults, minimize as minimize
