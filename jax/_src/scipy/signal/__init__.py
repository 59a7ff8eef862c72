"""Signal processing: the implementation of `jax.scipy.signal`."""

from jax._src.scipy.signal.convolution import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
)
from jax._src.scipy.signal.spectra import (
    csd as csd,
    istft as istft,
    stft as stft,
    welch as welch,
)
from jax._src.scipy.signal.trends import detrend as detrend
