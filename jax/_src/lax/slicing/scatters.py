"""The scatter primitives: updates of windows of an operand at many indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import batching, mlir, partial_eval as pe
from jax._src.lax import lax, native_calls, rules
from jax._src.lax.checks import check_pure
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.rules import standard_primitive
from jax._src.lax.slicing import bounds, checks, gathers, scatter_ad
from jax._src.lax.slicing.types import GatherScatterMode, ScatterDimensionNumbers
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike, Shape


def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Replace windows of the operand at many indices, like XLA's Scatter operation.

    Most programs should use `x.at[i].set(y, mode=...)` instead.

    Args:
      operand: array of rank `n`.
      scatter_indices: integer array of shape `(*batch, k)`: each vector is the start of a window.
      updates: array of the operand's dtype, with the batch dimensions and, at
        `dimension_numbers.update_window_dims`, the window dimensions.
      dimension_numbers: the dimensions that the vectors index, and those of windows in the updates.
      indices_are_sorted: promises that index vectors are in ascending order.
      unique_indices: promises that no element is updated twice; if it is broken, the result is
        undefined. Without it, it is undefined which of several updates of an element is kept.
      mode: treatment of out-of-bounds windows, see `GatherScatterMode`.

    Returns:
      An array of the operand's shape and dtype.

    Raises:
      TypeError: if shapes, dtypes and dimension numbers are inconsistent.
      ValueError: if indices are not integers or the mode is unknown.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter(jnp.zeros(3), jnp.array([[2], [0]]), jnp.array([5., 6.]), dnums).tolist()
    [6.0, 0.0, 5.0]
    """
    return _bind(
        scatter_p,
        None,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Add `updates` to the operand at many indices; the arguments are those of `scatter`.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_add(jnp.zeros(3), jnp.array([[2], [2]]), jnp.array([5., 6.]), dnums).tolist()
    [0.0, 0.0, 11.0]
    """
    return _bind(
        scatter_add_p,
        lax.add_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Subtract `updates` from the operand at many indices; the arguments are those of `scatter`.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_sub(jnp.zeros(3), jnp.array([[2], [2]]), jnp.array([5., 6.]), dnums).tolist()
    [0.0, 0.0, -11.0]
    """
    return _bind(
        scatter_sub_p,
        lax.sub_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Multiply the operand by `updates` at many indices; the arguments are those of `scatter`.

    It is differentiable also where indices repeat.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_mul(jnp.ones(3), jnp.array([[2], [2]]), jnp.array([5., 6.]), dnums).tolist()
    [1.0, 1.0, 30.0]
    """
    return _bind(
        scatter_mul_p,
        lax.mul_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Take the minimum of operand and `updates` at many indices; arguments are those of `scatter`.

    Elements that attain the minimum share the derivative evenly.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_min(jnp.zeros(3), jnp.array([[2], [0]]), jnp.array([-5., 6.]), dnums).tolist()
    [0.0, 0.0, -5.0]
    """
    return _bind(
        scatter_min_p,
        lax.min_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Take the maximum of operand and `updates` at many indices; arguments are those of `scatter`.

    Elements that attain the maximum share the derivative evenly.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_max(jnp.zeros(3), jnp.array([[2], [0]]), jnp.array([-5., 6.]), dnums).tolist()
    [6.0, 0.0, 0.0]
    """
    return _bind(
        scatter_max_p,
        lax.max_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_apply(
    operand: Array,
    scatter_indices: Array,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Shape = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Apply a scalar function to the operand at many indices.

    Args:
      operand, scatter_indices, dimension_numbers, indices_are_sorted, unique_indices, mode: see
        `scatter`. Differentiation requires `unique_indices`.
      func: function of one scalar that returns a scalar of the operand's dtype. It is applied to an
        element as many times as the element is indexed, and may only close over constants.
      update_shape: shape that the updates of a corresponding `scatter` would have.

    Returns:
      An array of the operand's shape and dtype.

    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> ones, indices = jnp.ones(3), jnp.array([[2]])
    >>> lax.scatter_apply(ones, indices, jnp.negative, dnums, update_shape=(1,)).tolist()
    [1.0, 1.0, -1.0]
    """
    dtype = core.typeof(operand).dtype
    updates = lax.full(core.canonicalize_shape(update_shape), 0, dtype)
    if bounds.enabled.value and mode in _UNSPECIFIED:
        params = dict(dimension_numbers=gathers.hashable(dimension_numbers))
        bounds.check("scatter_apply", (operand, scatter_indices, updates), params)
    return scatter_p.bind(
        operand,
        scatter_indices,
        updates,
        dimension_numbers=gathers.hashable(dimension_numbers),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=_applied_jaxpr(func, dtype),
        update_consts=(),
    )


# Modes that do not say what is to happen for indices out of bounds.
_UNSPECIFIED = (None, "promise_in_bounds", GatherScatterMode.PROMISE_IN_BOUNDS)


def _bind(primitive, combiner, operand, indices, updates, dnums, is_sorted, unique, mode):
    if bounds.enabled.value and mode in _UNSPECIFIED:
        params = dict(dimension_numbers=gathers.hashable(dnums))
        bounds.check(primitive.name, (operand, indices, updates), params)
    return primitive.bind(
        operand,
        indices,
        updates,
        dimension_numbers=gathers.hashable(dnums),
        indices_are_sorted=bool(is_sorted),
        unique_indices=bool(unique),
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=combiner and _update_jaxpr(combiner, core.typeof(operand).dtype),
        update_consts=(),
    )


@lru_cache(maxsize=1024)
def _update_jaxpr(combiner: core.Primitive, dtype: Any) -> core.Jaxpr:
    """Return the jaxpr `{ lambda ; a b. let c = combiner a b in (c,) }` on scalars."""
    aval = core.ShapedArray((), dtype)
    # Raise an error for dtypes that do not support the operation.
    combiner.abstract_eval(aval, aval)
    a, b, c = core.Var(aval), core.Var(aval), core.Var(aval)
    eqn = core.new_jaxpr_eqn([a, b], [c], combiner, {}, frozenset())
    return core.Jaxpr([], [a, b], [c], [eqn])


def _applied_jaxpr(func, dtype):
    aval = core.ShapedArray((), dtype)
    jaxpr, out_avals, consts = pe.trace_to_jaxpr(lambda x, _: [func(x)], [aval, aval])
    check_pure("scatter_apply", jaxpr.effects)
    if [a.strip_weak_type() for a in out_avals] != [aval]:
        raise TypeError(
            "scatter_apply: func must map a scalar to a scalar of the same dtype, got "
            f"{', '.join(a.str_short() for a in out_avals)} for {aval.str_short()}"
        )
    if any(isinstance(c, core.Tracer) for c in consts):
        raise NotImplementedError(
            "scatter_apply: func closes over traced values. Compute with `x.at[i].get()` and write the "
            "result back with `x.at[i].set(...)` instead."
        )
    return core.ClosedJaxpr(jaxpr, consts) if consts else jaxpr


# ---------------------------------------------------------------------------------------------------
# Shape, dtype, sharding and batching rules


def _scatter_dtype(name):
    def rule(operand, indices, updates, **kwargs):
        if not dtypes.issubdtype(indices.dtype, np.integer):
            raise ValueError(f"indices must have an integer type, got {indices.dtype.name}")
        rules.check_same_dtypes(name, operand.dtype, updates.dtype)
        return operand.dtype

    return rule


def _scatter_shape(operand, indices, updates, *, dimension_numbers, **kwargs):
    return checks.scatter_shape(operand.shape, indices.shape, updates.shape, dimension_numbers)


def _scatter_sharding(operand, indices, updates, *, dimension_numbers, **kwargs):
    """Return the operand's sharding.

    Indexed dimensions must not be sharded, unless the windows cover them. Window dimensions of the
    updates must be sharded as in the operand, or not at all.
    """
    window_dims, inserted, index_map, batching_dims, index_batching_dims = dimension_numbers
    dropped = {*inserted, *batching_dims}
    spec = shardings.entries(operand)
    update_spec = shardings.entries(updates)
    index_spec = list(shardings.entries(indices))
    for d, i in zip(batching_dims, index_batching_dims):
        if index_spec[i] == spec[d]:
            index_spec[i] = None
    kept = [e for d, e in enumerate(spec) if d not in dropped]
    sizes = dict(zip([d for d in range(operand.ndim) if d not in dropped], window_dims))
    whole = [d for d, w in sizes.items() if updates.shape[w] == operand.shape[d]]
    if (
        any(spec[d] is not None and d not in whole for d in index_map)
        or any(update_spec[d] not in (e, None) for d, e in zip(window_dims, kept))
        or any(e is not None for e in index_spec)
    ):
        raise core.ShardingTypeError(
            "The sharding of this scatter could not be resolved unambiguously: use "
            "`.at[...].set(..., out_sharding=)` (or `.add`, ...), or `jax.sharding.reshard`. Got operand="
            f"{operand.str_short()}, indices={indices.str_short()}, updates={updates.str_short()}"
        )
    return shardings.with_entries(operand, spec)


def _scatter_batch(primitive):
    def rule(args, dims, *, dimension_numbers, **params):
        (x, indices, updates), (xd, id_, ud) = args, dims
        size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
        x = batching.bdim_at_front(x, xd, size)
        updates = batching.bdim_at_front(updates, ud, size)
        window_dims, inserted, index_map, batching_dims, index_batching_dims = dimension_numbers
        if id_ is None:
            dnums = ScatterDimensionNumbers(
                gathers.shifted(window_dims, (0,)),
                gathers.shifted(inserted),
                gathers.shifted(index_map),
                gathers.shifted(batching_dims),
                index_batching_dims,
            )
        else:
            indices = batching.moveaxis(indices, id_, 0)
            dnums = ScatterDimensionNumbers(
                gathers.shifted(window_dims),
                gathers.shifted(inserted),
                gathers.shifted(index_map),
                gathers.shifted(batching_dims, (0,)),
                gathers.shifted(index_batching_dims, (0,)),
            )
        return primitive.bind(x, indices, updates, dimension_numbers=dnums, **params), 0

    return rule


# ---------------------------------------------------------------------------------------------------
# Lowering


def _scatter_lower(
    ctx,
    operand,
    indices,
    updates,
    *,
    dimension_numbers,
    indices_are_sorted,
    unique_indices,
    mode,
    update_jaxpr,
    update_consts,
):
    (aval_out,) = ctx.avals_out
    operand_aval, index_aval, update_aval = ctx.avals_in
    dnums = dimension_numbers
    if mode is GatherScatterMode.CLIP:
        window = scatter_ad.window_sizes(operand_aval.shape, update_aval.shape, dnums)
        (indices,) = _lower_clamp(
            ctx.replace(avals_in=[index_aval], avals_out=[index_aval]),
            indices,
            shape=operand_aval.shape,
            index_map=dnums.scatter_dims_to_operand_dims,
            window=window,
        )
    extra = len(core.physical_aval(update_aval).shape) - update_aval.ndim
    window_dims = (*dnums.update_window_dims, *range(update_aval.ndim, update_aval.ndim + extra))
    attr = hlo.ScatterDimensionNumbers.get(
        update_window_dims=list(window_dims),
        inserted_window_dims=list(dnums.inserted_window_dims),
        input_batching_dims=list(dnums.operand_batching_dims),
        scatter_indices_batching_dims=list(dnums.scatter_indices_batching_dims),
        scattered_dims_to_operand_dims=list(dnums.scatter_dims_to_operand_dims),
        index_vector_dim=len(index_aval.shape) - 1,
    )
    op = hlo.ScatterOp(
        [mlir.aval_to_ir_type(ctx.module_context, aval_out)],
        [operand],
        indices,
        [updates],
        attr,
        indices_are_sorted=mlir.ir.BoolAttr.get(indices_are_sorted),
        unique_indices=mlir.ir.BoolAttr.get(unique_indices),
    )
    dtype = core.physical_aval(operand_aval).dtype
    scalar = mlir.aval_to_ir_type(ctx.module_context, core.ShapedArray((), dtype))
    block = op.update_computation.blocks.append(scalar, scalar)
    with mlir.ir.InsertionPoint(block):
        if update_jaxpr is None:
            hlo.return_([block.arguments[1]])
        else:
            closed = scatter_ad.close(update_jaxpr)
            outs, _ = mlir.jaxpr_subcomp(
                ctx.module_context,
                closed.jaxpr,
                ctx.name_stack,
                mlir.TokenSet(),
                [mlir.ir_constant(np.asarray(c)) for c in closed.consts],
                *block.arguments,
                dim_var_values=ctx.dim_var_values,
                const_lowering=ctx.const_lowering,
                outer_traceback=None,
            )
            hlo.return_(mlir.flatten_ir_values(outs))
    return [rules.with_sharding(ctx, op.results[0], aval_out)]


_KERNEL = "jaxlib_ext_scatter_add"
_MIN_KERNEL_SIZE = 256


def _scatter_add_lower_cpu(ctx, operand, indices, updates, **params):
    """Add rows by the native kernel; other patterns are left to XLA.

    Few updates are added in the same order as by XLA, many updates of few rows in chunks.
    """
    if not _adds_rows(ctx, **params):
        return _scatter_lower(ctx, operand, indices, updates, **params)
    operand_aval, index_aval, update_aval = ctx.avals_in
    count = index_aval.size
    index_aval = core.ShapedArray((count,), index_aval.dtype)
    scalar = native_calls.broadcast_scalar(updates)
    if scalar is None:
        update_aval = core.ShapedArray((count, *operand_aval.shape[1:]), update_aval.dtype)
        updates = hlo.reshape(mlir.aval_to_ir_type(ctx.module_context, update_aval), updates)
    else:
        update_aval = core.ShapedArray((), update_aval.dtype)
        updates = scalar
    return native_calls.call(
        ctx,
        _KERNEL,
        [
            operand,
            hlo.reshape(mlir.aval_to_ir_type(ctx.module_context, index_aval), indices),
            updates,
        ],
        [operand_aval, index_aval, update_aval],
        ctx.avals_out,
        dict(clip=np.int64(params["mode"] is GatherScatterMode.CLIP)),
        operand_output_aliases={0: 0},
    )


def _adds_rows(ctx, *, dimension_numbers, **_):
    """Return whether whole rows are added, each at an index of its own."""
    operand, indices, updates = ctx.avals_in
    window, inserted, index_map, batching, _ = dimension_numbers
    return (
        native_calls.is_number(operand.dtype)
        and native_calls.is_number(indices.dtype)
        and (inserted, index_map, batching) == ((0,), (0,), ())
        and tuple(window) == tuple(range(indices.ndim - 1, updates.ndim))
        and native_calls.can_call_whole(ctx, _KERNEL)
        and updates.shape[indices.ndim - 1 :] == operand.shape[1:]
        and indices.size >= _MIN_KERNEL_SIZE
        and ctx.avals_out[0]._sharding is None
    )


def _clamp(indices, *, shape, index_map, window):
    """Clamp the indices so that every window is in bounds."""
    bounds = gathers.last_starts([shape[d] - window[d] for d in index_map], indices.dtype)
    upper = lax.broadcast_in_dim(bounds, indices.shape, (indices.ndim - 1,))
    return lax.clamp(lax.full_like(indices, 0), indices, upper)


_lower_clamp = mlir.lower_fun(_clamp, multiple_results=False)


def _scatter_add_lower_gpu(ctx, operand, indices, updates, **params):
    """Add the real and the imaginary parts separately: GPUs have no atomic complex128 addition."""
    if ctx.avals_in[0].dtype != np.complex128:
        return _scatter_lower(ctx, operand, indices, updates, **params)
    return _lower_add_by_parts(ctx, operand, indices, updates, **params)


def _add_by_parts(operand, indices, updates, *, update_jaxpr, update_consts, **params):
    args = scatter_ad.as_arguments(params)
    return lax.complex(
        scatter_add(lax.real(operand), indices, lax.real(updates), **args),
        scatter_add(lax.imag(operand), indices, lax.imag(updates), **args),
    )


_lower_add_by_parts = mlir.lower_fun(_add_by_parts, multiple_results=False)


def _scatter_primitive(name, *, lower=_scatter_lower, jvp, transpose=None):
    p = standard_primitive(
        name,
        shape=_scatter_shape,
        dtype=_scatter_dtype(name.replace("-", "_")),
        weak_type=lambda operand, *_, **__: operand.weak_type,
        sharding=_scatter_sharding,
        memory_space=lambda x, *_, **__: x.memory_space,  # of the updates: any
        lower=lower,
        transpose=transpose,
    )
    p.jvp = jvp(p) if callable(jvp) else jvp
    p.batch = _scatter_batch(p)
    return p


scatter_p = _scatter_primitive(
    "scatter", jvp=lambda p: scatter_ad.scatter_jvp, transpose=scatter_ad.scatter_transpose
)
scatter_add_p = _scatter_primitive(
    "scatter-add",
    lower={
        None: _scatter_lower,
        "cpu": _scatter_add_lower_cpu,
        "cuda": _scatter_add_lower_gpu,
        "rocm": _scatter_add_lower_gpu,
    },
    jvp=scatter_ad.scatter_add_jvp,
    transpose=scatter_ad.scatter_add_transpose(1),
)
scatter_sub_p = _scatter_primitive(
    "scatter-sub", jvp=scatter_ad.scatter_add_jvp, transpose=scatter_ad.scatter_add_transpose(-1)
)
scatter_mul_p = _scatter_primitive(
    "scatter-mul",
    jvp=lambda p: scatter_ad.scatter_mul_jvp,
    transpose=scatter_ad.scatter_mul_transpose,
)
scatter_min_p = _scatter_primitive("scatter-min", jvp=scatter_ad.scatter_extremal_jvp)
scatter_max_p = _scatter_primitive("scatter-max", jvp=scatter_ad.scatter_extremal_jvp)
