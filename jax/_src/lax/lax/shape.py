"""Operations that change an array's shape or the order of its elements: broadcast, reshape, etc."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import rules
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.rules import LINEAR, standard_primitive
from jax._src.lib.mlir.dialects import hlo
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import ArrayLike, Shape
from jax._src.util import canonicalize_axis, tuple_insert

# ---------------------------------------------------------------------------------------------------
# Broadcasting


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding=None) -> Array:
    """Broadcast an array along new leading dimensions.

    Args:
      operand: array of shape `s`.
      sizes: sizes of the new dimensions.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of shape `(*sizes, *s)`.

    >>> lax.broadcast(jnp.zeros((4, 5)), (2, 3)).shape
    (2, 3, 4, 5)
    """
    if len(sizes) == 0 and out_sharding is None and isinstance(operand, Array):
        return operand
    shape = np.shape(operand)
    n = len(sizes)
    return broadcast_in_dim(
        operand, (*sizes, *shape), range(n, n + len(shape)), out_sharding=out_sharding
    )


def broadcast_in_dim(
    operand: ArrayLike,
    shape: Shape,
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding=None,
) -> Array:
    """Broadcast an array to `shape`, mapping its dimensions to `broadcast_dimensions`.

    Args:
      operand: array of rank `n`.
      shape: shape of the result.
      broadcast_dimensions: `n` dimensions of the result that the operand's dimensions correspond
        to; the operand's sizes are 1 or those of the result.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of shape `shape`.

    Raises:
      TypeError: if sizes or dimensions are invalid.

    >>> lax.broadcast_in_dim(jnp.arange(3).reshape(3, 1), (2, 3, 4), (1, 2)).shape
    (2, 3, 4)
    """
    shape = core.canonicalize_shape(shape)
    dims = tuple(broadcast_dimensions)
    if (
        out_sharding is None
        and len(dims) == len(shape)
        and isinstance(operand, Array)
        and operand.shape == shape
        and dims == tuple(range(len(dims)))
    ):
        return operand
    if not shape and out_sharding is None and not dims and np.ndim(operand) == 0:
        return late.to_array(operand)  # a Python number becomes an array, without an operation
    sharding = canonicalize_sharding(out_sharding, "broadcast_in_dim")
    dims = tuple([operator.index(d) for d in dims])
    return broadcast_in_dim_p.bind(
        operand, shape=shape, broadcast_dimensions=dims, sharding=sharding
    )


def broadcast_to(operand: ArrayLike, shape: Shape, *, out_sharding=None) -> Array:
    """Broadcast by NumPy's rules: trailing dimensions match, missing leading ones are added."""
    ndim = len(shape) - np.ndim(operand)
    return broadcast_in_dim(
        operand, shape, range(ndim, ndim + np.ndim(operand)), out_sharding=out_sharding
    )


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Broadcast by NumPy's rules to the shape, and in explicit mode the sharding, of another array.

    Args:
      arr: array to broadcast.
      like_arr: array of the result's shape.

    Returns:
      An array of the dtype of `arr`.

    Raises:
      TypeError: if the shapes are incompatible.

    >>> lax.broadcast_like(jnp.array([1, 2]), jnp.zeros((2, 2))).tolist()
    [[1, 2], [1, 2]]
    """
    like = core.typeof(like_arr)
    if len(like.shape) < np.ndim(arr):
        raise TypeError(
            f"broadcast_like: arr has shape {np.shape(arr)}, of more dimensions than that of like_arr, "
            f"{like.shape}"
        )
    return broadcast_to(arr, like.shape, out_sharding=like._sharding)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading dimensions of size 1 until `x` has at least rank `rank`.

    >>> lax.broadcast_to_rank(jnp.ones(3), 3).shape
    (1, 1, 3)
    """
    ndim = np.ndim(x)
    if ndim >= rank:
        return x if isinstance(x, Array) else late.to_array(x)
    return expand_dims(x, tuple(range(rank - ndim)))


