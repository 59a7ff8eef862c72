"""Lowering of jaxprs to functions of the module, and of calls to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jax._src import (
    core,
    dtypes,
    effects as effects_lib,
    source_info_util,
    util,
    xla_bridge as xb,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.mlir.constants import ir_consts
from jax._src.interpreters.mlir.context import LoweringRuleContext, ModuleContext, TokenSet
from jax._src.interpreters.mlir.locations import source_info_to_location
from jax._src.interpreters.mlir.rules import jaxpr_subcomp, string_attributes
from jax._src.interpreters.mlir.shardings import (
    all_unconstrained,
    contains_unconstrained,
    needs_no_shardings,
    replicate_trailing_dims,
    to_ir_sharding,
    wrap_with_layout_op,
    wrap_with_memory_kind,
    wrap_with_sharding_op,
)
from jax._src.interpreters.mlir.signatures import ArgSpecs, ResultSpecs, Signature
from jax._src.interpreters.mlir.types import (
    IrValues,
    aval_to_ir_types,
    flatten_ir_values,
    unflatten_ir_values_like_types,
)
from jax._src.layout import Layout
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect
from jax._src.memory import DEVICE_KIND
from jax._src.named_sharding import UnspecifiedValue

if TYPE_CHECKING:
    from jax._src.sharding import Sharding


def lower_jaxpr_to_fun(
    ctx: ModuleContext,
    name: str,
    jaxpr: core.ClosedJaxpr,
    effects: Sequence[Any],
    *,
    num_const_args: int,
    main_function: bool = False,
    replicated_args: Sequence[bool] | None = None,
    in_avals: Sequence[Any] | None,
    arg_shardings: Sequence[Any] | None = None,
    result_shardings: Sequence[Any] | None = None,
    use_sharding_annotations: bool = True,
    input_output_aliases: Sequence[int | None] | None = None,
    xla_donated_args: Sequence[bool] | None = None,
    arg_names: Sequence[str | None] | None = None,
    result_names: Sequence[str] | None = None,
    arg_memory_kinds: Sequence[str | None] | None = None,
    result_memory_kinds: Sequence[str | None] | None = None,
    arg_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    propagated_out_mem_kinds: Sequence[str | None] | None = None,
) -> Any:
    """Adds a function for a jaxpr to the module.

    Its arguments are the dimension variables, a token for each of `effects`, then the arguments of
    the jaxpr. Its results are the tokens, then the results of the jaxpr.

    Args:
      ctx: the module.
      name: the function's name; a number is appended if it is taken.
      jaxpr: the jaxpr with its constants.
      effects: ordered effects, in the order of their tokens.
      num_const_args: the number of constants that are passed as leading arguments: 0, or the number
        of `jaxpr.consts`.
      main_function: whether it is the module's public entry point.
      replicated_args: which arguments are the same on all replicas.
      in_avals: types of the arguments, including those of constants.
      arg_shardings, result_shardings: shardings; None where unspecified.
      use_sharding_annotations: whether to express shardings as attributes of arguments and results,
        instead of only as operations.
      input_output_aliases: for each argument, the result that may use its buffer, or None.
      xla_donated_args: which arguments' buffers the compiler may use for any result.
      arg_names, result_names: names for error messages and profiles.
      arg_memory_kinds, result_memory_kinds, arg_layouts, result_layouts: None where default.
      propagated_out_mem_kinds: memory kinds of results according to their types in the jaxpr.

    Returns:
      The `func.func` operation.
    """
    constvars = jaxpr.jaxpr.constvars if num_const_args else []
    if in_avals is None:
        in_avals = [v.aval for v in constvars] + jaxpr.in_avals
    args = ArgSpecs(
        in_avals, arg_names, replicated_args, arg_shardings, arg_memory_kinds, arg_layouts,
        xla_donated_args, input_output_aliases,
    )  # fmt: skip
    results = ResultSpecs(
        jaxpr.out_avals, result_names, result_shardings, result_memory_kinds, result_layouts,
        propagated_out_mem_kinds,
    )  # fmt: skip
    return lower_function(
        ctx, name, jaxpr, effects, args, results, num_const_args, main_function,
        use_sharding_annotations,
    )  # fmt: skip


def lower_function(
    ctx: ModuleContext,
    name: str,
    jaxpr: core.ClosedJaxpr,
    effects: Sequence[core.Effect],
    args: ArgSpecs,
    results: ResultSpecs,
    num_const_args: int = 0,
    main_function: bool = False,
    use_sharding_annotations: bool = True,
) -> Any:
    """Like `lower_jaxpr_to_fun`, with the specifications of arguments and results grouped."""
    util.test_event("lower_jaxpr_to_fun", name)
    if num_const_args not in (0, len(jaxpr.consts)):
        raise ValueError(
            f"num_const_args is {num_const_args} for a jaxpr with {len(jaxpr.consts)} constants."
        )
    if len(args.avals) != num_const_args + len(jaxpr.in_avals):
        raise ValueError(
            f"in_avals has {len(args.avals)} types for {num_const_args + len(jaxpr.in_avals)} arguments."
        )
    signature = Signature(ctx, len(effects), args, results, use_sharding_annotations)
    ins, outs = signature.ins, signature.outs
    unknown = ctx.traceback_caches.unknown
    with unknown:
        func_op = func_dialect.FuncOp(
            name, ir.FunctionType.get(ins.flat_types, outs.flat_types), ip=ctx.ip
        )
        func_op.attributes["sym_visibility"] = ir.StringAttr.get(
            "public" if main_function else "private"
        )
        ctx.symbol_table.insert(func_op)
    arg_attrs, result_attrs = signature.arg_attrs(main_function), signature.result_attrs()
    if arg_attrs is not None:
        func_op.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get(attrs) for attrs in arg_attrs])
    if result_attrs is not None:
        func_op.result_attrs = ir.ArrayAttr.get([ir.DictAttr.get(attrs) for attrs in result_attrs])
    names = ins.flat(args.names) if args.names else [None] * len(ins.flat_types)
    name_of = ir.Location.name
    locs = [unknown if n is None else name_of(n, unknown) for n in names or ()]
    block = func_op.add_entry_block(locs)
    with ir.InsertionPoint(block), unknown:
        values = _lower_body(ctx, jaxpr, effects, signature, block, num_const_args, main_function)
        if not signature.unsharded or signature.results.memory_kinds:
            values = _constrain_results(ctx, values, signature)
        func_dialect.ReturnOp(values)
    return func_op


def _lower_body(
    ctx: ModuleContext,
    jaxpr: core.ClosedJaxpr,
    effects: Sequence[core.Effect],
    signature: Signature,
    block: Any,
    num_const_args: int,
    main_function: bool,
) -> list[Any]:
    """Lowers a jaxpr into the function's block; returns the tokens, then the results."""
    inner, ins = jaxpr.jaxpr, signature.ins
    values = list(block.arguments)
    dim_var_values, values = values[: signature.num_dims], values[signature.num_dims :]
    tokens_in = TokenSet(dict(zip(effects, values)))
    args: list[IrValues] = values[len(effects) :]
    if not ins.plain:
        args = unflatten_ir_values_like_types(args, ins.types[ins.pad :])
    stack = source_info_util.new_name_stack()
    if not signature.unsharded:
        args = _constrain_arguments(ctx, args, signature)
    if main_function:
        stack = source_info_util.new_name_stack(_main_scope(inner))
    consts: Sequence[IrValues] = ()
    if num_const_args:
        consts, args = args[:num_const_args], args[num_const_args:]
    elif jaxpr.consts:
        consts = ir_consts(jaxpr.consts, [v.aval for v in inner.constvars])
    results, tokens_out = jaxpr_subcomp(
        ctx, inner, stack, tokens_in, consts, *args,
        dim_var_values=dim_var_values, const_lowering=None, outer_traceback=None,
    )  # fmt: skip
    return flatten_ir_values([*(tokens_out.get(eff) for eff in effects), *results])


