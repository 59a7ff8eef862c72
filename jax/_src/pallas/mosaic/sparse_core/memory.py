"""Reading and writing of SparseCores' memory: at positions, compressed, adding, on other subcores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, ReadEffect, ShapedArray, WriteEffect, typeof
from jax._src.debugging import debug_effect
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lax.lax.cumulative import cumsum
from jax._src.numpy.util import to_array
from jax._src.pallas.mosaic.core import MemorySpace
from jax._src.pallas.mosaic.sparse_core.vectors import checked_mask
from jax._src.state.primitives import apply_transforms, ref_addupdate, update_view
from jax._src.state.types import ref_and_transforms, transform_type
from jax._src.tree_util import tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)

# The operands are the reference, and the leaves of (transforms, indices, value, mask); `indices` is None for accesses
# that are compressed, `value` for those that read, `mask` where all elements are meant.
load_at_p = Primitive("load_at")
store_at_p = Primitive("store_at", multiple_results=True)
store_at_p.ref_primitive = True


def _access(p: Primitive, ref: Any, indices: Any, value: Any, mask: Any, **params: Any) -> Any:
    ref, transforms = ref_and_transforms(ref, p.name)
    flat, tree = tree_flatten((transforms, indices, value, mask))
    return p.bind(ref, *flat, tree=tree, **params)


def _ref_type(ref: Any, name: str) -> Any:
    ref, transforms = ref_and_transforms(ref, name)
    return transform_type(transforms, typeof(ref).inner_aval)  # type: ignore[attr-defined]


def _checked_indices(ref: Any, indices: Any, mask: Any, name: str) -> tuple[Any, tuple[Any, ...]]:
    aval = _ref_type(ref, name)
    if not isinstance(indices, Sequence):
        raise TypeError(f"{name} takes a sequence of vectors of indices, got {indices!r}.")
    types: list[Any] = [typeof(i) for i in indices]
    shown = ", ".join([t.str_short() for t in types])
    if len(types) != len(aval.shape):
        raise ValueError(
            f"{name}: {len(types)} indices for a reference of {len(aval.shape)} dimensions."
        )
    if any([len(t.shape) != 1 for t in types]) or len({t.shape for t in types}) != 1:
        raise ValueError(f"{name}: indices must be vectors of one size, got {shown}.")
    if any([not dtypes.issubdtype(t.dtype, np.integer) for t in types]):
        raise TypeError(f"{name}: indices must be integers, got {shown}.")
    if mask is not None:
        checked_mask(mask, types[0].shape, name)
    return aval, types[0].shape


def _check_value(x: Any, shape: tuple[int, ...], dtype: Any, name: str) -> None:
    aval: Any = typeof(x)
    if aval.dtype != dtype:
        raise TypeError(
            f"{name}: {aval.str_short()} for a reference to {dtypes.dtype_name(dtype)}."
        )
    if aval.shape != shape:
        raise ValueError(f"{name}: the value must have the shape {shape}, got {aval.str_short()}.")


def load_gather(ref: Any, indices: Sequence[Any], *, mask: Any = None) -> Any:
    """Read elements of a reference at positions.

    Args:
      ref: reference in `pltpu.VMEM`, or a view of one.
      indices: a vector of positions for each of its dimensions.
      mask: which elements are read; others have no meaningful value.

    Returns:
      A vector.

    Raises:
      TypeError, ValueError: if there are more or fewer vectors, or they are not of one size.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> def kernel(x_ref, i_ref, o_ref):
    ...   o_ref[...] = plsc.load_gather(x_ref, [i_ref[...]])
    >>> out = jax.ShapeDtypeStruct((2,), jnp.float32)
    >>> pl.pallas_call(kernel, out, interpret=True)(jnp.array([1., 2., 3.]), jnp.array([2, 0]))
    Array([3., 1.], dtype=float32)
    """
    _checked_indices(ref, indices, mask, "load_gather")
    return _access(load_at_p, ref, tuple(indices), None, mask)


def store_scatter(ref: Any, indices: Sequence[Any], x: Any, *, mask: Any = None) -> None:
    """Write elements of a reference at positions.

    Args:
      ref: reference in `pltpu.VMEM`, or a view of one.
      indices: a vector of positions for each of its dimensions.
      x: vector of as many elements.
      mask: which elements are written.
    """
    _scatter(ref, indices, x, mask, False, "store_scatter")


def addupdate_scatter(ref: Any, indices: Sequence[Any], x: Any, *, mask: Any = None) -> None:
    """Add to elements of a reference at positions; a position can be there several times.

    Args:
      ref, indices, x, mask: as for `store_scatter`.
    """
    _scatter(ref, indices, x, mask, True, "addupdate_scatter")


def _scatter(ref: Any, indices: Any, x: Any, mask: Any, add: bool, name: str) -> None:
    aval, shape = _checked_indices(ref, indices, mask, name)
    _check_value(x, shape, aval.dtype, name)
    _access(store_at_p, ref, tuple(indices), x, mask, add=add)


def load_expanded(ref: Any, *, mask: Any) -> Any:
    """Read the first elements of a reference, one for each true element of a mask.

    Args:
      ref: reference in `pltpu.VMEM`, or a view of one.
      mask: booleans of its shape.

    Returns:
      An array with the elements where the mask is true; others have no meaningful value.
    """
    _check_compressed(ref, mask, "load_expanded")
    return _access(load_at_p, ref, None, None, mask)


def store_compressed(ref: Any, x: Any, *, mask: Any) -> None:
    """Write the elements of an array for which a mask is true, one after the other.

    Args:
      ref: reference in `pltpu.VMEM`, or a view of one, of which the first elements are written.
      x: array of its shape.
      mask: booleans of its shape.
    """
    aval = _check_compressed(ref, mask, "store_compressed")
    _check_value(x, aval.shape, aval.dtype, "store_compressed")
    _access(store_at_p, ref, None, x, mask, add=False)


def addupdate_compressed(ref: Any, x: Any, *, mask: Any) -> None:
    """Add the elements of an array for which a mask is true to the first ones of a reference.

    Args:
      ref, x, mask: as for `store_compressed`.
    """
    aval = _check_compressed(ref, mask, "addupdate_compressed")
    _check_value(x, aval.shape, aval.dtype, "addupdate_compressed")
    _access(store_at_p, ref, None, x, mask, add=True)


def _check_compressed(ref: Any, mask: Any, name: str) -> Any:
    aval = _ref_type(ref, name)
    if len(aval.shape) != 1:
        raise ValueError(f"{name} takes a view of one dimension, got one of shape {aval.shape}.")
    checked_mask(mask, aval.shape, name)
    return aval


def addupdate(ref: Any, x: Any) -> None:
    """Add an array to what a reference holds, at once.

    Args:
      ref: reference in `pltpu.VMEM`, or a view of one.
      x: array of its shape and dtype.
    """
    aval = _ref_type(ref, "addupdate")
    _check_value(x, aval.shape, aval.dtype, "addupdate")
    ref_addupdate(ref, None, x)


@load_at_p.def_effectful_abstract_eval
def _load_types(ref: Any, *flat: Any, tree: Any) -> Any:
    _, indices, _, mask = tree_unflatten(tree, flat)
    shape = mask.shape if indices is None else indices[0].shape
    return ShapedArray(shape, ref.inner_aval.dtype), {ReadEffect(0)}


@store_at_p.def_effectful_abstract_eval
def _store_types(ref: Any, *flat: Any, tree: Any, add: bool) -> Any:
    return [], {WriteEffect(0), *([ReadEffect(0)] if add else [])}


def positions_of(indices: Any, mask: Any, size: int) -> tuple[Any, ...]:
    """Return the positions of an access; those that the mask leaves out are beyond the array.

    Args:
      indices: vectors of positions, or None for an access that is compressed.
      mask: which elements are meant, or None for all.
      size: that of the first dimension.
    """
    if indices is None:
        indices = (cumsum(lax.convert_element_type(mask, np.int32), 0) - np.int32(1),)
    indices = tuple([lax.convert_element_type(i, np.int32) for i in indices])
    if mask is None:
        return indices
    first = lax.select(mask, indices[0], lax.full_like(indices[0], size))
    return (first, *indices[1:])


def loaded(x: Any, indices: Any, mask: Any) -> Any:
    """Return the elements of an array at positions."""
    at = positions_of(indices, mask, x.shape[0])
    return to_array(x).at[at].get(mode="clip")


def stored(x: Any, indices: Any, value: Any, mask: Any, add: bool) -> Any:
    """Return an array after elements at positions are written, or added to."""
    place = to_array(x).at[positions_of(indices, mask, x.shape[0])]
    return place.add(value, mode="drop") if add else place.set(value, mode="drop")


def _load_discharge(should: Any, ins: Any, outs: Any, x: Any, *flat: Any, tree: Any) -> Any:
    transforms, indices, _, mask = tree_unflatten(tree, flat)
    part = apply_transforms(x, transforms)
    return (None,) * (1 + len(flat)), [loaded(part, indices, mask)]


def _store_discharge(
    should: Any, ins: Any, outs: Any, x: Any, *flat: Any, tree: Any, add: bool
) -> Any:
    transforms, indices, value, mask = tree_unflatten(tree, flat)
    part = stored(apply_transforms(x, transforms), indices, value, mask, add)
    return (update_view(x, transforms, part), *[None] * len(flat)), []


load_at_p.discharge = _load_discharge
store_at_p.discharge = _store_discharge


# Other subcores

# The operands are the reference, the value, the subcore, and the leaves of views.
fetch_and_add_p = Primitive("fetch_and_add")


def fetch_and_add(x_ref: Any, value: Any, *, subcore_id: Any) -> Any:
    """Add to a number on another vector subcore of the same core, at once.

    Args:
      x_ref: a scalar int32 in `pltpu.SMEM`, such as `ref.at[0]`.
      value: what is added.
      subcore_id: on which subcore.

    Returns:
      What the number was before.

    Raises:
      ValueError, NotImplementedError: if it is no such number.
    """
    ref, transforms = ref_and_transforms(x_ref, "fetch_and_add")
    ref_type: Any = typeof(ref)
    aval = transform_type(transforms, ref_type.inner_aval)
    if ref_type.memory_space is not MemorySpace.SMEM:
        raise ValueError(f"fetch_and_add takes references in SMEM, got {ref_type.str_short()}.")
    if aval.shape:
        raise ValueError(f"fetch_and_add takes a view of one number, got the shape {aval.shape}.")
    if aval.dtype != np.int32:
        raise NotImplementedError(
            f"fetch_and_add takes int32, got {dtypes.dtype_name(aval.dtype)}."
        )
    flat, tree = tree_flatten(transforms)
    number = lambda x: lax.convert_element_type(x, np.int32)
    return fetch_and_add_p.bind(ref, number(value), number(subcore_id), *flat, tree=tree)


@fetch_and_add_p.def_effectful_abstract_eval
def _fetch_types(ref: Any, value: Any, *_: Any, tree: Any) -> Any:
    return ShapedArray((), np.dtype(np.int32)), {ReadEffect(0), WriteEffect(0)}


def _no_other_subcores(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "Subcores wait for each other, and reach each other's memory, in kernels that are compiled, or interpreted with "
        "pltpu.InterpretParams(); interpret=True runs one after the other."
    )


fetch_and_add_p.discharge = _no_other_subcores

subcore_barrier_p = Primitive("subcore_barrier", multiple_results=True)


def subcore_barrier() -> None:
    """Wait until all vector subcores of the same core have come here."""
    subcore_barrier_p.bind()


@subcore_barrier_p.def_effectful_abstract_eval
def _barrier_types() -> Any:
    return [], {debug_effect}


mlir.register_lowering(subcore_barrier_p, _no_other_subcores)
