"""Lowering of collectives: groups of devices of the mesh in context, and the ops' attributes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir import COLLECTIVE_CHANNEL_ID, DEVICE_TO_DEVICE_TYPE
from jax._src.lax.lax.monoids import Monoid
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo, sdy
from jax._src.mesh import AxisType
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import SPMDAxisContext


def _axis_context(ctx: Any, name: Any) -> SPMDAxisContext:
    axis_context = ctx.module_context.axis_context
    if not isinstance(axis_context, SPMDAxisContext):
        raise NotImplementedError(
            f"{ctx.primitive} over axis {name!r} is lowered outside of shard_map, which binds its axis: "
            "call the function inside of a `jax.shard_map` over the axis"
        )
    return axis_context


def device_groups(ctx: Any, axes: Sequence[Any], groups: Any = None) -> np.ndarray:
    """The devices that take part in each instance of a collective.

    Args:
      axes: names of axes of the mesh in context; indices along them are row-major.
      groups: groups of these indices, or None for one group of all.

    Returns:
      An array with one row for each instance, of positions in the mesh. Rows that are shorter than
      the longest one end with -1.
    """
    return _device_groups(*_mesh_of(ctx, axes), tuple(axes), groups)


def _mesh_of(ctx: Any, axes: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The names and sizes of the axes of the mesh in context."""
    mesh = _axis_context(ctx, axes[0] if axes else None).mesh
    return mesh.axis_names, tuple(mesh.shape.values())


@functools.lru_cache(1000)
def _device_groups(
    names: tuple[Any, ...], sizes: tuple[int, ...], axes: tuple[Any, ...], groups: Any
) -> np.ndarray:
    order = [names.index(a) for a in axes]
    rest = [i for i in range(len(names)) if i not in order]
    ids = np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes).transpose(*rest, *order)
    ids = ids.reshape(-1, math.prod([sizes[i] for i in order]))
    if groups is not None:
        longest = max([len(g) for g in groups])
        rows = [[*row[list(g)], *[-1] * (longest - len(g))] for row in ids for g in groups]
        ids = np.array(rows, np.int64)
    return ids


def replica_groups(ctx: Any, axes: Sequence[Any], groups: Any = None) -> Any:
    """The attribute `replica_groups` of a collective op."""
    mesh = _mesh_of(ctx, axes)
    return ctx.module_context.attribute(_groups_attribute, *mesh, tuple(axes), groups)


def _groups_attribute(*key: Any) -> Any:
    return _int_elements(_device_groups(*key))


def _int_elements(values: np.ndarray) -> Any:
    return ir.DenseIntElementsAttr.get(np.ascontiguousarray(values, np.int64))


def check_partitioner(ctx: Any, axes: Sequence[Any]) -> None:
    """Raise an error for a collective that ends the process when GSPMD compiles it.

    GSPMD cannot have it where only a part of the mesh axes is manual.
    """
    context = _axis_context(ctx, axes[0])
    if not config.use_shardy_partitioner.value:
        if auto := [a for a in context.mesh.axis_names if a not in context.manual_axes]:
            raise NotImplementedError(
                f"{ctx.primitive} over axes {tuple(axes)} is not supported with "
                f"jax_use_shardy_partitioner=False in a shard_map over a part of the mesh axes: "
                f"{tuple(auto)} are not mapped. Map all axes, or use the Shardy partitioner."
            )


def source_target_pairs(ctx: Any, axes: Sequence[Any], perm: Sequence[tuple[int, int]]) -> Any:
    """The attribute `source_target_pairs` of a permutation of the indices along `axes`.

    Unlike in other collectives, these indices are in the order of the mesh, not of the names.
    """
    groups = np.sort(device_groups(ctx, axes), axis=1)
    pairs = [(row[s], row[t]) for row in groups for s, t in perm]
    return _int_elements(np.array(pairs, np.int64).reshape(-1, 2))


def channel() -> Any:
    return hlo.ChannelHandle.get(COLLECTIVE_CHANNEL_ID, DEVICE_TO_DEVICE_TYPE)


def result_type(ctx: Any) -> Any:
    return mlir.aval_to_ir_type(ctx.module_context, ctx.avals_out[0])


