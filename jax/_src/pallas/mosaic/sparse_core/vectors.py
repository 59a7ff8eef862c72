"""Operations of SparseCores on vectors, which also run where kernels are interpreted."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, ShapedArray, typeof
from jax._src.interpreters import mlir
from jax._src.lax import lax, slicing
from jax._src.lax.lax.cumulative import cummax as lax_cummax, cumsum as lax_cumsum

traceback_util.register_exclusion(__file__)

_WIDE = ("uint32", "int32", "float32")


class PackFormat(enum.Enum):
    """Where elements of two vectors are in a packed one.

    In INTERLEAVED, elements of both alternate. In COMPRESSED, the vector has two columns.
    """

    COMPRESSED = "compressed"
    INTERLEAVED = "interleaved"


def _vector(x: Any, name: str, kinds: tuple[str, ...] = _WIDE) -> ShapedArray:
    aval: Any = typeof(x)
    if len(aval.shape) != 1:
        raise NotImplementedError(f"{name} takes arrays of one dimension, got {aval.str_short()}.")
    if dtypes.dtype_name(aval.dtype) not in kinds:
        raise NotImplementedError(f"{name} takes {', '.join(kinds)}, got {aval.str_short()}.")
    return aval


def checked_mask(mask: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return a mask, or one that is all true.

    Raises:
      TypeError, ValueError: if it is no array of booleans of the shape.
    """
    if mask is None:
        return lax.full(shape, True, np.bool_)
    aval: Any = typeof(mask)
    if aval.dtype != np.bool_:
        raise TypeError(f"{name}: mask must be an array of booleans, got {aval.str_short()}.")
    if aval.shape != shape:
        raise ValueError(f"{name}: mask must have the shape {shape}, got {aval.str_short()}.")
    return mask


def _primitive(
    name: str, types: Callable[..., Any], compute: Callable[..., Any], several: bool = False
) -> Primitive:
    p = Primitive(name, multiple_results=several)
    p.def_abstract_eval(types)
    mlir.register_lowering(p, mlir.lower_fun(compute, multiple_results=several))
    return p


# Scans


def _cumsum(x: Any, mask: Any) -> Any:
    return lax_cumsum(lax.select(mask, x, lax.full_like(x, 0)), 0)


def _cummax(x: Any, mask: Any) -> Any:
    floating = dtypes.issubdtype(x.dtype, np.floating)
    least = -np.inf if floating else dtypes.iinfo(x.dtype).min
    greatest = lax_cummax(lax.select(mask, x, lax.full_like(x, least)), 0)
    seen = lax_cummax(lax.convert_element_type(mask, np.int32), 0)
    return lax.select(lax.gt(seen, lax.full_like(seen, 0)), greatest, x)


masked_cumsum_p = _primitive("masked_cumsum", lambda x, mask: x, _cumsum)
masked_cummax_p = _primitive("masked_cummax", lambda x, mask: x, _cummax)


def cumsum(x: Any, *, mask: Any = None) -> Any:
    """Return cumulative sums of a vector.

    Args:
      x: vector of uint32, int32 or float32.
      mask: which elements are added; by default all.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.cumsum(jnp.arange(4), mask=jnp.arange(4) > 1)
    Array([0, 0, 2, 5], dtype=int32)
    """
    aval = _vector(x, "cumsum")
    return masked_cumsum_p.bind(x, checked_mask(mask, aval.shape, "cumsum"))


def cummax(x: Any, *, mask: Any = None) -> Any:
    """Return cumulative maxima of a vector.

    Args:
      x: vector of uint32, int32 or float32.
      mask: which elements count; by default all. Elements before the first of them stay as they are.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.cummax(jnp.array([5, 1, 3, 2]), mask=jnp.arange(4) > 0)
    Array([5, 1, 3, 3], dtype=int32)
    """
    aval = _vector(x, "cummax")
    return masked_cummax_p.bind(x, checked_mask(mask, aval.shape, "cummax"))


