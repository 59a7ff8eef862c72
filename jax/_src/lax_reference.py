"""The operations of `jax.lax` in NumPy, simple and slow: references for tests, also of other suites."""

import collections
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import opt_einsum
import scipy.special

from jax._src import dtypes

# Names of builtins stand for the operations here.
_map, _max, _min, _slice = map, max, min, slice

# Elementwise operations that NumPy and SciPy have

neg = np.negative
sign = np.sign
floor = np.floor
ceil = np.ceil
nextafter = np.nextafter
is_finite = np.isfinite
exp = np.exp
exp2 = np.exp2
expm1 = np.expm1
log = np.log
log1p = np.log1p
tanh = np.tanh
sin = np.sin
cos = np.cos
tan = np.tan
atan2 = np.arctan2
sqrt = np.sqrt
cbrt = np.cbrt
square = np.square
reciprocal = np.reciprocal
asin = np.arcsin
acos = np.arccos
atan = np.arctan
sinh = np.sinh
cosh = np.cosh
asinh = np.arcsinh
acosh = np.arccosh
atanh = np.arctanh
igamma = scipy.special.gammainc
igammac = scipy.special.gammaincc
real = np.real
imag = np.imag
abs = np.absolute
pow = np.power
bitwise_not = np.bitwise_not
bitwise_and = np.bitwise_and
bitwise_or = np.bitwise_or
bitwise_xor = np.bitwise_xor
add = np.add
sub = np.subtract
max = np.maximum
min = np.minimum
shift_left = np.left_shift
shift_right_arithmetic = np.right_shift
eq = np.equal
ne = np.not_equal
ge = np.greater_equal
gt = np.greater
le = np.less_equal
lt = np.less
dot = np.dot
sum = np.sum
squeeze = np.squeeze
select = np.where
transpose = np.transpose
sort = np.sort


def _like_first(function: Callable) -> Callable:
    """A function whose result has the dtype of its first argument: SciPy's have float64."""

    def wrapped(x: Any, *others: Any) -> Any:
        return function(x, *others).astype(np.asarray(x).dtype)

    return wrapped


lgamma = _like_first(scipy.special.gammaln)
digamma = _like_first(scipy.special.digamma)
erf = _like_first(scipy.special.erf)
erfc = _like_first(scipy.special.erfc)
erf_inv = _like_first(scipy.special.erfinv)
bessel_i0e = _like_first(scipy.special.i0e)
bessel_i1e = _like_first(scipy.special.i1e)
betainc = _like_first(scipy.special.betainc)


# Other elementwise operations


