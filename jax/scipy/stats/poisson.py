"""The Poisson distribution."""

from jax._src.scipy.stats.poisson import (
    cdf as cdf,
    entropy as entropy,
    logpmf as logpmf,
    pmf as pmf,
)
