"""`jax.scipy.signal`, compared with the reference build and SciPy."""

import numpy as np
import pytest
import scipy.signal
from op_testing import case_tests

import jax
import jax.numpy as jnp
import jax.scipy.signal as signal
from jax._src.scipy.signal.convolution import fast_length

reference, test_reference, test_numpy = case_tests(__file__)

RNG = np.random.RandomState(0)
X = RNG.randn(40).astype(np.float32)


def same(ours, scipys, tol=2e-5):
    ours, scipys = jax.tree.leaves(ours), jax.tree.leaves(scipys)
    assert [np.shape(x) for x in ours] == [np.shape(x) for x in scipys]
    for x, y in zip(ours, scipys):
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol)


def test_lengths_of_transforms():
    assert [fast_length(n) for n in (0, 1, 2, 7, 11, 13)] == [1, 1, 2, 8, 12, 15]
    smooth = sorted(2**a * 3**b * 5**c for a in range(14) for b in range(9) for c in range(7))
    for n in range(1, 5000, 7):
        assert fast_length(n) == next(s for s in smooth if s >= n)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_sizes_that_the_reference_rejects(mode):
    x, y = RNG.randn(4, 5), RNG.randn(5, 2)
    for name in ("convolve", "correlate", "convolve2d", "correlate2d", "fftconvolve"):
        ours, scipys = getattr(signal, name), getattr(scipy.signal, name)
        if mode == "valid":
            with pytest.raises(ValueError, match="at least as large as the other along all axes"):
                ours(x, y, mode)
        else:
            same(ours(x, y, mode), scipys(x, y, mode))
    if mode != "valid":
        same(signal.fftconvolve(x, y[:1], mode, 1), scipy.signal.fftconvolve(x, y[:1], mode, 1))


