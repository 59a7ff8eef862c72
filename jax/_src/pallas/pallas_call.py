"""`pallas_call`: applies a kernel to the blocks of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, dtypes, traceback_util
from jax._src.api import jit
from jax._src.config import context_config
from jax._src.core import Jaxpr, Primitive, ShapedArray, typeof
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.lax import lax
from jax._src.mesh import AxisType
from jax._src.pallas.backends import lowering_for, platforms, register
from jax._src.pallas.blocks import call_with, no_block_spec
from jax._src.pallas.compiler_params import check_compiler_params
from jax._src.pallas.cost_estimate import CostEstimate
from jax._src.pallas.effects import KernelEffect
from jax._src.pallas.forced import interpret_option
from jax._src.pallas.global_refs import kernel_in_scope
from jax._src.pallas.grids import (
    GridMapping,
    GridSpec,
    grid_in_scope,
    grid_mapping,
    names_of_leaves,
)
from jax._src.pallas.interpret import run_over_grid
from jax._src.pallas.memory import (
    MemoryRef,
    MemorySpace,
    check_not_negative,
    in_device_memory,
    ref_avals_of,
)
from jax._src.pallas.values import as_array
from jax._src.tree_util import (
    PyTreeDef,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)

traceback_util.register_exclusion(__file__)

# The operands are those that `GridMapping` lists. The jaxpr is the kernel's.
pallas_call_p = Primitive("pallas_call", multiple_results=True)

# Whether blocks of compiled kernels may have symbolic sizes.
symbolic_blocks = context_config("pallas_symbolic_blocks", False)


@traceback_util.api_boundary
def pallas_call(
    kernel: Callable[..., None], out_shape: Any, *, grid_spec: GridSpec | None = None, grid: Any = (),
    in_specs: Any = no_block_spec, out_specs: Any = no_block_spec, scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {}, debug: bool = False, interpret: Any = False,
    name: str | None = None, compiler_params: Any = None, cost_estimate: CostEstimate | None = None,
    metadata: dict[str, str] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that runs a kernel for every point of a grid.

    Args:
      kernel: function of references to blocks of the arguments, of the results, and to scratch arrays.
        It writes to those of the results, and returns None.
      out_shape: the results: a tree of `jax.ShapeDtypeStruct`, or of arrays like them.
      grid_spec: grid, in_specs, out_specs and scratch_shapes in one, in place of these.
      grid: the sizes of the grid: an integer, or a tuple of integers or of pairs of name and size. They
        can be traced. The kernel does not run at all if one is 0 or less.
      in_specs: a tree of `pl.BlockSpec` of the structure of the arguments. By default, and where it is
        None, a block is the whole argument.
      out_specs: the same of the results.
      scratch_shapes: a tree of types of references, such as `pltpu.VMEM((8, 128), jnp.float32)`. They
        keep what is written to them from one point of the grid to the next.
      input_output_aliases: numbers of arguments, and of the results that start with their values;
        leaves are counted.
      debug: whether to print the kernel's jaxpr.
      interpret: whether to run the kernel as a program of XLA, which any device can, or the options of an interpreter,
        such as `pltpu.InterpretParams()`.
      name: the kernel's name in place of the function's.
      compiler_params: options of the back end; interpreted kernels run the same with any of them.
      cost_estimate: what the kernel costs: for XLA's scheduler, and for `pl.estimate_cost`.
      metadata: strings that compiled kernels carry; in interpreted ones they are in the jaxpr only.

    Returns:
      A function of positional arguments. Elements of a block beyond the array, and those of results
      that no block covers or no run writes, have no meaningful value; interpreted kernels see NaN, or the
      least integer.

    Raises:
      ValueError, TypeError: if specs do not match the arrays, or the kernel returns a value or closes
        over an array.

    >>> def add(x_ref, y_ref, o_ref):
    ...   o_ref[...] = x_ref[...] + y_ref[...]
    >>> block = pl.BlockSpec((4,), lambda i: (i,))
    >>> x = jnp.arange(8.)
    >>> pl.pallas_call(add, x, grid=2, in_specs=[block, block], out_specs=block, interpret=True)(x, x)
    Array([ 0.,  2.,  4.,  6.,  8., 10., 12., 14.], dtype=float32)
    """
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    else:
        _check_not_given(grid, in_specs, out_specs, scratch_shapes)
    if not callable(kernel):
        raise TypeError(f"pallas_call takes a function, got {kernel!r} of type {type(kernel)}.")
    check_compiler_params(compiler_params, "pallas_call")
    out_shape = tuple(out_shape) if isinstance(out_shape, list) else out_shape
    flat_out, out_tree = tree_flatten(out_shape)
    out_avals = tuple([out_aval(x) for x in flat_out])
    fixed = dict(
        out_avals=out_avals,
        debug=debug,
        mesh=None,
        compiler_params=compiler_params,
        cost_estimate=cost_estimate,
        metadata=None if metadata is None else tuple(sorted(metadata.items())),
        name=name,
    )

    # Calls of what is returned stage the kernel once, and are compiled once.
    @functools.partial(jit, inline=True)
    def apply(*args: Any) -> Any:
        flat, in_tree = tree_flatten(args)
        flat = [as_array(x) for x in flat]
        in_avals = [typeof(x).strip_weak_type() for x in flat]
        aliases = _checked_aliases(input_output_aliases, in_avals, out_avals)
        k = grid_spec.num_scalar_prefetch
        block_tree = tree_structure(args[k:])
        mapping = grid_mapping(
            grid_spec, in_avals, block_tree, names_of_leaves("args", args),
            out_avals, out_tree, names_of_leaves("outputs", out_shape),
        )  # fmt: skip
        jaxpr = _stage_kernel(kernel, name, grid_spec, mapping, in_tree, out_tree)
        if debug:
            print(f"The kernel jaxpr for pallas_call {jaxpr.debug_info.func_src_info}:\n{jaxpr}")
        sizes = [
            lax.convert_element_type(d, np.int32) for d in grid_spec.grid if not isinstance(d, int)
        ]
        outs = pallas_call_p.bind(
            *sizes,
            *flat,
            jaxpr=jaxpr,
            grid_mapping=mapping,
            input_output_aliases=aliases,
            interpret=interpret_option(interpret),
            **fixed,
        )
        return tree_unflatten(out_tree, outs)

    return apply


