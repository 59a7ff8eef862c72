"""Reductions: sums, products, extrema, logical operations, argmax and argmin, and any monoid."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.mlir.shardings import allows_cpu_forms
from jax._src.late_binding import late
from jax._src.lax import rules
from jax._src.lax.lax import arithmetic, monoids, sharding as shardings
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import broadcasted_iota, full_like
from jax._src.lax.lax.cumulative import cumprod
from jax._src.lax.lax.joining import concatenate, pad
from jax._src.lax.lax.logical import bitwise_and, bitwise_or, bitwise_xor, eq, ne
from jax._src.lax.lax.select import select
from jax._src.lax.lax.shape import broadcast_in_dim, expand_dims, reshape, transpose
from jax._src.lax.lax.trees import combine_jaxpr, combine_jvp, reduce_tree
from jax._src.lax.rules import BOOL, INT, LINEAR, NUMERIC, ZERO, standard_primitive
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import split_list, weakref_lru_cache

# Sums of fewer elements are lowered as they are.
_FEWEST_IN_FLOAT32 = 4096

# ---------------------------------------------------------------------------------------------------
# Reductions by a known monoid


def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding=None) -> Array:
    """Sum over `axes`, in the operand's dtype.

    Args:
      operand: numeric array.
      axes: distinct dimensions, not negative.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array without the dimensions `axes`.

    Raises:
      ValueError: if axes are repeated or out of range.
      TypeError: if the operand is not numeric.

    >>> lax.reduce_sum(jnp.arange(6).reshape(2, 3), (0,)).tolist()
    [3, 5, 7]
    """
    sharding = canonicalize_sharding(out_sharding, "reduce_sum")
    return reduce_sum_p.bind(operand, axes=tuple(axes), out_sharding=sharding)


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Multiply over `axes`, in the operand's dtype; see `reduce_sum`.

    >>> lax.reduce_prod(jnp.array([2, 3, 4]), (0,)).item()
    24
    """
    return reduce_prod_p.bind(operand, axes=tuple(axes))


