"""The truncated normal distribution."""

from jax._src.scipy.stats.truncnorm import (
    cdf as cdf,
    logcdf as logcdf,
    logpdf as logpdf,
    logsf as logsf,
    pdf as pdf,
    sf as sf,
)
