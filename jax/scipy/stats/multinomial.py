"""The multinomial distribution."""

from jax._src.scipy.stats.multinomial import logpmf as logpmf, pmf as pmf
