"""The generator Threefry-2x32 as a kernel: it draws what the default generator does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src.lax import lax
from jax._src.pallas.ops.tpu.random import counting
from jax._src.random import prng, threefry


def threefry_2x32_count(
    key: Any, shape: Sequence[int], unpadded_shape: Sequence[int], block_size: tuple[int, int]
) -> Any:
    """Return random bits: the hashes of the positions in an array.

    Args:
      key: two words, uint32.
      shape: the shape of the results; blocks divide its last two dimensions.
      unpadded_shape: the shape whose positions are hashed: `shape`, or what was padded to it.
      block_size: the shape of blocks.

    Returns:
      An array of uint32.

    Raises:
      ValueError: if blocks do not divide the shape, or it has more than 2^32 elements.
    """

    def hashed(k1: Any, k2: Any, positions: Any) -> tuple[Any]:
        high, low = threefry.hash_words(
            lax.broadcast(k1, positions.shape),
            lax.broadcast(k2, positions.shape),
            lax.full_like(positions, 0),
            positions,
        )
        return (high ^ low,)

    (out,) = counting.hash_positions(
        hashed, key, shape, unpadded_shape, block_size, 0, 1, "threefry_2x32"
    )
    return out


def plthreefry_random_bits(key: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Return random bits of a shape, from a key of two words."""
    counting.check_32_bits(bit_width)
    rows, padded = counting.padded_to_blocks(shape)
    out = threefry_2x32_count(key, padded, rows, counting.BLOCK_SIZE)
    return out[: rows[0], : rows[1]].reshape(tuple(shape))


plthreefry_prng_impl = prng.PRNGImpl(
    (2,), threefry.seed, threefry.split, plthreefry_random_bits, threefry.fold_in,
    name="pallas_threefry2x32", tag="plfry",
)  # fmt: skip
prng.register_prng(plthreefry_prng_impl)
