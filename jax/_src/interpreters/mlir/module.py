"""Lowering of a jaxpr to a module, buffer donation, and the text and dumps of modules."""

from __future__ import annotations

import io
import itertools
import os
import pathlib
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jax._src import config, core, effects as effects_lib, util
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters.mlir.constants import i32_attr
from jax._src.interpreters.mlir.context import (
    COLLECTIVE_CHANNEL_ID,
    LoweringParameters,
    ModuleContext,
    ShapePolyLoweringState,
    make_ir_context,
)
from jax._src.interpreters.mlir.functions import lower_function
from jax._src.interpreters.mlir.ops import compare_hlo
from jax._src.interpreters.mlir.shardings import get_mem_kind
from jax._src.interpreters.mlir.signatures import ArgSpecs, ResultSpecs
from jax._src.layout import AutoLayout
from jax._src.lib import _jax
from jax._src.lib.mlir import ir, passmanager
from jax._src.lib.mlir.dialects import hlo
from jax._src.sharding_impls import ShardingContext

if TYPE_CHECKING:
    from jax._src.sharding import Sharding


class LoweringResult(NamedTuple):
    """A lowered module.

    Attributes:
      module: the `ir.Module`.
      keepalive: objects that must live as long as the compiled module.
      host_callbacks: callbacks of the module, ordered by their indices.
      shape_poly_state: dimension variables and platforms that it takes as arguments.
    """

    module: Any
    keepalive: list[Any] | None
    host_callbacks: list[Any]
    shape_poly_state: ShapePolyLoweringState


# A list, as in the original: plugins may append their platform.
_platforms_with_donation = ["cpu", "cuda", "rocm", "tpu", "neuron", "oneapi"]


