"""Discrete cosine transforms: the implementation of `jax.scipy.fft`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import fft as lax_fft, lax, slicing
from jax._src.lax.fft import FftType
from jax._src.numpy import util
from jax._src.numpy.manipulation.shape import moveaxis
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple, set_module

export = set_module("jax.scipy.fft")
# Up to this size factors are constants of the program, correctly rounded.
_LARGEST_TABLE = 1 << 14

# ---------------------------------------------------------------------------------------------------
# Public functions


@export
def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Discrete cosine transform along an axis.

    Args:
      x: array of real or complex numbers. Types narrower than float32 are converted to it.
      type: 1, 2, 3 or 4, the kind of transform as SciPy counts them.
      n: number of elements to transform: `x` is cut off or zero-padded; by default all.
      axis: axis to transform.
      norm: normalization: "backward" (or None) divides the inverse transform by 2 n (by 2 (n - 1) for
        type 1), "forward" divides the forward transform, "ortho" makes both orthogonal.

    Returns:
      Array of the shape of `x`, with size n along `axis`.

    Raises:
      ValueError: if `type` or `norm` is unknown, `axis` is out of range, or `n` is less than 1 (2 for type 1).

    >>> jax.scipy.fft.dct(jnp.array([1.0, 1.0]))
    Array([4., 0.], dtype=float32)
    """
    return _along("dct", x, type, n, axis, norm, inverse=False)


@export
def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Inverse of `dct`; takes the same arguments.

    >>> y = jax.scipy.fft.dct(jnp.array([1.0, 2.0, 3.0]))
    >>> bool(jnp.allclose(jax.scipy.fft.idct(y), jnp.array([1.0, 2.0, 3.0])))
    True
    """
    return _along("idct", x, type, n, axis, norm, inverse=True)


@export
def dctn(
    x: ArrayLike,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Discrete cosine transform along several axes.

    Args:
      x: array of real or complex numbers.
      type: as for `dct`.
      s: sizes along `axes` to which `x` is cut off or zero-padded; by default its own sizes.
      axes: distinct axes; by default the last `len(s)`, or all.
      norm: as for `dct`, along each axis.

    Returns:
      Array of the shape of `x`, with sizes `s` along `axes`.

    Raises:
      ValueError: as for `dct`, and if `s` and `axes` have different lengths.

    >>> print(jax.scipy.fft.dctn(jnp.ones((2, 2))))
    [[16.  0.]
     [ 0.  0.]]
    """
    return _several("dctn", x, type, s, axes, norm, inverse=False)


