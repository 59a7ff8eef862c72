"""The wrapped Cauchy distribution."""

from jax._src.scipy.stats.wrapcauchy import logpdf as logpdf, pdf as pdf
