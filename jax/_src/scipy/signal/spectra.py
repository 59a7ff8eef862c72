"""Spectra of signals by Fourier transforms of overlapping segments, after Welch (1967).

P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967). The inverse of the
short-time transform adds segments, weighted by the window, and divides by the sum of its squares: D. Griffin and
J. Lim, "Signal estimation from modified short-time Fourier transform" (1984).
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import fft, util
from jax._src.numpy.manipulation.shape import moveaxis
from jax._src.numpy.padding import pad
from jax._src.numpy.quantiles import median
from jax._src.scipy.signal.trends import trend_kind, without_trend
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, set_module

export = set_module("jax.scipy.signal")

Window = str | float | tuple | ArrayLike
Detrend = str | bool | None | Callable[[Array], Array]

# Modes of jax.numpy.pad that extend a signal
_BOUNDARIES: dict[Any, Any] = {
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
    "zeros": {"mode": "constant"},
    None: None,
}
# Up to this number, pieces are added one by one.
_FEW = 16
# Coefficients of sums of cosines. SciPy's package, which has all windows, takes a second to load.
_COSINE_WINDOWS = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
}  # fmt: skip

# ---------------------------------------------------------------------------------------------------
# Public functions


@export
def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Cross power spectral density of two signals, by Welch's method.

    Args:
      x, y: signals along `axis`, of shapes that broadcast otherwise. The shorter one is padded with zeros. If `y` is
        None, the result is the real power spectral density of `x`.
      fs: sampling frequency.
      window: weights of a segment: a name or tuple that `scipy.signal.get_window` accepts, or a vector.
      nperseg: number of samples of a segment; by default the size of a `window` given as a vector, or 256, as in
        SciPy (PyPI's build of jax takes the whole signal as one segment). It is at most the number of samples of the
        signals.
      noverlap: number of samples that neighboring segments have in common, by default nperseg // 2.
      nfft: length of the Fourier transforms, to which segments are padded with zeros; by default nperseg.
      detrend: what is subtracted from each segment: "constant" or "linear", see `detrend`; False for nothing; or a
        function of the array of segments, of shape (..., number of segments, nperseg).
      return_onesided: whether to leave out negative frequencies. Signals of complex numbers have both.
      scaling: "density" for power per frequency, "spectrum" for power.
      axis: axis of time.
      average: "mean" or "median" of the segments' spectra.

    Returns:
      The frequencies, and the spectral density, with frequencies along `axis`.

    Raises:
      ValueError: if an argument is out of its range, or a name is unknown; if shapes do not broadcast.

    >>> x = jnp.sin(jnp.arange(64.0))
    >>> frequencies, power = jax.scipy.signal.csd(x, 2 * x, nperseg=16)
    >>> frequencies.shape, int(jnp.argmax(abs(power)))
    ((9,), 3)
    """
    frequencies, _, power = _spectrum(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average=average,
    )  # fmt: skip
    return frequencies, power


@export
def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Power spectral density of a signal, by Welch's method.

    Takes the arguments of `csd`, but one signal.

    Returns:
      The frequencies, and the real spectral density, with frequencies along `axis`.

    >>> x = jnp.sin(jnp.arange(64.0))
    >>> frequencies, power = jax.scipy.signal.welch(x, nperseg=16)
    >>> print(frequencies[jnp.argmax(power)])
    0.1875
    """
    frequencies, _, power = _spectrum(
        "welch", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling,
        axis, average=average,
    )  # fmt: skip
    return frequencies, power


@export
def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Short-time Fourier transform.

    Args:
      x: signal along `axis`.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: as for `csd`.
      boundary: how both ends are extended by nperseg // 2 samples: "zeros"; "constant" repeats the last sample,
        "even" reflects the samples, "odd" also turns them around it. None for no extension.
      padded: whether to append zeros so that no sample is left out.

    Returns:
      The frequencies, the times of the centers of segments, and the transforms of segments: complex, of the shape of
      `x` with frequencies along `axis`, and an axis of time at the end.

    Raises:
      ValueError: if an argument is out of its range, or a name is unknown.

    >>> x = jnp.array([1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 1.0, 2.0])
    >>> frequencies, times, transforms = jax.scipy.signal.stft(x, nperseg=4)
    >>> print(frequencies, times, transforms.shape)
    [0.   0.25 0.5 ] [0. 2. 4. 6. 8.] (3, 5)
    """
    if boundary is not None and (not isinstance(boundary, str) or boundary not in _BOUNDARIES):
        raise ValueError(f"stft: boundary must be one of {list(_BOUNDARIES)}, got {boundary!r}.")
    return _spectrum(
        "stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum",
        axis, boundary=boundary, padded=bool(padded),
    )  # fmt: skip


