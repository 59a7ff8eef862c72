"""Jaxprs as functions of the module, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import (
    config,
    core,
    dtypes,
    effects as effects_lib,
    source_info_util,
    util,
    xla_bridge as xb,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.mlir.constants import i32_attr, ir_consts
from jax._src.interpreters.mlir.context import LoweringRuleContext, ModuleContext, TokenSet
from jax._src.interpreters.mlir.locations import source_info_to_location
from jax._src.interpreters.mlir.rules import jaxpr_subcomp
from jax._src.interpreters.mlir.shardings import (
    all_unconstrained,
    contains_unconstrained,
    get_mem_kind,
    get_sharding_attr,
    needs_no_shardings,
    replicate_trailing_dims,
    to_ir_sharding,
    to_xla_layout,
    wrap_with_layout_op,
    wrap_with_memory_kind,
    wrap_with_sharding_op,
)
from jax._src.interpreters.mlir.types import (
    IrValues,
    aval_to_ir_types,
    flatten_ir_types,
    flatten_ir_values,
    unflatten_ir_values_like_types,
)
from jax._src.layout import Layout
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect
from jax._src.named_sharding import UnspecifiedValue


def lower_jaxpr_to_fun(
    ctx: ModuleContext,
    name: str,
    jaxpr: core.ClosedJaxpr,
    effects: Sequence[Any],
    *,
    num_const_args: int = 0,
    main_function: bool = False,
    replicated_args: Sequence[bool] | None = None,
    in_avals: Sequence[Any] | None = None,
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

    Its arguments are the dimension variables, a token for each of `effects`, then the jaxpr's
    arguments; its results are the tokens, then the jaxpr's results.

    Args:
      ctx: the module.
      name: the function's name; a number is added if it is taken.
      jaxpr: the jaxpr with its constants.
      effects: ordered effects, in the order of their tokens.
      num_const_args: how many arguments, before those of the jaxpr, stand for its constants: none, or one
        for each of `jaxpr.consts`.
      main_function: whether it is the module's public entry.
      replicated_args: whether arguments are the same on all replicas.
      in_avals: types of the arguments, with those that stand for constants.
      arg_shardings, result_shardings: shardings, None where unspecified.
      use_sharding_annotations: whether shardings become attributes, and not only operations.
      input_output_aliases: for each argument the result that may use its buffer, or None.
      xla_donated_args: arguments whose buffers the compiler may use for any result.
      arg_names, result_names: as in error messages and profiles.
      arg_memory_kinds, result_memory_kinds, arg_layouts, result_layouts: None where default.
      propagated_out_mem_kinds: memory kinds that results have by the types in the jaxpr.

    Returns:
      The `func.func` operation.
    """
    util.test_event("lower_jaxpr_to_fun", name)
    inner = jaxpr.jaxpr
    dim_vars = ctx.shape_poly_state.dim_vars
    num_dims = len(dim_vars)
    num_tokens = len(effects)
    if num_const_args not in (0, len(jaxpr.consts)):
        raise ValueError(
            f"num_const_args is {num_const_args} for a jaxpr with {len(jaxpr.consts)} constants."
        )
    constvars = inner.constvars if num_const_args else []
    if in_avals is None:
        in_avals = [v.aval for v in constvars] + jaxpr.in_avals
    elif len(in_avals) != num_const_args + len(jaxpr.in_avals):
        raise ValueError(
            f"in_avals has {len(in_avals)} types for {num_const_args + len(jaxpr.in_avals)} arguments."
        )
    in_avals = list(in_avals)
    out_avals = jaxpr.out_avals
    all_in = [_dim_aval] * num_dims + [core.abstract_token] * num_tokens + in_avals
    all_out = [core.abstract_token] * num_tokens + list(out_avals)
    in_types = [aval_to_ir_types(ctx, a) for a in all_in]
    out_types = [aval_to_ir_types(ctx, a) for a in all_out]
    flat_in_types = flatten_ir_types(in_types)
    flat_out_types = flatten_ir_types(out_types)
    unknown = ctx.traceback_caches.unknown
    with unknown:
        func_op = func_dialect.FuncOp(
            name, ir.FunctionType.get(flat_in_types, flat_out_types), ip=ctx.ip
        )
        func_op.attributes["sym_visibility"] = ir.StringAttr.get(
            "public" if main_function else "private"
        )
        ctx.symbol_table.insert(func_op)

    pad_in, pad_out = num_dims + num_tokens, num_tokens
    plain_in = len(flat_in_types) == len(in_types)
    plain_out = len(flat_out_types) == len(out_types)

    def for_args(values: Sequence[Any], default: Any = None) -> Any:
        return _flat_values(values, pad_in, in_types, plain_in, default)

    def for_results(values: Sequence[Any], default: Any = None) -> Any:
        return _flat_values(values, pad_out, out_types, plain_out, default)

    flat_in_avals = all_in if plain_in else for_args(in_avals)
    flat_out_avals = all_out if plain_out else for_results(out_avals)
    ir_arg_shardings = ir_result_shardings = None
    unsharded = needs_no_shardings(ctx)
    if arg_shardings is not None and not unsharded:
        ir_arg_shardings = for_args(
            [to_ir_sharding(a, s) for a, s in zip(in_avals, arg_shardings, strict=True)]
        )
    if result_shardings is not None and not unsharded:
        ir_result_shardings = for_results(
            [to_ir_sharding(a, s) for a, s in zip(out_avals, result_shardings, strict=True)]
        )

    sharding_key = "sdy.sharding" if config.use_shardy_partitioner.value else "mhlo.sharding"

    # Attributes of arguments
    if (
        num_dims or num_tokens or ir_arg_shardings or replicated_args or input_output_aliases
        or xla_donated_args or arg_memory_kinds or arg_layouts
    ):  # fmt: skip
        arg_attrs: list[dict[str, Any]] = [{} for _ in flat_in_types]
        if ctx.lowering_parameters.global_constant_computation or main_function:
            for attrs, dim_var in zip(arg_attrs, dim_vars):
                attrs["jax.global_constant"] = ir.StringAttr.get(dim_var)
        for attrs in arg_attrs[num_dims:pad_in]:
            attrs["jax.token"] = ir.BoolAttr.get(True)
        if replicated_args is not None:
            for attrs, replicated in zip(arg_attrs, for_args(replicated_args)):
                if replicated:
                    attrs["mhlo.is_same_data_across_replicas"] = ir.BoolAttr.get(True)
        if use_sharding_annotations and ir_arg_shardings is not None:
            for attrs, sharding in zip(arg_attrs, ir_arg_shardings):
                if sharding is not None:
                    attrs[sharding_key] = get_sharding_attr(ctx, sharding)
        if arg_memory_kinds is not None:
            for attrs, kind in zip(arg_attrs, for_args(arg_memory_kinds)):
                if kind is not None:
                    attrs["mhlo.memory_kind"] = ir.StringAttr.get(kind)
        if arg_layouts is not None:
            for attrs, layout, aval in zip(arg_attrs, for_args(arg_layouts), flat_in_avals):
                if layout is not None:
                    attrs["mhlo.layout_mode"] = ir.StringAttr.get(to_xla_layout(layout, aval))
        if xla_donated_args is not None:
            for attrs, donated in zip(arg_attrs, for_args(xla_donated_args)):
                if donated:
                    attrs["jax.buffer_donor"] = ir.BoolAttr.get(True)
        if input_output_aliases is not None:
            starts = np.cumsum([0] + [len(t) if type(t) is tuple else 1 for t in out_types])
            for attrs, alias in zip(arg_attrs, for_args(input_output_aliases)):
                if alias is not None:
                    attrs["tf.aliasing_output"] = i32_attr(int(starts[num_tokens + alias]))
        if any(arg_attrs):
            func_op.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get(attrs) for attrs in arg_attrs])

    # Attributes of results
    if num_tokens or result_names or ir_result_shardings or result_memory_kinds or result_layouts:
        result_attrs: list[dict[str, Any]] = [{} for _ in flat_out_types]
        for attrs in result_attrs[:num_tokens]:
            attrs["jax.token"] = ir.BoolAttr.get(True)
        if result_names:
            for attrs, result_name in zip(result_attrs, for_results(result_names)):
                if result_name:
                    attrs["jax.result_info"] = ir.StringAttr.get(result_name)
        if use_sharding_annotations and ir_result_shardings is not None:
            flat = for_results(list(result_shardings or ()))
            for attrs, sharding, s in zip(result_attrs, ir_result_shardings, flat):
                if sharding is not None and not contains_unconstrained(s):
                    attrs[sharding_key] = get_sharding_attr(ctx, sharding)
        if result_memory_kinds is not None:
            for attrs, kind in zip(result_attrs, for_results(result_memory_kinds)):
                if kind is not None:
                    attrs["mhlo.memory_kind"] = ir.StringAttr.get(kind)
        if result_layouts is not None:
            for attrs, layout, aval in zip(
                result_attrs, for_results(result_layouts), flat_out_avals
            ):
                if layout is not None:
                    attrs["mhlo.layout_mode"] = ir.StringAttr.get(to_xla_layout(layout, aval))
        if any(result_attrs):
            func_op.result_attrs = ir.ArrayAttr.get(
                [ir.DictAttr.get(attrs) for attrs in result_attrs]
            )

    if arg_names:
        name_of = ir.Location.name
        arg_locs = [unknown if n is None else name_of(n, unknown) for n in for_args(arg_names)]
        block = func_op.add_entry_block(arg_locs)
    else:
        block = func_op.add_entry_block([unknown] * len(flat_in_types))

    with ir.InsertionPoint(block), unknown:
        values = list(block.arguments)
        dim_var_values, values = values[:num_dims], values[num_dims:]
        tokens_in = TokenSet(dict(zip(effects, values)))
        args: list[IrValues] = values[num_tokens:]
        if not plain_in:
            args = unflatten_ir_values_like_types(args, in_types[pad_in:])
        stack = source_info_util.new_name_stack()
        if not unsharded:
            rule_ctx = LoweringRuleContext(ctx, stack, None, None, (), None)
            args = [
                _constrain_argument(rule_ctx, o, a, use_sharding_annotations, s)
                for o, a, s in zip(
                    args,
                    in_avals,
                    [None] * len(args)
                    if use_sharding_annotations or ir_arg_shardings is None
                    else ir_arg_shardings[pad_in:],
                )
            ]
        if main_function:
            stack = source_info_util.new_name_stack(_main_scope(inner))
        if num_const_args:
            consts, args = args[:num_const_args], args[num_const_args:]
        elif jaxpr.consts:
            consts = ir_consts(jaxpr.consts, [v.aval for v in inner.constvars])
        else:
            consts = []
        results, tokens_out = jaxpr_subcomp(
            ctx,
            inner,
            stack,
            tokens_in,
            consts,
            *args,
            dim_var_values=dim_var_values,
        )
        outs = flatten_ir_values([*(tokens_out.get(eff) for eff in effects), *results])
        if not unsharded:
            outs = _constrain_results(
                ctx, outs, flat_out_avals, ir_result_shardings,
                for_results(list(result_shardings)) if result_shardings is not None else None,
                use_sharding_annotations,
                for_results(result_memory_kinds) if result_memory_kinds is not None else None,
                for_results(propagated_out_mem_kinds)
                if propagated_out_mem_kinds is not None
                else None,
            )  # fmt: skip
        func_dialect.ReturnOp(outs)
    return func_op