def lower_jaxpr_to_module(
    module_name: str,
    jaxpr: core.ClosedJaxpr,
    *,
    num_const_args: int,
    in_avals: Sequence[Any] | None,
    ordered_effects: Sequence[Any],
    platforms: Sequence[str],
    backend: Any,
    axis_context: Any,
    donated_args: Sequence[bool] | None,
    replicated_args: Sequence[bool] | None = None,
    arg_shardings: Sequence[Any] | None = None,
    result_shardings: Sequence[Any] | None = None,
    in_layouts: Sequence[Any] | None = None,
    out_layouts: Sequence[Any] | None = None,
    arg_names: Sequence[str | None] | None = None,
    result_names: Sequence[str] | None = None,
    num_partitions: int = 1,
    all_default_mem_kind: bool = True,
    input_output_aliases: Sequence[int | None] | None = None,
    propagated_out_mem_kinds: Sequence[str | None] | None = None,
    lowering_parameters: LoweringParameters | None,
) -> LoweringResult:
    """Lowers a jaxpr to a StableHLO module with the entry point `main`.

    Args:
      module_name: the name, like `jit_f`.
      jaxpr: the jaxpr with its constants.
      num_const_args, in_avals: see `lower_jaxpr_to_fun`.
      platforms: the platforms to lower for. If several, the first argument of `main` is their
        index.
      backend: the client, if there is one platform and it is available.
      axis_context: a `ShardingContext` or `SPMDAxisContext`; None for one device.
      ordered_effects: effects whose tokens `main` takes and returns, in order.
      donated_args: which arguments' buffers may be reused.
      replicated_args: which arguments are the same on all replicas.
      arg_shardings, result_shardings: shardings; None where the compiler chooses.
      in_layouts, out_layouts: layouts, None for the default, or AUTO.
      arg_names, result_names: paths of arguments and results.
      num_partitions: of the program that runs.
      all_default_mem_kind: whether all memory kinds are the devices' default.
      input_output_aliases: for each argument, the result that reuses its buffer, or None.
      propagated_out_mem_kinds: memory kinds of results according to their types.
      lowering_parameters: see `LoweringParameters`.

    Raises:
      ValueError: if the jaxpr has effects that cannot be lowered, or the module is not valid.
    """
    util.test_event("lower_jaxpr_to_module")
    if in_avals is None:
        in_avals = [v.aval for v in jaxpr.constvars[:num_const_args]] + jaxpr.in_avals
    num_args = len(in_avals)
    unlowerable = effects_lib.lowerable_effects.filter_not_in(jaxpr.effects)
    if unlowerable:
        raise ValueError(f"Cannot lower jaxpr with effects: {set(jaxpr.effects)}")
    if lowering_parameters is None:
        lowering_parameters = LoweringParameters()
    if axis_context is None:
        axis_context = ShardingContext(1)
    platforms = tuple(platforms)

    arg_memory_kinds = result_memory_kinds = asked_memory_kinds = None
    if not all_default_mem_kind:
        if arg_shardings is not None:
            arg_memory_kinds = [get_mem_kind(s) for s in arg_shardings]
        if result_shardings is not None:
            asked_memory_kinds = [get_mem_kind(s) for s in result_shardings]
            result_memory_kinds = asked_memory_kinds
            if propagated_out_mem_kinds is not None:
                result_memory_kinds = [
                    kind or known
                    for kind, known in zip(result_memory_kinds, propagated_out_mem_kinds)
                ]

    xla_donated_args = None
    if donated_args is not None and any(donated_args):
        input_output_aliases, xla_donated_args = _set_up_donation(
            in_avals, jaxpr.out_avals, platforms, num_partitions, donated_args, input_output_aliases, arg_shardings,
            result_shardings, arg_memory_kinds, asked_memory_kinds, in_layouts, out_layouts,
        )  # fmt: skip
    if arg_names is not None and len(arg_names) != num_args:
        raise ValueError(f"{len(arg_names)} names for {num_args} arguments")

    dim_vars = _dim_vars(in_avals)
    context = make_ir_context()
    ctx = ModuleContext(
        context=context,
        platforms=platforms,
        backend=backend,
        axis_context=axis_context,
        channel_iterator=itertools.count(COLLECTIVE_CHANNEL_ID + 1),
        lowering_parameters=lowering_parameters,
        shape_poly_state=ShapePolyLoweringState(dim_vars, platforms),
        all_default_mem_kind=all_default_mem_kind,
    )
    with context, ctx.traceback_caches.unknown:
        attrs = ctx.module.operation.attributes
        attrs["sym_name"] = ir.StringAttr.get(sanitize_name(module_name).rstrip("_"))
        attrs["mhlo.num_replicas"] = i32_attr(1)
        attrs["mhlo.num_partitions"] = i32_attr(num_partitions)
        args = ArgSpecs(
            in_avals, arg_names, replicated_args, arg_shardings, arg_memory_kinds,
            in_layouts if any(l is not None for l in in_layouts or ()) else None,
            xla_donated_args, input_output_aliases,
        )  # fmt: skip
        results = ResultSpecs(
            jaxpr.out_avals, result_names, result_shardings, result_memory_kinds,
            out_layouts if any(l is not None for l in out_layouts or ()) else None,
            propagated_out_mem_kinds,
        )  # fmt: skip
        lower_function(
            ctx, "main", jaxpr, ordered_effects, args, results, num_const_args, main_function=True
        )
        _verify(ctx.module, module_name)
        util.test_event("lowered_jaxpr", jaxpr, ctx.module)
        if ctx.sharding_attr_cache and config.use_shardy_partitioner.value:
            # Replaces meshes inside shardings by references to named meshes.
            passmanager.PassManager.parse("builtin.module(sdy-lift-inlined-meshes)").run(
                ctx.module.operation
            )
    return LoweringResult(ctx.module, ctx.keepalives, ctx.host_callbacks, ctx.shape_poly_state)