def _broadcast_in_dim_shape(operand, *, shape, broadcast_dimensions, sharding):
    in_shape, dims = operand.shape, broadcast_dimensions
    _check_sizes("broadcast_in_dim", "shape", shape)
    if len(dims) != len(in_shape):
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; got "
            f"broadcast_dimensions {dims} for operand ndim {len(in_shape)}."
        )
    if len(in_shape) > len(shape):
        raise TypeError(
            "broadcast_in_dim target broadcast shape must have equal or higher rank to the operand "
            f"shape; got operand ndim {len(in_shape)} and target broadcast ndim {len(shape)}."
        )
    for d, size in zip(dims, in_shape):
        if not 0 <= d < len(shape):
            raise TypeError(
                "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, got "
                f"{dims} for operand ndim {len(in_shape)} and shape {shape}."
            )
        if size is not shape[d] and not core.definitely_equal_one_of_dim(size, (1, shape[d])):
            raise TypeError(
                "broadcast_in_dim operand dimension sizes must either be 1, or be equal to their "
                "corresponding dimensions in the target broadcast shape; got operand of shape "
                f"{in_shape}, target broadcast shape {shape}, broadcast_dimensions {dims}."
            )
    if len(set(dims)) != len(dims):
        raise TypeError(
            f"broadcast_in_dim broadcast_dimensions must be different, got {dims} for operand shape "
            f"{in_shape} and target broadcast shape {shape}."
        )
    return shape


def _broadcast_in_dim_sharding(operand, *, shape, broadcast_dimensions, sharding):
    if sharding is not None:
        return sharding
    out = [None] * len(shape)
    for d, size, entry in zip(broadcast_dimensions, operand.shape, shardings.entries(operand)):
        if core.definitely_equal(shape[d], size):
            out[d] = entry
    return shardings.with_entries(operand, out)


def _broadcast_in_dim_transpose(ct, operand, *, shape, broadcast_dimensions, sharding):
    aval = operand.aval
    if not ad.is_undefined_primal(operand):
        return [None]
    repeated = [core.definitely_equal(d, 1) for d in aval.shape]
    kept = [d for d, rep in zip(broadcast_dimensions, repeated) if not rep]
    out = late.reduce_sum(ct, tuple(d for d in range(len(shape)) if d not in kept))
    order = sorted(kept)
    if kept != order:
        out = transpose(out, [order.index(d) for d in kept])
    return [expand_dims(out, [i for i, rep in enumerate(repeated) if rep])]


def _broadcast_in_dim_batch(args, bdims, *, shape, broadcast_dimensions, sharding):
    (x,), (bdim,) = args, bdims
    size = x.shape[bdim]
    sharding = shardings.batched(sharding, x, bdim)
    dims = [d + 1 for d in broadcast_dimensions]
    dims.insert(bdim, 0)
    out = broadcast_in_dim_p.bind(
        x, shape=(size, *shape), broadcast_dimensions=tuple(dims), sharding=sharding
    )
    return out, 0


def _broadcast_in_dim_lower(ctx, x, *, shape, broadcast_dimensions, sharding):
    (aval_out,) = ctx.avals_out
    out = mlir.broadcast_in_dim(ctx, x, aval_out, broadcast_dimensions=broadcast_dimensions)
    return [rules.with_sharding(ctx, out, aval_out)]


def _broadcast_in_dim_pp(eqn, context, settings):
    names = []
    if eqn.params["broadcast_dimensions"]:
        names.append("broadcast_dimensions")
    # The result's type shows the shape and the sharding, so these parameters need not be printed.
    return core.default_pp_eqn(eqn, context, settings, params=names)


def _same_dtype(operand, *_, **__):
    return operand.dtype


broadcast_in_dim_p = standard_primitive(
    "broadcast_in_dim",
    shape=_broadcast_in_dim_shape,
    dtype=_same_dtype,
    sharding=_broadcast_in_dim_sharding,
    unreduced=shardings.same_unreduced,
    lower=_broadcast_in_dim_lower,
    jvp=LINEAR,
    transpose=_broadcast_in_dim_transpose,
    batch=_broadcast_in_dim_batch,
    pp=_broadcast_in_dim_pp,
)


# ---------------------------------------------------------------------------------------------------
# Reshaping


