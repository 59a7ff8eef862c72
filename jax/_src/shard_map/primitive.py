"""The primitive of `shard_map`: types, context of the body, and lowering."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import config, core
from jax._src.core import Jaxpr, Primitive
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import sdy
from jax._src.mesh import AbstractMesh, Mesh, get_concrete_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import gspmd
from jax._src.shard_map.specs import (
    joined_spec,
    manual_mesh,
    physical_spec,
    shard_aval,
    spec_axes,
    unshard_aval,
)
from jax._src.sharding_impls import SdyArrayList, SPMDAxisContext

shard_map_p = Primitive("shard_map", multiple_results=True)


class body_context:
    """Context manager: the mesh, named axes and checks under which a body is traced.

    Args:
      mesh: the mesh of the shard_map.
      manual_axes: the axes that become Manual in the body.
      check_vma: whether types track over which axes values vary.
    """

    __slots__ = ("mesh", "manual_axes", "check_vma", "prev")

    def __init__(self, mesh: Mesh | AbstractMesh, manual_axes: frozenset[Any], check_vma: bool):
        self.mesh = mesh
        self.manual_axes = manual_axes
        self.check_vma = check_vma

    def __enter__(self) -> None:
        inner = manual_mesh(self.mesh, self.manual_axes)
        env = core.trace_ctx.axis_env
        sizes = [(n, s) for n, s in inner.shape_tuple if n in self.manual_axes]
        concrete = get_concrete_mesh()
        same = concrete.shape_tuple == inner.shape_tuple
        concrete = concrete.update(axis_types=inner.axis_types) if same else None
        self.prev = _swap((inner, concrete, self.check_vma, env.extend(sizes)))

    def __exit__(self, *exc: object) -> None:
        _swap(self.prev)

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """The surrounding context, within this one."""
        current = _swap(self.prev)
        try:
            yield
        finally:
            _swap(current)


def _swap(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Set the abstract mesh, the concrete mesh, the check and the named axes; return the old ones."""
    abstract, concrete, check, env = state
    old = core.trace_ctx.axis_env
    core.trace_ctx.set_axis_env(env)
    return (
        config.abstract_mesh_context_manager.swap_local(abstract),
        config.device_context.swap_local(concrete),
        config.check_vma.swap_local(check),
        old,
    )


def context_of(params: dict[str, Any]) -> body_context:
    """The context of the body of an application with these parameters."""
    return body_context(params["mesh"], params["newly_manual_axes"], params["check_vma"])


def body_effects(jaxpr: Jaxpr, manual_axes: frozenset[Any]) -> core.Effects:
    """The effects of an application: those of its body, except uses of its named axes."""
    if not jaxpr.effects:
        return core.no_effects
    return frozenset(
        e
        for e in jaxpr.effects
        if not (isinstance(e, core.NamedAxisEffect) and e.name in manual_axes)
    )


def _types(
    *_: Any,
    jaxpr: Jaxpr,
    mesh: Any,
    out_specs: Any,
    newly_manual_axes: frozenset[Any],
    check_vma: bool = True,
    **__: Any,
) -> tuple[Sequence[Any], core.Effects]:
    outs = [
        unshard_aval(mesh, newly_manual_axes, spec, aval, check_vma)
        for spec, aval in zip(out_specs, jaxpr.out_avals)
    ]
    return outs, body_effects(jaxpr, newly_manual_axes)


shard_map_p.def_effectful_abstract_eval(_types)


