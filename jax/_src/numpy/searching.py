"""`searchsorted`, `digitize`, `bincount` and histograms."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax, slicing
from jax._src.lax.utils import index_dtype_for_axis_size
from jax._src.numpy import util
from jax._src.numpy.array_creation import linspace
from jax._src.numpy.bisection import before, bisect, elements_at
from jax._src.numpy.manipulation.shape import operand, ravel
from jax._src.numpy.ufuncs_binary import greater_equal
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike

METHODS = ("compare_all", "scan", "scan_unrolled", "sort")


@export
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Finds where to insert values into a sorted array to keep it sorted.

    Args:
      a: vector sorted in ascending order, or by `sorter`.
      v: values to search for; any shape.
      side: for values equal to elements of `a`: "left" for the position before them, "right" after.
      sorter: indices that sort `a`.
      method: "scan" and "scan_unrolled" bisect, best on CPUs or for few values; "sort" sorts both
        arrays together; "compare_all" compares all pairs, best for short arrays.

    Returns:
      An integer array of the shape of `v`.

    Raises:
      ValueError: if `side` or `method` is unknown, or `a` is not a vector.

    >>> jnp.searchsorted(jnp.array([1, 2, 2, 5]), jnp.array([0, 2, 9])).tolist()
    [0, 1, 4]
    """
    if sorter is None:
        a, v = util.ensure_arraylike("searchsorted", a, v)
    else:
        a, v, sorter = util.ensure_arraylike("searchsorted", a, v, sorter)
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    if method not in METHODS:
        raise ValueError(f"invalid argument method={method!r}, expected one of {[*METHODS]}")
    if a.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    return searchsorted_arrays(a, v, sorter, side=side, method=method)


def searchsorted_arrays(a, v, sorter, *, side, method):
    a, v = (util.to_array(x) for x in util.promote_dtypes(a, v))
    n = a.shape[0]
    dtype = index_dtype_for_axis_size(n)
    if core.definitely_equal(n, 0):
        return lax.full(v.shape, 0, dtype)
    if sorter is not None:
        a = elements_at(a, lax.convert_element_type(sorter, np.int32))
    if method == "compare_all":
        return _compare_all(a, v, side, dtype)
    if method == "sort":
        return _search_by_sorting(a, v, side, dtype)
    return bisect(a, v, side, dtype, unrolled=method == "scan_unrolled")


searchsorted_arrays = nested_jit(searchsorted_arrays, static_argnames=("side", "method"))


def _compare_all(a, v, side, dtype):
    shape = (*v.shape, a.shape[0])
    smaller = before(
        lax.broadcast_in_dim(a, shape, (v.ndim,)),
        lax.broadcast_in_dim(v, shape, tuple(range(v.ndim))),
        side == "left",
    )
    return lax.reduce_sum(lax.convert_element_type(smaller, dtype), axes=(v.ndim,))


def _search_by_sorting(a, v, side, dtype):
    flat = ravel(v)
    n, m = a.shape[0], flat.shape[0]
    both = [flat, a] if side == "left" else [a, flat]
    # The sort is stable, so on ties the array that comes first in `both` stays first.
    places = lax.iota(dtype, n + m)
    _, order = lax.sort((lax.concatenate(both, 0), places), num_keys=1)
    if side == "left":
        is_mine = lax.lt(order, lax.const(order, m))
    else:
        is_mine = lax.ge(order, lax.const(order, n))
    counts = lax.cumsum(lax.convert_element_type(lax.bitwise_not(is_mine), dtype))
    # Undo the sort: `found` has for each query, in its original order, the elements of `a` before
    # it.
    _, found = lax.sort((order, counts), num_keys=1)
    start = 0 if side == "left" else n
    return lax.reshape(slicing.slice_in_dim(found, start, start + m), v.shape)


