"""The gamma distribution."""

from jax._src.scipy.stats.gamma import (
    cdf as cdf,
    logcdf as logcdf,
    logpdf as logpdf,
    logsf as logsf,
    pdf as pdf,
    sf as sf,
)
