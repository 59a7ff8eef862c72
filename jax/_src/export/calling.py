"""`call_exported`: the primitive that calls an exported program, and its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import config, core, custom_derivatives, dispatch, traceback_util, util
from jax._src.core import Primitive
from jax._src.export.bytecode import check_module
from jax._src.export.checks import (
    argument_path,
    argument_paths,
    check_tree,
    custom_calls,
    ignores_platform,
)
from jax._src.export.shape_poly.solving import evaluate_shape, solve_for_sizes
from jax._src.interpreters import batching, mlir
from jax._src.lax.linalg.kernels import (
    GPU_PREFIXES,
    prepare_lapack_target,
    register_gpu_kernels,
)
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect, hlo
from jax._src.tree_util import tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from jax._src.export._export import Exported

traceback_util.register_exclusion(__file__)


def call(exported: Exported, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an exported program on arguments of the tree that it was exported for."""
    flat, tree = tree_flatten((args, kwargs))
    check_tree(exported.fun_name, exported.in_tree, tree)
    outs = exported._flat_function(*flat)
    return tree_unflatten(exported.out_tree, outs)


def flat_function(exported: Exported) -> Any:
    """The function of flat arguments and results that calls the program, with its derivative."""

    @custom_derivatives.custom_vjp
    def f_flat(*args):
        return tuple(call_exported_p.bind(*args, exported=exported))

    def f_flat_vjp_fwd(*args):
        return f_flat(*args), args

    def f_flat_vjp_bwd(args, cts):
        return exported.vjp().call(*args, *cts)

    f_flat.defvjp(f_flat_vjp_fwd, f_flat_vjp_bwd)
    return f_flat


call_exported_p = Primitive("call_exported", multiple_results=True)
call_exported_p.operands_vary_alike = True


# Eager calls: each program has a compiled one of its own, so that both are freed together. The last
# ones stay, so that a program that is read from bytes for each call is compiled once.

_KEPT_PROGRAMS = 16


@util.cache(max_size=_KEPT_PROGRAMS, trace_context_in_key=False)
def eager_program(exported: Exported) -> Any:
    """A native callable of flat arguments that compiles the program. Equal programs share it."""

    def run(*args):
        if core.trace_ctx.trace is core.eval_trace:  # jax_disable_jit does not apply to primitives
            with config.disable_jit(False):
                return program(*args)
        return call_exported_p.bind(*args, exported=exported)

    program = dispatch.compile_alone(run, call_exported_p.name)
    return program


call_exported_p.def_impl(lambda *args, exported: exported._eager_program(*args))


# Abstract evaluation


def _types(*in_avals: Any, exported: Exported) -> tuple[Any, set[core.Effect]]:
    for i, (expected, actual) in enumerate(zip(exported.in_avals, in_avals, strict=True)):
        _check_type(exported, i, expected, actual)
    out_avals: Sequence[Any] = _result_types(exported, in_avals)
    varying = in_avals[0].manual_axis_type if in_avals else None
    if varying is not None and varying.varying:
        out_avals = [a.update(manual_axis_type=varying) for a in out_avals]
    return out_avals, {*exported.ordered_effects, *exported.unordered_effects}


call_exported_p.def_effectful_abstract_eval(_types)


def _result_types(exported: Exported, in_avals: Sequence[Any]) -> Sequence[Any]:
    """The types of the results for arguments of given types."""
    if all(core.is_constant_shape(a.shape) for a in exported.in_avals):
        return exported.out_avals
    paths = argument_paths(exported.in_tree)
    sizes = solve_for_sizes(exported.in_avals, paths, [a.shape for a in in_avals])
    return [
        a if core.is_constant_shape(a.shape) else _with_sizes(exported, a, sizes)
        for a in exported.out_avals
    ]


def _with_sizes(exported: Exported, aval: Any, sizes: dict[str, Any]) -> Any:
    """The type of a result for given values of the dimension variables."""
    shape = evaluate_shape(aval.shape, sizes)
    if any(type(d) is int and d < 0 for d in shape):
        values = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ValueError(
            f"Input shapes do not match what the function '{exported.fun_name}' was exported for: a "
            f"result of the shape ({', '.join(map(str, aval.shape))}) would have the shape {shape}, for "
            f"{values} by the shapes of the arguments."
        )
    return aval.update(shape=shape)


def _check_type(exported: Exported, index: int, expected: Any, actual: Any) -> None:
    same = [core.is_symbolic_dim(d) for d in expected.shape]  # those are solved for
    if expected.ndim == actual.ndim:
        same = [s or d == e for s, d, e in zip(same, expected.shape, actual.shape)]
        if all(same) and expected.dtype == actual.dtype:
            return
    path = argument_path(exported.in_tree, index)
    if expected.ndim != actual.ndim:
        what = "Rank"
        was, now = expected.shape, actual.shape
    elif expected.dtype != actual.dtype:
        what = "Dtype"
        was, now = expected.dtype, actual.dtype
    else:
        axis = same.index(False)
        what = "Shape"
        path += f".shape[{axis}] (expected same constant)"
        was, now = expected.shape, actual.shape
    raise ValueError(
        f"{what} mismatch for {path}: expected {was} and called with {now}, in a call of the exported "
        f"function '{exported.fun_name}'"
    )


