"""Cases of `jax.scipy.signal`."""

import numpy as np
import scipy.signal
from op_cases import Case, values

import jax.scipy.signal as signal

CASES = []


def add(label, name, *args, numpy=True, **options):
    """Adds `signal.name` of arrays, with arguments that are not arrays as `kwargs`."""
    kwargs = options.pop("kwargs", {})
    fun, formula = getattr(signal, name), getattr(scipy.signal, name)
    narrow = any(a.dtype.itemsize < 4 for a in args)
    options.setdefault("tol", 1e-12 if options.get("x64") else 2e-5)
    CASES.append(
        Case(
            f"{name}_{label}",
            lambda *args: fun(*args, **kwargs),
            args,
            (lambda *args: formula(*args, **kwargs)) if numpy and not narrow else None,
            **options,
        )
    )


def error(label, fun):
    CASES.append(Case(f"error_{label}", fun, diff="", vmap=False, any_error=True, ignore=("jit",)))


real = lambda *shape: values(shape, "float32", "x")
other = lambda *shape: values(shape, "float32", "y")

# Convolutions and correlations: the mode "same" depends on the parity of both sizes.
MODES = ("full", "same", "valid")
for name in ("convolve", "correlate", "convolve2d", "correlate2d", "fftconvolve"):
    flat = name.endswith("2d")
    for mode in MODES:
        for m, n in ((7, 3), (4, 6), (3, 8)) if mode == "same" else ((7, 3), (3, 8)):
            shapes = ((m, m), (n, n - 1)) if flat else ((m,), (n,))
            add(
                f"{mode}_{m}_{n}",
                name,
                real(*shapes[0]),
                other(*shapes[1]),
                kwargs={"mode": mode},
                diff="both" if m == 4 and mode == "same" else "",
                vmap=m == 4 and mode == "same",
            )
for name in ("convolve", "correlate"):
    complex_ = values((3,), "complex64", "c")
    add("complex", name, real(5), complex_, vmap=False)
    add("complex_fft", name, complex_, real(5), kwargs={"method": "fft"}, vmap=False)
    add(
        "fft_same", name, real(4, 5), other(3, 2), kwargs={"method": "fft", "mode": "same"}, diff=""
    )
    add("cube", name, real(2, 3, 4), other(2, 2, 3), kwargs={"mode": "same"}, diff="", vmap=False)
    add("int32", name, values((6,), "int32", "x"), values((3,), "int32", "y"), vmap=False)
    add("bool", name, values((6,), "bool", "x"), values((3,), "bool", "y"), numpy=False)
    add("mixed", name, values((6,), "float16", "x"), real(3), diff="", vmap=False)
    add("float64", name, values((6,), "float64", "x"), real(3), x64=True, vmap=False)
    add("precision", name, real(6), other(2), numpy=False, kwargs={"precision": "highest"})
for m, n in ((2, 3), (3, 2)):  # SciPy conjugates the larger matrix.
    matrices = (values((k, k), "complex64", "c") for k in (m, n))
    add(f"valid_complex_{m}", "correlate2d", *matrices, kwargs={"mode": "valid"}, vmap=False)
for dtype in ("float16", "bfloat16"):
    add(dtype, "convolve", values((6,), dtype, "x"), values((3,), dtype, "y"), diff="", tol=1e-2)
