"""The multivariate normal distribution."""

from jax._src.scipy.stats.multivariate_normal import logpdf as logpdf, pdf as pdf