def _typecheck(
    _: Any, *operands: Any, jaxpr: Jaxpr, mesh: Any, in_specs: Any, out_specs: Any, check_vma: bool,
    newly_manual_axes: frozenset[Any],
) -> Any:  # fmt: skip
    for v, spec, x in zip(jaxpr.invars, in_specs, operands, strict=True):
        aval = shard_aval(mesh, newly_manual_axes, check_vma, spec, x.aval)
        if not core.typematch(aval, v.aval):
            raise core.JaxprTypeError(
                f"argument of type {v.aval} in the body of a shard_map, for shards of type {aval} of an "
                f"operand of type {x.aval} with the spec {spec}"
            )
    with body_context(mesh, newly_manual_axes, check_vma):
        core.check_jaxpr(jaxpr)
    for aval, spec in zip(jaxpr.out_avals, out_specs, strict=True):
        if check_vma and isinstance(aval, core.ShapedArray):
            extra = (aval.vma & newly_manual_axes).difference(spec_axes(spec), spec.unreduced)
            if extra:
                raise core.JaxprTypeError(
                    f"result of type {aval} in the body of a shard_map varies over {set(extra)}, which "
                    f"are not in its spec {spec}"
                )
    return _types(jaxpr=jaxpr, mesh=mesh, out_specs=out_specs, newly_manual_axes=newly_manual_axes)


shard_map_p.typecheck = _typecheck
shard_map_p.checks_jaxprs = True


# Lowering


def _lowering(
    ctx: mlir.LoweringRuleContext, *args: Any, jaxpr: Jaxpr, mesh: Any, in_specs: Any,
    out_specs: Any, check_vma: bool, newly_manual_axes: frozenset[Any],
) -> Sequence[Any]:  # fmt: skip
    module_ctx = ctx.module_context
    outer = module_ctx.axis_context
    manual = newly_manual_axes
    if isinstance(outer, SPMDAxisContext):
        manual = manual | outer.manual_axes
    if manual is newly_manual_axes and outer.num_devices != mesh.size:
        raise ValueError(
            f"shard_map over the mesh {mesh} of {mesh.size} devices is in a program for "
            f"{outer.num_devices}. The mesh is abstract, so the arguments determine the devices: pass "
            "arrays with a `NamedSharding` over such a mesh, call the function within "
            "`jax.set_mesh(mesh)`, or pass a `jax.sharding.Mesh` to shard_map."
        )
    inner = SPMDAxisContext(mesh, manual, outer.device_assignment)
    sub_ctx = ctx.replace(module_context=module_ctx.replace(axis_context=inner))
    # Some rules of operations in the body trace functions.
    context = body_context(mesh, newly_manual_axes, check_vma)
    if mesh.size == 1:
        with context:
            return _lower_body(ctx, sub_ctx, jaxpr, args)
    if not config.use_shardy_partitioner.value:

        def lower_body(shards: Sequence[Any]) -> Sequence[Any]:
            with context:
                return _lower_body(ctx, sub_ctx, jaxpr, shards)

        return gspmd.lower(
            ctx, args, lower_body, mesh=mesh, outer=manual - newly_manual_axes, manual=manual,
            ins=(in_specs, jaxpr.in_avals), outs=(out_specs, jaxpr.out_avals),
        )  # fmt: skip
    types = [mlir.aval_to_ir_types(module_ctx, a) for a in ctx.avals_out]
    effects, tokens = list(ctx.tokens_in.effects()), ctx.tokens_in.tokens()
    token_types = [t.type for t in tokens]
    results = [*token_types, *mlir.flatten_ir_types(types)]
    dims = list(ctx.dim_var_values)  # also the platform's index; the body sees no values around it
    operands = [*dims, *tokens, *mlir.flatten_ir_values(args)]
    in_shardings = _sdy_shardings(ctx, mesh, newly_manual_axes, in_specs, jaxpr.in_avals, len(dims))
    out_shardings = _sdy_shardings(ctx, mesh, newly_manual_axes, out_specs, jaxpr.out_avals)
    extra: list[Any] = []
    if not operands and not results:
        # The compiler would forget that a body which only has effects belongs to all devices.
        aval = core.ShapedArray((), np.dtype(np.int32))
        extra = [mlir.ir_constant(np.int32(0))]
        in_shardings = out_shardings = _sdy_shardings(
            ctx, mesh, newly_manual_axes, [PartitionSpec()], [aval]
        )
    # Later compilers take a partial sum, which the body adds up, of an operation only, not of the program's arguments.
    operands = [
        mlir.wrap_with_sharding_op(ctx, x, None, s) if s.unreduced_axes else x
        for x, s in zip(operands, in_shardings.shardings)
    ]
    op = sdy.ManualComputationOp(
        [*results, *[x.type for x in extra]],
        [*operands, *extra],
        mlir.get_sharding_attr(module_ctx, in_shardings),
        mlir.get_sharding_attr(module_ctx, out_shardings),
        sdy.ManualAxesAttr.get(
            [ir.StringAttr.get(str(n)) for n in mesh.axis_names if n in newly_manual_axes]
        ),
    )
    inner_types = [mlir.aval_to_ir_types(module_ctx, a) for a in jaxpr.in_avals]
    block_types = [
        *[d.type for d in dims],
        *token_types,
        *mlir.flatten_ir_types(inner_types),
        *[x.type for x in extra],
    ]
    block = ir.Block.create_at_start(op.body, block_types)
    n = len(tokens)
    with ir.InsertionPoint(block), context:
        values = list(block.arguments)
        handed_on, values = values[len(operands) :], values[: len(operands)]
        inner_dims, values = values[: len(dims)], values[len(dims) :]
        inner_ctx = ctx.replace(
            tokens_in=mlir.TokenSet(dict(zip(effects, values[:n]))), dim_var_values=inner_dims
        )
        body_args = mlir.unflatten_ir_values_like_types(values[n:], inner_types)
        outs = _lower_body(inner_ctx, sub_ctx, jaxpr, body_args)
        after = [] if inner_ctx.tokens_out is None else inner_ctx.tokens_out
        tokens_out = [after.get(e) for e in effects] if n else []
        returned = [ir.Value(v) for v in mlir.flatten_ir_values(outs)]
        sdy.ReturnOp([*tokens_out, *returned, *handed_on])
    results = list(op.results)[: len(results)]
    if n:
        ctx.set_tokens_out(mlir.TokenSet(dict(zip(effects, results[:n]))))
    return mlir.unflatten_ir_values_like_types(results[n:], types)


