"""Integration of samples: the implementation of `jax.scipy.integrate`."""

from __future__ import annotations

from jax._src.basearray import Array
from jax._src.numpy import calculus
from jax._src.typing import ArrayLike
from jax._src.util import set_module


@set_module("jax.scipy.integrate")
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrates a sampled function by the trapezoidal rule; the same as `jax.numpy.trapezoid`.

    Args:
      y: samples.
      x: coordinates: a vector, or an array that includes `axis`; None for samples `dx` apart.
      dx: spacing: a scalar, a vector, or an array that includes `axis`.
      axis: axis to integrate along.

    Returns:
      An array of the shape of `y` without `axis`.

    Raises:
      TypeError, ValueError: if an argument is not an array, or shapes do not broadcast.

    >>> jax.scipy.integrate.trapezoid(jnp.array([1., 2., 3.]), dx=2.).item()
    8.0
    """
    return calculus.trapezoid(y, x, dx, axis)
