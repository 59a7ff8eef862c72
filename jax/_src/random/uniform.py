"""Bits, uniform numbers and integers, permutations."""

import functools
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src import core, dtypes
from jax._src.api import jit
from jax._src.core import typeof
from jax._src.lax import lax
from jax._src.random import prng
from jax._src.random.keys import check_prng_key, split

_UINTS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def canonicalize_shape(name: str, shape: Any) -> tuple[int, ...]:
    """`shape` as a tuple; an int counts as one dimension."""
    if np.ndim(shape) == 0 and not isinstance(shape, (tuple, list)):
        shape = (shape,)
    return core.canonicalize_shape(shape, f"The error occurred in the shape argument of jax.random.{name}")


def canonicalize_dtype(dtype: Any, default: Any, name: str):
    return dtypes.check_and_canonicalize_user_dtype(default if dtype is None else dtype, name)


def check_float_dtype(name: str, dtype: Any):
    """The dtype (float by default), checked to be a real floating one."""
    dtype = canonicalize_dtype(dtype, float, name)
    if not dtypes.issubdtype(dtype, np.floating):
        raise ValueError(f"dtype argument to `{name}` must be a float dtype, got {dtypes.dtype_name(dtype)}")
    return dtype


def check_broadcast(name: str, shape: tuple[int, ...], *param_shapes: tuple[int, ...]) -> None:
    """Raise ValueError unless parameters broadcast to `shape`, adding no dimension to it."""
    try:
        full = np.broadcast_shapes(shape, *param_shapes)
    except ValueError:
        full = None
    if full != tuple(shape):
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the result "
            f"of broadcasting the shapes must equal the shape argument, but got result {full} for shape "
            f"argument {shape} and parameter shapes {param_shapes}."
        )


def with_out_sharding(fun, key, out_sharding, shape):
    """`fun(key)`, its result placed as asked."""
    out = fun(key)
    if out_sharding is None:
        return out
    return core.hooks.reshard(out, out_sharding)


def bits(key, shape=(), dtype: Any = None, *, out_sharding=None):
    """Random bits, as unsigned integers.

    Args:
      key: a key.
      shape: shape of the result.
      dtype: unsigned integer dtype; `uint` by default.

    Returns:
      Array of that shape and dtype.
    """
    key, _ = check_prng_key("bits", key)
    dtype = dtypes.default_uint_dtype() if dtype is None else dtype
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise ValueError(
            f"dtype argument to `bits` must be an unsigned int dtype, got {dtypes.dtype_name(np.dtype(dtype))}"
        )
    dtype = canonicalize_dtype(dtype, None, "bits")
    shape = canonicalize_shape("bits", shape)
    width = np.iinfo(dtype).bits
    return with_out_sharding(lambda k: prng.random_bits(k, width, shape), key, out_sharding, shape)


