"""The generator Philox-4x32 as a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.lax import lax
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.manipulation.joining import stack
from jax._src.pallas.ops.tpu.random import counting
from jax._src.random import prng, threefry

K_HI_32 = 0x9E3779B9
K_LO_32 = 0xBB67AE85
MUL_A = 0xCD9E8D57
MUL_B = 0xD2511F53


def mul32_hi_lo(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the high and the low words of the products of words."""
    half, low = np.uint32(16), np.uint32(0xFFFF)
    high_of = lambda z: lax.shift_right_logical(z, lax.full_like(z, half))
    x1, x0, y1, y0 = high_of(x), x & low, high_of(y), y & low
    middle = x1 * y0 + high_of(x0 * y0)
    carry = (middle & low) + x0 * y1
    return x1 * y1 + high_of(middle) + high_of(carry), x * y


def philox_4x32(
    hi0: Any, lo0: Any, hi1: Any, lo1: Any, k_hi: Any, k_lo: Any, rounds: int = 10
) -> Any:
    """Hash blocks of four words.

    Args:
      hi0, lo0, hi1, lo1: the words, uint32.
      k_hi, k_lo: the words of the key.
      rounds: how many times the block is mixed.

    Returns:
      Four words.
    """
    word = np.uint32
    hi0, lo0, hi1, lo1, k_hi, k_lo = [asarray(x, word) for x in (hi0, lo0, hi1, lo1, k_hi, k_lo)]
    for _ in range(rounds):
        high_b, low_b = mul32_hi_lo(hi0, lax.full_like(hi0, word(MUL_B)))
        high_a, low_a = mul32_hi_lo(hi1, lax.full_like(hi1, word(MUL_A)))
        hi0, lo0, hi1, lo1 = high_a ^ lo0 ^ k_hi, low_a, high_b ^ lo1 ^ k_lo, low_b
        k_hi, k_lo = k_hi + word(K_HI_32), k_lo + word(K_LO_32)
    return hi0, lo0, hi1, lo1


def philox_4x32_kernel(
    key: Any, shape: Sequence[int], unpadded_shape: Sequence[int], block_size: tuple[int, int],
    offset: Any = 0, fuse_output: bool = True,
) -> Any:  # fmt: skip
    """Return random bits: the hashes of the positions in an array.

    Args:
      key: two words, uint32.
      shape: the shape of the results; blocks divide its last two dimensions.
      unpadded_shape: the shape whose positions are hashed: `shape`, or what was padded to it.
      block_size: the shape of blocks.
      offset: what is added to the positions.
      fuse_output: whether to return one word for each element; else two, [2, *shape].

    Returns:
      An array of uint32.

    Raises:
      ValueError: if blocks do not divide the shape, or it has more than 2^32 elements.
    """

    def hashed(k_hi: Any, k_lo: Any, positions: Any) -> tuple[Any, ...]:
        zero = lax.full_like(positions, 0)
        high, low, _, _ = philox_4x32(zero, positions, zero, zero, k_hi, k_lo)
        return (high ^ low,) if fuse_output else (high, low)

    out = counting.hash_positions(
        hashed, key, shape, unpadded_shape, block_size, offset, 1 if fuse_output else 2, "philox_4x32"
    )  # fmt: skip
    return out[0] if fuse_output else stack(out)


def philox_4x32_count(
    key: Any, shape: Sequence[int], offset: Any = 0, fuse_output: bool = True
) -> Any:
    """Return random bits of any shape: see `philox_4x32_kernel`."""
    rows, padded = counting.padded_to_blocks(shape)
    out = philox_4x32_kernel(key, padded, rows, counting.BLOCK_SIZE, offset, fuse_output)
    out = out[..., : rows[0], : rows[1]]
    return out.reshape(tuple(shape) if fuse_output else (2, *shape))


def philox_split(key: Any, shape: Sequence[int]) -> Any:
    """Return keys, [*shape, 2]."""
    words = philox_4x32_count(key, (math.prod(shape),), fuse_output=False)
    return words.T.reshape(*shape, 2)


def philox_random_bits(key: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Return random bits of a shape, from a key of two words."""
    counting.check_32_bits(bit_width)
    return philox_4x32_count(key, shape)


def philox_fold_in(key: Any, data: Any) -> Any:
    """Return a key that depends on a key and an integer."""
    word = lax.convert_element_type(asarray(data), np.uint32)
    zero = lax.full_like(word, 0)
    high, low, _, _ = philox_4x32(zero, word, zero, zero, key[0], key[1])
    return stack([high, low])


plphilox_prng_impl = prng.PRNGImpl(
    (2,), threefry.seed, philox_split, philox_random_bits, philox_fold_in,
    name="pallas_philox4x32", tag="pllox",
)  # fmt: skip
prng.register_prng(plphilox_prng_impl)