def _dim_vars(avals: Sequence[Any]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for aval in avals:
        for d in getattr(aval, "shape", ()):
            if type(d) is not int and core.is_symbolic_dim(d):
                for name in d._get_vars():
                    names[name] = None
    return tuple(sorted(names))


def _verify(module: Any, name: str) -> None:
    try:
        if module.operation.verify():
            return
        message = "the module is not valid"
    except ir.MLIRError as err:
        message = _diagnostics_text(err)
    where = dump_module_message(module, "verification")
    raise ValueError(f"Cannot lower jaxpr with verifier errors:\n{message}\n{where}")


def _diagnostics_text(err: Any) -> str:
    lines = []

    def emit(d: Any, indent: str) -> None:
        lines.append(f"{indent}{d.message}")
        lines.append(f"{indent}\tat {d.location}")
        for note in d.notes:
            emit(note, indent)

    for d in err.error_diagnostics:
        emit(d, "\t")
    return "\n".join(lines)


_module_name_regex = re.compile(r"[^\w.-]")


def sanitize_name(name: str) -> str:
    """Replaces characters that are not allowed in module and function names by underscores."""
    return _module_name_regex.sub("_", name)


# Donation: which results reuse the buffers of which arguments


def _set_up_donation(
    in_avals: Sequence[Any],
    out_avals: Sequence[Any],
    platforms: Sequence[str],
    num_partitions: int,
    donated_args: Sequence[bool],
    input_output_aliases: Sequence[int | None] | None,
    arg_shardings: Sequence[Any] | None,
    result_shardings: Sequence[Any] | None,
    arg_memory_kinds: Sequence[Any] | None,
    result_memory_kinds: Sequence[Any] | None,
    in_layouts: Sequence[Any] | None,
    out_layouts: Sequence[Any] | None,
) -> tuple[Any, Any]:
    """Returns the argument-result aliases, and which other donated arguments XLA may reuse.

    Memory kinds are those of the shardings that were asked for; None if the compiler chooses.
    """
    if not set(platforms) & set(_platforms_with_donation):
        platform = platforms[0]
        warnings.warn(
            f"Donation is not implemented for {platform}.\nSee an explanation at "
            "https://docs.jax.dev/en/latest/faq.html#buffer-donation.",
            stacklevel=2,
        )
        return input_output_aliases, None
    donated = list(donated_args)
    aliases: list[int | None] = (
        [None] * len(in_avals) if input_output_aliases is None else list(input_output_aliases)
    )
    taken = {i for i in aliases if i is not None}

    def key(avals: Sequence[core.AbstractValue], i: int) -> Any:
        aval = core.physical_aval(avals[i])
        return (aval.shape, aval.dtype) if isinstance(aval, core.ShapedArray) else aval

    free: dict[Any, list[int]] = {}
    for i in range(len(out_avals)):
        if i not in taken:
            free.setdefault(key(out_avals, i), []).append(i)

    xla_donated = [False] * len(in_avals)
    unusable = []
    for i, aval in enumerate(in_avals):
        if not donated[i] or aliases[i] is not None:
            continue
        candidates = free.get(key(in_avals, i), [])
        in_kind = arg_memory_kinds[i] if arg_memory_kinds else None
        in_sharding: Any = arg_shardings[i] if arg_shardings is not None else None
        in_layout = in_layouts[i] if in_layouts else None
        for k, result in enumerate(candidates):
            out_sharding = result_shardings[result] if result_shardings is not None else None
            out_layout = out_layouts[result] if out_layouts else None
            out_kind = result_memory_kinds[result] if result_memory_kinds else None
            if in_kind != out_kind and out_kind is not None:
                continue
            auto = in_layout is AutoLayout or out_layout is AutoLayout or in_kind != out_kind
            if num_partitions > 1:
                # If the compiler chooses a sharding, only the compiler can check whether they
                # match.
                auto = auto or in_sharding is None or out_sharding is None
                if not auto and not in_sharding.is_equivalent_to(out_sharding, aval.ndim):
                    continue
            if auto:
                xla_donated[i] = True
            elif in_layout == out_layout:
                aliases[i] = result
            else:
                continue
            del candidates[k]
            break
        else:
            unusable.append(i)
    # XLA may reuse other buffers with as many elements: it finds out itself whether it can.
    results = [i for group in free.values() for i in group]
    sizes = [_shard_size(out_avals[i], result_shardings and result_shardings[i]) for i in results]
    for i in list(unusable):
        size = _shard_size(in_avals[i], arg_shardings and arg_shardings[i])
        if size is not None and size in sizes:
            sizes.remove(size)
            unusable.remove(i)
            xla_donated[i] = True
    if unusable:
        shown = ", ".join(
            _unused_buffer(in_avals[i], arg_shardings[i] if arg_shardings else None)
            for i in unusable
        )
        warnings.warn(
            f"Some donated buffers were not usable: {shown}.\nSee an explanation at "
            "https://docs.jax.dev/en/latest/faq.html#buffer-donation.",
            stacklevel=2,
        )
    return (
        aliases if any(a is not None for a in aliases) else None,
        xla_donated if any(xla_donated) else None,
    )


def _shard_size(aval: core.AbstractValue, sharding: Sharding | None) -> int | None:
    """Returns the number of elements on one device; None if the value is not an array."""
    aval = _shard(aval, sharding)
    return aval.size if isinstance(aval, core.ShapedArray) else None


def _shard(aval: core.AbstractValue, sharding: Sharding | None) -> core.AbstractValue:
    if sharding is not None and isinstance(aval, core.ShapedArray):
        try:
            return aval.update(shape=sharding.shard_shape(aval.shape), sharding=None)
        except ValueError:
            pass
    return aval


def _unused_buffer(aval: core.AbstractValue, sharding: Sharding | None) -> str:
    aval = _shard(aval, sharding)
    return aval.str_short() if hasattr(aval, "str_short") else str(aval)


# Other entry points


def build_mlir_module_helper(
    closed_jaxpr: core.ClosedJaxpr,
    *,
    name: str,
    platforms: Sequence[str],
    backend: str | None = None,
    axis_context: object = None,
) -> Any:
    """Lowers a jaxpr without ordered effects to a module."""
    unlowerable = effects_lib.lowerable_effects.filter_not_in(closed_jaxpr.effects)
    if unlowerable:
        raise ValueError(f"Cannot lower jaxpr with effects: {set(closed_jaxpr.effects)}")
    if effects_lib.ordered_effects.filter_in(closed_jaxpr.effects):
        raise ValueError("a module without tokens cannot hold ordered effects")
    return lower_jaxpr_to_module(
        name, closed_jaxpr, num_const_args=0, in_avals=None, ordered_effects=(), platforms=platforms,
        backend=backend, axis_context=axis_context, donated_args=None, lowering_parameters=None,
    ).module  # fmt: skip


def merge_mlir_modules(
    dst_module: Any, sym_name: str, src_module: Any, dst_symtab: Any = None
) -> str:
    """Moves the functions of a module into another one.

    Args:
      dst_module: the target module.
      sym_name: the new name of `main`.
      src_module: the source module, which may belong to another context.
      dst_symtab: the symbol table of `dst_module`, if it exists already.

    Returns:
      The actual name of `main`, which is unique in `dst_module`.
    """
    if dst_module.context != src_module.context:
        # Operations of different contexts cannot be mixed, so copy the module as bytecode.
        with dst_module.context:
            src_module = ir.Module.parse(module_to_bytecode(src_module))
    with dst_module.context, ir.Location.unknown():
        if dst_symtab is None:
            dst_symtab = ir.SymbolTable(dst_module.operation)
        taken = {_symbol_name(op) for op in dst_module.body.operations}
        names = {}
        for op in src_module.body.operations:
            old = _symbol_name(op)
            base = new = sym_name if old == "main" else old
            n = 0
            while new in taken:
                new, n = f"{base}_{n}", n + 1
            taken.add(new)
            names[old] = new
        # Rename in two steps, since a new name may be the old name of another function.
        for step in ({old: f"{i}.renamed" for i, old in enumerate(names)}, None):
            if step is None:
                step = {f"{i}.renamed": new for i, new in enumerate(names.values())}
            for op in src_module.body.operations:
                old = _symbol_name(op)
                ir.SymbolTable.replace_all_symbol_uses(old, step[old], src_module.operation)
                op.attributes["sym_name"] = ir.StringAttr.get(step[old])
        for op in list(src_module.body.operations):
            if op.operation.name == "func.func":
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            dst_module.body.append(op)
            dst_symtab.insert(op)
    return names["main"]


def _symbol_name(op: Any) -> str:
    return str(op.attributes["sym_name"].value)


# Text and files


def module_to_string(module: Any, enable_debug_info: bool | None = None) -> str:
    """Returns the module as text.

    Args:
      module: the `ir.Module`.
      enable_debug_info: whether to print locations; `jax_include_debug_info_in_dumps` if None.
    """
    output = io.StringIO()
    if enable_debug_info is None:
        enable_debug_info = config.include_debug_info_in_dumps.value
    module.operation.print(file=output, enable_debug_info=enable_debug_info)
    return output.getvalue()


def module_to_bytecode(module: Any) -> bytes:
    output = io.BytesIO()
    module.operation.write_bytecode(file=output)
    return output.getvalue()


def module_from_bytecode(code: bytes) -> Any:
    """Returns a module in a context of its own."""
    with make_ir_context():
        return ir.Module.parse(code)


_dump_counter = itertools.count()


def dump_module_to_file(module: Any, stage_name: str) -> str | None:
    """Writes the module to the folder `jax_dump_ir_to`, if set, and returns the file name."""
    if "stablehlo" not in config.dump_ir_modes.value.split(","):
        return None
    name = module.operation.attributes["sym_name"].value
    return _dump(f"{sanitize_name(name)[:200]}_{stage_name}.mlir", lambda: module_to_string(module))


def dump_jaxpr_to_file(jaxpr: core.ClosedJaxpr, name: str) -> str | None:
    """Writes a jaxpr like `dump_module_to_file`, if `jax_dump_ir_modes` includes "jaxpr"."""
    if "jaxpr" not in config.dump_ir_modes.value.split(","):
        return None
    return _dump(f"{sanitize_name(name)[:200]}.jaxpr.txt", lambda: str(jaxpr))


def _dump(file_name: str, text: Callable[[], str]) -> str | None:
    out_dir = _dump_dir()
    if not out_dir:
        return None
    file_name = f"jax_ir{next(_dump_counter):04d}_{file_name}"
    folder = pathlib.Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file_name).write_text(text())
    return file_name


