"""Segment reductions: `segment_sum`, `segment_prod`, `segment_max` and `segment_min`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.lax import lax, slicing
from jax._src.lax.slicing import GatherScatterMode
from jax._src.numpy import util
from jax._src.numpy.indexing.setting import scatter_update as _scatter_update
from jax._src.typing import ArrayLike


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: GatherScatterMode | str | None = None,
    out_sharding=None,
) -> Array:
    """Sums the elements of each segment of an array.

    Args:
      data: array of shape `(n, ...)`.
      segment_ids: integer array of shape `(n,)`: the segment of each element. Out-of-range ids are
        dropped.
      num_segments: static number of segments; None for the largest id plus one, if ids are not
        traced.
      indices_are_sorted, unique_indices: promises about the ids that may make the operation faster.
      bucket_size: sum buckets of this many elements first, which makes floating-point sums more
        accurate.
      mode: treatment of out-of-range ids; see `lax.GatherScatterMode`.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of shape `(num_segments, ...)`. Empty segments are 0.

    Raises:
      ConcretizationTypeError: if ids are traced and `num_segments` is None.
      ValueError: if shapes are incompatible or `num_segments` is negative.

    >>> jax.ops.segment_sum(jnp.arange(5), jnp.array([0, 0, 1, 1, 2]), num_segments=3).tolist()
    [1, 5, 4]
    """
    return _segment_update(
        "segment_sum",
        data,
        segment_ids,
        slicing.scatter_add,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        lambda x: lax.reduce_sum(x, (0,)),
        mode,
        out_sharding,
    )


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: GatherScatterMode | str | None = None,
    out_sharding=None,
) -> Array:
    """Multiplies the elements of each segment; takes the arguments of `segment_sum`.

    >>> jax.ops.segment_prod(jnp.arange(6), jnp.array([0, 0, 1, 1, 2, 2]), num_segments=3).tolist()
    [0, 6, 20]
    """
    return _segment_update(
        "segment_prod",
        data,
        segment_ids,
        slicing.scatter_mul,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        lambda x: lax.reduce_prod(x, (0,)),
        mode,
        out_sharding,
    )


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: GatherScatterMode | str | None = None,
    out_sharding=None,
) -> Array:
    """Takes the maximum of each segment; takes the arguments of `segment_sum`.

    Empty segments have the least value: -inf, the least integer, or False.

    >>> jax.ops.segment_max(jnp.arange(6), jnp.array([0, 0, 1, 1, 2, 2]), num_segments=3).tolist()
    [1, 3, 5]
    """
    return _segment_update(
        "segment_max",
        data,
        segment_ids,
        slicing.scatter_max,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        lambda x: lax.reduce_max(x, (0,)),
        mode,
        out_sharding,
    )


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: GatherScatterMode | str | None = None,
    out_sharding=None,
) -> Array:
    """Takes the minimum of each segment; takes the arguments of `segment_sum`.

    Empty segments have the greatest value: inf, the greatest integer, or True.

    >>> jax.ops.segment_min(jnp.arange(6), jnp.array([0, 0, 1, 1, 2, 2]), num_segments=3).tolist()
    [0, 2, 4]
    """
    return _segment_update(
        "segment_min",
        data,
        segment_ids,
        slicing.scatter_min,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        lambda x: lax.reduce_min(x, (0,)),
        mode,
        out_sharding,
    )


def _segment_update(
    name: str,
    data: ArrayLike,
    segment_ids: ArrayLike,
    scatter_op: Callable,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    reducer: Callable,
    mode: Any,
    out_sharding: Any,
) -> Array:
    util.check_arraylike(name, data, segment_ids)
    mode = GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    data, segment_ids = util.ensure_arraylike(name, data, segment_ids)
    if not dtypes.issubdtype(segment_ids.dtype, np.integer):
        raise TypeError(
            f"{name}() `segment_ids` must be integers, got dtype {segment_ids.dtype.name}"
        )
    if num_segments is None:
        if segment_ids.size == 0:
            num_segments = 0
        else:
            context = f"{name}() `num_segments` argument: it is needed where ids are traced."
            num_segments = util.known_bounds(segment_ids, context)[1] + 1
    if not core.is_symbolic_dim(num_segments):
        context = f"{name}() `num_segments` argument."
        num_segments = core.concrete_or_error(int, num_segments, context)
    if core.definitely_greater(0, num_segments):
        raise ValueError("num_segments must be non-negative.")
    data = _with_dimensions_of(name, data, segment_ids)
    identity = _identity(scatter_op, data.dtype)
    rest = data.shape[segment_ids.ndim :]

    def update(data, ids, n):
        out = lax.full((n, *rest), identity, data.dtype)
        return _scatter_update(
            out,
            ids,
            data,
            scatter_op,
            indices_are_sorted,
            unique_indices,
            normalize_indices=False,
            mode=mode,
            out_sharding=out_sharding,
        )

    if bucket_size is None:
        return update(data, segment_ids, num_segments)
    if segment_ids.ndim != 1:
        raise ValueError(
            f"{name}() with `bucket_size` takes 1D segment_ids, got {segment_ids.shape}"
        )
    # Reduce each bucket of elements i // bucket_size separately, then all buckets.
    n_buckets = max(-(-segment_ids.shape[0] // bucket_size), 1)
    bucket = lax.div(lax.iota(np.int32, segment_ids.shape[0]), np.int32(bucket_size))
    out = lax.full((n_buckets, num_segments, *rest), identity, data.dtype)
    ids = lax.convert_element_type(segment_ids, np.int32)
    out = _scatter_update(
        out,
        (bucket, ids),
        data,
        scatter_op,
        False,
        unique_indices,
        normalize_indices=False,
        mode=mode,
        out_sharding=out_sharding,
    )
    return reducer(out)


def _with_dimensions_of(name: str, data: Array, segment_ids: Array) -> Array:
    """Broadcasts `data` so that its leading dimensions are those of `segment_ids`."""
    lead = segment_ids.shape
    if data.shape[: len(lead)] == lead:
        return data
    shape = (*lead, *data.shape[1:])
    added = len(shape) - data.ndim
    if added < 0 or any(n not in (1, m) for n, m in zip(data.shape, shape[added:])):
        raise ValueError(
            f"{name}() data must have the leading dimensions of segment_ids, or dimensions that can be "
            f"broadcast to them, got shapes {data.shape} and {lead}"
        )
    return util.broadcast_to(data, shape)


def _identity(scatter_op: Callable, dtype: Any) -> Any:
    """Returns the identity element of a scatter operation."""
    if scatter_op is slicing.scatter_add:
        return 0
    if scatter_op is slicing.scatter_mul:
        return 1
    largest = scatter_op is slicing.scatter_min
    if dtype == np.bool_:
        return largest
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        return int(info.max if largest else info.min)
    if dtypes.supports_inf(dtype):
        return np.inf if largest else -np.inf
    info = dtypes.finfo(dtype)
    return info.max if largest else info.min