add("nan", "convolve", np.float32([1, np.nan, 2, 3, np.inf]), other(2), diff="", vmap=False)
add("scalars", "convolve", np.float32(2), np.float32(3))
add("scalars", "fftconvolve", np.float32(2), np.float32(3))
add("axes", "fftconvolve", real(3, 6), other(3, 2), kwargs={"axes": 1})
add("axis", "fftconvolve", real(6, 3), other(2, 3), kwargs={"axes": [-2], "mode": "same"}, diff="")
add("no_axes", "fftconvolve", real(2, 3), other(2, 3), kwargs={"axes": ()}, numpy=False)
add("empty", "fftconvolve", real(0), other(3), numpy=False, diff="", vmap=False)
X, Y, Z = real(3), real(2, 2), real(0)
error("convolve_ranks", lambda: signal.convolve(X, Y))
error("convolve_mode", lambda: signal.convolve(X, X, "other"))
error("convolve_method", lambda: signal.convolve(X, X, method="other"))
error("convolve_valid", lambda: signal.convolve(real(4, 5), real(5, 2), "valid"))
error("convolve_empty", lambda: signal.convolve(Z, X))
error("convolve_list", lambda: signal.convolve([1.0], X))
error("convolve2d_rank", lambda: signal.convolve2d(X, X))
error("convolve2d_boundary", lambda: signal.convolve2d(Y, Y, boundary="wrap"))
error("correlate2d_fill", lambda: signal.correlate2d(Y, Y, fillvalue=1))
error("fftconvolve_axes", lambda: signal.fftconvolve(real(4, 5), real(2, 3), axes=1))
error("fftconvolve_axis", lambda: signal.fftconvolve(Y, Y, axes=2))

# Trends
for kind in ("linear", "constant"):
    add(kind, "detrend", real(9), kwargs={"type": kind})
    add(f"{kind}_axis", "detrend", real(4, 3), kwargs={"type": kind, "axis": 0}, diff="")
    add(f"{kind}_complex", "detrend", values((5,), "complex64", "c"), kwargs={"type": kind})
    add(f"{kind}_integers", "detrend", np.arange(6) ** 2, kwargs={"type": kind}, diff="")
    add(f"{kind}_double", "detrend", values((5,), "float64", "d"), x64=True, vmap=False)
    for n in (1, 2):
        add(f"{kind}_{n}", "detrend", real(n), kwargs={"type": kind}, diff="", vmap=False, tol=1e-6)
for label, breaks in {"one": 3, "list": [7, 3, 3], "ends": [0, 9], "array": np.array([8])}.items():
    add(f"breaks_{label}", "detrend", real(2, 9), kwargs={"bp": breaks}, diff="", vmap=False)
error("detrend_type", lambda: signal.detrend(X, type="quadratic"))
error("detrend_breaks", lambda: signal.detrend(X, bp=4))
error("detrend_overwrite", lambda: signal.detrend(X, overwrite_data=True))
error("detrend_scalar", lambda: signal.detrend(np.float32(2)))
error("detrend_axis", lambda: signal.detrend(X, axis=1))

# Spectra
SPECTRA = {
    "default": {},
    "odd": {"nperseg": 7},
    "overlap": {"noverlap": 6},
    "apart": {"noverlap": -2},
    "longer": {"nfft": 11},
    "linear": {"detrend": "linear"},
    "two_sided": {"return_onesided": False},
    "boxcar": {"window": "boxcar"},
    "kaiser": {"window": ("kaiser", 3.0)},
    "vector": {"window": np.hanning(8).astype(np.float32)},
    "one": {"nperseg": 1},
    "frequency": {"fs": 5.0},
}
for name in ("welch", "stft", "csd"):
    own = {"padded": {"padded": False}, "open": {"boundary": None}, "even": {"boundary": "even"}}
    own |= {"odd_boundary": {"boundary": "odd"}, "constant": {"boundary": "constant"}}
    own["negative"] = {"window": np.float32([1, -2, 1, -2, 1, -2, 1, -2])}
    if name != "stft":
        own = {"spectrum": {"scaling": "spectrum"}, "median": {"average": "median"}}
    shared = SPECTRA if name == "welch" else {k: SPECTRA[k] for k in ("default", "odd", "linear")}
    for label, kwargs in {**shared, **own}.items():
        signals = (real(27), other(23)) if name == "csd" else (real(27),)
        add(
            label,
            name,
            *signals,
            kwargs={"nperseg": 8, **kwargs},
            diff="both" if label in ("default", "linear") else "",
            vmap=False,
        )
    add("axis", name, *[real(16, 2)] * len(signals), kwargs={"nperseg": 8, "axis": 0}, diff="")
    double = values((20,), "float64", "d")
    add("double", name, *[double] * len(signals), kwargs={"nperseg": 8}, x64=True, vmap=False)
    add("integers", name, *[np.arange(16)] * len(signals), kwargs={"nperseg": 8}, vmap=False)
    line = values((16,), "complex64", "c")
    both = {"nperseg": 8, "return_onesided": False}
    add("complex", name, *[line] * len(signals), kwargs=both, vmap=False)
    call = getattr(signal, name)
    signals = (X,) * len(signals)
    error(f"{name}_overlap", lambda f=call, s=signals: f(*s, nperseg=2, noverlap=2))
    error(f"{name}_nfft", lambda f=call, s=signals: f(*s, nperseg=3, nfft=2))
    error(f"{name}_nperseg", lambda f=call, s=signals: f(*s, nperseg=0))
    error(f"{name}_detrend", lambda f=call, s=signals: f(*s, nperseg=2, detrend="other"))
    error(f"{name}_window", lambda f=call, s=signals: f(*s, nperseg=2, window="other"))
    error(f"{name}_size", lambda f=call, s=signals: f(*s, nperseg=2, window=np.ones(3)))
    error(f"{name}_rank", lambda f=call, s=signals: f(*s, nperseg=2, window=np.ones((1, 2))))
    error(f"{name}_long", lambda f=call, s=signals: f(*s, window=np.ones(4), nperseg=4))
    error(f"{name}_axis", lambda f=call, s=signals: f(*s, nperseg=2, axis=1))
