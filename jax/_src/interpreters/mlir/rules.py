"""Registration, lookup and construction of lowering rules, and lowering of a jaxpr's equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, effects as effects_lib, source_info_util, util, xla_bridge as xb
from jax._src.core.manual_axis_type import empty_mat
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.mlir.constants import ir_constant, ir_consts
from jax._src.interpreters.mlir.context import (
    LoweringRuleContext,
    ModuleContext,
    TokenSet,
    empty_token_set,
)
from jax._src.interpreters.mlir.locations import traceback_to_location
from jax._src.interpreters.mlir.types import (
    IrValues,
    aval_to_ir_types,
    flatten_ir_types,
    flatten_ir_values,
    unflatten_ir_values_like_types,
)
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect, hlo

LoweringRule = Callable[..., Sequence[IrValues]]


def register_lowering(
    prim: core.Primitive,
    rule: LoweringRule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> None:
    """Sets a lowering rule of `prim`.

    Args:
      prim: the primitive.
      rule: called with a `LoweringRuleContext`, the operands as IR values and the parameters by
        name; returns the results: a sequence of IR values, or one value.
      platform: where the rule applies: a platform, or an alias of several, such as `"gpu"`; None
        for all platforms without their own rule.
      inline: whether to emit the operations at their place of use. Otherwise they are emitted as a
        function that equal equations share.
      cacheable: whether equations with equal parameters and types have the same lowering.

    Raises:
      NotImplementedError: if `platform` is unknown.
    """
    if platform is None:
        names: Sequence[str | None] = (None,)
    else:
        if not xb.is_known_platform(platform):
            known = ", ".join(sorted(xb.known_platforms()))
            raise NotImplementedError(
                f"Registering an MLIR lowering rule for primitive {prim} for an unknown platform "
                f"{platform}. Known platforms are: {known}."
            )
        names = xb.expand_platform_alias(platform)
    for name in names:
        prim.lowerings[name] = rule
        if inline and cacheable:
            prim.lowering_flags.pop(name, None)
        else:
            prim.lowering_flags[name] = (inline, cacheable)


def find_rules(
    ctx: ModuleContext, prim: core.Primitive, platforms: Sequence[str]
) -> dict[str | None, LoweringRule]:
    """Returns the rules of `prim` for `platforms`; the one under None applies to all others.

    Raises:
      NotImplementedError: if a platform has no rule.
    """
    overrides = ctx.lowering_parameters.override_lowering_rules
    if overrides:
        for p, rule in overrides:
            if p is prim:
                return {None: rule}
    lowerings = prim.lowerings
    rules = {}
    missing = []
    for platform in platforms:
        name = platform if platform in lowerings else None
        rule = lowerings.get(name)
        if rule is None:
            missing.append(platform)
            continue
        inline, _ = prim.lowering_flags.get(name, (True, True))
        rules[name] = rule if inline else outlined(rule)
    if missing:
        where = f"platform {missing[0]}" if len(platforms) == 1 else f"platforms {missing}"
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{prim.name}' not found for {where}"
        )
    return rules


def rule_for(ctx: ModuleContext, prim: core.Primitive) -> LoweringRule:
    """Returns the rule for equations of `prim` in this module, and caches it in `ctx.rules`."""
    rules = find_rules(ctx, prim, ctx.platforms)
    if len(rules) == 1:
        rule = next(iter(rules.values()))
    else:
        default = rules.get(None)
        named = {name: rule for name, rule in rules.items() if name is not None}

        def rule(rule_ctx: Any, *args: Any, **params: Any) -> Any:
            effects = frozenset(rule_ctx.tokens_in.effects())
            return lower_per_platform(rule_ctx, str(prim), named, default, effects, *args, **params)

    ctx.rules[prim] = rule
    return rule


def jaxpr_subcomp(
    ctx: ModuleContext,
    jaxpr: core.Jaxpr,
    name_stack: Any,
    tokens: TokenSet,
    consts_for_constvars: Sequence[IrValues],
    *args: IrValues,
    dim_var_values: Sequence[Any],
    const_lowering: dict[Any, Any] | None,
    outer_traceback: Any,
) -> tuple[list[IrValues], TokenSet]:
    """Lowers the equations of a jaxpr at the insertion point.

    Args:
      ctx: the module.
      jaxpr: the jaxpr.
      name_stack: scopes and transformations around it.
      tokens: the current tokens of ordered effects.
      consts_for_constvars: IR values of its constants.
      *args: IR values of its arguments.
      dim_var_values: IR values of dimension variables, in order of `ctx.shape_poly_state.dim_vars`.
      const_lowering: IR values of constants that are passed as arguments, by (id, aval).
      outer_traceback: the traceback of the operation that contains the jaxpr.

    Returns:
      IR values of the results, and the tokens after the equations.
    """
    where = _Where(ctx, name_stack, outer_traceback)
    return _lower_equations(
        ctx, jaxpr, where, tokens, consts_for_constvars, args, dim_var_values, const_lowering
    )


def _lower_equations(
    ctx: ModuleContext,
    jaxpr: core.Jaxpr,
    where: _Where,
    tokens: TokenSet,
    consts_for_constvars: Sequence[IrValues],
    args: Sequence[IrValues],
    dim_var_values: Sequence[Any],
    const_lowering: dict[Any, Any] | None,
) -> tuple[list[IrValues], TokenSet]:
    if len(args) != len(jaxpr.invars) or len(consts_for_constvars) != len(jaxpr.constvars):
        raise ValueError(
            f"lowering a jaxpr of {len(jaxpr.constvars)} constants and {len(jaxpr.invars)} "
            f"arguments got {len(consts_for_constvars)} and {len(args)} values"
        )
    env: dict[Any, IrValues] = dict(zip(jaxpr.constvars, consts_for_constvars))
    env.update(zip(jaxpr.invars, args))
    Literal = core.Literal
    rules = ctx.rules
    eqn = None
    try:
        for eqn in jaxpr.eqns:
            prim = eqn.primitive
            location = where.enter(eqn)
            invars, outvars = eqn.invars, eqn.outvars
            rule_ctx = LoweringRuleContext(
                ctx,
                where.stack,
                where.traceback,
                prim,
                [v.aval for v in invars],
                [v.aval for v in outvars],
                empty_token_set,
                None,
                const_lowering,
                None,
                dim_var_values,
                eqn.ctx,
            )
            ordered: Sequence[Any] = ()
            if eqn.effects:
                ordered = effects_lib.ordered_effects.filter_in(eqn.effects)
                if ordered:
                    rule_ctx.tokens_in = tokens.subset(ordered)
            rule = rules.get(prim) or rule_for(ctx, prim)
            with location:
                outs = rule(
                    rule_ctx,
                    *[
                        ir_constant(v.val, const_lowering=const_lowering, aval=v.aval)
                        if type(v) is Literal
                        else env[v]
                        for v in invars
                    ],
                    **eqn.params,
                )
                if eqn.ctx.compute_type is not None or eqn.ctx.xla_metadata is not None:
                    operands = [env[v] for v in invars if type(v) is not Literal]
                    operands += rule_ctx.tokens_in.tokens()
                    annotate_with_eqn_context(rule_ctx, operands, outs)
            if ordered:
                if rule_ctx.tokens_out is None:
                    raise ValueError(
                        f"Lowering rule for '{prim.name}' needs to set `tokens_out` because it has "
                        f"effects: {eqn.effects}."
                    )
                tokens = tokens.update_tokens(rule_ctx.tokens_out)
            env.update(zip(outvars, _checked_results(eqn, outs)))
        out_values = [
            ir_constant(v.val, const_lowering=const_lowering, aval=v.aval)
            if type(v) is Literal
            else env[v]
            for v in jaxpr.outvars
        ]
    except Exception:
        # Show the user's line that created the equation as the cause of the error.
        tb = None if eqn is None else eqn.source_info.traceback
        with source_info_util.user_context(tb):
            raise
    finally:
        where.leave()
    return out_values, tokens


def _checked_results(eqn: core.JaxprEqn, outs: Any) -> Sequence[IrValues]:
    """Checks the number of results of a lowering rule; returns them as a sequence."""
    if isinstance(outs, ir.Value):
        outs = (outs,)
    try:
        n = len(outs)
    except TypeError:
        n = -1
    if n != len(eqn.outvars):
        raise ValueError(
            f"Lowering rule for '{eqn.primitive.name}' must return {len(eqn.outvars)} IR value(s), "
            f"got {outs if n < 0 else n}."
        )
    values: Sequence[IrValues] = outs
    return values


class _Where:
    """Computes locations of equations and enters their contexts, reusing those of the previous one.

    Args:
      ctx: the module.
      name_stack: scopes and transformations around the jaxpr.
      outer_traceback: the traceback of the operation that contains the jaxpr.
      traceback: the traceback for all operations, instead of their own.

    Attributes:
      stack: the name stack of the current equation.
      traceback: its traceback.
    """

    __slots__ = (
        "stack", "traceback", "ctx", "name_stack", "outer_traceback", "given", "names", "prefix", "stacks",
        "location", "eqn_ctx", "manager", "located",
    )  # fmt: skip

    def __init__(
        self, ctx: ModuleContext, name_stack: Any, outer_traceback: Any, traceback: Any = None
    ) -> None:
        if name_stack.stack and type(name_stack.stack[-1]) is source_info_util.Transform:
            name_stack = name_stack.within()
        self.ctx = ctx
        self.name_stack = name_stack
        self.outer_traceback = outer_traceback
        self.given = traceback
        self.stacks: dict[tuple[Any, ...], tuple[Any, str]] = {}
        self.stack = self.traceback = self.location = None
        self.names: source_info_util.NameStack | None = None
        self.eqn_ctx: Any = None
        self.manager: Any = None
        self.prefix = ""
        self.located = False

    def enter(self, eqn: core.JaxprEqn) -> Any:
        """Enters the context of an equation, and returns the location of its operations."""
        info = eqn.source_info
        names = info.name_stack
        if names is not self.names:
            self.names = names
            known = self.stacks.get(names.stack)
            if known is None:
                stack = self.name_stack + names if names.stack else self.name_stack
                text = str(stack)
                known = self.stacks[names.stack] = stack, f"{text}/" if text else ""
            self.stack, self.prefix = known
        tb = info.traceback if self.given is None else self.given
        if tb is not self.traceback or not self.located:
            self.traceback = tb
            self.located = True
            if self.outer_traceback is None and tb is not None:
                self.location = self.ctx.traceback_caches.traceback_to_location.get(tb)
            else:
                self.location = traceback_to_location(self.ctx, tb, self.outer_traceback)
        if eqn.ctx is not self.eqn_ctx:
            self.leave()
            self.eqn_ctx = eqn.ctx
            if eqn.ctx is not core.current_jaxpr_eqn_context():
                manager = eqn.ctx.manager
                manager.__enter__()
                self.manager = manager
        return ir.Location.name(self.prefix + eqn.primitive.name, self.location)

    def leave(self) -> None:
        """Leaves the context of the last equation."""
        if self.manager is not None:
            self.manager.__exit__(None, None, None)
            self.manager = None


# Settings of an equation that are attached to its operations


def map_compute_type(c_type: str) -> str:
    """Returns XLA's name for a compute type of `jax.experimental.compute_on`."""
    name = _COMPUTE_TYPES.get(c_type)
    if name is None:
        raise ValueError(
            f"Invalid compute type {c_type}. Current supported values are "
            "`device_host`, `device`, `tpu_sparsecore`, and `gpu_stream:#`."
        )
    return name


