"""Indexing of references.

An index has one entry for each dimension of the array: a `Slice` of static size, an integer scalar
or an integer array. Arrays are broadcast against each other. If there is an array, integer scalars
are broadcast as well, so that an indexer has scalars or arrays but not both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, pretty_printer as pp
from jax._src.core import ShapedArray, typeof
from jax._src.errors import NonConcreteBooleanIndexError
from jax._src.indexing import Slice, check_static_size
from jax._src.lax import lax, slicing
from jax._src.tree_util import register_pytree_node


class NDIndexer:
    """An index into an array of a given shape, which selects a view of it.

    Attributes:
      indices: for each dimension a `Slice`, an integer scalar, or an integer array.
      shape: shape of the indexed array.
      int_indexer_shape: common shape of the integer arrays; () if there are none.
    """

    __slots__ = ("indices", "shape", "int_indexer_shape")

    def __init__(
        self,
        indices: Sequence[Any],
        shape: Sequence[int],
        int_indexer_shape: Sequence[int] = (),
        validate: bool = False,
    ):
        self.indices = tuple(indices)
        self.shape = tuple(shape)
        self.int_indexer_shape = tuple(int_indexer_shape)
        if validate:
            _check(self)

    @classmethod
    def from_indices_shape(cls, indices: Any, shape: Sequence[int]) -> NDIndexer:
        """Create an indexer from a NumPy-style index.

        Raises:
          IndexError, TypeError, ValueError: if `indices` cannot index an array of this shape.
        """
        if not isinstance(indices, tuple):
            indices = (indices,)
        shape = tuple(shape)
        entries: list[Any] = []
        for entry in indices:
            entries.extend(_expand_mask(entry))
        if any([e is None for e in entries]):
            raise TypeError(f"cannot index a reference with None, in the index {indices}")
        is_ellipsis = [e is ... for e in entries]
        if sum(is_ellipsis) > 1:
            raise ValueError(f"an index can only have one `...`, got {indices}")
        if len(entries) - sum(is_ellipsis) > len(shape):
            raise ValueError(
                f"`indices` must not be longer than `shape`: indices={indices}, shape={shape}"
            )
        if not any(is_ellipsis):
            entries.append(...)
            is_ellipsis.append(True)
        at = is_ellipsis.index(True)
        missing = len(shape) - (len(entries) - 1)
        entries[at : at + 1] = [slice(None)] * missing
        converted = [_convert(e, size, indices) for e, size in zip(entries, shape)]
        arrays = [i for i, e in enumerate(converted) if type(e) is not Slice and np.ndim(e)]
        int_shape: tuple[int, ...] = ()
        if arrays:
            shapes = [np.shape(converted[i]) for i in arrays]
            try:
                int_shape = core.broadcast_shapes(*shapes)
            except ValueError:
                raise ValueError(
                    f"Cannot broadcast arrays of indices with shapes {shapes} to one shape"
                ) from None
            converted = [e if type(e) is Slice else _broadcast_to(e, int_shape) for e in converted]
        indexer = cls(converted, shape, int_shape)
        _check(indexer)
        return indexer

    @property
    def has_arrays(self) -> bool:
        return any(type(e) is not Slice and np.ndim(e) for e in self.indices)

    @property
    def is_trivial(self) -> bool:
        """Whether it selects all elements, in order."""
        return all(type(e) is Slice and e.is_full(d) for e, d in zip(self.indices, self.shape))

    def get_indexer_shape(self) -> tuple[int, ...]:
        """Return the shape of the view."""
        slices = [e.size for e in self.indices if type(e) is Slice]
        if not self.has_arrays:
            return tuple(slices)
        at = self.array_dims_position()
        return (*slices[:at], *self.int_indexer_shape, *slices[at:])

    def array_dims_position(self) -> int:
        """Return the position of the arrays' dimensions: in place if adjacent, otherwise first."""
        places = [i for i, e in enumerate(self.indices) if type(e) is not Slice]
        return places[0] if places[-1] - places[0] == len(places) - 1 else 0

    def transform_type(self, aval: Any) -> Any:
        """Return the aval of the view of an array of type `aval`."""
        if tuple(aval.shape) != self.shape:
            raise ValueError(f"an indexer for shape {self.shape} on an array of type {aval}")
        return ShapedArray(self.get_indexer_shape(), aval.dtype, aval.weak_type)

    def pretty_print(self, context: Any) -> Any:
        """Print the index in brackets."""
        entries = []
        for e, size in zip(self.indices, self.shape):
            entries.append(
                _print_slice(e, size, context) if type(e) is Slice else _name(e, context)
            )
        return pp.concat([pp.text("["), pp.text(",".join(entries) or "..."), pp.text("]")])

    # Applied to arrays

    def apply(self, x: Any) -> Any:
        """Gather the view of `x`; indices out of bounds are clamped."""
        block = _read_block(x, self)
        if not self.has_arrays:
            return block
        return block.at[self._array_index()].get(mode="clip")

    def update(self, x: Any, value: Any, accumulate: bool = False) -> Any:
        """Replace the view of `x` by `value`, or add `value` to it.

        Slices and scalars out of bounds are clamped; updates at array indices out of bounds are
        dropped.
        """
        if self.is_trivial:
            return lax.add(x, value) if accumulate else value
        if self.has_arrays:
            block = _read_block(x, self)
            at = block.at[self._array_index()]
            block = at.add(value, mode="drop") if accumulate else at.set(value, mode="drop")
        elif accumulate:
            block = lax.add(_read_block(x, self), value)
        else:
            block = value
        return _write_block(x, self, block)

    def _array_index(self) -> tuple[Any, ...]:
        return tuple(slice(None) if type(e) is Slice else e for e in self.indices)

    def __repr__(self) -> str:
        indices = tuple(
            e if isinstance(e, (Slice, int)) else _type_or_self(e) for e in self.indices
        )
        return (
            f"NDIndexer(indices={indices}, shape={self.shape}, "
            f"int_indexer_shape={self.int_indexer_shape})"
        )


