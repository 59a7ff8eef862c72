"""Window functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy.ufuncs_special import i0
from jax._src.numpy.util import ensure_arraylike, export
from jax._src.typing import ArrayLike


def _size(name: str, M: Any) -> int:
    return core.concrete_or_error(int, M, f"M argument of {name}")


def _ones(m: int) -> Array:
    return lax.full((m,), 1, dtypes.canonicalize_dtype(dtypes.default_float_dtype()))


def _steps(m: int) -> Array:
    return lax.iota(dtypes.canonicalize_dtype(dtypes.default_float_dtype()), m)


def _cosines(m, coefficients):
    """Evaluates `sum_k c_k cos(2 pi k n / (m - 1))` for n = 0, ..., m - 1."""
    n = _steps(m)
    out = lax.full_like(n, coefficients[0])
    for k, c in enumerate(coefficients[1:], 1):
        angle = lax.mul(n, lax.const(n, 2 * np.pi * k / (m - 1)))
        out = lax.add(out, lax.mul(lax.const(n, c), lax.cos(angle)))
    return out


def _window(*, m, coefficients):
    return _cosines(m, coefficients) if m > 1 else _ones(m)


_window = nested_jit(_window, static_argnames=("m", "coefficients"))


@export
def blackman(M: int) -> Array:
    """The Blackman window of size `M`.

    Args:
      M: number of samples.

    >>> jnp.blackman(3).shape
    (3,)
    """
    return _window(m=_size("blackman", M), coefficients=(0.42, -0.5, 0.08))


@export
def hamming(M: int) -> Array:
    """The Hamming window of size `M`.

    Args:
      M: number of samples.

    >>> jnp.hamming(3).round(2).tolist() == jnp.array([0.08, 1., 0.08]).tolist()
    True
    """
    return _window(m=_size("hamming", M), coefficients=(0.54, -0.46))


@export
def hanning(M: int) -> Array:
    """The Hann window of size `M`.

    Args:
      M: number of samples.

    >>> jnp.hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window(m=_size("hanning", M), coefficients=(0.5, -0.5))


@export
def bartlett(M: int) -> Array:
    """The triangular window of size `M`.

    Args:
      M: number of samples.

    >>> jnp.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _bartlett(m=_size("bartlett", M))


def _bartlett(*, m):
    if m <= 1:
        return _ones(m)
    n = _steps(m)
    half = lax.const(n, (m - 1) / 2)
    return lax.sub(lax.const(n, 1), lax.abs(lax.div(lax.sub(n, half), half)))


_bartlett = nested_jit(_bartlett, static_argnames=("m",))


@export
def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of size `M`.

    Args:
      M: number of samples.
      beta: shape parameter; 0 gives a rectangular window, larger values give a narrower one.

    Returns:
      An array of shape `(M,)`.

    >>> jnp.kaiser(3, 0.).tolist()
    [1.0, 1.0, 1.0]
    """
    beta = ensure_arraylike("kaiser", beta)
    if dtypes.issubdtype(beta.dtype, np.complexfloating):
        raise ValueError(f"kaiser: beta must be real, got dtype {beta.dtype.name}")
    return _kaiser(beta, m=_size("kaiser", M))


def _kaiser(beta, *, m):
    if m <= 1:
        return _ones(m)
    n = _steps(m)
    beta = lax.convert_element_type(beta, n.dtype)
    half = lax.const(n, (m - 1) / 2)
    x = lax.div(lax.sub(n, half), half)
    root = lax.sqrt(lax.max(lax.sub(lax.const(n, 1), lax.square(x)), lax.const(n, 0)))
    return lax.div(i0(lax.mul(beta, root)), i0(beta))


_kaiser = nested_jit(_kaiser, static_argnames=("m",))
