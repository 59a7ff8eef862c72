"""The geometric distribution."""

from jax._src.scipy.stats.geom import logpmf as logpmf, pmf as pmf