_dim_aval = core.ShapedArray((), np.dtype(np.int32))


def _flat_values(values: Sequence[Any], pad: Any, types: Any, plain: Any, default: Any) -> Any:
    """`values` after `pad` defaults; repeated for values that several IR values represent."""
    values = list(values)
    if plain:
        return [default] * pad + values
    out = [default] * pad
    for v, t in zip(values, types[pad:], strict=True):
        out.extend([v] * (len(t) if type(t) is tuple else 1))
    return out


def _main_scope(jaxpr: core.Jaxpr) -> str:
    info = jaxpr.debug_info
    return util.wrap_name(info.traced_for or "jit", info.func_name or "unknown")


def _constrain_argument(
    ctx: Any, value: Any, aval: core.AbstractValue, annotated: Any, sharding: Any
) -> Any:
    if not isinstance(aval, core.ShapedArray):
        return value
    if not annotated and sharding is not None:
        value = wrap_with_sharding_op(ctx, value, aval, sharding)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        value = replicate_trailing_dims(ctx, value, aval)
    return value


def _constrain_results(
    ctx: Any,
    outs: Sequence[Any],
    avals: Sequence[core.AbstractValue],
    ir_shardings: Any,
    shardings: Any,
    annotated: Any,
    memory_kinds: Any,
    propagated_kinds: Any,
) -> Any:
    rule_ctx = LoweringRuleContext(ctx, None, None, None, (), None)
    out = []
    for i, (value, aval) in enumerate(zip(outs, avals)):
        if isinstance(aval, core.ShapedArray):
            ir_sharding = ir_shardings[i] if ir_shardings is not None else None
            sharding = shardings[i] if shardings is not None else None
            if ir_sharding is not None and (not annotated or contains_unconstrained(sharding)):
                if not all_unconstrained(sharding, aval):
                    value = wrap_with_sharding_op(
                        rule_ctx, value, aval, ir_sharding, _unconstrained_dims(sharding)
                    )
            if isinstance(aval.dtype, dtypes.ExtendedDType):
                value = replicate_trailing_dims(rule_ctx, value, aval)
            if memory_kinds is not None and memory_kinds[i] is not None:
                # Elsewhere the operations that move it have said so.
                known = propagated_kinds is not None and propagated_kinds[i] is not None
                known = known and "cpu" not in ctx.platforms
                # For modules of several devices XLA does not move results by their attribute alone.
                if not known and memory_kinds[i] != "device":
                    value = wrap_with_memory_kind(ctx, value, memory_kinds[i], aval)
        out.append(value)
    return out


