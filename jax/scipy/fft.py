"""Discrete cosine transforms with SciPy's interface."""

from jax._src.scipy.fft import dct as dct, dctn as dctn, idct as idct, idctn as idctn