def round(x: Any) -> Any:
    """Round to integers, halves away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(np.where(np.abs(x - whole) >= 0.5, 1, 0), x).astype(whole.dtype)


def rsqrt(x: Any) -> Any:
    one = np.array(1, np.asarray(x).dtype)
    return one / np.sqrt(x)


def logistic(x: Any) -> Any:
    one = np.array(1, np.asarray(x).dtype)
    return (one / (one + np.exp(-x))).astype(one.dtype)


def conj(x: Any) -> Any:
    return np.conj(x) + np.array(0, np.complex64)


def complex(x: Any, y: Any) -> Any:
    return x + np.array(1j, np.complex64) * y


def mul(x: Any, y: Any, /, *, out_dtype: Any = None) -> Any:
    return np.multiply(x, y) if out_dtype is None else np.multiply(x, y, dtype=out_dtype)


def _check_integers(name: str, dtype: Any) -> None:
    if not np.issubdtype(dtype, np.integer):
        raise TypeError(f"{name} requires integer inputs, got {np.dtype(dtype).name}")


def mulhi(x: Any, y: Any) -> Any:
    """The upper half of the bits of a product of integers."""
    dtype = np.result_type(x, y)
    _check_integers("mulhi", dtype)
    bits = dtype.itemsize * 8
    product = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.asarray(product >> bits, dtype)


def div(lhs: Any, rhs: Any) -> Any:
    """Quotients; those of integers are rounded to zero."""
    dtype = np.result_type(lhs)
    if not dtypes.issubdtype(dtype, np.integer):
        return np.true_divide(lhs, rhs)
    quotient = np.floor_divide(lhs, rhs)
    inexact = np.multiply(quotient, rhs) != lhs
    return np.where(inexact & (np.sign(lhs) != np.sign(rhs)), quotient + 1, quotient).astype(dtype)


def rem(lhs: Any, rhs: Any) -> Any:
    """Remainders with the sign of the dividend."""
    return np.fmod(lhs, rhs)


def population_count(x: Any) -> Any:
    """The number of one bits."""
    x = np.asarray(x)
    _check_integers("population_count", x.dtype)
    bits = np.unpackbits(np.ascontiguousarray(x)[..., None].view(np.uint8), axis=-1)
    return np.sum(bits, axis=-1).astype(x.dtype).reshape(x.shape)


def clz(x: Any) -> Any:
    """The number of leading zero bits."""
    x = np.asarray(x)
    _check_integers("clz", x.dtype)
    bits = x.dtype.itemsize * 8
    unsigned = x.view(np.dtype(f"uint{bits}"))
    lengths = [bits - int(value).bit_length() for value in unsigned.ravel()]
    return np.array(lengths, x.dtype).reshape(x.shape)


# Shapes and types


def convert_element_type(operand: Any, dtype: Any) -> Any:
    return np.asarray(operand, dtype=dtype)


def _bitcast_uint4_to_uint8(operand: np.ndarray) -> np.ndarray:
    """Pairs of 4-bit numbers along the last axis as bytes, the lower half first."""
    if operand.dtype != dtypes.uint4 or operand.shape[-1] != 2:
        raise ValueError(f"expected uint4[..., 2], got {operand.dtype}{operand.shape}")
    parts = operand.astype(np.uint8)
    return parts[..., 0] | (parts[..., 1] << 4)


def _bitcast_uint8_to_uint4(operand: np.ndarray) -> np.ndarray:
    """Bytes as pairs of 4-bit numbers along a new last axis, the lower half first."""
    return np.stack([operand & 0xF, operand >> 4], axis=-1).astype(dtypes.uint4)


def bitcast_convert_type(operand: Any, dtype: Any) -> Any:
    """The same bits as another dtype; if its numbers are smaller or larger, there is a last axis of parts."""
    operand, dtype = np.asarray(operand), np.dtype(dtype)
    four_bits = (dtypes.int4, dtypes.uint4)
    if operand.dtype in four_bits or dtype in four_bits:
        if operand.dtype in four_bits and dtype in four_bits:
            return operand.view(dtype)
        if operand.dtype in four_bits:
            return bitcast_convert_type(_bitcast_uint4_to_uint8(operand.view(dtypes.uint4)), dtype)
        halves = _bitcast_uint8_to_uint4(bitcast_convert_type(operand, np.uint8))
        return halves.reshape((*operand.shape, -1)).view(dtype)
    if operand.dtype.itemsize == dtype.itemsize:
        return operand.view(dtype)
    if operand.dtype.itemsize > dtype.itemsize:
        return np.ascontiguousarray(operand)[..., None].view(dtype)
    return np.ascontiguousarray(operand).view(dtype)[..., 0]


def clamp(min: Any, operand: Any, max: Any) -> Any:
    return np.clip(operand, np.clip(min, None, max), max).astype(np.asarray(operand).dtype)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    return np.concatenate(operands, axis=dimension)


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    return np.broadcast_to(operand, tuple(sizes) + np.shape(operand))


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    sizes = [1] * len(shape)
    for size, i in zip(np.shape(operand), broadcast_dimensions):
        sizes[i] = size
    return np.broadcast_to(np.reshape(operand, sizes), shape)


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Any:
    order = range(np.ndim(operand)) if dimensions is None else dimensions
    return np.reshape(np.transpose(operand, order), new_sizes)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Pad, or cut off where padding is negative, and put the value between elements as well."""
    low, high, interior = zip(*padding_config) if padding_config else ((), (), ())
    dilated = _dilate(operand, [i + 1 for i in interior], padding_value)
    return _pad(dilated, list(zip(low, high)), padding_value)


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    return np.flip(operand, tuple(dimensions))


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    strides = np.ones_like(start_indices) if strides is None else strides
    return operand[tuple(_map(_slice, start_indices, limit_indices, strides))]


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Any:
    """A slice that is moved to be inside."""
    starts = _inside(np.shape(operand), start_indices, slice_sizes)
    return slice(operand, starts, [s + n for s, n in zip(starts, slice_sizes)])


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """A copy in which a slice, moved to be inside, is replaced."""
    starts = _inside(np.shape(operand), start_indices, np.shape(update))
    out = np.copy(operand)
    out[tuple(_slice(s, s + n) for s, n in zip(starts, np.shape(update)))] = update
    return out


