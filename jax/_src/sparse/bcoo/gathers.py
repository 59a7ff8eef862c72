"""Indexing of BCOO arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.lax import lax, slicing
from jax._src.lax.slicing.types import GatherDimensionNumbers, GatherScatterMode
from jax._src.numpy.indexing import parse
from jax._src.numpy.util import broadcast_arrays, to_array
from jax._src.sparse.base import JAXSparse
from jax._src.sparse.bcoo.array import BCOO, MODULE, check_bcoo
from jax._src.sparse.bcoo.functions import bcoo_update_layout
from jax._src.sparse.bcoo.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_dynamic_slice,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)
from jax._src.sparse.util import nfold_vmap
from jax._src.typing import Shape
from jax._src.util import set_module


def _with_batch_at(mat: BCOO, count: int, places: Sequence[int]) -> BCOO:
    """The array with its `count` leading dimensions, which are batch dimensions, at other places."""
    rest = iter(range(count, mat.ndim))
    lead = iter(range(count))
    order = [next(lead) if d in places else next(rest) for d in range(mat.ndim)]
    if order == list(range(mat.ndim)):
        return mat
    return bcoo_update_layout(mat, n_batch=0, on_inefficient=None).transpose(order)


def _slices_at(
    mat: BCOO, starts: Any, dims: Sequence[int], sizes: Sequence[int], dropped: Sequence[int]
) -> BCOO:
    """One slice for each row of `starts`, an array of shape `(*positions, len(dims))`."""

    def one(row: Any) -> BCOO:
        found = {
            d: lax.squeeze(slicing.slice_in_dim(row, i, i + 1), [0]) for i, d in enumerate(dims)
        }
        part = bcoo_dynamic_slice(mat, [found.get(d, 0) for d in range(mat.ndim)], sizes)
        return bcoo_squeeze(part, dimensions=dropped)

    return nfold_vmap(one, starts.ndim - 1, broadcasted=False)(starts)


@set_module(MODULE)
def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> BCOO:
    """Take slices of a BCOO array at many positions, as `jax.lax.gather` does.

    Args:
      operand: BCOO array.
      start_indices: integer array of shape `(*positions, k)`.
      dimension_numbers, slice_sizes, unique_indices, indices_are_sorted: as for `jax.lax.gather`.
      mode: None or `"promise_in_bounds"`; slices are clamped into the array.
      fill_value: must be None.

    Returns:
      BCOO array.

    Raises:
      NotImplementedError: for other modes, and for batching dimensions.

    >>> from jax.experimental import sparse
    >>> numbers = jax.lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> sparse.bcoo_gather(sparse.eye(3), jnp.array([[2], [0]]), numbers, (1, 3)).todense().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    check_bcoo("bcoo_gather", operand, "operand")
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            f"bcoo_gather: slice_sizes must have a size for each of the {operand.ndim} dimensions of "
            f"the operand of shape {operand.shape}, got {tuple(slice_sizes)}"
        )
    if mode is not None:
        parsed = GatherScatterMode.from_any(mode)
        if parsed != GatherScatterMode.PROMISE_IN_BOUNDS:
            raise NotImplementedError(f"bcoo_gather: {mode=} not yet supported.")
    if fill_value is not None:
        raise NotImplementedError("bcoo_gather: fill_value")
    numbers = dimension_numbers
    if numbers.operand_batching_dims or numbers.start_indices_batching_dims:
        raise NotImplementedError("bcoo_gather: batching dimensions")
    starts = to_array(start_indices)
    out = _slices_at(
        operand, starts, numbers.start_index_map, slice_sizes, numbers.collapsed_slice_dims
    )
    count = starts.ndim - 1
    places = [d for d in range(out.ndim) if d not in numbers.offset_dims]
    return _with_batch_at(out, count, places)


def getitem(
    arr: BCOO,
    idx: Any,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """The elements at an index, as of dense arrays; those out of bounds are clamped.

    A result stores as many elements as `arr`, or all of its own if these are fewer.
    """
    if mode is not None or fill_value is not None:
        raise NotImplementedError("indexing of a sparse array with mode or fill_value")
    elements = idx if isinstance(idx, tuple) else (idx,)
    for e in elements:
        if isinstance(e, JAXSparse):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or "
                f"boolean arrays are valid indices. Got {e}"
            )
    entries = [e for e in parse.parse_index(idx, arr.shape) if e is not parse.GAP]
    return _Reader(arr, entries).read()


