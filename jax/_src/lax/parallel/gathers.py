"""Gathering values along a named axis, and scattering sums along one: transposes of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.core import Primitive, ShardingTypeError, physical_aval, typeof
from jax._src.dtypes import ExtendedDType
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax, slicing
from jax._src.lax.lax import monoids
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import (
    around,
    at_front,
    axes_and_groups,
    check_elements,
    check_operand,
    check_varies,
    collective,
    common_role,
    dimension,
    effects,
    entries,
    gather_rows,
    manual_axes,
    merge_dims,
    no_variation,
    places,
    recast,
    reduce_groups,
    same_variation,
    show_axes,
    split_dim,
    varying_over,
    with_dims,
    with_mesh_axes,
)
from jax._src.lax.parallel.index import axis_index
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import tree_map
from jax._src.util import canonicalize_axis

# ---------------------------------------------------------------------------------------------------
# Functions


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False,
    to: str = "varying",
) -> Any:  # fmt: skip
    """Gather the values of all indices of a named axis.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      axis_index_groups: lists of axis indices to gather within, of equal sizes.
      axis: dimension of the result along which values are gathered.
      tiled: whether to concatenate along an existing dimension instead of stacking along a new one.
      to: the role of the result for a manual mesh axis, "varying", "invarying" or "reduced". The
        values are equal for all indices in each case; the cotangents are varying (they are summed),
        equal, or unreduced.

    Returns:
      A pytree like `x`, of larger arrays.

    Raises:
      NameError: if the axis is not bound.
      ValueError: for a dimension out of bounds, groups that do not partition the axis, or an
        operand that does not have the role that the conversion needs.

    >>> x = jnp.array([1., 2.])
    >>> print(jax.vmap(lambda x: jax.lax.all_gather(x, "i"), axis_name="i")(x))
    [[1. 2.]
     [1. 2.]]
    """
    if to not in _GATHERS:
        raise ValueError(
            f"Got unexpected `to` value {to!r} for `jax.lax.all_gather`. Allowed `to` values are: "
            f"{', '.join(sorted(_GATHERS))}."
        )
    axes, groups, n = axes_and_groups("all_gather", axis_name, axis_index_groups)
    if groups is not None and to != "varying":
        raise NotImplementedError(
            f"all_gather with axis_index_groups has varying results, since groups have different ones; "
            f"got to={to!r}. Leave out `to`, or gather over a mesh axis of the size of the groups."
        )
    params = {"axis_index_groups": groups} if to == "varying" else {}

    def gather(v):
        if not axes:
            return v
        if to == "reduced" and not manual_axes(axes):
            raise ValueError(
                f"all_gather(..., to='reduced') over {show_axes(axes)} takes an operand that varies over "
                f"it, in shard_map with check_vma=True; got {typeof(v).str_short()}"
            )
        dim = canonicalize_axis(axis, np.ndim(v) + (not tiled))
        if to != "reduced" or not typeof(v).vma.isdisjoint(axes):
            v = varying_over("all_gather", v, axes)
        return _GATHERS[to].bind(
            v, all_gather_dimension=dim, axis_name=axes, axis_size=n, tiled=bool(tiled), **params
        )

    return tree_map(gather, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:  # fmt: skip
    """Sum over a named axis, and scatter the result over the axis.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      scatter_dimension: dimension of the sum to split over the axis.
      axis_index_groups: lists of axis indices to sum within, of equal sizes.
      tiled: whether to keep the dimension, divided by the axis size, instead of removing it.

    Returns:
      A pytree like `x`, of smaller arrays.

    Raises:
      NameError: if the axis is not bound.
      IndexError: if `x` does not have the dimension.
      ValueError: if the dimension cannot be split over the axis, or for groups that do not
        partition it.

    >>> x = jnp.array([[1., 2.], [3., 4.]])
    >>> print(jax.vmap(lambda x: jax.lax.psum_scatter(x, "i"), axis_name="i")(x))
    [4. 6.]
    """
    axes, groups, n = axes_and_groups("psum_scatter", axis_name, axis_index_groups)

    def scatter(v):
        if not axes:
            return v
        aval = typeof(v)
        if isinstance(aval.dtype, ExtendedDType):
            raise TypeError(
                f"psum_scatter takes numbers, got an operand of type {aval.str_short()}"
            )
        dim = dimension("psum_scatter", "scatter_dimension", scatter_dimension, aval.shape)
        size = aval.shape[dim]
        if (size % n) if tiled else (size != n):
            need = f"divisible by {n}" if tiled else f"{n}"
            raise ValueError(
                f"psum_scatter splits dimension {dim} over axis {show_axes(axes)}: its size must be "
                f"{need}, the size of the axis or of its groups, got shape {aval.shape}. "
                "With tiled=True it may be any multiple."
            )
        params = dict(scatter_dimension=dim, axis_name=axes, axis_size=n, tiled=bool(tiled))
        manual = manual_axes(axes)
        if manual and common_role("psum_scatter", v, manual) == "unreduced":
            if groups is not None or len(manual) < len(axes):
                raise NotImplementedError(
                    "psum_scatter of an operand that is unreduced takes mesh axes without groups of "
                    f"indices, got axes {show_axes(axes)} and axis_index_groups={groups}. Sum the "
                    "operand over its mesh axes first, with `jax.lax.psum`, and leave them out."
                )
            return unreduced_reduce_scatter_p.bind(v, **params)
        return reduce_scatter_p.bind(
            varying_over("psum_scatter", v, axes), axis_index_groups=groups, **params
        )

    return tree_map(scatter, x)


# ---------------------------------------------------------------------------------------------------
# Types


def _gathered(x, dim, axes, size, tiled, mat):
    shape, spec = list(x.shape), entries(x)
    if tiled:
        shape[dim] *= size
    else:
        shape.insert(dim, size)
        spec.insert(dim, None)
    return with_dims(x, shape, spec, mat), effects(axes)


def _gather_types(x, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled):
    check_operand("all_gather", x, axis_name)
    mat = same_variation("all_gather", x, axis_name)
    return _gathered(x, all_gather_dimension, axis_name, axis_size, tiled, mat)


def _gather_invariant_types(x, *, all_gather_dimension, axis_name, axis_size, tiled):
    name = "all_gather_invariant"
    check_operand(name, x, axis_name)
    mat = no_variation(name, x, axis_name)
    return _gathered(x, all_gather_dimension, axis_name, axis_size, tiled, mat)


def _gather_reduced_types(x, *, all_gather_dimension, axis_name, axis_size, tiled):
    name = "all_gather_reduced"
    check_operand(name, x, axis_name)
    check_varies(name, x, axis_name)
    mat = recast(name, x, axis_name, "varying", "reduced")
    return _gathered(x, all_gather_dimension, axis_name, axis_size, tiled, mat)


def _scattered(x, dim, axes, size, tiled, mat):
    shape, spec = list(x.shape), entries(x)
    if tiled:
        shape[dim] //= size
    else:
        if spec[dim] is not None:
            raise ShardingTypeError(
                f"psum_scatter removes dimension {dim} of {x.str_short()}, which is sharded over "
                f"{spec[dim]}: use tiled=True, or replicate it with `jax.sharding.reshard`."
            )
        del shape[dim], spec[dim]
    return with_dims(x, shape, spec, mat), effects(axes)


def _scatter_types(x, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled):
    check_operand("psum_scatter", x, axis_name)
    mat = same_variation("psum_scatter", x, axis_name)
    return _scattered(x, scatter_dimension, axis_name, axis_size, tiled, mat)


def _unreduced_scatter_types(x, *, scatter_dimension, axis_name, axis_size, tiled):
    name = "unreduced_reduce_scatter"
    check_operand(name, x, axis_name)
    mat = recast(name, x, axis_name, "unreduced", "varying")
    return _scattered(x, scatter_dimension, axis_name, axis_size, tiled, mat)


all_gather_p = collective("all_gather", _gather_types)
all_gather_invariant_p = collective("all_gather_invariant", _gather_invariant_types)
all_gather_reduced_p = collective("all_gather_reduced", _gather_reduced_types)
reduce_scatter_p = collective("reduce_scatter", _scatter_types)
unreduced_reduce_scatter_p = collective("unreduced_reduce_scatter", _unreduced_scatter_types)
_GATHERS = {
    "varying": all_gather_p,
    "invarying": all_gather_invariant_p,
    "reduced": all_gather_reduced_p,
}

# ---------------------------------------------------------------------------------------------------
# Transposes


def _as_scatter(params: dict[str, Any]) -> dict[str, Any]:
    params = dict(params)
    return dict(scatter_dimension=params.pop("all_gather_dimension"), **params)


def _as_gather(params: dict[str, Any]) -> dict[str, Any]:
    params = dict(params)
    return dict(all_gather_dimension=params.pop("scatter_dimension"), **params)


def _gather_invariant_transpose(
    ct, x, *, all_gather_dimension, axis_name, axis_size, tiled
) -> list[Any]:
    """Return this index's part of a cotangent that is equal for all indices."""
    dim = all_gather_dimension
    size = typeof(ct).shape[dim] // axis_size
    start = lax.mul(axis_index(axis_name), np.int32(size))
    part = slicing.dynamic_slice_in_dim(ct, start, size, dim, allow_negative_indices=False)
    return [part if tiled else lax.squeeze(part, (dim,))]