def _inside(shape: Sequence[int], starts: Any, sizes: Sequence[int]) -> list[int]:
    return [_min(_max(int(s), 0), n - size) for n, s, size in zip(shape, starts, sizes)]


# Products and convolutions


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any) -> Any:
    (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = dimension_numbers
    new = itertools.count()
    lhs_axes = [next(new) for _ in range(np.ndim(lhs))]
    rhs_axes = [next(new) for _ in range(np.ndim(rhs))]
    for i, j in [*zip(lhs_contracting, rhs_contracting), *zip(lhs_batch, rhs_batch)]:
        rhs_axes[j] = lhs_axes[i]
    out = [lhs_axes[i] for i in lhs_batch]
    out += [a for i, a in enumerate(lhs_axes) if i not in (*lhs_contracting, *lhs_batch)]
    out += [a for i, a in enumerate(rhs_axes) if i not in (*rhs_contracting, *rhs_batch)]
    dtype = np.asarray(lhs).dtype
    if dtype.kind == "V":  # extended floats, which einsum does not know
        lhs, rhs = np.asarray(lhs, np.float32), np.asarray(rhs, np.float32)
    product = opt_einsum.contract(lhs, lhs_axes, rhs, rhs_axes, out, backend="numpy")
    return np.asarray(product).astype(dtype)


def ragged_dot(lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    """Products of groups of rows, each with its own matrix; rows in no group give zeros."""
    lhs, rhs = np.asarray(lhs), np.asarray(rhs)
    result = np.zeros((lhs.shape[0], rhs.shape[2]), lhs.dtype)
    start = 0
    for matrix, size in zip(rhs, group_sizes):
        result[start : start + size] = np.dot(lhs[start : start + size], matrix)
        start += size
    return result


def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any) -> Any:
    pads = padtype_to_pads(lhs.shape[2:], rhs.shape[2:], window_strides, padding)
    return _conv(lhs, rhs, window_strides, pads)


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
) -> Any:
    rank = lhs.ndim - 2
    lhs = _dilate(lhs, (1, 1, *(lhs_dilation or (1,) * rank)))
    rhs = _dilate(rhs, (1, 1, *(rhs_dilation or (1,) * rank)))
    return _conv(lhs, rhs, window_strides, padding)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: Any,
) -> Any:
    """A convolution of arrays in any layout, such as ("NHWC", "HWIO", "NHWC")."""
    lhs_perm, rhs_perm, out_perm = _conv_general_permutations(dimension_numbers)
    lhs, rhs = np.transpose(lhs, lhs_perm), np.transpose(rhs, rhs_perm)
    if isinstance(padding, str):
        rank = lhs.ndim - 2
        sizes = [
            [(n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation or (1,) * rank)]
            for x, dilation in ((lhs, lhs_dilation), (rhs, rhs_dilation))
        ]
        padding = padtype_to_pads(*sizes, window_strides, padding)
    out = conv_with_general_padding(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)
    return np.transpose(out, out_perm)


