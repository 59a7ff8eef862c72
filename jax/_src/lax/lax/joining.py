"""Operations that join, split and pad arrays: concatenate, stack, split, unstack, pad."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import rules
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.lax.arithmetic import sub
from jax._src.lax.lax.create import full
from jax._src.lax.lax.select import select
from jax._src.lax.lax.shape import broadcast_in_dim, expand_dims, squeeze
from jax._src.lax.rules import LINEAR, check_same_dtypes, standard_primitive
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, tuple_delete, tuple_insert

# ---------------------------------------------------------------------------------------------------
# Joining


def concatenate(operands: Array | Sequence[ArrayLike], dimension: int) -> Array:
    """Concatenate arrays along an existing dimension.

    Args:
      operands: arrays of one dtype, whose shapes are equal except in `dimension`; or one array,
        which is unstacked along its first dimension.
      dimension: dimension to join along, not negative.

    Returns:
      The concatenated array.

    Raises:
      ValueError: if there are no operands.
      TypeError: if shapes or dtypes are incompatible, or the dimension is out of range.

    >>> lax.concatenate([jnp.zeros((2, 1)), jnp.ones((2, 3))], 1).shape
    (2, 4)
    """
    if isinstance(operands, Array):
        operands = unstack(operands)
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(operands) == 1:
        (operand,) = operands
        if isinstance(operand, Array):
            return operand
    return concatenate_p.bind(*operands, dimension=operator.index(dimension))


def _concatenate_shape(*operands, dimension):
    if not operands:
        raise TypeError("concatenate expects at least one operand, got 0.")
    shapes = [o.shape for o in operands]
    first = shapes[0]
    listing = ", ".join(map(str, shapes[:8])) + (", ..." if len(shapes) > 8 else "")
    if any(len(s) != len(first) for s in shapes):
        raise TypeError(
            f"Cannot concatenate arrays with different numbers of dimensions: got {listing}."
        )
    if not 0 <= dimension < len(first):
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {listing}."
        )
    rest = tuple_delete(first, dimension)
    for s in shapes:
        if tuple_delete(s, dimension) != rest:
            raise TypeError(
                "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
                f"being concatenated: concatenating along dimension {dimension} for shapes {listing}."
            )
    total = sum(s[dimension] for s in shapes)
    return (*first[:dimension], total, *first[dimension + 1 :])


def _concatenate_dtype(*operands, **_):
    check_same_dtypes("concatenate", *[o.dtype for o in operands])
    return operands[0].dtype


def _concatenate_sharding(*operands, dimension):
    first = shardings.common("concatenate", operands)
    return shardings.resized(
        "concatenate", first, _concatenate_shape(*operands, dimension=dimension)
    )


def _concatenate_transpose(ct, *operands, dimension):
    linear = [ad.is_undefined_primal(x) for x in operands]
    sizes = [
        (x.aval if lin else core.typeof(x)).shape[dimension] for x, lin in zip(operands, linear)
    ]
    parts = split(ct, sizes, dimension)
    return [part if lin else None for part, lin in zip(parts, linear)]


def align_batch(args, bdims):
    """Move or broadcast all batch dimensions to the same position; return that as well."""
    size = next(x.shape[b] for x, b in zip(args, bdims) if b is not None)
    at = next(b for b in bdims if b is not None)
    if any(b is not None and b != at for b in bdims):
        at = 0
    out = []
    for x, b in zip(args, bdims):
        if b is None:
            x = batching.broadcast(x, size, at, None)
        elif b != at:
            x = batching.moveaxis(x, b, at)
        out.append(x)
    return out, at


def _concatenate_batch(args, bdims, *, dimension):
    args, at = align_batch(args, bdims)
    return concatenate_p.bind(*args, dimension=dimension + (dimension >= at)), at


def _concatenate_lower(ctx, *xs, dimension):
    (aval_out,) = ctx.avals_out
    out = xs[0]
    if len(xs) > 1:
        out = hlo.concatenate(xs, mlir.i64_attr(dimension))
    return [rules.with_sharding(ctx, out, aval_out)]


concatenate_p = standard_primitive(
    "concatenate",
    shape=_concatenate_shape,
    dtype=_concatenate_dtype,
    sharding=_concatenate_sharding,
    unreduced=shardings.same_unreduced,
    lower=_concatenate_lower,
    jvp=LINEAR,
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new dimension.

    Args:
      operands: the arrays, or one array, which is unstacked along its first dimension.
      axis: position of the new dimension in the result.

    Returns:
      The stacked array.

    Raises:
      ValueError: if there are no operands, shapes differ, or `axis` is out of range.

    >>> lax.stack([jnp.zeros(3), jnp.ones(3)], axis=-1).shape
    (3, 2)
    """
    if isinstance(operands, Array):
        operands = unstack(operands)
    if len(operands) == 0:
        raise ValueError("lax.stack requires a non-empty sequence of arrays")
    axis = canonicalize_axis(axis, np.ndim(operands[0]) + 1)
    return stack_p.bind(*operands, axis=axis)


