"""Interpolation with SciPy's interface."""

from jax._src.scipy.interpolate import RegularGridInterpolator as RegularGridInterpolator