def _main_scope(jaxpr: core.Jaxpr) -> str:
    info = jaxpr.debug_info
    return util.wrap_name(info.traced_for or "jit", info.func_name or "unknown")


def _constrain_arguments(
    ctx: ModuleContext, args: Sequence[IrValues], signature: Signature
) -> list[IrValues]:
    rule_ctx = LoweringRuleContext(ctx, source_info_util.new_name_stack(), None, None, (), None)
    shardings: Sequence[Any] = [None] * len(args)
    if not signature.annotated and signature.arg_shardings is not None:
        shardings = signature.arg_shardings[signature.ins.pad :]
    out: list[Any] = []
    for value, aval, sharding in zip(args, signature.args.avals, shardings):
        if isinstance(aval, core.ShapedArray):
            if sharding is not None:
                value = wrap_with_sharding_op(rule_ctx, value, aval, sharding)
            if isinstance(aval.dtype, dtypes.ExtendedDType):
                value = replicate_trailing_dims(rule_ctx, value, aval)
        out.append(value)
    return out


def _constrain_results(
    ctx: ModuleContext, values: Sequence[IrValues], signature: Signature
) -> list[Any]:
    rule_ctx = LoweringRuleContext(ctx, None, None, None, (), None)
    outs, results = signature.outs, signature.results
    none = [None] * len(values)
    avals = outs.avals if outs.plain else outs.flat(results.avals) or none
    ir_shardings = signature.result_shardings or none
    shardings = outs.flat(results.shardings) or none
    kinds = outs.flat(results.memory_kinds) or none
    known_kinds = outs.flat(results.known_memory_kinds) or none
    out = []
    for value, aval, ir_sharding, sharding, kind, known in zip(
        values, avals, ir_shardings, shardings, kinds, known_kinds
    ):
        if isinstance(aval, core.ShapedArray):
            if ir_sharding is not None and (
                not signature.annotated or contains_unconstrained(sharding)
            ):
                if not all_unconstrained(sharding, aval):
                    value = wrap_with_sharding_op(
                        rule_ctx, value, aval, ir_sharding, _unconstrained_dims(sharding)
                    )
            if isinstance(aval.dtype, dtypes.ExtendedDType):
                value = replicate_trailing_dims(rule_ctx, value, aval)
            # The operations that move a value to a known memory kind suffice, except on CPU, where
            # they do nothing. The result's attribute alone does not make XLA move it in modules for
            # several devices.
            if kind is not None and (
                kind != known or kind != DEVICE_KIND and "cpu" in ctx.platforms
            ):
                value = wrap_with_memory_kind(ctx, value, kind, aval)
        out.append(value)
    return out