def _scan_count(x: Any, mask: Any) -> list[Any]:
    n = x.shape[0]
    rows = lax.broadcast_in_dim(x, (n, n), (0,))
    columns = lax.broadcast_in_dim(x, (n, n), (1,))
    counted = lax.bitwise_and(lax.eq(rows, columns), lax.broadcast_in_dim(mask, (n, n), (1,)))
    at = lax.broadcasted_iota(np.int32, (n, n), 0), lax.broadcasted_iota(np.int32, (n, n), 1)
    before = lax.bitwise_and(counted, lax.le(at[1], at[0]))
    after = lax.bitwise_and(counted, lax.gt(at[1], at[0]))
    counts = lax.reduce_sum(lax.convert_element_type(before, np.int32), (1,))
    return [counts, lax.bitwise_and(mask, lax.bitwise_not(lax.reduce_or(after, (1,))))]


scan_count_p = _primitive(
    "scan_count",
    lambda x, mask: [x.update(dtype=np.dtype(np.int32), weak_type=False), mask],
    _scan_count,
    True,
)


def scan_count(x: Any, mask: Any = None) -> tuple[Any, Any]:
    """Count, for each element of a vector, the equal elements up to it.

    Args:
      x: vector of uint32, int32 or float32.
      mask: which elements are counted; by default all.

    Returns:
      The counts, from 1; and which elements are the last ones of their value that are counted.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.scan_count(jnp.array([3, 1, 3, 3]))
    (Array([1, 1, 2, 3], dtype=int32), Array([False,  True, False,  True], dtype=bool))
    """
    aval = _vector(x, "scan_count")
    counts, last = scan_count_p.bind(x, checked_mask(mask, aval.shape, "scan_count"))
    return counts, last


# Sorting


def _sort(keys: Any, values: Any, mask: Any, *, descending: bool) -> list[Any]:
    order = keys
    if descending:
        floating = dtypes.issubdtype(keys.dtype, np.floating)
        order = lax.neg(keys) if floating else lax.bitwise_not(keys)
    operands = lax.bitwise_not(mask), order, keys, values
    invalid, _, keys, values = lax.sort(operands, dimension=0, num_keys=2)
    return [keys, values, lax.bitwise_not(invalid)]


masked_sort_p = _primitive(
    "masked_sort", lambda keys, values, mask, *, descending: [keys, values, mask], _sort, True
)


def sort_key_val(
    keys: Any, values: Any, *, mask: Any = None, descending: bool = False
) -> tuple[Any, ...]:
    """Sort a vector of keys, and values with them.

    Args:
      keys: vector of uint32, int32 or float32.
      values: vector of as many values.
      mask: which elements are sorted; the others come last.
      descending: whether the greatest key comes first.

    Returns:
      The sorted keys and values; if there is a mask, also which of them are valid.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.sort_key_val(jnp.array([3, 1, 2]), jnp.array([0, 1, 2]), descending=True)
    (Array([3, 2, 1], dtype=int32), Array([0, 2, 1], dtype=int32))
    """
    aval, other = _vector(keys, "sort_key_val"), _vector(values, "sort_key_val")
    if other.shape != aval.shape:
        raise ValueError(f"sort_key_val: values of shape {other.shape} for keys of {aval.shape}.")
    full = checked_mask(mask, aval.shape, "sort_key_val")
    outs = masked_sort_p.bind(keys, values, full, descending=bool(descending))
    return tuple(outs[:2] if mask is None else outs)


# Reductions of masks