eight = {"nperseg": 8}
add("no_second", "csd", real(20), kwargs={"y": None, **eight}, vmap=False, numpy=False)
add("broadcast", "csd", real(3, 20), other(1, 17), kwargs=eight, diff="", vmap=False, numpy=False)
error("csd_ranks", lambda: signal.csd(real(2, 9), X, nperseg=2))
error("csd_shapes", lambda: signal.csd(real(2, 9), real(3, 9), nperseg=2))
error("welch_scaling", lambda: signal.welch(X, nperseg=2, scaling="other"))
error("welch_average", lambda: signal.welch(X, nperseg=2, average="other"))
error("stft_boundary", lambda: signal.stft(X, nperseg=2, boundary="other"))

# Short-time transforms back
TRANSFORMS = values((5, 7), "complex64", "z")
INVERSES = {
    "default": {},
    "overlap": {"noverlap": 6},
    "more_overlap": {"noverlap": 5},
    "shorter": {"nperseg": 6},
    "longer": {"nfft": 11},
    "two_sided": {"input_onesided": False},
    "open": {"boundary": False},
    "hamming": {"window": "hamming", "fs": 2.0},
    "vector": {"window": np.hanning(8).astype(np.float32)},
}
for label, kwargs in INVERSES.items():
    # Frequencies that a real signal cannot have are ignored by NumPy and not by all kernels.
    add(label, "istft", TRANSFORMS, kwargs=kwargs, diff="both" if label == "default" else "",
        vmap=False, numpy=label in ("default", "two_sided"))  # fmt: skip
add("axes", "istft", TRANSFORMS.T, kwargs={"time_axis": 0, "freq_axis": 1}, diff="", vmap=False)
add("double", "istft", TRANSFORMS.astype(complex), x64=True, diff="", vmap=False)
add("one_segment", "istft", TRANSFORMS[:, :1], diff="", vmap=False, numpy=False)
error("istft_rank", lambda: signal.istft(TRANSFORMS[0]))
error("istft_axes", lambda: signal.istft(TRANSFORMS, time_axis=0))
error("istft_nfft", lambda: signal.istft(TRANSFORMS, nfft=7))
error("istft_overlap", lambda: signal.istft(TRANSFORMS, noverlap=8))
error("istft_window", lambda: signal.istft(TRANSFORMS, window=np.ones(7)))
error("istft_one_frequency", lambda: signal.istft(TRANSFORMS[:1]))