def _conv_general_permutations(dimension_numbers: Any) -> tuple[Any, Any, Any]:
    """Permutations of the operands to ("NC…", "OI…"), and of a result in "NC…" to its layout."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if not isinstance(lhs_spec, str):  # positions of batch and features, then of spatial axes
        return lhs_spec, rhs_spec, tuple(np.argsort(out_spec))
    spatial = [c for c in rhs_spec if c not in "OI"]
    lhs_perm = [lhs_spec.index(c) for c in ("N", "C", *spatial)]
    rhs_perm = [rhs_spec.index(c) for c in ("O", "I", *spatial)]
    out_perm = np.argsort([out_spec.index(c) for c in ("N", "C", *spatial)])
    return lhs_perm, rhs_perm, tuple(out_perm)


def padtype_to_pads(
    in_shape: Sequence[int],
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
) -> list[tuple[int, int]]:
    """The padding below and above, which `padding` may also say as "SAME" or "VALID"."""
    if not isinstance(padding, str):
        return list(padding)
    if padding.upper() == "VALID":
        return [(0, 0)] * len(in_shape)
    if padding.upper() != "SAME":
        raise ValueError(f"padding is 'SAME', 'VALID' or pairs of numbers, got {padding!r}")
    totals = [
        _max((-(-n // stride) - 1) * stride + size - n, 0)
        for n, size, stride in zip(in_shape, filter_shape, window_strides)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def _conv(lhs: Any, rhs: Any, window_strides: Sequence[int], pads: Any) -> Any:
    """A convolution in the layouts "NC…" and "OI…"."""
    view, axes, rhs_axes, out_axes = _conv_view(lhs, rhs.shape, window_strides, pads, 0.0)
    return opt_einsum.contract(view, axes, rhs, rhs_axes, out_axes, backend="numpy")


def _conv_view(
    lhs: Any, rhs_shape: Sequence[int], window_strides: Sequence[int], pads: Any, pad_value: Any
) -> tuple[Any, list[int], list[int], list[int]]:
    """The windows of an array, with numbers of the axes for einsum: of it, the kernel, the result."""
    rank = len(rhs_shape) - 2
    padded = _pad(lhs, [(0, 0), (0, 0), *pads], pad_value)
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, tuple(rhs_shape[2:]), axis=tuple(range(2, 2 + rank))
    )
    view = windows[(_slice(None), _slice(None), *(_slice(None, None, s) for s in window_strides))]
    batch, feature, out = 0, 1, 2
    places = list(range(3, 3 + rank))
    offsets = list(range(3 + rank, 3 + 2 * rank))
    axes = [batch, feature, *places, *offsets]
    return view, axes, [out, feature, *offsets], [batch, out, *places]


def _pad(arr: Any, pads: Sequence[tuple[int, int]], pad_value: Any) -> Any:
    """Pad, or cut off where padding is negative."""
    arr = np.asarray(arr)
    grown = [(_max(low, 0), _max(high, 0)) for low, high in pads]
    out = np.pad(arr, grown, mode="constant", constant_values=pad_value) if grown else arr
    kept = tuple(
        _slice(_max(-low, 0), _max(n - _max(-high, 0), 0))
        for n, (low, high) in zip(out.shape, pads)
    )
    return out[kept].astype(arr.dtype)


def _dilate(operand: Any, factors: Sequence[int], fill_value: Any = 0) -> Any:
    """Put `factor - 1` values between elements of each axis."""
    operand = np.asarray(operand)
    shape = [_max((n - 1) * f + 1, 0) if n else 0 for n, f in zip(operand.shape, factors)]
    out = np.full(shape, fill_value, operand.dtype)
    out[tuple(_slice(None, None, f) for f in factors)] = operand
    return out


# Reductions


def reduce(operand: Any, init_value: Any, computation: Callable, dimensions: Sequence[int]) -> Any:
    """Combine the elements along axes with a binary function, NumPy's or any other."""
    reducer = _make_reducer(computation, init_value)
    return reducer(operand, tuple(dimensions)).astype(np.asarray(operand).dtype)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Sequence[int] | None,
) -> Any:
    operand = np.asarray(operand)
    reducer = _make_reducer(computation, init_value)
    if base_dilation:
        operand = _dilate(operand, base_dilation, init_value)
    pads = padtype_to_pads(operand.shape, window_dimensions, window_strides, padding)
    shape = (1, 1, *operand.shape)
    kernel = (1, 1, *window_dimensions)
    view, *_ = _conv_view(operand.reshape(shape), kernel, window_strides, pads, init_value)
    view = view.reshape((*view.shape[2 : 2 + operand.ndim], -1))
    return reducer(view, -1).astype(operand.dtype)