@export
def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """Finds the bin that each value belongs to.

    Args:
      x: values; any shape.
      bins: vector of bin edges, in ascending or descending order.
      right: whether bins include their right edge instead of the left one.
      method: as for `searchsorted`.

    Returns:
      An integer array of the shape of `x`: `i` where `bins[i-1] <= x < bins[i]` for ascending and
      `bins[i-1] > x >= bins[i]` for descending bins.

    Raises:
      ValueError: if `bins` is not a vector.

    >>> jnp.digitize(jnp.array([0.5, 1., 7.]), jnp.array([0., 1., 2.])).tolist()
    [1, 2, 3]
    """
    x, bins = util.ensure_arraylike("digitize", x, bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {bins=}")
    if method is not None and method not in METHODS:
        raise ValueError(f"invalid argument method={method!r}, expected one of {[*METHODS]}")
    return _digitize(x, bins, right=bool(right), method=method or "scan")


def _digitize(x, bins, *, right, method):
    n = bins.shape[0]
    if n == 0:
        return lax.full(x.shape, 0, dtypes.default_int_dtype())
    side = "left" if right else "right"
    if n == 1:
        return searchsorted_arrays(bins, x, None, side=side, method=method)
    first = slicing.index_in_dim(bins, 0, keepdims=False)
    last = slicing.index_in_dim(bins, -1, keepdims=False)
    # When tracing it is not known whether `bins` ascends or descends.
    ascends = greater_equal(last, first)
    bins = lax.select(ascends, bins, lax.rev(bins, (0,)))
    place = searchsorted_arrays(bins, x, None, side=side, method=method)
    return lax.select(ascends, place, lax.sub(lax.const(place, n), place))


_digitize = nested_jit(_digitize, static_argnames=("right", "method"))


@export
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Counts how often each non-negative integer occurs.

    Args:
      x: vector of integers; negative ones count as 0.
      weights: vector of values to add up instead of ones.
      minlength: minimum size of the result.
      length: static size of the result; larger integers are ignored. It is required if `x` is
        traced.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      A vector; element i is the count, or the total weight, of the integer i.

    Raises:
      TypeError: if `x` does not have an integer dtype.
      ValueError: if `x` is not a vector, or `weights` has a different shape.
      ConcretizationTypeError: if `x` is traced and `length` is None.

    >>> jnp.bincount(jnp.array([1, 1, 2, 3, 3, 3])).tolist()
    [0, 2, 1, 3]
    """
    x = operand("bincount", x)
    if not dtypes.issubdtype(x.dtype, np.integer) and x.dtype != np.bool_:
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = core.concrete_or_error(
        operator.index,
        minlength,
        "The error occurred because of argument 'minlength' of jnp.bincount.",
    )
    if length is None:
        context = (
            "The error occurred because of argument 'x' of jnp.bincount. To avoid this error, pass a static "
            "`length` argument."
        )
        length = max(minlength, util.known_bounds(x, context)[1] + 1 if x.size else 0, 0)
    else:
        length = core.concrete_dim_or_error(
            operator.index,
            length,
            "The error occurred because of argument 'length' of jnp.bincount.",
        )
    if weights is not None:
        weights = operand("bincount", weights)
        if weights.shape != x.shape:
            raise ValueError(
                f"shape of weights must match shape of x. Got x of type {core.typeof(x).str_short()} and "
                f"weights of type {core.typeof(weights).str_short()}"
            )
    return _bincount(x, weights, length=length, out_sharding=out_sharding)


def _bincount(x, weights, *, length, out_sharding=None):
    if weights is None:
        weights = lax.full(x.shape, 1, dtypes.default_int_dtype())
    if x.dtype == np.bool_:
        x = lax.convert_element_type(x, np.int32)
    if out_sharding is None:
        # The last bin, for what is too large, is dropped: so the scatter clips on both sides.
        zeros = lax.full((length + 1,), 0, weights.dtype)
        mode = slicing.GatherScatterMode.CLIP
    else:
        x = lax.max(x, lax.const(x, 0))
        zeros = lax.reshape(
            lax.full((length,), 0, weights.dtype), (length,), out_sharding=out_sharding
        )
        mode = slicing.GatherScatterMode.FILL_OR_DROP
    dnums = slicing.ScatterDimensionNumbers((), (0,), (0,))
    counts = slicing.scatter_add(zeros, lax.expand_dims(x, (1,)), weights, dnums, mode=mode)
    return counts if out_sharding is not None else slicing.slice_in_dim(counts, 0, length)


_bincount = nested_jit(_bincount, static_argnames=("length", "out_sharding"))


# ---------------------------------------------------------------------------------------------------
# Histograms


@export
def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: None | Array | Sequence[ArrayLike] = None,
    weights: ArrayLike | None = None,
) -> Array:
    """Computes the bin edges that `histogram` uses.

    Args:
      a: data.
      bins: number of bins of equal width, or a vector of edges.
      range: the first and the last edge; None for the minimum and maximum of `a`.
      weights: unused.

    Returns:
      A floating-point vector with one element more than there are bins.

    Raises:
      NotImplementedError: if `bins` is a string.

    >>> jnp.histogram_bin_edges(jnp.array([0., 4.]), bins=2).tolist()
    [0.0, 2.0, 4.0]
    """
    del weights
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    util.check_arraylike("histogram_bin_edges", a, bins)
    a = util.to_array(a)
    if np.ndim(bins) == 1:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(a, bins))
        return lax.convert_element_type(bins, dtypes.canonicalize_dtype(dtype))
    count = core.concrete_dim_or_error(operator.index, bins, "bins argument of histogram_bin_edges")
    dtype = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a.dtype))
    if range is None:
        if not a.size:
            raise ValueError("zero-size array to reduction operation min which has no identity")
        flat = ravel(a)
        low, high = lax.reduce_min(flat, axes=(0,)), lax.reduce_max(flat, axes=(0,))
    else:
        low, high = range
    low, high = lax.convert_element_type(low, dtype), lax.convert_element_type(high, dtype)
    # Widen an empty range to 1.
    flat_range = lax.eq(low, high)
    half = lax.const(low, 0.5)
    low = lax.select(flat_range, lax.sub(low, half), low)
    high = lax.select(flat_range, lax.add(high, half), high)
    return linspace(low, high, count + 1, dtype=dtype)


@export
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """Computes a histogram.

    Args:
      a: data; any shape.
      bins, range: as for `histogram_bin_edges`.
      weights: array of the shape of `a`: values to add up instead of ones.
      density: whether to normalize to an integral of 1.

    Returns:
      The counts, a vector with one element per bin, and the edges, with one element more.

    Raises:
      ValueError: if `weights` has a different shape.

    >>> counts, edges = jnp.histogram(jnp.array([0., 1., 1., 4.]), bins=2)
    >>> counts.tolist(), edges.tolist()
    ([3.0, 1.0], [0.0, 2.0, 4.0])
    """
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    if not core.is_symbolic_dim(bins):
        (bins,) = util.arraylike("histogram", bins)
    if weights is None:
        (a,) = util.promote_dtypes_inexact(*util.arraylike("histogram", a))
    else:
        a, weights = util.arraylike("histogram", a, weights)
        if np.shape(a) != np.shape(weights):
            raise ValueError("weights should have the same shape as a.")
        a, weights = util.promote_dtypes_inexact(a, weights)
        weights = util.to_array(weights)
    edges = histogram_bin_edges(a, bins, range)
    return _histogram(util.to_array(a), weights, edges, density=bool(density)), edges


def _histogram(a, weights, edges, *, density):
    a = ravel(a)
    weights = lax.full(a.shape, 1, a.dtype) if weights is None else ravel(weights)
    n = edges.shape[0]
    edges = lax.convert_element_type(edges, dtypes.result_type(a, edges))
    # The last bin includes its right edge.
    place = searchsorted_arrays(edges, a, None, side="right", method="scan")
    last = slicing.index_in_dim(edges, -1, keepdims=False)
    at_end = lax.eq(lax.convert_element_type(a, edges.dtype), last)
    place = lax.select(at_end, lax.full_like(place, n - 1), place)
    counts = _bincount(place, weights, length=n)
    counts = slicing.slice_in_dim(counts, 1, n)
    if density:
        widths = lax.sub(slicing.slice_in_dim(edges, 1, n), slicing.slice_in_dim(edges, 0, n - 1))
        counts, widths = util.promote_dtypes_inexact(counts, widths)
        total = lax.reduce_sum(counts, axes=(0,))
        counts = lax.div(lax.div(counts, widths), total)
    return counts


_histogram = nested_jit(_histogram, static_argnames=("density",))


@export
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | list[ArrayLike] = 10,
    range: Sequence[None | Array | Sequence[ArrayLike]] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Computes a two-dimensional histogram.

    Args:
      x, y: vectors of coordinates.
      bins: number of bins or vector of edges, for both coordinates, or a pair with one for each.
      range: a pair with `(first, last)` edge or None for each coordinate.
      weights, density: as for `histogram`.

    Returns:
      The counts, of shape `(nx, ny)`, the edges along x, and the edges along y.

    >>> counts, _, _ = jnp.histogram2d(jnp.array([0., 1., 1.]), jnp.array([0., 1., 1.]), bins=2)
    >>> counts.tolist()
    [[1, 0], [0, 2]]
    """
    x, y = util.ensure_arraylike("histogram2d", x, y)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(
            f"histogram2d: x and y must be vectors of the same size, got shapes {x.shape} and {y.shape}"
        )
    count = len(bins) if isinstance(bins, (list, tuple)) or np.ndim(bins) else 1  # type: ignore[arg-type]
    if count not in (1, 2):
        edges = util.to_array(np.asarray(bins) if isinstance(bins, (list, tuple)) else bins)
        bins = [edges, edges]
    sample = lax.stack(util.promote_dtypes(x, y), 1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


@export
def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike | list[ArrayLike] = 10,
    range: Sequence[None | Array | Sequence[ArrayLike]] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Computes a histogram in d dimensions.

    Args:
      sample: points, of shape `(n, d)`.
      bins: number of bins or vector of edges, for all coordinates or one per coordinate.
      range: `(first, last)` edge or None for each coordinate.
      weights, density: as for `histogram`.

    Returns:
      The counts, an array of d dimensions, and a list of the edges along each.

    Raises:
      ValueError: if the length of `bins` or `range` is not d.

    >>> counts, edges = jnp.histogramdd(jnp.array([[0., 0.], [1., 1.]]), bins=(1, 2))
    >>> counts.tolist()
    [[1, 1]]
    """
    if weights is None:
        (sample,) = util.promote_dtypes_inexact(*util.arraylike("histogramdd", sample))
    else:
        arrays = util.arraylike("histogramdd", sample, weights)
        sample, weights = util.promote_dtypes_inexact(*arrays)
    sample = util.to_array(sample)
    if sample.ndim != 2:
        raise ValueError(f"histogramdd: sample must be of shape (n, d), got {sample.shape}")
    n, d = sample.shape
    if weights is not None and np.shape(weights) != (n,):
        raise ValueError("should have one weight for each sample.")
    if range is not None and (
        len(range) != d or any(r is not None and np.shape(r)[0] != 2 for r in range)
    ):
        raise ValueError(
            f"For {sample.shape=}, range must be a sequence of {d} pairs or Nones; got {range=}"
        )
    try:
        per_axis = list(bins) if len(bins) == d else None  # type: ignore[arg-type]
    except TypeError:
        per_axis = [bins] * d
    if per_axis is None:
        raise ValueError("should be a bin for each dimension.")
    columns = lax.unstack(sample, 1)
    edges = [
        histogram_bin_edges(column, b, None if range is None else range[i])
        for i, (column, b) in enumerate(zip(columns, per_axis))
    ]
    if weights is None:
        weights = lax.full((n,), 1, dtypes.default_int_dtype())
    return _histogramdd(sample, util.to_array(weights), edges, density=bool(density)), edges


def _histogramdd(sample, weights, edges, *, density):
    columns = lax.unstack(sample, 1)
    flat = None
    outside = None
    sizes = [e.shape[0] - 1 for e in edges]
    for column, e, size in zip(columns, edges, sizes):
        place = searchsorted_arrays(e, column, None, side="right", method="scan")
        last = slicing.index_in_dim(e, -1, keepdims=False)
        place = lax.select(lax.eq(column, last), lax.full_like(place, size), place)
        beyond = lax.bitwise_or(
            lax.lt(place, lax.const(place, 1)), lax.gt(place, lax.const(place, size))
        )
        place = lax.sub(place, lax.const(place, 1))
        outside = beyond if outside is None else lax.bitwise_or(outside, beyond)
        flat = place if flat is None else lax.add(lax.mul(flat, lax.const(flat, size)), place)
    # Samples outside of the grid get an out-of-bounds index, which `_bincount` drops.
    total = int(np.prod(sizes))
    flat = lax.select(outside, lax.full_like(flat, total), flat)
    counts = lax.reshape(_bincount(flat, weights, length=total), sizes)
    if density:
        counts = lax.convert_element_type(counts, dtypes.result_type(sample, counts))
        counts = lax.div(counts, lax.reduce_sum(counts, axes=tuple(range(len(sizes)))))
        for i, e in enumerate(edges):
            widths = lax.sub(
                slicing.slice_in_dim(e, 1, e.shape[0]), slicing.slice_in_dim(e, 0, e.shape[0] - 1)
            )
            widths = lax.convert_element_type(widths, counts.dtype)
            counts = lax.div(counts, lax.broadcast_in_dim(widths, counts.shape, (i,)))
    return counts


_histogramdd = nested_jit(_histogramdd, static_argnames=("density",))
