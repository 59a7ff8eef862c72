"""Emitters of common operations, with static or dynamic shapes, that preserve shardings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters.mlir import own_broadcasts
from jax._src.interpreters.mlir.constants import (
    dense_int_array,
    ir_constant,
)
from jax._src.interpreters.mlir.context import LoweringRuleContext
from jax._src.interpreters.mlir.shardings import lower_with_sharding_in_types
from jax._src.interpreters.mlir.types import aval_to_ir_type, dtype_to_ir_type
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect, hlo

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue

# Any operation


def emit(
    name: str,
    operands: Sequence[Any],
    result_type: object = None,
    attributes: dict[str, Any] | None = None,
) -> Any:
    """Emits an operation with one result, bypassing the slow checks of its Python builder.

    Args:
      name: the full name, like "stablehlo.add".
      operands: IR values.
      result_type: the IR type of the result; inferred if None.
      attributes: all attributes that the operation needs, by name.

    Returns:
      The IR value of the result.
    """
    if result_type is None:
        return _create(name, None, operands, attributes, None, 0, None, None, True).result
    return _create(name, [result_type], operands, attributes).result


def _create(*args: object) -> Any:
    # Replaces itself on the first call, since MLIR is imported only when something is lowered.
    global _create
    _create = ir.Operation.create
    return _create(*args)


# Shapes


def shape_tensor(ctx: LoweringRuleContext, sizes: Sequence[Any]) -> Any:
    """Returns a 1-d int32 tensor of `sizes`, which are ints or 0-d integer IR values."""
    int1d = aval_to_ir_type(None, core.ShapedArray((1,), np.dtype(np.int32)))
    i32 = aval_to_ir_type(None, core.ShapedArray((), np.dtype(np.int32)))

    def one(d: Any) -> Any:
        if type(d) is int:
            return ir_constant(np.array([d], np.int32))
        if d.type != i32:
            d = hlo.convert(i32, d)
        return hlo.reshape(int1d, d)

    parts = [one(d) for d in sizes]
    if not parts:
        return ir_constant(np.array([], np.int32))
    if len(parts) == 1:
        return parts[0]
    return hlo.concatenate(parts, 0)


def eval_dynamic_shape(ctx: LoweringRuleContext, shape: Sequence[Any]) -> tuple[Any, ...]:
    """Replaces symbolic dimensions in `shape` by their IR values (0-d int32)."""
    if core.is_constant_shape(shape):
        return tuple(shape)
    return tuple(_eval_dim(ctx, d) for d in shape)


def _eval_dim(ctx: LoweringRuleContext, d: Any) -> Any:
    if type(d) is int:
        return d
    dim_vars = ctx.module_context.shape_poly_state.dim_vars
    values = dict(zip(dim_vars, ctx.dim_var_values))
    return d._lower(ctx, values)


def eval_dynamic_shape_as_vals(ctx: LoweringRuleContext, shape: Sequence[Any]) -> tuple[Any, ...]:
    """Like `eval_dynamic_shape`, but converts all dimensions to IR values."""
    return tuple(
        ir_constant(np.int32(d)) if type(d) is int else d for d in eval_dynamic_shape(ctx, shape)
    )


eval_dynamic_shape_as_ivals = eval_dynamic_shape


def eval_dynamic_shape_as_tensor(ctx: LoweringRuleContext, shape: Sequence[Any]) -> Any:
    """Returns `shape` as a 1-d int32 tensor."""
    return shape_tensor(ctx, eval_dynamic_shape(ctx, shape))


# Operations whose result type is given


def _sharded(ctx: LoweringRuleContext, op: object, aval_out: AbstractValue) -> Any:
    if getattr(aval_out, "_sharding", None) is None:
        return op
    return lower_with_sharding_in_types(ctx, op, aval_out)


def broadcast_in_dim(
    ctx: LoweringRuleContext,
    op: Any,
    aval_out: core.ShapedArray,
    *,
    broadcast_dimensions: Sequence[int],
) -> Any:
    """Broadcasts `op` to `aval_out`; its dimension i becomes `broadcast_dimensions[i]`."""
    physical = core.physical_aval(aval_out)
    if physical is not aval_out:
        extra = range(aval_out.ndim, physical.ndim)
        broadcast_dimensions = (*broadcast_dimensions, *extra)
    out_type = aval_to_ir_type(ctx.module_context, aval_out)
    if core.is_constant_shape(physical.shape):
        dims = ctx.module_context.attribute(dense_int_array, tuple(broadcast_dimensions))
        out = _create(
            "stablehlo.broadcast_in_dim", [out_type], [op], {"broadcast_dimensions": dims}
        ).result
    else:
        out = hlo.dynamic_broadcast_in_dim(
            out_type,
            op,
            eval_dynamic_shape_as_tensor(ctx, physical.shape),
            dense_int_array(broadcast_dimensions),
        )
    return _sharded(ctx, out, aval_out)


def multi_broadcast_in_dim(
    ctx: LoweringRuleContext,
    ops: Sequence[Any],
    ops_avals: Sequence[core.ShapedArray],
    out_shape: Sequence[Any],
    out_sharding: Any = None,
) -> Sequence[Any]:
    """Broadcasts each operand to `out_shape` by NumPy's rules."""
    out = []
    for op, aval in zip(ops, ops_avals):
        if aval.shape != tuple(out_shape):
            if aval.ndim > len(out_shape):
                raise ValueError(f"cannot broadcast the shape {aval.shape} to {tuple(out_shape)}")
            dims = range(len(out_shape) - aval.ndim, len(out_shape))
            if out_sharding is None and aval._sharding is None:
                target = core.ShapedArray(tuple(out_shape), aval.dtype)
            else:
                kw = {} if out_sharding is None else {"sharding": out_sharding}
                target = aval.update(shape=tuple(out_shape), **kw)
            if aval.ndim and own_broadcasts.is_wanted(ctx, aval, target.shape, ops, ops_avals):
                op = hlo.optimization_barrier([op])
            op = broadcast_in_dim(ctx, op, target, broadcast_dimensions=dims)
        out.append(op)
    return out


