"""Lowering of shardings, layouts and memory kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import config, core, dtypes, lib, sharding_impls
from jax._src.interpreters.mlir.context import LoweringRuleContext, ModuleContext
from jax._src.interpreters.mlir.types import aval_to_ir_type
from jax._src.layout import AutoLayout, Layout
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo, sdy
from jax._src.mesh import AxisType
from jax._src.named_sharding import NamedSharding, SdyArray, SdyDim
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import SdyArrayList

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue
    from jax._src.sharding import Sharding

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED


def get_sharding_attr(ctx: ModuleContext, sharding: Sharding | None) -> Any:
    """Returns the attribute for a sharding in the compiler's form.

    Args:
      ctx: the module, which caches attributes.
      sharding: an `SdyArray`, an `SdyArrayList`, or GSPMD's `OpSharding` or `HloSharding`.

    Raises:
      ValueError: the sharding is over mesh axes that are manual here.
      NotImplementedError: a value is unreduced where some mesh axes are manual.
    """
    if isinstance(sharding, (SdyArray, SdyArrayList)):
        _check_manual_axes(ctx, sharding)
        return sharding.build(ctx.sharding_attr_cache)
    if isinstance(sharding, lib.hlo.OpSharding):
        # The text form lists all devices, so use the binary form if there are many.
        if len(sharding.tile_assignment_devices) > 100:
            return ir.StringAttr.get(sharding.SerializeToString())
        sharding = lib.hlo.HloSharding.from_proto(sharding)
    return ir.StringAttr.get(repr(sharding))


def _names(axes: Iterable[object]) -> str:
    return ", ".join(sorted(map(repr, axes)))


def _check_manual_axes(ctx: ModuleContext, sharding: SdyArray | SdyArrayList) -> None:
    manual_axes = getattr(ctx.axis_context, "manual_axes", None)
    if not manual_axes:
        return
    for s in sharding.shardings if isinstance(sharding, SdyArrayList) else (sharding,):
        already = {n for d in s.dim_shardings for n in d.axes} & manual_axes
        if already:
            raise ValueError(
                f"A sharding over the mesh axes {_names(already)} is given within a shard_map that maps "
                "over them: values there are shards, which cannot be split over these axes again. Leave"
                " them out of the specs of with_sharding_constraint and of in_shardings and "
                "out_shardings of jax.jit."
            )
        if s.unreduced_axes:  # on which the compiler would end the process
            raise NotImplementedError(
                f"The compiler cannot partition a value that is unreduced over mesh axes "
                f"{_names(s.unreduced_axes)} within a shard_map over the axes {_names(manual_axes)}. Let the "
                "operation reduce it (without `unreduced` in its out_sharding), or map over all axes "
                "and use `jax.lax.psum`."
            )


def set_sharding(ctx: ModuleContext, op: Any, sharding: Sharding) -> None:
    """Annotates the results of `op` with a sharding in the compiler's form."""
    if isinstance(sharding, SdyArray):
        sharding = SdyArrayList((sharding,))
    name = "sdy.sharding" if isinstance(sharding, SdyArrayList) else "mhlo.sharding"
    op.attributes[name] = get_sharding_attr(ctx, sharding)


def to_ir_sharding(
    aval: AbstractValue, sharding: Sharding | None, modify_wrt_axis_types: bool = False
) -> Any:
    """Converts a sharding of values of type `aval` to the compiler's form, of Shardy or GSPMD.

    For extended dtypes, this is the sharding of their physical arrays. None stays None.
    """
    if sharding is None or not hasattr(aval, "shape"):
        return None
    dtype = getattr(aval, "dtype", None)
    if isinstance(dtype, dtypes.ExtendedDType):
        sharding = sharding_impls.physical_sharding(aval, sharding)
        aval = core.physical_aval(aval)
    if config.use_shardy_partitioner.value:
        return sharding._to_sdy_sharding(aval.ndim, modify_wrt_axis_types)
    return sharding._to_xla_hlo_sharding(aval.ndim).to_proto()


def is_single_device(ctx: ModuleContext) -> bool:
    """Whether the module runs on one device."""
    return getattr(ctx.axis_context, "num_devices", None) == 1


def needs_no_shardings(ctx: ModuleContext) -> bool:
    """Whether shardings are redundant, because there is only one device and no mesh."""
    mesh = getattr(ctx.axis_context, "abstract_mesh", None)
    return is_single_device(ctx) and (mesh is None or mesh.empty)


def is_for_one_device_here(ctx: ModuleContext) -> bool:
    """Whether the module is for one device of this process: neither exported nor with shardings."""
    return not ctx.lowering_parameters.for_export and needs_no_shardings(ctx)