def reshape(
    operand: ArrayLike,
    new_sizes: Shape | int,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding=None,
) -> Array:
    """Reshape an array, reading its elements in row-major order.

    Args:
      operand: array to reshape.
      new_sizes: shape of the result, with the same number of elements; an int is that of a vector.
      dimensions: order in which to read the operand's dimensions, the slowest first; None for their
        own order.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of shape `new_sizes`.

    Raises:
      ValueError: if the numbers of elements differ.
      TypeError: if a size is negative, or `dimensions` is not a permutation.

    >>> lax.reshape(jnp.arange(6).reshape(2, 3), (6,), dimensions=(1, 0)).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    if isinstance(new_sizes, int | np.integer):
        new_sizes = (new_sizes,)
    new_sizes = core.canonicalize_shape(new_sizes)
    if dimensions is not None:
        dimensions = tuple([operator.index(d) for d in dimensions])
        if dimensions == tuple(range(np.ndim(operand))):
            dimensions = None
    if (
        dimensions is None
        and out_sharding is None
        and isinstance(operand, Array)
        and operand.shape == new_sizes
    ):
        return operand
    sharding = canonicalize_sharding(out_sharding, "reshape")
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=dimensions, sharding=sharding)


def collapse(operand: Array, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the dimensions from `start_dimension` up to `stop_dimension` (None: the end) into one.

    >>> lax.collapse(jnp.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(len(operand.shape))
    if hi < lo:
        raise ValueError(
            f"collapse: start_dimension {start_dimension} comes after stop_dimension "
            f"{stop_dimension} for an operand of shape {operand.shape}"
        )
    size = math.prod(operand.shape[lo:hi])
    return reshape(operand, (*operand.shape[:lo], size, *operand.shape[hi:]))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Remove dimensions of size 1.

    Args:
      array: array whose dimensions to remove.
      dimensions: dimensions to remove; negative values count from the end.

    Returns:
      An array without these dimensions.

    Raises:
      ValueError: if a dimension is out of range, repeated, or not of size 1.

    >>> lax.squeeze(jnp.ones((1, 3, 1)), (0, -1)).shape
    (3,)
    """
    ndim = np.ndim(array)
    dimensions = tuple([canonicalize_axis(i, ndim) for i in dimensions])
    if not dimensions and isinstance(array, Array):
        return array
    return squeeze_p.bind(array, dimensions=dimensions)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert dimensions of size 1 at the positions `dimensions` of the result.

    >>> lax.expand_dims(jnp.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    if not len(dimensions) and isinstance(array, Array):
        return array
    shape = np.shape(array)
    ndim = len(shape) + len(dimensions)
    new = {canonicalize_axis(i, ndim) for i in dimensions}
    if len(new) != len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    kept = tuple([i for i in range(ndim) if i not in new])
    sizes = iter(shape)
    out_shape = tuple([1 if i in new else next(sizes) for i in range(ndim)])
    return broadcast_in_dim(array, out_shape, kept)


def _reshape_shape(operand, *, new_sizes, dimensions, sharding):
    for d in new_sizes:
        if type(d) is int and d < 0:
            raise TypeError(
                f"reshape new_sizes must all be positive, got {new_sizes} for operand shape "
                f"{operand.shape}."
            )
    if dimensions is not None and sorted(dimensions) != list(range(len(operand.shape))):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, got dimensions "
            f"{dimensions} for shape {operand.shape}."
        )
    if not core.same_shape_sizes(operand.shape, new_sizes):
        raise ValueError(
            f"reshape total size must be unchanged, got new_sizes {new_sizes} "
            f"({math.prod(new_sizes)} elements) for shape {operand.shape} "
            f"({math.prod(operand.shape)} elements)."
        )
    return new_sizes


def _reshape_sharding(operand, *, new_sizes, dimensions, sharding):
    if sharding is not None:
        return sharding
    if dimensions is not None and any(e is not None for e in shardings.entries(operand)):
        raise core.ShardingTypeError(
            "This reshape is not supported. Please specify the sharding of the output via the "
            "`out_sharding` argument of jax.lax.reshape. Got operand type: "
            f"{operand.str_short()}, new sizes: {new_sizes}, dimensions: {dimensions}"
        )
    return shardings.reshaped(operand, new_sizes, "jax.lax.reshape")


def _reshape_transpose(ct, operand, *, new_sizes, dimensions, sharding):
    aval = operand.aval
    if dimensions is None:
        return [reshape(ct, aval.shape, out_sharding=aval._sharding)]
    permuted = reshape(ct, [aval.shape[d] for d in dimensions])
    return [transpose(permuted, _inverse(dimensions))]


def _reshape_batch(args, bdims, *, new_sizes, dimensions, sharding):
    (x,), (bdim,) = args, bdims
    sharding = shardings.batched(sharding, x, bdim)
    size = x.shape[bdim]
    if bdim != 0 or dimensions is not None:
        if dimensions is None:
            x = batching.moveaxis(x, bdim, 0)
        else:
            dimensions = (bdim, *[d + (d >= bdim) for d in dimensions])
            if dimensions == tuple(range(len(dimensions))):
                dimensions = None
    out = reshape_p.bind(x, new_sizes=(size, *new_sizes), dimensions=dimensions, sharding=sharding)
    return out, 0


def _reshape_lower(ctx, x, *, new_sizes, dimensions, sharding):
    (aval_out,) = ctx.avals_out
    if dimensions is not None:
        (aval_in,) = ctx.avals_in
        x = hlo.transpose(x, mlir.dense_int_array(_physical_permutation(aval_in, dimensions)))
    return [rules.with_sharding(ctx, mlir.reshape(ctx, x, aval_out), aval_out)]


