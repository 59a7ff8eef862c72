"""Spherical harmonics and Bernoulli numbers."""

from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.util import broadcast_arrays, promote_dtypes_inexact
from jax._src.scipy.special.common import export, where


@functools.cache
def _bernoulli_numbers(n):
    """The numbers B_0 to B_n, exactly, by the recurrence DLMF 24.5.3."""
    out: list[Fraction] = []
    for m in range(n + 1):
        if m > 1 and m % 2:
            out.append(Fraction(0))
            continue
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(out)), Fraction(0))
        out.append(Fraction(1) if m == 0 else -total / (m + 1))
    return out


def _to_float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


@export
def bernoulli(n: int) -> Array:
    """Computes the Bernoulli numbers B_0 to B_n.

    Args:
      n: non-negative integer.

    Raises:
      ValueError: if `n` is negative.

    >>> jax.scipy.special.bernoulli(1)
    Array([ 1. , -0.5], dtype=float32)
    """
    n = core.concrete_or_error(
        operator.index,
        n,
        "The argument `n` of jax.scipy.special.bernoulli has to be known while tracing.",
    )
    if n < 0:
        raise ValueError(f"jax.scipy.special.bernoulli: n must be a non-negative integer, got {n}.")
    dtype = dtypes.default_float_dtype()
    # All numbers above B_256 overflow.
    exact = [_to_float(b) for b in _bernoulli_numbers(min(n, 300))]
    rest = [
        0.0 if m % 2 else math.inf * (1 if m % 4 == 2 else -1) for m in range(len(exact), n + 1)
    ]
    with np.errstate(over="ignore"):
        return asarray(np.array(exact + rest).astype(dtype))


@export
def sph_harm_y(
    n: Array,
    m: Array,
    theta: Array,
    phi: Array,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Computes spherical harmonics of degrees n and orders m.

    Y = N P(n, m, cos(theta)) exp(i m phi), with the associated Legendre function that includes the
    Condon-Shortley phase, normalized on the sphere: DLMF 14.30.1.

    Args:
      n: array of integers, the degrees; zero is the result where one is less than abs(m).
      m: array of integers, the orders.
      theta: polar angles.
      phi: azimuthal angles.
      diff_n: must be None. Differentiate with `jax.jacfwd`.
      n_max: the largest degree, an integer: necessary while tracing `n`. Higher degrees are clipped to it.

    Returns:
      Complex array of the shape to which the arguments broadcast.

    Raises:
      NotImplementedError: if `diff_n` is given.
      TypeError: if `n` or `m` is not of integers.

    >>> y = jax.scipy.special.sph_harm_y(*map(jnp.array, ([0], [0], [0.0], [0.0])))
    >>> print(y.real)
    [0.2820948]
    """
    if diff_n is not None:
        raise NotImplementedError(
            "The argument 'diff_n' of jax.scipy.special.sph_harm_y is not supported. Differentiate the "
            "function, for example by jax.jacfwd."
        )
    n, m = asarray(n), asarray(m)
    for name, x in (("n", n), ("m", m)):
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise TypeError(
                f"jax.scipy.special.sph_harm_y: {name} must be of integers, got dtype {x.dtype}. Convert "
                f"it, for example by {name}.astype(int)."
            )
    theta, phi = promote_dtypes_inexact(asarray(theta), asarray(phi))
    if dtypes.issubdtype(theta.dtype, np.complexfloating):
        raise TypeError(f"jax.scipy.special.sph_harm_y takes real angles, got dtype {theta.dtype}.")
    if n_max is None:
        n_max = core.concrete_or_error(
            lambda n: int(np.max(n, initial=0)),
            n,
            "Pass n_max to jax.scipy.special.sph_harm_y while n is traced.",
        )
    n_max = operator.index(n_max)
    if dtypes.itemsize_bits(theta.dtype) < 32:
        theta, phi = (lax.convert_element_type(x, np.float32) for x in (theta, phi))
    n, m, theta, phi = broadcast_arrays(n, m, theta, phi)
    return _spherical(n, m, theta, phi, n_max=n_max)


def _spherical_impl(n, m, theta, phi, *, n_max):
    n = lax.min(n, lax.full_like(n, n_max))
    order = lax.abs(m)
    x, s = lax.cos(theta), lax.sin(theta)
    k = lax.convert_element_type(order, theta.dtype)
    # Normalized functions of degree abs(m), DLMF 14.7.15, and then three terms upwards, 14.10.3
    here = lax.full_like(theta, math.sqrt(0.25 / math.pi))
    for j in range(1, n_max + 1):
        here = where(order >= j, here * (-math.sqrt((2 * j + 1) / (2 * j)) * s), here)
    below, out = lax.full_like(theta, 0), where(n == order, here, 0)
    for j in range(1, n_max + 1):
        active = order < j
        gap = where(active, j * j - k * k, 1)
        gap_before = where(order < j - 1, (j - 1) * (j - 1) - k * k, 0)
        a = lax.sqrt((4 * j * j - 1) / gap)
        b = lax.sqrt(where(gap_before > 0, gap_before, 0) * ((2 * j + 1) / max(2 * j - 3, 1)) / gap)
        new = a * x * here - b * below
        below, here = where(active, here, below), where(active, new, here)
        out = where(active & (n == j), here, out)
    odd = order - 2 * lax.div(order, lax.full_like(order, 2)) == 1
    out = where((m < 0) & odd, -out, out)
    angle = lax.convert_element_type(m, theta.dtype) * phi
    return lax.complex(out * lax.cos(angle), out * lax.sin(angle))


_spherical_impl.__name__ = "sph_harm_y"
_spherical = nested_jit(_spherical_impl, static_argnames=("n_max",))
