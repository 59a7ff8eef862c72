"""The Dirichlet distribution."""

from jax._src.scipy.stats.dirichlet import logpdf as logpdf, pdf as pdf