_COMPUTE_TYPES = {"device_host": "host", "device": "dense", "tpu_sparsecore": "sparseoffload"}


def compute_type_attributes(compute_type: str) -> dict[str, str]:
    """Returns the frontend attributes of operations with a compute type."""
    if compute_type.startswith("gpu_stream:"):
        stream = compute_type.split(":")[1]
        return {"_xla_stream_annotation": stream, "inlineable": "false"}
    return {"_xla_compute_type": map_compute_type(compute_type)}


def _owner(value: Any) -> Any:
    owner = value.owner if isinstance(value, ir.Value) else value.operation
    return None if isinstance(owner, ir.Block) else owner.operation


def string_attributes(attrs: dict[str, str]) -> Any:
    return ir.DictAttr.get({k: ir.StringAttr.get(v) for k, v in attrs.items()})


def update_frontend_attributes(op: Any, attrs: dict[str, str]) -> None:
    """Adds frontend attributes, which pass extra information to XLA, to an operation."""
    new = {k: ir.StringAttr.get(v) for k, v in attrs.items()}
    if "mhlo.frontend_attributes" in op.attributes:
        old = op.attributes["mhlo.frontend_attributes"]
        new = {**{a.name: a.attr for a in old}, **new}
    op.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(new)


def metadata_attributes(metadata: dict[str, Any]) -> dict[str, str]:
    """Returns the frontend attributes for metadata of `set_xla_metadata`."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in metadata.items()}


def wrap_compute_type_in_place(ctx: LoweringRuleContext, op: Any) -> None:
    """Marks `op` with the compute type of its equation's context (`compute_on`)."""
    eqn_ctx = ctx.jaxpr_eqn_ctx
    if eqn_ctx is not None and eqn_ctx.compute_type is not None and _owner(op) is not None:
        update_frontend_attributes(_owner(op), compute_type_attributes(eqn_ctx.compute_type))