def uniform(key, shape=(), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *, out_sharding=None):
    """Uniform numbers of [minval, maxval).

    Args:
      key: a key.
      shape: shape of the result.
      dtype: float dtype.
      minval, maxval: bounds, of shapes that broadcast to `shape`.

    Returns:
      Array of that shape and dtype.

    >>> print(jax.random.uniform(jax.random.key(0), (2,)))
    [0.947667  0.9785799]
    """
    key, _ = check_prng_key("uniform", key)
    dtype = check_float_dtype("uniform", dtype)
    shape = canonicalize_shape("uniform", shape)
    return with_out_sharding(
        lambda k: _uniform(k, minval, maxval, shape=shape, dtype=dtype), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _uniform(key, minval, maxval, *, shape, dtype):
    check_broadcast("uniform", shape, np.shape(minval), np.shape(maxval))
    minval = lax.convert_element_type(minval, dtype)
    maxval = lax.convert_element_type(maxval, dtype)
    minval = lax.broadcast_to_rank(minval, len(shape))
    maxval = lax.broadcast_to_rank(maxval, len(shape))
    info = dtypes.finfo(dtype)
    nbits, nmant = info.bits, info.nmant
    if nbits not in (8, 16, 32, 64):
        raise TypeError(f"uniform only accepts 8-, 16-, 32-, or 64-bit dtypes, got {dtypes.dtype_name(dtype)}.")
    rng_bits = 8 if nmant < 8 else nbits
    random = prng.random_bits(key, rng_bits, shape)
    uint = np.dtype(_UINTS[nbits])
    if rng_bits != nbits:
        random = lax.convert_element_type(random, uint)
    # Random mantissa bits with the exponent of one: numbers of [1, 2).
    one = np.array(1.0, dtype).view(uint)
    mantissa = lax.shift_right_logical(random, np.array(rng_bits - nmant, uint))
    floats = lax.sub(
        lax.bitcast_convert_type(lax.bitwise_or(mantissa, one), dtype), np.array(1.0, dtype)
    )
    scaled = lax.add(lax.mul(floats, lax.sub(maxval, minval)), minval)
    return lax.max(minval, scaled)


def randint(key, shape, minval, maxval, dtype: Any = None, *, out_sharding=None):
    """Uniform integers of [minval, maxval).

    Args:
      key: a key.
      shape: shape of the result.
      minval, maxval: integer bounds, of shapes that broadcast to `shape`.
      dtype: integer dtype.

    Returns:
      Array of that shape and dtype; `minval` where the range is empty.
    """
    key, _ = check_prng_key("randint", key)
    dtype = canonicalize_dtype(dtype, int, "randint")
    shape = canonicalize_shape("randint", shape)
    return with_out_sharding(
        lambda k: _randint(k, minval, maxval, shape=shape, dtype=dtype), key, out_sharding, shape
    )


@functools.partial(jit, static_argnames=("shape", "dtype"))
def _randint(key, minval, maxval, *, shape, dtype):
    check_broadcast("randint", shape, np.shape(minval), np.shape(maxval))
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {dtypes.dtype_name(dtype)}")
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if not dtypes.issubdtype(typeof(bound).dtype, np.integer):
            raise ValueError(
                f"randint requires an integer {name}, got {dtypes.dtype_name(typeof(bound).dtype)}"
            )
    info = dtypes.iinfo(dtype)
    nbits = info.bits
    if nbits not in (8, 16, 32, 64):
        raise TypeError(f"randint only accepts 8-, 16-, 32-, or 64-bit dtypes, got {dtypes.dtype_name(dtype)}")
    bound_dtype = typeof(maxval).dtype
    # maxval may be one more than the dtype can hold.
    top = np.array(info.max, dtype)
    maxval_out_of_range = lax.gt(
        maxval, jnp.clip(lax.convert_element_type(np.int64(info.max) if bound_dtype.itemsize == 8 else top, bound_dtype), _min(bound_dtype), _max(bound_dtype))
    )
    minval = lax.convert_element_type(jnp.clip(minval, *_limits(minval, dtype)), dtype)
    maxval = lax.convert_element_type(jnp.clip(maxval, *_limits(maxval, dtype)), dtype)
    minval = lax.broadcast_to_rank(minval, len(shape))
    maxval = lax.broadcast_to_rank(maxval, len(shape))

    k1, k2 = split(key)
    higher, lower = (prng.random_bits(k, nbits, shape) for k in (k1, k2))
    unsigned = np.dtype(_UINTS[nbits])
    span = lax.convert_element_type(lax.sub(maxval, minval), unsigned)
    # An empty range gives minval: the span is then one.
    span = lax.select(lax.le(maxval, minval), lax.full_like(span, 1), span)
    # The whole range of the dtype: the span wraps to zero, and remainders keep all bits.
    span = lax.select(
        lax.bitwise_and(maxval_out_of_range, lax.gt(maxval, minval)),
        lax.add(span, np.array(1, unsigned)),
        span,
    )
    # Two draws make one number of twice the bits, whose remainder is almost uniform.
    multiplier = lax.rem(np.array(2 ** (nbits // 2), unsigned), span)
    multiplier = lax.rem(lax.mul(multiplier, multiplier), span)
    offset = lax.add(lax.mul(lax.rem(higher, span), multiplier), lax.rem(lower, span))
    offset = lax.rem(offset, span)
    return lax.add(minval, lax.convert_element_type(offset, dtype))


def _min(dtype):
    return np.array(np.iinfo(dtype).min, dtype)


def _max(dtype):
    return np.array(np.iinfo(dtype).max, dtype)


def _limits(x, dtype):
    """The range of `dtype` within that of the dtype of `x`."""
    own = typeof(x).dtype
    a, b = np.iinfo(own), np.iinfo(dtype)
    return np.array(max(a.min, b.min), own), np.array(min(a.max, b.max), own)


def permutation(key, x, axis: int = 0, independent: bool = False, *, out_sharding=None):
    """A random permutation of an array, or of `range(x)` for an integer.

    Args:
      key: a key.
      x: integer or array.
      axis: axis to permute along.
      independent: whether the slices along the axis are permuted each in its own way.

    Returns:
      The permuted array.
    """
    key, _ = check_prng_key("permutation", key)
    axis = int(axis)
    if np.ndim(x) == 0:
        if not dtypes.issubdtype(typeof(x).dtype, np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        n = core.concrete_or_error(int, x, "argument x of jax.random.permutation()")
        return with_out_sharding(lambda k: _shuffle(k, jnp.arange(n), axis=0), key, out_sharding, (n,))
    x = jnp.asarray(x)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {x.ndim}")
    if independent or x.ndim == 1:
        return with_out_sharding(lambda k: _shuffle(k, x, axis=axis), key, out_sharding, x.shape)
    ind = _shuffle(key, jnp.arange(x.shape[axis]), axis=0)
    return with_out_sharding(lambda _: jnp.take(x, ind, axis, unique_indices=True), key, out_sharding, x.shape)


@functools.partial(jit, static_argnames=("axis",))
def _shuffle(key, x, *, axis):
    # Sort by random keys, often enough that ties have next to no effect on the distribution.
    axis = axis % x.ndim
    rounds = int(np.ceil(3 * np.log(max(1, x.size)) / np.log(np.iinfo(np.uint32).max)))
    for _ in range(rounds):
        key, subkey = split(key)
        sort_keys = prng.random_bits(subkey, 32, x.shape)
        _, x = lax.sort_key_val(sort_keys, x, axis)
    return x
