"""Sorting and top-k."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.late_binding import late
from jax._src.lax import rules
from jax._src.lax.lax import monoids, sharding as shardings, sort_kernels
from jax._src.lax.lax.arithmetic import imag, real
from jax._src.lax.lax.convert import bitcast_convert_type, convert_element_type
from jax._src.lax.lax.create import broadcasted_iota, full_like
from jax._src.lax.lax.joining import align_batch
from jax._src.lax.lax.logical import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    eq,
    lt,
    ne,
    shift_left,
)
from jax._src.lax.lax.select import select
from jax._src.lax.rules import standard_primitive
from jax._src.lax.utils import int_dtype_for_dim
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import chlo, hlo
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis

# ---------------------------------------------------------------------------------------------------
# Sorting


def sort(
    operand: Array | Sequence[Array],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Array | tuple[Array, ...]:
    """Sort along a dimension, in ascending order.

    NaNs come last, 0.0 and -0.0 are equal, and complex numbers are ordered by their real parts,
    then by their imaginary parts.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: dimension to sort along.
      is_stable: whether equal keys keep their order.
      num_keys: number of leading arrays that are keys, the first being the primary one. The other
        arrays are permuted accordingly.

    Returns:
      The sorted array, or a tuple of arrays.

    Raises:
      ValueError: if `dimension` or `num_keys` is out of range.
      TypeError: if there are no operands, or shapes differ.

    >>> keys, values = lax.sort((jnp.array([3, 1, 2]), jnp.array([30, 10, 20])))
    >>> values.tolist()
    [10, 20, 30]
    """
    if isinstance(operand, Sequence) and not isinstance(operand, (str, bytes)):
        if len(operand) == 0:
            raise TypeError("Sort requires at least one operand")
        if not 1 <= num_keys <= len(operand):
            raise ValueError(
                f"num_keys={num_keys} must be between 1 and len(operand)={len(operand)}"
            )
        dimension = canonicalize_axis(dimension, np.ndim(operand[0]))
        return tuple(
            sort_p.bind(
                *operand, dimension=dimension, is_stable=bool(is_stable), num_keys=int(num_keys)
            )
        )
    if num_keys != 1:
        raise ValueError(f"num_keys={num_keys} must equal 1 for a single operand.")
    dimension = canonicalize_axis(dimension, np.ndim(operand))
    return sort_p.bind(operand, dimension=dimension, is_stable=bool(is_stable), num_keys=1)[0]


def sort_key_val(
    keys: Array, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort `keys` along `dimension`, and permute `values` accordingly; see `sort`.

    >>> keys, values = lax.sort_key_val(jnp.array([2, 1]), jnp.array([5., 6.]))
    >>> values.tolist()
    [6.0, 5.0]
    """
    k, v = sort((keys, values), dimension, is_stable, num_keys=1)
    return k, v


def _sort_shape(*operands, dimension, is_stable, num_keys):
    shape = operands[0].shape
    if any(a.shape != shape for a in operands):
        raise TypeError(
            f"Arguments to sort must have equal shapes, got: {' '.join(str(a.shape) for a in operands)}"
        )
    for key in operands[:num_keys]:
        if dtypes.issubdtype(key.dtype, dtypes.extended):
            raise TypeError(f"sort does not accept keys of dtype {rules.dtype_name(key.dtype)}.")
    rules.check_no_float0("sort", [key.dtype for key in operands[:num_keys]])
    return [shape] * len(operands)


def _sort_sharding(*operands, dimension, is_stable, num_keys):
    sharded = [a for a in operands if a._sharding is not None]
    out = shardings.unsharded_over(
        shardings.common("sort", sharded),
        (dimension,),
        "Arguments to sort must be unsharded over the sorting dimension.",
    )
    return [out] * len(operands)