def dump_module_message(module: object, stage_name: str) -> str:
    """Returns a sentence on where the module was written, or how to have it written."""
    dumped_to = dump_module_to_file(module, stage_name)
    if dumped_to:
        return f"The module was dumped to {dumped_to}."
    return "Define JAX_DUMP_IR_TO to dump the module."


def _dump_dir() -> str | None:
    out_dir = config.dump_ir_to.value
    if not out_dir:
        return None
    if out_dir == "sponge":
        out_dir = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", "")
        if not out_dir:
            raise ValueError(
                "jax_dump_ir_to is 'sponge', but TEST_UNDECLARED_OUTPUTS_DIR is not set"
            )
    return out_dir


def refine_polymorphic_shapes(module: object) -> Any:
    """Replaces dynamic shapes that follow from the shapes of the arguments by static ones.

    Raises:
      ValueError: if an assertion about shapes does not hold, or shapes remain unknown.
    """
    module = _with_checked_divisors(module)
    try:
        refined = _refined(module, validate_static_shapes=True)
    except JaxRuntimeError as err:
        # An operation may fail before the assertion that guards it, which says what is wrong.
        problem = _first_error(err)
        if problem is None or not problem.startswith(_SHAPES_DO_NOT_MATCH):
            problem = _broken_assertion(module) or problem
        if problem is None or "op has dynamic shapes" in problem:
            raise ValueError(
                "Error refining shapes: the shapes of the arguments do not determine all shapes of the "
                f"program. Export it, by jax.export.export, to call it for several shapes. {err}"
            ) from err
        raise ValueError(problem) from err
    return module_from_bytecode(refined)