def _check_not_given(grid: Any, in_specs: Any, out_specs: Any, scratch_shapes: Any) -> None:
    given = {"grid": (grid, ()), "scratch_shapes": (scratch_shapes, ())}
    given |= {"in_specs": (in_specs, no_block_spec), "out_specs": (out_specs, no_block_spec)}
    for name, (value, default) in given.items():
        if value is not default and value != default:
            shown = "()" if default == () else "not specified"
            raise ValueError(
                f"If `grid_spec` is specified, then `{name}` must be `{shown}`. It is {value}"
            )


def out_aval(x: Any) -> ShapedArray:
    """Return the type of a result of a kernel, given by something with a shape and a dtype."""
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise ValueError(
            f"Invalid out_shape type: {type(x)}. Give a tree of jax.ShapeDtypeStruct(shape, dtype)."
        )
    dtype = x.dtype
    if not isinstance(dtype, dtypes.ExtendedDType):
        dtype = dtypes.canonicalize_dtype(dtype)
    mat = getattr(x, "manual_axis_type", None)
    shape = tuple(map(core.canonicalize_dim, x.shape))
    check_not_negative(shape, "A result in out_shape")
    kwargs: dict[str, Any] = {} if mat is None else {"manual_axis_type": mat}
    if isinstance(x, MemoryRef) and x.memory_space is not MemorySpace.ANY:
        kwargs["memory_space"] = x.memory_space
    return ShapedArray(shape, dtype, **kwargs)