def allows_cpu_forms(ctx: ModuleContext) -> bool:
    """Whether operations may be lowered to what is faster on CPUs, though not the same to the last bit."""
    return (
        ctx.platforms == ("cpu",)
        and is_for_one_device_here(ctx)
        and config.cpu_compile_profile.value != "original"
    )


# Operations that constrain a sharding


def wrap_with_sharding_op(
    ctx: LoweringRuleContext,
    x: Any,
    aval_out: Any,
    sharding: object,
    unspecified_dims: set[int] | None = None,
    has_side_effect: bool = False,
    allow_shardy_lowering: bool = True,
) -> Any:
    """Constrains `x` to `sharding`, which is in the compiler's form.

    Args:
      unspecified_dims: dimensions that GSPMD may shard as it chooses.
      has_side_effect: whether to keep the operation even if its result is not used.
      allow_shardy_lowering: whether to use Shardy's operation for a sharding in Shardy's form.
    """
    if isinstance(sharding, SdyArray) and allow_shardy_lowering:
        return sdy.ShardingConstraintOp(x, get_sharding_attr(ctx.module_context, sharding)).result
    return _spmd_custom_call(
        "Sharding", ctx, x, aval_out, sharding, unspecified_dims, has_side_effect
    )


def wrap_with_full_to_shard_op(
    ctx: LoweringRuleContext,
    x: Any,
    aval_out: Any,
    sharding: object,
    unspecified_dims: set[int] | None = None,
    has_side_effect: bool = False,
    allow_shardy_lowering: bool = False,
) -> Any:
    """Converts from the whole array to each device's shard (GSPMD)."""
    return _spmd_custom_call(
        "SPMDFullToShardShape", ctx, x, aval_out, sharding, unspecified_dims, has_side_effect
    )


def wrap_with_shard_to_full_op(
    ctx: LoweringRuleContext,
    x: Any,
    aval_out: Any,
    sharding: object,
    unspecified_dims: set[int] | None = None,
    has_side_effect: bool = False,
    allow_shardy_lowering: bool = False,
) -> Any:
    """Converts from each device's shard to the whole array (GSPMD)."""
    return _spmd_custom_call(
        "SPMDShardToFullShape", ctx, x, aval_out, sharding, unspecified_dims, has_side_effect
    )


def _spmd_custom_call(
    name: Any,
    ctx: Any,
    x: Any,
    aval_out: core.AbstractValue,
    sharding: object,
    unspecified_dims: Any,
    has_side_effect: bool,
) -> Any:
    backend_config = ""
    if unspecified_dims:
        dims = ",".join(map(str, sorted(unspecified_dims)))
        backend_config = f"unspecified_dims=[{dims}]"
    op = hlo.CustomCallOp(
        [aval_to_ir_type(ctx.module_context, aval_out)],
        [x],
        call_target_name=ir.StringAttr.get(name),
        has_side_effect=ir.BoolAttr.get(has_side_effect),
        backend_config=ir.StringAttr.get(backend_config),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        called_computations=ir.ArrayAttr.get([]),
    )
    set_sharding(ctx.module_context, op, sharding)
    return op.result


def lower_with_sharding_in_types(ctx: LoweringRuleContext, op: object, aval: AbstractValue) -> Any:
    """Constrains `op` to the sharding over explicit mesh axes in its type, if any."""
    sharding = getattr(aval, "_sharding", None)
    if sharding is None or sharding.mesh._are_all_axes_auto_or_manual:
        return op
    ir_sharding = to_ir_sharding(aval, sharding, modify_wrt_axis_types=True)
    unspecified = None
    if not isinstance(ir_sharding, SdyArray):
        unspecified = {i for i, s in enumerate(sharding.spec.partitions) if s is UNCONSTRAINED}
        if not sharding.mesh.are_all_axes_explicit:
            unspecified |= {i for i, s in enumerate(sharding.spec.partitions) if s is None}
    return wrap_with_sharding_op(ctx, op, aval, ir_sharding, unspecified)


def contains_unconstrained(s: object) -> bool:
    """Whether the compiler may choose the sharding of some dimension."""
    return isinstance(s, NamedSharding) and UNCONSTRAINED in s.spec.partitions


def all_unconstrained(s: object, aval: AbstractValue) -> bool:
    """Whether the compiler may choose the sharding of every dimension."""
    if not isinstance(s, NamedSharding) or aval.ndim != len(s.spec):
        return False
    return all(p is UNCONSTRAINED for p in s.spec.partitions)