def _unconstrained_dims(sharding: Sharding) -> Any:
    return {
        i for i, p in enumerate(sharding.spec.partitions) if p is type(sharding.spec).UNCONSTRAINED
    } or None


# Calls


def lower_called_computation(
    fn_name: str,
    call_jaxpr: core.ClosedJaxpr | core.Jaxpr,
    ctx: ModuleContext,
    tokens_in: TokenSet | None = None,
    backend: str | None = None,
    arg_names: Sequence[str | None] | None = None,
    result_names: Sequence[str] | None = None,
) -> tuple[Any, list[Any], Sequence[Any]]:
    """Returns the module's function for a jaxpr, adding it on first use.

    Args:
      fn_name: the name of a new function.
      call_jaxpr: the jaxpr.
      ctx: the module.
      tokens_in: the current tokens; the function takes those of the jaxpr's ordered effects.
      backend: a platform that the module must be lowered for, or None.

    Returns:
      The function, the flat IR types of its results (tokens first), and its ordered effects.
    """
    if isinstance(call_jaxpr, core.Jaxpr):
        call_jaxpr = pe.close_jaxpr(call_jaxpr)
    check_backend_matches(backend, ctx.platforms)
    inner = call_jaxpr.jaxpr
    effects: Sequence[Any] = ()
    if inner.effects:
        effects = effects_lib.ordered_effects.filter_in(inner.effects)
        if tokens_in is not None:  # use the order of the caller's tokens
            effects = [eff for eff in tokens_in.effects() if eff in effects]
    # The function depends on the jaxpr, its constants and the order of its tokens.
    key = (fn_name, inner, tuple(map(id, call_jaxpr.consts)), tuple(effects))
    entry = ctx.lowering_cache.get(key)
    if entry is None:
        func_op = lower_function(
            ctx,
            fn_name,
            call_jaxpr,
            effects,
            ArgSpecs(call_jaxpr.in_avals, arg_names),
            ResultSpecs(call_jaxpr.out_avals, result_names),
        )
        entry = (func_op, func_op.type.results, effects, call_jaxpr)
        ctx.lowering_cache[key] = entry
    func_op, result_types, effects, _ = entry
    return func_op, result_types, effects