def _checked_aliases(
    aliases: Mapping[int, int], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> tuple[tuple[int, int], ...]:
    pairs = tuple(sorted(dict(aliases).items()))
    for i, o in pairs:
        what = f"input_output_aliases contains the mapping '{i}:{o}' with"
        if not 0 <= i < len(in_avals):
            raise ValueError(f"{what} input index {i} outside the range [0, {len(in_avals)})")
        if not 0 <= o < len(out_avals):
            raise ValueError(f"{what} output index {o} outside the range [0, {len(out_avals)})")
        x, y = in_avals[i], out_avals[o]
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise ValueError(
                f"{what} an input of type {x.str_short()} and an output of type {y.str_short()}: they must have "
                "the same shape and dtype."
            )
    if len({o for _, o in pairs}) != len(pairs):
        raise ValueError(f"input_output_aliases has several inputs for one output: {dict(pairs)}")
    return pairs


def _stage_kernel(
    kernel: Callable[..., None], name: str | None, spec: GridSpec, mapping: GridMapping,
    in_tree: PyTreeDef, out_tree: PyTreeDef,
) -> Jaxpr:  # fmt: skip
    """Stage the kernel of `pallas_call`, which closes over nothing."""
    scalars = mapping.index_map_avals[len(mapping.grid) :]
    ins = [*scalars, *[m.block_aval for m in mapping.in_block_mappings]]
    outs = [m.block_aval for m in mapping.block_mappings_output]
    _, scratch_tree = ref_avals_of(spec.scratch_shapes, "scratch_shapes")
    avals, trees = (ins, outs, mapping.scratch_avals), (in_tree, out_tree, scratch_tree)
    with grid_in_scope(spec.grid, spec.grid_names, ()):
        jaxpr, consts = trace_kernel("pallas_call", kernel, name, avals, trees)
    if consts:
        types = [typeof(c) for c in consts]
        shown = ", ".join(
            a.str_short(short_dtypes=True) if hasattr(a, "str_short") else str(a) for a in types
        )
        raise ValueError(
            f"The kernel function in the pallas_call {jaxpr.debug_info.func_src_info} captures constants [{shown}]. "
            "You should pass them as inputs."
        )
    return jaxpr


def trace_kernel(
    what: str, kernel: Callable[..., None], name: str | None, avals: Sequence[Sequence[Any]],
    trees: Sequence[PyTreeDef],
) -> tuple[Jaxpr, list[Any]]:  # fmt: skip
    """Stage a kernel as a function of references. Its grid is in scope.

    Args:
      what: the function that applies it, for errors.
      kernel: function of references to arguments, results and scratch arrays.
      name: the kernel's name in place of the function's, or None.
      avals: the types of the references: to the leaves of arguments, of results, and to scratch arrays.
      trees: the structures of these three.

    Returns:
      The jaxpr, and what the kernel closes over.

    Raises:
      ValueError: if the kernel returns a value.
    """
    n, m = len(avals[0]), len(avals[1])
    in_tree, out_tree, scratch_tree = trees

    def run(*refs: Any) -> Any:
        args = tree_unflatten(in_tree, refs[:n])
        results = _as_tuple(tree_unflatten(out_tree, refs[n : n + m]))
        scratch = tree_unflatten(scratch_tree, refs[n + m :])
        with kernel_in_scope(core.trace_ctx.trace):
            named = scratch if isinstance(scratch, dict) else {}
            positional = [*args, *results, *(() if named else _as_tuple(scratch))]
            out = call_with(kernel, positional, named, f"{called} {given}")
        if out is not None:
            raise ValueError(
                f"The kernel function in the {what} {where} should return None. It returns a PyTree: "
                f"{tree_structure(out)}. Write results to references."
            )
        return []

    where = api_util.debug_info(what, kernel, (), {}).func_src_info
    if name is not None:
        where = f"{name} for kernel function {where}"
    called = f"The kernel function in the {what} {where} is called with references, in this order:"
    kinds = zip(("arguments", "results", "scratch arrays"), avals)
    given = "; ".join([f"to {kind} ({', '.join(map(str, group))})" for kind, group in kinds])
    flat = [a for group in avals for a in group]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, flat, core.DebugInfo(what, where))
    return jaxpr, consts


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


# The primitive

# Effects of kernels that end with them.
_OWN_EFFECTS = (core.JaxprInputEffect, core.InternalMutableArrayEffect, KernelEffect)


@pallas_call_p.def_effectful_abstract_eval
def _types(
    *avals: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, out_avals: Any, interpret: Any, compiler_params: Any, **_: Any
) -> Any:  # fmt: skip
    _check_not_sharded(avals, jaxpr)
    names = grid_mapping.grid_names or ()
    effects = [
        e
        for e in jaxpr.effects
        if not isinstance(e, _OWN_EFFECTS)
        and not (isinstance(e, core.NamedAxisEffect) and e.name in names)
    ]
    if not interpret:
        effects += getattr(compiler_params, "call_effects", ())
    return _varying_like(avals, out_avals), frozenset(effects)


def _check_not_sharded(avals: Sequence[Any], jaxpr: Jaxpr) -> None:
    for a in avals:
        sharding = getattr(a, "_sharding", None)
        if sharding is not None and any(t is AxisType.Explicit for t in sharding.mesh.axis_types):
            raise ValueError(
                "pallas_call requires all mesh axes to be Manual: a kernel sees the array of one device, but an "
                f"argument of {jaxpr.debug_info.func_src_info} is of type {a.str_short(mesh_axis_types=True)}. "
                "Apply the kernel in a function given to jax.shard_map."
            )