def _reduced(x: Any, *, reduce: int) -> ShapedArray:
    return ShapedArray((x.shape[0] // reduce,), np.dtype(np.int32))


def _first(x: Any, *, reduce: int) -> Any:
    n = x.shape[0]
    at = lax.select(x, lax.iota(np.int32, n), lax.full((n,), n, np.int32))
    return lax.broadcast(lax.reduce_min(at, (0,)), (n // reduce,))


def _population(x: Any, *, reduce: int) -> Any:
    count = lax.reduce_sum(lax.convert_element_type(x, np.int32), (0,))
    return lax.broadcast(count, (x.shape[0] // reduce,))


all_reduce_ffs_p = _primitive("all_reduce_ffs", _reduced, _first)
all_reduce_population_count_p = _primitive("all_reduce_population_count", _reduced, _population)


def _check_reduced(x: Any, reduce: int, name: str) -> None:
    aval: Any = typeof(x)
    if aval.dtype != np.bool_:
        raise TypeError(f"{name} takes booleans, got {aval.str_short()}.")
    if len(aval.shape) != 1:
        raise ValueError(f"{name} takes arrays of one dimension, got {aval.str_short()}.")
    if reduce < 1 or aval.shape[0] % reduce:
        raise ValueError(f"{name}: reduce={reduce} does not divide {aval.shape[0]}.")


def all_reduce_ffs(x: Any, *, reduce: int = 1) -> Any:
    """Return the position of the first true element of a vector, in each element of the result.

    Args:
      x: vector of booleans.
      reduce: by which factor the result is shorter.

    Returns:
      Vector of int32; the size of `x` where no element is true.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.all_reduce_ffs(jnp.arange(4) > 1, reduce=2)
    Array([2, 2], dtype=int32)
    """
    _check_reduced(x, reduce, "all_reduce_ffs")
    return all_reduce_ffs_p.bind(x, reduce=reduce)


def all_reduce_population_count(x: Any, *, reduce: int = 1) -> Any:
    """Return the number of true elements of a vector, in each element of the result.

    Args:
      x: vector of booleans.
      reduce: by which factor the result is shorter.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.all_reduce_population_count(jnp.arange(4) > 0)
    Array([3, 3, 3, 3], dtype=int32)
    """
    _check_reduced(x, reduce, "all_reduce_population_count")
    return all_reduce_population_count_p.bind(x, reduce=reduce)


# Narrower and wider elements


def _bits(dtype: Any) -> int:
    return int(dtypes.itemsize_bits(dtype))


def _bitcast_types(x: Any, *, dtype: Any) -> ShapedArray:
    return ShapedArray((*x.shape[:-1], x.shape[-1] * _bits(x.dtype) // _bits(dtype)), dtype)


def _bitcast(x: Any, *, dtype: Any) -> Any:
    shape = _bitcast_types(x, dtype=dtype).shape
    ratio = _bits(dtype) // _bits(x.dtype)
    if ratio > 1:
        x = lax.reshape(x, (*shape, ratio))
    return lax.reshape(lax.bitcast_convert_type(x, dtype), shape)


bitcast_p = _primitive("bitcast", _bitcast_types, _bitcast)


def bitcast(x: Any, dtype: Any) -> Any:
    """Reinterpret the bits of an array as another dtype; another width changes the last dimension.

    Args:
      x: array of at least one dimension.
      dtype: the dtype.

    Raises:
      ValueError: if there is no such array.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.bitcast(jnp.array([1, 2]), jnp.int16)
    Array([1, 0, 2, 0], dtype=int16)
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "bitcast")
    aval: Any = typeof(x)
    if aval.dtype == np.bool_ or dtype == np.bool_:
        raise ValueError(f"Cannot bitcast booleans, from {aval.str_short()} to {dtype}.")
    if not aval.shape or aval.shape[-1] * _bits(aval.dtype) % _bits(dtype):
        raise ValueError(
            f"Cannot bitcast from {aval.str_short()} to {dtypes.dtype_name(dtype)}: the last dimension is not divisible."
        )
    return bitcast_p.bind(x, dtype=dtype)


_HALVES = {"float32": "bfloat16", "int32": "int16"}
_DOUBLES = {v: k for k, v in _HALVES.items()}


def _pack_types(a: Any, b: Any, *, format: PackFormat, dtype: Any) -> ShapedArray:
    (n,) = a.shape
    return ShapedArray((2 * n,) if format is PackFormat.INTERLEAVED else (n, 2), dtype)


def _pack(a: Any, b: Any, *, format: PackFormat, dtype: Any) -> Any:
    halves = [lax.expand_dims(lax.convert_element_type(x, dtype), (1,)) for x in (a, b)]
    both = lax.concatenate(halves, 1)
    return lax.reshape(both, (2 * a.shape[0],)) if format is PackFormat.INTERLEAVED else both


def _unpack_types(ab: Any, *, format: PackFormat, dtype: Any) -> list[ShapedArray]:
    n = ab.shape[0] // 2 if format is PackFormat.INTERLEAVED else ab.shape[0]
    return [ShapedArray((n,), dtype)] * 2


def _unpack(ab: Any, *, format: PackFormat, dtype: Any) -> list[Any]:
    n = _unpack_types(ab, format=format, dtype=dtype)[0].shape[0]
    columns = lax.convert_element_type(lax.reshape(ab, (n, 2)), dtype)
    return [slicing.index_in_dim(columns, i, 1, keepdims=False) for i in (0, 1)]


pack_p = _primitive("pack", _pack_types, _pack)
unpack_p = _primitive("unpack", _unpack_types, _unpack, True)


def _packed_dtype(dtype: Any, given: Any, others: dict[str, str], what: str) -> Any:
    name = dtypes.dtype_name(dtype)
    if name not in others:
        raise NotImplementedError(
            f"Only {what} of {' and '.join(others)} is supported, got {name}."
        )
    other = dtypes.check_and_canonicalize_user_dtype(given or others[name], what)
    width = _bits(others[name])
    if _bits(other) != width:
        raise ValueError(f"preferred_element_type= must have {width} bits, got {_bits(other)}.")
    return other


def _check_format(format: Any) -> None:
    if not isinstance(format, PackFormat):
        raise TypeError(f"Unexpected format: {format!r}. Give one of plsc.PackFormat.")


def pack(a: Any, b: Any, /, *, format: PackFormat, preferred_element_type: Any = None) -> Any:
    """Convert two vectors to half the width, and put their elements into one.

    Args:
      a, b: vectors of float32 or int32.
      format: where the elements are.
      preferred_element_type: the narrower type; by default bfloat16 or int16.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.pack(jnp.array([1, 2]), jnp.array([3, 4]), format=plsc.PackFormat.INTERLEAVED)
    Array([1, 3, 2, 4], dtype=int16)
    """
    avals: list[Any] = [typeof(a), typeof(b)]
    if avals[0].shape != avals[1].shape or len(avals[0].shape) != 1:
        raise ValueError(
            f"pack takes two vectors of one shape, got {' and '.join([x.str_short() for x in avals])}."
        )
    if avals[0].dtype != avals[1].dtype:
        raise TypeError(
            f"Packed arrays must have the same dtype, got {' and '.join([x.str_short() for x in avals])}."
        )
    _check_format(format)
    dtype = _packed_dtype(avals[0].dtype, preferred_element_type, _HALVES, "packing")
    return pack_p.bind(a, b, format=format, dtype=dtype)


def unpack(
    ab: Any, /, *, format: PackFormat, preferred_element_type: Any = None
) -> tuple[Any, Any]:
    """Return the two vectors of which `pack` made one, with elements of twice the width.

    Args:
      ab: array of bfloat16 or int16.
      format: where the elements are.
      preferred_element_type: the wider type; by default float32 or int32.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> plsc.unpack(jnp.array([1, 3, 2, 4], jnp.int16), format=plsc.PackFormat.INTERLEAVED)
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    aval: Any = typeof(ab)
    _check_format(format)
    dtype = _packed_dtype(aval.dtype, preferred_element_type, _DOUBLES, "unpacking")
    if format is PackFormat.COMPRESSED and (len(aval.shape) != 2 or aval.shape[1] != 2):
        raise ValueError(f"Compressed unpack requires an array of shape (N, 2), got {aval.shape}.")
    if format is PackFormat.INTERLEAVED and (len(aval.shape) != 1 or aval.shape[0] % 2):
        raise ValueError(f"Interleaved unpack requires a vector of even size, got {aval.shape}.")
    first, second = unpack_p.bind(ab, format=format, dtype=dtype)
    return first, second