def empty_result(ctx: Any) -> list[Any] | None:
    """The result if it has no elements, or None: some collective ops do not take such operands."""
    aval = core.physical_aval(ctx.avals_out[0])
    if not any(core.is_constant_dim(d) and d == 0 for d in aval.shape):
        return None
    return [mlir.ir_constant(np.zeros(aval.shape, aval.dtype))]


def set_reducer(op: Any, dtype: Any, monoid: Monoid) -> None:
    """Fill the region of a collective op with the combination of two scalars."""
    scalar = ir.RankedTensorType.get([], mlir.dtype_to_ir_type(dtype))
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        hlo.return_([monoid.emit(*block.arguments)])


def all_reduce(ctx: Any, x: Any, axes: Sequence[Any], groups: Any, monoid: Monoid) -> list[Any]:
    """Lower a reduction over mesh axes, with equal shapes of operand and result."""
    op = hlo.AllReduceOp(
        [result_type(ctx)], [x], replica_groups(ctx, axes, groups), channel_handle=channel(),
        use_global_device_ids=True,
    )  # fmt: skip
    set_reducer(op, ctx.avals_out[0].dtype, monoid)
    return [op.results[0]]


def axis_index(ctx: Any, name: Any) -> Any:
    """Compute this device's index along a mesh axis."""
    axis_context = _axis_context(ctx, name)
    mesh = axis_context.mesh
    auto = [a for a in mesh.axis_names if a not in axis_context.manual_axes]
    if not auto:
        return _index(mesh, name)
    if not config.use_shardy_partitioner.value:
        return _index_as_shard(ctx, axis_context, name)
    # The partitioner cannot split an op that reads the partition's number: make all axes manual.
    type_ = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    replicated = NamedSharding(mesh, PartitionSpec())._to_sdy_sharding(0, False)
    sharding = mlir.get_sharding_attr(ctx.module_context, replicated)
    no_shardings = sdy.TensorShardingPerValueAttr.get([])
    op = sdy.ManualComputationOp(
        [type_], [], no_shardings, sdy.TensorShardingPerValueAttr.get([sharding]),
        sdy.ManualAxesAttr.get([ir.StringAttr.get(a) for a in auto]),
    )  # fmt: skip
    with ir.InsertionPoint(op.body.blocks.append()):
        sdy.ReturnOp([_index(mesh, name)])
    return op.results[0]


def _index_as_shard(ctx: Any, axis_context: SPMDAxisContext, name: Any) -> Any:
    """This device's shard of the vector of all indices: GSPMD cannot split a partition's number."""
    mesh = axis_context.mesh.abstract_mesh
    inner = mesh.update_axis_types(dict.fromkeys(axis_context.manual_axes, AxisType.Manual))
    vector = core.ShapedArray((mesh.shape[name],), np.dtype(np.int32))
    x = mlir.ir_constant(np.arange(mesh.shape[name], dtype=np.int32))
    split, whole = (
        NamedSharding(m, spec)._to_xla_hlo_sharding(1).to_proto()
        for m, spec in ((mesh, PartitionSpec(name)), (inner, PartitionSpec()))
    )
    x = mlir.wrap_with_sharding_op(ctx, x, vector, split)
    x = mlir.wrap_with_full_to_shard_op(ctx, x, vector.update(shape=(1,)), whole)
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return hlo.reshape(scalar, x)


def _index(mesh: Any, name: Any) -> Any:
    names, sizes = mesh.axis_names, tuple(mesh.shape.values())
    i = names.index(name)
    unsigned = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
    signed = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    inner = hlo.constant(mlir.ir_attribute(np.array(math.prod(sizes[i + 1 :]), np.uint32)))
    size = hlo.constant(mlir.ir_attribute(np.array(sizes[i], np.uint32)))
    partition = hlo.partition_id(results=[unsigned])
    return hlo.convert(signed, hlo.remainder(hlo.divide(partition, inner), size))


def lower_fun(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Make a lowering rule of a function that uses collectives over the mesh's manual axes."""
    rule = mlir.lower_fun(fun, multiple_results=False)

    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        mesh = _axis_context(ctx, params["axis_name"]).mesh
        with core.extend_axis_env_nd(tuple(mesh.shape.items())):
            return rule(ctx, *args, **params)

    return lower
