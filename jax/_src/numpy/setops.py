"""Set operations: unique elements, unions, intersections, differences, membership."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.device_put.functions import device_put
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy import reductions, util
from jax._src.numpy.indexing.parse import is_eager_array
from jax._src.numpy.manipulation.shape import operand, ravel
from jax._src.numpy.searching import elements_at, searchsorted
from jax._src.numpy.selecting import nonzero
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis

# ---------------------------------------------------------------------------------------------------
# Unique elements


@export
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """Finds the distinct elements of an array, or distinct slices, in ascending order.

    Args:
      ar: array.
      return_index: whether to return the index of the first occurrence of each.
      return_inverse: whether to return indices that reconstruct `ar` from the result.
      return_counts: whether to return the number of occurrences of each.
      axis: compare slices along this axis; None to compare elements of the flattened array.
      equal_nan: whether NaNs are equal to each other.
      size: static size of the result: further elements are cut off, missing ones are padded with
        `fill_value`. It is required if `ar` is traced.
      fill_value: padding value; None for the smallest element. Indices are padded with the first
        one, counts with 0.
      sorted: has no effect; the result is always sorted.

    Returns:
      The values, followed by those that are requested of: indices, inverse indices (of the shape of
        `ar`
      if `axis` is None) and counts.

    Raises:
      ValueError: if `axis` is out of range, or an empty array has to be padded without
        `fill_value`.
      TypeError: if `size` is negative.
      ConcretizationTypeError: if `ar` is traced and `size` is None.

    >>> values, counts = jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    >>> jnp.unique(jnp.array([3, 1, 3]), size=4).tolist()
    [1, 3, 1, 1]
    """
    ar = operand("unique", ar)
    size = _static_size("unique", size, ar)
    if axis is None:
        x, shape = ravel(ar), ar.shape
    else:
        axis = canonicalize_axis(axis, ar.ndim)
        x, shape = _axis_first(ar, axis), (ar.shape[axis],)
    if x.shape[0] == 0:
        outs = _unique_of_none(x, size, fill_value)
    else:
        outs = _unique(
            x, size, fill_value, bool(equal_nan), return_index, return_inverse, return_counts
        )
    values, index, inverse, counts = outs
    if axis is not None:
        values = _axis_back(values, axis)
    if return_inverse:
        inverse = lax.reshape(inverse, shape)
    wanted = [(index, return_index), (inverse, return_inverse), (counts, return_counts)]
    extra = [out for out, is_wanted in wanted if is_wanted]
    return (values, *extra) if extra else values


def _static_size(name: str, size: Any, *operands: Any) -> int | None:
    if size is None:
        for x in operands:
            core.concrete_or_error(
                None,
                x,
                f"The number of elements that jnp.{name} returns depends on their values. To use the "
                "function within JAX transformations, pass that number as the argument `size`.",
            )
        return None
    size = core.concrete_dim_or_error(
        operator.index, size, f"The argument `size` of jnp.{name} must be static."
    )
    if core.definitely_greater(0, size):
        raise TypeError(f"jnp.{name}: size must be nonnegative, got {size}")
    return size


def _axis_first(x, axis):
    return lax.transpose(x, [axis, *[d for d in range(x.ndim) if d != axis]])


def _axis_back(x, axis):
    order = list(range(1, x.ndim))
    order.insert(axis, 0)
    return lax.transpose(x, order)


def _unique_of_none(x, size, fill_value):
    size = size or 0
    if size and fill_value is None:
        raise ValueError(
            f"jnp.unique: there is no element to pad the result with, as the array {x.aval.str_short()} is "
            "empty: give a fill_value, or size=0."
        )
    none = lax.full((size,), 0, dtypes.default_int_dtype())
    fill = util.to_array(0 if fill_value is None else fill_value)
    values = util.broadcast_to(lax.convert_element_type(fill, x.dtype), (size, *x.shape[1:]))
    return values, none, lax.full((0,), 0, dtypes.default_int_dtype()), none


def _unique(x, size, fill_value, equal_nan, return_index, return_inverse, return_counts):
    values, order, first = _runs(
        x, equal_nan=equal_nan, ordered=bool(return_index or return_inverse) or x.ndim > 1
    )
    n = x.shape[0]
    if size is None and order is None and not return_counts and _is_on_host(values):
        return _choose_now(values, first), None, None, None
    # Find one position more than is needed: the next one ends a run. Positions past the end are n.
    if size is None:
        (places,) = nonzero(first)
        ends = lax.concatenate([places[1:], lax.const(places, [n])], 0) if return_counts else None
    else:
        (ends,) = nonzero(first, size=size + 1, fill_value=n)
        places, ends = ends[:-1], ends[1:]
    out = _pick_unique(values, order, places, fill_value)
    index = inverse = counts = None
    if return_index:
        index = elements_at(order, lax.rem(places, lax.const(places, n)))
    if return_inverse:
        inverse = _inverse(order, first)
    if return_counts:
        counts = lax.sub(ends, places)
    return out, index, inverse, counts


def _runs(x, *, equal_nan, ordered):
    """Sorts `x` or its slices; returns them, the sorting order if needed, and where runs begin."""
    order = None
    x = _one_nan(x)
    if x.ndim == 1:
        columns = [x]
    else:
        flat = lax.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        columns = [lax.squeeze(c, (1,)) for c in lax.split(flat, (1,) * int(flat.shape[1]), 1)]
    if not columns:  # slices without elements are all equal
        order = lax.iota(dtypes.default_int_dtype(), x.shape[0])
    elif ordered:
        places = lax.iota(dtypes.default_int_dtype(), x.shape[0])
        *columns, order = lax.sort((*columns, places), num_keys=len(columns))
    else:
        columns = [lax.sort(columns[0])]
    begins = lax.full((x.shape[0],), False, np.bool_)
    for column in columns:
        begins = lax.bitwise_or(begins, _differs_from_previous(column, equal_nan))
    is_first = lax.eq(lax.iota(np.int32, x.shape[0]), np.int32(0))
    values = columns[0] if x.ndim == 1 else x
    return values, order, lax.bitwise_or(begins, is_first)


_runs = nested_jit(_runs, static_argnames=("equal_nan", "ordered"))


def _one_nan(x):
    """Makes all complex NaNs identical, so that their other parts do not separate them in sorts."""
    if not dtypes.issubdtype(x.dtype, np.complexfloating):
        return x
    return util.select_where(lax.ne(x, x), np.array(np.nan, x.dtype), x)


def _differs_from_previous(x, equal_nan):
    before = lax.concatenate([x[:1], x[:-1]], 0)
    differs = lax.ne(x, before)
    if equal_nan and dtypes.issubdtype(x.dtype, np.inexact):
        both = lax.bitwise_and(lax.ne(x, x), lax.ne(before, before))
        differs = lax.bitwise_and(differs, lax.bitwise_not(both))
    return differs


def _is_on_host(x):
    if not is_eager_array(x) or x.weak_type:
        return False
    if dtypes.canonicalize_dtype(x.dtype) != x.dtype:  # made while 64-bit types were enabled
        return False
    return len(x.devices()) == 1 and x.device.platform == "cpu"


def _choose_now(x, chosen):
    """Selects by a mask on the host, since a result of unknown size cannot be compiled."""
    mask = np.asarray(chosen)
    if np.count_nonzero(mask) == len(mask):
        return x
    return device_put(np.asarray(x)[mask], x.device if x.committed else None)


def _pick_unique(values, order, places, fill_value):
    n = values.shape[0]
    inside = lax.rem(places, lax.const(places, n))  # positions past the end become 0
    if values.ndim == 1:
        out = elements_at(values, inside)
    else:
        out = values[elements_at(order, inside)]
    if fill_value is None:
        return out
    fill = lax.convert_element_type(util.to_array(fill_value), out.dtype)
    fill = util.broadcast_to(fill, out.shape)
    missing = lax.broadcast_in_dim(lax.eq(places, lax.const(places, n)), out.shape, (0,))
    return lax.select(missing, fill, out)


def _inverse(order, first):
    rank = lax.sub(lax.cumsum(lax.convert_element_type(first, order.dtype)), lax.one(order))
    return lax.full_like(order, 0).at[order].set(rank, unique_indices=True)


_inverse = nested_jit(_inverse)


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


@export
def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueAllResult:
    """Returns distinct elements with their first indices, inverse indices and counts.

    NaNs are all distinct. See `unique` for `size` and `fill_value`.

    Args:
      x: array.
      size, fill_value: as for `unique`.

    Returns:
      A named tuple `(values, indices, inverse_indices, counts)`.

    >>> jnp.unique_all(jnp.array([3, 1, 3])).indices.tolist()
    [1, 0]
    """
    options = dict(equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueAllResult(*unique(x, True, True, True, **options))


@export
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueCountsResult:
    """Returns distinct elements and their counts; see `unique_all`.

    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    options = dict(equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueCountsResult(*unique(x, return_counts=True, **options))


@export
def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueInverseResult:
    """Returns distinct elements and the inverse indices; see `unique_all`.

    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    options = dict(equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueInverseResult(*unique(x, return_inverse=True, **options))


@export
def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Returns the distinct elements; see `unique_all`.

    >>> jnp.unique_values(jnp.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ---------------------------------------------------------------------------------------------------
# Set operations on two arrays


@export
def union1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Returns the elements that are in either array, in ascending order.

    Args:
      ar1, ar2: arrays.
      size, fill_value: as for `unique`.

    Returns:
      A sorted vector.

    >>> jnp.union1d(jnp.array([1, 2]), jnp.array([2, 3])).tolist()
    [1, 2, 3]
    """
    both = _vectors("union1d", ar1, ar2)
    size = _static_size("union1d", size, *both)
    return unique(lax.concatenate(both, 0), size=size, fill_value=fill_value)


def _vectors(name, ar1, ar2):
    ar1, ar2 = util.promote_dtypes(*util.ensure_arraylike(name, ar1, ar2))
    return [ravel(util.to_array(x)) for x in (ar1, ar2)]


@export
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Returns the elements that are in both arrays, in ascending order.

    Args:
      ar1, ar2: arrays.
      assume_unique: promise that no array has duplicates; it has no effect.
      return_indices: whether to return the first index of each in both flattened arrays.
      size: static size of the result: further elements are cut off, missing ones are padded with
        `fill_value`, and indices with the size of their array. It is required if an array is
        traced.
      fill_value: padding value; None for the smallest element of the result.

    Returns:
      A sorted vector; with `return_indices` a tuple of it and two index vectors.

    Raises:
      ConcretizationTypeError: if an array is traced and `size` is None.

    >>> jnp.intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3, 5])).tolist()
    [2, 3]
    """
    ar1, ar2 = _vectors("intersect1d", ar1, ar2)
    size = _static_size("intersect1d", size, ar1, ar2)
    values, order, _, _, crossing, start = _merged(ar1, ar2)
    n = values.shape[0]
    places = _places(crossing, size)
    out = _pick(values, places, fill_value, smallest=True)
    if not return_indices:
        return out
    n1, n2 = ar1.shape[0], ar2.shape[0]
    if n == 0:
        return (
            out,
            lax.full(places.shape, n1, places.dtype),
            lax.full(places.shape, n2, places.dtype),
        )
    inside = lax.min(places, lax.const(places, n - 1))
    next_place = lax.min(lax.add(inside, lax.one(inside)), lax.const(inside, n - 1))
    missing = lax.eq(places, lax.const(places, n))
    in_first = elements_at(order, elements_at(start, inside))
    in_second = lax.sub(elements_at(order, next_place), lax.const(order, n1))
    return (
        out,
        lax.select(missing, lax.full_like(in_first, n1), in_first),
        lax.select(missing, lax.full_like(in_second, n2), in_second),
    )


def _merged(ar1, ar2):
    """Sorts both arrays together; on ties, elements of the first array come first.

    Returns:
      values: the sorted values.
      order: their positions in the concatenated arrays.
      first: where runs of equal values begin.
      mixed: whether each element is in a run with elements of both arrays.
      crossing: the last element of the first array in each such run.
      start: the position where each element's run begins.
    """
    both = _one_nan(lax.concatenate([ar1, ar2], 0))
    n = both.shape[0]
    places = lax.iota(dtypes.default_int_dtype(), n)
    values, order = lax.sort((both, places), num_keys=1)
    of_second = lax.ge(order, lax.const(order, ar1.shape[0]))
    differs = _differs_from_previous(values, equal_nan=True)
    # NaNs are equal within an array, but differ from those of the other one.
    nan = lax.ne(values, values)
    changes = lax.ne(of_second, lax.concatenate([of_second[:1], of_second[:-1]], 0))
    first = lax.bitwise_or(differs, lax.eq(places, lax.const(places, 0)))
    first = lax.bitwise_or(first, lax.bitwise_and(nan, changes))
    crosses = lax.bitwise_and(changes, lax.bitwise_not(first))
    crossing = lax.concatenate([crosses[1:], lax.full((builtins.min(n, 1),), False, np.bool_)], 0)
    run = lax.sub(lax.cumsum(lax.convert_element_type(first, places.dtype)), lax.const(places, 1))
    mixed = lax.full((n,), False, np.bool_).at[run].max(crosses)[run]
    start = lax.cummax(lax.select(first, places, lax.full_like(places, 0)))
    return values, order, first, mixed, crossing, start


_merged = nested_jit(_merged)


def _places(mask, size):
    """Returns the positions where a mask is set; missing ones, up to `size`, are past the end."""
    if size is None:
        return nonzero(mask)[0]
    return nonzero(mask, size=size, fill_value=mask.shape[0])[0]


def _pick(values, places, fill_value, smallest):
    """Gathers elements at positions, and fill values for positions past the end."""
    n = values.shape[0]
    fill = 0 if fill_value is None else fill_value
    fill = lax.convert_element_type(util.to_array(fill), values.dtype)
    fill = util.broadcast_to(fill, places.shape)
    if n == 0 or places.shape[0] == 0:
        return fill
    out = elements_at(values, lax.min(places, lax.const(places, n - 1)))
    missing = lax.eq(places, lax.const(places, n))
    if fill_value is None and smallest:
        there = lax.select(missing, util.broadcast_to(out[:1], out.shape), out)
        least = lax.broadcast(reductions.min(there), out.shape)  # NaN if there is any
        fill = lax.select(util.broadcast_to(missing[:1], out.shape), fill, least)
    return lax.select(missing, fill, out)


@export
def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Returns the elements of `ar1` that are not in `ar2`, in ascending order.

    Args:
      ar1: array.
      ar2: elements to exclude.
      assume_unique: promise that `ar1` has no duplicates; the result is then in the order of `ar1`.
      size: static size of the result: further elements are cut off, missing ones are padded with
        `fill_value`. It is required if an array is traced.
      fill_value: padding value; None for 0.

    Returns:
      A vector of the dtype of `ar1`, sorted unless `assume_unique`.

    Raises:
      ConcretizationTypeError: if an array is traced and `size` is None.

    >>> jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([2, 5])).tolist()
    [1, 3]
    """
    ar1, ar2 = util.ensure_arraylike("setdiff1d", ar1, ar2)
    size = _static_size("setdiff1d", size, ar1, ar2)
    x = ravel(util.to_array(ar1))
    keep = lax.full(x.shape, True, np.bool_)
    if not assume_unique and x.shape[0]:
        x, _, keep = _runs(x, equal_nan=True, ordered=False)
    keep = lax.bitwise_and(keep, isin(x, ar2, invert=True))
    return _pick(x, _places(keep, size), fill_value, smallest=False)


