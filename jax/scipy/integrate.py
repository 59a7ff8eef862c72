"""Integration with SciPy's interface."""

from jax._src.scipy.integrate import trapezoid as trapezoid
