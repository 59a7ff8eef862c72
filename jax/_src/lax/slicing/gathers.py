"""The gather primitive: slices of an operand at many indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax, rules
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.rules import standard_primitive
from jax._src.lax.slicing import bounds, checks, scatters
from jax._src.lax.slicing.one_hot import one_hot_gather
from jax._src.lax.slicing.types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike, Shape


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value=None,
) -> Array:
    """Gather slices of an operand at many indices, like XLA's Gather operation.

    Most programs should use NumPy-style indexing instead, `x[i]` or `x.at[i].get(mode=...)`.

    Args:
      operand: array of rank `n`.
      start_indices: integer array of shape `(*batch, k)`: each vector is the start of a slice.
      dimension_numbers: the dimensions that the vectors index, and those of slices in the result.
      slice_sizes: `n` static sizes of a slice.
      unique_indices: promises that no element is gathered twice, which makes derivatives faster on
        accelerators.
      indices_are_sorted: promises that index vectors are in ascending order.
      mode: treatment of out-of-bounds indices, see `GatherScatterMode`; by default the caller promises
        that there are none.
      fill_value: result at out-of-bounds indices in mode "fill"; by default NaN, the minimum of a
        signed or the maximum of an unsigned integer dtype, or True.

    Returns:
      An array with the batch dimensions and, at `dimension_numbers.offset_dims`, the slice
      dimensions.

    Raises:
      TypeError: if shapes and dimension numbers are inconsistent.
      ValueError: if indices are not integers or the mode is unknown.

    >>> dnums = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> lax.gather(jnp.arange(6).reshape(3, 2), jnp.array([[2], [0]]), dnums, (1, 2)).tolist()
    [[4, 5], [0, 1]]
    """
    if mode is None:
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    parsed_mode = GatherScatterMode.from_any(mode)
    if parsed_mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill_value(core.typeof(operand).dtype)
    else:
        fill_value = _static_scalar(fill_value)
    slice_sizes, dimension_numbers = (
        core.canonicalize_shape(slice_sizes),
        hashable(dimension_numbers),
    )
    if bounds.enabled.value and parsed_mode is GatherScatterMode.PROMISE_IN_BOUNDS:
        params = dict(dimension_numbers=dimension_numbers, slice_sizes=slice_sizes)
        bounds.check("gather", (operand, start_indices), params)
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=slice_sizes,
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=parsed_mode,
        fill_value=fill_value,
    )


def default_fill_value(dtype: Any) -> Any:
    """Return the default result of gathers at out-of-bounds indices."""
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtypes.issubdtype(dtype, np.signedinteger):
        return int(dtypes.iinfo(dtype).min)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return int(dtypes.iinfo(dtype).max)
    if dtype == np.bool_:
        return True
    if dtypes.issubdtype(dtype, dtypes.prng_key):
        return default_fill_value(core.physical_element_aval(dtype).dtype)
    raise ValueError(f"Unsupported dtype for gather fill_value {rules.dtype_name(dtype)}")


def _static_scalar(fill_value: Any) -> Any:
    if isinstance(fill_value, (bool, int, float, complex)):
        return fill_value
    value = core.concrete_or_error(
        np.asarray, fill_value, "the `fill_value` argument of gather must be static"
    )
    if value.ndim:
        raise ValueError(f"gather fill_value must be a scalar, got shape {value.shape}")
    return value[()].item() if hasattr(value[()], "item") else value[()]


def hashable(dnums):
    """Convert the fields of gather or scatter dimension numbers to tuples."""
    if all([type(v) is tuple for v in dnums]):
        return dnums
    return type(dnums)(*[tuple(v) for v in dnums])


# ---------------------------------------------------------------------------------------------------
# Shape, dtype and sharding rules


def _gather_dtype(operand, indices, *, fill_value, **kwargs):
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"indices must have an integer type, got {indices.dtype.name}")
    return operand.dtype


def _gather_shape(operand, indices, *, dimension_numbers, slice_sizes, **kwargs):
    return checks.gather_shape(operand.shape, indices.shape, dimension_numbers, slice_sizes)


def _gather_sharding(operand, indices, *, dimension_numbers, slice_sizes, **kwargs):
    """Shard each result dimension like the operand or index dimension that it comes from."""
    offset_dims, collapsed, index_map, batching_dims, index_batching_dims = dimension_numbers
    if operand._sharding is None:
        spec = (None,) * len(operand.shape)
    else:
        spec = shardings.entries(operand)
    for d, (entry, n, size) in enumerate(zip(spec, slice_sizes, operand.shape)):
        if entry is not None and d not in batching_dims and (d in index_map or n != size):
            raise core.ShardingTypeError(
                "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather indexing "
                f"as out sharding could not be resolved unambiguously (dimension {d} of the operand is "
                f"sharded). Got operand={operand.str_short()}, indices={indices.str_short()}"
            )
    index_spec = [None] * (len(indices.shape) - 1)
    if indices._sharding is not None:
        index_spec = list(shardings.entries(indices)[:-1])
    for d, i in zip(batching_dims, index_batching_dims):
        if index_spec[i] is None:
            index_spec[i] = spec[d]
    dropped = {*collapsed, *batching_dims}
    window = iter([e for d, e in enumerate(spec) if d not in dropped])
    batch = iter(index_spec)
    at = set(offset_dims)
    n = len(offset_dims) + len(index_spec)
    out = [next(window) if i in at else next(batch) for i in range(n)]
    return shardings.with_entries(operand if operand._sharding is not None else indices, out)


# ---------------------------------------------------------------------------------------------------
# Differentiation and batching


def _gather_jvp(primals, tangents, *, fill_value, **params):
    operand, indices = primals
    out = gather_p.bind(operand, indices, fill_value=fill_value, **params)
    t = tangents[0]
    if type(t) is Zero:
        return out, Zero.from_primal_value(out)
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        fill_value = 0
    return out, gather_p.bind(t, indices, fill_value=fill_value, **params)


def _gather_transpose(
    ct,
    operand,
    indices,
    *,
    dimension_numbers,
    slice_sizes,
    unique_indices,
    indices_are_sorted,
    mode,
    fill_value,
):
    if not ad.is_undefined_primal(operand):
        return [None, None]
    zeros = zeros_of(operand.aval)
    out = scatters.scatter_add(
        zeros,
        indices,
        ct,
        ScatterDimensionNumbers(*dimension_numbers),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=mode,
    )
    return [out, None]


def zeros_of(aval):
    """Return zeros of an aval's shape, dtype and sharding; varying manual axes are not kept."""
    sharding = None if aval._sharding is None else aval.sharding
    return lax.full(aval.shape, 0, aval.dtype, sharding=sharding)


