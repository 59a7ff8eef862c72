"""Discrete Fourier transforms: the implementation of `jax.numpy.fft`."""

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
from jax._src.numpy.manipulation.flips import roll
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple, set_module

export = set_module("jax.numpy.fft")

# ---------------------------------------------------------------------------------------------------
# Transforms along one axis


@export
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Discrete Fourier transform along an axis.

    Args:
      a: array.
      n: number of elements to transform: `a` is cut off or zero-padded; by default all.
      axis: axis to transform; None for all axes, or the last one if `n` is given.
      norm: normalization: "backward" (or None) divides the inverse transform by n, "forward"
        divides the forward transform, "ortho" divides both by the square root of n.

    Returns:
      Complex array of the shape of `a`, with size n along `axis`.

    Raises:
      ValueError: if `n` is less than 1, `axis` is out of range, or `norm` is unknown.

    >>> jnp.fft.fft(jnp.array([1.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transform_1d("fft", FftType.FFT, a, n, axis, norm)


@export
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `fft`; takes the same arguments.

    >>> jnp.fft.ifft(jnp.array([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transform_1d("ifft", FftType.IFFT, a, n, axis, norm)


@export
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Discrete Fourier transform of a real array, without the redundant negative frequencies.

    Takes the arguments of `fft`; complex arrays raise an error. The result has n // 2 + 1 elements
    along `axis`.

    >>> jnp.fft.rfft(jnp.array([1.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    return _transform_1d("rfft", FftType.RFFT, a, n, axis, norm)


@export
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `rfft`.

    Takes the arguments of `fft`, but `n` is the size of the result; the default is 2 * (size - 1).

    Returns:
      Real array with size n along `axis`.

    >>> jnp.fft.irfft(jnp.array([4.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transform_1d("irfft", FftType.IRFFT, a, n, axis, norm)


_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@export
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Discrete Fourier transform of a Hermitian-symmetric array, given by its first half.

    Takes the arguments of `irfft`; the result is real.

    >>> jnp.fft.hfft(jnp.array([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    a = util.ensure_arraylike("jax.numpy.fft.hfft", a)
    _check_norm(norm)
    conj = lax.conj(a) if dtypes.issubdtype(a.dtype, np.complexfloating) else a
    return _transform_1d("hfft", FftType.IRFFT, conj, n, axis, _SWAPPED[norm])


@export
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `hfft`, for a real array; takes the arguments of `fft`.

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
    if axis is None and name in ("hfft", "ihfft"):
        raise TypeError(f"jax.numpy.fft.{name}: axis must be an integer, got None")
    axes = None if axis is None else (axis,)
    return _transform(name, kind, a, None if n is None else (n,), axes, norm)


# ---------------------------------------------------------------------------------------------------
# Transforms along two axes


@export
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Discrete Fourier transform along two axes; see `fftn`.

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
    """Inverse Fourier transform along two axes; see `ifftn`.

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
    """Discrete Fourier transform of a real array along two axes; see `rfftn`.

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
    """Inverse of `rfft2`; see `irfftn`.

    >>> jnp.fft.irfft2(2 * jnp.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _transform_2d("irfft2", FftType.IRFFT, a, s, axes, norm)


def _transform_2d(name, kind, a, s, axes, norm):
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes}.")
    return _transform(name, kind, a, s, axes, norm)


# ---------------------------------------------------------------------------------------------------
# Transforms along several axes


@export
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Discrete Fourier transform along several axes.

    Args:
      a: array.
      s: sizes along `axes` to which `a` is cut off or zero-padded; by default its own sizes.
      axes: distinct axes; by default the last `len(s)`, or all.
      norm: as for `fft`.

    Returns:
      Complex array of the shape of `a`, with sizes `s` along `axes`.

    Raises:
      ValueError: if a size is less than 1, an axis is out of range or repeated, or `norm` is
        unknown.

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
    """Inverse of `fftn`; takes the same arguments.

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
    """Computes `rfft` along the last of several axes, then `fft` along the others; see `fftn`.

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
    """Inverse of `rfftn`; takes the arguments of `fftn`, but `s` gives the sizes of the result.

    >>> jnp.fft.irfftn(2 * jnp.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


# ---------------------------------------------------------------------------------------------------
# Implementation of the transforms


def _check_norm(norm):
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')


def _transform(name, kind, a, s, axes, norm):
    full_name = f"jax.numpy.fft.{name}"
    a = util.ensure_arraylike(full_name, a)
    _check_norm(norm)
    if s is not None:
        s = core.canonicalize_shape(s)
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
        return lax.convert_element_type(a, dtypes.to_inexact_dtype(a.dtype))
    sizes = list(s)
    if kind == FftType.IRFFT:
        sizes[-1] = sizes[-1] // 2 + 1 if a.shape[axes[-1]] or s[-1] else 0
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
    # lax.fft has the normalization "backward". This is the factor to "forward"; "ortho" is its
    # root.
    if core.is_symbolic_dim(n):
        n = lax.const(a, n)
        scale = n if inverse else lax.div(lax.one(n), n)
        return lax.mul(a, lax.sqrt(scale) if norm == "ortho" else scale)
    scale = n if inverse else 1 / max(n, 1)
    if norm == "ortho":
        scale = math.sqrt(scale)
    return lax.mul(a, np.array(scale, a.dtype))


def _resized(a, sizes, axes):
    """Cuts off or zero-pads `a` to `sizes` along `axes`."""
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
    """Transforms the last `len(s)` dimensions in groups of at most three, which is XLA's limit."""
    groups = [(max(i - 3, 0), i) for i in range(len(s), 0, -3)]
    if kind == FftType.IRFFT:
        groups.reverse()  # real results come last: IRFFT ends with the last axis
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
    """Returns the frequencies that the elements of `fft` stand for, in cycles per unit of `d`.

    Args:
      n: number of samples.
      d: distance between samples; may be an array of one element.
      dtype: dtype of the result; by default the default float.
      device: device or sharding of the result.

    Returns:
      An array of shape `(n,)`.

    Raises:
      ValueError: if `n` is not an integer, or `d` is a list.

    >>> jnp.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    n, dtype = _frequencies("fftfreq", n, d, dtype)
    n = core.max_dim(n, 0)
    half = (n + 1) // 2
    if core.is_symbolic_dim(n):  # the sum of both parts' sizes would not be seen to be n
        k = arange(0, n)
        k = lax.select(k < half, k, k - n)
    else:
        k = concatenate([arange(0, half), arange(-(n // 2), 0)])
    return _placed("fftfreq", _over(k, d * n, dtype), device)


@export
def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """Returns the frequencies that the elements of `rfft` stand for; see `fftfreq`.

    Args:
      n: number of samples.
      d: distance between samples; may be an array of one element.
      dtype: dtype of the result, a float one for types of integers; by default the default float.
      device: device or sharding of the result.

    Returns:
      An array of shape `(n // 2 + 1,)`.

    Raises:
      ValueError: if `n` is not an integer, or `d` is a list.

    >>> jnp.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    n, dtype = _frequencies("rfftfreq", n, d, dtype)
    # The original, too, takes integer types as the float of the quotients here, but not in fftfreq.
    dtype = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(dtype))
    k = arange(0, core.max_dim(n // 2 + 1, 0))
    return _placed("rfftfreq", _over(k, d * n, dtype), device)


def _frequencies(name, n, d, dtype):
    if isinstance(n, (list, tuple)) or np.ndim(n):
        raise ValueError(f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {n}.")
    if isinstance(d, (list, tuple)):
        raise ValueError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {d}."
        )
    size = core.concrete_dim_or_error(int, n, f"The argument 'n' of jax.numpy.fft.{name}.")
    if size != n:
        raise ValueError(f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {n}.")
    if dtype is None:
        dtype = dtypes.default_float_dtype()
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    return size, dtype


def _over(k, period, dtype):
    inexact = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(dtype))
    out = k.astype(inexact) / util.to_array(period).astype(inexact)
    return out if dtype == inexact else out.astype(dtype)


def _placed(name, x, device):
    return x if device is None else place(x, device, f"jnp.fft.{name}")


@export
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Moves frequency zero to the center of the axes.

    Args:
      x: array.
      axes: axis or axes to shift; None for all.

    Returns:
      An array of the shape of `x`.

    Raises:
      ValueError: if an axis is out of range.

    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _shift("fftshift", x, axes, lambda n: n // 2)


@export
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Inverse of `fftshift`; takes the same arguments.

    >>> jnp.fft.ifftshift(jnp.array([-0.5, -0.25, 0.0, 0.25])).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _shift("ifftshift", x, axes, lambda n: -(n // 2))


def _shift(name, x, axes, by):
    x = util.ensure_arraylike(f"jax.numpy.fft.{name}", x)
    axes = canonicalize_axis_tuple(axes, x.ndim, allow_duplicate=True)
    return roll(x, tuple(by(x.shape[axis]) for axis in axes), axes)


# Names that outside code imports


def _fft_norm(s: ArrayLike, func_name: str, norm: str) -> Array:
    """The factor of a transform over dimensions of sizes `s`, for a `norm` other than None.

    The names of inverse transforms begin with "i".
    """
    _check_norm(norm)
    if norm is None or norm == "backward":
        return util.to_array(1)
    s = util.to_array(s)
    size = lax.reduce_prod(lax.convert_element_type(s, dtypes.to_inexact_dtype(s.dtype)), (0,))
    factor = lax.sqrt(size) if norm == "ortho" else size
    return factor if func_name.startswith("i") else lax.div(lax.full_like(factor, 1), factor)