def _type_or_self(e: Any) -> Any:
    try:
        return typeof(e)
    except TypeError:
        return e


register_pytree_node(
    NDIndexer,
    lambda x: ((x.indices,), (x.shape, x.int_indexer_shape)),
    lambda aux, children: NDIndexer(children[0], *aux),
)


def _expand_mask(entry: Any) -> Sequence[Any]:
    """Convert a boolean mask to index arrays; return other entries unchanged."""
    if isinstance(entry, (list, np.ndarray, core.Tracer)) or hasattr(entry, "dtype"):
        if isinstance(entry, list):
            entry = np.asarray(entry)
            if entry.dtype == np.float64 and not entry.size:
                entry = entry.astype(np.int32)
        if entry.dtype == np.bool_ and np.ndim(entry):
            value = core.to_concrete_value(entry)
            if value is None:
                raise NonConcreteBooleanIndexError(entry)
            return np.asarray(value).nonzero()
    return (entry,)


def _convert(entry: Any, size: int, index: Any) -> Any:
    if isinstance(entry, slice):
        return Slice.from_slice(entry, size)
    if isinstance(entry, Slice):
        check_static_size(entry)
        return entry
    try:
        # Positions of which some are ignored are like their values.
        aval = typeof(entry.values if hasattr(entry, "ignored_value") else entry)
    except TypeError:
        raise TypeError(
            f"cannot index a reference with {entry!r} of type {type(entry)}: use integers, slices, "
            "jax.ds, arrays of integers or masks"
        ) from None
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            f"an index of a reference must be an integer, a slice, or an array of integers or booleans; got "
            f"the type {aval.str_short()} in the index {index}"
        )
    if isinstance(entry, np.ndarray) and not entry.ndim:
        entry = entry[()]
    if isinstance(entry, (int, np.integer)):
        if not -size <= entry < size:
            raise ValueError(f"Out of bound indexer: idx={entry}, dim={size}.")
    return entry


def _check(indexer: NDIndexer) -> None:
    for e, size in zip(indexer.indices, indexer.shape):
        if type(e) is Slice:
            last = e.span if e.is_dynamic_start else e.start + e.span
            if e.size and (last > size or (not e.is_dynamic_start and e.start < 0)):
                raise ValueError(
                    f"Out of bound slice: start={e.start}, size={e.size}, stride={e.stride}, dim={size}."
                )


def _broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    if np.shape(x) == shape:
        return x
    if isinstance(x, (int, np.generic, np.ndarray)):
        x = np.asarray(x, dtypes.canonicalize_dtype(np.asarray(x).dtype))
        return np.broadcast_to(x, shape)
    ndim = np.ndim(x)
    own = np.shape(x)
    kept = [i for i in range(ndim) if own[i] != 1 or shape[len(shape) - ndim + i] == 1]
    squeezed = lax.reshape(x, [own[i] for i in kept])
    return lax.broadcast_in_dim(squeezed, shape, [len(shape) - ndim + i for i in kept])