def call_lowering(
    fn_name: str,
    call_jaxpr: core.ClosedJaxpr | core.Jaxpr,
    backend: str | None,
    ctx: ModuleContext,
    in_avals: Sequence[Any] | None,
    out_avals: Sequence[Any] | None,
    tokens_in: TokenSet,
    *args: IrValues,
    dim_var_values: Sequence[Any] = (),
    arg_names: Sequence[str | None] | None = None,
    result_names: Sequence[str] | None = None,
    attributes: dict[str, Any] | None = None,
    loc: Any = None,
) -> tuple[list[IrValues], TokenSet]:
    """Calls the function of a jaxpr.

    Args:
      fn_name: the function's name if it is new.
      call_jaxpr: the jaxpr.
      backend: a platform that the module must be lowered for, or None.
      ctx: the module.
      in_avals, out_avals: types of arguments and results; those of the jaxpr if None.
      tokens_in: the current tokens.
      *args: IR values of the arguments.
      dim_var_values: as in `LoweringRuleContext`.
      attributes: attributes of the call.
      loc: the location of the call; the current one if None.

    Returns:
      IR values of the results, and the tokens after the call.
    """
    func_op, result_types, effects = lower_called_computation(
        fn_name, call_jaxpr, ctx, tokens_in, backend, arg_names, result_names
    )
    operands = [*dim_var_values, *(tokens_in.get(eff) for eff in effects), *args]
    call = ir.Operation.create(
        "func.call",
        list(result_types),
        flatten_ir_values(operands),
        {"callee": ir.FlatSymbolRefAttr.get(func_op.name.value)},
        loc=loc,
    )
    if attributes:
        for name, attr in attributes.items():
            call.attributes[name] = attr
    results = list(call.results)
    tokens_out = tokens_in
    if effects:
        tokens_out = tokens_in.update_tokens(TokenSet(dict(zip(effects, results))))
        results = results[len(effects) :]
    out_avals = call_jaxpr.out_avals if out_avals is None else out_avals
    types = [aval_to_ir_types(ctx, a) for a in out_avals]
    if any(type(t) is tuple for t in types):
        results = unflatten_ir_values_like_types(results, types)
    return results, tokens_out


def core_call_lowering(
    ctx: LoweringRuleContext,
    *args: IrValues,
    name: str,
    backend: str | None = None,
    call_jaxpr: core.ClosedJaxpr | core.Jaxpr,
) -> Sequence[IrValues]:
    """The lowering rule of primitives that only call the jaxpr in the parameter `call_jaxpr`."""
    return lower_call_with_attributes(ctx, *args, name=name, call_jaxpr=call_jaxpr, backend=backend)


def lower_call_with_attributes(
    ctx: LoweringRuleContext,
    *args: IrValues,
    name: str,
    call_jaxpr: core.ClosedJaxpr | core.Jaxpr,
    backend: str | None = None,
    frontend_attributes: dict[str, str] | None = None,
) -> Sequence[IrValues]:
    """Lowers a call of a jaxpr; `frontend_attributes` are attached to it, for the compiler."""
    module_ctx = ctx.module_context
    attributes = None
    if frontend_attributes is not None:
        attributes = {"mhlo.frontend_attributes": string_attributes(frontend_attributes)}
    results, tokens_out = call_lowering(
        name,
        call_jaxpr,
        backend,
        module_ctx,
        None,
        ctx.avals_out,
        ctx.tokens_in,
        *args,
        dim_var_values=ctx.dim_var_values,
        attributes=attributes,
    )
    if len(ctx.tokens_in):
        ctx.set_tokens_out(tokens_out)
    return results


