"""Tiles: the units in which arrays are stored, and copied."""

from __future__ import annotations

import enum
from typing import Any

from jax._src import dtypes
from jax._src.pallas.mosaic.tpu_info import (
    ChipVersion,
    get_tpu_info,
    get_tpu_info_for_chip,
    is_tpu_device,
)


class Tiling(enum.Enum):
    """How arrays are stored: in tiles of several rows, or as SparseCores have them, in parts of rows."""

    COMPACT = 1
    SPARSE_CORE = 2


def tile_of(ndim: int, dtype: Any, tiling: Tiling | None) -> tuple[int, ...]:
    """Return the size of a tile in each dimension of an array.

    It is that of the default device; of generation 5 where that is no TPU.

    Args:
      ndim: the number of dimensions.
      dtype: the type of the elements.
      tiling: how they are stored; None for `COMPACT`.
    """
    info = get_tpu_info() if is_tpu_device() else get_tpu_info_for_chip(ChipVersion.TPU_V5E, 1)
    if tiling is Tiling.SPARSE_CORE:
        last: tuple[int, ...] = (info.num_sublanes * 32 // int(dtypes.itemsize_bits(dtype)),)
    elif ndim == 1:
        last = (info.num_lanes * 32 // int(dtypes.itemsize_bits(dtype)),)
    else:
        last = (info.get_sublane_tiling(dtype), info.num_lanes)
    return ((1,) * ndim + last)[-ndim:] if ndim else ()