def wrap_xla_metadata_in_place(ctx: LoweringRuleContext, op: Any) -> None:
    """Attaches the metadata of its equation's context (`set_xla_metadata`) to `op`."""
    eqn_ctx = ctx.jaxpr_eqn_ctx
    if eqn_ctx is not None and eqn_ctx.xla_metadata is not None and _owner(op) is not None:
        update_frontend_attributes(_owner(op), metadata_attributes(eqn_ctx.xla_metadata.val))


def annotate_with_eqn_context(ctx: LoweringRuleContext, args: Sequence[Any], outs: Any) -> None:
    """Attaches the compute type and metadata of an equation to its operations.

    Metadata belongs to the operations that define the results. The compute type also belongs to
    those that they use, such as broadcasts of operands.
    """
    values = (outs,) if isinstance(outs, ir.Value) else flatten_ir_values(outs)
    operands = set(flatten_ir_values(args))
    done: set[Any] = set()
    if ctx.jaxpr_eqn_ctx.xla_metadata is not None:
        for value in values:
            op = _owner(value)
            if op is not None and value not in operands and op not in done:
                done.add(op)
                wrap_xla_metadata_in_place(ctx, op)
    if ctx.jaxpr_eqn_ctx.compute_type is None:
        return
    block = ir.InsertionPoint.current.block
    pending, done = list(values), set()
    while pending:
        value = pending.pop()
        op = _owner(value)
        if op is None or value in operands or op in done or op.block != block:
            continue
        done.add(op)
        if op.name != "stablehlo.constant":
            pending.extend(op.operands)
            if not op.name.startswith("sdy."):
                wrap_compute_type_in_place(ctx, op)


