"""Fast Fourier transforms."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.rules import LINEAR, standard_primitive
from jax._src.typing import ArrayLike


class FftType(enum.IntEnum):
    """The kinds of transforms: forward and inverse, complex and real."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Compute the discrete Fourier transform over the last dimensions.

    Args:
      x: array; complex, or real for RFFT. Other dtypes are converted.
      fft_type: an `FftType` or its name.
      fft_lengths: sizes of the last one, two or three dimensions of the signal. For IRFFT the last
        length is that of the result, and `x` has `fft_lengths[-1] // 2 + 1` elements there.

    Returns:
      Array of the shape of `x`, except that the last dimension has n // 2 + 1 elements for RFFT and
      n for IRFFT. It is complex, or real for IRFFT. Inverse transforms divide by the number of
      elements.

    Raises:
      ValueError: if the kind is unknown, the lengths do not match, or the operand of RFFT is
        complex or of half precision.

    >>> lax.fft(jnp.array([1.0, 0.0, 0.0, 0.0]), "RFFT", (4,)).real.tolist()
    [1.0, 1.0, 1.0]
    """
    kind = _kind(fft_type)
    lengths = core.canonicalize_shape(tuple(fft_lengths), "the fft_lengths of lax.fft")
    x = late.to_array(x)
    if kind == FftType.RFFT:
        if dtypes.issubdtype(x.dtype, np.complexfloating):
            raise ValueError(
                f"only real valued inputs supported for rfft, got {x.dtype}. Use fft, or x.real."
            )
        dtype = dtypes.to_inexact_dtype(x.dtype)
    else:
        dtype = dtypes.to_complex_dtype(x.dtype)
    x = lax.convert_element_type(x, dtypes.canonicalize_dtype(dtype))
    if not lengths:
        return x
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths)


def _kind(fft_type: Any) -> FftType:
    if isinstance(fft_type, str):
        try:
            return FftType[fft_type.upper()]
        except KeyError:
            raise ValueError(
                f"Unknown FFT type {fft_type!r}; known are {', '.join(FftType.__members__)}."
            ) from None
    return FftType(fft_type)


def _shape(x, *, fft_type, fft_lengths):
    n = len(fft_lengths)
    if n > 3:
        raise ValueError(
            f"FFT transforms one to three dimensions, got {n} fft_lengths {fft_lengths}. Transform groups of "
            "dimensions one after the other, or use jax.numpy.fft.fftn."
        )
    if n > x.ndim:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths "
            f"{fft_lengths}."
        )
    *lead, last = fft_lengths
    if fft_type == FftType.IRFFT:
        half = last // 2 + 1
        ends = [(*lead, half)]
        if core.definitely_equal(last, 0):
            ends.append((*lead, 0))
        if not any(core.definitely_equal_shape(x.shape[-n:], e) for e in ends):
            raise ValueError(
                f"IRFFT input shape {x.shape} must end in {(*lead, half)} for fft_lengths {fft_lengths}: the "
                "last dimension has fft_lengths[-1] // 2 + 1 elements."
            )
        return (*x.shape[:-1], last)
    if not core.definitely_equal_shape(x.shape[-n:], fft_lengths):
        raise ValueError(
            f"FFT input shape {x.shape} minor dimensions must be equal to fft_lengths {fft_lengths}"
        )
    if fft_type == FftType.RFFT:
        if core.definitely_equal(last, 0):
            raise ValueError(f"RFFT of no elements: got an array of shape {x.shape}")
        return (*x.shape[:-1], last // 2 + 1)
    return x.shape


def _dtype(x, *, fft_type, fft_lengths):
    real = fft_type == FftType.RFFT
    allowed = ("float32", "float64") if real else ("complex64", "complex128")
    if str(x.dtype) not in allowed:
        raise ValueError(
            f"{fft_type.name} input must be {allowed[0]} or {allowed[1]}, got {x.dtype}"
        )
    if real:
        return dtypes.to_complex_dtype(x.dtype)
    return np.empty(0, x.dtype).real.dtype if fft_type == FftType.IRFFT else x.dtype


def _sharding(x, *, fft_type, fft_lengths):
    shape = _shape(x, fft_type=fft_type, fft_lengths=fft_lengths)
    return shardings.resized(fft_type.name.lower(), x, shape)


def _transpose(ct, x, *, fft_type, fft_lengths):
    if fft_type == FftType.RFFT:
        # rfft drops the redundant half of fft(complex(x)), so its transpose is real(fft(pad(ct))).
        # That is the inverse transform of a spectrum whose elements have half the weight where
        # irfft counts them twice.
        weights = _weights(fft_lengths[-1], ct.dtype)
        spectrum = lax.div(lax.conj(ct), _spread(weights, ct))
        out = fft_p.bind(spectrum, fft_type=FftType.IRFFT, fft_lengths=fft_lengths)
        return [lax.mul(out, np.array(math.prod(fft_lengths), out.dtype))]
    if fft_type == FftType.IRFFT:
        out = lax.conj(fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths))
        scale = _weights(fft_lengths[-1], out.dtype) / math.prod(fft_lengths)
        return [lax.mul(out, _spread(scale.astype(out.dtype), out))]
    return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]


def _weights(n: int, dtype: Any) -> np.ndarray:
    """Return how often irfft counts each element: frequencies 0 and n / 2 once, others twice."""
    out = np.full(n // 2 + 1, 2, dtype)
    out[0] = 1
    if n % 2 == 0:
        out[-1] = 1
    return out


def _spread(v, x):
    return lax.broadcast_in_dim(v, x.shape, (x.ndim - 1,))


def _batch(args, dims, **params):
    (x,), (d,) = args, dims
    return fft_p.bind(batching.moveaxis(x, d, 0), **params), 0


def _lower(ctx, x, *, fft_type, fft_lengths):
    (aval,) = ctx.avals_out
    if not core.is_constant_shape(fft_lengths):
        raise NotImplementedError(
            f"fft: the transformed dimensions must have known sizes, got fft_lengths {fft_lengths}"
        )
    if core.is_empty_shape(aval.shape) or core.is_empty_shape(ctx.avals_in[0].shape):
        return [mlir.full_like_aval(ctx, 0, aval)]
    hlo = mlir.hlo
    out = hlo.FftOp(x, hlo.FftTypeAttr.get(fft_type.name), mlir.dense_int_array(fft_lengths)).result
    return [
        mlir.lower_with_sharding_in_types(ctx, out, aval) if aval._sharding is not None else out
    ]


fft_p = standard_primitive(
    "fft",
    shape=_shape,
    dtype=_dtype,
    weak_type=lambda x, **_: False,
    sharding=_sharding,
    lower=_lower,
    jvp=LINEAR,
    transpose=_transpose,
    batch=_batch,
)