def test_large_arrays_are_transformed():
    x, y = RNG.randn(20000).astype(np.float32), RNG.randn(2000).astype(np.float32)
    text = str(jax.make_jaxpr(signal.convolve)(x, y))
    assert "fft[" in text and "conv_general_dilated" not in text
    want = scipy.signal.fftconvolve(x.astype(float), y.astype(float))
    np.testing.assert_allclose(signal.convolve(x, y), want, atol=3e-4)
    assert "fft[" not in str(jax.make_jaxpr(signal.convolve)(x.astype(int), y.astype(int)))
    assert "fft[" not in str(jax.make_jaxpr(signal.convolve)(x, y[:100]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(dtype):
    x = jnp.asarray(X[:16], dtype)
    wide = np.asarray(x, np.float64)
    for out, want in (
        (signal.fftconvolve(x, x[:3]), scipy.signal.fftconvolve(wide, wide[:3])),
        (signal.detrend(x), scipy.signal.detrend(wide)),
    ):
        assert out.dtype == dtype
        same(out.astype(np.float32), want, tol=0.02)
    _, power = signal.welch(x, nperseg=8)
    assert power.dtype == np.float32
    same(power, scipy.signal.welch(wide, nperseg=8)[1])


def test_inverses_that_the_reference_does_not_have():
    stft, istft = scipy.signal.stft, scipy.signal.istft
    _, _, odd = stft(X, nperseg=7)
    same(signal.istft(odd, nperseg=7), istft(odd, nperseg=7))
    _, _, even = stft(X, nperseg=8)
    with pytest.warns(UserWarning, match="NOLA"):
        want = istft(even, noverlap=0)
    same(signal.istft(even, noverlap=0), want)
    _, _, several = stft(np.stack([X, 2 * X]), nperseg=8)
    times, out = signal.istft(several)
    same(out, istft(several)[1])
    assert times.shape == (40,)  # SciPy's times are as many as the signals.
    turned = several.transpose(2, 0, 1)
    kwargs = {"time_axis": 0, "freq_axis": 2}
    same(signal.istft(turned, **kwargs), istft(turned, **kwargs))
    assert [v.shape for v in signal.istft(even[:, :0])] == [(0,), (0,)]


@pytest.mark.parametrize("size, overlap", [(8, 0), (8, 3), (24, 23), (40, 39)])
def test_signals_are_recovered(size, overlap):
    kwargs = {"nperseg": size, "noverlap": overlap, "window": "hamming"}
    _, _, transforms = signal.stft(X, **kwargs)
    same(transforms, scipy.signal.stft(X, **kwargs)[2])
    times, out = signal.istft(transforms, **kwargs)
    assert times.shape == out.shape
    np.testing.assert_allclose(out[:40], X, atol=1e-5)


def test_functions_that_remove_trends():
    fun = jax.jit(lambda x, c: signal.welch(x, nperseg=8, detrend=lambda s: s - c)[1])
    same(fun(X, 2.0), scipy.signal.welch(X, nperseg=8, detrend=lambda s: s - 2.0)[1])


def test_window_and_frequency_may_be_traced():
    fun = jax.jit(lambda w, fs: signal.welch(X, fs, w))
    window = np.hanning(8).astype(np.float32)
    same(fun(window, 3.0), scipy.signal.welch(X, 3.0, window, nperseg=8))
    slope = jax.grad(lambda fs: fun(window, fs)[1].sum())(2.0)
    np.testing.assert_allclose(slope, -fun(window, 2.0)[1].sum() / 2, rtol=1e-5)


def test_median_of_many_segments():
    x = RNG.randn(300).astype(np.float32)
    for n in (20, 21):
        kwargs = {"nperseg": n, "average": "median"}
        same(signal.welch(x, **kwargs), scipy.signal.welch(x, **kwargs))
        same(signal.csd(x, x[::-1], **kwargs), scipy.signal.csd(x, x[::-1].copy(), **kwargs))


def test_warnings():
    with pytest.warns(UserWarning, match="nperseg=256 is greater than the number of samples, 40"):
        signal.stft(X)
    with pytest.warns(UserWarning, match="input data is complex"):
        frequencies, _ = signal.welch(X * 1j, nperseg=8)
    assert frequencies.shape == (8,)


def test_empty_signals():
    for fun in (signal.stft, signal.welch):
        same(fun(X[:0]), getattr(scipy.signal, fun.__name__)(X[:0]))
    assert [v.shape for v in signal.csd(X, X[:0])] == [(0,), (0,)]
    assert signal.detrend(X[:0]).shape == (0,)


def test_sharded_signals():
    devices = np.array(jax.devices())
    mesh = jax.make_mesh((devices.size,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, jax.P("i"))
    x = RNG.randn(devices.size, 40).astype(np.float32)
    put = jax.device_put(x, sharding)
    row = x[:1]
    for fun in (
        lambda x: signal.fftconvolve(x, row, "same", 1),
        lambda x: signal.convolve(x, row, "same"),
        lambda x: signal.detrend(x),
        lambda x: signal.stft(x, nperseg=8),
        lambda x: signal.istft(signal.stft(x, nperseg=8)[2]),
    ):
        same(jax.jit(fun)(put), fun(x))


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: signal.convolve(X, X[None]), r"dimensions, got shapes \(40,\) and \(1, 40\)"),
        (lambda: signal.convolve(X, X, "x"), "mode must be one of .*, got 'x'"),
        (lambda: signal.convolve(X, X[:0]), r"no empty arrays, got shapes \(40,\) and \(0,\)"),
        (lambda: signal.fftconvolve(X[None], X[None, :9], axes=0), "along axes that are not in"),
        (lambda: signal.detrend(X, bp=[3, 41]), r"between 0 and 40, the size of axis 0"),
        (lambda: signal.stft(X, nperseg=0), "nperseg must be a positive integer, got 0"),
        (lambda: signal.stft(X, nperseg=8, nfft=4), "nfft=4 must be at least nperseg=8"),
        (lambda: signal.welch(X, window=np.ones(8) * 1j), "window must be real"),
        (lambda: signal.welch(X, nperseg=8, window=np.ones(9)), "9 elements, but nperseg is 8"),
        (lambda: signal.csd(X[None], X), "same rank"),
        (lambda: signal.istft(X[None], nperseg=0), "nperseg must be positive"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_boundaries_are_not_implemented():
    with pytest.raises(NotImplementedError, match="jax.numpy.pad"):
        signal.convolve2d(X[None], X[None], boundary="symm")
