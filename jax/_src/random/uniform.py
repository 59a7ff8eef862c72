"""Random bits, uniform numbers, random integers and permutations."""

import bisect
import functools
import math
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.core import typeof
from jax._src.lax import lax, slicing
from jax._src.numpy.indexing import take
from jax._src.numpy.util import check_arraylike, to_array
from jax._src.random import prng
from jax._src.random.calls import (
    any_dtype,
    check_broadcast,
    float_dtype,
    keyed_jit,
    shape_of,
    with_sharding,
)
from jax._src.random.keys import check_prng_key, is_typed

_UINTS = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


def pair(key):
    """Split a key into two, inside a traced function."""
    keys = prng.random_split(key, (2,))
    return slicing.index_in_dim(keys, 0, keepdims=False), slicing.index_in_dim(
        keys, 1, keepdims=False
    )


def bits(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Draw uniformly distributed random bits, as unsigned integers.

    Each integer k, 0 <= k < 2**b for a dtype of b bits, has probability 2**-b.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: unsigned integer dtype; `uint` by default.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    Raises:
      ValueError: if the dtype is not an unsigned integer dtype of at least 8 bits.

    >>> print(jax.random.bits(jax.random.key(0), (2,)))
    [4070199207 4202968722]
    """
    dtype = any_dtype(
        "bits", dtype, np.uint64 if dtypes.default_int_dtype().itemsize == 8 else np.uint32
    )
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise ValueError(
            f"dtype argument to `bits` must be an unsigned int dtype, got {dtypes.dtype_name(dtype)}"
        )
    shape = shape_of("bits", shape)
    width = dtypes.iinfo(dtype).bits
    if width < 8:
        raise ValueError(
            f"bits: dtypes of less than 8 bits are not supported, got {dtypes.dtype_name(dtype)}"
        )
    key, _ = check_prng_key("bits", key)
    return with_sharding("bits", lambda k: prng.random_bits(k, width, shape), key, out_sharding)


def uniform(
    key, shape=(), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *, out_sharding=None
):
    """Draw from the uniform distribution on [minval, maxval).

    The density is 1 / (maxval - minval) for minval <= x < maxval, and 0 elsewhere.

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      dtype: float dtype.
      minval, maxval: bounds, of shapes that broadcast to `shape`.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.uniform(jax.random.key(0), (2,)))
    [0.947667  0.9785799]
    """
    dtype = float_dtype("uniform", dtype)
    shape = shape_of("uniform", shape)
    if type(minval) is float and type(maxval) is float and minval == 0.0 and maxval == 1.0:
        return _jit_unit("uniform", key, shape=shape, dtype=dtype, out_sharding=out_sharding)
    check_arraylike("uniform", minval, maxval)
    return _jit_uniform(
        "uniform", key, minval, maxval, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def unit_floats(key, shape: tuple[int, ...], dtype: np.dtype):
    """Draw uniform numbers in [0, 1).

    Random mantissa bits with the exponent of one are uniform in [1, 2); then subtract one.
    """
    info = dtypes.finfo(dtype)
    nbits, nmant = info.bits, info.nmant
    if nbits not in _UINTS:
        raise TypeError(
            f"uniform only accepts 8-, 16-, 32-, or 64-bit dtypes, got {dtypes.dtype_name(dtype)}."
        )
    rng_bits = 8 if nmant < 8 else nbits
    random = prng.random_bits(key, rng_bits, shape, consumer="floats")
    uint = _UINTS[nbits]
    if rng_bits != nbits:
        random = lax.convert_element_type(random, uint)
    one = np.array(1.0, dtype)
    mantissa = lax.shift_right_logical(random, np.array(rng_bits - nmant, uint))
    return lax.sub(lax.bitcast_convert_type(lax.bitwise_or(mantissa, one.view(uint)), dtype), one)


def between(floats, minval, maxval):
    """Scale numbers in [0, 1) to [minval, maxval); the bounds have the same dtype."""
    scaled = lax.add(lax.mul(floats, maxval - minval), minval)
    return lax.max(minval, scaled)


def _unit(key, *, shape, dtype):
    return unit_floats(key, shape, dtype)


def uniform_between(key, minval, maxval, *, shape, dtype):
    """Implement `uniform`."""
    check_broadcast("uniform", shape, np.shape(minval), np.shape(maxval))
    minval = lax.broadcast_to_rank(lax.convert_element_type(minval, dtype), len(shape))
    maxval = lax.broadcast_to_rank(lax.convert_element_type(maxval, dtype), len(shape))
    scaled = lax.add(lax.mul(unit_floats(key, shape, dtype), lax.sub(maxval, minval)), minval)
    return lax.max(minval, scaled)


_unit.__name__ = uniform_between.__name__ = "_uniform"
_jit_unit = keyed_jit(_unit, ("shape", "dtype"))
_jit_uniform = keyed_jit(uniform_between, ("shape", "dtype"))


def randint(key, shape, minval, maxval, dtype: Any = None, *, out_sharding=None):
    """Draw from the uniform distribution of the integers in [minval, maxval).

    Each integer k, minval <= k < maxval, has probability 1 / (maxval - minval).

    Args:
      key: PRNG key, typed or raw.
      shape: shape of the result.
      minval, maxval: bounds, of shapes that broadcast to `shape`; maxval may be one more than the
        dtype can hold.
      dtype: integer dtype.
      out_sharding: sharding of the result.

    Returns:
      Array of that shape and dtype; `minval` where the range is empty.

    >>> print(jax.random.randint(jax.random.key(0), (5,), 0, 10))
    [9 0 2 3 1]
    """
    dtype = any_dtype("randint", dtype, int)
    shape = shape_of("randint", shape)
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {dtypes.dtype_name(dtype)}")
    if type(minval) is not int or type(maxval) is not int:
        check_arraylike("randint", minval, maxval)
        check_broadcast("randint", shape, np.shape(minval), np.shape(maxval))
    return _jit_randint(
        "randint", key, minval, maxval, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _randint(key, minval, maxval, *, shape, dtype):
    info = dtypes.iinfo(dtype)
    if info.bits >= 32:
        return _randint_wide(key, _integer(minval), _integer(maxval), shape, dtype)
    # Draw narrow types as int32, because maxval may be one more than the largest narrow value.
    minval, maxval = (lax.convert_element_type(x, np.int32) for x in (minval, maxval))
    minval = _clip(minval, info.min, info.max)
    maxval = _clip(maxval, info.min, info.max + 1)
    wide = _randint_wide(key, minval, maxval, shape, np.dtype(np.int32))
    return lax.convert_element_type(wide, dtype)


_jit_randint = keyed_jit(_randint, ("shape", "dtype"))


def _integer(x):
    if dtypes.issubdtype(typeof(x).dtype, np.integer):
        return x
    return lax.convert_element_type(x, dtypes.default_int_dtype())


def _clip(x, low, high):
    dtype = typeof(x).dtype
    return lax.min(lax.max(x, np.array(low, dtype)), np.array(high, dtype))


def _clip_to(x, dtype):
    """Convert `x` to `dtype`, clamping values that are out of its range."""
    own, info = dtypes.iinfo(typeof(x).dtype), dtypes.iinfo(dtype)
    return lax.convert_element_type(_clip(x, max(own.min, info.min), min(own.max, info.max)), dtype)


def _randint_wide(key, minval, maxval, shape, dtype):
    rank = len(shape)
    bound_dtype = typeof(maxval).dtype
    top = min(dtypes.iinfo(dtype).max, dtypes.iinfo(bound_dtype).max)
    beyond = lax.broadcast_to_rank(lax.gt(maxval, np.array(top, bound_dtype)), rank)
    minval = lax.broadcast_to_rank(_clip_to(minval, dtype), rank)
    maxval = lax.broadcast_to_rank(_clip_to(maxval, dtype), rank)
    nbits = dtype.itemsize * 8
    unsigned = _UINTS[nbits]
    higher, lower = (prng.random_bits(k, nbits, shape) for k in pair(key))
    span = lax.convert_element_type(lax.sub(maxval, minval), unsigned)
    one = np.array(1, unsigned)
    # An empty range yields minval (span 1). The span of the dtype's full range wraps around to
    # zero, and a remainder by zero keeps all bits.
    span = _select(lax.le(maxval, minval), one, span)
    span = _select(lax.bitwise_and(beyond, lax.gt(maxval, minval)), lax.add(span, one), span)
    # Two draws form one number with twice the bits, whose remainder is nearly unbiased.
    multiplier = lax.rem(np.array(2 ** (nbits // 2), unsigned), span)
    multiplier = lax.rem(lax.mul(multiplier, multiplier), span)
    offset = lax.add(lax.mul(lax.rem(higher, span), multiplier), lax.rem(lower, span))
    offset = lax.rem(offset, span)
    return lax.add(minval, lax.convert_element_type(offset, dtype))


def _select(which, on_true, on_false):
    shape = core.broadcast_shapes(which.shape, on_true.shape, on_false.shape)
    which, on_true, on_false = (lax.broadcast_to(x, shape) for x in (which, on_true, on_false))
    return lax.select(which, on_true, on_false)


def permutation(key, x, axis: int = 0, independent: bool = False, *, out_sharding=None):
    """Permute an array randomly along an axis, or `range(x)` for an integer `x`.

    All permutations have equal probability.

    Args:
      key: PRNG key, typed or raw.
      x: integer or array.
      axis: axis to permute along.
      independent: whether each slice along the axis gets a permutation of its own.
      out_sharding: sharding of the result.

    Returns:
      The permuted array, of the shape and dtype of `x`; shape (x,) for an integer.

    Raises:
      TypeError: if `x` is a scalar that is not an integer.
      ValueError: if `axis` is out of bounds.

    >>> print(jax.random.permutation(jax.random.key(0), 5))
    [0 1 4 3 2]
    """
    key, _ = check_prng_key("permutation", key)
    check_arraylike("permutation", x)
    axis = operator.index(axis)
    ndim = np.ndim(x)
    if not -max(ndim, 1) <= axis < max(ndim, 1):
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    if not ndim:
        if not dtypes.issubdtype(typeof(x).dtype, np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        n = max(core.concrete_or_error(int, x, "argument x of jax.random.permutation()"), 0)
        return _jit_shuffle_range(
            "permutation", key, n=n, dtype=dtypes.default_int_dtype(), out_sharding=out_sharding
        )
    if not is_typed(x):
        x = to_array(x)
        if independent or ndim == 1:
            return _jit_shuffle("permutation", key, x, axis=axis % ndim, out_sharding=out_sharding)
    return _jit_permute("permutation", key, x, axis=axis % ndim, out_sharding=out_sharding)


def shuffle(key, x, *, axis):
    """Sort by random keys, repeatedly, so that ties have almost no effect on the distribution."""
    is_constant = core.is_constant_shape(x.shape)
    for i in range(_rounds(x.size) if is_constant else _MAX_ROUNDS):
        key, subkey = pair(key)
        sort_keys = prng.random_bits(subkey, 32, x.shape, consumer="sort")
        _, y = lax.sort_key_val(sort_keys, x, axis)
        if not is_constant:
            # The size decides how many rounds there are, when the program is called.
            most = _largest_size(i)
            has_round = lax.gt(lax.convert_element_type(x.size, np.int32), np.int32(most))
            y = lax.select(lax.broadcast(has_round, x.shape), y, x)
        x = y
    return x


def _rounds(size):
    return math.ceil(3 * math.log(max(1, size)) / math.log(np.iinfo(np.uint32).max))


_MAX_ROUNDS = _rounds(2**31 - 1)


@functools.cache
def _largest_size(rounds):
    """The largest number of elements that so many rounds are for."""
    return bisect.bisect_right(range(2**31), rounds, key=_rounds) - 1


def _shuffle_range(key, *, n, dtype):
    return shuffle(key, lax.iota(dtype, n), axis=0)


def _permute(key, x, *, axis):
    indices = _shuffle_range(key, n=x.shape[axis], dtype=dtypes.default_int_dtype())
    return take(x, indices, axis, unique_indices=True)


shuffle.__name__ = _shuffle_range.__name__ = "_shuffle"
_jit_shuffle = keyed_jit(shuffle, ("axis",))
_jit_shuffle_range = keyed_jit(_shuffle_range, ("n", "dtype"))
_jit_permute = keyed_jit(_permute, ("axis",))


def log1p(x: Any) -> Any:
    """Return log(1 + x) as the compiler computes it, so that draws do not change when lax.log1p gets more precise."""
    double = typeof(x).dtype == np.float64
    return lax.log1p(x, accuracy=lax.AccuracyMode.DEFAULT if double else None)