@export
def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Inverse of the short-time Fourier transform `stft`.

    Args:
      Zxx: transforms of segments, of rank 2 or more.
      fs, window, noverlap: as given to `stft`.
      nperseg: number of samples of a segment; by default the length of the transforms.
      nfft: length of the transforms. The default is that which `stft` uses for nperseg, or 2 * (the number of
        frequencies - 1) for one-sided transforms; otherwise the number of frequencies.
      input_onesided: whether `Zxx` has no negative frequencies, so that the signal is real.
      boundary: whether `stft` extended the signal, so that nperseg // 2 samples at both ends are left out.
      time_axis, freq_axis: axes of segments and of frequencies.

    Returns:
      The times, and the signal, with time along the remaining one of both axes. Samples where the windows are zero
      are not divided by their sum.

    Raises:
      ValueError: if an argument is out of its range, or a name is unknown.

    >>> x = jnp.array([1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 1.0, 2.0])
    >>> times, same = jax.scipy.signal.istft(jax.scipy.signal.stft(x, nperseg=4)[2])
    >>> bool(jnp.allclose(same, x, atol=1e-5))
    True
    """
    transforms = util.ensure_arraylike("istft", Zxx)
    if transforms.ndim < 2:
        raise ValueError(f"istft: Zxx must have rank 2 or more, got shape {transforms.shape}.")
    time_axis = canonicalize_axis(operator.index(time_axis), transforms.ndim)
    freq_axis = canonicalize_axis(operator.index(freq_axis), transforms.ndim)
    if time_axis == freq_axis:
        raise ValueError(f"istft: time_axis and freq_axis must differ, both are {time_axis}.")
    bins = transforms.shape[freq_axis]
    length = 2 * (bins - 1) if input_onesided else bins
    nperseg = length if nperseg is None else int(nperseg)
    if nperseg < 1:
        raise ValueError(
            f"istft: nperseg must be positive, got {nperseg} for {bins} frequencies (axis {freq_axis} of shape "
            f"{transforms.shape})."
        )
    if nfft is None:
        # Transforms of odd length have as many frequencies as those that are shorter by one.
        nfft = nperseg if input_onesided and nperseg == length + 1 else length
    nfft, step = _checked_lengths("istft", nperseg, noverlap, int(nfft))
    window = _window("istft", window, nperseg)
    return _istft(
        transforms, fs, window, nperseg=nperseg, step=step, nfft=nfft, onesided=bool(input_onesided),
        boundary=bool(boundary), axes=(time_axis, freq_axis),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------
# Arguments


def _spectrum(
    name, x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
    average=None, boundary=None, padded=False,
):  # fmt: skip
    """Checks arguments; `average` is None for transforms that are not averaged."""
    x = util.ensure_arraylike(name, x)
    axis = canonicalize_axis(operator.index(axis), x.ndim)
    same = y is None
    shape = list(x.shape)
    if not same:
        y = util.ensure_arraylike(name, y)
        shape = _common_shape(name, x, y, axis)
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"{name}: scaling must be 'density' or 'spectrum', got {scaling!r}.")
    if average not in (None, "mean", "median"):
        raise ValueError(f"{name}: average must be 'mean' or 'median', got {average!r}.")
    given = (x,) if same else (x, y)
    dtype = dtypes.to_complex_dtype(dtypes.to_inexact_dtype(dtypes.result_type(*given)))
    dtype = dtypes.canonicalize_dtype(dtype)
    if 0 in x.shape or (not same and 0 in y.shape):
        return _nothing(x, y, shape, axis, dtype, average)
    onesided = bool(return_onesided)
    if onesided and any(dtypes.issubdtype(v.dtype, np.complexfloating) for v in given):
        util.user_warning(
            f"{name}: input data is complex, switching to return_onesided=False. Pass that to avoid the warning."
        )
        onesided = False
    window, nperseg = _window_and_length(name, window, nperseg, shape[axis])
    nfft, step = _checked_lengths(name, nperseg, noverlap, nfft)
    if isinstance(detrend, str):
        detrend = trend_kind(detrend)
    elif detrend is None or detrend is False:
        detrend = None
    elif not callable(detrend):
        raise ValueError(
            f"{name}: detrend must be 'constant', 'linear', False or a function, got {detrend!r}."
        )
    # A function may close over tracers, so that it is not an argument of a program.
    run = _transformed_impl if callable(detrend) else _transformed
    return run(
        x, y, fs, window, axis=axis, nperseg=nperseg, step=step, nfft=nfft, detrend=detrend,
        onesided=onesided, scaling=scaling, average=average, boundary=boundary, padded=padded,
    )  # fmt: skip


def _common_shape(name, x, y, axis):
    """The shape to which signals broadcast, with the longer one's size along `axis`."""
    if x.ndim != y.ndim:
        raise ValueError(
            f"{name}: x and y must have the same rank, got shapes {x.shape} and {y.shape}."
        )
    longest = core.max_dim(x.shape[axis], y.shape[axis])
    shapes = [list(x.shape), list(y.shape)]
    for shape in shapes:
        shape[axis] = longest
    try:
        return list(lax.broadcast_shapes(*map(tuple, shapes)))
    except (ValueError, TypeError):
        raise ValueError(
            f"{name}: x and y of shapes {x.shape} and {y.shape} cannot be broadcast together, apart from axis {axis}."
        ) from None


