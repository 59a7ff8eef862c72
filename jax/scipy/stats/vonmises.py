"""The von Mises distribution."""

from jax._src.scipy.stats.vonmises import logpdf as logpdf, pdf as pdf
