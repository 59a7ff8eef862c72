"""The parameters of gathers and scatters: dimension numbers and out-of-bounds modes."""

from __future__ import annotations

import enum
from typing import NamedTuple


class GatherDimensionNumbers(NamedTuple):
    """Relates the dimensions of a gather's operand, indices and result, as in XLA's Gather.

    The last dimension of the indices holds the index vectors.

    Attributes:
      offset_dims: dimensions of the result that come from a slice of the operand, sorted.
      collapsed_slice_dims: operand dimensions of slice size 1 that the result omits, sorted.
      start_index_map: the operand dimension that each component of an index vector indexes.
      operand_batching_dims: operand dimensions that are paired with dimensions of the indices,
        sorted.
      start_indices_batching_dims: those dimensions of the indices, in the same order.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Relates the dimensions of a scatter's operand, indices and updates, as in XLA's Scatter.

    The last dimension of the indices holds the index vectors.

    Attributes:
      update_window_dims: dimensions of the updates that belong to a window of the operand, sorted.
      inserted_window_dims: operand dimensions of window size 1 that the updates omit, sorted.
      scatter_dims_to_operand_dims: the operand dimension that each component of an index vector
        indexes.
      operand_batching_dims: operand dimensions that are paired with dimensions of the indices,
        sorted.
      scatter_indices_batching_dims: those dimensions of the indices, in the same order.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """Treatment of out-of-bounds indices in gather and scatter.

    - `CLIP` (`"clip"`): the index is clamped so that the slice lies within the operand.
    - `FILL_OR_DROP` (`"fill"` or `"drop"`): gather returns a fill value, scatter drops the update.
    - `PROMISE_IN_BOUNDS` (`"promise_in_bounds"`): the caller promises that there are none. If there
      are, gather behaves like `CLIP` and scatter like `FILL_OR_DROP`, but do not rely on that.
    - `ONE_HOT` (`"one_hot"`): gather uses products with one-hot matrices, so that it returns zeros;
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
        """Return the mode with the given name; None means `FILL_OR_DROP`.

        Raises:
          ValueError: if the name is unknown.
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