def _no_batching(axis_data: Any, args: Any, dims: Any, *, exported: Exported) -> Any:
    raise NotImplementedError(
        f"Batching rule for 'call_exported' not implemented: the module of '{exported.fun_name}' is for "
        "arrays of given shapes. Export the function under jax.vmap, or with a symbolic batch size, or "
        "use jax.lax.map instead of jax.vmap."
    )


batching.fancy_primitive_batchers[call_exported_p] = _no_batching


# Lowering


def _lower(ctx: mlir.LoweringRuleContext, *args: Any, exported: Exported) -> Sequence[Any]:
    module_ctx = ctx.module_context
    platforms = tuple(ctx.platforms or module_ctx.platforms)
    _check_platforms(exported, platforms)
    same_devices = _check_devices(exported, module_ctx)
    if exported.uses_global_constants:  # shapes and constants follow from those of the call
        module_ctx.shape_poly_state.uses_dim_vars = True
    name, out_types = _imported(module_ctx, exported)

    avals: Sequence[Any] = exported.in_avals
    if same_devices:
        args = tuple(
            _constrained(ctx, args, avals, exported._in_named_shardings, exported.in_shardings_hlo)
        )
    operands = []
    if len(exported.platforms) > 1:
        operands.append(_platform_index(ctx, exported))
    tokens = [ctx.tokens_in.get(effect) for effect in exported.ordered_effects]
    operands += tokens
    operands += mlir.flatten_ir_values(
        [_as_type(module_ctx, args[i], avals[i]) for i in exported.module_kept_var_idx]
    )
    call = func_dialect.CallOp(out_types, ir.FlatSymbolRefAttr.get(name), operands)
    results = list(call.results)
    if tokens:
        after = dict(zip(exported.ordered_effects, results))
        ctx.set_tokens_out(mlir.TokenSet(after))
        results = results[len(tokens) :]
    types = [mlir.aval_to_ir_types(module_ctx, a) for a in exported.out_avals]
    outs = mlir.unflatten_ir_values_like_types(results, types)
    outs = [_as_type(module_ctx, x, a) for x, a in zip(outs, ctx.avals_out, strict=True)]
    if same_devices:
        outs = _constrained(
            ctx, outs, exported.out_avals, exported._out_named_shardings, exported.out_shardings_hlo
        )
    return outs


mlir.register_lowering(call_exported_p, _lower)


def _as_type(module_ctx: mlir.ModuleContext, value: Any, aval: Any) -> Any:
    """The value with the sizes that the type knows, or without those that it does not know."""
    types = mlir.aval_to_ir_types(module_ctx, aval)
    if not isinstance(value, ir.Value) or value.type == types:
        return value
    return hlo.convert(types, value)


def _check_platforms(exported: Exported, platforms: Sequence[str]) -> None:
    if ignores_platform(exported.disabled_safety_checks):
        return
    if not set(platforms) <= set(exported.platforms):
        raise ValueError(
            f"Function '{exported.fun_name}' was exported for platforms '{exported.platforms}' but it "
            f"is used on '{tuple(platforms)}'. Export it for them, by `platforms`, or with "
            "disabled_checks=[jax.export.DisabledSafetyCheck.platform()]."
        )


def _check_devices(exported: Exported, module_ctx: mlir.ModuleContext) -> bool:
    """Checks the number of devices; returns whether it is that of the export."""
    here = getattr(module_ctx.axis_context, "num_devices", None) or 1
    if here == exported.nr_devices:
        return True
    if exported.nr_devices > 1:
        raise ValueError(
            f"Function '{exported.fun_name}' was exported for {exported.nr_devices} devices and is "
            f"called in a context with {here} devices, which is not allowed. Place the arguments on "
            f"{exported.nr_devices} devices, with the shardings of `in_shardings_jax`."
        )
    return False


def _constrained(
    ctx: mlir.LoweringRuleContext, values: Any, avals: Any, named: Any, hlo_shardings: Any
) -> list[Any]:
    """Constrains values to the shardings that the program was exported with."""
    out = []
    for value, aval, sharding, hlo_sharding in zip(
        values, avals, named, hlo_shardings, strict=True
    ):
        if sharding is not None and not sharding.mesh.empty:
            ir_sharding = mlir.to_ir_sharding(aval, sharding)
            value = mlir.wrap_with_sharding_op(ctx, value, aval, ir_sharding)
        elif hlo_sharding is not None:
            value = mlir.wrap_with_sharding_op(ctx, value, aval, hlo_sharding.to_proto())
        out.append(value)
    return out