def reshape(ctx: LoweringRuleContext, op: Any, aval_out: core.ShapedArray) -> Any:
    """Reshapes `op` to the shape of `aval_out`."""
    physical = core.physical_aval(aval_out)
    out_type = aval_to_ir_type(ctx.module_context, aval_out)
    if core.is_constant_shape(physical.shape):
        out = _create("stablehlo.reshape", [out_type], [op]).result
    else:
        out = hlo.dynamic_reshape(out_type, op, eval_dynamic_shape_as_tensor(ctx, physical.shape))
    return _sharded(ctx, out, aval_out)


def slice_op(
    ctx: LoweringRuleContext,
    x: Any,
    aval_out: core.ShapedArray,
    *,
    start_indices: Sequence[Any],
    limit_indices: Sequence[Any],
    strides: Sequence[int],
) -> Any:
    """Returns `x[start:limit:stride, …]`; supports extended dtypes and symbolic dimensions."""
    physical = core.physical_aval(aval_out)
    extra = physical.shape[aval_out.ndim :]
    starts = [*start_indices, *([0] * len(extra))]
    limits = [*limit_indices, *extra]
    strides = [*strides, *([1] * len(extra))]
    if all(map(core.is_constant_shape, (starts, limits, strides))):
        out = hlo.slice(
            x, dense_int_array(starts), dense_int_array(limits), dense_int_array(strides)
        )
    else:
        out = hlo.real_dynamic_slice(
            aval_to_ir_type(ctx.module_context, aval_out),
            x,
            *(eval_dynamic_shape_as_tensor(ctx, v) for v in (starts, limits, strides)),
        )
    return _sharded(ctx, out, aval_out)


def dynamic_slice(
    ctx: LoweringRuleContext, aval_out: core.ShapedArray, x: Any, *, start_indices: Sequence[Any]
) -> Any:
    """Returns the block of `x` at `start_indices` (0-d IR values), with the shape of `aval_out`."""
    start_indices = list(start_indices)
    physical = core.physical_aval(aval_out)
    extra = physical.shape[aval_out.ndim :]
    if extra:
        dtype = dtype_to_ir_type(np.dtype(np.int32))
        if start_indices:
            zero_type = start_indices[0].type
            dtype = zero_type.element_type
        zero = hlo.constant(
            ir.DenseElementsAttr.get_splat(
                ir.RankedTensorType.get((), dtype), ir.IntegerAttr.get(dtype, 0)
            )
        )
        start_indices += [zero] * len(extra)
    slice_sizes = physical.shape
    if core.is_constant_shape(slice_sizes):
        out = hlo.dynamic_slice(x, start_indices, dense_int_array(slice_sizes))
    else:
        # For symbolic sizes: clamp the start like dynamic_slice, then use real_dynamic_slice.
        starts = shape_tensor(ctx, start_indices)
        sizes = eval_dynamic_shape_as_tensor(ctx, slice_sizes)
        x_shape = shape_tensor(ctx, [hlo.get_dimension_size(x, i) for i in range(len(slice_sizes))])
        limit = hlo.subtract(x_shape, sizes)
        zeros = ir_constant(np.zeros((len(slice_sizes),), np.int32))
        starts = hlo.clamp(zeros, starts, limit)
        out = hlo.real_dynamic_slice(
            aval_to_ir_type(ctx.module_context, aval_out),
            x,
            starts,
            hlo.add(starts, sizes),
            ir_constant(np.ones((len(slice_sizes),), np.int32)),
        )
    return _sharded(ctx, out, aval_out)


