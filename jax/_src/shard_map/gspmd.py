"""Lowering of `shard_map` for GSPMD, the partitioner that runs with jax_use_shardy_partitioner=False.

Values are converted to shards in front of the body, and back behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map.specs import joined_spec, manual_mesh, physical_spec

_Specs = tuple[Sequence[PartitionSpec], Sequence[Any]]


def lower(
    ctx: mlir.LoweringRuleContext, args: Sequence[Any], lower_body: Callable, *, mesh: Any,
    outer: frozenset[Any], manual: frozenset[Any], ins: _Specs, outs: _Specs,
) -> list[Any]:  # fmt: skip
    """Lower an application.

    Args:
      args: the operands.
      lower_body: lowers the body, given values of shards.
      outer: the mesh axes that are Manual around the application.
      manual: the mesh axes that are Manual in the body.
      ins, outs: the specs and the types of the shards of operands and of results.

    Returns:
      The results.
    """
    around, inside = manual_mesh(mesh, outer), manual_mesh(mesh, manual)

    def convert(x: Any, whole: Any, spec: PartitionSpec, shard: Any, to_shard: bool) -> Any:
        if not isinstance(shard, core.ShapedArray):
            return x
        own = PartitionSpec() if shard._sharding is None else shard._sharding.spec
        full = _sharding(around, joined_spec(spec, own) if len(own) else spec, shard)
        part = _sharding(inside, own, shard)
        # The compiler may use Auto axes.
        free = set(range(shard.ndim)) if inside._any_axis_auto else None
        if to_shard:
            x = mlir.wrap_with_sharding_op(ctx, x, whole, full, free)
            return mlir.wrap_with_full_to_shard_op(ctx, x, shard, part, free)
        x = mlir.wrap_with_sharding_op(ctx, x, shard, part, free)
        return mlir.wrap_with_shard_to_full_op(ctx, x, whole, full, free)

    shards = [
        convert(x, whole, spec, shard, True)
        for x, whole, spec, shard in zip(args, ctx.avals_in, *ins, strict=True)
    ]
    before = _last_operation()
    results = lower_body(shards)
    if inside._any_axis_auto or inside._any_axis_explicit:
        for op in _control_flow(before):
            _mark_operands(ctx, op, inside)
    return [
        convert(x, whole, spec, shard, False)
        for x, whole, spec, shard in zip(results, ctx.avals_out, *outs, strict=True)
    ]


def _last_operation() -> Any:
    operations = ir.InsertionPoint.current.block.operations
    return operations[len(operations) - 1] if len(operations) else None


def _control_flow(before: Any) -> list[Any]:
    """The loops and branches behind operation `before`, and in functions that are called there."""
    found: list[Any] = []
    called: list[str] = []

    def visit(op: Any) -> Any:
        op = op.operation
        if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
            found.append(op)
        elif op.name == "func.call":
            name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            if name not in called:
                called.append(name)
        return ir.WalkResult.ADVANCE

    block = ir.InsertionPoint.current.block
    after = before is None
    for op in block.operations:
        if after:
            op.operation.walk(visit)
        after = after or op == before
    root = block.owner.operation
    while root.parent is not None:
        root = root.parent.operation
    symbols = ir.SymbolTable(root)
    for name in called:  # grows
        symbols[name].operation.walk(visit)
    return found


def _mark_operands(ctx: mlir.LoweringRuleContext, op: Any, mesh: Any) -> None:
    """Say that the values of a loop are shards: the partitioner does not find that out."""
    with ir.InsertionPoint(op):
        for i, x in enumerate(op.operands):
            if not isinstance(x.type, ir.RankedTensorType):
                continue
            owner = x.owner
            if getattr(owner, "name", "") == "stablehlo.custom_call" and (
                "mhlo.sharding" in owner.attributes
            ):
                continue  # by a shard_map inside of this one
            ndim = x.type.rank
            part = NamedSharding(mesh, PartitionSpec())._to_xla_hlo_sharding(ndim).to_proto()
            call = hlo.CustomCallOp(
                [x.type], [x], call_target_name=ir.StringAttr.get("Sharding"),
                backend_config=ir.StringAttr.get(_free(range(ndim))),
                api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
            )  # fmt: skip
            mlir.set_sharding(ctx.module_context, call, part)
            op.operands[i] = call.result


def _free(dims: Sequence[int]) -> str:
    """The option that lets the compiler shard dimensions as it chooses."""
    return f"unspecified_dims=[{','.join(map(str, dims))}]" if dims else ""


def _sharding(mesh: Any, spec: PartitionSpec, aval: Any) -> Any:
    ndim = core.physical_aval(aval).ndim
    return NamedSharding(mesh, physical_spec(spec, aval))._to_xla_hlo_sharding(ndim).to_proto()
