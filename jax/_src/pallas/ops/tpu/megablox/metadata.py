"""The list of tiles of rows, and of the groups that have rows in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.array_creation import arange, zeros
from jax._src.numpy.cumulative import cumsum
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.numpy.searching import searchsorted
from jax._src.numpy.selecting import where


class GroupMetadata(NamedTuple):
    """What the kernels' index maps read: an element of the list for each pair of a group and a tile.

    Attributes:
      group_offsets: the row at which each group starts, and the one after the last, [groups + 1].
      group_ids: the groups.
      m_tile_ids: the tiles.
    """

    group_offsets: Any
    group_ids: Any
    m_tile_ids: Any


def group_offsets(group_sizes: Any) -> Any:
    """Return the row at which each group starts, and the one after the last."""
    return concatenate([zeros(1, np.int32), cumsum(group_sizes, dtype=np.int32)])


def make_group_metadata(
    *, group_sizes: Any, m: int, tm: int, start_group: Any, num_nonzero_groups: int,
    visit_empty_groups: bool = True,
) -> tuple[GroupMetadata, Any]:  # fmt: skip
    """List the tiles of rows, and the groups that have rows in them.

    Args:
      group_sizes: numbers of rows, [groups], int32.
      m: the number of all rows, which tm divides.
      tm: the number of rows in a tile.
      start_group: the first group in the list.
      num_nonzero_groups: how many groups are in the list.
      visit_empty_groups: whether a group without rows is in the list, with one tile.

    Returns:
      The list, and its length. After its end follow the tiles without rows of any group, with the last group.
    """
    num_groups = group_sizes.shape[0]
    tiles_m = m // tm
    offsets = group_offsets(group_sizes)
    starts, ends = offsets[:-1], offsets[1:]
    first = ufuncs.minimum(starts // tm, tiles_m - 1)
    tiles = where(
        group_sizes > 0, (ends + tm - 1) // tm - starts // tm, np.int32(visit_empty_groups)
    )
    group = arange(num_groups, dtype=np.int32)
    listed = (group >= start_group) & (group < start_group + num_nonzero_groups)
    after = cumsum(where(listed, tiles, 0), dtype=np.int32)
    total = after[-1]
    position = arange(tiles_m + num_groups - 1, dtype=np.int32)
    ids = searchsorted(after, position, side="right").astype(np.int32)
    ids = ufuncs.minimum(ids, num_groups - 1)
    inside = first[ids] + position - (after[ids] - tiles[ids])
    unused = (ends[-1] + tm - 1) // tm + position - total
    tile = ufuncs.minimum(where(position < total, inside, unused), tiles_m - 1)
    return GroupMetadata(offsets, ids, tile.astype(np.int32)), total


def rows_of_group(metadata: GroupMetadata, at: Any, tm: int, width: int) -> Any:
    """Return which elements of a tile, [tm, width], are in rows of its group, in a kernel."""
    group = metadata.group_ids[at]
    row = lax.broadcasted_iota(np.int32, (tm, width), 0) + metadata.m_tile_ids[at] * tm
    return (row >= metadata.group_offsets[group]) & (row < metadata.group_offsets[group + 1])