def lower_jit_call(
    ctx: LoweringRuleContext,
    name: str,
    jaxpr: core.ClosedJaxpr,
    args: Sequence[IrValues],
    *,
    in_shardings: Sequence[Any] = (),
    out_shardings: Sequence[Any] = (),
    in_layouts: Sequence[Any] = (),
    out_layouts: Sequence[Any] = (),
    inline: bool = False,
    compiler_options_kvs: Sequence[tuple[str, Any]] = (),
    donated_invars: Sequence[bool] = (),
    keep_unused: bool = False,
    ctx_mesh: Any = None,
) -> Sequence[IrValues]:
    """Lowers a nested jit to a function call; its shardings and layouts become constraints.

    Donation and unused arguments concern only how a whole program is compiled and called, so they
    are ignored here.
    """
    module_ctx = ctx.module_context
    args = _constrained(ctx, args, ctx.avals_in, in_shardings, in_layouts)
    if inline:
        outs = lower_jaxpr_inline(ctx, jaxpr, util.wrap_name("jit", name), *args)
    else:
        # The name stack of the call itself includes the function's name.
        stack = ctx.name_stack.extend(util.wrap_name("jit", name))
        loc = source_info_to_location(module_ctx, None, stack, ctx.traceback)
        outs, tokens_out = call_lowering(
            name,
            jaxpr,
            None,
            module_ctx,
            None,
            ctx.avals_out,
            ctx.tokens_in,
            *args,
            dim_var_values=ctx.dim_var_values,
            loc=loc,
        )
        if len(ctx.tokens_in):
            ctx.set_tokens_out(tokens_out)
    return _constrained(ctx, outs, ctx.avals_out, out_shardings, out_layouts)


def _constrained(
    ctx: Any,
    values: Sequence[Any],
    avals: Sequence[core.AbstractValue],
    shardings: Any,
    layouts: Any,
) -> Sequence[Any]:
    module_ctx = ctx.module_context
    if shardings and not needs_no_shardings(module_ctx):
        values = [
            v
            if isinstance(s, UnspecifiedValue) or s is None
            else wrap_with_sharding_op(ctx, v, a, to_ir_sharding(a, s))
            for v, a, s in zip(values, avals, shardings, strict=True)
        ]
    if any(isinstance(layout, Layout) for layout in layouts):
        values = [
            wrap_with_layout_op(ctx, v, a, layout, a) if isinstance(layout, Layout) else v
            for v, a, layout in zip(values, avals, layouts, strict=True)
        ]
    return values


def check_backend_matches(inner_backend: str | None, lowering_platforms: Sequence[str]) -> None:
    """Raises NotImplementedError if a nested jit requests another backend than the outer one."""
    if inner_backend is None:
        return
    names = xb.expand_platform_alias(inner_backend)
    if any(p not in names for p in lowering_platforms):
        outer = lowering_platforms[0] if len(lowering_platforms) == 1 else str(lowering_platforms)
        raise NotImplementedError(
            f"A jit with backend={inner_backend} cannot be called inside code compiled for the "
            f"backend {outer}: one program runs on one platform."
        )


def lower_jaxpr_inline(
    ctx: LoweringRuleContext, call_jaxpr: core.ClosedJaxpr, scope: str, *args: IrValues
) -> Sequence[IrValues]:
    """Lowers a jaxpr at its place of use, with operation names inside `scope`."""
    consts = ir_consts(call_jaxpr.consts, [v.aval for v in call_jaxpr.jaxpr.constvars])
    outs, tokens_out = jaxpr_subcomp(
        ctx.module_context,
        call_jaxpr.jaxpr,
        ctx.name_stack.within(scope),
        ctx.tokens_in,
        consts,
        *args,
        dim_var_values=ctx.dim_var_values,
        const_lowering=ctx.const_lowering,
        outer_traceback=ctx.traceback,
    )
    if len(ctx.tokens_in):
        ctx.set_tokens_out(tokens_out)
    return outs
