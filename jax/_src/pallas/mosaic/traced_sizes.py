"""Copies of slices of traced size where kernels are programs of XLA, whose arrays have static sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.core import typeof
from jax._src.indexing import Slice
from jax._src.lax import lax
from jax._src.numpy.indexing.functions import take
from jax._src.pallas.values import uninitialized_scalar
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import apply_transforms, update_view
from jax._src.state.types import transform_type

# A view: an array, and the transforms to the part that is copied.
View = tuple[Any, tuple[Any, ...]]


def shape_and_dtype(transforms: Sequence[Any], aval: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the shape, of which sizes can be traced, and the dtype of a view of an array."""
    if transforms and isinstance(transforms[-1], NDIndexer):
        *transforms, last = transforms
        return tuple(last.get_indexer_shape()), transform_type(transforms, aval).dtype
    aval = transform_type(transforms, aval)
    return tuple(aval.shape), aval.dtype


def view_shape(view: View) -> tuple[Any, ...]:
    """Return the shape of a view, of which sizes can be traced."""
    x, transforms = view
    return shape_and_dtype(transforms, typeof(x))[0]


def read(src: View, dst: View) -> Any:
    """Return what a view has; where its size, or that of the target, is traced, with elements after it.

    The size is then the greatest that both can have. Elements out of bounds have no value.
    """
    if not _is_traced(src, dst):
        return apply_transforms(*src)
    bounds = _bounds(src, dst)
    part = _Part(src, bounds)
    out = part.region
    fill = uninitialized_scalar(out.dtype)
    for axis, bound in enumerate(bounds):
        place = lax.add(lax.iota(np.int32, bound), part.shifts[axis])
        if bound != out.shape[axis] or not isinstance(part.shifts[axis], np.int32):
            out = take(out, place, axis, mode="fill", fill_value=fill)
    return out


def written(dst: View, value: Any, add: bool, src: View) -> Any:
    """Return an array after what `read` gave is written to a view of it."""
    if not _is_traced(src, dst):
        return update_view(*dst, value, add)
    bounds = _bounds(src, dst)
    part = _Part(dst, bounds)
    sizes = [
        a if isinstance(b, (int, np.integer)) else b
        for a, b in zip(view_shape(src), view_shape(dst))
    ]
    keep: Any = None
    for axis, size in enumerate(sizes):
        place = lax.sub(lax.iota(np.int32, part.region.shape[axis]), part.shifts[axis])
        value = take(value, place, axis, mode="clip")
        zero, end = np.int32(0), lax.convert_element_type(size, np.int32)
        inside = lax.bitwise_and(lax.ge(place, zero), lax.lt(place, end))
        inside = lax.broadcast_in_dim(inside, part.region.shape, [axis])
        keep = inside if keep is None else lax.bitwise_and(keep, inside)
    new = lax.add(part.region, value) if add else value
    return update_view(*part.view, lax.select(keep, new, part.region))


def _is_traced(*views: View) -> bool:
    return not all([isinstance(d, (int, np.integer)) for v in views for d in view_shape(v)])


def _last_index(view: View) -> tuple[tuple[Any, ...], NDIndexer]:
    """Return the transforms before the last index, and the last index."""
    x, transforms = view
    if transforms and isinstance(transforms[-1], NDIndexer):
        last = transforms[-1]
        if last.has_arrays or any([isinstance(e, Slice) and e.stride != 1 for e in last.indices]):
            raise NotImplementedError(
                "A copy with a slice of traced size, and one at an array of positions or with a stride."
            )
        return transforms[:-1], last
    shape = view_shape(view)
    return transforms, NDIndexer([Slice(0, d) for d in shape], shape)


def _bounds(src: View, dst: View) -> list[int]:
    """Return the greatest size that both views can have, by dimension."""
    both = []
    for view in (src, dst):
        _, last = _last_index(view)
        both.append(
            [
                d if e.is_dynamic_size else min(e.size, d)
                for e, d in zip(last.indices, last.shape)
                if isinstance(e, Slice)
            ]
        )
    return [min(pair) for pair in zip(*both)]


class _Part:
    """The part of an array that has a view of given bounds, where it is within the array.

    Attributes:
      view: the array, and the transforms to the part.
      region: the part.
      shifts: by dimension, how much later than the part the view starts.
    """

    def __init__(self, view: View, bounds: Sequence[int]):
        x, _ = view
        transforms, last = _last_index(view)
        entries: list[Any] = []
        self.shifts: list[Any] = []
        sizes = iter(bounds)
        for e, d in zip(last.indices, last.shape):
            if not isinstance(e, Slice):
                entries.append(e)
                continue
            n = min(next(sizes), d)
            if not e.is_dynamic_start:
                start: Any = min(e.start, d - n)
                shift = np.int32(e.start - start)
            else:
                given = lax.convert_element_type(e.start, np.int32)
                start = lax.min(given, np.int32(d - n))
                shift = lax.sub(given, start)
            entries.append(Slice(start, n))
            self.shifts.append(shift)
        self.view = x, (*transforms, NDIndexer(entries, last.shape))
        self.region = apply_transforms(*self.view)