reshape_p = standard_primitive(
    "reshape",
    shape=_reshape_shape,
    dtype=_same_dtype,
    sharding=_reshape_sharding,
    unreduced=shardings.same_unreduced,
    lower=_reshape_lower,
    jvp=LINEAR,
    transpose=_reshape_transpose,
    batch=_reshape_batch,
)


def _squeeze_shape(operand, *, dimensions):
    shape = operand.shape
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"dimensions are not unique: {dimensions}")
    for d in dimensions:
        if not core.definitely_equal(shape[d], 1):
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to one, got "
                f"shape={shape} and dimensions={dimensions}"
            )
    return tuple([d for i, d in enumerate(shape) if i not in dimensions])


def _squeeze_batch(args, bdims, *, dimensions):
    (x,), (bdim,) = args, bdims
    dims = tuple([d + (d >= bdim) for d in dimensions])
    return squeeze_p.bind(x, dimensions=dims), bdim - sum(d < bdim for d in dims)


def _squeeze_lower(ctx, x, *, dimensions):
    (aval_out,) = ctx.avals_out
    return [rules.with_sharding(ctx, mlir.reshape(ctx, x, aval_out), aval_out)]


squeeze_p = standard_primitive(
    "squeeze",
    shape=_squeeze_shape,
    dtype=_same_dtype,
    sharding=shardings.dropping("dimensions"),
    unreduced=shardings.same_unreduced,
    lower=_squeeze_lower,
    jvp=LINEAR,
    transpose=lambda ct, operand, *, dimensions: [expand_dims(ct, dimensions)],
    batch=_squeeze_batch,
)


# ---------------------------------------------------------------------------------------------------
# Reordering


def transpose(operand: ArrayLike, permutation: Sequence[int] | np.ndarray) -> Array:
    """Permute dimensions: dimension `i` of the result is `permutation[i]` of the operand.

    Args:
      operand: array of rank `n`.
      permutation: permutation of `range(n)`.

    Returns:
      An array of rank `n`.

    Raises:
      TypeError: if `permutation` is not a permutation of the operand's dimensions.

    >>> lax.transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    permutation = tuple([operator.index(d) for d in permutation])
    if (
        isinstance(operand, Array)
        and len(permutation) == len(operand.shape)
        and permutation == tuple(range(len(permutation)))
    ):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def _transpose_shape(operand, *, permutation):
    shape = operand.shape
    if len(permutation) != len(shape) or sorted(permutation) != list(range(len(shape))):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{permutation} for operand shape {shape}."
        )
    return tuple([shape[d] for d in permutation])


def _transpose_sharding(operand, *, permutation):
    spec = shardings.entries(operand)
    return shardings.with_entries(operand, [spec[d] for d in permutation])


def _transpose_batch(args, bdims, *, permutation):
    (x,), (bdim,) = args, bdims
    perm = (bdim, *[d + (d >= bdim) for d in permutation])
    return transpose(x, perm), 0


def _transpose_lower(ctx, x, *, permutation):
    (aval_in,), (aval_out,) = ctx.avals_in, ctx.avals_out
    perm = ctx.module_context.attribute(
        mlir.dense_int_array, tuple(_physical_permutation(aval_in, permutation))
    )
    out = mlir.emit("stablehlo.transpose", [x], None, {"permutation": perm})
    return [rules.with_sharding(ctx, out, aval_out)]


def _physical_permutation(aval, permutation):
    """Extend a permutation to the trailing physical dimensions of extended dtypes, which stay."""
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        n = len(core.physical_aval(aval).shape)
        return (*permutation, *range(len(permutation), n))
    return permutation


def _inverse(permutation: Sequence[int]) -> list[int]:
    out = [0] * len(permutation)
    for i, d in enumerate(permutation):
        out[d] = i
    return out


transpose_p = standard_primitive(
    "transpose",
    shape=_transpose_shape,
    dtype=_same_dtype,
    sharding=_transpose_sharding,
    unreduced=shardings.same_unreduced,
    lower=_transpose_lower,
    jvp=LINEAR,
    transpose=lambda ct, operand, *, permutation: [transpose(ct, _inverse(permutation))],
    batch=_transpose_batch,
)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along each of `dimensions`.

    Raises:
      TypeError: if dimensions repeat or are out of range.

    >>> lax.rev(jnp.arange(3), (0,)).tolist()
    [2, 1, 0]
    """
    return rev_p.bind(operand, dimensions=tuple([operator.index(d) for d in dimensions]))


