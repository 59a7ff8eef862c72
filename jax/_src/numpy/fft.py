"""Fourier transforms with NumPy's names."""

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
from jax._src.lax.resharding import place
from jax._src.numpy import util
from jax._src.numpy.array_creation import arange
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.numpy.manipulation.shape import roll
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis, set_module

export = set_module("jax.numpy.fft")

# ---------------------------------------------------------------------------------------------------
# Along one axis


@export
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis.

    Args:
      a: array.
      n: number of elements to transform: `a` is cut or padded with zeros; by default all.
      axis: along which.
      norm: "backward" (or None): the inverse transform divides by n; "forward": the forward one does; "ortho":
        both divide by its square root.

    Returns:
      Complex array of the shape of `a`, n along `axis`.

    Raises:
      ValueError: for sizes below 1, axes out of range, and another norm.

    >>> jnp.fft.fft(jnp.array([1.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transform_1d("fft", FftType.FFT, a, n, axis, norm)


@export
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`, with the same arguments.

    >>> jnp.fft.ifft(jnp.array([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transform_1d("ifft", FftType.IFFT, a, n, axis, norm)


@export
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The half of `fft` that determines all of it, of a real array.

    Arguments and errors are those of `fft`; complex arrays are an error. The result has n // 2 + 1
    elements along `axis`.

    >>> jnp.fft.rfft(jnp.array([1.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return _transform_1d("rfft", FftType.RFFT, a, n, axis, norm)


@export
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`.

    Arguments are those of `fft`, but `n` is the number of elements of the result; by default it is even.

    Returns:
      Real array.

    >>> jnp.fft.irfft(jnp.array([4.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transform_1d("irfft", FftType.IRFFT, a, n, axis, norm)


_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@export
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform, which is real, of an array whose other half is its mirrored conjugate.

    Arguments are those of `irfft`.

    >>> jnp.fft.hfft(jnp.array([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    a = util.ensure_arraylike("jax.numpy.fft.hfft", a)
    _check_norm(norm)
    conj = lax.conj(a) if dtypes.issubdtype(a.dtype, np.complexfloating) else a
    return _transform_1d("hfft", FftType.IRFFT, conj, n, axis, _SWAPPED[norm])


@export
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`, of a real array; arguments are those of `fft`.

    >>> jnp.fft.ihfft(jnp.array([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    _check_norm(norm)
    return lax.conj(_transform_1d("ihfft", FftType.RFFT, a, n, axis, _SWAPPED[norm]))


def _transform_1d(name, kind, a, n, axis, norm):
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use jax.numpy.fft.{name}n. "
            f"Got axis = {axis!r}."
        )
    axis = 0 if axis is None else axis
    return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)


# ---------------------------------------------------------------------------------------------------
# Along two axes


@export
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`fftn` along two axes.

    >>> jnp.fft.fft2(jnp.eye(2)).real.tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return _transform_2d("fft2", FftType.FFT, a, s, axes, norm)


@export
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`ifftn` along two axes.

    >>> jnp.fft.ifft2(jnp.eye(2)).real.tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    return _transform_2d("ifft2", FftType.IFFT, a, s, axes, norm)


@export
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`rfftn` along two axes.

    >>> jnp.fft.rfft2(jnp.eye(2)).real.tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return _transform_2d("rfft2", FftType.RFFT, a, s, axes, norm)


@export
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`irfftn` along two axes.

    >>> jnp.fft.irfft2(2 * jnp.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _transform_2d("irfft2", FftType.IRFFT, a, s, axes, norm)


def _transform_2d(name, kind, a, s, axes, norm):
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes}.")
    return _transform(name, kind, a, s, axes, norm)


# ---------------------------------------------------------------------------------------------------
# Along several axes


@export
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete Fourier transform along several axes.

    Args:
      a: array.
      s: sizes along `axes`, to which `a` is cut or padded with zeros; by default its own.
      axes: which axes, without repetition; by default the last `len(s)`, or all.
      norm: as for `fft`.

    Returns:
      Complex array of the shape of `a`, `s` along `axes`.

    Raises:
      ValueError: for sizes below 1, axes out of range or repeated, and another norm.

    >>> jnp.fft.fftn(jnp.eye(2)).real.tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


@export
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `fftn`, with the same arguments.

    >>> jnp.fft.ifftn(jnp.eye(2)).real.tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


@export
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`rfft` along the last of several axes, then `fft` along the others; arguments are those of `fftn`.

    >>> jnp.fft.rfftn(jnp.eye(2)).real.tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


@export
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `rfftn`, with the arguments of `fftn`; `s` has the sizes of the result.

    >>> jnp.fft.irfftn(2 * jnp.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


# ---------------------------------------------------------------------------------------------------
# All transforms


def _check_norm(norm):
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')


def _transform(name, kind, a, s, axes, norm):
    full_name = f"jax.numpy.fft.{name}"
    a = util.ensure_arraylike(full_name, a)
    _check_norm(norm)
    if s is not None:
        s = tuple(map(operator.index, s))
        if any(n <= 0 for n in s):
            raise ValueError(f"Shape should be positive. Got s={s} in {full_name}.")
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    axes = tuple(axes)
    if len(axes) != len(set(axes)):
        raise ValueError(f"{full_name} does not support repeated axes. Got axes {axes}.")
    axes = tuple(canonicalize_axis(operator.index(axis), a.ndim) for axis in axes)
    if len(axes) != len(set(axes)):
        raise ValueError(f"{full_name} does not support repeated axes. Got axes {axes}.")
    if s is not None and len(s) != len(axes):
        raise ValueError(
            f"Shape and axes have different lengths. Got s={s} and axes={axes} in {full_name}."
        )
    if s is None:
        sizes = [a.shape[axis] for axis in axes]
        if kind == FftType.IRFFT and axes:
            sizes[-1] = core.max_dim(2 * (sizes[-1] - 1), 0)
        if kind == FftType.RFFT and axes and core.definitely_equal(sizes[-1], 0):
            raise ValueError(
                f"{full_name}: there are no elements along axis {axes[-1]} of {a.shape}"
            )
        s = tuple(sizes)
    return _fft(a, kind=kind, s=s, axes=axes, norm=norm or "backward")


def _fft_impl(a, *, kind, s, axes, norm):
    if kind == FftType.RFFT:
        if dtypes.issubdtype(a.dtype, np.complexfloating):
            raise ValueError(
                f"only real valued inputs supported for rfft, got {a.dtype}. Use fft, or a.real."
            )
    else:
        a = lax.convert_element_type(a, dtypes.canonicalize_dtype(dtypes.to_complex_dtype(a.dtype)))
    if not axes:
        return a
    sizes = list(s)
    if kind == FftType.IRFFT:
        sizes[-1] = sizes[-1] // 2 + 1 if a.shape[axes[-1]] else 0
    a = _resized(a, sizes, axes)
    rest = [i for i in range(a.ndim) if i not in axes]
    order = [*rest, *axes]
    if order != list(range(a.ndim)):
        a = lax.transpose(a, order)
    a = _chunks(a, kind, s)
    if order != list(range(a.ndim)):
        a = lax.transpose(a, [order.index(i) for i in range(a.ndim)])
    return a if norm == "backward" else _scaled(a, kind, math.prod(s), norm)


_fft_impl.__name__ = "fft"
_fft = nested_jit(_fft_impl, static_argnames=("kind", "s", "axes", "norm"))


def _scaled(a, kind, n, norm):
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    scale = n if inverse else 1 / max(n, 1)
    if norm == "ortho":
        scale = math.sqrt(scale)
    return lax.mul(a, np.array(scale, a.dtype))


def _resized(a, sizes, axes):
    """`a` cut, or padded with zeros, to `sizes` along `axes`."""
    limits, padding = list(a.shape), [(0, 0, 0)] * a.ndim
    for n, axis in zip(sizes, axes):
        limits[axis] = core.min_dim(n, a.shape[axis])
        padding[axis] = (0, n - limits[axis], 0)
    if tuple(limits) != a.shape:
        a = slicing.slice(a, [0] * a.ndim, limits)
    if any(high != 0 for _, high, _ in padding):
        a = lax.pad(a, np.zeros((), a.dtype), padding)
    return a


def _chunks(a, kind, s):
    """Transforms the last dimensions, three at a time."""
    groups = [(max(i - 3, 0), i) for i in range(len(s), 0, -3)]
    if kind == FftType.IRFFT:
        groups.reverse()  # the last axis is real in the end
    for start, stop in groups:
        last = stop == len(s)
        one = kind
        if not last and kind in (FftType.RFFT, FftType.IRFFT):
            one = FftType.FFT if kind == FftType.RFFT else FftType.IFFT
        first = a.ndim - len(s)
        moved = [i for i in range(a.ndim) if not start <= i - first < stop]
        order = [*moved, *range(first + start, first + stop)]
        if not last:
            a = lax.transpose(a, order)
        a = lax_fft.fft(a, one, s[start:stop])
        if not last:
            a = lax.transpose(a, [order.index(i) for i in range(a.ndim)])
    return a


# ---------------------------------------------------------------------------------------------------
# Frequencies


@export
def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """The frequencies of the elements of `fft`, in the unit in which `1 / d` is.

    Args:
      n: number of samples.
      d: distance of samples.
      dtype: of the result; by default floating point.
      device: a device or sharding for the result.

    Raises:
      ValueError: if `n` or `d` is not a single number.

    >>> jnp.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    n, dtype = _frequencies("fftfreq", n, d, dtype)
    half = (n + 1) // 2
    k = concatenate([arange(0, half), arange(-(n // 2), 0)])
    return _placed(k.astype(dtype) / util.to_array(d * n).astype(dtype), device)


@export
def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """The frequencies of the elements of `rfft`; arguments as for `fftfreq`.

    >>> jnp.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    n, dtype = _frequencies("rfftfreq", n, d, dtype)
    k = arange(0, n // 2 + 1)
    return _placed(k.astype(dtype) / util.to_array(d * n).astype(dtype), device)


def _frequencies(name, n, d, dtype):
    if isinstance(n, (list, tuple)) or np.ndim(n):
        raise ValueError(f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {n}.")
    if isinstance(d, (list, tuple)) or np.ndim(d):
        raise ValueError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {d}."
        )
    n = core.concrete_or_error(None, n, f"The argument 'n' of jax.numpy.fft.{name}.")
    if dtype is None:
        dtype = dtypes.default_float_dtype()
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    return max(int(n), 0), dtype


def _placed(x, device):
    return x if device is None else place(x, device)


@export
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Moves frequency zero to the middle.

    Args:
      x: array.
      axes: along which axes; None for all.

    Raises:
      ValueError: for axes out of range.

    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _shift("fftshift", x, axes, lambda n: n // 2)


@export
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Undoes `fftshift`, with the same arguments.

    >>> jnp.fft.ifftshift(jnp.array([-0.5, -0.25, 0.0, 0.25])).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _shift("ifftshift", x, axes, lambda n: -(n // 2))


def _shift(name, x, axes, by):
    x = util.ensure_arraylike(f"jax.numpy.fft.{name}", x)
    if axes is None:
        axes = tuple(range(x.ndim))
    elif not isinstance(axes, (tuple, list)):
        axes = (axes,)
    axes = tuple(canonicalize_axis(operator.index(axis), x.ndim) for axis in axes)
    return roll(x, tuple(by(x.shape[axis]) for axis in axes), axes)