# Rules made of functions and of other rules


_MAX_CACHED_TRACES = 512


class _LoweredFunction:
    """A rule made by `lower_fun`; traces the function once for each set of operand types."""

    __slots__ = ("fun", "multiple_results", "traces", "__weakref__")

    def __init__(self, fun: Callable[..., Any], multiple_results: bool):
        self.fun = fun
        self.multiple_results = multiple_results
        self.traces: dict[Any, Any] = {}
        util.register_cache(self, "lower_fun")

    def cache_clear(self) -> None:
        self.traces.clear()

    def __call__(self, ctx: LoweringRuleContext, *args: Any, **params: Any) -> Sequence[IrValues]:
        closed = self.trace(ctx.avals_in, params)
        module_ctx = ctx.module_context
        outs, tokens_out = _lower_equations(
            module_ctx,
            closed.jaxpr,
            _Where(module_ctx, ctx.name_stack, None, ctx.traceback),
            ctx.tokens_in,
            ir_consts(closed.consts, [v.aval for v in closed.jaxpr.constvars]),
            args,
            ctx.dim_var_values,
            ctx.const_lowering,
        )
        if len(ctx.tokens_in):
            ctx.set_tokens_out(tokens_out)
        return outs

    def trace(self, avals: Sequence[Any], params: dict[str, Any]) -> core.ClosedJaxpr:
        fun, multiple_results = self.fun, self.multiple_results
        avals = [_without_manual_axes(a) for a in avals]
        key: Any
        # If a parameter is a jaxpr, cache the trace there, so that both are freed together.
        owner, params_key = core.owner_and_key(params)
        traces: dict[Any, Any] = self.traces if owner is None else owner._cache
        try:
            key = (self, tuple(avals), params_key, config.trace_context())
            closed = traces.get(key)
        except TypeError:  # a parameter is not hashable
            key = closed = None
        if closed is None:

            def flat_fun(*xs: object) -> Any:
                out = fun(*xs, **params)
                return out if multiple_results else (out,)

            info = core.DebugInfo("lower_fun", core.fun_source_info(fun))
            # Jaxprs in parameters say over which manual axes values vary. Types no longer do here,
            # so that a check, which these jaxprs have passed, would find differences.
            checks = config.enable_checks(config.enable_checks.value and owner is None)
            with (
                core.set_current_trace(core.eval_trace), config.check_vma(False), checks,
                config.debug_bounds(False),  # lowerings index within bounds
            ):  # fmt: skip
                jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
            closed = core.ClosedJaxpr(jaxpr, consts)
            if key is not None:
                if owner is None and len(traces) >= _MAX_CACHED_TRACES:
                    traces.clear()
                traces[key] = closed
        return closed