def shifted(dims, start=()):
    """Shift dimensions for a new leading dimension, and prepend the dimensions `start`."""
    return (*start, *[d + 1 for d in dims])


def _gather_batch(args, dims, *, dimension_numbers, slice_sizes, **params):
    (x, indices), (xd, id_) = args, dims
    offset_dims, collapsed, index_map, batching_dims, index_batching_dims = dimension_numbers

    if id_ is None:
        x = batching.moveaxis(x, xd, 0)
        dnums = GatherDimensionNumbers(
            shifted(offset_dims, (0,)),
            shifted(collapsed),
            shifted(index_map),
            shifted(batching_dims),
            index_batching_dims,
        )
        sizes = (x.shape[0], *slice_sizes)
    else:
        indices = batching.moveaxis(indices, id_, 0)
        if xd is None:
            # Several batch elements may gather the same slice, and the order is per element.
            params.update(unique_indices=False, indices_are_sorted=False)
            dnums = GatherDimensionNumbers(
                shifted(offset_dims),
                collapsed,
                index_map,
                batching_dims,
                shifted(index_batching_dims),
            )
            sizes = slice_sizes
        else:
            x = batching.moveaxis(x, xd, 0)
            dnums = GatherDimensionNumbers(
                shifted(offset_dims),
                shifted(collapsed),
                shifted(index_map),
                shifted(batching_dims, (0,)),
                shifted(index_batching_dims, (0,)),
            )
            size = x.shape[0]
            sizes = (1 if core.is_symbolic_dim(size) else min(size, 1), *slice_sizes)
    return gather_p.bind(x, indices, dimension_numbers=dnums, slice_sizes=sizes, **params), 0


# ---------------------------------------------------------------------------------------------------
# Lowering