def _nothing(x, y, shape, axis, dtype, average):
    """The results for empty signals, as SciPy has them: of the signals' shape."""
    shape[axis] = min(v.shape[axis] for v in (x, y) if v is not None)
    real = dtypes.finfo(dtype).dtype
    out = lax.full(shape, 0, real if average and y is None else dtype)
    numbers = lax.full(shape, 0, real)
    return numbers, numbers, out


def _window_and_length(name, window, nperseg, size):
    """The window as a vector, and its size: at most `size`, the number of samples."""
    if nperseg is not None:
        nperseg = int(nperseg)
        if nperseg < 1:
            raise ValueError(f"{name}: nperseg must be a positive integer, got {nperseg}.")
    if isinstance(window, (str, tuple)):
        if nperseg is not None and nperseg > size:
            util.user_warning(
                f"{name}: nperseg={nperseg} is greater than the number of samples, {size}, which is used instead."
            )
        nperseg = min(256 if nperseg is None else nperseg, size)
        return _window(name, window, nperseg), nperseg
    if np.ndim(window) == 1 and nperseg is None:
        nperseg = np.shape(window)[0]
    window = _window(name, window, nperseg)
    if nperseg > size:
        raise ValueError(
            f"{name}: window has {nperseg} elements, but the signals only {size} along the axis."
        )
    return window, nperseg


def _window(name: str, window: Any, size: int | None) -> Any:
    """A vector of `size` weights. Those of a name are periodic, as is usual for spectra."""
    if isinstance(window, (str, tuple)):
        assert size is not None
        if isinstance(window, str) and window in _COSINE_WINDOWS:
            terms = enumerate(_COSINE_WINDOWS[window])
            angles = 2 * np.pi * np.arange(size) / size
            weights = sum((-1) ** k * c * np.cos(k * angles) for k, c in terms)
            return weights if size > 1 else np.ones(1)
        return importlib.import_module("scipy.signal").get_window(window, size)
    if isinstance(window, list):
        window = np.asarray(window)
    window = util.ensure_arraylike(name, window)
    if window.ndim != 1:
        raise ValueError(
            f"{name}: window must be a name, a tuple or a vector, got shape {window.shape}."
        )
    if window.shape[0] != size:
        raise ValueError(
            f"{name}: window has {window.shape[0]} elements, but nperseg is {size}. Leave nperseg out."
        )
    if dtypes.issubdtype(window.dtype, np.complexfloating):
        raise ValueError(f"{name}: window must be real, got {window.dtype}.")
    return window


def _checked_lengths(name, nperseg, noverlap, nfft):
    """The length of transforms, and the distance of segments."""
    nfft = nperseg if nfft is None else int(nfft)
    if nfft < nperseg:
        raise ValueError(f"{name}: nfft={nfft} must be at least nperseg={nperseg}.")
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError(f"{name}: noverlap={noverlap} must be less than nperseg={nperseg}.")
    return nfft, nperseg - noverlap


# ---------------------------------------------------------------------------------------------------
# Transforms