class _Reader:
    """Reads the entries of a parsed index: slices first, then single positions, then arrays."""

    def __init__(self, mat: BCOO, entries: list[Any]):
        self.mat = mat
        self.entries = entries

    def read(self) -> BCOO:
        for e in self.entries:
            if isinstance(e, parse.Flag) and not e.value:
                raise NotImplementedError("indexing of a sparse array with False")
        mat = self._sliced(self.mat)
        kinds = [e for e in self.entries if not isinstance(e, (parse.NewAxis, parse.Flag))]
        arrays = [d for d, e in enumerate(kinds) if isinstance(e, parse.Positions)]
        reverse = [d for d, e in enumerate(kinds) if isinstance(e, parse.Slice) and e.reverse]
        if reverse:
            mat = bcoo_rev(mat, reverse)
        if arrays:
            return self._at_arrays(mat, kinds, arrays)
        dropped = [d for d, e in enumerate(kinds) if isinstance(e, parse.Position)]
        if dropped:
            mat = bcoo_squeeze(mat, dimensions=dropped)
        result = [e for e in self.entries if not isinstance(e, parse.Position)]
        return _with_new(mat, [d for d, e in enumerate(result) if not isinstance(e, parse.Slice)])

    def _sliced(self, mat: BCOO) -> BCOO:
        """The slices and single positions, which keep a dimension of size 1."""
        start, limit, step, sizes = [], [], [], []
        d, dynamic = 0, False
        for e in self.entries:
            if isinstance(e, (parse.NewAxis, parse.Flag)):
                continue
            size = mat.shape[d]
            if isinstance(e, parse.Position):
                if size == 0:
                    raise IndexError(f"index is out of bounds for axis {d} with size 0")
                at = e.index
                if isinstance(at, int):
                    at = min(max(at, 0), size - 1)
                dynamic |= not isinstance(at, int)
                part = (at, 1, 1)
            elif isinstance(e, parse.Slice):
                dynamic |= not isinstance(e.start, int)
                part = (e.start, e.span, max(e.step, 1))
            else:
                part = (0, size, 1)
            start.append(part[0])
            sizes.append(part[1])
            step.append(part[2])
            d += 1
        if (
            all(isinstance(a, int) and a == 0 for a in start)
            and tuple(sizes) == mat.shape
            and all(s == 1 for s in step)
        ):
            return mat
        if dynamic:
            mat = bcoo_dynamic_slice(mat, start, sizes)
            start = [0] * mat.ndim
        limit = [a + n for a, n in zip(start, sizes)]
        if dynamic and all(s == 1 for s in step):
            return mat
        return bcoo_slice(mat, start_indices=start, limit_indices=limit, strides=step)

    def _at_arrays(self, mat: BCOO, kinds: list[Any], arrays: list[int]) -> BCOO:
        found = []
        advanced = [
            d for d, e in enumerate(kinds) if isinstance(e, (parse.Positions, parse.Position))
        ]
        for d in arrays:
            positions = to_array(kinds[d].array)
            if not np.issubdtype(positions.dtype, np.integer) or positions.dtype.itemsize < 4:
                positions = lax.convert_element_type(positions, np.int32)
            found.append(positions)
        found = broadcast_arrays(*found)
        starts = lax.concatenate([lax.expand_dims(p, (p.ndim,)) for p in found], found[0].ndim)
        sizes = [1 if d in advanced else s for d, s in enumerate(mat.shape)]
        out = _slices_at(mat, starts, arrays, sizes, advanced)
        count = starts.ndim - 1
        # As in NumPy: the new dimensions replace adjacent arrays, and otherwise come first.
        order = [e for e in self.entries]
        at = [i for i, e in enumerate(order) if isinstance(e, (parse.Positions, parse.Position))]
        adjacent = at == list(range(at[0], at[-1] + 1))
        before = [e for e in order[: at[0]]] if adjacent else []
        kept_before = sum(isinstance(e, parse.Slice) for e in before)
        out = _with_batch_at(out, count, range(kept_before, kept_before + count))
        new, position = [], 0
        for i, e in enumerate(order):
            if i == at[0] and adjacent:
                position += count
            if isinstance(e, (parse.NewAxis, parse.Flag)):
                new.append(position if adjacent else position + count)
                position += 1
            elif isinstance(e, parse.Slice):
                position += 1
        return _with_new(out, new)


def _with_new(mat: BCOO, new: Sequence[int]) -> BCOO:
    """The array with new dimensions of size 1 at these places of the result."""
    if not new:
        return mat
    ndim = mat.ndim + len(new)
    kept = [d for d in range(ndim) if d not in new]
    sizes = iter(mat.shape)
    shape = tuple(1 if d in new else next(sizes) for d in range(ndim))
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=kept)