def _stack_shape(*operands, axis):
    shape = operands[0].shape
    if any(o.shape != shape for o in operands):
        raise ValueError(
            "stack: All input arrays must have the same shape. Got "
            f"{', '.join(str(o.shape) for o in operands)}."
        )
    return tuple_insert(shape, axis, len(operands))


def _stack_dtype(*operands, axis):
    check_same_dtypes("stack", *[o.dtype for o in operands])
    return operands[0].dtype


def _stack_sharding(*operands, axis):
    first = shardings.common("stack", operands)
    return shardings.with_entries(first, tuple_insert(shardings.entries(first), axis, None))


def _stack_transpose(ct, *operands, axis):
    parts = unstack(ct, axis)
    return [p if ad.is_undefined_primal(x) else None for p, x in zip(parts, operands)]


def _stack_batch(args, bdims, *, axis):
    args, at = align_batch(args, bdims)
    if axis <= at:
        return stack_p.bind(*args, axis=axis), at + 1
    return stack_p.bind(*args, axis=axis + 1), at


def _stack(*xs, axis):
    return concatenate([expand_dims(x, (axis,)) for x in xs], axis)


stack_p = standard_primitive(
    "stack",
    shape=_stack_shape,
    dtype=_stack_dtype,
    sharding=_stack_sharding,
    unreduced=shardings.same_unreduced,
    lower=mlir.lower_fun(_stack, multiple_results=False),
    jvp=LINEAR,
    transpose=_stack_transpose,
    batch=_stack_batch,
)


# ---------------------------------------------------------------------------------------------------
# Splitting


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> Sequence[Array]:
    """Split an array along `axis` into pieces of the given sizes.

    Args:
      operand: array to split.
      sizes: sizes of the pieces along `axis`, whose sum is the operand's size.
      axis: axis to split along.

    Returns:
      A list with one array for each of `sizes`.

    Raises:
      ValueError: if the sum of the sizes is wrong, or `axis` is out of range.

    >>> [part.tolist() for part in lax.split(jnp.arange(5), (2, 3))]
    [[0, 1], [2, 3, 4]]
    """
    return split_p.bind(
        operand,
        sizes=core.canonicalize_shape(sizes),
        axis=canonicalize_axis(axis, np.ndim(operand)),
    )