# Blocks: what slices and scalars select, while dimensions indexed by arrays are kept whole.


def _bounds(indexer: NDIndexer, shape: Sequence[int]) -> Any:
    starts: list[Any] = []
    spans: list[int] = []
    strides: list[int] = []
    static = True
    for e, size in zip(indexer.indices, shape):
        if type(e) is Slice:
            starts.append(e.start)
            spans.append(e.span)
            strides.append(e.stride)
            static = static and not e.is_dynamic_start
        elif np.ndim(e):
            starts.append(0)
            spans.append(size)
            strides.append(1)
        else:
            if isinstance(e, (int, np.integer)):
                e = int(e) + size if e < 0 else int(e)
            else:
                static = False
                if dtypes.issubdtype(typeof(e).dtype, np.signedinteger):
                    e = lax.select(lax.lt(e, lax.const(e, 0)), lax.add(e, lax.const(e, size)), e)
            starts.append(e)
            spans.append(1)
            strides.append(1)
    return starts, spans, strides, static


def _same_dtype(starts: Sequence[Any]) -> list[Any]:
    """Convert start indices to one integer dtype, for `dynamic_slice`."""
    known = [typeof(s).dtype for s in starts if not isinstance(s, (int, np.integer))]
    dtype = known[0]
    for d in known[1:]:
        dtype = dtypes.promote_types(dtype, d)
    return [
        dtype.type(s) if isinstance(s, (int, np.integer)) else lax.convert_element_type(s, dtype)
        for s in starts
    ]


def _read_block(x: Any, indexer: NDIndexer) -> Any:
    shape = np.shape(x)
    starts, spans, strides, static = _bounds(indexer, shape)
    if static:
        limits = [a + n for a, n in zip(starts, spans)]
        if starts != [0] * len(shape) or limits != list(shape) or strides != [1] * len(shape):
            x = slicing.slice(x, starts, limits, strides)
    else:
        x = slicing.dynamic_slice(x, _same_dtype(starts), spans, allow_negative_indices=False)
        if any(s != 1 for s in strides):
            x = slicing.slice(x, [0] * len(spans), spans, strides)
    scalars = [i for i, e in enumerate(indexer.indices) if type(e) is not Slice and not np.ndim(e)]
    return lax.squeeze(x, scalars) if scalars else x


def _write_block(x: Any, indexer: NDIndexer, block: Any) -> Any:
    shape = np.shape(x)
    starts, spans, strides, static = _bounds(indexer, shape)
    scalars = [i for i, e in enumerate(indexer.indices) if type(e) is not Slice and not np.ndim(e)]
    if scalars:
        block = lax.expand_dims(block, scalars)
    if not all(np.shape(block)):
        return x
    if any(s != 1 for s in strides):
        # Strided elements cannot be updated alone: read the whole span, and keep what lies between.
        if static:
            around = slicing.slice(x, starts, [a + n for a, n in zip(starts, spans)])
        else:
            around = slicing.dynamic_slice(
                x, _same_dtype(starts), spans, allow_negative_indices=False
            )
        where = tuple(slice(None, None, s) for s in strides)
        block = around.at[where].set(block)
    if static:
        if np.shape(block) == shape:
            return block
        return slicing.dynamic_update_slice(x, block, [np.int32(s) for s in starts])
    return slicing.dynamic_update_slice(x, block, _same_dtype(starts), allow_negative_indices=False)


# Printing


def _name(x: Any, context: Any) -> str:
    if isinstance(x, (core.Var, core.Literal)):
        return core.pp_var(x, context, print_dtype=False)
    return str(x)


def _print_slice(s: Slice, size: int, context: Any) -> str:
    stride = "" if s.stride == 1 else f":{s.stride}"
    if s.is_dynamic_size:
        start = _name(s.start, context)
        return f"{start}:{start}+{_name(s.size, context)}{stride}"
    if s.is_dynamic_start:
        start = _name(s.start, context)
        return f"{start}:{start}+{s.size * s.stride}{stride}"
    if s.is_full(size):
        return ":"
    end = s.start + s.size * s.stride
    start = "" if s.start == 0 and end else str(s.start)
    return f"{start}:{'' if end >= size and s.size else end}{stride}"