def replicate_trailing_dims(ctx: LoweringRuleContext, val: object, aval: AbstractValue) -> Any:
    """Replicates the physical trailing dimensions of an array of an extended dtype."""
    if needs_no_shardings(ctx.module_context):
        return val
    physical = core.physical_aval(aval)
    if physical is aval:
        return val
    sharding = _trailing_replicated(ctx.module_context.axis_context, aval, physical)
    return wrap_with_sharding_op(ctx, val, physical, sharding)


def _trailing_replicated(axis_ctx: Any, aval: Any, physical: Any) -> Any:
    if config.use_shardy_partitioner.value:
        dims = tuple(SdyDim((), i < aval.ndim) for i in range(physical.ndim))
        return SdyArray(mesh_shape=None, dim_shardings=dims)
    if getattr(axis_ctx, "manual_axes", None):
        replicated = NamedSharding(axis_ctx.mesh, PartitionSpec())
        sharding = add_manual_axes(axis_ctx, replicated, physical.ndim)
        return sharding._to_xla_hlo_sharding(physical.ndim).to_proto()
    return sharding_impls.replicated_hlo_sharding().to_proto()


def add_manual_axes(axis_ctx: Any, sharding: Sharding, ndim: int) -> Any:
    """Adds the manual axes of an enclosing `shard_map` to the mesh of `sharding` (GSPMD)."""
    mesh = axis_ctx.mesh
    mesh = getattr(mesh, "abstract_mesh", mesh)
    if isinstance(sharding, NamedSharding) and sharding.mesh.shape == mesh.shape:
        spec = sharding.spec
    else:
        spec = sharding_impls.parse_flatten_op_sharding(sharding._to_xla_hlo_sharding(ndim), mesh)[
            0
        ]
    types = {name: AxisType.Manual for name in axis_ctx.manual_axes}
    return NamedSharding(mesh.update_axis_types(types), spec)


def sharded_aval(aval: AbstractValue, sharding: Sharding | None) -> Any:
    """Returns the type of one device's shard of a value."""
    if sharding is None or not isinstance(aval, core.ShapedArray):
        return aval
    return aval.update(shape=sharding.shard_shape(aval.shape), sharding=None)


# Memory kinds and layouts


def wrap_with_memory_kind(ctx: ModuleContext, x: Any, memory_kind: str, aval_out: object) -> Any:
    """Moves `x` to memory of the given kind."""
    if aval_out is None:
        result_type = x.type
    else:
        result_type = aval_to_ir_type(getattr(ctx, "module_context", ctx), aval_out)
    op = hlo.CustomCallOp(
        [result_type],
        [x],
        call_target_name=ir.StringAttr.get("annotate_device_placement"),
        has_side_effect=ir.BoolAttr.get(True),
        backend_config=ir.StringAttr.get(""),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        called_computations=ir.ArrayAttr.get([]),
    )
    op.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
        {"_xla_buffer_placement": ir.StringAttr.get(memory_kind)}
    )
    return op.result


def get_mem_kind(s: Any) -> str | None:
    return None if s is None or isinstance(s, sharding_impls.UnspecifiedValue) else s.memory_kind


def wrap_with_layout_op(
    ctx: LoweringRuleContext, x: Any, aval_out: Any, layout: Layout, aval_in: Any
) -> Any:
    """Constrains the layout of `x` in memory."""
    minor_to_major = dense_index_elements(layout.major_to_minor[::-1])
    op = hlo.CustomCallOp(
        [aval_to_ir_type(ctx.module_context, aval_out)],
        [x],
        call_target_name=ir.StringAttr.get("LayoutConstraint"),
        has_side_effect=ir.BoolAttr.get(False),
        backend_config=ir.StringAttr.get(""),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        called_computations=ir.ArrayAttr.get([]),
        operand_layouts=ir.ArrayAttr.get([minor_to_major]),
        result_layouts=ir.ArrayAttr.get([minor_to_major]),
    )
    return op.result


def dense_index_elements(xs: Sequence[int]) -> Any:
    values = np.array(xs, np.int64)
    return ir.DenseIntElementsAttr.get(values, type=ir.IndexType.get(), shape=values.shape)


def to_xla_layout(layout: Any, aval: AbstractValue) -> str | None:
    """Returns the value of `mhlo.layout_mode`: a layout, "default" or "auto"."""
    if layout is None:
        return "default"
    if layout is AutoLayout:
        return "auto"
    if not hasattr(aval, "dtype"):
        return "default"
    physical = core.physical_aval(aval)
    return str(layout._to_xla_layout(physical.dtype))