ad.deflinear2(
    all_gather_p, lambda ct, x, **params: [reduce_scatter_p.bind(ct, **_as_scatter(params))]
)
ad.deflinear2(
    reduce_scatter_p, lambda ct, x, **params: [all_gather_p.bind(ct, **_as_gather(params))]
)
ad.deflinear2(all_gather_invariant_p, _gather_invariant_transpose)
ad.deflinear2(
    all_gather_reduced_p,
    lambda ct, x, **params: [unreduced_reduce_scatter_p.bind(ct, **_as_scatter(params))],
)
ad.deflinear2(
    unreduced_reduce_scatter_p,
    lambda ct, x, **params: [all_gather_reduced_p.bind(ct, **_as_gather(params))],
)

# ---------------------------------------------------------------------------------------------------
# Batches


def all_rows(axis_data: Any, axes: Sequence[Any], x: Any, d: int | None) -> Any:
    """The values of all indices along `axes` as rows, where `axis_data` maps one of them.

    Groups of indices can have any members along the other axes: every index gets all rows.
    """
    x = at_front(axis_data, x, d)
    before, after, rest = around(axes, axis_data.name)
    if not rest:
        return x
    x = split_dim(all_gather(x, rest), 0, (before, after))
    return merge_dims(batching.moveaxis(x, 2, 1), 0, 3)