def _sort_jvp(primals, tangents, *, dimension, is_stable, num_keys):
    """Sort an index array along with the operands, and gather the tangents by it."""
    params = dict(dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    if all(type(t) is Zero for t in tangents):
        outs = sort_p.bind(*primals, **params)
        return outs, [Zero.from_primal_value(o) for o in outs]
    shape = core.typeof(primals[0]).shape
    index_dtype = int_dtype_for_dim(shape[dimension], signed=False)
    sharding = next((s for s in (core.typeof(p)._sharding for p in primals) if s is not None), None)
    index = broadcasted_iota(index_dtype, shape, dimension, out_sharding=sharding)
    *outs, index = sort_p.bind(*primals, index, **params)
    tangents_out = [
        Zero.from_primal_value(o) if type(t) is Zero else late.take_along(t, index, dimension)
        for o, t in zip(outs, tangents)
    ]
    return outs, tangents_out


def _sort_batch(args, bdims, *, dimension, is_stable, num_keys):
    args, at = align_batch(args, bdims)
    dimension = dimension + (dimension >= at)
    outs = sort_p.bind(*args, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    return outs, [at] * len(outs)


def _sort_lower(less):
    def lower(ctx, *xs, dimension, is_stable, num_keys):
        module_ctx = ctx.module_context
        op = hlo.SortOp(
            [mlir.aval_to_ir_type(module_ctx, a) for a in ctx.avals_out],
            mlir.flatten_ir_values(xs),
            dimension=mlir.i64_attr(dimension),
            is_stable=ir.BoolAttr.get(is_stable),
        )
        scalars = [
            mlir.aval_to_ir_type(module_ctx, core.ShapedArray((), a.dtype)) for a in ctx.avals_in
        ]
        block = op.regions[0].blocks.append(*[t for t in scalars for _ in range(2)])
        with ir.InsertionPoint(block):
            pairs = list(zip(block.arguments[::2], block.arguments[1::2]))
            keys = [
                part
                for (x, y), a in zip(pairs[:num_keys], ctx.avals_in)
                for part in _real_parts(x, y, a.dtype)
            ]
            hlo.return_([_lexicographic(less, keys)])
        return [rules.with_sharding(ctx, r, a) for r, a in zip(op.results, ctx.avals_out)]

    return lower


def _real_parts(x, y, dtype):
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = np.finfo(dtype).dtype
        return [(hlo.real(x), hlo.real(y), part), (hlo.imag(x), hlo.imag(y), part)]
    return [(x, y, dtype)]


def _lexicographic(less, keys) -> Any:
    """Compare pairs lexicographically: the first pair that differs decides."""
    result = None
    for x, y, dtype in reversed(keys):
        lt, eq = less(x, y, dtype, result is not None)
        result = lt if result is None else hlo.or_(lt, hlo.and_(eq, result))
    return result


def _total_order(x, y, dtype, need_eq):
    """Compare in the total order of floats, after both zeros are made equal, and so are all NaNs.

    Accelerator backends recognize this comparison and sort by a library.
    """
    kind = None
    if dtypes.issubdtype(dtype, np.floating):
        x, y, kind = _canonical(x, dtype), _canonical(y, dtype), "TOTALORDER"
    lt = mlir.compare_hlo(x, y, "LT", kind)
    return lt, mlir.compare_hlo(x, y, "EQ", kind) if need_eq else None


def _canonical(x, dtype):
    zero = monoids.constant(np.zeros((), dtype))
    nan = monoids.constant(np.array(np.nan, dtype))
    no_sign = hlo.select(mlir.compare_hlo(x, zero, "EQ"), zero, x)
    return hlo.select(mlir.compare_hlo(x, x, "NE"), nan, no_sign)


# CPUs sort by the kernels of jaxlib-ext if that is installed. Otherwise:
#
# XLA's CPU compiler sorts a single array by `<` about five times as fast as by other comparisons,
# or together with other arrays. Large sorts are reduced to that case: keys of up to 32 bits become
# the upper half of 64-bit integers whose lower half is the position. The sorted positions then
# permute all operands.

_MIN_PACKED_SIZE = 1024


def _lower_cpu(ctx, *xs, dimension, is_stable, num_keys):
    # Neither XLA's CPU compiler nor the kernels sort integers of fewer than 8 bits.
    wide = [_widened(a) for a in ctx.avals_in]
    wide_ctx = ctx.replace(avals_in=wide, avals_out=[_widened(a) for a in ctx.avals_out])
    xs = [
        mlir.convert_hlo(ctx, x, a, w) if a is not w else x
        for x, a, w in zip(xs, ctx.avals_in, wide)
    ]
    if sort_kernels.can_sort(wide_ctx, dimension):
        results = sort_kernels.sort(wide_ctx, xs, dimension, num_keys)
    elif _can_pack(wide, dimension, num_keys):
        with config.enable_x64(True):
            results = _lower_packed(wide_ctx, *xs, dimension=dimension, num_keys=num_keys)
    else:
        params = dict(dimension=dimension, is_stable=is_stable, num_keys=num_keys)
        results = _lower_total_order(wide_ctx, *xs, **params)
    return [
        rules.with_sharding(ctx, r if a is w else mlir.convert_hlo(ctx, r, w, a), a)
        for r, a, w in zip(results, ctx.avals_out, wide_ctx.avals_out)
    ]


def _widened(aval):
    """Widen integers of fewer than 8 bits to 8 bits."""
    dtype = aval.dtype
    if not dtypes.issubdtype(dtype, np.integer) or dtypes.itemsize_bits(dtype) >= 8:
        return aval
    return aval.update(
        dtype=np.dtype(np.uint8 if dtypes.issubdtype(dtype, np.unsignedinteger) else np.int8)
    )


def _can_pack(avals, dimension, num_keys) -> bool:
    shape = avals[0].shape
    keys = [a.dtype for a in avals[:num_keys]]
    if not core.is_constant_shape(shape) or shape[dimension] >= 2**32:
        return False
    # XLA orders the fnuz dtypes wrongly; packing converts them to float32.
    if math.prod(shape) < _MIN_PACKED_SIZE and not any(d.name.endswith("fnuz") for d in keys):
        return False
    if any(a._sharding is not None for a in avals):
        return False
    if len(avals) == 1 and dtypes.issubdtype(keys[0], np.integer):
        return False  # the fast case needs no packing
    return all(
        dtypes.itemsize_bits(d) <= (64 if dtypes.issubdtype(d, np.complexfloating) else 32)
        for d in keys
    )


def _sort_packed(*operands, dimension, num_keys):
    """Sort by packed keys: stable sorts by each key, the last key first."""
    keys = [part for x in operands[:num_keys] for part in _key_parts(x)]
    shape = operands[0].shape
    positions = broadcasted_iota(np.int64, shape, dimension)
    low_half = full_like(positions, 2**32 - 1)
    order = None
    for key in reversed(keys):
        if order is not None:
            key = late.take_along(key, order, dimension)
        packed = bitwise_or(shift_left(key, full_like(key, 32)), positions)
        (packed,) = sort_p.bind(packed, dimension=dimension, is_stable=False, num_keys=1)
        picked = bitwise_and(packed, low_half)
        order = picked if order is None else late.take_along(order, picked, dimension)
    return [late.take_along(x, order, dimension) for x in operands]


def _key_parts(x) -> list[Any]:
    """Convert the real and imaginary parts of `x` to int64 with an equivalent order, in 32 bits."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return [*_key_parts(real(x)), *_key_parts(imag(x))]
    if dtypes.issubdtype(x.dtype, np.floating):
        x = convert_element_type(x, np.float32)
        zero = full_like(x, 0)
        x = select(eq(x, zero), zero, x)
        x = select(ne(x, x), full_like(x, np.nan), x)
        bits = bitcast_convert_type(x, np.int32)
        # The bits of negative floats increase with the magnitude: invert them.
        x = select(
            lt(bits, full_like(bits, 0)), bitwise_xor(bits, full_like(bits, 2**31 - 1)), bits
        )
    # Shift the range, otherwise the upper half would be negative from 2**31 on.
    if x.dtype == np.uint32:
        x = bitcast_convert_type(bitwise_xor(x, full_like(x, 2**31)), np.int32)
    return [convert_element_type(x, np.int64)]


_lower_total_order = _sort_lower(_total_order)
_lower_packed = mlir.lower_fun(_sort_packed, multiple_results=True)

sort_p = standard_primitive(
    "sort",
    shape=_sort_shape,
    dtype=lambda *operands, **_: [a.dtype for a in operands],
    weak_type=lambda *operands, **_: [a.weak_type for a in operands],
    sharding=_sort_sharding,
    lower={None: _lower_total_order, "cpu": _lower_cpu},
    multiple_results=True,
    jvp=_sort_jvp,
    batch=_sort_batch,
)


# ---------------------------------------------------------------------------------------------------
# Top-k


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list[Array]:
    """Find the `k` largest elements along an axis, in descending order, and their indices.

    Args:
      operand: real array.
      k: number of elements, at most the size of `axis`.
      axis: axis to search.

    Returns:
      A list of values and int32 indices, of size `k` along `axis`. Equal elements are in order of their
      index.

    Raises:
      ValueError: if `k` or `axis` is out of range, or the operand is complex.

    >>> values, indices = lax.top_k(jnp.array([9., 3., 6., 4., 10.]), 3)
    >>> values.tolist(), indices.tolist()
    ([10.0, 9.0, 6.0], [4, 0, 2])
    """
    axis = canonicalize_axis(axis, np.ndim(operand))
    k = core.canonicalize_dim(k)
    if core.definitely_greater(0, k):
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    return top_k_p.bind(operand, k=k, axis=axis)


def _top_k_shape(x, *, k, axis):
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError("top_k is not compatible with complex inputs.")
    if x.shape[axis] < k:
        raise ValueError(
            "k argument to top_k must be no larger than size along axis; got "
            f"k={k} with shape={x.shape} and axis={axis}"
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [shape, shape]


def _top_k_sharding(x, *, k, axis):
    sharding = shardings.unsharded_over(
        x,
        (axis,),
        "The input should be unsharded over the axis along which to compute the top_k values.",
    )
    return [sharding, sharding]


def _top_k_jvp(primals, tangents, *, k, axis):
    (x,), (t,) = primals, tangents
    values, indices = top_k_p.bind(x, k=k, axis=axis)
    if type(t) is Zero:
        t_out = Zero.from_primal_value(values)
    else:
        t_out = late.take_along(t, indices, axis)
    return [values, indices], [t_out, Zero.from_primal_value(indices)]


def _top_k_batch(args, bdims, *, k, axis):
    (x,), (bdim,) = args, bdims
    outs = top_k_p.bind(x, k=k, axis=axis + (axis >= bdim))
    return outs, [bdim, bdim]


def _top_k_hlo(ctx, x, k):
    if not core.is_constant_dim(k):
        return _top_k_symbolic(ctx, x, k)
    op = chlo.TopKOp(x, mlir.i64_attr(k))
    return op.values, op.indices


def _top_k_symbolic(ctx, x, k):
    """A call that the compiler turns into the operation, when it refines shapes."""
    types = ir.RankedTensorType(x.type), ir.IntegerType.get_signless(32)
    shape = [*types[0].shape[:-1], ir.ShapedType.get_dynamic_size()]
    op = hlo.CustomCallOp(
        [ir.RankedTensorType.get(shape, t) for t in (types[0].element_type, types[1])],
        [x, *mlir.eval_dynamic_shape_as_vals(ctx, (k,))],
        call_target_name=ir.StringAttr.get("stablehlo.dynamic_top_k"),
    )
    return list(op.results)


def _top_k_cpu(ctx, x, k):
    if core.is_constant_dim(k) and sort_kernels.can_top_k(ctx):
        return sort_kernels.top_k(ctx, x, _widened(ctx.avals_in[0]).dtype, k)
    return _top_k_hlo(ctx, x, k)


def _top_k_lower(find, ctx, x, *, k, axis):
    (aval,) = ctx.avals_in
    last = len(aval.shape) - 1
    perm = list(range(last + 1))
    perm[axis], perm[last] = perm[last], perm[axis]
    wide = _widened(aval)  # XLA's CPU compiler cannot pair types of fewer than 8 bits with indices
    if wide is not aval:
        x = mlir.convert_hlo(ctx, x, aval, wide)
    if axis != last:
        x = hlo.transpose(x, mlir.dense_int_array(perm))
    outs = list(find(ctx, x, k))
    if wide is not aval:
        shape = tuple([ctx.avals_out[0].shape[d] for d in perm])
        outs[0] = mlir.convert_hlo(ctx, outs[0], wide.update(shape=shape), aval.update(shape=shape))
    if axis != last:
        outs = [hlo.transpose(o, mlir.dense_int_array(perm)) for o in outs]
    return [rules.with_sharding(ctx, o, a) for o, a in zip(outs, ctx.avals_out)]


top_k_p = standard_primitive(
    "top_k",
    shape=_top_k_shape,
    dtype=lambda x, *, k, axis: [x.dtype, np.dtype(np.int32)],
    weak_type=lambda x, *, k, axis: [x.weak_type, False],
    sharding=_top_k_sharding,
    lower={
        None: functools.partial(_top_k_lower, _top_k_hlo),
        "cpu": functools.partial(_top_k_lower, _top_k_cpu),
    },
    multiple_results=True,
    jvp=_top_k_jvp,
    batch=_top_k_batch,
)