def _transformed_impl(
    x, y, fs, window, *, axis, nperseg, step, nfft, detrend, onesided, scaling, average, boundary, padded
):  # fmt: skip
    signals = [x] if y is None else [x, y]
    dtype = dtypes.dtype(lax.full((), 0, _real_dtype(*signals)))
    size = functools.reduce(core.max_dim, [v.shape[axis] for v in signals])
    signals = [moveaxis(_as_signal(v, dtype), axis, -1) for v in signals]
    signals = [_padded(v, 0, size - v.shape[-1], "zeros") for v in signals]
    if boundary is not None:
        signals = [_padded(v, nperseg // 2, nperseg // 2, boundary) for v in signals]
    if padded:
        rest = -(signals[0].shape[-1] - nperseg) % step % nperseg
        signals = [_padded(v, 0, rest, "zeros") for v in signals]
    window = lax.convert_element_type(window, dtype)
    fs = lax.convert_element_type(fs, dtype)
    total = lax.reduce_sum(window, (0,))
    transform = fft.rfft if onesided else fft.fft
    spectra = []
    for v in signals:
        v = segments(v, nperseg, step)
        if detrend is not None:
            v = detrend(v) if callable(detrend) else without_trend(v, detrend)
        spectra.append(transform(v * window, nfft))
    count = spectra[0].shape[-2]
    if average is None:
        # SciPy's scale is a root of power: a window of negative sum keeps the sign, and `istft` changes it.
        out = spectra[0] / lax.abs(total)
    else:
        norm = fs * lax.reduce_sum(window * window, (0,)) if scaling == "density" else total * total
        out = _power(*spectra) / norm
        if onesided:
            out = out * _multiplicity(nfft, out)
        out = _averaged(out, average)
    numbers = (fft.rfftfreq if onesided else fft.fftfreq)(nfft, dtype=dtype)
    start = nperseg / 2 if boundary is None else 0.0
    times = (lax.iota(dtype, count) * step + start) / fs
    if average is None:
        out = lax.transpose(out, (*range(out.ndim - 2), out.ndim - 1, out.ndim - 2))
        return numbers * fs, times, moveaxis(out, -2, axis)
    return numbers * fs, times, moveaxis(out, -1, axis)


_transformed_impl.__name__ = "spectrum"
_transformed: Any = nested_jit(
    _transformed_impl,
    static_argnames=(
        "axis", "nperseg", "step", "nfft", "detrend", "onesided", "scaling", "average", "boundary", "padded",
    ),
)  # fmt: skip


def _real_dtype(*arrays: Array) -> Any:
    """The dtype of real parts in computations: float32, or wider."""
    dtype = dtypes.to_complex_dtype(dtypes.to_inexact_dtype(dtypes.result_type(*arrays)))
    return dtypes.finfo(dtypes.canonicalize_dtype(dtype)).dtype


def _as_signal(x, real):
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.convert_type(x, dtypes.to_complex_dtype(real), False)
    return lax.convert_type(x, real, False)


def _padded(x, low, high, boundary):
    """Extends the last axis."""
    if not low and not high:
        return x
    return pad(x, [(0, 0)] * (x.ndim - 1) + [(low, high)], **_BOUNDARIES[boundary])


def segments(x: Array, size: int, step: int) -> Array:
    """All parts of `size` elements of the last axis, at distances of `step`: shape (..., number, size).

    Parts consist of `rows` pieces of `step` elements. Row k has the k-th pieces of all parts, that is, the pieces of
    `x` moved by k: each row of a table that is wider by one begins one element later.
    """
    *batch, total = x.shape
    count = (total - size) // step + 1
    rows = -(-size // step)
    pieces = count + rows - 1
    x = _cut_or_filled(x, pieces * step)
    if rows == 1:
        out = x.reshape(*batch, count, step)
    else:
        x = util.broadcast_to(
            lax.expand_dims(x, (x.ndim - 1,)), (*batch, rows, pieces * step)
        ).reshape(*batch, -1)
        x = _cut_or_filled(x, rows * (pieces + 1) * step).reshape(*batch, rows, pieces + 1, step)
        x = slicing.slice_in_dim(x, 0, count, axis=x.ndim - 2)
        out = _swapped(x).reshape(*batch, count, rows * step)
    return slicing.slice_in_dim(out, 0, size, axis=out.ndim - 1)


def overlap_add(x: Array, step: int) -> Array:
    """The transpose of `segments`: adds parts of shape (..., number, size) at distances of `step`."""
    *batch, count, size = x.shape
    rows = -(-size // step)
    pieces = count + rows - 1
    x = _swapped(_cut_or_filled(x, rows * step).reshape(*batch, count, rows, step))
    if rows <= _FEW:
        # XLA computes this sum in one loop.
        terms = [
            lax.pad(
                slicing.index_in_dim(x, k, axis=x.ndim - 3, keepdims=False),
                np.zeros((), x.dtype),
                [(0, 0, 0)] * len(batch) + [(k, rows - 1 - k, 0), (0, 0, 0)],
            )
            for k in range(rows)
        ]
        x = sum(terms[1:], start=terms[0]).reshape(*batch, pieces * step)
    else:
        x = _cut_or_filled(x.reshape(*batch, rows, count * step), (pieces + 1) * step)
        x = _cut_or_filled(x.reshape(*batch, -1), rows * pieces * step)
        x = lax.reduce_sum(x.reshape(*batch, rows, pieces * step), (len(batch),))
    return slicing.slice_in_dim(x, 0, (count - 1) * step + size, axis=x.ndim - 1)


def _cut_or_filled(x, size):
    """Cuts off the last axis, or appends zeros to it."""
    padding = [(0, 0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1], 0)]
    return lax.pad(x, np.zeros((), x.dtype), padding)


def _swapped(x):
    """Exchanges the axes before the last."""
    n = x.ndim
    return lax.transpose(x, (*range(n - 3), n - 2, n - 3, n - 1))


def _power(first, second=None):
    if second is None:
        return lax.real(first) ** 2 + lax.imag(first) ** 2
    shape = lax.broadcast_shapes(first.shape, second.shape)
    return lax.conj(util.broadcast_to(first, shape)) * util.broadcast_to(second, shape)


def _multiplicity(nfft: int, out: Array) -> np.ndarray:
    """How many frequencies each of a one-sided spectrum stands for."""
    counts = np.full(out.shape[-1], 2, out.dtype)
    counts[0] = 1
    if nfft % 2 == 0:
        counts[-1] = 1
    return counts


def _averaged(x, average):
    """The average along the last axis but one."""
    count = x.shape[-2]
    if average == "mean":
        return lax.reduce_sum(x, (x.ndim - 2,)) / count
    # The median of exponentially distributed powers is less than their mean by this factor.
    pairs = np.arange(2, count, 2)
    bias = 1 + float(np.sum(1 / (pairs + 1) - 1 / pairs))
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.complex(*(median(part, -2) / bias for part in (lax.real(x), lax.imag(x))))
    return median(x, -2) / bias


def _istft_impl(transforms, fs, window, *, nperseg, step, nfft, onesided, boundary, axes):
    time_axis, freq_axis = axes
    dtype = _real_dtype(transforms)
    window = lax.convert_element_type(window, dtype)
    x = _as_signal(transforms, dtype)
    x = moveaxis(x, (time_axis, freq_axis), (-2, -1))
    count = x.shape[-2]
    shape = list(x.shape[:-2])
    size = (count - 1) * step + nperseg if count else 0
    edge = nperseg // 2 if boundary else 0
    if not count or core.definitely_greater(2 * edge + 1, size):
        out = lax.full((*shape, 0), 0, dtype if onesided else dtypes.to_complex_dtype(dtype))
    else:
        parts = (fft.irfft if onesided else fft.ifft)(x, nfft)
        parts = slicing.slice_in_dim(parts, 0, nperseg, axis=parts.ndim - 1)
        parts = parts * (window * lax.reduce_sum(window, (0,)))
        out = overlap_add(parts, step)
        weights = overlap_add(util.broadcast_to(window * window, (count, nperseg)), step)
        out = slicing.slice_in_dim(out, edge, size - edge, axis=out.ndim - 1)
        weights = slicing.slice_in_dim(weights, edge, size - edge)
        out = out / util.select_where(weights > 1e-10, weights, lax.full_like(weights, 1))
    times = lax.iota(dtype, out.shape[-1]) / lax.convert_element_type(fs, dtype)
    # Time takes the place of the axis of segments among the axes that remain.
    return times, moveaxis(out, -1, time_axis - (freq_axis < time_axis))


_istft_impl.__name__ = "istft"
_istft: Any = nested_jit(
    _istft_impl, static_argnames=("nperseg", "step", "nfft", "onesided", "boundary", "axes")
)