def _without_manual_axes(aval: Any) -> Any:
    """The type without what varies over manual mesh axes, which no operation depends on any more."""
    if getattr(aval, "manual_axis_type", None):
        return aval.update(manual_axis_type=empty_mat)
    return aval


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """Makes a lowering rule of a function that JAX can trace.

    Args:
      fun: function of arrays, and of the parameters by name; it may use any operation that has a
        lowering.
      multiple_results: whether it returns a sequence of arrays instead of one array.
    """
    return _LoweredFunction(fun, multiple_results)


def delegate_lowering(
    ctx: LoweringRuleContext,
    lowering_fun: Callable[..., Any],
    *args: object,
    **ctx_override_kwargs: object,
) -> Any:
    """Applies another rule inside a rule, with some fields of the context replaced.

    Example:
      delegate_lowering(ctx, hlo_rule, x, avals_in=[aval], avals_out=[aval])
    """
    if not ctx_override_kwargs:
        return lowering_fun(ctx, *args)
    inner = ctx.replace(**ctx_override_kwargs)
    outs = lowering_fun(inner, *args)
    if inner.tokens_out is not None and ctx.tokens_out is None:
        ctx.set_tokens_out(inner.tokens_out)
    return outs


def lower_per_platform(
    ctx: LoweringRuleContext,
    description: str,
    platform_rules: dict[str, LoweringRule],
    default_rule: LoweringRule | None,
    effects: Any,
    *rule_args: IrValues,
    **rule_kwargs: Any,
) -> Sequence[IrValues]:
    """Lowers with each platform's rule; emits a `case` on the platform index if the rules differ.

    Args:
      ctx: the context; the platforms are `ctx.platforms` or else those of the module.
      description: a description of the operation for errors.
      platform_rules: rules by platform.
      default_rule: the rule for other platforms, if any.
      effects: effects of the operation; tokens of ordered effects are passed through the branches.
      *rule_args, **rule_kwargs: arguments of the rules.

    Raises:
      NotImplementedError: if a platform has no rule.
    """
    platforms = tuple(ctx.platforms or ctx.module_context.platforms)
    rules: list[LoweringRule] = []
    index_of: dict[int, int] = {}
    branch_platforms: list[list[str]] = []
    branch_index = []
    missing = []
    for platform in platforms:
        rule = platform_rules.get(platform, default_rule)
        if rule is None:
            missing.append(platform)
            continue
        i = index_of.setdefault(id(rule), len(rules))
        if i == len(rules):
            rules.append(rule)
            branch_platforms.append([])
        branch_platforms[i].append(platform)
        branch_index.append(i)
    if missing:
        where = f"platform {missing[0]}" if len(platforms) == 1 else f"platforms {missing}"
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{description}' not found for {where}"
        )
    if len(rules) == 1:
        return rules[0](ctx, *rule_args, **rule_kwargs)

    state = ctx.module_context.shape_poly_state
    if not state.has_platform_index_argument:
        raise ValueError(
            f"lowering {description} for the platforms {platforms} in a module lowered for "
            f"{ctx.module_context.platforms}"
        )
    index = ctx.dim_var_values[0]
    if branch_index != list(range(len(platforms))):
        # Some platforms share a rule, so map the platform index to the branch index.
        i32 = [ir.RankedTensorType.get((), ir.IntegerType.get_signless(32))]
        mapping = hlo.CaseOp(i32, index=index, num_branches=len(platforms))
        for region, i in zip(mapping.regions, branch_index):
            with ir.InsertionPoint(region.blocks.append()):
                hlo.return_([ir_constant(np.int32(i))])
        index = mapping.result

    ordered = effects_lib.ordered_effects.filter_in(effects)
    tokens_in = ctx.tokens_in.subset(ordered)
    out_types = [aval_to_ir_types(ctx.module_context, a) for a in ctx.avals_out]
    flat_types = [t.type for t in tokens_in.tokens()] + flatten_ir_types(out_types)
    case = hlo.CaseOp(flat_types, index=index, num_branches=len(rules))
    for region, rule, names in zip(case.regions, rules, branch_platforms):
        inner = ctx.replace(platforms=names, tokens_in=tokens_in)
        with ir.InsertionPoint(region.blocks.append()):
            outs = rule(inner, *rule_args, **rule_kwargs)
            if isinstance(outs, ir.Value):
                outs = [outs]
            tokens: list[Any] = []
            if ordered:
                tokens_out = inner.tokens_out
                if tokens_out is None:
                    raise ValueError(
                        f"Lowering rule for '{description}' on {', '.join(names)} needs to set "
                        f"`tokens_out` because it has effects: {effects}."
                    )
                tokens = [tokens_out.get(eff) for eff in ordered]
            hlo.return_([*tokens, *flatten_ir_values(outs)])
    results = list(case.results)
    if ordered:
        ctx.set_tokens_out(TokenSet(dict(zip(ordered, results))))
    return unflatten_ir_values_like_types(results[len(ordered) :], out_types)


