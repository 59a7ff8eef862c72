"""The Bernoulli distribution."""

from jax._src.scipy.stats.bernoulli import cdf as cdf, logpmf as logpmf, pmf as pmf, ppf as ppf
