"""Threefry-2x32, a counter-based random number generator, with 20 rounds.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

import functools
import math

import numpy as np

from jax._src import config, core, dtypes
from jax._src.api import jit, vmap
from jax._src.basearray import Array
from jax._src.core import Primitive, ShapedArray, Tracer
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import control_flow, lax, native_calls, slicing
from jax._src.lib.mlir.dialects import hlo
from jax._src.numpy.util import to_array

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_UINTS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def uint_type(bit_width: int):
    """The type of unsigned integers of `bit_width` bits."""
    if bit_width not in _UINTS:
        raise TypeError(f"random bits have a width of 8, 16, 32 or 64 bits, not {bit_width}")
    return _UINTS[bit_width]


def rotate_left(x, d: int):
    """Rotate the bits of `uint32` numbers left by `d`."""
    return lax.bitwise_or(
        lax.shift_left(x, lax.full_like(x, d)), lax.shift_right_logical(x, lax.full_like(x, 32 - d))
    )


def hash_words(k1, k2, x1, x2):
    """Encrypt the counter (x1, x2) with the key (k1, k2); all are `uint32` of the same shape."""
    keys = (k1, k2, lax.bitwise_xor(lax.bitwise_xor(k1, k2), lax.full_like(k1, _PARITY)))
    x1, x2 = lax.add(x1, keys[0]), lax.add(x2, keys[1])
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x1 = lax.add(x1, x2)
            x2 = lax.bitwise_xor(x1, rotate_left(x2, r))
        x1 = lax.add(x1, keys[(i + 1) % 3])
        x2 = lax.add(lax.add(x2, keys[(i + 2) % 3]), lax.full_like(x2, np.uint32(i + 1)))
    return [x1, x2]


threefry2x32_p = Primitive("threefry2x32", multiple_results=True)


def _types(k1, k2, x1, x2):
    if not all(a.dtype == np.uint32 for a in (k1, k2, x1, x2)):
        names = [dtypes.dtype_name(a.dtype) for a in (k1, k2, x1, x2)]
        raise TypeError(f"Arguments to threefry2x32 must have uint32 type, got {names}")
    shape = lax.broadcast_shapes(k1.shape, k2.shape, x1.shape, x2.shape)
    aval = ShapedArray(shape, np.dtype(np.uint32), manual_axis_type=k1.manual_axis_type)
    return [aval, aval]


threefry2x32_p.operands_vary_alike = True
threefry2x32_p.def_abstract_eval(_types)
threefry2x32_p.jvp = functools.partial(ad.zero_jvp, threefry2x32_p)
batching.defbroadcasting(threefry2x32_p)


def _hash_broadcast(*words):
    shape = lax.broadcast_shapes(*[w.shape for w in words])
    return hash_words(*[
        w if w.shape == shape
        else lax.broadcast_in_dim(w, shape, tuple(range(len(shape) - w.ndim, len(shape))))
        for w in words
    ])  # fmt: skip


_FEW = 4  # up to this size, unrolled rounds are faster than a loop


def _hash_loop(*words):
    # XLA:CPU would fuse the hash into its consumer and recompute it for each use of an element; it
    # does not fuse a while loop. The first group of four rounds runs before the loop, and each of
    # the two iterations runs two groups, so that the carried keys rotate by a fixed amount.
    shape = lax.broadcast_shapes(*[w.shape for w in words])
    if core.is_constant_shape(shape) and math.prod(shape) <= _FEW:
        return _hash_broadcast(*words)
    k1, k2, x1, x2 = words
    k3 = lax.bitwise_xor(lax.bitwise_xor(k1, k2), lax.full_like(k1, _PARITY))
    x1, x2 = (_spread(lax.add(*_alike(x, k)), shape) for x, k in ((x1, k1), (x2, k2)))

    def inject(x1, x2, a, b, i):
        return lax.add(x1, _spread(a, shape)), lax.add(
            x2, _spread(lax.add(b, lax.full_like(b, i)), shape)
        )

    def body(carry):
        i, x1, x2, a, b, c = carry
        x1, x2 = inject(*_group(x1, x2, 1), a, b, i)
        x1, x2 = inject(*_group(x1, x2, 0), b, c, lax.add(i, np.uint32(1)))
        return lax.add(i, np.uint32(2)), x1, x2, c, a, b

    x1, x2 = inject(*_group(x1, x2, 0), k2, k3, np.uint32(1))
    init = (np.uint32(2), x1, x2, k3, k1, k2)
    out = control_flow.while_loop(lambda carry: lax.lt(carry[0], np.uint32(6)), body, init)
    return [out[1], out[2]]


def _group(x1, x2, which: int):
    # Four rounds, between two injections of the key.
    for r in _ROTATIONS[which]:
        x1 = lax.add(x1, x2)
        x2 = lax.bitwise_xor(x1, rotate_left(x2, r))
    return x1, x2


def _spread(x, shape):
    if x.shape == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))


def _alike(x, y):
    shape = lax.broadcast_shapes(x.shape, y.shape)
    return _spread(x, shape), _spread(y, shape)


mlir.register_lowering(threefry2x32_p, mlir.lower_fun(_hash_broadcast, multiple_results=True))
mlir.register_lowering(
    threefry2x32_p, mlir.lower_fun(_hash_loop, multiple_results=True), platform="cpu"
)


@functools.partial(jit, inline=True)
def threefry_2x32(keypair, count):
    """Hash an array of counters; its flattened halves are the two words of the cipher's blocks.

    Args:
      keypair: two `uint32` scalars.
      count: `uint32` array.

    Returns:
      `uint32` array of the shape of `count`.
    """
    key1, key2 = keypair
    if not all(x.dtype == np.uint32 for x in (key1, key2, count)):
        raise TypeError(
            f"threefry_2x32 requires uint32 arguments, got {[x.dtype for x in (key1, key2, count)]}"
        )
    flat = lax.reshape(count, (count.size,))
    odd = count.size % 2
    if odd:
        flat = lax.concatenate([flat, np.zeros(1, np.uint32)], 0)
    half = flat.shape[0] // 2
    x = (slicing.slice_in_dim(flat, 0, half), slicing.slice_in_dim(flat, half, 2 * half))
    out = lax.concatenate(threefry2x32_p.bind(key1, key2, *x), 0)
    if odd:
        out = slicing.slice_in_dim(out, 0, count.size)
    return lax.reshape(out, count.shape)


def check_key(key, size: int):
    """Refuse what is not a raw key of `size` words."""
    shape, dtype = np.shape(key), getattr(key, "dtype", type(key).__name__)
    if shape != (size,) or dtype != np.uint32:
        raise TypeError(
            f"a raw key must be a uint32 array of shape ({size},), got {dtype} of shape {shape}"
        )


def _words(key):
    check_key(key, 2)
    return slicing.index_in_dim(key, 0, keepdims=False), slicing.index_in_dim(
        key, 1, keepdims=False
    )


def counters(shape):
    """Return the high and the low words of the flat index of each element."""
    size = math.prod(shape)
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]

    def flat_index(dtype):
        index = lax.full(shape, 0, dtype)
        for d, stride in enumerate(strides):
            along = lax.broadcasted_iota(dtype, shape, d)
            index = lax.add(index, lax.mul(along, lax.full(shape, stride, dtype)))
        return index

    if not core.definitely_greater(size, 2**32 - 1):
        return lax.full(shape, 0, np.uint32), flat_index(np.uint32)
    with config.enable_x64(True):
        index = flat_index(np.uint64)
        high = lax.shift_right_logical(index, lax.full_like(index, 32))
        return lax.convert_element_type(high, np.uint32), lax.convert_element_type(index, np.uint32)


def seed_words(value):
    """Split an integer scalar into its high and its low word."""
    if not isinstance(value, (Tracer, Array)):
        value = to_array(value)
    if value.shape:
        raise TypeError(f"PRNG key seed must be a scalar; got {value!r}.")
    if not np.issubdtype(value.dtype, np.integer):
        raise TypeError(f"PRNG key seed must be an integer; got {value!r}")
    if value.dtype.itemsize == 8:
        bits = lax.convert_element_type(value, np.uint64)
        high = lax.shift_right_logical(bits, lax.const(bits, 32))
        high = lax.convert_element_type(high, np.uint32)
    else:
        high = lax.full((), 0, np.uint32)
    return high, lax.convert_element_type(value, np.uint32)


def seed(seed):
    """Create a raw key of shape (2,) from an integer scalar."""
    return lax.concatenate([lax.reshape(w, (1,)) for w in seed_words(seed)], 0)


def split(key, shape):
    """Split a key into raw keys of shape (*shape, 2)."""
    shape = tuple(shape)
    if config.threefry_partitionable.value:
        high, low = threefry2x32_p.bind(*_words(key), *counters(shape))
        return lax.concatenate(
            [lax.expand_dims(high, (len(shape),)), lax.expand_dims(low, (len(shape),))], len(shape)
        )
    counts = lax.iota(np.uint32, 2 * math.prod(shape))
    return lax.reshape(threefry_2x32(_words(key), counts), (*shape, 2))


def word_of(data):
    """Make what is folded into a key one word: a Python integer, or an array's number, modulo 2**32."""
    if not isinstance(data, (int, np.generic, np.ndarray, Array, Tracer)):
        raise TypeError(f"fold_in accepts an integer or a scalar array, but was given {data!r}")
    if np.shape(data):
        raise TypeError(f"fold_in accepts a scalar, but was given an array of shape {data.shape}")
    return lax.convert_element_type(data, np.uint32)