def dynamic_update_slice(
    ctx: LoweringRuleContext,
    aval_out: core.ShapedArray,
    x: Any,
    update: Any,
    *,
    start_indices: Sequence[Any],
) -> Any:
    """Replaces the block of `x` at `start_indices` by `update`."""
    start_indices = list(start_indices)
    extra = core.physical_aval(aval_out).ndim - aval_out.ndim
    if extra:
        zero_aval = core.ShapedArray((), np.dtype(np.int32))
        zero = ir_constant(np.int32(0))
        if start_indices and start_indices[0].type != aval_to_ir_type(None, zero_aval):
            zero = hlo.convert(start_indices[0].type, zero)
        start_indices += [zero] * extra
    out = hlo.dynamic_update_slice(x, update, start_indices)
    return _sharded(ctx, out, aval_out)


def pad(
    ctx: LoweringRuleContext,
    aval_out: core.ShapedArray,
    x: Any,
    padding_value: Any,
    padding_low: Sequence[Any],
    padding_high: Sequence[Any],
    padding_interior: Sequence[Any],
) -> Any:
    """Pads `x` with `padding_value`; negative amounts remove elements."""
    if all(map(core.is_constant_shape, (padding_low, padding_high, padding_interior))):
        out = hlo.pad(
            x,
            padding_value,
            dense_int_array(padding_low),
            dense_int_array(padding_high),
            dense_int_array(padding_interior),
        )
    else:
        out = hlo.dynamic_pad(
            aval_to_ir_type(ctx.module_context, aval_out),
            x,
            padding_value,
            *(
                eval_dynamic_shape_as_tensor(ctx, v)
                for v in (padding_low, padding_high, padding_interior)
            ),
        )
    return _sharded(ctx, out, aval_out)


def iota(ctx: LoweringRuleContext, aval_out: core.ShapedArray, *, dimension: int) -> Any:
    """Returns indices along `dimension`, with type `aval_out`."""
    out_type = aval_to_ir_type(ctx.module_context, aval_out)
    if core.is_constant_shape(aval_out.shape):
        out = hlo.iota(out_type, ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension))
    else:
        shape = eval_dynamic_shape_as_tensor(ctx, aval_out.shape)
        out = hlo.dynamic_iota(
            out_type, shape, ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)
        )
    return _sharded(ctx, out, aval_out)


def full_like_aval(ctx: LoweringRuleContext, value: object, aval: core.ShapedArray) -> Any:
    """Returns an array of type `aval` filled with the (Python or NumPy) scalar `value`."""
    zero = ir_constant(np.array(value, aval.dtype), aval=core.ShapedArray((), aval.dtype))
    return broadcast_in_dim(ctx, zero, aval, broadcast_dimensions=())


def add_jaxvals_lowering(ctx: LoweringRuleContext, x: Any, y: Any) -> Sequence[Any]:
    """The lowering rule of `add_any`, the sum of two cotangents of the same type."""
    (aval,) = ctx.avals_out
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return [dtypes.extended_rule(aval.dtype, "add")(ctx, x, y)]
    out = emit("stablehlo.add", [x, y])
    return [_sharded(ctx, out, aval)]


# Comparisons, minimum and maximum


def compare_hlo(x: Any, y: object, direction: str, comparison_type: str | None = None) -> Any:
    """Compares elementwise: `x <direction> y`.

    Args:
      x, y: IR values of the same type.
      direction: "EQ", "NE", "LT", "LE", "GT" or "GE".
      comparison_type: "FLOAT", "TOTALORDER", "SIGNED" or "UNSIGNED"; derived from the type if None.
    """
    if comparison_type is None:
        elem_type = ir.RankedTensorType(x.type).element_type
        if isinstance(elem_type, ir.IntegerType):
            unsigned = elem_type.is_unsigned or elem_type.width == 1
            comparison_type = "UNSIGNED" if unsigned else "SIGNED"
        else:
            comparison_type = "FLOAT"
    return hlo.compare(
        x,
        y,
        hlo.ComparisonDirectionAttr.get(direction),
        compare_type=hlo.ComparisonTypeAttr.get(comparison_type),
    )


def _minmax_hlo(op: Callable[..., Any], cmp: str, x: Any, y: object) -> Any:
    """Returns the minimum or maximum; complex numbers are compared lexicographically."""
    tensor_type = ir.RankedTensorType(x.type)
    if not isinstance(tensor_type.element_type, ir.ComplexType):
        return op(x, y)
    rx, ry = hlo.real(x), hlo.real(y)
    real_eq = compare_hlo(rx, ry, "EQ", "FLOAT")
    real_cmp = compare_hlo(rx, ry, cmp, "FLOAT")
    imag_cmp = compare_hlo(hlo.imag(x), hlo.imag(y), cmp, "FLOAT")
    which = hlo.select(real_eq, imag_cmp, real_cmp)
    return hlo.select(which, x, y)


