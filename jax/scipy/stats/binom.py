"""The binomial distribution."""

from jax._src.scipy.stats.binom import logpmf as logpmf, pmf as pmf