def sort_key_val(keys: Any, values: Any, dimension: int = -1) -> tuple[Any, Any]:
    order = np.argsort(keys, axis=dimension, kind="stable")
    return tuple(np.take_along_axis(x, order, dimension) for x in (keys, values))  # type: ignore[return-value]


def top_k(operand: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The greatest elements in descending order, and their indices; the first of equal ones first."""
    operand = np.asarray(operand)
    order = np.flip(np.argsort(np.flip(operand, axis), axis=axis, kind="stable"), axis)
    indices = operand.shape[axis] - 1 - np.take(order, range(k), axis=axis)
    return np.take_along_axis(operand, indices, axis), indices.astype(np.int32)


MonoidRecord = collections.namedtuple("MonoidRecord", ["reducer", "identity"])


def _get_max_identity(dt: Any) -> Any:
    """The least value of a dtype."""
    if dtypes.issubdtype(dt, np.floating):
        return -np.inf
    return False if np.dtype(dt) == np.bool_ else dtypes.iinfo(dt).min


def _get_min_identity(dt: Any) -> Any:
    """The greatest value of a dtype."""
    if dtypes.issubdtype(dt, np.floating):
        return np.inf
    return True if np.dtype(dt) == np.bool_ else dtypes.iinfo(dt).max


def _identity_getter(op: Callable) -> Callable[[Any], Any]:
    return lambda dtype: np.asarray(op.identity, dtype=dtype)  # type: ignore[attr-defined]


_monoids = {
    "max": MonoidRecord(np.maximum.reduce, _get_max_identity),
    "min": MonoidRecord(np.minimum.reduce, _get_min_identity),
    "add": MonoidRecord(np.add.reduce, _identity_getter(np.add)),
    "mul": MonoidRecord(np.multiply.reduce, _identity_getter(np.multiply)),
    "multiply": MonoidRecord(np.multiply.reduce, _identity_getter(np.multiply)),
    "logical_and": MonoidRecord(np.logical_and.reduce, _identity_getter(np.logical_and)),
    "logical_or": MonoidRecord(np.logical_or.reduce, _identity_getter(np.logical_or)),
}


def _make_reducer(py_binop: Callable, init_val: Any) -> Callable[[Any, Any], Any]:
    """`reducer(operand, axes)`, NumPy's own if it starts with the same value."""
    record = _monoids.get(getattr(py_binop, "__name__", ""))
    if record is not None:
        dtype = np.asarray(init_val).dtype
        if np.array_equal(record.identity(dtype), init_val):
            return lambda operand, axis=0: record.reducer(operand, axis=axis)
    return _reducer_from_pyfunc(py_binop, init_val)


def _reducer_from_pyfunc(py_binop: Callable, init_val: Any) -> Callable[[Any, Any], Any]:
    def reducer(operand: Any, axis: Any = 0) -> Any:
        operand = np.asarray(operand)
        axes = range(operand.ndim) if axis is None else np.atleast_1d(axis).tolist()
        axes = sorted(a % operand.ndim for a in axes)
        kept = [a for a in range(operand.ndim) if a not in axes]
        shape = [operand.shape[a] for a in kept]
        columns = np.transpose(operand, kept + axes).reshape(math.prod(shape), -1)
        out = np.full(len(columns), init_val, operand.dtype)
        for i, column in enumerate(columns):
            for value in column:
                out[i] = py_binop(out[i], value)
        return out.reshape(shape)

    return reducer
