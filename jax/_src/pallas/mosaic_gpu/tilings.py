"""Tilings: permutations of the elements of an array, by which layouts are described.

A tile divides the last dimensions of an array: each becomes a number of tiles and a position in the
tile, and the positions become the last dimensions. A tiling applies several tiles in sequence.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Replicated:
    """In place of a dimension of a layout: all of so many threads or warps have the same elements."""

    times: int


@dataclasses.dataclass(frozen=True)
class Tiling:
    """Tiles that are applied one after the other.

    Args:
      tiles: the sizes of each tile. Each has at most as many dimensions as the one before.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.Tiling(((8, 4), (2,))).tile_shape((16, 8))
    (2, 2, 8, 2, 2)
    """

    tiles: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiles", tuple([tuple(t) for t in self.tiles]))
        ranks = [len(t) for t in self.tiles]
        if any(a < b for a, b in zip(ranks, ranks[1:])):
            raise ValueError("Tiles must have a decreasing rank")

    def __str__(self) -> str:
        return f"Tiling({''.join(map(str, self.tiles))})"

    # Shapes

    def tile_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an array of this shape after tiling."""
        out = tuple(shape)
        for tile in self.tiles:
            head, tail = self._split(out, len(tile), shape)
            if any(d % t for d, t in zip(tail, tile)):
                raise self._does_not_apply(shape)
            out = (*head, *[d // t for d, t in zip(tail, tile)], *tile)
        return out

    def untile_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the array that has this shape after tiling."""
        out = tuple(shape)
        for tile in reversed(self.tiles):
            n = len(tile)
            if len(out) < 2 * n or out[len(out) - n :] != tile:
                raise ValueError(
                    f"shape {tuple(shape)} is not a valid result of applying tiling {self}."
                )
            counts = out[len(out) - 2 * n : len(out) - n]
            out = (*out[: len(out) - 2 * n], *[c * t for c, t in zip(counts, tile)])
        return out

    def tile_strides(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides of an array with these strides after tiling."""
        out = tuple(strides)
        for tile in self.tiles:
            head, tail = self._split(out, len(tile), strides)
            out = (*head, *[s * t for s, t in zip(tail, tile)], *tail)
        return out

    def tile_indices(self, indices: tuple[int, ...]) -> tuple[int, ...]:
        """Return where an element is after tiling."""
        out = tuple(indices)
        for tile in self.tiles:
            head, tail = self._split(out, len(tile), indices)
            outer = [i // t for i, t in zip(tail, tile)]
            out = (*head, *outer, *[i % t for i, t in zip(tail, tile)])
        return out

    def untile_indices(self, indices: tuple[int, ...]) -> tuple[int, ...]:
        """Return where an element was before tiling."""
        out = tuple(indices)
        for tile in reversed(self.tiles):
            n = len(tile)
            head, outer, inner = out[: -2 * n], out[-2 * n : -n], out[-n:]
            out = (*head, *[o * t + i for o, i, t in zip(outer, inner, tile)])
        return out

    def tile_nested_shape_strides(
        self, shape: tuple[tuple[int, ...], ...], strides: tuple[tuple[int, ...], ...]
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Return shape and strides after tiling, of an array whose dimensions are products of others."""
        dims = [list(zip(d, s, strict=True)) for d, s in zip(shape, strides, strict=True)]
        for tile in self.tiles:
            head, tail = self._split(tuple(dims), len(tile), shape)
            parts = [_split_nested(d, t) for d, t in zip(tail, tile)]
            if any(p is None for p in parts):
                raise self._does_not_apply(shape)
            split = [p for p in parts if p is not None]
            dims = [*head, *[p[0] for p in split], *[p[1] for p in split]]
        unzipped = [tuple(zip(*d)) for d in dims]
        return tuple([u[0] for u in unzipped]), tuple([u[1] for u in unzipped])

    def _split(self, dims: tuple[Any, ...], n: int, whole: Any) -> tuple[Any, Any]:
        if n > len(dims):
            raise self._does_not_apply(whole)
        return dims[: len(dims) - n], dims[len(dims) - n :]

    def _does_not_apply(self, shape: Any) -> ValueError:
        return ValueError(f"Tiling {self.tiles} does not apply to shape {tuple(shape)}")

    # Other tilings

    @property
    def rank(self) -> int:
        """The number of dimensions that it tiles."""
        return len(self.tiles[0]) if self.tiles else 0

    def origins(self) -> tuple[int, ...]:
        """Return, for each dimension of a tiled tile, the dimension that it comes from."""
        out = list(range(self.rank))
        for tile in self.tiles:
            out += out[len(out) - len(tile) :]
        return tuple(out)

    def tile_dimension(self, dim: int) -> tuple[bool, ...]:
        """Return, for each dimension after tiling, whether it comes from a dimension."""
        if not 0 <= dim < self.rank:
            raise ValueError(f"Invalid dimension {dim} for tiling {self}")
        return tuple([d == dim for d in self.origins()])

    def remove_dimension(self, dim: int) -> Tiling:
        """Return the tiling of arrays without a dimension."""
        if not 0 <= dim < self.rank:
            raise ValueError(f"Invalid dimension {dim} for tiling {self}")
        from_end = self.rank - dim
        kept = [
            t if len(t) < from_end else (*t[: len(t) - from_end], *t[len(t) - from_end + 1 :])
            for t in self.tiles
        ]
        return Tiling(tuple([t for t in kept if t]))

    def canonicalize(self) -> Tiling:
        """Return the tiling without tiles that change nothing."""
        return self.canonical_and_positions()[0]

    def canonical_and_positions(self) -> tuple[Tiling, dict[int, int]]:
        """Return the canonical tiling, and where dimensions after tiling are, counted from the end."""
        tiles: list[tuple[int, ...]] = []
        labels = itertools.count()
        before = [next(labels) for _ in range(self.rank)]
        after = list(before)
        for tile in self.tiles:
            n = len(tile)
            counts = [next(labels) for _ in tile]
            if tiles and tiles[-1][len(tiles[-1]) - n :] == tile:
                # The numbers of tiles are one: these dimensions are left out.
                before[len(before) - n :] = [*counts, *after[len(after) - n :]]
                continue
            tiles.append(tile)
            inner = [next(labels) for _ in tile]
            before[len(before) - n :] = [*counts, *inner]
            after[len(after) - n :] = [*counts, *inner]
        positions = {
            i - len(before): after.index(d) - len(after) for i, d in enumerate(before) if d in after
        }
        return Tiling(tuple(tiles)), positions


def _split_nested(dim: Sequence[tuple[int, int]], tile: int) -> tuple[Any, Any] | None:
    """Divide a product of sizes with strides into a number of tiles and a tile; None if that fails."""
    size, inner, outer = tile, [], []
    for d, stride in reversed(dim):
        if size == 1:
            outer.append((d, stride))
        elif size % d == 0:
            inner.append((d, stride))
            size //= d
        elif d % size == 0:
            inner.append((size, stride))
            outer.append((d // size, stride * size))
            size = 1
        else:
            return None
    return (outer[::-1] or [(1, 1)], inner[::-1] or [(1, 1)]) if size == 1 else None
