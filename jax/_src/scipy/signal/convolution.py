"""Convolutions and correlations, direct ones and by Fourier transforms."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import convolution, lax, slicing
from jax._src.numpy import fft, util
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, set_module

export = set_module("jax.scipy.signal")

_MODES = ("full", "same", "valid")
_METHODS = ("auto", "direct", "fft")
# From this number of products on, "auto" considers Fourier transforms, which cost about _FFT_COST products for each
# element and factor of two of the length.
_LEAST_PRODUCTS = 1 << 22
_FFT_COST = 8

# ---------------------------------------------------------------------------------------------------
# Public functions


@export
def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: lax.PrecisionLike = None,
) -> Array:
    """Convolution of two arrays of any, but the same rank.

    Args:
      in1, in2: arrays of shapes (m_1, ..., m_d) and (n_1, ..., n_d). Integers are converted to floating point.
      mode: size of the result: "full" for all sums m_i + n_i - 1; "same" for the central m_i of them; "valid" for
        those without zero padding, |m_i - n_i| + 1.
      method: "direct" computes sums of products, "fft" multiplies Fourier transforms. "auto" is direct for
        integers and small arrays. For large arrays it uses Fourier transforms if they are much faster; their
        errors are relative to the largest sums, and one NaN or infinity spreads to all.
      precision: of the direct method, as for `jax.numpy.dot`.

    Returns:
      Array of the size that `mode` gives.

    Raises:
      ValueError: if the ranks differ, `mode` or `method` is unknown, the direct method gets an empty array, or for
        "valid" each array is the smaller one along some axis.

    >>> x, y = jnp.array([1.0, 2.0, 3.0, 2.0, 1.0]), jnp.array([1.0, 1.0, 1.0])
    >>> jax.scipy.signal.convolve(x, y)
    Array([1., 3., 6., 7., 6., 3., 1.], dtype=float32)
    >>> jax.scipy.signal.convolve(x, y, mode="valid")
    Array([6., 7., 6.], dtype=float32)
    """
    return _call("convolve", in1, in2, mode, method, precision)


@export
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: lax.PrecisionLike = None,
) -> Array:
    """Convolution of two matrices, by the direct method.

    Args:
      in1, in2, mode, precision: as for `convolve`.
      boundary, fillvalue: must be "fill" and 0.

    Returns:
      Matrix of the size that `mode` gives.

    Raises:
      ValueError: as for `convolve`, and if an array is not a matrix.
      NotImplementedError: for other boundaries.

    >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> print(jax.scipy.signal.convolve2d(x, jnp.ones((2, 2)), mode="same"))
    [[ 1.  3.]
     [ 4. 10.]]
    """
    _check_matrices("convolve2d", in1, in2, boundary, fillvalue)
    return _call("convolve2d", in1, in2, mode, "direct", precision)


@export
def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: lax.PrecisionLike = None,
) -> Array:
    """Cross-correlation of two arrays: the convolution of `in1` with the reversed conjugate of `in2`.

    Takes the arguments of `convolve`, and has results of the same sizes.

    >>> x, y = jnp.array([1.0, 2.0, 3.0, 2.0]), jnp.array([0.0, 1.0])
    >>> jax.scipy.signal.correlate(x, y, mode="valid")
    Array([2., 3., 2.], dtype=float32)
    """
    return _call("correlate", in1, in2, mode, method, precision)


@export
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: lax.PrecisionLike = None,
) -> Array:
    """Cross-correlation of two matrices, by the direct method.

    Takes the arguments of `convolve2d`. Along axes where `in2` has an even size, the results of "same" begin one
    element later than those of `correlate`, and results of "valid" are conjugate if `in1` is the smaller matrix, as in
    SciPy.

    >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> print(jax.scipy.signal.correlate2d(x, jnp.array([[0.0, 1.0]]), mode="valid"))
    [[2.]
     [4.]]
    """
    _check_matrices("correlate2d", in1, in2, boundary, fillvalue)
    return _call("correlate2d", in1, in2, mode, "direct", precision)


@export
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """Convolution by Fourier transforms, along all or some axes.

    Args:
      in1, in2: arrays of the same rank. Along axes that are not in `axes` they have equal sizes, or one has size 1.
      mode: as for `convolve`, along `axes`.
      axes: axes of the convolution; by default all.

    Returns:
      Array of the size that `mode` gives. Types narrower than float32 are converted for the transforms, and back.

    Raises:
      ValueError: if ranks or sizes of other axes differ, an axis is out of range, `mode` is unknown, or for "valid"
        each array is the smaller one along some axis.

    >>> x, y = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0])
    >>> bool(jnp.allclose(jax.scipy.signal.fftconvolve(x, y), jnp.array([1.0, 3.0, 5.0, 3.0]), atol=1e-5))
    True
    """
    in1, in2 = util.arraylike("fftconvolve", in1, in2)
    rank = _check_rank("fftconvolve", in1, in2)
    _check_choice("fftconvolve", "mode", mode, _MODES)
    if axes is None:
        axes = range(rank)
    elif not isinstance(axes, Sequence):
        axes = (axes,)
    along = tuple(sorted({canonicalize_axis(operator.index(axis), rank) for axis in axes}))
    for i, (m, n) in enumerate(zip(np.shape(in1), np.shape(in2))):
        if i not in along and m != n and 1 not in (m, n):
            raise ValueError(
                f"fftconvolve: in1 of shape {np.shape(in1)} and in2 of shape {np.shape(in2)} must have equal sizes "
                f"along axes that are not in axes={along}, or one of them size 1."
            )
    _check_valid("fftconvolve", in1, in2, mode, along)
    return _program(in1, in2, op="convolve", mode=mode, axes=along, direct=False, precision=None)


# ---------------------------------------------------------------------------------------------------
# Arguments


def _check_matrices(name, in1, in2, boundary, fillvalue):
    if boundary != "fill" or np.ndim(fillvalue) or fillvalue != 0:
        raise NotImplementedError(
            f"{name}: only boundary='fill' with fillvalue=0 is implemented, got {boundary!r} and {fillvalue!r}. "
            "Extend the arrays first, with jax.numpy.pad."
        )
    in1, in2 = util.arraylike(name, in1, in2)
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(
            f"{name} takes matrices, got shapes {np.shape(in1)} and {np.shape(in2)}. {name[:-2]} takes other ranks."
        )


def _call(name, in1, in2, mode, method, precision):
    in1, in2 = util.arraylike(name, in1, in2)
    axes = tuple(range(_check_rank(name, in1, in2)))
    _check_choice(name, "mode", mode, _MODES)
    _check_choice(name, "method", method, _METHODS)
    _check_valid(name, in1, in2, mode, axes)
    direct = method == "direct" or (method == "auto" and not _fft_is_faster(in1, in2, mode))
    if direct and 0 in (*np.shape(in1), *np.shape(in2)):
        raise ValueError(
            f"{name}: direct convolutions take no empty arrays, got shapes {np.shape(in1)} and {np.shape(in2)}."
        )
    return _program(
        in1, in2, op=name, mode=mode, axes=axes, direct=direct, precision=precision if direct else None
    )  # fmt: skip


def _check_rank(name, in1, in2):
    rank = np.ndim(in1)
    if rank != np.ndim(in2):
        raise ValueError(
            f"{name}: in1 and in2 must have the same number of dimensions, got shapes {np.shape(in1)} and "
            f"{np.shape(in2)}."
        )
    return rank


def _check_choice(name, argument, value, choices):
    if value not in choices:
        raise ValueError(f"{name}: {argument} must be one of {list(choices)}, got {value!r}.")


def _check_valid(name, in1, in2, mode, axes):
    sizes = [(np.shape(in1)[axis], np.shape(in2)[axis]) for axis in axes]
    greater = core.definitely_greater
    if mode == "valid" and any(greater(n, m) for m, n in sizes) and any(greater(*s) for s in sizes):
        raise ValueError(
            f"{name}: for mode='valid' one array must be at least as large as the other along all axes, got shapes "
            f"{np.shape(in1)} and {np.shape(in2)}."
        )


def _fft_is_faster(in1, in2, mode):
    """Estimates costs from shapes alone, so that results do not depend on where a function runs."""
    if not dtypes.issubdtype(dtypes.result_type(in1, in2), np.inexact):
        return False
    first, second = np.shape(in1), np.shape(in2)
    if not core.is_constant_shape((*first, *second)):
        return False  # transforms need known sizes
    bounds = [_bounds(m, n, mode, "convolve") for m, n in zip(first, second)]
    products = math.prod(b - a for a, b in bounds) * min(math.prod(first), math.prod(second))
    length = math.prod(m + n for m, n in zip(first, second))
    return products >= _LEAST_PRODUCTS and products > _FFT_COST * length * math.log2(length)


def _bounds(m: int, n: int, mode: str, op: str) -> tuple[int, int]:
    """The part of the full convolution of `m` and `n` elements that `mode` selects."""
    if mode == "full":
        return 0, core.max_dim(m + n - 1, 0)
    if mode == "valid":
        return core.min_dim(m, n) - 1, core.max_dim(m, n)
    start = n // 2 if op == "correlate2d" else core.max_dim(n - 1, 0) // 2
    return start, start + m


# ---------------------------------------------------------------------------------------------------
# Computations


def _program_impl(in1, in2, *, op, mode, axes, direct, precision):
    in1, in2 = map(util.to_array, util.promote_dtypes_inexact(in1, in2))
    if op in ("correlate", "correlate2d"):
        if dtypes.issubdtype(in2.dtype, np.complexfloating):
            if op == "correlate2d" and mode == "valid" and _fits_into(in1.shape, in2.shape):
                in1 = lax.conj(in1)  # SciPy exchanges the matrices
            else:
                in2 = lax.conj(in2)
        in2 = lax.rev(in2, axes)
    bounds = [_bounds(in1.shape[i], in2.shape[i], mode, op) for i in axes]
    if direct:
        return _direct(in1, in2, bounds, precision)
    return _by_transforms(in1, in2, bounds, axes)


def _fits_into(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether `first` is the smaller shape."""
    return any(core.definitely_greater(n, m) for m, n in zip(first, second))