def fold_in(key, data):
    """Derive a key from a key and an integer scalar."""
    return threefry_2x32(_words(key), seed(word_of(data)))


# Bits for arrays of keys, as one operation that a native kernel can do.

_KERNEL = "jaxlib_ext_threefry_bits"
_FLOATS_KERNEL = "jaxlib_ext_threefry_bits_of_floats"
_FLOATS = {32: np.dtype(np.float32), 64: np.dtype(np.float64)}
_MIN_KERNEL_SIZE = 256
threefry_bits_p = Primitive("threefry_bits")


def _bits_type(keys, *, bit_width, shape, floats):
    return ShapedArray(
        (*keys.shape[:-1], *shape),
        np.dtype(uint_type(bit_width)),
        manual_axis_type=keys.manual_axis_type,
    )


def _bits_batch(args, dims, **params):
    keys = batching.moveaxis(args[0], dims[0], 0)
    return threefry_bits_p.bind(keys, **params), 0


def _bits_by_hash(keys, *, bit_width, shape, floats):
    draw = functools.partial(
        _hashed_counters, hash_=threefry2x32_p.bind, bit_width=bit_width, shape=shape
    )
    for _ in range(keys.ndim - 1):
        draw = vmap(draw)
    return draw(keys)


_lower_bits = mlir.lower_fun(_bits_by_hash, multiple_results=False)


