"""Counter-based generators: Threefry-4x32 with 20 rounds, Philox-2x32 and Philox-4x32 with 10.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src.lax import lax, slicing
from jax._src.random.threefry import (
    check_key,
    counters,
    join_words,
    rotate_left,
    seed_words,
    uint_type,
    word_of,
)  # fmt: skip

Words = list[Any]


class Generator(NamedTuple):
    """The functions of an implementation; each takes one raw key."""

    key_shape: tuple[int, ...]
    seed: Callable
    split: Callable
    random_bits: Callable
    fold_in: Callable


def _generator(
    encrypt: Callable[[Words, Words], Words], key_size: int, size: int, used: int, seed_is_key=False
) -> Generator:
    """Build a generator from a cipher.

    Args:
      encrypt: (words of the key, words of the block) -> words of the encrypted block.
      key_size: number of words of a key.
      size: number of words of a block.
      used: number of words of a block that form a 64-bit number.
      seed_is_key: whether a seed is the key that encrypts a zero block, or the block that a zero
        key encrypts.
    """

    def block(key: Words, first: Words = (), last: Words = ()) -> Words:
        """Encrypt a block that starts with `first`, ends with `last`, and is zero in between."""
        given = [*first, *last]
        zeros = [lax.full_like(given[-1], 0)] * (size - len(given))
        return encrypt(key, [*first, *zeros, *last])

    def words_of(key) -> Words:
        check_key(key, key_size)
        return [slicing.index_in_dim(key, i, keepdims=False) for i in range(key_size)]

    def key_of(words: Words):
        ndim = words[0].ndim
        return lax.concatenate([lax.expand_dims(w, (ndim,)) for w in words[:key_size]], ndim)

    def seed(seed):
        words, zero = seed_words(seed), np.uint32(0)
        if seed_is_key:
            return key_of(block([*words, *[zero] * (key_size - 2)], first=[zero]))
        return key_of(block([zero] * key_size, first=words))

    def split(key, shape):
        return key_of(block(words_of(key), last=counters(tuple(shape))))

    def fold_in(key, data):
        return key_of(block(words_of(key), last=[word_of(data)]))

    def random_bits(key, bit_width: int, shape):
        out = block(words_of(key), first=counters(shape))
        if bit_width == 64:
            return join_words(_xor(out[0:used:2]), _xor(out[1:used:2]))
        return lax.convert_element_type(_xor(out), uint_type(bit_width))

    return Generator((key_size,), seed, split, random_bits, fold_in)


def _xor(words: Words):
    out = words[0]
    for w in words[1:]:
        out = lax.bitwise_xor(out, w)
    return out


def _add(x, y):
    return lax.add(x, lax.broadcast_to(y, x.shape))


# Threefry

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = np.uint32(0x1BD11BDA)


def _threefry4x32(key: Words, x: Words) -> Words:
    keys = [*key, lax.bitwise_xor(_xor(key), _PARITY)]
    x0, x1, x2, x3 = (_add(w, k) for w, k in zip(x, keys))
    for i in range(20):
        r, s = _ROTATIONS[i % 8]
        x0, x2 = lax.add(x0, x1), lax.add(x2, x3)
        x1 = lax.bitwise_xor(rotate_left(x1, r), x0)
        x3 = lax.bitwise_xor(rotate_left(x3, s), x2)
        x1, x3 = x3, x1
        if i % 4 == 3:
            n = i // 4 + 1
            x0, x1, x2, x3 = (_add(w, keys[(n + j) % 5]) for j, w in enumerate((x0, x1, x2, x3)))
            x3 = lax.add(x3, lax.full_like(x3, n))
    return [x0, x1, x2, x3]


# Philox

_MULTIPLIER = np.uint32(0xD256D193)
_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)  # added to the key after each round


def _philox2x32(key: Words, x: Words) -> Words:
    (k,), (x0, x1) = key, x
    for _ in range(10):
        high, low = _multiply(x0, _MULTIPLIER)
        x0, x1 = lax.bitwise_xor(_mix(high, k), x1), low
        k = lax.add(k, _STEPS[0])
    return [x0, x1]


def _philox4x32(key: Words, x: Words) -> Words:
    (k0, k1), (x0, x1, x2, x3) = key, x
    for _ in range(10):
        high0, low0 = _multiply(x0, _MULTIPLIERS[0])
        high2, low2 = _multiply(x2, _MULTIPLIERS[1])
        x0, x1 = lax.bitwise_xor(_mix(high2, k0), x1), low2
        x2, x3 = lax.bitwise_xor(_mix(high0, k1), x3), low0
        k0, k1 = lax.add(k0, _STEPS[0]), lax.add(k1, _STEPS[1])
    return [x0, x1, x2, x3]


def _mix(word, key):
    return lax.bitwise_xor(word, lax.broadcast_to(key, word.shape))


def _multiply(x, factor: np.uint32):
    """Return the high and the low words of the products with `factor`."""
    factor = lax.full_like(x, factor)
    return lax.mulhi(x, factor), lax.mul(x, factor)


threefry4x32 = _generator(_threefry4x32, 4, 4, used=4, seed_is_key=True)
philox2x32 = _generator(_philox2x32, 1, 2, used=2)
philox4x32 = _generator(_philox4x32, 2, 4, used=2)