def min_hlo(x: object, y: object) -> Any:
    return _minmax_hlo(hlo.minimum, "LT", x, y)


def max_hlo(x: object, y: object) -> Any:
    return _minmax_hlo(hlo.maximum, "GT", x, y)


def convert_hlo(ctx: LoweringRuleContext, x: Any, aval_in: Any, aval_out: Any) -> Any:
    """Converts `x` to the dtype of `aval_out`; to bool by comparison with zero."""
    if aval_out.dtype == np.dtype(np.bool_) and aval_in.dtype != np.dtype(np.bool_):
        # stablehlo.convert would truncate, and turn numbers between -1 and 1 into false.
        if dtypes.issubdtype(aval_in.dtype, np.inexact):
            compare_type = "FLOAT"
        elif dtypes.issubdtype(aval_in.dtype, np.signedinteger):
            compare_type = "SIGNED"
        else:
            compare_type = "UNSIGNED"
        zeros = full_like_aval(ctx, 0, core.ShapedArray(aval_in.shape, aval_in.dtype))
        return compare_hlo(x, zeros, "NE", compare_type)
    return emit("stablehlo.convert", [x], aval_to_ir_type(ctx.module_context, aval_out))


# Windows


def reduce_window(
    ctx: LoweringRuleContext,
    *,
    reducer_name: str,
    reducer_body: Callable[[Any], Sequence[Any]],
    operands: Sequence[Any],
    init_values: Sequence[Any],
    init_values_avals: Sequence[core.ShapedArray],
    out_avals: Sequence[core.ShapedArray],
    window_dimensions: Sequence[Any],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Any, Any]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Sequence[Any]:
    """Reduces over a sliding window.

    Args:
      reducer_name: the name of the reducer's function, if one is created.
      reducer_body: emits the reduction in the given block, whose arguments are two scalars per
        operand, and returns the results.
      operands, init_values: IR values, with one initial value per operand.
      init_values_avals, out_avals: abstract values of the initial values and of the results.
      window_dimensions, window_strides, padding, base_dilation, window_dilation: one entry per
        dimension.

    Returns:
      One IR value for each operand.
    """
    scalar_types = [aval_to_ir_type(ctx.module_context, a) for a in init_values_avals]
    out_types = [aval_to_ir_type(ctx.module_context, a) for a in out_avals]
    if core.is_constant_shape(window_dimensions) and all(map(core.is_constant_shape, padding)):
        op = hlo.ReduceWindowOp(
            out_types,
            operands,
            init_values,
            dense_int_array(window_dimensions),
            window_strides=dense_int_array(window_strides),
            base_dilations=dense_int_array(base_dilation),
            window_dilations=dense_int_array(window_dilation),
            padding=ir.DenseIntElementsAttr.get(
                np.asarray(padding, np.int64).reshape(len(padding), 2),
                shape=[len(padding), 2],
            ),
        )
        with ir.InsertionPoint(op.regions[0].blocks.append(*scalar_types, *scalar_types)):
            hlo.return_(reducer_body(op.regions[0].blocks[0]))
        return list(op.results)

    # For sizes known only at run time, emit a call that XLA's shape refinement makes static.
    func_type = ir.FunctionType.get(scalar_types + scalar_types, scalar_types)
    module_ctx = ctx.module_context
    with ir.InsertionPoint.at_block_begin(module_ctx.module.body):
        reducer = func_dialect.FuncOp(reducer_name, func_type)
    module_ctx.symbol_table.insert(reducer)
    block = reducer.add_entry_block()
    with ir.InsertionPoint(block):
        func_dialect.ReturnOp(reducer_body(block))
    pads = shape_tensor(ctx, [d for pair in padding for d in eval_dynamic_shape(ctx, pair)])
    pads = hlo.reshape(
        ir.RankedTensorType.get((len(padding), 2), ir.IntegerType.get_signless(32)), pads
    )
    call = hlo.CustomCallOp(
        out_types,
        [
            *operands,
            *init_values,
            eval_dynamic_shape_as_tensor(ctx, window_dimensions),
            eval_dynamic_shape_as_tensor(ctx, window_strides),
            eval_dynamic_shape_as_tensor(ctx, base_dilation),
            eval_dynamic_shape_as_tensor(ctx, window_dilation),
            pads,
        ],
        call_target_name=ir.StringAttr.get("stablehlo.dynamic_reduce_window"),
        called_computations=ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(reducer.name.value)]),
    )
    return list(call.results)