def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Take the maximum over `axes`; NaN if an element is NaN. See `reduce_sum`.

    Complex numbers are compared lexicographically. The maximum of no elements is the dtype's
    minimum (-inf for floats).

    >>> lax.reduce_max(jnp.array([2, 4, 3]), (0,)).item()
    4
    """
    return reduce_max_p.bind(operand, axes=tuple(axes))


def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Take the minimum over `axes`; NaN if an element is NaN. See `reduce_sum`.

    Complex numbers are compared lexicographically. The minimum of no elements is the dtype's
    maximum (inf for floats).

    >>> lax.reduce_min(jnp.array([2, 4, 3]), (0,)).item()
    2
    """
    return reduce_min_p.bind(operand, axes=tuple(axes))


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Reduce by bitwise AND (logical AND of booleans) over `axes`; see `reduce_sum`.

    >>> lax.reduce_and(jnp.array([True, False]), (0,)).item()
    False
    """
    return reduce_and_p.bind(operand, axes=tuple(axes))


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Reduce by bitwise OR (logical OR of booleans) over `axes`; see `reduce_sum`.

    >>> lax.reduce_or(jnp.array([True, False]), (0,)).item()
    True
    """
    return reduce_or_p.bind(operand, axes=tuple(axes))


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Reduce by bitwise XOR (logical XOR of booleans) over `axes`; see `reduce_sum`.

    >>> lax.reduce_xor(jnp.array([5, 3]), (0,)).item()
    6
    """
    return reduce_xor_p.bind(operand, axes=tuple(axes))


def _check_axes(aval, axes) -> None:
    if len(axes) != len(set(axes)):
        raise ValueError(f"duplicate value in 'axes' of reduction: {axes}")
    for a in axes:
        if not 0 <= a < len(aval.shape):
            raise ValueError(
                f"reduction axes {axes} contains out-of-bounds indices for {aval.str_short()}."
            )


def _reduce_shape(x, *, axes, **_):
    _check_axes(x, axes)
    return tuple([d for i, d in enumerate(x.shape) if i not in axes])


def _reduce_sharding(x, *, axes, **_):
    return shardings.with_entries(
        x, [e for i, e in enumerate(shardings.entries(x)) if i not in axes]
    )


def _reduction(
    name: str,
    monoid: monoids.Monoid,
    *,
    dtype: Callable[[Any, str], Any],
    jvp: Any,
    transpose: Callable[..., Any] | None = None,
    sharding: Callable[..., Any] = _reduce_sharding,
    unreduced: Callable[..., Any] | None = None,
) -> core.Primitive:
    def dtype_rule(x, **_):
        return dtype(x.dtype, name)

    def batch(args, bdims, *, axes, **params):
        (x,), (bdim,) = args, bdims
        if params.get("out_sharding") is not None:
            at = bdim - sum(a < bdim for a in axes)
            params["out_sharding"] = shardings.batched(params["out_sharding"], x, bdim, at)
        axes = tuple([a + (a >= bdim) for a in axes])
        return p.bind(x, axes=axes, **params), bdim - sum(a < bdim for a in axes)

    def lower(ctx, x, *, axes, **_):
        (aval_out,) = ctx.avals_out
        if monoid is monoids.sum_monoid:
            _check_16_bit(name, *ctx.avals_in)
            if _is_summed_in_float32(ctx):
                return [_sum_in_float32(ctx, x, axes)]
        return [rules.with_sharding(ctx, monoids.lower_reduce(ctx, monoid, x, axes), aval_out)]

    p = standard_primitive(
        name,
        shape=_reduce_shape,
        dtype=dtype_rule,
        sharding=sharding,
        unreduced=unreduced,
        lower=lower,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
    )
    return p


def _check_16_bit(name: str, aval) -> None:
    if aval.dtype.name in ("float16", "bfloat16") and not config.allow_f16_reductions.value:
        raise ValueError(
            f"{name} on operand {aval.str_short(short_dtypes=True)} is not allowed when"
            " jax_allow_f16_reductions=False: convert it to float32 before."
        )


def _is_summed_in_float32(ctx) -> bool:
    """Whether XLA would round each partial sum of many to bfloat16, on CPU, which also takes longer."""
    (aval,) = ctx.avals_in
    return (
        aval.dtype == dtypes.bfloat16
        and core.is_constant_shape(aval.shape)
        and math.prod(aval.shape) >= _FEWEST_IN_FLOAT32
        and allows_cpu_forms(ctx.module_context)
    )


def _sum_in_float32(ctx, x, axes):
    (aval,), (aval_out,) = ctx.avals_in, ctx.avals_out
    wide, wide_out = (a.update(dtype=np.dtype(np.float32)) for a in (aval, aval_out))
    x = mlir.convert_hlo(ctx, x, aval, wide)
    out = monoids.lower_reduce(ctx.replace(avals_out=[wide_out]), monoids.sum_monoid, x, axes)
    return mlir.convert_hlo(ctx, out, wide_out, aval_out)


def _number(dtype, name):
    rules.check_dtypes(name, (NUMERIC,), (dtype,))
    return dtype


def _any(dtype, name):
    rules.check_dtypes(name, (NUMERIC | BOOL,), (dtype,))
    return dtype


def _logical(dtype, name):
    if dtype != np.bool_ and not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            f"{name}: logical reduction requires operand dtype bool or int, got "
            f"{rules.dtype_name(dtype)}."
        )
    return dtype


def _reduce_sum_sharding(x, *, axes, out_sharding):
    return _reduce_sharding(x, axes=axes) if out_sharding is None else out_sharding


def _reduce_sum_unreduced(pairs, x, *, axes, out_sharding):
    ((unreduced, reduced),) = pairs
    if out_sharding is not None:
        unreduced |= frozenset(out_sharding.spec.unreduced)
    return unreduced, reduced


def _reduce_sum_transpose(ct, x, *, axes, out_sharding):
    aval = x.aval
    if not axes:
        return [ct]
    kept = [d for d in range(len(aval.shape)) if d not in axes]
    return [broadcast_in_dim(ct, aval.shape, kept, out_sharding=aval._sharding)]


reduce_sum_p = _reduction(
    "reduce_sum",
    monoids.sum_monoid,
    dtype=_number,
    sharding=_reduce_sum_sharding,
    unreduced=_reduce_sum_unreduced,
    jvp=LINEAR,
    transpose=_reduce_sum_transpose,
)


def _reduce_prod_jvp(primals, tangents, *, axes):
    (x,), (t,) = primals, tangents
    out = reduce_prod_p.bind(x, axes=axes)
    if type(t) is Zero or math.prod(x.shape[a] for a in axes) == 0:
        return out, Zero.from_primal_value(out)
    axis = len(x.shape) - len(axes)
    x, t = _reduced_last(x, axes), _reduced_last(t, axes)
    return out, reduce_sum(arithmetic.mul(t, _products_of_others(x, axis)), (axis,))


def _reduced_last(x, axes):
    """Merge the dimensions to reduce into one trailing dimension."""
    shape = core.typeof(x).shape
    kept = [d for d in range(len(shape)) if d not in axes]
    moved = transpose(x, [*kept, *axes])
    return reshape(moved, [*[shape[d] for d in kept], math.prod(shape[d] for d in axes)])


def _products_of_others(x, axis):
    """Return for each element the product of all others along the last axis; zeros are allowed."""
    before = pad(x, np.ones((), x.dtype), [(0, 0, 0)] * axis + [(1, -1, 0)])
    after = pad(x, np.ones((), x.dtype), [(0, 0, 0)] * axis + [(-1, 1, 0)])
    return arithmetic.mul(cumprod(before, axis), cumprod(after, axis, reverse=True))


reduce_prod_p = _reduction("reduce_prod", monoids.prod_monoid, dtype=_number, jvp=_reduce_prod_jvp)


def _extremum_jvp(g, out, x, *, axes):
    """Return the mean of the tangents of all elements that attain the extremum."""
    where = convert_element_type(eq(x, expand_dims(out, axes)), g.dtype)
    count = reduce_sum(where, axes)
    return arithmetic.div(reduce_sum(arithmetic.mul(g, where), axes), count)


reduce_max_p = _reduction("reduce_max", monoids.max_monoid, dtype=_any, jvp=(_extremum_jvp,))
reduce_min_p = _reduction("reduce_min", monoids.min_monoid, dtype=_any, jvp=(_extremum_jvp,))
reduce_and_p = _reduction("reduce_and", monoids.and_monoid, dtype=_logical, jvp=ZERO)
reduce_or_p = _reduction("reduce_or", monoids.or_monoid, dtype=_logical, jvp=ZERO)
reduce_xor_p = _reduction("reduce_xor", monoids.xor_monoid, dtype=_logical, jvp=ZERO)


# ---------------------------------------------------------------------------------------------------
# argmax and argmin


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Return the index of the maximum along `axis`: the first one, or the first NaN if any.

    Args:
      operand: real array.
      axis: dimension to search, not negative, and of size 1 or more.
      index_dtype: integer dtype of the result.

    Returns:
      An array of indices, without the dimension `axis`.

    Raises:
      ValueError: if `axis` is out of range or of size 0.
      TypeError: if a dtype is invalid.

    >>> lax.argmax(jnp.array([3, 7, 5]), 0, jnp.int32).item()
    1
    """
    return _bind_arg(argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Return the index of the minimum along `axis`; see `argmax`.

    >>> lax.argmin(jnp.array([3, 7, 5]), 0, jnp.int32).item()
    0
    """
    return _bind_arg(argmin_p, operand, axis, index_dtype)


def _bind_arg(primitive, operand, axis, index_dtype):
    dtype = dtypes.check_and_canonicalize_user_dtype(index_dtype, primitive.name)
    return primitive.bind(operand, axes=(operator.index(axis),), index_dtype=dtype)


def _arg_primitive(
    name: str, direction: str, identity: Callable[[Any], Any], reduce_extremum: Callable[..., Any]
) -> core.Primitive:
    def shape(x, *, axes, index_dtype):
        (axis,) = axes
        if not 0 <= axis < len(x.shape):
            raise ValueError(f"{name}: Invalid axis {axis} for operand shape {x.shape}")
        if core.definitely_equal(x.shape[axis], 0):
            raise ValueError(
                f"{name} requires a non-empty reduced dimension, got operand.shape={x.shape} "
                f"axis={axis}"
            )
        return tuple([d for i, d in enumerate(x.shape) if i != axis])

    def dtype(x, *, axes, index_dtype):
        rules.check_dtypes(name, (rules.FLOAT | INT | BOOL,), (x.dtype,))
        if not dtypes.issubdtype(index_dtype, np.integer):
            raise TypeError(
                f"{name}: index_dtype must be an integer type, but got {rules.dtype_name(index_dtype)}"
            )
        return index_dtype

    def batch(args, bdims, *, axes, index_dtype):
        (x,), (bdim,) = args, bdims
        axes = tuple([a + (a >= bdim) for a in axes])
        return p.bind(x, axes=axes, index_dtype=index_dtype), bdim - sum(a < bdim for a in axes)

    p = standard_primitive(
        name,
        shape=shape,
        dtype=dtype,
        weak_type=lambda *_, **__: False,
        sharding=_reduce_sharding,
        lower={
            None: mlir.outlined(_arg_lowering(direction, identity)),
            "cpu": mlir.outlined(_arg_cpu_lowering(direction, identity, reduce_extremum)),
        },
        jvp=ZERO,
        batch=batch,
    )
    return p


def _arg_lowering(direction: str, identity):
    def lower(ctx, x, *, axes, index_dtype):
        """Lower to one reduction of (value, index) pairs."""
        (aval,), (aval_out,) = ctx.avals_in, ctx.avals_out
        (axis,) = axes
        index_aval = core.ShapedArray(aval.shape, index_dtype)
        indices = mlir.iota(ctx, index_aval, dimension=axis)
        value_type = mlir.aval_to_ir_type(ctx.module_context, core.ShapedArray((), aval.dtype))
        index_type = mlir.aval_to_ir_type(ctx.module_context, core.ShapedArray((), index_dtype))
        out_types = [
            mlir.aval_to_ir_type(ctx.module_context, aval_out.update(dtype=aval.dtype)),
            mlir.aval_to_ir_type(ctx.module_context, aval_out),
        ]
        inits = [
            monoids.constant(identity(aval.dtype)),
            monoids.constant(np.array(0, index_dtype)),
        ]
        op = hlo.ReduceOp(out_types, [x, indices], inits, mlir.dense_int_array(axes))
        block = op.regions[0].blocks.append(value_type, index_type, value_type, index_type)
        with ir.InsertionPoint(block):
            x1, i1, x2, i2 = block.arguments
            better = mlir.compare_hlo(x1, x2, direction)
            if dtypes.issubdtype(aval.dtype, np.floating):
                better = hlo.or_(better, mlir.compare_hlo(x1, x1, "NE"))
            tie = hlo.and_(mlir.compare_hlo(x1, x2, "EQ"), mlir.compare_hlo(i1, i2, "LT"))
            first = hlo.or_(better, tie)
            hlo.return_([hlo.select(better, x1, x2), hlo.select(first, i1, i2)])
        return [rules.with_sharding(ctx, op.results[1], aval_out)]

    return lower


def _arg_cpu_lowering(direction: str, identity, reduce_extremum: Callable[..., Any]):
    """Lower to two reductions, which vectorize on CPU: the extremum, and then its first index."""

    def positions(x, *, axes, index_dtype):
        (axis,) = axes
        extremum = expand_dims(reduce_extremum(x, axes), axes)
        found = bitwise_or(eq(x, extremum), ne(x, x))
        index = broadcasted_iota(index_dtype, x.shape, axis)
        return reduce_min(select(found, index, full_like(index, x.shape[axis])), axes)

    pairs = _arg_lowering(direction, identity)
    two_reductions = mlir.lower_fun(positions, multiple_results=False)

    def lower(ctx, x, *, axes, index_dtype):
        (aval,) = ctx.avals_in
        n = aval.shape[axes[0]]
        vectorizes = (
            type(n) is int
            and _MIN_VECTOR <= n <= dtypes.iinfo(index_dtype).max
            and dtypes.issubdtype(aval.dtype, np.floating)
            and aval._sharding is None
        )
        rule = two_reductions if vectorizes else pairs
        return rule(ctx, x, axes=axes, index_dtype=index_dtype)

    return lower


_MIN_VECTOR = 32

argmax_p = _arg_primitive("argmax", "GT", monoids.max_identity, reduce_max)
argmin_p = _arg_primitive("argmin", "LT", monoids.min_identity, reduce_min)


# ---------------------------------------------------------------------------------------------------
# Reductions by an arbitrary monoid


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding=None,
) -> Any:
    """Reduce over `dimensions` by an associative function.

    Args:
      operands: pytree of arrays of one shape.
      init_values: the identity of `computation`: a pytree of scalars like `operands`.
      computation: function of two pytrees of scalars like `operands` that returns one. It must be
        associative and commutative; the order of evaluation is unspecified.
      dimensions: dimensions to reduce.
      out_sharding: sharding of the results, in explicit mode.

    Returns:
      A pytree like `operands`, of arrays without `dimensions`.

    Raises:
      ValueError, TypeError: if structures, shapes or dtypes are inconsistent.

    >>> lax.reduce(jnp.array([1., 2., 4.]), 1., lax.mul, (0,)).item()
    8.0
    """
    flat_operands, operand_tree = tree_flatten(operands)
    flat_inits, init_tree = tree_flatten(init_values)
    if operand_tree != init_tree:
        raise ValueError(
            "reduce: operands must have the same tree structure as init_values: "
            f"{operand_tree} vs. {init_tree}"
        )
    if not flat_operands:
        raise ValueError("reduce requires at least one operand")
    dimensions = tuple([operator.index(d) for d in dimensions])
    operand_avals = [core.typeof(x) for x in flat_operands]
    flat_inits = [like_operand(i, x, computation) for i, x in zip(flat_inits, operand_avals)]
    if len(flat_operands) == 1:
        reducer = monoid_reducer(computation, flat_operands[0], flat_inits[0])
        if reducer is not None:
            kwargs = {"out_sharding": out_sharding} if reducer is reduce_sum else {}
            if out_sharding is None or kwargs:
                return tree_unflatten(
                    operand_tree, [reducer(flat_operands[0], dimensions, **kwargs)]
                )
    dimensions = tuple([_from_front(d, operand_avals[0], dimensions) for d in dimensions])
    jaxpr = trace_computation("reduce", computation, operand_tree, [x.dtype for x in operand_avals])
    sharding = canonicalize_sharding(out_sharding, "reduce")
    outs = reduce_p.bind(
        *flat_operands, *flat_inits, computation=computation, jaxpr=jaxpr, dimensions=dimensions
    )
    if sharding is not None:
        outs = [broadcast_in_dim(x, x.shape, range(x.ndim), out_sharding=sharding) for x in outs]
    return tree_unflatten(operand_tree, outs)


def _from_front(d, aval, dimensions):
    if not -len(aval.shape) <= d < len(aval.shape):
        raise ValueError(
            f"reduce: dimensions {dimensions} are out of range for an operand of shape {aval.shape}"
        )
    return d % len(aval.shape)


def like_operand(init, aval, computation: Callable | None = None):
    """Convert a Python number to a scalar of the operand's dtype, if it promotes to that.

    An infinity from which `max` or `min` starts stands for the smallest or largest number of a
    dtype without infinities.
    """
    start = _INFINITE_STARTS.get(computation) if _hashable(computation) else None
    if start is not None and any(dtypes.issubdtype(aval.dtype, kind) for kind in INT | BOOL):
        infinity, identity = start
        if not isinstance(init, core.Tracer) and not np.ndim(init) and np.asarray(init) == infinity:
            return identity(aval.dtype)
    if type(init) in (bool, int, float, complex):
        with config.numpy_dtype_promotion("standard"):
            promoted = dtypes.result_type(init, aval)
        if promoted == aval.dtype:
            return np.asarray(init).astype(aval.dtype)
    return init


def monoid_reducer(computation: Callable, operand: Any, init: Any) -> Callable | None:
    """Return the function for a reduction by a known monoid from its identity, otherwise None."""
    known = _MONOID_REDUCERS.get(computation) if _hashable(computation) else None
    aval = core.typeof(operand)
    if known is None or np.ndim(init) or isinstance(init, core.Tracer):
        return None
    reducer, identity, accepts = known
    if not any(dtypes.issubdtype(aval.dtype, kind) for kind in accepts):
        return None
    value = np.asarray(init)
    if dtypes.issubdtype(aval.dtype, np.bool_) != (value.dtype == np.bool_):
        return None
    return reducer if value == identity(aval.dtype) else None


def _hashable(f) -> bool:
    try:
        hash(f)
    except TypeError:
        return False
    return True


def trace_computation(name: str, computation: Callable, tree, in_dtypes: Sequence[Any]):
    """Trace a function of two pytrees of scalars that returns one, to a jaxpr on their leaves.

    Raises:
      TypeError: if it does not return scalars of the dtypes that it takes.
    """
    try:
        jaxpr = _traced_computation(computation, tree, tuple(in_dtypes))
    except _NotWeaklyReferable:
        jaxpr = _trace_computation(computation, tree, tuple(in_dtypes))
    monoids.check_computation(name, jaxpr, in_dtypes)
    return jaxpr


class _NotWeaklyReferable(Exception):
    pass


def _trace_computation(computation, tree, in_dtypes):
    def flat(*args):
        left, right = split_list(args, [len(args) // 2])
        out = computation(tree_unflatten(tree, left), tree_unflatten(tree, right))
        leaves, out_tree = tree_flatten(out)
        if out_tree != tree:
            raise TypeError(
                "The computation of a reduction must return a pytree like the one it takes, "
                f"{tree}, got {out_tree}."
            )
        return leaves

    avals = [core.ShapedArray((), d) for d in in_dtypes] * 2
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat, avals)
    return core.ClosedJaxpr(jaxpr, consts)


_cached_trace = weakref_lru_cache(_trace_computation)


def _traced_computation(computation, tree, in_dtypes):
    try:
        return _cached_trace(computation, tree, in_dtypes)
    except TypeError as err:
        if "weak reference" in str(err):
            raise _NotWeaklyReferable from None
        raise


def _generic_shape(*avals, computation, jaxpr, dimensions):
    operands, inits = split_list(avals, [len(avals) // 2])
    if any(a.shape != operands[0].shape for a in operands):
        raise ValueError(
            "reduce found operands with different shapes: "
            f"{', '.join(str(a.shape) for a in operands)}"
        )
    if any(a.shape for a in inits):
        raise ValueError(
            f"reduce found non-scalar initial value: {', '.join(str(a.shape) for a in inits)}"
        )
    _check_axes(operands[0], dimensions)
    return [tuple([d for i, d in enumerate(a.shape) if i not in dimensions]) for a in operands]


def _generic_dtype(*avals, computation, jaxpr, dimensions):
    operands, inits = split_list(avals, [len(avals) // 2])
    if any(a.dtype != b.dtype for a, b in zip(operands, inits)):
        raise TypeError(
            "reduce operand dtypes should match corresponding initial value dtypes, got operands="
            f"{[a.str_short() for a in operands]} and initial_values={[a.str_short() for a in inits]}"
        )
    return [a.dtype for a in operands]


def _generic_weak_type(*avals, **_):
    operands, inits = split_list(avals, [len(avals) // 2])
    return [a.weak_type and b.weak_type for a, b in zip(operands, inits)]


def _generic_sharding(*avals, computation, jaxpr, dimensions):
    n = len(avals) // 2
    first = shardings.common("reduce", avals[:n])
    return [_reduce_sharding(first, axes=dimensions)] * n


def _generic_jvp(primals, tangents, *, computation, jaxpr, dimensions):
    n = len(primals) // 2
    outs = reduce_p.bind(*primals, computation=computation, jaxpr=jaxpr, dimensions=dimensions)
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero.from_primal_value(o) for o in outs]
    tangents = [ad.instantiate_zeros(t) for t in tangents]
    jvp, _ = ad.jvp_jaxpr(jaxpr, [True] * (2 * n), True)
    operands, inits = [*primals[:n], *tangents[:n]], [*primals[n:], *tangents[n:]]
    result = _fold(combine_jvp(jvp, n), operands, inits, dimensions)
    return outs, result[n:]


def _fold(combine, operands, inits, dimensions):
    """Reduce by elementwise operations: the initial values, then all elements."""
    shape = core.typeof(operands[0]).shape
    kept = [d for i, d in enumerate(shape) if i not in dimensions]
    inits = [broadcast_in_dim(i, kept, ()) for i in inits]
    n = math.prod(shape[d] for d in dimensions)
    if core.definitely_equal(n, 0):
        return inits
    if not core.definitely_greater(n, 0):  # there may be elements, or none
        axis = len(kept)
        perm = [*[d for d in range(len(shape)) if d not in dimensions], *dimensions]
        operands = [reshape(transpose(x, perm), (*kept, n)) for x in operands]
        first = [broadcast_in_dim(i, (*kept, 1), range(axis)) for i in inits]
        operands = [concatenate([i, x], axis) for i, x in zip(first, operands)]
        return reduce_tree(combine, operands, (axis,))
    return combine(inits, reduce_tree(combine, operands, dimensions))


def _generic_batch(args, bdims, *, computation, jaxpr, dimensions):
    n = len(args) // 2
    size = next(x.shape[b] for x, b in zip(args, bdims) if b is not None)
    operands = [batching.bdim_at_front(x, b, size) for x, b in zip(args[:n], bdims[:n])]
    inits, init_dims = args[n:], bdims[n:]
    dims = tuple([d + 1 for d in dimensions])
    if all(b is None for b in init_dims):
        outs = reduce_p.bind(
            *operands, *inits, computation=computation, jaxpr=jaxpr, dimensions=dims
        )
        return outs, [0] * n
    combine = combine_jaxpr(jaxpr, n)
    kept = [d for i, d in enumerate(operands[0].shape) if i not in dims]
    inits = [
        broadcast_in_dim(batching.bdim_at_front(x, b, size), kept, (0,))
        for x, b in zip(inits, init_dims)
    ]
    if math.prod(operands[0].shape[d] for d in dims) == 0:
        return inits, [0] * n
    return combine(inits, reduce_tree(combine, operands, dims)), [0] * n


def _generic_lower(ctx, *values, computation, jaxpr, dimensions):
    operands, inits = split_list(values, [len(values) // 2])
    module_ctx = ctx.module_context
    out_types = [mlir.aval_to_ir_type(module_ctx, a) for a in ctx.avals_out]
    op = hlo.ReduceOp(out_types, operands, inits, mlir.dense_int_array(dimensions))
    scalars = [
        mlir.aval_to_ir_type(module_ctx, core.ShapedArray((), a.dtype)) for a in ctx.avals_out
    ]
    block = op.regions[0].blocks.append(*scalars, *scalars)
    with ir.InsertionPoint(block):
        hlo.return_(monoids.emit_jaxpr(ctx, jaxpr, block.arguments))
    return [rules.with_sharding(ctx, r, a) for r, a in zip(op.results, ctx.avals_out)]


reduce_p = standard_primitive(
    "reduce",
    shape=_generic_shape,
    dtype=_generic_dtype,
    weak_type=_generic_weak_type,
    sharding=_generic_sharding,
    lower=_generic_lower,
    multiple_results=True,
    jvp=_generic_jvp,
    batch=_generic_batch,
)


_MONOID_REDUCERS: dict[Any, tuple[Callable, Callable, frozenset]] = {
    arithmetic.add: (reduce_sum, monoids.sum_identity, NUMERIC),
    arithmetic.mul: (reduce_prod, monoids.prod_identity, NUMERIC),
    arithmetic.max: (reduce_max, monoids.max_identity, NUMERIC | BOOL),
    arithmetic.min: (reduce_min, monoids.min_identity, NUMERIC | BOOL),
    bitwise_and: (reduce_and, monoids.and_identity, INT | BOOL),
    bitwise_or: (reduce_or, monoids.sum_identity, INT | BOOL),
    bitwise_xor: (reduce_xor, monoids.sum_identity, INT | BOOL),
}

_INFINITE_STARTS: dict[Any, tuple[float, Callable]] = {
    arithmetic.max: (-math.inf, monoids.max_identity),
    arithmetic.min: (math.inf, monoids.min_identity),
}

late.reduce_sum = reduce_sum
