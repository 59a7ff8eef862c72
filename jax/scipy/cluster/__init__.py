"""Clustering with SciPy's interface."""

from jax.scipy.cluster import vq as vq