_program_impl.__name__ = "convolve"
_program: Any = nested_jit(
    _program_impl, static_argnames=("op", "mode", "axes", "direct", "precision")
)


def _direct(x: Array, y: Array, bounds: list[tuple[int, int]], precision: Any) -> Array:
    rank = x.ndim
    if not rank:
        return lax.mul(x, y)
    known = core.is_constant_shape
    if core.definitely_greater(y.size, x.size) or (known(x.shape) and not known(y.shape)):
        x, y = y, x  # The second operand is the window.
    weak = dtypes.is_weakly_typed(x)
    # Positions 0, ..., m + n - 2 of the full result have all overlaps, with n - 1 zeros on both sides.
    padding = [(n - 1 - start, stop - m) for (start, stop), m, n in zip(bounds, x.shape, y.shape)]
    out = convolution.conv_general_dilated(
        lax.expand_dims(x, (0, 1)),
        lax.expand_dims(lax.rev(y, range(rank)), (0, 1)),
        (1,) * rank,
        padding,
        precision=precision,
    )
    return lax.convert_type(lax.squeeze(out, (0, 1)), out.dtype, weak)


def _by_transforms(
    x: Array, y: Array, bounds: list[tuple[int, int]], axes: tuple[int, ...]
) -> Array:
    if not axes:
        shape = lax.broadcast_shapes(x.shape, y.shape)
        return lax.mul(util.broadcast_to(x, shape), util.broadcast_to(y, shape))
    dtype, weak = x.dtype, dtypes.is_weakly_typed(x)
    if dtypes.itemsize_bits(dtype) < 32:
        x, y = (lax.convert_element_type(v, np.float32) for v in (x, y))
    real = not dtypes.issubdtype(dtype, np.complexfloating)
    forward, backward = (fft.rfftn, fft.irfftn) if real else (fft.fftn, fft.ifftn)
    if not core.is_constant_shape([v.shape[i] for v in (x, y) for i in axes]):
        raise NotImplementedError(
            f"convolutions by Fourier transforms need known sizes along axes {axes}, got the shapes "
            f"{x.shape} and {y.shape}. Use jax.scipy.signal.convolve with method='direct'."
        )
    lengths = [
        fast_length(max(x.shape[i] + y.shape[i] - 1, stop)) for i, (_, stop) in zip(axes, bounds)
    ]
    others = [[n for i, n in enumerate(v.shape) if i not in axes] for v in (x, y)]
    if others[0] == others[1]:
        # One transform of both, which on CPUs threads share.
        sizes = dict(zip(axes, lengths))
        padded = [
            lax.pad(
                v, lax.const(v, 0), [(0, sizes.get(i, n) - n, 0) for i, n in enumerate(v.shape)]
            )
            for v in (x, y)
        ]
        both = lax.concatenate([lax.expand_dims(v, (0,)) for v in padded], 0)
        both = forward(both, lengths, [axis + 1 for axis in axes])
        first, second = (slicing.index_in_dim(both, i, keepdims=False) for i in (0, 1))
    else:
        first, second = forward(x, lengths, axes), forward(y, lengths, axes)
    shape = lax.broadcast_shapes(first.shape, second.shape)
    product = lax.mul(util.broadcast_to(first, shape), util.broadcast_to(second, shape))
    out = backward(product, lengths, axes)
    starts, limits = [0] * out.ndim, list(out.shape)
    for axis, (start, stop) in zip(axes, bounds):
        starts[axis], limits[axis] = start, stop
    return lax.convert_type(slicing.slice(out, starts, limits), dtype, weak)


def fast_length(n: int) -> int:
    """The least number from `n` on, and from 1, whose only prime factors are 2, 3 and 5."""
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << max(-(-n // odd) - 1, 0).bit_length())
            odd *= 3
        five *= 5
    return best