def _split_shape(operand, *, sizes, axis):
    shape = operand.shape
    if any(type(s) is int and s < 0 for s in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    if not core.definitely_equal(sum(sizes), shape[axis]):
        raise ValueError(
            f"split: sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape "
            f"{shape}, got sizes {list(sizes)}"
        )
    return [(*shape[:axis], s, *shape[axis + 1 :]) for s in sizes]


def _split_sharding(operand, *, sizes, axis):
    return [
        shardings.resized("split", operand, s)
        for s in _split_shape(operand, sizes=sizes, axis=axis)
    ]


def _split_transpose(cts, operand, *, sizes, axis):
    return [concatenate([ad.instantiate_zeros(ct) for ct in cts], axis)]


def _split_batch(args, bdims, *, sizes, axis):
    (x,), (bdim,) = args, bdims
    outs = split_p.bind(x, sizes=sizes, axis=axis + (axis >= bdim))
    return outs, [bdim] * len(outs)


def _split_lower(ctx, x, *, sizes, axis):
    (aval_in,) = ctx.avals_in
    start = [0] * aval_in.ndim
    outs = []
    for size, aval_out in zip(sizes, ctx.avals_out):
        limit = list(aval_in.shape)
        limit[axis] = start[axis] + size
        out = mlir.slice_op(
            ctx, x, aval_out, start_indices=start, limit_indices=limit, strides=[1] * len(start)
        )
        outs.append(rules.with_sharding(ctx, out, aval_out))
        start = start[:axis] + [limit[axis]] + start[axis + 1 :]
    return outs


split_p = standard_primitive(
    "split",
    shape=_split_shape,
    dtype=lambda x, *, sizes, axis: [x.dtype] * len(sizes),
    sharding=_split_sharding,
    unreduced=shardings.same_unreduced,
    lower=_split_lower,
    multiple_results=True,
    jvp=LINEAR,
    transpose=_split_transpose,
    batch=_split_batch,
)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Split an array along `axis` into a tuple of arrays without that dimension.

    Raises:
      ValueError: if `axis` is out of range.

    >>> [row.tolist() for row in lax.unstack(jnp.array([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    axis = canonicalize_axis(axis, np.ndim(x))
    return tuple(unstack_p.bind(x, axis=axis))


def _unstack_count(x, axis):
    n = x.shape[axis]
    if type(n) is not int:
        raise ValueError(f"unstack needs a constant size along axis {axis}, got shape {x.shape}")
    return n


def _unstack_shape(x, *, axis):
    return [tuple_delete(x.shape, axis)] * _unstack_count(x, axis)


def _unstack_sharding(x, *, axis):
    shardings.unsharded_over(
        x, (axis,), "unstack operand cannot be sharded on the unstacking axis."
    )
    spec = shardings.entries(x)
    return shardings.with_entries(x, tuple_delete(spec, axis))


def _unstack_batch(args, bdims, *, axis):
    (x,), (bdim,) = args, bdims
    axis = axis + (axis >= bdim)
    outs = unstack_p.bind(x, axis=axis)
    return outs, [bdim - (axis < bdim)] * len(outs)


def _unstack(x, *, axis):
    return [squeeze(part, (axis,)) for part in split(x, [1] * x.shape[axis], axis)]


unstack_p = standard_primitive(
    "unstack",
    shape=_unstack_shape,
    dtype=lambda x, *, axis: [x.dtype] * x.shape[axis],
    sharding=_unstack_sharding,
    unreduced=shardings.same_unreduced,
    lower=mlir.lower_fun(_unstack, multiple_results=True),
    multiple_results=True,
    jvp=LINEAR,
    transpose=lambda cts, x, *, axis: [stack([ad.instantiate_zeros(ct) for ct in cts], axis)],
    batch=_unstack_batch,
)


# ---------------------------------------------------------------------------------------------------
# Padding


def pad(
    operand: ArrayLike,
    padding_value: ArrayLike,
    padding_config: Sequence[tuple[int, int, int]],
) -> Array:
    """Pad an array with a value around and between its elements.

    Args:
      operand: array to pad.
      padding_value: scalar of the operand's dtype.
      padding_config: for each dimension `(low, high, interior)`: the number of values inserted
        before, after and between elements. Negative `low` and `high` remove elements.

    Returns:
      The padded array.

    Raises:
      TypeError: if the dtypes differ.
      ValueError: if the value is not a scalar, or the configuration is invalid.

    >>> lax.pad(jnp.array([1, 2, 3]), 0, [(1, 2, 1)]).tolist()
    [0, 1, 0, 2, 0, 3, 0, 0]
    >>> lax.pad(jnp.array([1, 2, 3]), 0, [(-1, 0, 0)]).tolist()
    [2, 3]
    """
    try:
        config = tuple([(_dim(lo), _dim(hi), _dim(mid)) for lo, hi, mid in padding_config])
    except ValueError:
        raise ValueError(
            "pad: each entry of padding_config must be (low, high, interior), got "
            f"{tuple(padding_config)}"
        ) from None
    dtype = getattr(operand, "dtype", None)
    if type(padding_value) in (int, float, complex, bool) and dtype is not None:
        padding_value = _python_scalar(padding_value, dtype)
    return pad_p.bind(operand, padding_value, padding_config=config)


def _dim(d):
    return d if type(d) is int or not isinstance(d, np.integer) else int(d)


def _python_scalar(value, dtype):
    """Convert a Python number to a NumPy scalar of `dtype`, unless that would change its kind."""
    kinds = {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}
    if dtypes.issubdtype(dtype, kinds[type(value)]):
        return np.asarray(value, dtype)
    return value


def _pad_shape(operand, padding_value, *, padding_config):
    shape = operand.shape
    if padding_value.shape:
        raise ValueError(f"pad: padding_value must be a scalar; got shape {padding_value.shape}")
    if len(padding_config) != len(shape):
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, got padding_config "
            f"{padding_config} for operand shape {shape}"
        )
    if any(type(mid) is int and mid < 0 for _, _, mid in padding_config):
        raise ValueError(
            f"interior padding in padding_config must be nonnegative, got padding_config {padding_config}"
        )
    out = tuple(
        [lo + hi + core.dilate_dim(d, mid + 1) for (lo, hi, mid), d in zip(padding_config, shape)]
    )
    if any(d < 0 for d in out):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {out}, for "
            f"padding_config {padding_config} and operand shape {shape}"
        )
    return out


def _pad_dtype(operand, padding_value, *, padding_config):
    dtype = operand.dtype
    if isinstance(dtype, dtypes.ExtendedDType) and core.physical_element_aval(dtype).shape:
        # The HLO operation pads with a scalar, but an element is represented by an array.
        raise TypeError(
            f"pad does not accept dtype {rules.dtype_name(dtype)}: use lax.concatenate."
        )
    if operand.dtype != padding_value.dtype:
        raise TypeError(
            "pad operand and padding_value must be same dtype: got "
            f"{rules.dtype_name(operand.dtype)} and {rules.dtype_name(padding_value.dtype)}."
        )
    return operand.dtype


def _pad_sharding(operand, padding_value, *, padding_config):
    out = _pad_shape(operand, padding_value, padding_config=padding_config)
    return shardings.resized("padding", operand, out)


def _pad_transpose(ct, operand, padding_value, *, padding_config):
    ct_operand = ct_value = None
    inner = _unpad(ct, padding_config)
    if ad.is_undefined_primal(operand):
        ct_operand = inner
    if ad.is_undefined_primal(padding_value):
        axes = tuple(range(len(padding_config)))
        total, kept = late.reduce_sum(ct, axes), late.reduce_sum(inner, axes)
        ct_value = sub(total, kept)
    return [ct_operand, ct_value]


def _unpad(x, padding_config):
    """Invert `pad`: return the operand's elements, with zeros for those that were removed."""
    if any(lo < 0 or hi < 0 for lo, hi, _ in padding_config):
        restore = [(max(-lo, 0), max(-hi, 0), 0) for lo, hi, _ in padding_config]
        x = pad(x, np.zeros((), x.dtype), restore)
    start = [max(lo, 0) for lo, _, _ in padding_config]
    limit = [d - max(hi, 0) for d, (_, hi, _) in zip(x.shape, padding_config)]
    strides = [mid + 1 for _, _, mid in padding_config]
    return late.slice(x, start, limit, strides)


def _pad_batch(args, bdims, *, padding_config):
    x, value = args
    xdim, vdim = bdims
    if vdim is None:
        config = tuple_insert(padding_config, xdim, (0, 0, 0))
        return pad_p.bind(x, value, padding_config=config), xdim
    if xdim is None:
        xdim, x = 0, batching.broadcast(x, value.shape[vdim], 0, None)
    config = tuple_insert(padding_config, xdim, (0, 0, 0))
    if isinstance(x.dtype, dtypes.ExtendedDType):
        filler = squeeze(late.slice(value, (0,), (1,)), (0,))  # replaced below, like the zeros
    else:
        filler = np.zeros((), x.dtype)
    out = pad_p.bind(x, filler, padding_config=config)
    # Pad the mask without the batch dimension, which all batch elements share.
    one = full(tuple_delete(x.shape, xdim), True, np.bool_)
    kept = pad_p.bind(one, np.zeros((), np.bool_), padding_config=padding_config)
    dims = tuple([d for d in range(out.ndim) if d != xdim])
    kept = broadcast_in_dim(kept, out.shape, dims)
    return select(kept, out, broadcast_in_dim(value, out.shape, (xdim,))), xdim


def _pad_lower(ctx, x, padding_value, *, padding_config):
    (aval_out,) = ctx.avals_out
    low, high, interior = zip(*padding_config) if padding_config else ((), (), ())
    return [
        rules.with_sharding(
            ctx, mlir.pad(ctx, aval_out, x, padding_value, low, high, interior), aval_out
        )
    ]


pad_p = standard_primitive(
    "pad",
    shape=_pad_shape,
    dtype=_pad_dtype,
    sharding=_pad_sharding,
    unreduced=lambda pairs, *_, **__: pairs[0],
    lower=_pad_lower,
    jvp=LINEAR,
    transpose=_pad_transpose,
    batch=_pad_batch,
)