def _lower_bits_cpu(ctx, keys, *, bit_width, shape, floats):
    if not native_calls.can_call_whole(ctx, _KERNEL):
        return _lower_bits(ctx, keys, bit_width=bit_width, shape=shape, floats=floats)
    (out,) = ctx.avals_out
    if not (floats and bit_width in _FLOATS and native_calls.can_call(ctx, _FLOATS_KERNEL)):
        return native_calls.call(ctx, _KERNEL, [keys], ctx.avals_in, [out], {})
    # The compiler puts what a loop computes in the place of its operand only if both have the same type.
    numbers = out.update(dtype=_FLOATS[bit_width])
    bits = native_calls.call(ctx, _FLOATS_KERNEL, [keys], ctx.avals_in, [numbers], {})
    return [hlo.bitcast_convert(mlir.aval_to_ir_type(ctx.module_context, out), *bits)]


threefry_bits_p.def_abstract_eval(_bits_type)
threefry_bits_p.jvp = functools.partial(ad.zero_jvp, threefry_bits_p)
batching.primitive_batchers[threefry_bits_p] = _bits_batch
mlir.register_lowering(threefry_bits_p, _lower_bits)
mlir.register_lowering(threefry_bits_p, _lower_bits_cpu, platform="cpu")


def random_bits(key, bit_width: int, shape, *, floats: bool = False):
    """Draw unsigned integers of `bit_width` bits."""
    check_key(key, 2)
    aval = core.typeof(key)
    if (
        config.threefry_partitionable.value
        and aval._sharding is None
        and core.is_constant_shape(shape)
        and math.prod(shape) >= _MIN_KERNEL_SIZE
    ):
        return threefry_bits_p.bind(key, bit_width=bit_width, shape=tuple(shape), floats=floats)
    return _random_bits(threefry2x32_p.bind, key, bit_width, shape)