_SHAPES_DO_NOT_MATCH = "Input shapes do not match"


def _with_checked_divisors(module: object) -> Any:
    """The module, with a choice instead of each division of integers whose divisor may be zero.

    The compiler computes known numbers while it refines shapes. It ends the process where it divides
    integers by zero then, though programs may do so: the quotient is -1, the remainder the dividend.
    """
    data = module_to_bytecode(module)
    if b"divide" not in data and b"remainder" not in data:
        return module
    with make_ir_context(), ir.Location.unknown():
        copy = ir.Module.parse(data)
        found: list[Any] = []

        def visit(op: Any) -> Any:
            if op.name in ("stablehlo.divide", "stablehlo.remainder") and _may_divide_by_zero(op):
                found.append(op)
            return ir.WalkResult.ADVANCE

        copy.operation.walk(visit)
        for op in found:
            _check_divisor(op)
        return copy if found else module


def _may_divide_by_zero(op: Any) -> bool:
    divisor = op.operands[1]
    if not isinstance(ir.RankedTensorType(divisor.type).element_type, ir.IntegerType):
        return False
    owner = divisor.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return True
    value = owner.attributes["value"]
    if not isinstance(value, ir.DenseIntElementsAttr):
        return True
    return not value.get_splat_value().value if value.is_splat else not all(value)