def own_rows(axis_data: Any, axes: Sequence[Any], rows: np.ndarray) -> Any:
    """Those rows that are for the mapped indices, at this index of the other axes.

    Args:
      rows: a table with a row for each index along `axes`.
    """
    before, after, rest = around(axes, axis_data.name)
    if not rest:
        return rows
    shape = rows.shape[1:]
    table = np.moveaxis(rows.reshape(before, axis_data.size, after, *shape), 1, 2)
    table = table.reshape(before * after, axis_data.size, *shape)
    return slicing.dynamic_index_in_dim(table, axis_index(rest), 0, keepdims=False)


def _gather_batch(p: Primitive, to: str) -> Any:
    """Return the batching rule of a gather; its result is not batched along the named axis."""

    def rule(axis_data, args, dims, **params):
        (x,), (d,) = args, dims
        dim, tiled, axes = params["all_gather_dimension"], params["tiled"], params["axis_name"]
        name = axis_data.name
        if name not in axes:
            check_elements("all_gather", axis_data, axes, d)
            if d is None:
                return p.bind(x, **params), None
            params["all_gather_dimension"] = dim + (d <= dim)
            return p.bind(x, **params), (d if tiled or d <= dim else d + 1)
        if (groups := params.get("axis_index_groups")) is not None:
            axes = with_mesh_axes(axis_data, axes)
            rows = own_rows(axis_data, axes, np.array(groups, np.int32)[places(groups)[0]])
            x = all_rows(axis_data, axes, x, d)
            x = gather_rows(x, rows.reshape(-1))
            x = batching.moveaxis(split_dim(x, 0, rows.shape), 1, dim + 1)
            return (merge_dims(x, dim + 1) if tiled else x), 0
        x = at_front(axis_data, x, d)
        if mesh_axes := axis_data.manual_axes:
            x = all_gather(x, mesh_axes, tiled=True, to=to)
        before, after, rest = around(axes, name)
        if rest:
            params.update(
                axis_name=rest, axis_size=before * after, tiled=False, all_gather_dimension=1
            )
            x = split_dim(p.bind(x, **params), 1, (before, after))
            x = merge_dims(batching.moveaxis(x, 0, 1), 0, 3)
        x = batching.moveaxis(x, 0, dim)
        return (merge_dims(x, dim) if tiled else x), None

    return rule


all_gather_p.axis_batch = _gather_batch(all_gather_p, "varying")
all_gather_invariant_p.axis_batch = _gather_batch(all_gather_invariant_p, "invarying")
all_gather_reduced_p.axis_batch = _gather_batch(all_gather_reduced_p, "varying")


