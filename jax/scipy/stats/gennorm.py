"""The generalized normal distribution."""

from jax._src.scipy.stats.gennorm import cdf as cdf, logpdf as logpdf, pdf as pdf
