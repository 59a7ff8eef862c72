"""The parameters of gathers and scatters: dimension numbers and out-of-bounds modes."""

from __future__ import annotations

import enum
from typing import NamedTuple


class GatherDimensionNumbers(NamedTuple):
    """How a gather's operand, indices and result relate, as in XLA's Gather operation.

    Attributes:
      offset_dims: dimensions of the result that run over a slice of the operand, sorted.
      collapsed_slice_dims: operand dimensions with slice size 1 that the result lacks, sorted.
      start_index_map: for each component of an index vector the operand dimension it indexes.
      operand_batching_dims: operand dimensions that run together with dimensions of the indices, sorted.
      start_indices_batching_dims: those dimensions of the indices, in the same order.

    The last dimension of the indices holds the index vectors.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """How a scatter's operand, indices and updates relate, as in XLA's Scatter operation.

    Attributes:
      update_window_dims: dimensions of the updates that run over a window of the operand, sorted.
      inserted_window_dims: operand dimensions of window size 1 that the updates lack, sorted.
      scatter_dims_to_operand_dims: for each component of an index vector the operand dimension.
      operand_batching_dims: operand dimensions that run together with dimensions of the indices, sorted.
      scatter_indices_batching_dims: those dimensions of the indices, in the same order.

    The last dimension of the indices holds the index vectors.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """What happens where an index is out of bounds.

    - `CLIP` (`"clip"`): it is clamped so that the slice lies within the operand.
    - `FILL_OR_DROP` (`"fill"` or `"drop"`): a gather gives a fill value, a scatter drops the update.
    - `PROMISE_IN_BOUNDS` (`"promise_in_bounds"`): the caller promises that there is none; a gather then
      behaves like `CLIP`, a scatter like `FILL_OR_DROP`, but programs must not rely on that.
    - `ONE_HOT` (`"one_hot"`): a gather by products with one-hot matrices, which give zeros there; a
      scatter behaves like `FILL_OR_DROP`.

    >>> lax.GatherScatterMode.from_any("fill")
    <GatherScatterMode.FILL_OR_DROP: 2>
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of that name; None is `FILL_OR_DROP`.

        Raises:
          ValueError: for unknown names.
        """
        if isinstance(s, GatherScatterMode):
            return s
        mode = _MODES.get(s) if s is None or isinstance(s, str) else None
        if mode is None:
            raise ValueError(
                f'Unknown gather mode "{s}": expected one of '
                f"{', '.join(repr(name) for name in _MODES if name)}, a GatherScatterMode or None."
            )
        return mode


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}
