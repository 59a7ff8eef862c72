"""Rotations with SciPy's interface."""

from jax.scipy.spatial import transform as transform