def _scatter_batch(p: Primitive) -> Any:
    def rule(axis_data, args, dims, **params):
        (x,), (d,) = args, dims
        dim, tiled, axes = params["scatter_dimension"], params["tiled"], params["axis_name"]
        n, name = params["axis_size"], axis_data.name
        if name not in axes:
            check_elements("psum_scatter", axis_data, axes, d)
            if d is None:
                return p.bind(x, **params), None
            params["scatter_dimension"] = at = dim + (d <= dim)
            return p.bind(x, **params), (d if tiled or d < at else d - 1)
        axes = with_mesh_axes(axis_data, axes)
        if (groups := params.get("axis_index_groups")) is not None:
            x = reduce_groups(lax.reduce_sum, all_rows(axis_data, axes, x, d), groups)
            x = merge_dims(batching.moveaxis(split_dim(x, dim + 1, (n, -1)), dim + 1, 1), 0)
            group, position = places(groups)
            x = gather_rows(x, own_rows(axis_data, axes, group * n + position))
            return (x if tiled else lax.squeeze(x, (dim + 1,))), 0
        x = at_front(axis_data, x, d)
        before, after, rest = around(axes, name)
        # Split the dimension: (before, this axis, after, what each index keeps).
        x = split_dim(lax.reduce_sum(x, (0,)), dim, (before, axis_data.size, after, -1))
        x = batching.moveaxis(x, dim + 1, 0)
        if rest:
            params.update(
                axis_name=rest, axis_size=before * after, tiled=True, scatter_dimension=dim + 1
            )
            x = p.bind(varying_over(p.name, merge_dims(x, dim + 1, 3), rest), **params)
        else:
            x = merge_dims(x, dim + 1, 3)
        return (x if tiled else lax.squeeze(x, (dim + 1,))), 0

    return rule


reduce_scatter_p.axis_batch = _scatter_batch(reduce_scatter_p)
unreduced_reduce_scatter_p.axis_batch = _scatter_batch(unreduced_reduce_scatter_p)

# ---------------------------------------------------------------------------------------------------
# Lowering


def _lower_gather(
    ctx, x, *, all_gather_dimension, axis_name, axis_size, tiled, axis_index_groups=None
):
    lowering.check_partitioner(ctx, axis_name)
    if (empty := lowering.empty_result(ctx)) is not None:
        return empty
    if not tiled:
        (aval,) = ctx.avals_in
        shape = list(physical_aval(aval).shape)
        dims = [i + (i >= all_gather_dimension) for i in range(len(shape))]
        shape.insert(all_gather_dimension, 1)
        expanded = physical_aval(aval).update(shape=tuple(shape), sharding=None)
        type_ = mlir.aval_to_ir_type(ctx.module_context, expanded)
        x = hlo.broadcast_in_dim(type_, x, mlir.dense_int_array(dims))
    op = hlo.AllGatherOp(
        [lowering.result_type(ctx)], [x], mlir.i64_attr(all_gather_dimension),
        lowering.replica_groups(ctx, axis_name, axis_index_groups),
        channel_handle=lowering.channel(), use_global_device_ids=True,
    )  # fmt: skip
    return [op.results[0]]


def _lower_scatter(
    ctx, x, *, scatter_dimension, axis_name, axis_size, tiled, axis_index_groups=None
):
    if (empty := lowering.empty_result(ctx)) is not None:
        return empty
    (aval,), (aval_out,) = ctx.avals_in, ctx.avals_out
    shape = list(aval.shape)
    shape[scatter_dimension] //= axis_size
    scattered = mlir.aval_to_ir_type(
        ctx.module_context, aval.update(shape=tuple(shape), sharding=None)
    )
    op = hlo.ReduceScatterOp(
        scattered, x, mlir.i64_attr(scatter_dimension),
        lowering.replica_groups(ctx, axis_name, axis_index_groups),
        channel_handle=lowering.channel(), use_global_device_ids=True,
    )  # fmt: skip
    lowering.set_reducer(op, aval_out.dtype, monoids.sum_monoid)
    return [op.result if tiled else hlo.reshape(lowering.result_type(ctx), op.result)]


for _p in (all_gather_p, all_gather_invariant_p, all_gather_reduced_p):
    mlir.register_lowering(_p, _lower_gather)
for _p in (reduce_scatter_p, unreduced_reduce_scatter_p):
    mlir.register_lowering(_p, _lower_scatter)