@export
def idctn(
    x: ArrayLike,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `dctn`; takes the same arguments.

    >>> y = jax.scipy.fft.dctn(jnp.eye(2))
    >>> bool(jnp.allclose(jax.scipy.fft.idctn(y), jnp.eye(2), atol=1e-6))
    True
    """
    return _several("idctn", x, type, s, axes, norm, inverse=True)


# ---------------------------------------------------------------------------------------------------
# Arguments


def _along(name, x, type, n, axis, norm, inverse):
    x = util.ensure_arraylike(f"jax.scipy.fft.{name}", x)
    axis = canonicalize_axis(axis, x.ndim)
    n = x.shape[axis] if n is None else operator.index(n)
    return _checked(name, x, type, (n,), (axis,), norm, inverse)


def _several(name, x, type, s, axes, norm, inverse):
    x = util.ensure_arraylike(f"jax.scipy.fft.{name}", x)
    if s is not None:
        s = tuple(map(operator.index, s)) if np.ndim(s) else (operator.index(s),)
        if axes is None:
            if len(s) > x.ndim:
                raise ValueError(
                    f"jax.scipy.fft.{name}: s={s} has more sizes than x of shape {x.shape} has axes."
                )
            axes = tuple(range(x.ndim - len(s), x.ndim))
    axes = canonicalize_axis_tuple(axes, x.ndim)
    if s is None:
        s = tuple(x.shape[axis] for axis in axes)
    if len(s) != len(axes):
        raise ValueError(
            f"jax.scipy.fft.{name}: s and axes must have the same length, got s={s} and axes={axes}."
        )
    return _checked(name, x, type, s, axes, norm, inverse)


def _checked(name, x, type, sizes, axes, norm, inverse):
    if type not in (1, 2, 3, 4):
        raise ValueError(f"jax.scipy.fft.{name}: type must be 1, 2, 3 or 4, got {type!r}.")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(
            f"jax.scipy.fft.{name}: norm={norm!r} is not implemented. It must be None, 'backward', 'ortho' "
            "or 'forward'."
        )
    if not core.is_constant_shape(sizes):
        raise NotImplementedError(
            f"jax.scipy.fft.{name}: the transformed axes must have known sizes, got {sizes} along axes {axes} "
            f"of the shape {x.shape}. Pass n (or s), or transform other axes."
        )
    least = 2 if type == 1 else 1
    for n, axis in zip(sizes, axes):
        if n < least:
            raise ValueError(
                f"jax.scipy.fft.{name}: a transform of type {type} takes at least {least} elements, got {n} "
                f"along axis {axis} of shape {x.shape}. Pass a larger size."
            )
    (x,) = util.promote_dtypes_inexact(x)
    kind = int(type)
    if inverse:
        kind = {2: 3, 3: 2}.get(kind, kind)
    # Whether to divide by the factor that a transform and its inverse have together
    divided = norm == "forward" if not inverse else norm in (None, "backward")
    scale = "ortho" if norm == "ortho" else "divided" if divided else "none"
    return _transform(util.to_array(x), kind=kind, sizes=tuple(sizes), axes=axes, scale=scale)


def _transform_impl(x, *, kind, sizes, axes, scale):
    if dtypes.itemsize_bits(x.dtype) < 32:
        x = lax.convert_element_type(x, np.float32)
    x = lax.convert_type(x, x.dtype, False)
    x = _resized(x, sizes, axes)
    for axis in axes:
        x = moveaxis(_last_axis(moveaxis(x, axis, -1), kind, scale), -1, axis)
    return x


_transform_impl.__name__ = "dct"
_transform = nested_jit(_transform_impl, static_argnames=("kind", "sizes", "axes", "scale"))


def _resized(x, sizes, axes):
    """Cuts off or zero-pads `x` to `sizes` along `axes`."""
    limits, padding = list(x.shape), [(0, 0, 0)] * x.ndim
    for n, axis in zip(sizes, axes):
        limits[axis] = core.min_dim(n, x.shape[axis])
        padding[axis] = (0, n - limits[axis], 0)
    x = slicing.slice(x, [0] * x.ndim, limits)
    return lax.pad(x, np.zeros((), x.dtype), padding)


# ---------------------------------------------------------------------------------------------------
# Transforms along the last axis


def _last_axis(x, kind, scale):
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.complex(*(_last_axis(part, kind, scale) for part in (lax.real(x), lax.imag(x))))
    n = x.shape[-1]
    factor = 2 * (n - 1) if kind == 1 else 2 * n
    if scale == "ortho" and kind in (1, 3):
        x = lax.mul(x, _ends(x, math.sqrt(2), both=kind == 1))
    y = (_dct1, _dct2, _dct3, _dct4)[kind - 1](x)
    if scale == "none":
        return y
    y = lax.mul(y, lax.const(y, 1 / math.sqrt(factor) if scale == "ortho" else 1 / factor))
    if scale == "ortho" and kind in (1, 2):
        y = lax.mul(y, _ends(y, 1 / math.sqrt(2), both=kind == 1))
    return y


def _ends(x: Array, value: float, both: bool) -> Array:
    """Ones, but `value` in the first element of the last axis, and if `both`, in the last."""
    out = np.ones(x.shape[-1], x.dtype)
    out[0] = value
    if both:
        out[-1] = value
    return util.broadcast_to(out, x.shape)


def _part(x: Any, start: int, stop: int | None = None, step: int = 1) -> Any:
    return slicing.slice_in_dim(x, start, stop, step, axis=x.ndim - 1)


def _reverse(x):
    return lax.rev(x, (x.ndim - 1,))


def _join(*parts):
    return lax.concatenate(parts, parts[0].ndim - 1)


def _twiddles(x: Array, n: int, factor: float, offset: float = 0.0) -> tuple[Array, Array]:
    """Cosines and sines of `factor * (k + offset)` for k = 0, ..., n - 1, in the shape of x."""
    if n <= _LARGEST_TABLE:
        table = factor * (np.arange(n) + offset)
        cos, sin = np.cos(table).astype(x.dtype), np.sin(table).astype(x.dtype)
    else:
        k = lax.iota(x.dtype, n)
        angle = lax.mul(lax.add(k, lax.const(k, offset)), lax.const(k, factor))
        cos, sin = lax.cos(angle), lax.sin(angle)
    shape = (*x.shape[:-1], n)
    return util.broadcast_to(cos, shape), util.broadcast_to(sin, shape)


def _rfft(x):
    return lax_fft.fft(x, FftType.RFFT, (x.shape[-1],))


def _dct1(x):
    """x[0] + (-1)**k x[-1] + 2 sum x[j] cos(pi j k / (n - 1)): the transform of the even extension."""
    n = x.shape[-1]
    return lax.real(_rfft(_join(x, _reverse(_part(x, 1, n - 1)))))


def _dct2(x):
    """2 sum x[j] cos(pi k (2 j + 1) / (2 n)).

    J. Makhoul, "A fast cosine transform in one and two dimensions" (1980): the Fourier transform of the
    even elements followed by the odd ones reversed, each turned by an angle.
    """
    n = x.shape[-1]
    if n > 1:
        x = _join(_part(x, 0, None, 2), _reverse(_part(x, 1, None, 2)))
    out = _rfft(x)
    cos, sin = _twiddles(x, out.shape[-1], math.pi / (2 * n))
    re, im = lax.real(out), lax.imag(out)
    first = re * cos + im * sin
    rest = re * sin - im * cos
    rest = _reverse(_part(rest, 1, (n + 1) // 2)) if n > 1 else _part(rest, 0, 0)
    out = _join(first, rest)
    return out + out


def _dct3(x):
    """x[0] + 2 sum x[j] cos(pi j (2 k + 1) / (2 n)): the inverse of `_dct2` times 2 n."""
    n = x.shape[-1]
    half = n // 2 + 1
    # Elements n - k for k = 0, ..., n // 2, of which that for k = 0 is zero
    opposite = lax.pad(
        _reverse(_part(x, n - half + 1)),
        np.zeros((), x.dtype),
        [(0, 0, 0)] * (x.ndim - 1) + [(1, 0, 0)],
    )
    x = _part(x, 0, half)
    cos, sin = _twiddles(x, half, math.pi / (2 * n))
    turned = lax.complex(x * cos + opposite * sin, x * sin - opposite * cos)
    out = lax_fft.fft(turned, FftType.IRFFT, (n,))
    out = lax.mul(out, lax.const(out, n))
    if n == 1:
        return out
    even, odd = _part(out, 0, (n + 1) // 2), _reverse(_part(out, (n + 1) // 2))
    # Interleave: each is spread out with zeros between its elements.
    spread = lambda v, low: lax.pad(
        v,
        np.zeros((), v.dtype),
        [(0, 0, 0)] * (v.ndim - 1) + [(low, n - low - 2 * v.shape[-1] + 1, 1)],
    )
    return spread(even, 0) + spread(odd, 1)


def _dct4(x):
    """2 sum x[j] cos(pi (2 k + 1) (2 j + 1) / (4 n)), by a complex transform of twice the size."""
    n = x.shape[-1]
    cos, sin = _twiddles(x, n, math.pi / (2 * n))
    turned = lax.complex(x * cos, lax.neg(x * sin))
    turned = lax.pad(turned, np.zeros((), turned.dtype), [(0, 0, 0)] * (x.ndim - 1) + [(0, n, 0)])
    out = _part(lax_fft.fft(turned, FftType.FFT, (2 * n,)), 0, n)
    cos, sin = _twiddles(x, n, math.pi / (2 * n), 0.5)
    out = lax.real(out) * cos + lax.imag(out) * sin
    return out + out