def _platform_index(ctx: mlir.LoweringRuleContext, exported: Exported) -> Any:
    """The index of the current platform among those of the exported program."""
    module_ctx = ctx.module_context
    theirs = exported.platforms
    indices = [theirs.index(p) if p in theirs else 0 for p in module_ctx.platforms]
    if len(indices) == 1:
        return mlir.ir_constant(np.int32(indices[0]))
    mine = ctx.dim_var_values[0]
    if indices == list(range(len(indices))):
        return mine
    i32 = [ir.RankedTensorType.get((), ir.IntegerType.get_signless(32))]
    case = hlo.CaseOp(i32, index=mine, num_branches=len(indices))
    for region, i in zip(case.regions, indices):
        with ir.InsertionPoint(region.blocks.append()):
            hlo.return_([mlir.ir_constant(np.int32(i))])
    return case.result


def _imported(module_ctx: mlir.ModuleContext, exported: Exported) -> tuple[str, Any]:
    """Merges the exported module into the current one, once.

    Returns:
      The name that its function `main` has there, and the types of its results.
    """
    key = call_exported_p, exported
    entry = module_ctx.cached_primitive_lowerings.get(key)
    if entry is None:
        module = parse_module(exported, module_ctx.context)
        out_types = _check_main(module_ctx, exported, module)
        _register_native_functions(module_ctx, exported, module)
        name = mlir.merge_mlir_modules(
            module_ctx.module,
            f"call_exported_{exported.fun_name}",
            module,
            dst_symtab=module_ctx.symbol_table,
        )
        entry = module_ctx.cached_primitive_lowerings[key] = name, out_types
    return entry


def _register_native_functions(
    module_ctx: mlir.ModuleContext, exported: Exported, module: Any
) -> None:
    """Registers native functions as the lowering rules would have done that call them."""
    targets = {target for target, _ in custom_calls(module, exported.mlir_module_serialized)}
    if targets and not GPU_PREFIXES.keys().isdisjoint(module_ctx.platforms):
        register_gpu_kernels()
    if "cpu" in module_ctx.platforms:
        for target in targets:
            if target.startswith("lapack_"):
                prepare_lapack_target(target)


def _check_main(module_ctx: mlir.ModuleContext, exported: Exported, module: Any) -> Any:
    """Checks the type of a module's entry point, since the bytes may come from anywhere.

    Returns:
      The types of its results.

    Raises:
      ValueError: there is none, or it has other arguments or results than the program.
    """
    mains = [
        op
        for op in module.body.operations
        if op.operation.name == "func.func" and op.operation.attributes["sym_name"].value == "main"
    ]
    if not mains:
        raise ValueError(f"The module of the exported function '{exported.fun_name}' has no main")
    tokens = [mlir.token_type()] * len(exported.ordered_effects)
    leading = list(tokens)
    if len(exported.platforms) > 1:
        leading.insert(0, ir.RankedTensorType.get((), ir.IntegerType.get_signless(32)))
    kept = [exported.in_avals[i] for i in exported.module_kept_var_idx]
    function = mains[0].type
    for what, first, avals, found in (
        ("arguments", leading, kept, function.inputs),
        ("results", tokens, exported.out_avals, function.results),
    ):
        types = mlir.flatten_ir_types([mlir.aval_to_ir_types(module_ctx, a) for a in avals])
        expected = [*first, *types]
        if expected != list(found):
            raise ValueError(
                f"The module of the exported function '{exported.fun_name}' is not that of the types "
                f"stored with it: its {what} are ({', '.join(map(str, found))}) instead of "
                f"({', '.join(map(str, expected))})"
            )
    return list(function.results)


def parse_module(exported: Exported, context: Any) -> Any:
    """The program's `ir.Module`, in an MLIR context.

    Raises:
      ValueError: the bytes are not a module.
    """
    data = exported.mlir_module_serialized
    reasons: list[str] = []  # those of MLIR, which the exception does not have
    handler = context.attach_diagnostic_handler(lambda d: _add_reason(reasons, d))
    try:
        check_module(data)
        # Later jaxlibs' other function of this name calls the handler without Python's lock.
        return hlo.deserialize_portable_artifact(context, data)
    except (ValueError, ir.MLIRError) as err:
        raise ValueError(
            f"The StableHLO module of the exported function '{exported.fun_name}' cannot be read: its "
            f"bytes are damaged, or of a newer version than {hlo.get_current_version()} "
            f"({'; '.join([str(err), *reasons])})"
        ) from err
    finally:
        handler.detach()


_MAX_REASONS = 3


def _add_reason(reasons: list[str], diagnostic: Any) -> bool:
    if diagnostic.severity == ir.DiagnosticSeverity.ERROR and len(reasons) < _MAX_REASONS:
        try:
            reasons.append(f"{diagnostic.message}, at {diagnostic.location}")
        except (RuntimeError, UnicodeDecodeError):  # damaged names
            reasons.append("an error whose message is no text")
    return True
