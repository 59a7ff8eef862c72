"""Positions in copies of SparseCores, of which some are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src.state.indexing import NDIndexer
from jax._src.tree_util import register_pytree_node


class Indices:
    """Positions in a copy, of which some are ignored: `ref.at[plsc.Indices(i_ref, ignored_value=-1)]`.

    Args:
      values: a vector of integers, or a reference to one in `pltpu.VMEM`.
      ignored_value: a position that is not copied; None to copy all.
    """

    __slots__ = ("values", "ignored_value")

    def __init__(self, values: Any, ignored_value: int | None = None):
        self.values = values
        self.ignored_value = ignored_value

    # As an entry of an index, it is like its values.

    @property
    def shape(self) -> Any:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return len(self.values.shape)

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def __repr__(self) -> str:
        return f"Indices(values={self.values!r}, ignored_value={self.ignored_value!r})"


register_pytree_node(
    Indices, lambda x: ((x.values,), x.ignored_value), lambda ignored, c: Indices(c[0], ignored)
)


def positions_and_ignored(entry: Any) -> tuple[Any, int | None]:
    """Return the values of an entry of an index, and which of them is ignored."""
    return (entry.values, entry.ignored_value) if isinstance(entry, Indices) else (entry, None)


def with_arrays(transforms: Sequence[Any], read: Any = lambda x: x) -> tuple[tuple[Any, ...], Any]:
    """Return the transforms of a copy with arrays in place of positions, and which rows are copied.

    Positions that are ignored are beyond the array.

    Args:
      transforms: those of the source or the target.
      read: gives the array of what stands for a reference.

    Returns:
      The transforms, and booleans that broadcast to the view; None where all is copied.
    """
    if not transforms or not isinstance(transforms[-1], NDIndexer):
        return tuple(transforms), None
    last, copied = transforms[-1], None
    entries = []
    for entry, size in zip(last.indices, last.shape):
        values, ignored = positions_and_ignored(entry)
        values = read(values)
        if ignored is not None:
            copied = values != ignored
            values = values * copied + size * (1 - copied)
        entries.append(values)
    index = NDIndexer(entries, last.shape, last.int_indexer_shape)
    if copied is not None:
        after = len(index.get_indexer_shape()) - index.array_dims_position() - 1
        copied = copied.reshape((copied.shape[0], *[1] * after))
    return (*transforms[:-1], index), copied
