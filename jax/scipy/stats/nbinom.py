"""The negative binomial distribution."""

from jax._src.scipy.stats.nbinom import logpmf as logpmf, pmf as pmf