# Draws the same bits in memory that the numbers made of them can take.
bits_of_floats = functools.partial(random_bits, floats=True)


def bits_to_sort(key, bit_width: int, shape):
    """Draw the same bits as `random_bits`, in a form that the compiler may fuse into a consumer.

    Use it if the consumer reads each element once; otherwise fusion would repeat the hash.
    """
    return _random_bits(_hash_broadcast, key, bit_width, shape)


def _random_bits(hash_, key, bit_width, shape):
    if config.threefry_partitionable.value:
        return _hashed_counters(key, hash_=hash_, bit_width=bit_width, shape=shape)
    return _random_bits_original(key, bit_width, shape)


def _hashed_counters(key, *, hash_, bit_width, shape):
    high, low = hash_(*_words(key), *counters(shape))
    if bit_width == 64:
        return join_words(high, low)
    return lax.convert_element_type(lax.bitwise_xor(high, low), uint_type(bit_width))


def join_words(high, low):
    """Combine high and low words into 64-bit integers."""
    high, low = (lax.convert_element_type(x, np.uint64) for x in (high, low))
    return lax.bitwise_or(lax.shift_left(high, lax.full_like(high, 32)), low)


def _random_bits_original(key, bit_width, shape):
    size = math.prod(shape)
    num_words = -(-bit_width * size // 32)
    blocks, rest = divmod(num_words, np.iinfo(np.uint32).max)
    if not blocks:
        words = threefry_2x32(_words(key), lax.iota(np.uint32, rest))
    else:
        keys = split(key, (blocks + 1,))
        parts = [
            threefry_2x32(
                _words(slicing.index_in_dim(keys, i, keepdims=False)),
                lax.iota(np.uint32, np.iinfo(np.uint32).max),
            )
            for i in range(blocks)
        ]
        last = _words(slicing.index_in_dim(keys, blocks, keepdims=False))
        words = lax.concatenate([*parts, threefry_2x32(last, lax.iota(np.uint32, rest))], 0)
    dtype = uint_type(bit_width)
    if bit_width == 64:
        half = num_words // 2
        words = join_words(
            slicing.slice_in_dim(words, 0, half), slicing.slice_in_dim(words, half, 2 * half)
        )
    elif bit_width in (8, 16):
        # Each word yields several numbers, from its lowest bits to its highest.
        n = 32 // bit_width
        wide = lax.broadcast_in_dim(words, (n, num_words), (1,))
        shifts = lax.mul(lax.broadcasted_iota(np.uint32, (n, num_words), 0), np.uint32(bit_width))
        pieces = lax.bitwise_and(
            lax.shift_right_logical(wide, shifts), np.uint32(np.iinfo(dtype).max)
        )
        words = lax.reshape(lax.transpose(pieces, (1, 0)), (num_words * n,))
        words = slicing.slice_in_dim(lax.convert_element_type(words, dtype), 0, size)
    return lax.reshape(words, shape)
