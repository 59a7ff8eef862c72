"""Exchanges: each index sends a part of its value to each other index."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.core import ShardingTypeError, physical_aval
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import (
    around,
    as_axes,
    at_front,
    axes_and_groups,
    check_elements,
    check_operand,
    collective,
    dimension,
    effects,
    entries,
    gather_rows,
    group_size,
    merge_dims,
    places,
    same_variation,
    show_axes,
    split_dim,
    varying_over,
    with_dims,
    with_mesh_axes,
)
from jax._src.lax.parallel.gathers import all_rows, own_rows
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import tree_map


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:  # fmt: skip
    """Split a dimension over a named axis, and gather the values received along another dimension.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      split_axis: dimension to split; its size is the axis size, unless `tiled`.
      concat_axis: dimension of the result along which the received values are joined.
      axis_index_groups: lists of axis indices to exchange within, of equal sizes.
      tiled: whether to exchange blocks of the dimension, instead of single slices.

    Returns:
      A pytree like `x`. Without `tiled`, `split_axis` is removed and a dimension inserted at
      `concat_axis`; with it, one is divided by the axis size and the other multiplied.

    Raises:
      NameError: if the axis is not bound.
      IndexError: if `x` does not have the dimension to split, or, if `tiled`, that to join.
      ValueError: if the dimension cannot be split over the axis, if the result does not have the
        dimension to join, or for groups that do not partition the axis.

    >>> x = jnp.arange(4).reshape(2, 2)
    >>> print(jax.vmap(lambda x: jax.lax.all_to_all(x, "i", 0, 0), axis_name="i")(x))
    [[0 2]
     [1 3]]
    """
    axes, groups, n = axes_and_groups("all_to_all", axis_name, axis_index_groups)

    def exchange(v):
        if not axes:
            return v
        shape = np.shape(v)
        split = dimension("all_to_all", "split_axis", split_axis, shape)
        error = IndexError if tiled else ValueError
        concat = dimension("all_to_all", "concat_axis", concat_axis, shape, error)
        size = shape[split]
        if tiled and size % n:
            raise ValueError(
                f"The size of all_to_all split_axis ({size}) has to be divisible by the size of the "
                f"named axis {show_axes(axes)} ({n})"
            )
        if not tiled and size != n:
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], "
                f"but they are {n} and {size} respectively."
            )
        return all_to_all_p.bind(
            varying_over("all_to_all", v, axes), axis_name=axes if len(axes) > 1 else axes[0], split_axis=split,
            concat_axis=concat, axis_index_groups=groups, tiled=bool(tiled),
        )  # fmt: skip

    return tree_map(exchange, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a named axis with a dimension of the same size.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      axis: the dimension.
      axis_index_groups: as for `all_to_all`.

    Returns:
      A pytree like `x`.

    >>> x = jnp.arange(4).reshape(2, 2)
    >>> print(jax.vmap(lambda x: jax.lax.pswapaxes(x, "i", 0), axis_name="i")(x))
    [[0 2]
     [1 3]]
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _types(x, *, axis_name, split_axis, concat_axis, axis_index_groups, tiled):
    axes = as_axes(axis_name)
    check_operand("all_to_all", x, axes)
    mat = same_variation("all_to_all", x, axes)
    shape, spec = list(x.shape), entries(x)
    if tiled:
        n = group_size(axes, axis_index_groups)
        shape[split_axis] //= n
        shape[concat_axis] *= n
    else:
        if spec[split_axis] is not None:
            raise ShardingTypeError(
                f"all_to_all removes dimension {split_axis} of {x.str_short()}, which is sharded over "
                f"{spec[split_axis]}: use tiled=True, or replicate it with `jax.sharding.reshard`."
            )
        shape.insert(concat_axis, shape.pop(split_axis))
        spec.insert(concat_axis, spec.pop(split_axis))
    return with_dims(x.strip_weak_type(), shape, spec, mat), effects(axes)


def _transpose(ct, x, *, split_axis, concat_axis, **params):
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


def _batch(axis_data, args, dims, *, axis_name, split_axis, concat_axis, axis_index_groups, tiled):
    (x,), (d,) = args, dims
    axes, name = as_axes(axis_name), axis_data.name
    params = dict(axis_index_groups=axis_index_groups, tiled=tiled)
    if name not in axes:
        check_elements("all_to_all", axis_data, axes, d)
        if d is not None:
            x = batching.moveaxis(x, d, 0)
            split_axis, concat_axis, d = split_axis + 1, concat_axis + 1, 0
        out = all_to_all_p.bind(
            x, axis_name=axis_name, split_axis=split_axis, concat_axis=concat_axis, **params
        )
        return out, d
    axes = with_mesh_axes(axis_data, axes)
    if axis_index_groups is not None:
        x, rows = _exchanged(all_rows(axis_data, axes, x, d), split_axis, axis_index_groups)
        x = gather_rows(x, own_rows(axis_data, axes, rows))
        return _join(x, split_axis, concat_axis, tiled), 0
    size = axis_data.size
    x = at_front(axis_data, x, d)
    before, after, rest = around(axes, name)
    at = split_axis + 1
    # Split the dimension into (before, this axis, after, the part for one index), and put the first
    # three in front: (sender along this axis, before, receiver along this axis, after, ...).
    x = split_dim(x, at, (before, size, after, -1))
    for i in range(3):
        x = batching.moveaxis(x, at + i, 1 + i)
    x = batching.moveaxis(x, 2, 0)  # receiver along this axis, sender along it, before, after, ...
    if rest:
        x = merge_dims(x, 2)
        names = rest if len(rest) > 1 else rest[0]
        x = all_to_all_p.bind(
            varying_over("all_to_all", x, rest), axis_name=names, split_axis=2, concat_axis=2,
            axis_index_groups=None, tiled=True,
        )  # fmt: skip
        x = split_dim(x, 2, (before, after))
    x = merge_dims(batching.moveaxis(x, 1, 2), 1, 3)  # receiver, senders, ...
    return _join(x, split_axis, concat_axis, tiled), 0


def _join(x, split_axis, concat_axis, tiled):
    """Merge the senders, dimension 1 of (receiver, sender, ...), into the concatenated dimension."""
    if not tiled:
        x = lax.squeeze(x, (split_axis + 2,))
        return batching.moveaxis(x, 1, concat_axis + 1)
    return merge_dims(batching.moveaxis(x, 1, concat_axis + 1), concat_axis + 1)


def _exchanged(x, split_axis, groups):
    """Exchange within groups of indices of dimension 0.

    Returns:
      An array (receiver, sender, ...), and for each index the row of the first dimension that it
      receives.
    """
    n = len(groups[0])
    x = gather_rows(x, np.array([i for g in groups for i in g]))
    x = split_dim(x, 0, (len(groups), n))  # group, sender, ...
    x = split_dim(x, split_axis + 2, (n, -1))
    x = batching.moveaxis(x, split_axis + 2, 1)  # group, receiver, sender, ...
    group, position = places(groups)
    return merge_dims(x, 0), group * n + position


def _lower(ctx, x, *, axis_name, split_axis, concat_axis, axis_index_groups, tiled):
    axes = as_axes(axis_name)
    lowering.check_partitioner(ctx, axes)
    groups = lowering.device_groups(ctx, axes, axis_index_groups)
    squeezed = not tiled and split_axis != concat_axis
    split, concat = split_axis, concat_axis
    if squeezed:
        # The op keeps the split dimension, of size one, and needs a dimension to concatenate.
        concat += concat >= split
        split += split >= concat
        physical = physical_aval(ctx.avals_in[0])
        shape, dims = list(physical.shape), list(range(physical.ndim + 1))
        shape.insert(concat, 1)
        dims.remove(concat)
        type_ = mlir.aval_to_ir_type(
            ctx.module_context, physical.update(shape=tuple(shape), sharding=None)
        )
        x = hlo.broadcast_in_dim(type_, x, mlir.dense_int_array(dims))
    op = hlo.AllToAllOp(
        [x], mlir.i64_attr(split), mlir.i64_attr(concat), mlir.i64_attr(groups.shape[1]),
        lowering.replica_groups(ctx, axes, axis_index_groups), channel_handle=lowering.channel(),
    )  # fmt: skip
    out = op.results[0]
    return [hlo.reshape(lowering.result_type(ctx), out) if squeezed else out]


all_to_all_p = collective("all_to_all", _types)
all_to_all_p.axis_batch = _batch
mlir.register_lowering(all_to_all_p, _lower)
ad.deflinear2(all_to_all_p, _transpose)