def _lower_body(ctx: Any, sub_ctx: Any, jaxpr: Jaxpr, args: Sequence[Any]) -> Sequence[Any]:
    outs, tokens_out = mlir.jaxpr_subcomp(
        sub_ctx.module_context, jaxpr, ctx.name_stack.within("shard_map"), ctx.tokens_in, (), *args,
        dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering,
        outer_traceback=ctx.traceback,
    )  # fmt: skip
    if len(ctx.tokens_in):
        ctx.set_tokens_out(tokens_out)
    return outs


def _sdy_shardings(
    ctx: Any, mesh: Any, manual_axes: frozenset[Any], specs: Any, avals: Sequence[Any],
    num_dims: int = 0,
) -> SdyArrayList:  # fmt: skip
    """Shardy's form of the specs, after those of dimension variables and tokens.

    Args:
      specs: how values are divided over the manual axes.
      avals: types of the shards, which can be sharded over Explicit axes.
      num_dims: the number of dimension variables.
    """
    # The compiler may use Auto axes.
    is_open = manual_mesh(mesh, manual_axes)._any_axis_auto
    scalar = NamedSharding(mesh, PartitionSpec())._to_sdy_sharding(0)
    shardings = [scalar] * (num_dims + len(ctx.tokens_in))
    for spec, aval in zip(specs, avals):
        own = getattr(aval, "_sharding", None)
        if own is not None:
            spec = joined_spec(spec, own.spec)
        spec, ndim = physical_spec(spec, aval), core.physical_aval(aval).ndim
        sharding = NamedSharding(mesh, spec)._to_sdy_sharding(ndim)
        if is_open:
            dims = tuple([d.replace(is_open=True) for d in sharding.dim_shardings])
            sharding = sharding.replace(dim_shardings=dims)
        shardings.append(sharding)
    return SdyArrayList(tuple(shardings))


mlir.register_lowering(shard_map_p, _lowering)