def _unconstrained_dims(sharding: Any) -> Any:
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
    """The module's function for a jaxpr, made the first time it is asked for.

    Args:
      fn_name: name of a new function.
      call_jaxpr: the jaxpr.
      ctx: the module.
      tokens_in: tokens in force; the function takes those of the jaxpr's ordered effects.
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
        if tokens_in is not None:  # the order of the tokens around the call
            effects = [eff for eff in tokens_in.effects() if eff in effects]
    # What decides the function: the jaxpr, its constants, the order of its tokens.
    key = (fn_name, inner, tuple(map(id, call_jaxpr.consts)), tuple(effects))
    entry = ctx.lowering_cache.get(key)
    if entry is None:
        func_op = lower_jaxpr_to_fun(
            ctx,
            fn_name,
            call_jaxpr,
            effects,
            arg_names=arg_names,
            result_names=result_names,
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
      in_avals, out_avals: types of arguments and results; the jaxpr's if None.
      tokens_in: tokens in force.
      *args: IR values of the arguments.
      dim_var_values: as `LoweringRuleContext` has them.
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
    **_: Any,
) -> Sequence[IrValues]:
    """The lowering rule of primitives that only call a jaxpr, their parameter `call_jaxpr`."""
    module_ctx = ctx.module_context
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
    """Lowers a jit inside a program: a call of a function, its shardings and layouts constraints.

    What only says how a program is compiled and called (donation, unused arguments) means nothing
    inside one.
    """
    module_ctx = ctx.module_context
    args = _constrained(ctx, args, ctx.avals_in, in_shardings, in_layouts)
    if inline:
        outs = lower_jaxpr_inline(ctx, jaxpr, util.wrap_name("jit", name), *args)
    else:
        # The call itself is named after the function.
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
    """Raises NotImplementedError if a nested jit asks for another backend than the outer one."""
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
    """Lowers a jaxpr where it is used, its operations named within `scope`."""
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