@export
def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Returns the elements that are in exactly one of two arrays, in ascending order.

    Args:
      ar1, ar2: arrays.
      assume_unique: promise that no array has duplicates; it has no effect.
      size: static size of the result: further elements are cut off, missing ones are padded with
        `fill_value`. It is required if an array is traced.
      fill_value: padding value; None for the smallest element of the result.

    Returns:
      A sorted vector.

    Raises:
      ConcretizationTypeError: if an array is traced and `size` is None.

    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3])).tolist()
    [1, 3]
    """
    ar1, ar2 = _vectors("setxor1d", ar1, ar2)
    size = _static_size("setxor1d", size, ar1, ar2)
    values, _, first, mixed, _, _ = _merged(ar1, ar2)
    places = _places(lax.bitwise_and(first, lax.bitwise_not(mixed)), size)
    return _pick(values, places, fill_value, smallest=True)


# ---------------------------------------------------------------------------------------------------
# Membership

_METHODS = ("compare_all", "binary_search", "sort", "auto")
# For up to this many test elements, comparing all pairs is fastest.
_FEW = 32


@export
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Tests elementwise whether elements of an array are in another.

    Args:
      element: array.
      test_elements: array of elements to test against.
      assume_unique: has no effect.
      invert: whether to return the negated result.
      method: "compare_all" compares all pairs; "binary_search" and "sort" sort `test_elements` and
        use `searchsorted` with method "scan" or "sort"; "auto" chooses.

    Returns:
      A boolean array of the shape of `element`. NaNs are in no array.

    Raises:
      ValueError: if `method` is unknown.

    >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1])).tolist()
    [True, False, True]
    """
    element, test_elements = util.ensure_arraylike("isin", element, test_elements)
    if method not in _METHODS:
        raise ValueError(
            f"method={method!r} is not implemented; options are 'compare_all', 'binary_search', 'sort', and "
            "'auto'"
        )
    return _isin(element, test_elements, invert=bool(invert), method=method)


def _isin(element, test_elements, *, invert, method):
    x, among = util.promote_dtypes(element, test_elements)
    x, among = util.to_array(x), ravel(util.to_array(among))
    n = among.shape[0]
    if method == "auto":
        few = core.is_constant_dim(n) and n <= _FEW
        method = "compare_all" if few else "binary_search"
    if n == 0 or x.size == 0:
        found = lax.full(x.shape, False, np.bool_)
    elif method == "compare_all":
        shape = (*x.shape, n)
        same = lax.eq(
            lax.broadcast_in_dim(x, shape, range(x.ndim)),
            lax.broadcast_in_dim(among, shape, (x.ndim,)),
        )
        found = lax.reduce_or(same, axes=(x.ndim,))
    else:
        among = lax.sort(among)
        places = searchsorted(among, x, method="sort" if method == "sort" else "scan")
        found = lax.eq(elements_at(among, lax.min(places, lax.const(places, n - 1))), x)
    found = lax.convert_element_type(found, np.bool_)  # not weakly typed, as numbers may be
    return lax.bitwise_not(found) if invert else found


_isin = nested_jit(_isin, static_argnames=("invert", "method"))