def outlined(rule: LoweringRule) -> LoweringRule:
    """Makes a rule that emits `rule` as a function, which equal equations of a module share."""

    def outlined_rule(ctx: LoweringRuleContext, *args: IrValues, **params: Any) -> Any:
        module_ctx = ctx.module_context
        ordered = list(ctx.tokens_in.effects())
        key: Any
        try:
            key = (
                rule,
                tuple(ctx.avals_in),
                tuple(ctx.avals_out),
                tuple(params.items()),
                tuple(ordered),
                ctx.jaxpr_eqn_ctx,
            )
            entry = module_ctx.cached_primitive_lowerings.get(key)
        except TypeError:
            key = entry = None
        if entry is None:
            entry = _emit_rule_as_function(rule, ctx, ordered, args, params)
            if key is not None:
                module_ctx.cached_primitive_lowerings[key] = entry
        func_name, out_types = entry
        flat_types = [t.type for t in ctx.tokens_in.tokens()] + flatten_ir_types(out_types)
        call = func_dialect.CallOp(
            flat_types,
            ir.FlatSymbolRefAttr.get(func_name),
            flatten_ir_values([*ctx.dim_var_values, *ctx.tokens_in.tokens(), *args]),
        )
        results = list(call.results)
        if ordered:
            ctx.set_tokens_out(TokenSet(dict(zip(ordered, results))))
        return unflatten_ir_values_like_types(results[len(ordered) :], out_types)

    return outlined_rule


def _emit_rule_as_function(
    rule: Callable[..., Any],
    ctx: Any,
    ordered: Sequence[Any],
    args: Sequence[Any],
    params: dict[str, Any],
) -> Any:
    module_ctx = ctx.module_context
    out_types = [aval_to_ir_types(module_ctx, a) for a in ctx.avals_out]
    operand_types = [aval_to_ir_types(module_ctx, a) for a in ctx.avals_in]
    tokens_in = [tok.type for tok in ctx.tokens_in.tokens()]
    dim_types = [v.type for v in ctx.dim_var_values]
    func_type = ir.FunctionType.get(
        dim_types + tokens_in + flatten_ir_types(operand_types),
        tokens_in + flatten_ir_types(out_types),
    )
    with ir.Location.unknown(module_ctx.context):
        func_op = func_dialect.FuncOp(ctx.primitive.name, func_type, ip=module_ctx.ip)
    func_op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    module_ctx.symbol_table.insert(func_op)
    block = func_op.add_entry_block()
    # The function has no name stack of its own, since equations in different scopes share it. XLA
    # prepends the name of each call to the names inside.
    with ir.InsertionPoint(block), ir.Location.unknown(module_ctx.context):
        values = list(block.arguments)
        dims, values = values[: len(dim_types)], values[len(dim_types) :]
        tokens = TokenSet(dict(zip(ordered, values)))
        operands = unflatten_ir_values_like_types(values[len(ordered) :], operand_types)
        inner = ctx.replace(
            name_stack=source_info_util.new_name_stack(),
            tokens_in=tokens,
            dim_var_values=dims,
            const_lowering=None,
        )
        outs = rule(inner, *operands, **params)
        if isinstance(outs, ir.Value):
            outs = [outs]
        if ordered and inner.tokens_out is None:
            raise ValueError(
                f"Lowering rule for '{ctx.primitive.name}' needs to set `tokens_out` because it has "
                f"ordered effects: {ordered}."
            )
        tokens_out = [inner.tokens_out.get(eff) for eff in ordered]
        func_dialect.ReturnOp([*tokens_out, *flatten_ir_values(outs)])
    return func_op.name.value, out_types
