"""Blocks of an array as blocks of the same elements in another shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.lax import lax
from jax._src.pallas.fuser.transforms import BlockIndexTransform, is_blocked, is_squeezed, size_of


def reshaped(
    shape: Sequence[int], other: Sequence[int], t: BlockIndexTransform
) -> BlockIndexTransform | None:
    """Return the transform of the array in another shape.

    Args:
      shape: the shape whose blocks are given.
      other: the other shape, of as many elements.
      t: the transform of blocks.

    Returns:
      The transform of the blocks of the other shape with the same elements in the same order; None if
      these are not blocks of it.
    """
    assert t.block_shape is not None
    dims: list[Any] = [None] * len(other)
    parts: list[tuple[Sequence[int], Sequence[int], Callable[[Any], Sequence[Any]]]] = []
    for own, new in groups(shape, other):
        found = _group(
            [shape[k] for k in own], [other[k] for k in new], [t.block_shape[k] for k in own]
        )
        if found is None:
            return None
        for k, d in zip(new, found[0]):
            dims[k] = d
        parts.append((own, new, found[1]))

    def index(at: Any) -> list[Any]:
        out: list[Any] = [0] * len(other)
        for own, new, of in parts:
            for k, i in zip(new, of([at[k] for k in own])):
                out[k] = i
        return out

    return t.then(dims, index)


def groups(a: Sequence[int], b: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Divide the dimensions of two shapes of one size into the smallest groups of equal sizes."""
    out = []
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and a[i] == 1 and not (j < len(b) and b[j] == 1):
            out.append(([i], []))
            i += 1
            continue
        if j < len(b) and b[j] == 1 and not (i < len(a) and a[i] == 1):
            out.append(([], [j]))
            j += 1
            continue
        own, new = [i], [j]
        size, other = a[i], b[j]
        i, j = i + 1, j + 1
        while size != other:
            if size < other:
                own.append(i)
                size, i = size * a[i], i + 1
            else:
                new.append(j)
                other, j = other * b[j], j + 1
        out.append((own, new))
    return out


def _group(shape: list[int], other: list[int], block: list[Any]) -> Any:
    """Return the block's dimensions in the other shape, and the function between the indices."""
    if not shape:
        return [1], lambda at: [0]
    if not other:
        return [], lambda at: []
    if shape == other:
        return block, lambda at: at
    if not all(map(is_blocked, block)):
        return None
    squeezed = all(map(is_squeezed, block))
    merged = _as_one(shape, [size_of(d) for d in block])
    if merged is None:
        return None
    size, number = merged
    split = _as_many(size, other)
    if split is None:
        return None
    dims, numbers = split
    if squeezed:
        dims = [None] * len(dims)
    return dims, lambda at: numbers(number(at))


def _as_one(shape: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return the size of blocks when dimensions are merged, and their numbers.

    Elements of a block are beside each other if it is whole along all dimensions after one, and of
    size 1 along those before that.
    """
    k = 0
    while k < len(shape) - 1 and sizes[k] == 1:
        k += 1
    if any([s != n for s, n in zip(sizes[k + 1 :], shape[k + 1 :])]) or shape[k] % sizes[k]:
        return None
    counts = [*shape[:k], shape[k] // sizes[k]]

    def number(at: Sequence[Any]) -> Any:
        out: Any = 0
        for i, n in zip(at, counts):
            out = out * n + i
        return out

    return math.prod(sizes), number


def _as_many(size: int, shape: Sequence[int]) -> Any:
    """Return the blocks that are those of `size` elements of the merged dimensions, and their indices."""
    rest = 1
    for k in reversed(range(len(shape))):
        if size % rest == 0 and size // rest <= shape[k] and shape[k] % (size // rest) == 0:
            break
        rest *= shape[k]
    else:
        return None
    first = size // rest
    counts = [*shape[:k], shape[k] // first]

    def indices(number: Any) -> list[Any]:
        out: list[Any] = []
        for n in reversed(counts[1:]):
            out.append(remainder(number, n))
            number = quotient(number, n)
        return [number, *reversed(out), *[0] * (len(shape) - k - 1)]

    return [*[1] * k, first, *shape[k + 1 :]], indices


def remainder(i: Any, n: int) -> Any:
    """Return the remainder of an index, which is not negative."""
    if n == 1:
        return 0
    return i % n if isinstance(i, int) else lax.rem(i, np.asarray(n, i.dtype))


def quotient(i: Any, n: int) -> Any:
    """Return the quotient of an index, which is not negative."""
    return i // n if isinstance(i, int) else lax.div(i, np.asarray(n, i.dtype))
