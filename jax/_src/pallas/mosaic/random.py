"""Random numbers in kernels for TPUs: keys of the device's generator, its state, and blocks of samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import traceback_util
from jax._src.lax import lax
from jax._src.pallas.primitives import program_id
from jax._src.random import discrete, keys, prng
from jax._src.random.continuous import normal
from jax._src.random.uniform import bits, uniform

traceback_util.register_exclusion(__file__)


def _no_bits(*_: Any) -> Any:
    raise NotImplementedError(
        "Bits of a Pallas key are those of a TPU's generator: draw them in a kernel that is compiled, or interpreted with "
        "pltpu.InterpretParams(). Elsewhere, use a key of jax.random.key."
    )


def no_split(*_: Any) -> Any:
    raise NotImplementedError(
        "Cannot split a Pallas key. Use fold_in instead to generate new keys."
    )


def folded(first: Any, second: Any, data: Any, rotate: Callable[[Any, int], Any]) -> Any:
    """Return the words of a key that is derived from another key and an integer.

    Args:
      first, second: words of the key.
      data: the integer.
      rotate: function of a word and a number of bits, that rotates the word to the left.
    """
    second = second + data
    first = first + second
    return first, rotate(second, 13) ^ first


def _fold_in(key: Any, data: Any) -> Any:
    def rotate(x: Any, n: int) -> Any:
        left, right = np.uint32(n), np.uint32(32 - n)
        return lax.shift_left(x, left) | lax.shift_right_logical(x, right)

    words = folded(key[0, 0], key[0, 1], lax.convert_element_type(data, np.uint32), rotate)
    return lax.reshape(lax.concatenate([lax.reshape(w, (1,)) for w in words], 0), (1, 2))


# The generator is seeded by two words.
pallas_impl = prng.PRNGImpl(
    (1, 2), lambda seed: lax.full((1, 2), lax.convert_element_type(seed, np.uint32)), no_split, _no_bits,
    _fold_in, name="pallas_tpu", tag="pl",
)  # fmt: skip
prng.register_prng(pallas_impl)

# Goes on with the generator's state. A key of it says nothing.
stateful_impl = prng.PRNGImpl(
    (), lambda seed: lax.convert_element_type(seed, np.uint32), no_split, _no_bits, lambda key, _: key,
    name="pallas_tpu_stateful", tag="_pl_stateful",
)  # fmt: skip


def to_pallas_key(key: Any) -> Any:
    """Return a key of the device's generator, for kernels, that is derived from another key.

    In a kernel, functions of `jax.random` take it, and `jax.random.fold_in` derives others. It is passed
    in scalar memory: `pl.BlockSpec(memory_space=pltpu.SMEM)`.

    Args:
      key: key or array of keys, typed or raw.

    Returns:
      A key, or an array of keys of that shape.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.to_pallas_key(jax.random.key(0)).dtype
    key<pl>
    """
    key, _ = keys.check_prng_key("to_pallas_key", key, allow_batched=True)
    if key.dtype == prng.key_ty(pallas_impl):
        return key
    data = prng.random_bits(key, 32, pallas_impl.key_shape)
    return prng.random_wrap(data, impl=pallas_impl)


def _stateful(sampler: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    """Return a sampler that needs no key."""

    def sample(*args: Any, **kwargs: Any) -> Any:
        return sampler(prng.random_seed(0, impl=stateful_impl), *args, **kwargs)

    sample.__name__ = sample.__qualname__ = name
    sample.__doc__ = f"""Draw {what} from the device's generator, in a kernel.

    Each draw goes on where the last one, or `pltpu.prng_seed`, has left the generator.

    Args:
      *args, **kwargs: those of `jax.random.{sampler.__name__}`, without the key.

    Returns:
      An array. Compiled kernels draw at least two dimensions, of elements of 32 bits.
    """
    return sample


stateful_bits = _stateful(bits, "stateful_bits", "unsigned integers")
stateful_uniform = _stateful(uniform, "stateful_uniform", "uniform numbers")
stateful_normal = _stateful(normal, "stateful_normal", "numbers of the normal distribution")
stateful_bernoulli = _stateful(discrete.bernoulli, "stateful_bernoulli", "booleans")


def sample_block(
    sampler_fn: Callable[..., Any], global_key: Any, block_size: Sequence[int], tile_size: Sequence[int],
    total_size: Sequence[int], block_index: Sequence[Any] | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Sample a block of an array, whose elements do not depend on the size of blocks.

    Each tile of the array is drawn with a key of its own, that is folded with the number of the tile.

    Args:
      sampler_fn: function of a key and a shape, such as `jax.random.uniform`.
      global_key: the key of the array.
      block_size: the shape of the block.
      tile_size: that of tiles, which divides `block_size`. The larger, the faster.
      total_size: that of the array.
      block_index: the block's number in each dimension; in a kernel, by default, that in the grid.
      **kwargs: more arguments for `sampler_fn`.

    Returns:
      The block.

    Raises:
      ValueError: if the sizes do not have as many dimensions, or tiles do not divide blocks.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> sample = lambda size, *index: pltpu.sample_block(
    ...   jax.random.uniform, jax.random.key(0), size, (2, 2), (8, 8), index)
    >>> bool((sample((4, 4), 1, 0)[:2, 2:] == sample((2, 2), 2, 1)).all())
    True
    """
    sizes = tuple(block_size), tuple(tile_size), tuple(total_size)
    block, tile, total = sizes
    if len({*map(len, sizes)}) != 1:
        raise ValueError(
            f"block_size ({len(block)}), tile_size ({len(tile)}) and total_size ({len(total)}) must have the same length."
        )
    if any([b % t for b, t in zip(block, tile)]) or 0 in block:
        raise ValueError(
            f"Each size of tiles must divide that of blocks, got tile_size={tile} and block_size={block}."
        )
    if block_index is None:
        block_index = [program_id(i) for i in range(len(block))]
    elif len(block_index) != len(block):
        raise ValueError(f"block_index has {len(block_index)} entries for {len(block)} dimensions.")
    counts = [b // t for b, t in zip(block, tile)]
    tiles_of_array = [-(-n // t) for n, t in zip(total, tile)]
    strides = [math.prod(tiles_of_array[i + 1 :]) for i in range(len(tile))]
    samples = {}
    for at in itertools.product(*map(range, counts)):
        number: Any = 0
        for index, count, i, stride in zip(block_index, counts, at, strides):
            number = number + (index * count + i) * stride
        samples[at] = sampler_fn(keys.fold_in(global_key, number), tile, **kwargs)
    return _joined(samples, counts, ())


def _joined(samples: dict[tuple[int, ...], Any], counts: Sequence[int], at: tuple[int, ...]) -> Any:
    """Concatenate the tiles whose positions start with `at`."""
    d = len(at)
    if d == len(counts):
        return samples[at]
    parts = [_joined(samples, counts, (*at, i)) for i in range(counts[d])]
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, d)