def _check_divisor(op: Any) -> None:
    x, y = op.operands
    shaped = ir.RankedTensorType(y.type)
    with ir.InsertionPoint(op):
        if shaped.shape:  # of any size: there are no constants of its shape
            zero = hlo.subtract(y, y)
            is_zero = compare_hlo(y, zero, "EQ")
            one = hlo.convert(y.type, is_zero)
        else:  # perhaps part of a shape, which the compiler computes if its parts are of few kinds
            zero, one = (
                hlo.constant(
                    ir.DenseElementsAttr.get_splat(
                        shaped, ir.IntegerAttr.get(shaped.element_type, n)
                    )
                )
                for n in (0, 1)
            )
            is_zero = compare_hlo(y, zero, "EQ")
        op.operands[1] = hlo.select(is_zero, one, y)
    with ir.InsertionPoint.after(op):
        result = op.results[0]
        other = hlo.subtract(zero, one) if op.name == "stablehlo.divide" else x
        checked = hlo.select(is_zero, other, result)
        result.replace_all_uses_except(checked, checked.owner.operation)


def _refined(module: object, *, validate_static_shapes: bool) -> bytes:
    refined: bytes = _jax.mlir.refine_polymorphic_shapes(
        module_to_bytecode(module),
        enable_shape_assertions=True,
        validate_static_shapes=validate_static_shapes,
        enable_shardy=config.use_shardy_partitioner.value,
    )
    return refined


def _first_error(err: Exception) -> str | None:
    found = re.search(r"error: (.*)", str(err))
    return None if found is None else found[1]


def _broken_assertion(module: object) -> str | None:
    """The message of an assertion that does not hold, found without the calls that come after it."""
    with make_ir_context(), ir.Location.unknown():
        copy = ir.Module.parse(module_to_bytecode(module))
        for function in copy.body.operations:
            for block in function.operation.regions[0] if function.operation.regions else ():
                guarded = False
                for op in list(block.operations):
                    if op.operation.name == "func.call":
                        if guarded:
                            _replace_by_unknown_values(op.operation)
                        continue
                    target = op.operation.attributes.get("call_target_name")
                    guarded |= target is not None and target.value == "shape_assertion"
        try:
            _refined(copy, validate_static_shapes=False)
        except JaxRuntimeError as err:
            problem = _first_error(err)
            if problem is not None and problem.startswith(_SHAPES_DO_NOT_MATCH):
                return problem
    return None


def _replace_by_unknown_values(op: Any) -> None:
    with ir.InsertionPoint(op):
        unknown = hlo.CustomCallOp(
            [r.type for r in op.results],
            [],
            call_target_name=ir.StringAttr.get("unknown"),
            api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2),
        )
    for old, new in zip(op.results, unknown.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