def _rev_shape(operand, *, dimensions):
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if any(d < 0 for d in dimensions):
        raise TypeError(f"rev dimensions must have every element be nonnegative, got {dimensions}.")
    if any(d >= len(operand.shape) for d in dimensions):
        raise TypeError(
            "rev dimensions must all be less than operand ndim, got dimensions "
            f"{dimensions} for operand ndim {len(operand.shape)}."
        )
    return operand.shape


def _rev_batch(args, bdims, *, dimensions):
    (x,), (bdim,) = args, bdims
    return rev_p.bind(x, dimensions=tuple([d + (d >= bdim) for d in dimensions])), bdim


def _rev_lower(ctx, x, *, dimensions):
    (aval_out,) = ctx.avals_out
    return [rules.with_sharding(ctx, hlo.reverse(x, mlir.dense_int_array(dimensions)), aval_out)]


def _keep_sharding(operand, *_, **__):
    return shardings.with_entries(operand, shardings.entries(operand))


rev_p = standard_primitive(
    "rev",
    shape=_rev_shape,
    dtype=_same_dtype,
    sharding=_keep_sharding,
    unreduced=shardings.same_unreduced,
    lower=_rev_lower,
    jvp=LINEAR,
    transpose=lambda ct, operand, *, dimensions: [rev(ct, dimensions)],
    batch=_rev_batch,
)


# ---------------------------------------------------------------------------------------------------
# Repeating and copying


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array `reps[i]` times along each dimension `i`.

    Raises:
      TypeError: if `reps` does not have one nonnegative entry for each dimension.

    >>> lax.tile(jnp.array([[1], [2]]), (1, 3)).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    return tile_p.bind(operand, reps=core.canonicalize_shape(reps))


def _tile_shape(operand, *, reps):
    shape = operand.shape
    if len(reps) != len(shape):
        raise TypeError(
            "tile: reps length must be equal to the ndim of operand, got "
            f"len(reps)={len(reps)} and operand.ndim={len(shape)}."
        )
    _check_sizes("tile", "reps", reps)
    return tuple([d * r for d, r in zip(shape, reps)])


def _tile_sharding(operand, *, reps):
    spec = shardings.entries(operand)
    for i, (r, entry) in enumerate(zip(reps, spec)):
        if r != 1 and entry is not None:
            raise core.ShardingTypeError(
                f"Operand cannot be sharded on dimension {i} when the tiling is non-trivial. Got input "
                f"type: {operand.str_short()} with reps: {reps}"
            )
    return shardings.with_entries(operand, spec)


def _split_repeats(shape, reps):
    """Return the shape in which each dimension is preceded by one for its repeats."""
    return tuple([size for r, d in zip(reps, shape) for size in (r, d)])


def _tile_transpose(ct, operand, *, reps):
    apart = reshape(ct, _split_repeats(operand.aval.shape, reps))
    return [late.reduce_sum(apart, tuple(range(0, 2 * len(reps), 2)))]


def _tile_batch(args, bdims, *, reps):
    (x,), (bdim,) = args, bdims
    return tile_p.bind(x, reps=tuple_insert(reps, bdim, 1)), bdim


def _tile(x, *, reps):
    shape = x.shape
    apart = broadcast_in_dim(x, _split_repeats(shape, reps), range(1, 2 * len(shape), 2))
    return reshape(apart, [r * d for r, d in zip(reps, shape)])


tile_p = standard_primitive(
    "tile",
    shape=_tile_shape,
    dtype=_same_dtype,
    sharding=_tile_sharding,
    unreduced=shardings.same_unreduced,
    lower=mlir.lower_fun(_tile, multiple_results=False),
    jvp=LINEAR,
    transpose=_tile_transpose,
    batch=_tile_batch,
)


def _copy_lower(ctx, x):
    return [x]


copy_p = standard_primitive(
    "copy",
    shape=lambda x: x.shape,
    dtype=_same_dtype,
    sharding=_keep_sharding,
    unreduced=shardings.same_unreduced,
    lower=_copy_lower,
    jvp=LINEAR,
    transpose=lambda ct, x: [copy_p.bind(ct)],
    batch=lambda args, bdims: (copy_p.bind(*args), bdims[0]),
)


def _check_sizes(fun_name: str, arg_name: str, sizes: Sequence[Any]) -> None:
    for d in sizes:
        if d < 0:  # of a symbolic size, an error that names the constraint if it may be
            raise TypeError(
                f"{fun_name} {arg_name} must have every element be nonnegative, got {tuple(sizes)}."
            )


late.broadcast_in_dim = broadcast_in_dim
late.transpose = transpose