def _gather_lower(
    ctx,
    operand,
    indices,
    *,
    dimension_numbers,
    slice_sizes,
    unique_indices,
    indices_are_sorted,
    mode,
    fill_value,
):
    (aval_out,) = ctx.avals_out
    params = {
        "dimension_numbers": dimension_numbers,
        "slice_sizes": slice_sizes,
        "unique_indices": unique_indices,
        "indices_are_sorted": indices_are_sorted,
    }
    if mode is GatherScatterMode.FILL_OR_DROP:
        return _lower_fill(ctx, operand, indices, fill_value=fill_value, **params)
    if mode is GatherScatterMode.ONE_HOT:
        return _lower_one_hot(
            ctx, operand, indices, dimension_numbers=dimension_numbers, slice_sizes=slice_sizes
        )
    # XLA's Gather clamps the indices, so CLIP needs no extra code.
    dnums = _physical_dnums(dimension_numbers, ctx.avals_in[0], aval_out)
    attr = hlo.GatherDimensionNumbers.get(
        collapsed_slice_dims=list(dnums.collapsed_slice_dims),
        operand_batching_dims=list(dnums.operand_batching_dims),
        start_indices_batching_dims=list(dnums.start_indices_batching_dims),
        index_vector_dim=len(ctx.avals_in[1].shape) - 1,
        offset_dims=list(dnums.offset_dims),
        start_index_map=list(dnums.start_index_map),
    )
    sizes = (*slice_sizes, *core.physical_aval(aval_out).shape[len(aval_out.shape) :])
    is_sorted = mlir.ir.BoolAttr.get(indices_are_sorted)
    if core.is_constant_shape(sizes):
        out = hlo.gather(
            operand, indices, attr, mlir.dense_int_array(sizes), indices_are_sorted=is_sorted
        )
    else:
        # the inferred type has no sizes
        out = hlo.dynamic_gather(
            operand,
            indices,
            mlir.shape_tensor(ctx, mlir.eval_dynamic_shape(ctx, sizes)),
            attr,
            indices_are_sorted=is_sorted,
            results=[mlir.aval_to_ir_type(ctx.module_context, aval_out)],
        )
    return [rules.with_sharding(ctx, out, aval_out)]


def _physical_dnums(dnums, operand, out):
    """Extend dimension numbers to an extended dtype's physical array, with trailing dimensions."""
    n = len(core.physical_aval(out).shape) - len(out.shape)
    if not n:
        return dnums
    first = len(out.shape)
    return dnums._replace(offset_dims=(*dnums.offset_dims, *range(first, first + n)))


def _fill(operand, indices, *, dimension_numbers, slice_sizes, fill_value, **params):
    dnums = dimension_numbers
    ok = _in_bounds(operand.shape, indices, dnums.start_index_map, slice_sizes)
    out = gather_p.bind(
        operand,
        indices,
        dimension_numbers=dnums,
        slice_sizes=slice_sizes,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
        **params,
    )
    dims = [d for d in range(len(out.shape)) if d not in dnums.offset_dims]
    sharding = core.typeof(out)._sharding
    ok = lax.broadcast_in_dim(ok, out.shape, dims, out_sharding=sharding)
    return lax.select(ok, out, lax.full(out.shape, fill_value, out.dtype, sharding=sharding))


def _in_bounds(shape, indices, index_map, window):
    """Return which index vectors have their whole window inside an array of the given shape."""
    dtype = indices.dtype
    bounds = last_starts([shape[d] - window[d] for d in index_map], dtype)
    ok = lax.le(indices, lax.broadcast_in_dim(bounds, indices.shape, (indices.ndim - 1,)))
    if dtypes.issubdtype(dtype, np.signedinteger):
        ok = lax.bitwise_and(ok, lax.ge(indices, lax.full_like(indices, 0)))
    return lax.reduce_and(ok, (indices.ndim - 1,))


def last_starts(starts, dtype):
    """Return the largest indices as an array; sizes that are not known are 32-bit integers."""
    limit = int(dtypes.iinfo(dtype).max)
    if core.is_constant_shape(starts):
        return np.array([min(s, limit) for s in starts], dtype)
    if limit < 2**31 - 1:
        starts = [core.min_dim(s, limit) for s in starts]
    return lax.convert_element_type(lax.shape_as_value(starts), dtype)


_lower_fill = mlir.lower_fun(_fill, multiple_results=False)
_lower_one_hot = mlir.lower_fun(one_hot_gather, multiple_results=False)

gather_p = standard_primitive(
    "gather",
    shape=_gather_shape,
    dtype=_gather_dtype,
    weak_type=lambda operand, *_, **__: operand.weak_type,
    sharding=_gather_sharding,
    lower=_gather_lower,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
)


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """Take the elements of `x` at `indices` along `axis`; all other dimensions are batched.

    Args:
      x: array of rank `n`.
      indices: integer array of rank `n`, in bounds; its sizes may differ from those of `x` only in
        `axis`.
      axis: dimension to index.

    Returns:
      Array of the shape of `indices` and the dtype of `x`.
    """
    shape = core.typeof(indices).shape
    ndim = len(shape)
    if core.is_empty_shape(shape):
        return late.slice(x, (0,) * ndim, shape)
    others = tuple(d for d in range(ndim) if d != axis)
    dnums = GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    return gather(
        x,
        lax.expand_dims(indices, (ndim,)),
        dnums,
        (1,) * ndim,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


late.take_along = take_along
