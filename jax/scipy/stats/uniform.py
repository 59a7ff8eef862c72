"""The uniform distribution."""

from jax._src.scipy.stats.uniform import cdf as cdf, logpdf as logpdf, pdf as pdf, ppf as ppf
