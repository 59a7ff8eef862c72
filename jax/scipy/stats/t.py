"""The Student's t distribution."""

from jax._src.scipy.stats.t import logpdf as logpdf, pdf as pdf
