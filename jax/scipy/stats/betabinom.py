"""The beta-binomial distribution."""

from jax._src.scipy.stats.betabinom import logpmf as logpmf, pmf as pmf