def _varying_like(avals: Sequence[Any], out_avals: Sequence[Any]) -> list[Any]:
    """Make results vary over the manual mesh axes that any of the operands varies over.

    Where the kernel has them is not part of their types.
    """
    axes = frozenset().union(*[getattr(a, "vma", ()) for a in avals])
    out_avals = [in_device_memory(a) for a in out_avals]
    return [
        a.update_manual_axis_type(core.ManualAxisType(varying=a.vma | axes)) if axes - a.vma else a
        for a in out_avals
    ]


def _interpreted(
    *args: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Any, **_: Any
) -> list[Any]:
    return run_over_grid(jaxpr, grid_mapping, input_output_aliases, args)


def _not_run(
    *args: Any, grid_mapping: GridMapping, input_output_aliases: Any, out_avals: Any, **_: Any
) -> list[Any]:
    """Return the results of a kernel whose grid has no points: they are what they start with."""
    operands = args[grid_mapping.num_dynamic_grid_bounds :]
    initial = {o: operands[i] for i, o in input_output_aliases}
    return [
        initial[o] if o in initial else lax.empty(a.shape, a.dtype) for o, a in enumerate(out_avals)
    ]


def _lower_interpreted(ctx: Any, *args: Any, interpret: Any, **params: Any) -> Any:
    # An interpreter of its own: that of the options, or the one of the mesh.
    own = getattr(interpret, "run_call", None) or getattr(params.get("mesh"), "run_call", None)
    return _lower_by(own or _interpreted, ctx, *args, **params)


def _lower_by(run: Callable[..., Any], ctx: Any, *args: Any, **params: Any) -> Any:
    """Lower an application of a kernel to a program of XLA."""
    run = mlir.lower_fun(run, multiple_results=True)
    # Types in kernels do not say over which mesh axes values vary, nor in which memory XLA has them.
    plain = lambda avals: [
        in_device_memory(a).update_manual_axis_type(core.empty_mat) for a in avals
    ]
    params["out_avals"] = tuple(map(in_device_memory, params["out_avals"]))
    ctx = ctx.replace(avals_in=plain(ctx.avals_in), avals_out=plain(ctx.avals_out))
    return run(ctx, *args, **params)


def _lower_for(platform: str, ctx: Any, *args: Any, interpret: Any, **params: Any) -> Any:
    if interpret:
        return _lower_interpreted(ctx, *args, interpret=interpret, **params)
    where = params["jaxpr"].debug_info.func_src_info
    rule = lowering_for(platform, params["compiler_params"], where)
    if not symbolic_blocks.value:
        _check_static_blocks(params["grid_mapping"], where)
    # Devices need not be able to launch a kernel without points.
    if 0 in params["grid_mapping"].grid:
        return _lower_by(_not_run, ctx, *args, **params)
    return rule(ctx, *args, **params)


def _check_static_blocks(mapping: GridMapping, where: str) -> None:
    for m in mapping.block_mappings:
        if not all([isinstance(d, (int, np.integer)) for d in m.sizes]):
            raise ValueError(
                f"Blocks of compiled kernels have static sizes, but the one of {m.origin} in {where} has shape {m.sizes}. "
                "Give it a BlockSpec with a shape of integers; or use pl.pallas_export_experimental(dynamic_shapes=True), "
                "if the kernel only copies from or to it."
            )


def register_lowering_rule(params_cls: type, rule: Callable[..., Any], platform: str) -> None:
    """Register how kernels with options of a class are compiled for a platform.

    Args:
      params_cls: the class of the options: a dataclass, given to `pallas_call` as compiler_params.
      rule: a lowering rule of `pallas_call`: it takes a `jax.interpreters.mlir.LoweringRuleContext`, the
        operands, and the parameters of the application, of which jaxpr is the kernel and grid_mapping a
        `GridMapping`.
      platform: the platform, such as `"tpu"`.
    """
    register(params_cls, rule, platform)
    if platform not in platforms:
        mlir.register_lowering(
            pallas_call_p, functools.partial(_lower_for, platform), platform=platform
        )


mlir.register_lowering(pallas_call_p, functools.partial(_lower_for, "cpu"))
for _platform in platforms:
    mlir.register_lowering(
        pallas_call_p, functools.partial(_lower_for, _platform), platform=_platform
    )
